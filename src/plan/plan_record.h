#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "plan/plan.h"
#include "plan/residency.h"

namespace dif::plan {

enum class DecisionKind : std::uint8_t {
  kFolded,     ///< an operation is computed at prepare
  kView,       ///< a value has the bytes of another one, and its operation does not run
  kArena,      ///< a value's place in the arena and when it lives
  kRegister,   ///< a value that never is in memory
  kGroup,      ///< an operation runs in a group
  kGroupEnd,   ///< an operation that could read inside a group is not in it
  kKernel,     ///< which kernel runs an operation
  kCandidate,  ///< a kernel that was asked and declined
  kPrepacked,  ///< bytes that a kernel keeps in a layout of its own
  kPlacement,  ///< where a constant is during runs
  kPrecision,  ///< number formats that were asked for
  kTarget,     ///< what the plan needs in order to run
};
inline constexpr std::size_t kDecisionKinds = 12;

enum class SubjectKind : std::uint8_t { kPlan, kOperation, kValue };

/// "folded", "view", "arena", "register", "group", "group-end", "kernel", "candidate", "prepacked",
/// "placement", "precision", "target"
std::string_view decision_kind_name(DecisionKind kind);

/// One thing that was decided, and why. Recorded when it is decided; nothing is inferred afterwards.
struct Decision {
  DecisionKind kind = DecisionKind::kKernel;
  SubjectKind subject = SubjectKind::kPlan;
  std::uint32_t id = 0;  ///< of the operation or value; 0 for the plan as a whole
  std::string verdict;
  std::string reason;

  friend bool operator==(const Decision&, const Decision&) = default;
};

/// A value as a plan places it; times are steps.
struct RecordedValue {
  Storage storage = Storage::kArena;
  ir::ValueId root = ir::kNoId;
  std::uint64_t offset = 0;  ///< of an arena value
  std::uint64_t bytes = 0;
  std::uint32_t first = 0;  ///< of an arena value
  std::uint32_t last = 0;

  friend bool operator==(const RecordedValue&, const RecordedValue&) = default;
};

struct RecordedStep {
  std::vector<ir::OpId> ops;  ///< one, or those of a group
  std::string kernel;         ///< empty: nothing runs (a view, a folded operation)
  std::uint64_t prepacked_bytes = 0;

  friend bool operator==(const RecordedStep&, const RecordedStep&) = default;
};

/// What a .difplan holds: one program on one backend. Its identity is what would run (program, backend, steps
/// with their kernels, places of values); decisions, totals and residency arithmetic are its provenance.
struct PlanRecord {
  std::string program;  ///< fingerprint
  std::string program_name;
  std::string backend;
  std::uint64_t arena_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t streamed_bytes = 0;
  std::uint64_t prepacked_bytes = 0;
  std::vector<RecordedValue> values;  ///< per value of the program
  std::vector<RecordedStep> steps;    ///< in the order of execution; every operation is in one of them
  std::optional<Residency> residency;
  std::vector<Decision> decisions;

  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

/// The record of a plan, with the decisions that the layout consists of. Kernels are still empty.
PlanRecord record_layout(const ir::Program& program, const Plan& plan, const std::vector<Refusal>& refusals,
                         std::string backend);

/// Adds the arithmetic for the weights that the record's steps read, and one decision for each of them. Pre:
/// the record is a plan of `program`.
void record_residency(PlanRecord& record, const ir::Program& program, const ResidencyRequest& request);

/// SHA-256 over what would run (docs/file-formats.md), as 64 hexadecimal characters.
std::string plan_identity(const PlanRecord& record);

}  // namespace dif::plan

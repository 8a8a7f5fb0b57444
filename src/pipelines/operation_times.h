#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "dif/backend_abi.h"
#include "ir/program.h"
#include "runtime/session.h"

namespace dif {

/// What a step of a plan has to do at least.
struct StepWork {
  double flops = 0;
  std::uint64_t bytes = 0;  ///< what it reads from memory, once, and what it writes there for others
};

/// The work of operations that one kernel executes; values between them stay inside.
/// Pre: `ops` are operations of `program`, in the order of execution.
StepWork step_work(const ir::Program& program, std::span<const ir::OpId> ops);

/// A step of a plan in the runs that were traced.
struct OperationTime {
  std::vector<ir::OpId> ops;  ///< one, or those of a group
  std::string name;           ///< of a group: its operations', joined by +
  std::string kernel;
  std::string module;     ///< of the reference framework
  ir::TensorType result;  ///< of the last operation
  std::uint64_t runs = 0;
  double seconds = 0;  ///< of one run, the median: the first one also loads what libraries run
  StepWork work;       ///< of one run
};

/// Collects the trace events of one program.
class OperationTimes {
 public:
  void record(const dif_trace_event& event);

  /// Slowest first. Which operations ran as a group is taken from `report`, as far as the backend tells.
  std::vector<OperationTime> of(const ir::Program& program, const runtime::PreparedReport& report) const;

 private:
  struct Step {
    std::string name, kernel;
    std::vector<std::uint64_t> nanoseconds;  ///< of each run
  };
  std::map<ir::OpId, Step> steps_;
};

/// Hands the events of a context to the program that runs.
class ProgramTraces {
 public:
  void begin(const std::string& program) { current_ = &times_[program]; }
  void record(const dif_trace_event& event) {
    if (current_ != nullptr) current_->record(event);
  }
  const OperationTimes& of(const std::string& program) { return times_[program]; }

 private:
  std::map<std::string, OperationTimes> times_;
  OperationTimes* current_ = nullptr;
};

/// One element for each step, as the documents of difrun and dif generate have it.
nlohmann::ordered_json operation_times_json(const std::vector<OperationTime>& times);

/// One line for each step.
std::string operation_times_text(const std::vector<OperationTime>& times);

/// One line for each kind of step: those with the same operations, kernel, result and work are added up.
/// Where there is none, a line that says so.
std::string operation_kinds_text(const std::vector<OperationTime>& times);

}  // namespace dif

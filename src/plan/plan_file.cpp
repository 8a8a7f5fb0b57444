#include "plan/plan_file.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "difplan_generated.h"
#include "io/atomic_file.h"
#include "io/digest.h"
#include "io/file.h"
#include "io/json.h"
#include "io/printable.h"
#include "io/sealed_envelope.h"
#include "ir/program_file.h"

namespace dif::plan {

namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kMaxBytes = 256ULL << 20;
constexpr std::size_t kMaxTables = 1 << 23;

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// --- encode -----------------------------------------------------------------------------------------------

Offset<fbs::PlanResidency> encode_residency(FlatBufferBuilder& out, const Residency& residency) {
  std::vector<fbs::PlanWeight> weights;
  for (const PlacedWeight& weight : residency.weights)
    weights.emplace_back(weight.bytes, weight.value, weight.resident);
  const auto weight_list = out.CreateVectorOfStructs(weights);
  return fbs::CreatePlanResidency(
      out, residency.request.budget_bytes, residency.request.fixed_runtime_bytes,
      static_cast<std::uint8_t>(residency.request.order), residency.request.prefetch_distance,
      residency.arena_bytes, residency.available_bytes, residency.resident_bytes, residency.streamed_bytes,
      residency.ring_bytes, residency.fits, weight_list);
}

std::vector<std::byte> encode_payload(const PlanRecord& record) {
  FlatBufferBuilder out;
  std::vector<fbs::PlanValue> values;
  for (const RecordedValue& value : record.values)
    values.emplace_back(value.offset, value.bytes, value.root, value.first, value.last,
                        static_cast<std::uint8_t>(value.storage));
  std::vector<Offset<fbs::PlanStep>> steps;
  for (const RecordedStep& step : record.steps) {
    const auto ops = out.CreateVector(step.ops);
    steps.push_back(fbs::CreatePlanStep(out, ops, out.CreateString(step.kernel), step.prepacked_bytes));
  }
  std::vector<Offset<fbs::PlanDecision>> decisions;
  for (const Decision& decision : record.decisions) {
    const auto verdict = out.CreateString(decision.verdict);
    decisions.push_back(fbs::CreatePlanDecision(out, static_cast<std::uint8_t>(decision.kind),
                                                static_cast<std::uint8_t>(decision.subject), decision.id,
                                                verdict, out.CreateString(decision.reason)));
  }
  const auto program = out.CreateString(record.program);
  const auto program_name = out.CreateString(record.program_name);
  const auto backend = out.CreateString(record.backend);
  const auto value_list = out.CreateVectorOfStructs(values);
  const auto step_list = out.CreateVector(steps);
  const auto residency =
      record.residency ? encode_residency(out, *record.residency) : Offset<fbs::PlanResidency>();
  const auto decision_list = out.CreateVector(decisions);
  out.Finish(fbs::CreatePlan(out, program, program_name, backend, record.arena_bytes, record.workspace_bytes,
                             record.resident_bytes, record.streamed_bytes, record.prepacked_bytes, value_list,
                             step_list, residency, decision_list));
  const auto* begin = reinterpret_cast<const std::byte*>(out.GetBufferPointer());
  return {begin, begin + out.GetSize()};
}

// --- meaning ----------------------------------------------------------------------------------------------

/// Everything about a record that does not depend on the program.
class Checker {
 public:
  explicit Checker(const PlanRecord& record) : record_(record) {}

  Status run() {
    if (!io::digest_from_hex(record_.program))
      return invalid_input("the program fingerprint is \"{}\", expected 64 hexadecimal characters",
                           io::printable(record_.program));
    DIF_TRY(check_text("the program name", record_.program_name));
    DIF_TRY(check_text("the backend", record_.backend));
    DIF_TRY(check_steps());
    for (ir::ValueId id = 0; id < record_.values.size(); ++id) DIF_TRY(check_value(id));
    if (record_.residency) DIF_TRY(check_residency(*record_.residency));
    for (const Decision& decision : record_.decisions) DIF_TRY(check_decision(decision));
    return ok();
  }

 private:
  static Status check_text(std::string_view what, const std::string& text) {
    if (io::first_invalid_utf8(text) == text.size()) return ok();
    return invalid_input("{} \"{}\" is not UTF-8", what, io::printable(text));
  }

  Status check_steps() {
    for (const RecordedStep& step : record_.steps) n_ops_ += step.ops.size();
    std::vector<bool> seen(n_ops_);
    std::uint64_t prepacked = 0;
    for (std::size_t i = 0; i < record_.steps.size(); ++i) {
      const RecordedStep& step = record_.steps[i];
      if (step.ops.empty()) return invalid_input("step {} has no operation", i);
      for (const ir::OpId op : step.ops) {
        if (op >= n_ops_ || seen[op])
          return invalid_input("step {} has operation {}, which is in another step or does not exist", i, op);
        seen[op] = true;
      }
      DIF_TRY(check_text("kernel", step.kernel));
      prepacked = saturating_add(prepacked, step.prepacked_bytes);
    }
    if (prepacked > record_.prepacked_bytes)
      return invalid_input("the steps keep {} prepacked bytes, the plan {}", prepacked,
                           record_.prepacked_bytes);
    return ok();
  }

  Status check_value(ir::ValueId id) const {
    const RecordedValue& value = record_.values[id];
    if (value.root >= record_.values.size() || record_.values[value.root].root != value.root)
      return invalid_input("value {} has the bytes of {}, which is none", id, value.root);
    const RecordedValue& root = record_.values[value.root];
    if (value.storage != root.storage || value.offset != root.offset || value.first != root.first ||
        value.last != root.last || value.bytes != root.bytes)
      return invalid_input("value {} has the bytes of {} and lies elsewhere", id, value.root);
    if (value.storage != Storage::kArena) {
      if (value.offset == 0 && value.first == 0 && value.last == 0) return ok();
      return invalid_input("value {} is not in the arena and has a place in it", id);
    }
    const auto end = checked_add(value.offset, value.bytes);
    if (value.offset % kArenaAlignment != 0 || !end || *end > record_.arena_bytes)
      return invalid_input("value {} (offset {}, {} bytes) lies outside the arena of {} bytes", id,
                           value.offset, value.bytes, record_.arena_bytes);
    if (value.first > value.last || value.last > record_.steps.size())
      return invalid_input("value {} lives in steps {} to {} of {}", id, value.first, value.last,
                           record_.steps.size());
    return ok();
  }

  Status check_residency(const Residency& residency) const {
    std::uint64_t resident = 0, streamed = 0;
    for (const PlacedWeight& weight : residency.weights) {
      if (weight.value >= record_.values.size() || record_.values[weight.value].bytes != weight.bytes)
        return invalid_input("weight {} of {} bytes is no value of the plan", weight.value, weight.bytes);
      std::uint64_t& sum = weight.resident ? resident : streamed;
      sum = saturating_add(sum, weight.bytes);
    }
    if (resident != residency.resident_bytes || streamed != residency.streamed_bytes)
      return invalid_input("{} resident and {} streamed bytes are not the sums of the weights",
                           residency.resident_bytes, residency.streamed_bytes);
    return ok();
  }

  Status check_decision(const Decision& decision) const {
    const std::size_t count = decision.subject == SubjectKind::kPlan        ? 1
                              : decision.subject == SubjectKind::kOperation ? n_ops_
                                                                            : record_.values.size();
    if (decision.id >= count)
      return invalid_input("a decision is about {} {}, there are {}",
                           decision.subject == SubjectKind::kValue ? "value" : "operation", decision.id,
                           count);
    DIF_TRY(check_text("verdict", decision.verdict));
    return check_text("reason", decision.reason);
  }

  const PlanRecord& record_;
  std::size_t n_ops_ = 0;
};

// --- decode -----------------------------------------------------------------------------------------------

/// Parts of a FlatBuffer may be pointed to from many places; the writer never does that. So what is copied
/// adds up to less than the file.
class Budget {
 public:
  explicit Budget(std::size_t bytes) : left_(bytes) {}
  Status take(std::size_t bytes) {
    if (bytes > left_) return invalid_input("parts of the plan overlap");
    left_ -= bytes;
    return ok();
  }

 private:
  std::size_t left_;
};

Result<std::string> read_text(const flatbuffers::String& text, Budget& budget) {
  DIF_TRY(budget.take(text.size()));
  return text.str();
}

/// Element i, copied as bytes: the verifier lets 8-byte numbers lie at multiples of 4.
template <class T>
T element(const flatbuffers::Vector<const T*>& list, std::uint32_t i) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, list.Data() + std::size_t{i} * sizeof(T), sizeof(T));
  return value;
}

Result<std::vector<RecordedValue>> read_values(const fbs::Plan& plan, Budget& budget) {
  std::vector<RecordedValue> values;
  DIF_TRY(budget.take(std::size_t{plan.values()->size()} * sizeof(fbs::PlanValue)));
  for (std::uint32_t i = 0; i < plan.values()->size(); ++i) {
    const auto value = element<fbs::PlanValue>(*plan.values(), i);
    if (value.storage() > static_cast<std::uint8_t>(Storage::kRegister))
      return invalid_input("value {} has the unknown storage {}", i, value.storage());
    values.push_back({static_cast<Storage>(value.storage()), value.root(), value.offset(), value.bytes(),
                      value.first(), value.last()});
  }
  return values;
}

Result<std::vector<RecordedStep>> read_steps(const fbs::Plan& plan, Budget& budget) {
  std::vector<RecordedStep> steps;
  for (const fbs::PlanStep* step : *plan.steps()) {
    DIF_TRY(budget.take(sizeof(flatbuffers::uoffset_t) * (3 + std::size_t{step->operations()->size()})));
    RecordedStep& out = steps.emplace_back();
    out.ops.resize(step->operations()->size());
    if (!out.ops.empty())
      std::memcpy(out.ops.data(), step->operations()->Data(), out.ops.size() * sizeof(ir::OpId));
    DIF_ASSIGN(out.kernel, read_text(*step->kernel(), budget));
    out.prepacked_bytes = step->prepacked_bytes();
  }
  return steps;
}

Result<Residency> read_residency(const fbs::PlanResidency& residency, Budget& budget) {
  if (residency.order() > static_cast<std::uint8_t>(ResidentOrder::kSpread))
    return invalid_input("the residency has the unknown order {}", residency.order());
  Residency out = {{residency.budget_bytes(), residency.fixed_runtime_bytes(),
                    static_cast<ResidentOrder>(residency.order()), residency.prefetch_distance()},
                   residency.arena_bytes(),
                   residency.available_bytes(),
                   residency.resident_bytes(),
                   residency.streamed_bytes(),
                   residency.ring_bytes(),
                   residency.fits(),
                   {}};
  DIF_TRY(budget.take(std::size_t{residency.weights()->size()} * sizeof(fbs::PlanWeight)));
  for (std::uint32_t i = 0; i < residency.weights()->size(); ++i) {
    const auto weight = element<fbs::PlanWeight>(*residency.weights(), i);
    out.weights.push_back({weight.value(), weight.bytes(), weight.resident()});
  }
  return out;
}

Result<std::vector<Decision>> read_decisions(const fbs::Plan& plan, Budget& budget) {
  std::vector<Decision> decisions;
  for (const fbs::PlanDecision* decision : *plan.decisions()) {
    DIF_TRY(budget.take(sizeof(flatbuffers::uoffset_t) * 4));
    if (decision->kind() >= kDecisionKinds ||
        decision->subject() > static_cast<std::uint8_t>(SubjectKind::kValue))
      return invalid_input("there is a decision of the unknown kind {} or subject {}", decision->kind(),
                           decision->subject());
    DIF_ASSIGN(std::string verdict, read_text(*decision->verdict(), budget));
    DIF_ASSIGN(std::string reason, read_text(*decision->reason(), budget));
    decisions.push_back({static_cast<DecisionKind>(decision->kind()),
                         static_cast<SubjectKind>(decision->subject()), decision->id(), std::move(verdict),
                         std::move(reason)});
  }
  return decisions;
}

Result<PlanRecord> decode_payload(std::span<const std::byte> payload) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(payload.data());
  flatbuffers::Verifier verifier(data, payload.size(), 16, kMaxTables);
  if (!fbs::VerifyPlanBuffer(verifier)) return invalid_input("its content is damaged; write it again");
  const fbs::Plan& plan = *fbs::GetPlan(data);
  Budget budget(payload.size());
  PlanRecord record;
  DIF_ASSIGN(record.program, read_text(*plan.program(), budget));
  DIF_ASSIGN(record.program_name, read_text(*plan.program_name(), budget));
  DIF_ASSIGN(record.backend, read_text(*plan.backend(), budget));
  record.arena_bytes = plan.arena_bytes();
  record.workspace_bytes = plan.workspace_bytes();
  record.resident_bytes = plan.resident_bytes();
  record.streamed_bytes = plan.streamed_bytes();
  record.prepacked_bytes = plan.prepacked_bytes();
  DIF_ASSIGN(record.values, read_values(plan, budget));
  DIF_ASSIGN(record.steps, read_steps(plan, budget));
  if (plan.residency() != nullptr) {
    DIF_ASSIGN(record.residency, read_residency(*plan.residency(), budget));
  }
  DIF_ASSIGN(record.decisions, read_decisions(plan, budget));
  DIF_TRY(Checker(record).run());
  if (!std::ranges::equal(encode_payload(record), payload))
    return invalid_input("its content is not in the one form that this program writes; write it again");
  return record;
}

}  // namespace

Result<std::vector<std::byte>> encode_plan(const PlanRecord& record) {
  DIF_TRY(Checker(record).run());
  return io::seal(io::kPlanKind, kVersion, encode_payload(record));
}

Status write_plan(const std::filesystem::path& path, const PlanRecord& record) {
  DIF_ASSIGN(const std::vector<std::byte> file, encode_plan(record));
  return io::write_atomically(path, file);
}

Result<PlanRecord> parse_plan(std::span<const std::byte> file, std::string_view source) {
  DIF_ASSIGN(const io::SealedPayload sealed, io::open_sealed(file, source, io::kPlanKind, {kVersion}));
  Result<PlanRecord> record = decode_payload(sealed.payload);
  if (!record) record.error().message = fmt::format("{}: {}", source, record.error().message);
  return record;
}

Result<PlanRecord> read_plan(const std::filesystem::path& path) {
  DIF_ASSIGN(const std::vector<std::byte> file, io::read_file(path, kMaxBytes));
  return parse_plan(file, path.native());
}

Status check_plan_of(const PlanRecord& record, std::string_view plan_source, const ir::Program& program,
                     std::string_view program_source) {
  if (record.program == ir::fingerprint(program)) return ok();
  return invalid_input("{} is a plan of program {} ({}), not of {}", plan_source,
                       io::printable(record.program_name), record.program.substr(0, 16), program_source);
}

}  // namespace dif::plan

#include "plan/plan_record.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "io/digest.h"
#include "ir/program_file.h"

namespace dif::plan {

namespace {

using ir::OpId;
using ir::Program;
using ir::ValueId;

class LayoutRecorder {
 public:
  LayoutRecorder(const Program& program, const Plan& plan, PlanRecord& record)
      : program_(program), plan_(plan), record_(record) {}

  void run(const std::vector<Refusal>& refusals) {
    for (const Step& step : plan_.steps) {
      if (step.group == ir::kNoId)
        record_.steps.push_back({{step.op}, "", 0});
      else
        record_.steps.push_back({plan_.groups[step.group].ops, "", 0});
    }
    for (OpId id = 0; id < program_.ops.size(); ++id)
      if (plan_.folded[id] && !program_.ops[id].def->is_view)
        operation(DecisionKind::kFolded, id, "computed at prepare", "its operands are constants");
    for (OpId id = 0; id < program_.ops.size(); ++id) view(id);
    for (const OpId id : plan_.in_place) in_place(id);
    for (std::size_t i = 0; i < plan_.groups.size(); ++i) group(i);
    for (const Refusal& refusal : refusals)
      operation(DecisionKind::kGroupEnd, refusal.op,
                fmt::format("not in a group with operation {} ({})", refusal.producer,
                            program_.ops[refusal.producer].def->name),
                refusal.reason);
    for (ValueId id = 0; id < program_.values.size(); ++id) place(id);
  }

 private:
  void operation(DecisionKind kind, OpId id, std::string verdict, std::string reason) {
    record_.decisions.push_back({kind, SubjectKind::kOperation, id, std::move(verdict), std::move(reason)});
  }
  void value(DecisionKind kind, ValueId id, std::string verdict, std::string reason) {
    record_.decisions.push_back({kind, SubjectKind::kValue, id, std::move(verdict), std::move(reason)});
  }

  void view(OpId id) {
    if (!program_.ops[id].def->is_view) return;
    const ValueId result = program_.ops[id].results.front();
    operation(DecisionKind::kView, id, "nothing runs",
              fmt::format("%{} has the bytes of %{}", result, plan_.values[result].root));
  }

  void in_place(OpId id) {
    const ir::Op& op = program_.ops[id];
    const bool slice = op.def->row_rule == ir::RowRule::kSlice;
    operation(DecisionKind::kView, id, "nothing runs",
              slice ? fmt::format("%{} is read where it lies in %{}", op.results.front(), op.operands.front())
                    : fmt::format("its operands are written where they lie in %{}", op.results.front()));
  }

  void group(std::size_t index) {
    const Group& group = plan_.groups[index];
    std::string names;
    for (const OpId op : group.ops)
      names += fmt::format("{}{} {}", names.empty() ? "" : ", ", op, program_.ops[op].def->name);
    for (const OpId op : group.ops)
      operation(DecisionKind::kGroup, op, fmt::format("group {}", index),
                fmt::format("{} rows go through {} together", group.rows, names));
  }

  void place(ValueId id) {
    const Placement& place = plan_.values[id];
    const bool in_arena = place.storage == Storage::kArena;
    record_.values.push_back({place.storage, place.root, in_arena ? place.offset : 0,
                              program_.type(id).bytes(), in_arena ? place.life.first : 0,
                              in_arena ? place.life.last : 0});
    if (place.root != id) {
      value(DecisionKind::kView, id, fmt::format("has the bytes of %{}", place.root),
            fmt::format("{} keeps the elements and their order",
                        program_.ops[program_.values[id].producer].def->name));
    } else if (place.host != ir::kNoId) {
      value(DecisionKind::kView, id, fmt::format("lies inside %{}", place.host),
            fmt::format("from byte {} of it, {}", place.offset - plan_.values[place.host].offset,
                        place.pitch.dense()
                            ? "side by side"
                            : fmt::format("{} elements every {}", place.pitch.run, place.pitch.pitch)));
    } else if (in_arena) {
      value(DecisionKind::kArena, id, fmt::format("arena {} + {}", place.offset, program_.type(id).bytes()),
            place.life.last == plan_.steps.size()
                ? fmt::format("lives from step {} to the end of a run: an output", place.life.first)
                : fmt::format("lives in steps {} to {}", place.life.first, place.life.last));
    } else if (place.storage == Storage::kRegister) {
      value(DecisionKind::kRegister, id, "never in memory", "only its own group reads it");
    }
  }

  const Program& program_;
  const Plan& plan_;
  PlanRecord& record_;
};

/// Feeds numbers and texts to a digest so that no two sequences of them give the same bytes.
class FieldStream {
 public:
  void add(std::uint64_t number) {
    std::array<std::byte, 8> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(number >> (8 * i));
    hash_.update(bytes);
  }
  void add(std::string_view text) {
    add(text.size());
    hash_.update(text);
  }
  std::string finish() { return io::hex(hash_.finish()); }

 private:
  io::Sha256 hash_;
};

}  // namespace

std::string_view decision_kind_name(DecisionKind kind) {
  constexpr std::array<std::string_view, kDecisionKinds> kNames = {
      "folded", "view",      "arena",     "register",  "group",     "group-end",
      "kernel", "candidate", "prepacked", "placement", "precision", "target"};
  return kNames.at(static_cast<std::size_t>(kind));
}

PlanRecord record_layout(const Program& program, const Plan& plan, const std::vector<Refusal>& refusals,
                         std::string backend) {
  PlanRecord record;
  record.program = ir::fingerprint(program);
  record.program_name = program.name;
  record.backend = std::move(backend);
  record.arena_bytes = plan.arena_bytes;
  LayoutRecorder(program, plan, record).run(refusals);
  return record;
}

void record_residency(PlanRecord& record, const Program& program, const ResidencyRequest& request) {
  WeightUse use;
  std::vector<std::uint32_t> index(record.values.size(), ir::kNoId);
  for (const RecordedStep& step : record.steps) {
    std::vector<std::uint32_t> reads;
    double flop = 0;
    for (const OpId op : step.ops) {
      const ir::Op& node = program.ops[op];
      if (node.def->is_view || record.values[node.results.front()].storage == Storage::kFolded) continue;
      flop += ir::flops(program.view(op));
      for (const ValueId operand : node.operands) {
        const RecordedValue& value = record.values[operand];
        if (value.storage != Storage::kConstant && value.storage != Storage::kFolded) continue;
        if (index[value.root] == ir::kNoId) {
          index[value.root] = static_cast<std::uint32_t>(use.weights.size());
          use.weights.push_back({value.root, record.values[value.root].bytes, false});
        }
        if (std::ranges::count(reads, index[value.root]) == 0) reads.push_back(index[value.root]);
      }
    }
    use.add_step(std::move(reads), flop);
  }
  Residency residency = place_weights(std::move(use), record.arena_bytes, request);
  for (const PlacedWeight& weight : residency.weights)
    record.decisions.push_back(
        {DecisionKind::kPlacement, SubjectKind::kValue, weight.value,
         weight.resident ? "resident" : "streamed",
         weight.resident ? fmt::format("{} bytes are admitted in order {}", weight.bytes,
                                       order_name(residency.request.order))
                         : fmt::format("{} bytes more and the ring of what is left exceed {} available bytes",
                                       weight.bytes, residency.available_bytes)});
  record.residency = std::move(residency);
}

std::string plan_identity(const PlanRecord& record) {
  FieldStream stream;
  stream.add("difplan 1");
  stream.add(record.program);
  stream.add(record.backend);
  stream.add(record.arena_bytes);
  stream.add(record.steps.size());
  for (const RecordedStep& step : record.steps) {
    stream.add(step.ops.size());
    for (const OpId op : step.ops) stream.add(op);
    stream.add(step.kernel);
  }
  stream.add(record.values.size());
  for (const RecordedValue& value : record.values) {
    stream.add(static_cast<std::uint64_t>(value.storage));
    stream.add(value.root);
    stream.add(value.offset);
  }
  if (record.residency)
    for (const PlacedWeight& weight : record.residency->weights) {
      stream.add(weight.value);
      stream.add(weight.resident ? 1 : 0);
    }
  return stream.finish();
}

}  // namespace dif::plan

#include "pipelines/operation_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "io/json.h"
#include "io/printable.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "ops/slice/slice.op.h"
#include "plan/lifetimes.h"

namespace dif {

namespace {

using ir::OpId;
using ir::ValueId;

constexpr std::size_t kMaxNameBytes = 400;

/// Such an operation reads no more of its first operand than it writes.
bool reads_a_part(const ir::Op& op) {
  return op.def == &ops::kSlice || op.def == &ops::kGatherRows;
}

std::uint64_t bytes_read(const ir::Program& program, const std::vector<ValueId>& roots,
                         std::span<const OpId> group, const std::set<ValueId>& inside) {
  std::uint64_t bytes = 0;
  std::set<ValueId> whole;
  for (const OpId id : group) {
    const ir::Op& op = program.ops[id];
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId root = roots[op.operands[i]];
      if (inside.contains(root)) continue;
      if (i == 0 && reads_a_part(op))
        bytes += program.type(op.results.front()).bytes();
      else if (whole.insert(root).second)
        bytes += program.type(root).bytes();
    }
  }
  return bytes;
}

/// Of the values inside, those that something outside reads.
std::set<ValueId> needed_outside(const ir::Program& program, const std::vector<ValueId>& roots,
                                 std::span<const OpId> group, const std::set<ValueId>& inside) {
  std::set<ValueId> needed;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    if (program.ops[id].def->is_view || std::ranges::find(group, id) != group.end()) continue;
    for (const ValueId operand : program.ops[id].operands)
      if (inside.contains(roots[operand])) needed.insert(roots[operand]);
  }
  for (const ir::Output& output : program.outputs)
    if (inside.contains(roots[output.value])) needed.insert(roots[output.value]);
  return needed;
}

/// By the first operation of each: the groups that the backend reports. Its document is not ours: what does
/// not look as expected is left out.
std::map<OpId, std::vector<OpId>> groups_of(const ir::Program& program, const std::string& details) {
  std::map<OpId, std::vector<OpId>> groups;
  const nlohmann::json parsed = io::plugin_document(details);
  if (!parsed.is_object() || !parsed.contains("groups") || !parsed["groups"].is_array()) return groups;
  for (const auto& group : parsed["groups"]) {
    if (!group.is_object() || !group.contains("operations") || !group["operations"].is_array()) continue;
    std::vector<OpId> ids;
    for (const auto& id : group["operations"])
      if (id.is_number_unsigned() && id.get<std::uint64_t>() < program.ops.size())
        ids.push_back(id.get<OpId>());
    if (ids.size() == group["operations"].size() && !ids.empty() && group.contains("kernel"))
      groups.emplace(ids.front(), std::move(ids));
  }
  return groups;
}

double median(std::vector<std::uint64_t> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  const auto above = static_cast<double>(values[half]);
  return values.size() % 2 != 0 ? above : (above + static_cast<double>(values[half - 1])) / 2;
}

double rate(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

/// "  GFLOP/s     GB/s": of a step that does one multiplication a byte the first says nothing, and is dashed.
std::string rates_text(const StepWork& work, double seconds) {
  constexpr double kFewFlopsPerByte = 16;
  const bool computes = work.flops > kFewFlopsPerByte * static_cast<double>(work.bytes);
  return fmt::format("{:>8} {:>8.1f}",
                     computes ? fmt::format("{:.0f}", rate(work.flops, seconds) * 1e-9) : std::string("-"),
                     rate(static_cast<double>(work.bytes), seconds) * 1e-9);
}

double total_of(const std::vector<OperationTime>& times) {
  double total = 0;
  for (const OperationTime& time : times) total += time.seconds * static_cast<double>(time.runs);
  return total;
}

}  // namespace

StepWork step_work(const ir::Program& program, std::span<const OpId> ops) {
  const std::vector<ValueId> roots = plan::view_roots(program);
  StepWork work;
  std::set<ValueId> inside;
  for (const OpId id : ops) {
    work.flops += ir::flops(program.view(id));
    for (const ValueId result : program.ops[id].results) inside.insert(roots[result]);
  }
  work.bytes = bytes_read(program, roots, ops, inside);
  for (const ValueId value : needed_outside(program, roots, ops, inside))
    work.bytes += program.type(value).bytes();
  return work;
}

void OperationTimes::record(const dif_trace_event& event) {
  Step& step = steps_[event.operation];
  const auto text = [](const char* found) {
    return found == nullptr ? std::string("?") : io::printable(found, kMaxNameBytes);
  };
  if (step.nanoseconds.empty()) {
    step.name = text(event.op_name);
    step.kernel = text(event.kernel);
  }
  step.nanoseconds.push_back(event.nanoseconds);
}

std::vector<OperationTime> OperationTimes::of(const ir::Program& program,
                                              const runtime::PreparedReport& report) const {
  const auto groups = groups_of(program, report.details);
  const auto& modules = program.provenance.op_modules;
  std::vector<OperationTime> times;
  for (const auto& [op, step] : steps_) {
    if (op >= program.ops.size()) continue;
    OperationTime& time = times.emplace_back();
    const auto group = groups.find(op);
    time.ops = group == groups.end() ? std::vector<OpId>{op} : group->second;
    time.name = step.name;
    time.kernel = step.kernel;
    if (op < modules.size()) time.module = modules[op];
    time.runs = step.nanoseconds.size();
    time.seconds = median(step.nanoseconds) * 1e-9;
    time.result = program.type(program.ops[time.ops.back()].results.front());
    time.work = step_work(program, time.ops);
  }
  std::ranges::stable_sort(
      times, [](const OperationTime& a, const OperationTime& b) { return a.seconds > b.seconds; });
  return times;
}

nlohmann::ordered_json operation_times_json(const std::vector<OperationTime>& times) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const OperationTime& time : times)
    list.push_back({{"operation", time.ops.front()},
                    {"operations", time.ops},
                    {"name", time.name},
                    {"kernel", time.kernel},
                    {"module", time.module},
                    {"runs", time.runs},
                    {"seconds", time.seconds},
                    {"result", fmt::format("{}", time.result)},
                    {"flops", time.work.flops},
                    {"bytes", time.work.bytes}});
  return list;
}

std::string operation_times_text(const std::vector<OperationTime>& times) {
  const double total = total_of(times);
  std::string text = fmt::format("{:>9} {:>12} {:>6} {:>8} {:>8}  {:<18} {:<22} module\n", "operation",
                                 "microseconds", "share", "GFLOP/s", "GB/s", "name", "kernel");
  for (const OperationTime& time : times)
    text += fmt::format("{:>9} {:>12.1f} {:>5.1f}% {}  {:<18} {:<22} {}\n", time.ops.front(),
                        1e6 * time.seconds, 100 * rate(time.seconds * static_cast<double>(time.runs), total),
                        rates_text(time.work, time.seconds), time.name, time.kernel, time.module);
  return text;
}

std::string operation_kinds_text(const std::vector<OperationTime>& times) {
  if (times.empty()) return "nothing ran\n";
  struct Kind {
    const OperationTime* example = nullptr;
    std::uint64_t runs = 0;
    double seconds = 0;  // of all runs, had each taken the median
  };
  std::map<std::tuple<std::string, std::string, std::string, double, std::uint64_t>, Kind> kinds;
  for (const OperationTime& time : times) {
    Kind& kind =
        kinds[{time.name, time.kernel, fmt::format("{}", time.result), time.work.flops, time.work.bytes}];
    if (kind.example == nullptr) kind.example = &time;
    kind.runs += time.runs;
    kind.seconds += time.seconds * static_cast<double>(time.runs);
  }
  std::vector<Kind> sorted;
  for (const auto& [key, kind] : kinds) sorted.push_back(kind);
  std::ranges::stable_sort(sorted, [](const Kind& a, const Kind& b) { return a.seconds > b.seconds; });
  const double total = total_of(times);
  std::string text =
      fmt::format("{:>10} {:>6} {:>6} {:>12} {:>8} {:>8}  {:<22} operations -> last result\n", "milliseconds",
                  "share", "runs", "microseconds", "GFLOP/s", "GB/s", "kernel");
  for (const Kind& kind : sorted) {
    const double each = kind.seconds / static_cast<double>(kind.runs);
    text += fmt::format("{:>12.3f} {:>5.1f}% {:>6} {:>12.1f} {}  {:<22} {} -> {}\n", 1e3 * kind.seconds,
                        100 * rate(kind.seconds, total), kind.runs, 1e6 * each,
                        rates_text(kind.example->work, each), kind.example->kernel, kind.example->name,
                        kind.example->result);
  }
  return text;
}

}  // namespace dif

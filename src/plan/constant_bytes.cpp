#include "plan/constant_bytes.h"

#include <algorithm>

namespace dif::plan {

namespace {

using Runs = std::vector<ConstantBytes>;

constexpr std::size_t kMostRuns = 256;

/// Appends bytes [offset, offset + bytes) of what `from` lists; runs that continue each other become one.
void append(Runs& to, const Runs& from, std::uint64_t offset, std::uint64_t bytes) {
  for (const ConstantBytes& run : from) {
    if (offset >= run.bytes) {
      offset -= run.bytes;
      continue;
    }
    const std::uint64_t part = std::min(bytes, run.bytes - offset);
    if (part == 0) return;
    const ConstantBytes piece = {run.constant, run.offset + offset, part};
    if (!to.empty() && to.back().constant == piece.constant &&
        to.back().offset + to.back().bytes == piece.offset)
      to.back().bytes += part;
    else
      to.push_back(piece);
    bytes -= part;
    offset = 0;
  }
}

/// How often something along `axis` repeats, and the bytes of one element of the axis.
struct Strides {
  std::uint64_t outer = 1, element = 1;
};
Strides strides(const ir::TensorType& type, std::int64_t axis) {
  Strides result;
  result.element = dtype_size(type.dtype);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(type.rank()); ++i) {
    const auto extent = static_cast<std::uint64_t>(type.dim(static_cast<int>(i)));
    if (i < axis) result.outer *= extent;
    if (i > axis) result.element *= extent;
  }
  return result;
}

}  // namespace

std::optional<Runs> constant_bytes(const ir::Program& program, ir::ValueId value) {
  const ir::ValueInfo& info = program.values[value];
  if (info.kind == ir::ValueKind::kConstant) return Runs{{value, 0, info.type.bytes()}};
  if (info.kind != ir::ValueKind::kResult) return std::nullopt;
  const ir::Op& op = program.ops[info.producer];
  if (op.def->is_view) return constant_bytes(program, op.operands.front());
  const bool slice = op.def->row_rule == ir::RowRule::kSlice,
             concat = op.def->row_rule == ir::RowRule::kConcat;
  if (!slice && !concat) return std::nullopt;

  const ir::OpView view = program.view(info.producer);
  const std::int64_t axis = view.i64("axis");
  const auto first = static_cast<std::uint64_t>(slice ? view.i64("start") : 0);
  const std::uint64_t outer = strides(info.type, axis).outer;
  if (outer > kMostRuns) return std::nullopt;
  Runs runs;
  std::vector<Runs> parts;
  for (const ir::ValueId operand : op.operands) {
    auto part = constant_bytes(program, operand);
    if (!part) return std::nullopt;
    parts.push_back(std::move(*part));
  }
  for (std::uint64_t i = 0; i < outer; ++i)
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const ir::TensorType& type = view.in(p);
      const std::uint64_t element = strides(type, axis).element;
      const std::uint64_t whole = element * static_cast<std::uint64_t>(type.dim(static_cast<int>(axis)));
      const std::uint64_t taken =
          slice ? element * static_cast<std::uint64_t>(info.type.dim(static_cast<int>(axis))) : whole;
      append(runs, parts[p], i * whole + first * element, taken);
      if (runs.size() > kMostRuns) return std::nullopt;
    }
  return runs;
}

}  // namespace dif::plan

#include <algorithm>

#include <fmt/format.h>

#include "ops/linear/linear.op.h"
#include "ops/slice/slice.op.h"
#include "opt/few_rows.h"
#include "opt/names.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

using ir::OpId;
using ir::ValueId;

/// Narrower products do not keep a matrix unit busy.
constexpr std::int64_t kLeastColumns = 32;

/// The slices that read a linear's result, when they are all that reads it and no column is in two of them.
std::vector<OpId> column_slices(const Editor& editor, ValueId result) {
  const std::int64_t last = editor.type(result).rank() - 1;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const OpId reader : editor.readers(result)) {
    const ir::Op& op = editor.op(reader);
    if (op.def != &ops::kSlice || op.attrs[0] != ir::Attr(last)) return {};
    ranges.emplace_back(std::get<std::int64_t>(op.attrs[1]), std::get<std::int64_t>(op.attrs[2]));
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].second - ranges[i].first < kLeastColumns) return {};
    if (i != 0 && ranges[i].first < ranges[i - 1].second) return {};
  }
  return editor.is_output(result) ? std::vector<OpId>() : editor.readers(result);
}

Status split(Editor& editor, OpId id, const std::vector<OpId>& slices) {
  const ir::Op linear = editor.op(id);
  for (const OpId slice_id : slices) {
    const ir::Op slice = editor.op(slice_id);
    std::vector<ValueId> operands = {linear.operands[0]};
    for (std::size_t i = 1; i < linear.operands.size(); ++i) {
      DIF_ASSIGN(const ValueId rows, editor.emit(slice_id, ops::kSlice, {linear.operands[i]},
                                                 {std::int64_t{0}, slice.attrs[1], slice.attrs[2]}));
      operands.push_back(rows);
    }
    DIF_ASSIGN(const ValueId columns, editor.emit(slice_id, ops::kLinear, std::move(operands), {}, id));
    editor.replace(slice.results[0], columns);
  }
  return ok();
}

Status split_all(Editor& editor, Decisions& decisions) {
  for (const OpId id : editor.order()) {
    if (!editor.is_alive(id) || editor.op(id).def != &ops::kLinear) continue;
    const ir::Op& linear = editor.op(id);
    const bool constant_weights = std::all_of(linear.operands.begin() + 1, linear.operands.end(),
                                              [&](ValueId v) { return editor.is_constant(v); });
    if (editor.is_constant(linear.results[0])) continue;  // computed once, at prepare
    if (!constant_weights || rows_of_linear(editor.view(id)) <= kFewRows) continue;
    const std::vector<OpId> slices = column_slices(editor, linear.results[0]);
    if (slices.size() < 2) continue;
    decisions.push_back({"", subject_of(editor.program(), id), "split",
                         fmt::format("{} products instead of one and copies of its columns", slices.size())});
    DIF_TRY(split(editor, id, slices));
  }
  return ok();
}

}  // namespace

const Pass kSplitLinears = {
    .name = "split_linears",
    .summary = "Make a linear that is read by slices of its columns one product per slice.",
    .function = split_all,
};

}  // namespace dif::opt

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ops/concat/concat.op.h"
#include "ops/linear/linear.op.h"
#include "ops/slice/slice.op.h"
#include "opt/few_rows.h"
#include "opt/names.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

using ir::OpId;
using ir::ValueId;

/// Of the operations that make one constant weight: a cast, a slice, a reshape.
constexpr int kMaxWeightOps = 8;

/// Emits what `value` is made of before `before`, where it may be computed too late. Pre: it is constant.
class ConstantCopier {
 public:
  ConstantCopier(Editor& editor, OpId before) : editor_(editor), before_(before) {}

  Result<ValueId> copy(ValueId value) {
    if (editor_.producer(value) == nullptr) return value;
    const ir::Op op = *editor_.producer(value);
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) {
      DIF_ASSIGN(const ValueId copied, copy(operand));
      operands.push_back(copied);
    }
    return editor_.emit(before_, *op.def, std::move(operands), op.attrs);
  }

 private:
  Editor& editor_;
  OpId before_;
};

/// Operations behind a constant value; more than kMaxWeightOps are not counted.
int operations_behind(const Editor& editor, ValueId value) {
  const ir::Op* op = editor.producer(value);
  if (op == nullptr) return 0;
  int count = 1;
  for (const ValueId operand : op->operands)
    if (count <= kMaxWeightOps) count += operations_behind(editor, operand);
  return count;
}

bool has_constant_weights(const Editor& editor, const ir::Op& linear) {
  return std::all_of(linear.operands.begin() + 1, linear.operands.end(), [&](ValueId v) {
    return editor.is_constant(v) && operations_behind(editor, v) <= kMaxWeightOps;
  });
}

/// The columns of all of them; a shape may have up to 2^40.
bool fit_together(const Editor& editor, const std::vector<OpId>& linears) {
  constexpr std::int64_t kMaxColumns = std::int64_t{1} << 24, kMaxElements = std::int64_t{1} << 40;
  std::int64_t columns = 0;
  for (const OpId id : linears) {
    const ir::TensorType& w = editor.type(editor.op(id).operands[1]);
    if (w.dim(0) > kMaxColumns || w.numel() > kMaxElements) return false;
    columns += w.dim(0);
    if (columns > kMaxColumns || columns * w.dim(1) > kMaxElements) return false;
  }
  return true;
}

Status join(Editor& editor, const std::vector<OpId>& linears, Decisions& decisions) {
  const OpId first = linears.front();
  const ir::Op like = editor.op(first);
  std::vector<ValueId> operands = {like.operands[0]};
  for (std::size_t i = 1; i < like.operands.size(); ++i) {
    std::vector<ValueId> parts;
    for (const OpId id : linears) {
      DIF_ASSIGN(const ValueId part, ConstantCopier(editor, first).copy(editor.op(id).operands[i]));
      parts.push_back(part);
    }
    DIF_ASSIGN(const ValueId joined, editor.emit(first, ops::kConcat, std::move(parts), {std::int64_t{0}}));
    operands.push_back(joined);
  }
  DIF_ASSIGN(const ValueId whole, editor.emit(first, ops::kLinear, std::move(operands), {}));
  const std::int64_t axis = editor.type(whole).rank() - 1;
  std::int64_t start = 0;
  std::vector<ValueId> parts;
  for (const OpId id : linears) {
    const std::int64_t end = start + editor.type(editor.op(id).results[0]).dim(-1);
    DIF_ASSIGN(const ValueId columns, editor.emit(first, ops::kSlice, {whole}, {axis, start, end}, id));
    parts.push_back(columns);
    start = end;
  }
  for (std::size_t i = 0; i < linears.size(); ++i) {
    decisions.push_back(
        {"", subject_of(editor.program(), linears[i]), "joined",
         fmt::format("one product with {} others that read the same rows", linears.size() - 1)});
    editor.replace(editor.op(linears[i]).results[0], parts[i]);
  }
  return ok();
}

Status join_all(Editor& editor, Decisions& decisions) {
  std::map<std::pair<ValueId, std::size_t>, std::vector<OpId>> groups;  // by x, and with or without a bias
  for (const OpId id : editor.order()) {
    const ir::Op& op = editor.op(id);
    if (op.def != &ops::kLinear || editor.is_constant(op.results[0]) || !has_constant_weights(editor, op))
      continue;
    if (rows_of_linear(editor.view(id)) > kFewRows) continue;
    groups[{op.operands[0], op.operands.size()}].push_back(id);
  }
  for (const auto& [key, linears] : groups)
    if (linears.size() > 1 && fit_together(editor, linears)) DIF_TRY(join(editor, linears, decisions));
  return ok();
}

}  // namespace

const Pass kParallelLinears = {
    .name = "parallel_linears",
    .summary = "Make linears that read the same few rows one product over joined weights.",
    .function = join_all,
};

}  // namespace dif::opt

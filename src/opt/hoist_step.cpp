#include <fmt/format.h>

#include <optional>

#include "ops/gather_rows/gather_rows.op.h"
#include "ops/reshape/reshape.op.h"
#include "opt/axis_map.h"
#include "opt/names.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

using ir::OpId;
using ir::ValueId;

/// What a schedule may have; a table of words that a prompt looks up has more.
constexpr std::int64_t kMaxRows = 4096;
/// Of one hoisted value, for all rows.
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

/// One row of a constant table, picked by a number that the run brings.
struct PickedRow {
  ValueId table = ir::kNoId;
  ValueId number = ir::kNoId;
};

std::optional<PickedRow> picked_row(const Editor& editor, ValueId value) {
  const ir::Op* op = editor.producer(value);
  if (op == nullptr || op->def != &ops::kGatherRows) return {};
  const PickedRow row{op->operands[0], op->operands[1]};
  const ir::TensorType& number = editor.type(row.number);
  if (!editor.is_constant(row.table) || editor.is_constant(row.number)) return {};
  if (number.rank() != 1 || number.dim(0) != 1 || editor.type(row.table).dim(0) > kMaxRows) return {};
  return row;
}

/// An operation over whole tables, of whose result the run picks a row.
struct Hoisted {
  std::vector<ValueId> operands;
  std::vector<ir::Attr> attrs;
  ValueId number = ir::kNoId;
};

/// The operation on tables that gives in each row what `id` gives when that row is picked. Nothing when it
/// reads other than one row of tables of one length, and constants, or mixes rows.
std::optional<Hoisted> hoisted(const Editor& editor, OpId id) {
  const ir::Op& op = editor.op(id);
  Hoisted result{.attrs = op.attrs};
  std::vector<bool> picked;
  std::int64_t n_rows = 0;
  for (const ValueId operand : op.operands) {
    const auto row = picked_row(editor, operand);
    picked.push_back(row.has_value());
    if (!row && !editor.is_constant(operand)) return {};
    result.operands.push_back(row ? row->table : operand);
    if (!row) continue;
    const std::int64_t rows = editor.type(row->table).dim(0);
    if (result.number != ir::kNoId && (row->number != result.number || rows != n_rows)) return {};
    result.number = row->number;
    n_rows = rows;
  }
  const ir::TensorType& now = editor.type(op.results.front());
  if (n_rows < 1 || op.results.size() != 1 || now.rank() == 0 || now.dim(0) != 1) return {};
  if (now.bytes() > kMaxBytes / static_cast<std::uint64_t>(n_rows)) return {};
  if (op.def == &ops::kReshape) std::get<ir::Integers>(result.attrs[0])[0] = n_rows;

  ir::TensorType table = now;
  table.shape.set_dim(0, n_rows);
  std::vector<ir::TensorType> types;
  for (const ValueId operand : result.operands) types.push_back(editor.type(operand));
  const ir::OpView view(*op.def, types, result.attrs, {table});
  if (!op.def->verify(view) || op.def->infer(view) != ir::Types{table}) return {};
  const auto map = axis_map(view, 0);
  if (!map) return {};
  for (std::size_t i = 0; i < picked.size(); ++i)
    if (picked[i] ? map->operand_axes[i] != 0 : map->operand_axes[i].has_value()) return {};
  return result;
}

Status hoist(Editor& editor, Decisions& decisions) {
  for (const OpId id : editor.order()) {
    if (!editor.is_alive(id)) continue;
    auto work = hoisted(editor, id);
    if (!work) continue;
    const std::string subject = subject_of(editor.program(), id);
    const ValueId value = editor.op(id).results.front();
    DIF_ASSIGN(const ValueId table,
               editor.emit(id, *editor.op(id).def, std::move(work->operands), std::move(work->attrs)));
    DIF_ASSIGN(const ValueId row, editor.emit(id, ops::kGatherRows, {table, work->number}, {}));
    const std::int64_t n_rows = editor.type(table).dim(0);
    editor.replace(value, row);
    decisions.push_back({"", subject, "hoisted",
                         fmt::format("depends on the step alone: all {} rows at once, at prepare", n_rows)});
  }
  return ok();
}

}  // namespace

const Pass kHoistStep = {
    .name = "hoist_step",
    .summary = "Compute what depends on the step alone for all steps at once, at prepare.",
    .function = hoist,
};

}  // namespace dif::opt

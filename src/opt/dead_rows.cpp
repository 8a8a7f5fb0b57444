#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ops/linear/linear.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/slice/slice.op.h"
#include "opt/axis_map.h"
#include "opt/cost.h"
#include "opt/names.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

using ir::OpId;
using ir::ValueId;

/// Chains are a block of a model long; the limit keeps the stack small whatever a program says.
constexpr int kMaxDepth = 200;

/// Elements start .. end-1 of one axis.
struct Range {
  int axis = 0;
  std::int64_t start = 0, end = 0;

  std::int64_t size() const { return end - start; }
};

Range range_of(const ir::Op& slice) {
  return {static_cast<int>(std::get<std::int64_t>(slice.attrs[0])), std::get<std::int64_t>(slice.attrs[1]),
          std::get<std::int64_t>(slice.attrs[2])};
}

ir::TensorType part_of(ir::TensorType type, const Range& range) {
  type.shape.set_dim(range.axis, range.size());
  return type;
}

struct OperandPart;

/// How to come by a range of a value: cut it out, or compute only that range from ranges of the operands.
struct Way {
  double cost = 0;  ///< of the operations that it needs, less that of those which it makes superfluous
  enum { kCut, kOperands, kColumns } how = kCut;
  std::vector<OperandPart> operands;
  int n_narrowed = 0;  ///< operations that compute less
};

/// What a way needs of an operand.
struct OperandPart {
  bool is_whole = true;
  Range range;  ///< of the operand, unless it is needed whole
  Way way;
};

/// Whether `value`, the result of a linear, is read only by slices of its columns.
bool all_readers_cut_columns(const Editor& editor, ValueId value) {
  const int last = editor.type(value).rank() - 1;
  return !editor.is_output(value) && std::ranges::all_of(editor.readers(value), [&](OpId reader) {
    return editor.op(reader).def == &ops::kSlice && range_of(editor.op(reader)).axis == last;
  });
}

class RowSearch {
 public:
  explicit RowSearch(const Editor& editor) : editor_(editor) {}

  /// The cheapest way to `range` of `value`, which nothing else reads when `alone`.
  Way best(ValueId value, const Range& range, bool alone, int depth = 0) const {
    Way way{.cost = cut_cost(value, range)};
    if (!alone || depth > kMaxDepth || editor_.is_constant(value) || editor_.producer(value) == nullptr)
      return way;
    const OpId id = editor_.program().values[value].producer;
    for (auto other : {through_operands(id, range, depth), through_columns(id, range)})
      if (other && other->cost < way.cost) way = std::move(*other);
    return way;
  }

  double cut_cost(ValueId value, const Range& range) const {
    const ir::TensorType& type = editor_.type(value);
    if (editor_.is_constant(value) || type.dim(range.axis) == range.size()) return 0;
    return 2 * kFlopsPerByte * static_cast<double>(part_of(type, range).bytes());
  }

 private:
  std::optional<Way> through_operands(OpId id, const Range& range, int depth) const {
    const ir::Op& op = editor_.op(id);
    if (op.results.size() != 1) return {};
    const ir::OpView full = editor_.view(id);
    const auto map = axis_map(full, range.axis);
    if (!map) return {};
    Way way{.how = Way::kOperands, .n_narrowed = op.def->is_view ? 0 : 1};
    std::vector<ir::TensorType> types;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId operand = op.operands[i];
      types.push_back(editor_.type(operand));
      way.operands.emplace_back();
      if (!map->operand_axes[i]) continue;
      const Range own{*map->operand_axes[i], range.start, range.end};
      types.back() = part_of(types.back(), own);
      Way part = best(operand, own, editor_.has_one_reader(operand), depth + 1);
      way.cost += part.cost;
      way.n_narrowed += part.n_narrowed;
      way.operands.back() = {false, own, std::move(part)};
    }
    const ir::OpView narrow(*op.def, std::move(types), op.attrs, {part_of(full.out(), range)});
    way.cost += cost(narrow) - cost(full);
    return way;
  }

  /// Rows of some columns of a linear, of which others read other columns: a linear of its own.
  std::optional<Way> through_columns(OpId id, const Range& range) const {
    const ir::Op& columns = editor_.op(id);
    if (columns.def != &ops::kSlice) return {};
    const ir::Op* linear = editor_.producer(columns.operands[0]);
    if (linear == nullptr || linear->def != &ops::kLinear) return {};
    const Range cut = range_of(columns);
    const ValueId x = linear->operands[0], whole = linear->results[0];
    if (editor_.has_one_reader(whole))
      return {};  // then rows go up as they are, and the columns are narrowed
    if (cut.axis != editor_.type(whole).rank() - 1 || range.axis == cut.axis) return {};
    for (std::size_t i = 1; i < linear->operands.size(); ++i)
      if (!editor_.is_constant(linear->operands[i])) return {};

    Way way{.how = Way::kColumns, .n_narrowed = 1};
    const Way part = {.cost = cut_cost(x, range)};  // x stays, for the linear's other columns
    std::vector<ir::TensorType> types = {part_of(editor_.type(x), range),
                                         part_of(editor_.type(linear->operands[1]), {0, cut.start, cut.end})};
    const ir::OpView full = editor_.view(editor_.program().values[whole].producer);
    const ir::OpView narrow(*linear->def, std::move(types), linear->attrs,
                            {part_of(editor_.type(columns.results[0]), range)});
    way.cost = part.cost + cost(narrow) - cost(editor_.view(id));
    const double share = static_cast<double>(cut.size()) / static_cast<double>(full.in(1).dim(0));
    if (all_readers_cut_columns(editor_, whole)) way.cost -= share * cost(full);
    way.operands.push_back({false, range, part});
    return way;
  }

  const Editor& editor_;
};

/// Emits a way before an operation.
class WayMaker {
 public:
  WayMaker(Editor& editor, OpId before) : editor_(editor), before_(before) {}

  Result<ValueId> make(ValueId value, const Range& range, const Way& way) {
    if (way.how == Way::kCut) return cut(value, range);
    const ir::Op op = *editor_.producer(value);
    if (way.how == Way::kColumns) return make_columns(op, way);
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      operands.push_back(op.operands[i]);
      const OperandPart& part = way.operands[i];
      if (part.is_whole) continue;
      DIF_ASSIGN(operands.back(), make(op.operands[i], part.range, part.way));
    }
    std::vector<ir::Attr> attrs = op.attrs;
    if (op.def == &ops::kReshape)
      std::get<ir::Integers>(attrs[0])[static_cast<std::size_t>(range.axis)] = range.size();
    return emit_for(value, *op.def, std::move(operands), std::move(attrs));
  }

 private:
  Result<ValueId> make_columns(const ir::Op& columns, const Way& way) {
    const ValueId whole = columns.operands[0];
    const ir::Op linear = *editor_.producer(whole);
    const Range cut_rows = {0, range_of(columns).start, range_of(columns).end};
    std::vector<ValueId> operands;
    DIF_ASSIGN(const ValueId x, make(linear.operands[0], way.operands[0].range, way.operands[0].way));
    operands.push_back(x);
    for (std::size_t i = 1; i < linear.operands.size(); ++i) {
      DIF_ASSIGN(const ValueId weights, cut(linear.operands[i], cut_rows));
      operands.push_back(weights);
    }
    return emit_for(whole, *linear.def, std::move(operands), linear.attrs);
  }

  Result<ValueId> cut(ValueId value, const Range& range) {
    if (editor_.type(value).dim(range.axis) == range.size()) return value;
    return editor_.emit(before_, ops::kSlice, {value}, {std::int64_t{range.axis}, range.start, range.end});
  }

  /// An operation that stands before before_, of the module that computed `value`.
  Result<ValueId> emit_for(ValueId value, const ir::OpDef& def, std::vector<ValueId> operands,
                           std::vector<ir::Attr> attrs) {
    return editor_.emit(before_, def, std::move(operands), std::move(attrs),
                        editor_.program().values[value].producer);
  }

  Editor& editor_;
  OpId before_;
};

Status move_up(Editor& editor, Decisions& decisions) {
  for (const OpId id : editor.order()) {
    if (!editor.is_alive(id) || editor.op(id).def != &ops::kSlice) continue;
    const ValueId value = editor.op(id).operands[0], part = editor.op(id).results[0];
    const Range range = range_of(editor.op(id));
    if (range.size() == 0 || editor.is_constant(value)) continue;
    const RowSearch search(editor);
    const Way way = search.best(value, range, editor.has_one_reader(value));
    if (way.how == Way::kCut) continue;
    const std::string subject = subject_of(editor.program(), id);
    const std::int64_t of = editor.type(value).dim(range.axis);
    DIF_ASSIGN(const ValueId made, WayMaker(editor, id).make(value, range, way));
    editor.replace(part, made);
    decisions.push_back({"", subject, "moved up",
                         fmt::format("{} operations compute {} of {} along axis {}", way.n_narrowed,
                                     range.size(), of, range.axis)});
  }
  return ok();
}

/// Linears of whose columns the first or the last are not read any more.
Status narrow_linears(Editor& editor, Decisions& decisions) {
  for (const OpId id : editor.order()) {
    if (!editor.is_alive(id) || editor.op(id).def != &ops::kLinear) continue;
    const ir::Op linear = editor.op(id);
    const ValueId whole = linear.results[0];
    const std::vector<OpId> readers = editor.readers(whole);
    if (readers.empty() || !all_readers_cut_columns(editor, whole)) continue;
    const std::int64_t width = editor.type(whole).dim(-1);
    Range read{0, width, 0};
    for (const OpId reader : readers) {
      const Range range = range_of(editor.op(reader));
      read.start = std::min(read.start, range.start);
      read.end = std::max(read.end, range.end);
    }
    if (read.size() <= 0 || read.size() == width || !editor.is_constant(linear.operands[1])) continue;
    const std::string subject = subject_of(editor.program(), id);
    std::vector<ValueId> operands = {linear.operands[0]};
    for (std::size_t i = 1; i < linear.operands.size(); ++i) {
      DIF_ASSIGN(const ValueId rows,
                 editor.emit(id, ops::kSlice, {linear.operands[i]}, {std::int64_t{0}, read.start, read.end}));
      operands.push_back(rows);
    }
    DIF_ASSIGN(const ValueId narrow, editor.emit(id, ops::kLinear, std::move(operands), {}));
    for (const OpId reader : readers) {
      const Range range = range_of(editor.op(reader));
      DIF_ASSIGN(const ValueId columns,
                 editor.emit(reader, ops::kSlice, {narrow},
                             {std::int64_t{range.axis}, range.start - read.start, range.end - read.start}));
      editor.replace(editor.op(reader).results[0], columns);
    }
    decisions.push_back(
        {"", subject, "narrowed", fmt::format("{} of {} columns are read", read.size(), width)});
  }
  return ok();
}

Status drop_rows(Editor& editor, Decisions& decisions) {
  DIF_TRY(move_up(editor, decisions));
  return narrow_linears(editor, decisions);
}

}  // namespace

const Pass kDeadRows = {
    .name = "dead_rows",
    .summary = "Compute only the rows and columns that are read: slices move up to where rows come from.",
    .function = drop_rows,
};

}  // namespace dif::opt

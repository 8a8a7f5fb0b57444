#include <algorithm>
#include <vector>

#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/slice/slice.op.h"
#include "ops/transpose/transpose.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

using ir::ValueId;

Term cast(Term x) {
  return {ops::kCast, {x}};
}
Term reshape(Term x) {
  return {ops::kReshape, {x}};
}
Term transpose(Term x) {
  return {ops::kTranspose, {x}};
}
Term slice(Term x) {
  return {ops::kSlice, {x}};
}

bool keeps_type(const Match& m) {
  return m.type("x") == m.type("y");
}

/// The axes of x in the order in which two transposes leave them.
ir::Integers composed(const Match& m) {
  const ir::OpView first = m.view("first"), second = m.view("second");
  ir::Integers perm;
  for (const std::int64_t axis : second.i64s("perm"))
    perm.push_back(first.i64s("perm")[static_cast<std::size_t>(axis)]);
  return perm;
}

/// Whether a transpose moves only axes of size 1, so that the bytes stay as they are.
bool moves_no_bytes(const Match& m) {
  const ir::OpView y = m.view("y");
  std::vector<std::int64_t> moved;
  for (const std::int64_t axis : y.i64s("perm"))
    if (m.type("x").dim(static_cast<int>(axis)) != 1) moved.push_back(axis);
  return std::ranges::is_sorted(moved);
}

Attrs shape_of(const ir::TensorType& type) {
  return {ir::Integers(std::vector<std::int64_t>(type.shape.dims().begin(), type.shape.dims().end()))};
}

// --- slices of a concatenation ----------------------------------------------------------------------------

/// Operands of "joined", and where each starts along the axis of both the slice "part" and the concatenation.
struct Cut {
  int axis = 0;
  std::int64_t start = 0, end = 0;
  std::size_t first = 0, last = 0;  ///< operands that the range touches
  std::int64_t first_start = 0;     ///< where the first of them starts
  std::int64_t last_end = 0;
};

bool along_one_axis(const Match& m) {
  return m.view("part").i64("axis") == m.view("joined").i64("axis");
}

Cut cut_of(const Match& m) {
  const ir::OpView part = m.view("part"), joined = m.view("joined");
  Cut cut{static_cast<int>(part.i64("axis")), part.i64("start"), part.i64("end")};
  std::int64_t at = 0;
  bool found = false;
  for (std::size_t i = 0; i < joined.n_ins(); ++i) {
    const std::int64_t next = at + joined.in(i).dim(cut.axis);
    if (next > cut.start && at < cut.end) {
      if (!found) cut.first = i, cut.first_start = at;
      found = true;
      cut.last = i;
      cut.last_end = next;
    }
    at = next;
  }
  return cut;
}

bool lies_in_one_operand(const Match& m) {
  if (!along_one_axis(m) || m.type("part").numel() == 0) return false;
  const Cut cut = cut_of(m);
  return cut.first == cut.last;
}

std::vector<ValueId> the_operand(const Match& m) {
  return {m.op("joined").operands[cut_of(m).first]};
}

Attrs range_in_operand(const Match& m) {
  const Cut cut = cut_of(m);
  return {std::int64_t{cut.axis}, cut.start - cut.first_start, cut.end - cut.first_start};
}

bool covers_whole_operands(const Match& m) {
  if (!along_one_axis(m) || m.type("part").numel() == 0) return false;
  const Cut cut = cut_of(m);
  return cut.first != cut.last && cut.first_start == cut.start && cut.last_end == cut.end;
}

std::vector<ValueId> the_operands(const Match& m) {
  const Cut cut = cut_of(m);
  const auto& all = m.op("joined").operands;
  return {all.begin() + static_cast<std::ptrdiff_t>(cut.first),
          all.begin() + static_cast<std::ptrdiff_t>(cut.last) + 1};
}

// --- concatenations ---------------------------------------------------------------------------------------

/// A concatenation within another joins it as long as the list stays short.
constexpr std::size_t kMaxOperands = 64;

const ir::Op* inner_concat(const Match& m, ValueId operand) {
  const ir::Op* op = m.editor().producer(operand);
  return op != nullptr && op->def == &ops::kConcat && op->attrs == m.op("y").attrs &&
                 m.editor().has_one_reader(operand)
             ? op
             : nullptr;
}

bool holds_a_concat(const Match& m) {
  std::size_t inner = 0;
  for (const ValueId operand : m.op("y").operands)
    if (const ir::Op* op = inner_concat(m, operand)) inner += op->operands.size();
  return inner != 0 && m.op("y").operands.size() + inner <= kMaxOperands;
}

std::vector<ValueId> flattened(const Match& m) {
  std::vector<ValueId> operands;
  for (const ValueId operand : m.op("y").operands) {
    const ir::Op* inner = inner_concat(m, operand);
    if (inner == nullptr)
      operands.push_back(operand);
    else
      operands.insert(operands.end(), inner->operands.begin(), inner->operands.end());
  }
  return operands;
}

/// Whether the operands of a concatenation are neighbouring slices of one value along its axis.
bool puts_slices_together(const Match& m) {
  const ir::Op& y = m.op("y");
  if (y.operands.size() < 2) return false;
  const ir::Op* before = nullptr;
  for (const ValueId operand : y.operands) {
    const ir::Op* part = m.editor().producer(operand);
    if (part == nullptr || part->def != &ops::kSlice || part->attrs[0] != y.attrs[0]) return false;
    if (before != nullptr && (part->operands != before->operands || part->attrs[1] != before->attrs[2]))
      return false;
    before = part;
  }
  return true;
}

const ir::Op& part_of(const Match& m, ValueId operand) {
  return *m.editor().producer(operand);
}

}  // namespace

const Pass kSimplify = {
    .name = "simplify",
    .summary = "Drop what changes nothing: casts, views, slices, concatenations that cancel or join.",
    .rules =
        {
            {.name = "a cast to the same type", .from = cast("x").as("y"), .to = "x", .when = keeps_type},
            {.name = "a cast by way of a wider float is one cast",
             .from = cast(cast("x").as("wide")).as("y"),
             .to = cast("x").like("y"),
             .when =
                 [](const Match& m) {
                   // Every cast computes by way of f32 anyway, but i32 to i32, which copies.
                   return m.type("wide").dtype == DType::kF32 &&
                          (m.type("x").dtype != DType::kI32 || m.type("y").dtype != DType::kI32);
                 }},
            {.name = "a product with 1",
             .from = Term(ops::kMulScalar, {"x"}).as("y"),
             .to = "x",
             .when = [](const Match& m) { return m.view("y").f32("value") == 1.0f; }},
            {.name = "an upsampling by 1",
             .from = Term(ops::kUpsampleNearest, {"x"}).as("y"),
             .to = "x",
             .when = keeps_type},
            {.name = "a reshape to the same shape",
             .from = reshape("x").as("y"),
             .to = "x",
             .when = keeps_type},
            {.name = "reshapes in a row are one",
             .from = reshape(reshape("x")).as("y"),
             .to = reshape("x").like("y")},
            {.name = "transposes in a row are one",
             .from = transpose(transpose("x").as("first")).as("second"),
             .to = transpose("x").with([](const Match& m) { return Attrs{composed(m)}; })},
            {.name = "a transpose that moves nothing is a reshape",
             .from = transpose("x").as("y"),
             .to = reshape("x").with([](const Match& m) { return shape_of(m.type("y")); }),
             .when = moves_no_bytes},
            {.name = "a slice of everything", .from = slice("x").as("y"), .to = "x", .when = keeps_type},
            {.name = "slices in a row are one",
             .from = slice(slice("x").as("first")).as("second"),
             .to = slice("x").with([](const Match& m) {
               const ir::OpView first = m.view("first"), second = m.view("second");
               return Attrs{first.i64("axis"), first.i64("start") + second.i64("start"),
                            first.i64("start") + second.i64("end")};
             }),
             .when =
                 [](const Match& m) { return m.view("first").i64("axis") == m.view("second").i64("axis"); }},
            {.name = "a cast of the part of a constant that is read",
             .from = slice(cast("x").as("whole")).as("part"),
             .to = cast(slice("x").like("part")).like("whole"),
             .when = [](const Match& m) { return m.editor().is_constant(m.value("x")); }},
            {.name = "a slice of one operand of a concatenation",
             .from = slice(Term::of_any(ops::kConcat).as("joined")).as("part"),
             .to = Term::of(ops::kSlice, the_operand).with(range_in_operand),
             .when = lies_in_one_operand},
            {.name = "a slice that is some operands of a concatenation",
             .from = slice(Term::of_any(ops::kConcat).as("joined")).as("part"),
             .to = Term::of(ops::kConcat, the_operands).like("joined"),
             .when = covers_whole_operands},
            {.name = "a concatenation of one operand", .from = Term(ops::kConcat, {"x"}), .to = "x"},
            {.name = "a concatenation within a concatenation",
             .from = Term::of_any(ops::kConcat).as("y"),
             .to = Term::of(ops::kConcat, flattened),
             .when = holds_a_concat},
            {.name = "neighbouring slices put together again",
             .from = Term::of_any(ops::kConcat).as("y"),
             .to = Term::of(ops::kSlice,
                            [](const Match& m) { return part_of(m, m.op("y").operands.front()).operands; })
                       .with([](const Match& m) {
                         const auto& parts = m.op("y").operands;
                         return Attrs{part_of(m, parts.front()).attrs[0], part_of(m, parts.front()).attrs[1],
                                      part_of(m, parts.back()).attrs[2]};
                       }),
             .when = puts_slices_together},
        },
};

}  // namespace dif::opt

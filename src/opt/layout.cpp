#include <algorithm>

#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "ops/sub/sub.op.h"
#include "ops/transpose/transpose.op.h"
#include "opt/pass.h"

namespace dif::opt {

namespace {

Term transpose(Term x) {
  return {ops::kTranspose, {x}};
}
Term cast(Term x) {
  return {ops::kCast, {x}};
}

/// Element-wise operations on one operand.
constexpr const ir::OpDef* kUnary[] = {&ops::kSilu, &ops::kSqrt, &ops::kAddScalar, &ops::kMulScalar,
                                       &ops::kCast};

std::size_t element_bytes(const Match& m, const char* name) {
  return dtype_size(m.type(name).dtype);
}

/// So many element-wise operations may stand between two transposes that are to meet.
constexpr int kMaxBetween = 16;

/// Whether `value` is a transpose, or what single-reader element-wise operations make of one.
bool comes_from_a_transpose(const Editor& editor, ir::ValueId value) {
  for (int i = 0; i <= kMaxBetween && editor.has_one_reader(value); ++i) {
    const ir::Op* op = editor.producer(value);
    if (op == nullptr) return false;
    if (op->def == &ops::kTranspose) return true;
    if (std::ranges::find(kUnary, op->def) == std::end(kUnary)) return false;
    value = op->operands[0];
  }
  return false;
}

/// Lets a transpose go up to another one through element-wise operations.
Rule transpose_before(std::string_view name, const ir::OpDef& unary) {
  return {.name = name,
          .from = transpose(Term(unary, {"x"}).as("between")).as("moved"),
          .to = Term(unary, {transpose("x").like("moved")}).like("between"),
          .when = [](const Match& m) {
            return m.has_one_reader("between") && comes_from_a_transpose(m.editor(), m.value("x"));
          }};
}

Rule transposed_operands(std::string_view name, const ir::OpDef& binary) {
  return {.name = name,
          .from = Term(binary, {transpose("x").as("left"), transpose("y").as("right")}).as("z"),
          .to = transpose(Term(binary, {"x", "y"}).like("z")).like("left"),
          .when = [](const Match& m) {
            return m.op("left").attrs == m.op("right").attrs && m.type("x").shape == m.type("y").shape &&
                   m.has_one_reader("left") && m.has_one_reader("right");
          }};
}

}  // namespace

const Pass kLayout = {
    .name = "layout",
    .summary = "Move transposes to where they meet or where fewest bytes pass.",
    .rules =
        {
            {.name = "a transpose after the slice",
             .from = Term(ops::kSlice, {transpose("x").as("moved")}).as("part"),
             .to = transpose(Term(ops::kSlice, {"x"}).with([](const Match& m) {
                     const ir::OpView part = m.view("part");
                     const auto axis = static_cast<std::size_t>(part.i64("axis"));
                     return Attrs{m.view("moved").i64s("perm")[axis], part.i64("start"), part.i64("end")};
                   })).like("moved"),
             .when = [](const Match& m) { return m.has_one_reader("moved"); }},
            {.name = "a transpose before the cast to wider elements",
             .from = transpose(cast("x").as("wide")).as("moved"),
             .to = cast(transpose("x").like("moved")).like("wide"),
             .when =
                 [](const Match& m) {
                   return element_bytes(m, "x") < element_bytes(m, "wide") && m.has_one_reader("wide");
                 }},
            {.name = "a transpose after the cast to narrower elements",
             .from = cast(transpose("x").as("moved")).as("narrow"),
             .to = transpose(cast("x").like("narrow")).like("moved"),
             .when =
                 [](const Match& m) {
                   return element_bytes(m, "narrow") < element_bytes(m, "x") && m.has_one_reader("moved");
                 }},
            transposed_operands("one transpose after add", ops::kAdd),
            transposed_operands("one transpose after sub", ops::kSub),
            transposed_operands("one transpose after mul", ops::kMul),
            transpose_before("a transpose before silu to meet another", ops::kSilu),
            transpose_before("a transpose before sqrt to meet another", ops::kSqrt),
            transpose_before("a transpose before add_scalar to meet another", ops::kAddScalar),
            transpose_before("a transpose before mul_scalar to meet another", ops::kMulScalar),
            transpose_before("a transpose before cast to meet another", ops::kCast),
        },
};

}  // namespace dif::opt

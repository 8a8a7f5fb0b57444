#include "tests/support/sample_program.h"

#include <array>

#include "base/check.h"
#include "ops/attention/attention.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/linear/linear.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/reshape/reshape.op.h"

namespace dif::test {

ir::Program sample_program() {
  ir::Builder b("sample");
  const ir::Value x = b.input("x", {DType::kBF16, {1, 5, 8}}),
                  mask = b.input("key mask", {DType::kBool, {1, 5}});
  const ir::Value w = b.constant("blocks.0.w", {DType::kBF16, {8, 8}});
  ir::Value y;
  {
    ir::Builder::Scope block(b, "blocks.0");
    const ir::Value h =
        ops::reshape(b, ops::linear(b, x, w, b.constant("blocks.0.b", {DType::kBF16, {8}})), {1, 5, 2, 4});
    ir::Builder::Scope attn(b, "attn");
    y = ops::attention(b, h, h, h, mask, true, 0.5f);
    b.boundary("", y);
  }
  const std::array<ir::Value, 2> parts = {y, y};
  y = ops::mul_scalar(b, ops::concat(b, parts, -1), 0.1f);
  b.output("y", ops::cast(b, y, DType::kF32));
  b.output("wide", y);
  auto program = b.finish();
  DIF_CHECK(program.has_value());
  program->provenance.creator = "sample_program";
  return std::move(*program);
}

}  // namespace dif::test

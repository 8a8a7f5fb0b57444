#include "ops/timestep_embedding/timestep_embedding.op.h"

#include <cmath>

#include "ops/common/checks.h"

namespace dif::ops {

const ir::OpDef kTimestepEmbedding = {
    .name = "timestep_embedding",
    .operands = {{"t"}},
    .attrs = {{"width", std::int64_t{2}}, {"max_period", 10000.0f}},
    .verify = [](const ir::OpView& op) -> Status {
      const ir::TensorType& t = op.in(0);
      if (t.dtype != DType::kF32 || t.rank() != 1) return op.broken("C1", "t is {}, needed is f32[N]", t);
      if (const std::int64_t width = op.i64("width"); width < 2 || width % 2 != 0)
        return op.broken("C2", "width is {}", width);
      if (const float period = op.f32("max_period"); !std::isfinite(period) || period <= 1)
        return op.broken("C3", "max_period is {}", period);
      return ok();
    },
    .infer = [](const ir::OpView& op) -> ir::Types {
      return {{DType::kF32, Shape{op.in(0).dim(0), op.i64("width")}}};
    },
};

Value timestep_embedding(Builder& b, Value t, std::int64_t width, float max_period) {
  return b.emit(kTimestepEmbedding, {t}, {width, max_period});
}

std::vector<float> timestep_frequencies(const ir::OpView& op) {
  const std::int64_t half = op.i64("width") / 2;
  const auto log_period = static_cast<float>(std::log(static_cast<double>(op.f32("max_period"))));
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    const float exponent = -log_period * static_cast<float>(i) / static_cast<float>(half);
    frequencies.push_back(static_cast<float>(std::exp(static_cast<double>(exponent))));
  }
  return frequencies;
}

}  // namespace dif::ops

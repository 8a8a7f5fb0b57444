#include "frontends/blocks/rotary_tables.h"

#include <cmath>

#include "ops/add/add.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/slice/slice.op.h"

namespace dif::frontends {

namespace {

using ir::Value;

RotaryTable empty_table(std::int64_t positions, std::int64_t pairs) {
  RotaryTable table{.positions = positions, .pairs = pairs};
  table.cos.reserve(static_cast<std::size_t>(positions * pairs));
  table.sin.reserve(static_cast<std::size_t>(positions * pairs));
  return table;
}

/// [x | x] along the last axis in `dtype`, with an axis for the heads.
Value whole_head(ir::Builder& b, Value half, DType dtype) {
  const Value rounded = ops::cast(b, half, dtype);
  const Value twice = ops::concat(b, std::array{rounded, rounded}, -1);
  return ops::reshape(b, twice, {twice.dim(0), 1, twice.dim(1)});
}

}  // namespace

RotaryTable rotary_table_f32(std::int64_t n, std::int64_t dim, double theta) {
  RotaryTable table = empty_table(n, dim / 2);
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dim);
    // pow in f64 and one rounding is the correctly rounded f32 power, which torch gives too.
    frequencies.push_back(1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  for (std::int64_t position = 0; position < n; ++position)
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      table.cos.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
      table.sin.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
    }
  return table;
}

RotaryTable rotary_table_f64(std::span<const std::array<std::int64_t, 4>> positions,
                             const std::array<std::int64_t, 4>& axes_dims, double theta) {
  std::int64_t pairs = 0;
  for (const std::int64_t dim : axes_dims) pairs += dim / 2;
  RotaryTable table = empty_table(static_cast<std::int64_t>(positions.size()), pairs);
  std::array<std::vector<double>, 4> frequencies;
  for (std::size_t axis = 0; axis < axes_dims.size(); ++axis)
    for (std::int64_t i = 0; i < axes_dims[axis]; i += 2)
      frequencies[axis].push_back(
          1.0 / std::pow(theta, static_cast<double>(i) / static_cast<double>(axes_dims[axis])));
  for (const auto& position : positions)
    for (std::size_t axis = 0; axis < axes_dims.size(); ++axis)
      for (const double frequency : frequencies[axis]) {
        const double angle = static_cast<double>(position[axis]) * frequency;
        table.cos.push_back(static_cast<float>(std::cos(angle)));
        table.sin.push_back(static_cast<float>(std::sin(angle)));
      }
  return table;
}

Rotation add_rotary_table(ir::Builder& b, ConstantSet& constants, const std::string& prefix,
                          const RotaryTable& table) {
  const Shape shape{table.positions, table.pairs};
  constants.add_table(prefix + ".cos", shape, table.cos);
  constants.add_table(prefix + ".sin", shape, table.sin);
  return {b.constant(prefix + ".cos", {DType::kF32, shape}),
          b.constant(prefix + ".sin", {DType::kF32, shape})};
}

Value rotate_half_split(ir::Builder& b, Value x, const Rotation& rotation) {
  if (x.dtype() == DType::kF32) return ops::rotary(b, x, rotation.cos, rotation.sin, false);
  const std::int64_t half = x.dim(-1) / 2;
  const Value low = ops::slice(b, x, -1, 0, half);
  const Value high = ops::slice(b, x, -1, half, 2 * half);
  const Value turned = ops::concat(b, std::array{ops::mul_scalar(b, high, -1.0f), low}, -1);
  return ops::add(b, ops::mul(b, x, whole_head(b, rotation.cos, x.dtype())),
                  ops::mul(b, turned, whole_head(b, rotation.sin, x.dtype())));
}

}  // namespace dif::frontends

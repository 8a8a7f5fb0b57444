#pragma once

#include "ir/op_def.h"
#include "plan/in_place.h"

namespace dif::cuda {

/// Elements from one row to the next, and from one batch of rows to the next.
struct RowSteps {
  std::int64_t row = 0, batch = 0;
};

/// Of batches of `rows` rows of `width` elements. Pre: they are dense, or the pitch is that of rows or
/// batches.
inline RowSteps row_steps(const plan::Pitch& pitch, std::int64_t rows, std::int64_t width) {
  if (pitch.dense()) return {width, rows * width};
  if (pitch.run == width) return {pitch.pitch, rows * pitch.pitch};
  return {width, pitch.pitch};
}

/// What products, attention and generated rows take besides dense tensors, in units of 16 bytes.
bool reads_pitched(const ir::OpView& op, std::size_t operand, const plan::Pitch& pitch);
bool writes_pitched(const ir::OpView& op, const plan::Pitch& pitch);

}  // namespace dif::cuda

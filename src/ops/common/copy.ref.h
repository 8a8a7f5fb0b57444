#pragma once

#include "ops/common/elements.ref.h"

namespace dif::reference {

/// y, seen as `seen` in row-major order, takes its elements from x at the given strides; any dtype.
template <class Bits>
void copy_bits(const Shape& seen, const runtime::TensorView& x, const std::vector<std::int64_t> (&strides)[1],
               const runtime::TensorView& y) {
  const std::byte* from = x.buffer.pointer();
  std::byte* to = y.buffer.pointer();
  for_each_element(seen, strides,
                   [&](std::int64_t i, const std::int64_t* at) { store(to, i, load<Bits>(from, at[0])); });
}

inline Status copy_elements(const ir::TensorType& seen, const runtime::TensorView& x,
                            const std::vector<std::int64_t> (&strides)[1], const runtime::TensorView& y) {
  switch (dtype_size(seen.dtype)) {
    case 1:
      copy_bits<std::uint8_t>(seen.shape, x, strides, y);
      break;
    case 2:
      copy_bits<std::uint16_t>(seen.shape, x, strides, y);
      break;
    case 4:
      copy_bits<std::uint32_t>(seen.shape, x, strides, y);
      break;
    default:
      copy_bits<std::uint64_t>(seen.shape, x, strides, y);
      break;
  }
  return ok();
}

}  // namespace dif::reference

#pragma once

#include "ops/common/elements.ref.h"
#include "runtime/axes.h"

namespace dif::reference {

/// z = function(x, y) with broadcasting: for f32, bf16, f16 on floats, for i32 on std::uint32_t, which wraps.
template <class Function>
Status map_pairs(const runtime::KernelArgs& args, Function function) {
  const ir::TensorType &x_type = *args.in[0].type, &y_type = *args.in[1].type, &z_type = *args.out[0].type;
  const std::vector<std::int64_t> strides[] = {runtime::broadcast_strides(x_type.shape, z_type.shape),
                                               runtime::broadcast_strides(y_type.shape, z_type.shape)};
  if (z_type.dtype == DType::kI32) {
    std::byte *x = args.in[0].buffer.pointer(), *y = args.in[1].buffer.pointer();
    std::byte* z = args.out[0].buffer.pointer();
    for_each_element(z_type.shape, strides, [&](std::int64_t i, const std::int64_t* at) {
      store(z, i, function(load<std::uint32_t>(x, at[0]), load<std::uint32_t>(y, at[1])));
    });
    return ok();
  }
  return for_float(z_type.dtype, [&]<DType dtype>() {
    const Elements<dtype> x(args.in[0]), y(args.in[1]), z(args.out[0]);
    for_each_element(z_type.shape, strides,
                     [&](std::int64_t i, const std::int64_t* at) { z.set(i, function(x[at[0]], y[at[1]])); });
  });
}

}  // namespace dif::reference

#include "backends/opencl/kernel_list.h"

#include <utility>

#include "backends/opencl/kernels.h"
#include "backends/opencl/pointwise.h"

#define DIF_OP(Name, folder)      \
  namespace dif::ops {            \
  extern const ir::OpDef k##Name; \
  }
#include "ops/ops.def"
#undef DIF_OP

namespace dif::opencl {

std::string buffer_parameters(std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names)
    text += fmt::format("global uchar* {0}_buffer, ulong {0}_offset, ", name);
  return text;
}

const ElementOperation* element_operation(const ir::OpDef& def) {
  static constexpr std::pair<const ir::OpDef*, const ElementOperation*> kList[] = {
      {&ops::kAdd, &kAdd},
      {&ops::kSub, &kSub},
      {&ops::kMul, &kMul},
      {&ops::kAddScalar, &kAddScalar},
      {&ops::kMulScalar, &kMulScalar},
      {&ops::kSilu, &kSilu},
      {&ops::kSqrt, &kSqrt},
      {&ops::kCast, &kCast},
  };
  for (const auto& [op, operation] : kList)
    if (op == &def) return operation;
  return nullptr;
}

std::span<const runtime::KernelEntry> kernel_list() {
  static constexpr runtime::KernelEntry kList[] = {
      {&ops::kAdd, "opencl_elements", make_pointwise},
      {&ops::kSub, "opencl_elements", make_pointwise},
      {&ops::kMul, "opencl_elements", make_pointwise},
      {&ops::kAddScalar, "opencl_elements", make_pointwise},
      {&ops::kMulScalar, "opencl_elements", make_pointwise},
      {&ops::kSilu, "opencl_elements", make_pointwise},
      {&ops::kSqrt, "opencl_elements", make_pointwise},
      {&ops::kCast, "opencl_elements", make_pointwise},
      {&ops::kReshape, "opencl_copy", make_reshape},
      {&ops::kTranspose, "opencl_copy", make_transpose},
      {&ops::kSlice, "opencl_copy", make_slice},
      {&ops::kConcat, "opencl_copy", make_concat},
      {&ops::kGatherRows, "opencl_rows", make_gather_rows},
      {&ops::kLinear, "opencl_tiles", make_linear},
      {&ops::kRmsNorm, "opencl_rms_norm", make_rms_norm},
      {&ops::kLayerNorm, "opencl_layer_norm", make_layer_norm},
      {&ops::kGroupNorm, "opencl_group_norm", make_group_norm},
      {&ops::kRotary, "opencl_rotary", make_rotary},
      {&ops::kAttention, "opencl_streaming_attention", make_attention},
      {&ops::kConv2d, "opencl_tiles", make_conv2d},
      {&ops::kUpsampleNearest, "opencl_copy", make_upsample_nearest},
      {&ops::kTimestepEmbedding, "opencl_timestep_embedding", make_timestep_embedding},
  };
  return kList;
}

std::span<const runtime::GroupKernelEntry> group_kernel_list() {
  static constexpr runtime::GroupKernelEntry kList[] = {{"opencl_elements", make_pointwise_group}};
  return kList;
}

}  // namespace dif::opencl

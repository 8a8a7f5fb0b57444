#include "backends/cpu/kernel_list.h"

#include <vector>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/row_group.h"
#include "backends/reference/kernels.h"

#define DIF_OP(Name, folder)      \
  namespace dif::ops {            \
  extern const ir::OpDef k##Name; \
  }
#include "ops/ops.def"
#undef DIF_OP

namespace dif::cpu {

std::span<const runtime::KernelEntry> kernel_list() {
  static const std::vector<runtime::KernelEntry> list = [] {
    instruction_set();
    std::vector<runtime::KernelEntry> entries = {
        {&ops::kLinear, "onednn_matmul", make_onednn_linear},
        {&ops::kLinear, "onednn_matmul_f32", make_upcast_linear},
        {&ops::kConv2d, "simd_few_channel_convolution", make_few_channel_conv2d},
        {&ops::kConv2d, "onednn_convolution", make_onednn_conv2d},
        {&ops::kConv2d, "onednn_convolution_f32", make_upcast_conv2d},
        {&ops::kAttention, "streaming_attention_bf16", make_bf16_attention},
        {&ops::kAttention, "streaming_attention", make_attention},
        {&ops::kRmsNorm, "simd_rms_norm", make_rms_norm},
        {&ops::kLayerNorm, "simd_layer_norm", make_layer_norm},
        {&ops::kGroupNorm, "simd_group_norm", make_group_norm},
        {&ops::kGroupNorm, "simd_group_norm_channels_last", make_group_norm_channels_last},
        {&ops::kRotary, "simd_rotary", make_rotary},
        {&ops::kAdd, "simd_add", make_add},
        {&ops::kSub, "simd_sub", make_sub},
        {&ops::kMul, "simd_mul", make_mul},
        {&ops::kAddScalar, "simd_add_scalar", make_add_scalar},
        {&ops::kMulScalar, "simd_mul_scalar", make_mul_scalar},
        {&ops::kSilu, "simd_silu", make_silu},
        {&ops::kSqrt, "simd_sqrt", make_sqrt},
        {&ops::kCast, "simd_cast", make_cast},
        {&ops::kTranspose, "tiled_transpose", make_transpose},
        {&ops::kSlice, "block_copy", make_slice},
        {&ops::kConcat, "block_copy", make_concat},
        {&ops::kReshape, "block_copy", make_reshape},
        {&ops::kGatherRows, "row_copy", make_gather_rows},
        {&ops::kUpsampleNearest, "row_repeat", make_upsample_nearest},
    };
    for (const runtime::KernelEntry& entry : reference::kernel_list()) entries.push_back(entry);
    return entries;
  }();
  return list;
}

std::span<const runtime::GroupKernelEntry> group_kernel_list() {
  instruction_set();
  static constexpr runtime::GroupKernelEntry kList[] = {{"simd_rows", make_row_group}};
  return kList;
}

}  // namespace dif::cpu

#include "backends/cuda/kernel_list.h"

#include <algorithm>
#include <array>

#include "backends/cuda/kernels.h"

#define DIF_OP(Name, folder)      \
  namespace dif::ops {            \
  extern const ir::OpDef k##Name; \
  }
#include "ops/ops.def"
#undef DIF_OP

namespace dif::cuda {

std::span<const runtime::KernelEntry> kernel_list() {
  static const std::array kList = std::to_array<runtime::KernelEntry>({
      {&ops::kLinear, "cublaslt_matmul", make_matmul_linear},
      {&ops::kLinear, "tiled_matmul", make_tiled_linear},
      {&ops::kConv2d, "cudnn_convolution", make_dnn_conv2d},
      {&ops::kConv2d, "tiled_convolution", make_tiled_conv2d},
      {&ops::kAttention, "cudnn_attention", make_dnn_attention},
      {&ops::kAttention, "cublaslt_attention", make_matmul_attention},
      {&ops::kAttention, "streaming_attention", make_streaming_attention},
      {&ops::kRmsNorm, "generated_rows", make_rows},
      {&ops::kLayerNorm, "generated_rows", make_rows},
      {&ops::kRotary, "generated_rows", make_rows},
      {&ops::kAdd, "generated_rows", make_rows},
      {&ops::kSub, "generated_rows", make_rows},
      {&ops::kMul, "generated_rows", make_rows},
      {&ops::kAddScalar, "generated_rows", make_rows},
      {&ops::kMulScalar, "generated_rows", make_rows},
      {&ops::kSilu, "generated_rows", make_rows},
      {&ops::kSqrt, "generated_rows", make_rows},
      {&ops::kCast, "generated_rows", make_rows},
      {&ops::kGroupNorm, "group_norm_channels_last", make_group_norm_channels_last},
      {&ops::kGroupNorm, "group_norm", make_group_norm},
      {&ops::kTranspose, "strided_copy", make_transpose},
      {&ops::kSlice, "strided_copy", make_slice},
      {&ops::kConcat, "strided_copy", make_concat},
      {&ops::kReshape, "strided_copy", make_reshape},
      {&ops::kUpsampleNearest, "strided_copy", make_upsample_nearest},
      {&ops::kGatherRows, "gather_rows", make_gather_rows},
      {&ops::kTimestepEmbedding, "timestep_embedding", make_timestep_embedding},
  });
  return kList;
}

std::span<const runtime::GroupKernelEntry> group_kernel_list() {
  static constexpr std::array kList =
      std::to_array<runtime::GroupKernelEntry>({{"wgmma_linear_swiglu", make_linear_swiglu, true},
                                                {"cudnn_convolution", make_dnn_conv2d_group},
                                                {"group_norm_channels_last", make_group_norm_group},
                                                {"generated_rows", make_row_group}});
  return kList;
}

Status accept_as_leader(const ir::OpView& op) {
  const bool known = &op.def() == &ops::kConv2d || &op.def() == &ops::kGroupNorm;
  if (!known) return runtime::declined("{} does not work row by row", op.def().name);
  if (!op.flag("channels_last"))
    return runtime::declined("{} with channels first is not fused", op.def().name);
  return ok();
}

std::span<const RowOperation> row_operations() {
  static const std::array kList = {kAddRows,    kSubRows,   kMulRows,   kAddScalarRows, kMulScalarRows,
                                   kSiluRows,   kSqrtRows,  kCastRows,  kRmsNormRows,   kLayerNormRows,
                                   kRotaryRows, kSliceRows, kConcatRows};
  return kList;
}

const RowOperation* row_operation(const ir::OpDef& op) {
  const auto found = std::ranges::find(row_operations(), &op, &RowOperation::op);
  return found == row_operations().end() ? nullptr : &*found;
}

}  // namespace dif::cuda

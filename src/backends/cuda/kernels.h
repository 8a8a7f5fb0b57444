#pragma once

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/row_text.h"
#include "backends/cuda/source.h"
#include "runtime/kernel.h"

/// How the kernels of this backend are made; each is defined in the folder of its operation, or where several
/// operations share one, beside this file. All of them take f32, bf16 and f16 unless they say otherwise,
/// compute in f32 and round once.
namespace dif::cuda {

using MakeResult = Result<std::unique_ptr<runtime::Kernel>>;
using runtime::KernelRequest;

/// One generated kernel for one operation of row_operations(), or for a group of them; also i32 where the
/// operation has it.
MakeResult make_rows(const KernelRequest& request);
MakeResult make_row_group(const runtime::GroupRequest& request);
/// What a group may hold, and what it may begin with.
Status accept_in_group(const ir::OpView& op);
Status accept_as_leader(const ir::OpView& op);

/// y = x w^T + bias by cuBLASLt; f32 without TF32.
MakeResult make_matmul_linear(const KernelRequest& request);
/// The same by a plain tiled kernel, for what cuBLASLt does not take.
MakeResult make_tiled_linear(const KernelRequest& request);

/// Products without bias with SwiGLU behind them: silu(x gate^T) * (x up^T), where gate and up are two
/// weights or rows of one. For compute capability 9.0, in bf16, where the caller chose it for one of the
/// products.
MakeResult make_linear_swiglu(const runtime::GroupRequest& request);
/// The operations of each, ascending: what make_linear_swiglu may be asked for.
std::vector<std::vector<ir::OpId>> find_linear_swiglus(const ir::Program& program);

/// Convolution by cuDNN, and by a plain tiled kernel.
MakeResult make_dnn_conv2d(const KernelRequest& request);
MakeResult make_tiled_conv2d(const KernelRequest& request);
/// A convolution by cuDNN and the addition to its result, rounded once at the end.
MakeResult make_dnn_conv2d_group(const runtime::GroupRequest& request);

/// Attention by cuDNN (bf16, f16); by matrix products over blocks of queries with a softmax in between; and
/// by a plain kernel that streams over the keys.
MakeResult make_dnn_attention(const KernelRequest& request);
MakeResult make_matmul_attention(const KernelRequest& request);
MakeResult make_streaming_attention(const KernelRequest& request);

MakeResult make_group_norm(const KernelRequest& request);
/// Channels last, read once for the statistics and once for the result, alone or with the silu behind it.
MakeResult make_group_norm_channels_last(const KernelRequest& request);
MakeResult make_group_norm_group(const runtime::GroupRequest& request);
MakeResult make_timestep_embedding(const KernelRequest& request);

/// Copies of any dtype.
MakeResult make_transpose(const KernelRequest& request);
MakeResult make_slice(const KernelRequest& request);
MakeResult make_concat(const KernelRequest& request);
MakeResult make_reshape(const KernelRequest& request);
MakeResult make_gather_rows(const KernelRequest& request);
MakeResult make_upsample_nearest(const KernelRequest& request);

/// The C expression of silu(x), for x a name and a result of that dtype.
std::string silu_text(DType result, std::string_view x);

extern const RowOperation kAddRows, kSubRows, kMulRows, kAddScalarRows, kMulScalarRows, kSiluRows, kSqrtRows,
    kCastRows, kRmsNormRows, kLayerNormRows, kRotaryRows, kSliceRows, kConcatRows;

}  // namespace dif::cuda

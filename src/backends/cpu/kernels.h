#pragma once

#include "runtime/kernel.h"

/// How the kernels of this backend are made; each is defined in the folder of its operation, or where several
/// operations share one, beside this file. All of them take f32, bf16 and f16 unless they say otherwise,
/// compute in f32 and round once.
namespace dif::cpu {

using MakeResult = Result<std::unique_ptr<runtime::Kernel>>;
using runtime::KernelRequest;

/// linear and conv2d in the storage dtype: f32, or bf16 on processors that multiply bf16.
MakeResult make_onednn_linear(const KernelRequest& request);
MakeResult make_onednn_conv2d(const KernelRequest& request);
/// The same in f32 over bf16 or f16 storage: weights are upcast once, activations in each run.
MakeResult make_upcast_linear(const KernelRequest& request);
MakeResult make_upcast_conv2d(const KernelRequest& request);

/// A convolution to at most four channels, of any storage dtype, in f32.
MakeResult make_few_channel_conv2d(const KernelRequest& request);

/// The products of bf16 in bf16 pairs, on processors that have them; probabilities are rounded to bf16.
MakeResult make_bf16_attention(const KernelRequest& request);
MakeResult make_attention(const KernelRequest& request);

MakeResult make_rms_norm(const KernelRequest& request);
MakeResult make_layer_norm(const KernelRequest& request);
MakeResult make_group_norm(const KernelRequest& request);
MakeResult make_group_norm_channels_last(const KernelRequest& request);
MakeResult make_rotary(const KernelRequest& request);

MakeResult make_add(const KernelRequest& request);
MakeResult make_sub(const KernelRequest& request);
MakeResult make_mul(const KernelRequest& request);
MakeResult make_add_scalar(const KernelRequest& request);
MakeResult make_mul_scalar(const KernelRequest& request);
MakeResult make_silu(const KernelRequest& request);
MakeResult make_sqrt(const KernelRequest& request);
MakeResult make_cast(const KernelRequest& request);

/// Copies of any dtype.
MakeResult make_transpose(const KernelRequest& request);
MakeResult make_slice(const KernelRequest& request);
MakeResult make_concat(const KernelRequest& request);
MakeResult make_reshape(const KernelRequest& request);
MakeResult make_gather_rows(const KernelRequest& request);
MakeResult make_upsample_nearest(const KernelRequest& request);

}  // namespace dif::cpu

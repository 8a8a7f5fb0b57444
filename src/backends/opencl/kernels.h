#pragma once

#include "backends/opencl/opencl_device.h"
#include "backends/opencl/source.h"
#include "runtime/axes.h"
#include "runtime/kernel.h"

/// How the kernels of this backend are made; each is defined in the folder of its operation, or where several
/// operations share one, beside this file. All of them take f32, bf16 and f16 unless they say otherwise,
/// compute in f32 and round once.
namespace dif::opencl {

using MakeResult = Result<std::unique_ptr<runtime::Kernel>>;
using runtime::Axes;
using runtime::broadcast_strides;
using runtime::collapse;
using runtime::dense_strides;
using runtime::KernelRequest;

/// One parameter for each buffer of a text: `global uchar* x_buffer, ulong x_offset`.
std::string buffer_parameters(std::initializer_list<std::string_view> names);

MakeResult make_linear(const KernelRequest& request);
MakeResult make_conv2d(const KernelRequest& request);
MakeResult make_attention(const KernelRequest& request);

MakeResult make_rms_norm(const KernelRequest& request);
MakeResult make_layer_norm(const KernelRequest& request);
MakeResult make_group_norm(const KernelRequest& request);
MakeResult make_rotary(const KernelRequest& request);
MakeResult make_timestep_embedding(const KernelRequest& request);

/// Copies of any dtype.
MakeResult make_transpose(const KernelRequest& request);
MakeResult make_slice(const KernelRequest& request);
MakeResult make_concat(const KernelRequest& request);
MakeResult make_reshape(const KernelRequest& request);
MakeResult make_gather_rows(const KernelRequest& request);
MakeResult make_upsample_nearest(const KernelRequest& request);

}  // namespace dif::opencl

#pragma once

#include <span>

#include "runtime/kernel.h"

namespace dif::opencl {

/// The kernels of this backend, one per operation.
std::span<const runtime::KernelEntry> kernel_list();
std::span<const runtime::GroupKernelEntry> group_kernel_list();

}  // namespace dif::opencl

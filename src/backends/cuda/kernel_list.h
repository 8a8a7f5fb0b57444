#pragma once

#include "runtime/kernel.h"

namespace dif::cuda {

/// The kernels of this backend, for each operation the fastest first.
std::span<const runtime::KernelEntry> kernel_list();
std::span<const runtime::GroupKernelEntry> group_kernel_list();

}  // namespace dif::cuda

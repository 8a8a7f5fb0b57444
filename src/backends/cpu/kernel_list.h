#pragma once

#include <span>

#include "runtime/kernel.h"

namespace dif::cpu {

/// The kernels of this backend: per operation the fastest first, the reference last.
std::span<const runtime::KernelEntry> kernel_list();

/// The kernels for groups of operations, and which operations they take.
std::span<const runtime::GroupKernelEntry> group_kernel_list();

}  // namespace dif::cpu

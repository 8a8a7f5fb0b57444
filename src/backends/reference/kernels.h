#pragma once

#include "dif/status.h"
#include "ir/op_def.h"
#include "runtime/kernel.h"

/// What every operation means, slow and plain: one function per line of ops.def, named as the operation.
/// A backend may put them at the end of its own kernel list (function_kernel<reference::silu>).
namespace dif::reference {

#define DIF_OP(Name, folder) Status folder(const ir::OpView& op, const runtime::KernelArgs& args);
#include "ops/ops.def"
#undef DIF_OP

/// All of them, one entry per operation, named "reference".
std::span<const runtime::KernelEntry> kernel_list();

}  // namespace dif::reference

#pragma once

#include "runtime/kernel.h"

namespace dif::cpu {

/// Whether a group may hold the operation. Error: Declined, with the reason.
Status accepts_in_group(const ir::OpView& op);

/// A group of operations, some rows at a time: results stay in the cache of a core as f32 numbers, rounded to
/// their dtype, and only what is read outside is written. The bits are those of the single kernels. Pre: each
/// operation was accepted. Error: Declined, when a row does not fit into the cache.
Result<std::unique_ptr<runtime::Kernel>> make_row_group(const runtime::GroupRequest& request);

}  // namespace dif::cpu

#pragma once

#include <span>

#include "runtime/kernel.h"

namespace dif::runtime {

/// A kernel of a device that runs an operation on the host: operands are downloaded, one of `host_kernels`
/// runs on them, results are uploaded. Backends offer it for operations that their own kernels decline, and a
/// run uses it only when the caller allows it; reports list such operations. Errors: Declined (all of
/// `host_kernels` decline).
Result<std::unique_ptr<Kernel>> make_on_host(const KernelRequest& request,
                                             std::span<const KernelEntry> host_kernels);

/// The line of a fallback list: `{&ops::kSilu, "host", on_host<reference::kernel_list>}`.
template <std::span<const KernelEntry> (*kHostKernels)()>
Result<std::unique_ptr<Kernel>> on_host(const KernelRequest& request) {
  return make_on_host(request, kHostKernels());
}

/// Such a line for every operation that `kHostKernels` has.
template <std::span<const KernelEntry> (*kHostKernels)()>
std::span<const KernelEntry> host_fallback() {
  static const std::vector<KernelEntry> list = [] {
    std::vector<KernelEntry> entries;
    for (const KernelEntry& entry : kHostKernels())
      if (entries.empty() || entries.back().op != entry.op)
        entries.push_back({entry.op, "host_fallback", on_host<kHostKernels>});
    return entries;
  }();
  return list;
}

}  // namespace dif::runtime

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "runtime/abi_adapter.h"
#include "runtime/executor.h"

// What stands behind the handles of the C interface in our own backends.

namespace dif::runtime {

/// A run whose outputs are on their way to the host while the host goes on.
struct RunAhead {
  dif_prepared* prepared = nullptr;  ///< null: none
  std::uint64_t input_room = 0;      ///< of the memory of runs; its outputs lie behind that
  std::unique_ptr<Marker> computed, returned;
};

}  // namespace dif::runtime

/// A device, its shared memory, and what the host wants to be told.
struct dif_context {
  const dif::runtime::BackendDefinition* definition = nullptr;
  dif_context_options options = {};
  std::unique_ptr<dif::runtime::Device> device;
  std::unique_ptr<dif::runtime::SharedArena> arena;
  dif::runtime::WeightOptions weights;
  bool told_nothing_computed = false;
  std::vector<dif::runtime::KernelEntry>
      kernels;  ///< of the definition, then of the host where the caller allows it
  std::map<const std::byte*, dif::runtime::PinnedBuffer> host_memory;  ///< that the host asked for
  dif::runtime::RunAhead ahead;

  /// Whether these bytes are in memory that the host asked for.
  bool is_own_host_memory(const void* data, std::uint64_t bytes) const {
    const auto* const first = static_cast<const std::byte*>(data);
    const auto next = host_memory.upper_bound(first);
    if (next == host_memory.begin()) return false;
    const auto& [start, block] = *std::prev(next);
    const auto before = static_cast<std::uint64_t>(first - start);
    return before <= block.bytes() && bytes <= block.bytes() - before;
  }
  std::uint64_t host_memory_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [start, block] : host_memory) bytes += block.bytes();
    return bytes;
  }
  bool pins_run_memory() const {
    return (options.flags & DIF_CONTEXT_PINNED_IO) != 0 && device->has_copy_lane();
  }
  dif::runtime::RunHooks hooks(std::uint32_t flags) const {
    dif::runtime::RunHooks hooks;
    hooks.check_operations = (flags & DIF_RUN_CHECK_OPERATIONS) != 0;
    if (options.cancelled != nullptr)
      hooks.cancelled = [this] { return options.cancelled(options.user) != 0; };
    if (options.trace != nullptr)
      hooks.trace = [this](const dif::runtime::OpTrace& trace) {
        const dif_trace_event event = {sizeof(event), trace.op, trace.op_name, trace.kernel,
                                       trace.nanoseconds};
        options.trace(options.user, &event);
      };
    return hooks;
  }
};

struct dif_prepared {
  dif_context* context = nullptr;
  std::unique_ptr<dif::runtime::Executor> executor;
};

struct dif_value {
  dif_context* context = nullptr;
  dif::ir::TensorType type;
  dif::runtime::DeviceBuffer buffer;
};

namespace dif::runtime {

/// A structure that ends before `needed` bytes comes from a host that we do not understand.
inline Status check_size(std::uint32_t found, std::size_t needed, const char* what) {
  if (found < needed) return invalid_input("{} has {} bytes, at least {} are needed", what, found, needed);
  return ok();
}

/// Element i of an array of structures, which stand struct_size bytes apart. Pre: check_array passed.
template <class T>
T& element(T* first, std::uint32_t i) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return *reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + std::size_t{i} * first->struct_size);
}

template <class T>
Status check_array(const T* first, std::uint32_t count, const char* what) {
  if (count == 0) return ok();
  if (first == nullptr) return invalid_input("{} {} are announced, none are there", count, what);
  return check_size(first->struct_size, sizeof(T), what);
}

}  // namespace dif::runtime

#include "backends/cpu/onednn.h"

#include <sys/mman.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace dif::cpu {

// Never destroyed: primitives in static objects elsewhere may outlive any order of destruction.
dnnl::engine& onednn_engine() {
  static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::stream& onednn_stream() {
  static auto* stream = new dnnl::stream(onednn_engine());
  return *stream;
}

Status onednn_has_room() {
  constexpr std::size_t kMostCodeBytes = 16 << 20;
  void* const room = mmap(nullptr, kMostCodeBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return fail(ErrorCode::kOutOfMemory, "the system has no memory left for the code of a kernel");
  munmap(room, kMostCodeBytes);
  return ok();
}

std::string layout_name(std::span<const std::byte> description, DType storage) {
  return std::string(dtype_name(storage)) +
         std::string(reinterpret_cast<const char*>(description.data()), description.size());
}

std::string onednn_identity() {
  const dnnl_version_t* const version = dnnl::version();
  return fmt::format("{}.{}.{} {} isa {}", version->major, version->minor, version->patch, version->hash,
                     static_cast<int>(dnnl::get_effective_cpu_isa()));
}

}  // namespace dif::cpu

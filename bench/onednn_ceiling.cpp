#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "backends/cpu/host_buffer.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/stream_out.h"
#include "bench/ceiling.h"

namespace dif::bench {

double fastest(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30, total = 0;
  for (int i = 0; i < 2 || (i < 5 && total < 1) || (total < 0.5 && i < 100000); ++i) {
    const auto start = Clock::now();
    call();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

double onednn_flops(DType dtype, std::int64_t m, std::int64_t k, std::int64_t n) {
  using dnnl::memory;
  using Tag = memory::format_tag;
  const auto type = dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc x({m, k}, type, Tag::ab), w({k, n}, type, Tag::any), y({m, n}, type, Tag::ab);
  const dnnl::matmul::primitive_desc how(dnnl::matmul::desc(x, w, y), engine);
  const dnnl::matmul product(how);
  const memory x_memory(x, engine), w_memory(how.weights_desc(), engine), y_memory(y, engine);
  std::memset(x_memory.get_data_handle(), 0, x.get_size());
  std::memset(w_memory.get_data_handle(), 0, how.weights_desc().get_size());
  const double seconds = fastest([&] {
    product.execute(stream,
                    {{DNNL_ARG_SRC, x_memory}, {DNNL_ARG_WEIGHTS, w_memory}, {DNNL_ARG_DST, y_memory}});
    stream.wait();
  });
  return 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n) / seconds;
}

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl::version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

namespace {

/// Bytes of the largest cache of the first processor; 32 MiB where the kernel does not say.
std::int64_t last_cache_bytes() {
  std::int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::int64_t size = 0;
    char unit = 0;
    if (file >> size && file >> unit) largest = std::max(largest, unit == 'M' ? size << 20 : size << 10);
  }
  return largest == 0 ? 32 << 20 : largest;
}

using Copy = void (*)(const std::byte* x, std::byte* y, std::size_t bytes);

double copy_seconds(std::int64_t bytes, Copy copy) {
  const auto size = static_cast<std::size_t>(bytes);
  std::vector<cpu::HostBuffer> from, to;
  for (std::size_t set = 0; set < sets_in_turn(2 * bytes); ++set)
    for (auto* const list : {&from, &to}) std::memset(list->emplace_back(size).data(), 1, size);
  constexpr std::int64_t kBlock = 64 << 10;
  std::size_t turn = 0;
  return fastest([&] {
    const std::byte* const x = from[turn].data();
    std::byte* const y = to[turn].data();
    turn = (turn + 1) % from.size();
    cpu::for_blocks(ceil_div(bytes, kBlock), [&](std::int64_t block) {
      const std::int64_t first = block * kBlock;
      copy(x + first, y + first, static_cast<std::size_t>(std::min(kBlock, bytes - first)));
    });
  });
}

}  // namespace

std::size_t sets_in_turn(std::int64_t bytes) {
  if (bytes < kFromMemoryBytes) return 1;
  return static_cast<std::size_t>(ceil_div(4 * last_cache_bytes(), bytes));
}

double copy_bandwidth(std::int64_t bytes) {
  double seconds =
      copy_seconds(bytes, [](const std::byte* x, std::byte* y, std::size_t n) { std::memcpy(y, x, n); });
  if (2 * bytes >= kFromMemoryBytes)
    seconds = std::min(seconds, copy_seconds(bytes, [](const std::byte* x, std::byte* y, std::size_t n) {
                         cpu::stream_out(x, y, n);
                         cpu::finish_stream();
                       }));
  return 2.0 * static_cast<double>(bytes) / seconds;
}

}  // namespace dif::bench

#include <algorithm>
#include <chrono>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "backends/cpu/parallel.h"
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

double copy_bandwidth(std::int64_t bytes) {
  std::vector<char> x(static_cast<std::size_t>(bytes), 1), y(x.size());
  constexpr std::int64_t kBlock = 64 << 10;
  const double seconds = fastest([&] {
    cpu::for_blocks(ceil_div(bytes, kBlock), [&](std::int64_t block) {
      const std::int64_t first = block * kBlock;
      std::memcpy(y.data() + first, x.data() + first,
                  static_cast<std::size_t>(std::min(kBlock, bytes - first)));
    });
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

}  // namespace dif::bench

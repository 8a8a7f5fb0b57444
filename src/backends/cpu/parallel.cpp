#include "backends/cpu/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace dif::cpu {

int thread_count() {
  return omp_get_max_threads();
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}

OneThread::~OneThread() {
  omp_set_num_threads(before_);
}

namespace internal {

void run_blocks(std::int64_t n_blocks, int max_slots, bool balanced, BlockBody body, void* context) {
  const int threads = std::min(thread_count(), max_slots);
  if (n_blocks <= 1 || threads <= 1) {
    for (std::int64_t block = 0; block < n_blocks; ++block) body(context, block, 0);
    return;
  }
  std::atomic<std::int64_t> next{0};
  // Always the whole team, as in oneDNN: a team of changing size makes OpenMP end and start threads.
#pragma omp parallel
  {
    const int n = std::min(omp_get_num_threads(), threads), slot = omp_get_thread_num();
    if (balanced && slot < n) {
      for (std::int64_t block; (block = next.fetch_add(1, std::memory_order_relaxed)) < n_blocks;)
        body(context, block, slot);
    } else if (slot < n) {
      for (std::int64_t block = n_blocks * slot / n, end = n_blocks * (slot + 1) / n; block < end; ++block)
        body(context, block, slot);
    }
  }
}

}  // namespace internal
}  // namespace dif::cpu

#include "backends/cpu/cpu_device.h"

#include <omp.h>

#include <algorithm>

namespace dif::cpu {

Status CpuDevice::begin_run() {
  // oneDNN cuts a product for the threads that OpenMP says it has, and computes a part of it where the team
  // is smaller than that: OMP_DYNAMIC, OMP_THREAD_LIMIT and OMP_MAX_ACTIVE_LEVELS must not make it so.
  omp_set_dynamic(0);
  omp_set_max_active_levels(std::max(1, omp_get_max_active_levels()));
  omp_set_num_threads(std::min(static_cast<int>(threads_), omp_get_thread_limit()));
  return ok();
}

}  // namespace dif::cpu

#include "backends/cpu/cpu_device.h"

#include <omp.h>

namespace dif::cpu {

Status CpuDevice::begin_run() {
  omp_set_num_threads(static_cast<int>(threads_));
  return ok();
}

}  // namespace dif::cpu

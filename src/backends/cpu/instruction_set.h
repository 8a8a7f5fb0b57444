#pragma once

namespace dif::cpu {

/// The instruction set that our own vectorised kernels run with on this processor, e.g. "AVX3" (Highway's
/// name for AVX-512).
const char* instruction_set();

}  // namespace dif::cpu

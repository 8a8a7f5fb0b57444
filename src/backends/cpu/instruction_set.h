#pragma once

namespace dif::cpu {

/// The instruction set that our own vectorised kernels run with on this processor, e.g. "AVX3" (Highway's
/// name for AVX-512). Kernels keep the functions that Highway names; before its first choice those choose
/// again in every call, which is slow, so the lists of kernels ask this first.
const char* instruction_set();

}  // namespace dif::cpu

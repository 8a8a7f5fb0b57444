#pragma once

#include <string>

#include "dif/dtype.h"

namespace dif::cpu {

/// What this processor offers beyond x86-64-v2, as far as the operating system lets programs use it.
struct CpuFeatures {
  bool avx2 = false;         ///< with fma and f16c
  bool avx512 = false;       ///< f, bw, cd, dq and vl
  bool avx512_bf16 = false;  ///< products of bf16 pairs into f32
  bool amx_bf16 = false;     ///< the same in tiles
  std::string name;          ///< as the processor calls itself, e.g. "AMD EPYC 9R14"
};

const CpuFeatures& cpu_features();

/// Whether oneDNN multiplies bf16 here: it needs avx512_bf16 or amx, and may be held back by
/// ONEDNN_MAX_CPU_ISA.
bool multiplies_bf16();

/// Whether oneDNN convolves images with channels last at least as fast as others here: with AVX-512, unless
/// held back by ONEDNN_MAX_CPU_ISA.
bool convolves_channels_last();

/// What `--dtype auto` means for text encoder and denoiser: bf16 where products of bf16 are fast, else f32.
DType default_dtype();

/// CPUs that this process may use: its affinity mask, and the quota of its control group rounded up.
unsigned usable_cpus();

/// JSON document: processor, features, instruction set of our own kernels, threads, libraries.
std::string probe_json();

}  // namespace dif::cpu

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>

#include "dif/dtype.h"
#include "dif/status.h"

namespace dif {

/// Standard normal noise, bit for bit what `torch.randn(...,
/// generator=torch.Generator("cpu").manual_seed(seed))` draws on an x86-64 machine with AVX2 or later
/// (PyTorch 2.x), on any CPU. One object is one generator: draws follow each other as they do in PyTorch, so
/// the split of a request into calls is part of the result.
///
/// MT19937 seeded with the low 32 bits of `seed` (callers warn when more are set). For `n` values:
///  - n >= 16: one uniform of 24 (f32), 8 (bf16) or 11 (f16) bits per value, then Box-Muller within every
///  block
///    of 16: values j and j + 8 make a pair. When n is not a multiple of 16 the last 16 values are drawn
///    anew. bf16 and f16 round after each operation, as arithmetic in that dtype does.
///  - n < 16: Box-Muller in f64, one pair of 53-bit uniforms per two values; the second value of a pair waits
///  for
///    the next such call.
/// Source: aten/src/ATen/native/cpu/DistributionTemplates.h and aten/src/ATen/core/DistributionsHelper.h; the
/// f32 logarithm, sine and cosine are the single precision Cephes polynomials with fused multiply-adds.
class TorchCpuGenerator {
 public:
  explicit TorchCpuGenerator(std::uint64_t seed);

  void normal_f32(std::span<float> out);
  /// `out` receives bf16 bit patterns.
  void normal_bf16(std::span<std::uint16_t> out);
  /// `out` receives f16 bit patterns.
  void normal_f16(std::span<std::uint16_t> out);

  /// Fills `out`, which holds elements of `dtype`, f32, bf16 or f16. Errors: InvalidInput for any other
  /// dtype. Pre: out is aligned for dtype and its size is a multiple of dtype_size(dtype).
  Status normal(DType dtype, std::span<std::byte> out);

 private:
  double next_f64();

  std::mt19937 engine_;
  std::optional<double> waiting_;  ///< second value of the last f64 pair
};

}  // namespace dif

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dif/status.h"
#include "io/host_tensor.h"

namespace dif {

/// Whose generator draws the initial noise: PyTorch's of the CPU, or that of a CUDA card, whose values depend
/// on the card's size (TorchCudaGenerator).
struct NoiseSource {
  int multiprocessors = 0;  ///< of the card; 0: torch-cpu
  int threads_per_multiprocessor = 0;

  bool is_cuda() const { return multiprocessors > 0; }
  /// torch-cpu, or torch-cuda:132x2048.
  std::string text() const;
};

/// Reads what text() writes; torch-cuda alone is the card of `device` in the plug-in's document `probe`,
/// which may be empty. Errors: InvalidInput (another word, sizes that no card has, torch-cuda without a
/// card).
Result<NoiseSource> parse_noise_source(std::string_view text, std::string_view probe, int device);

/// Standard normal noise. Errors: InvalidInput (a dtype that the source does not draw: a card draws f32).
Result<io::HostTensor> draw_noise(const NoiseSource& source, std::uint64_t seed, DType dtype,
                                  const Shape& shape);

}  // namespace dif

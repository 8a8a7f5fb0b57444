#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace dif {

/// One block of Philox4x32-10: Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
/// 2011.
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);

/// Standard normal noise laid out as `torch.randn(..., generator=torch.Generator("cuda").manual_seed(seed))`
/// lays it out on a card of the given size: Philox keyed by the seed, one subsequence per thread, 256 threads
/// a block, as many blocks as there are values or as the card holds at once, four normals per thread and
/// pass, one grid apart. So the values depend on the card once a tensor exceeds the grid. Draws follow each
/// other as in PyTorch.
///
/// The integers behind the values are exact; the values agree with a card's to about 1e-6, since cards use
/// their own fast sine and cosine. Source: aten/src/ATen/native/cuda/DistributionTemplates.h, cuRAND's device
/// header.
class TorchCudaGenerator {
 public:
  /// Pre: multiprocessors > 0 and threads_per_multiprocessor >= 256.
  TorchCudaGenerator(std::uint64_t seed, int multiprocessors, int threads_per_multiprocessor);

  void normal_f32(std::span<float> out);

 private:
  std::uint64_t seed_;
  std::uint64_t blocks_at_once_;
  std::uint64_t passes_ = 0;  ///< Philox blocks that each thread has used up
};

}  // namespace dif

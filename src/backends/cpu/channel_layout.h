#pragma once

#include <cstdint>

#include "dif/dtype.h"

/// Planar and blocked images. Planar: [channels][positions], channel c begins at c * stride. Blocked:
/// [ceil(channels / width)][positions][width], channels behind the last one are zero; width 1 is planar and
/// dense, width == channels has the channels innermost.
namespace dif::cpu {

struct PlanarImage {
  std::int64_t channels = 0;
  std::int64_t positions = 0;
  std::int64_t stride = 0;  ///< elements from one channel to the next, >= positions
};

/// Copies x into the blocked layout at y, or back, with one rounding when the floating dtypes differ.
void block_channels(const PlanarImage& image, DType from, const void* x, std::int64_t width, DType to,
                    void* y);
void unblock_channels(const PlanarImage& image, DType from, const void* x, std::int64_t width, DType to,
                      void* y);

}  // namespace dif::cpu

#pragma once

#include <string>

namespace dif::cuda {

/// Text of a plain matrix product without tensor cores: C[m, n] = sum over k of A(m, k) * B(n, k), in tiles
/// of 64 x 64 whose sums are in registers. The kernel's body declares
///
///     const Index M, N, K
///     float a_at(Index m, Index k), float b_at(Index n, Index k)      as lambdas, zero is theirs to give
///     void put(Index m, Index n, float sum)
///
/// and then stands @tile@. Sums are f32, in the order of k; 256 threads; blocks are (N / 64, M / 64).
std::string tile_text();

inline constexpr int kTileThreads = 256;
inline constexpr int kTileSize = 64;

}  // namespace dif::cuda

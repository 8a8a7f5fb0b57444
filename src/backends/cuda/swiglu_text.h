#pragma once

#include <string>

namespace dif::cuda {

/// multiply_swiglu(x, gate, up, y, row_pairs, columns, steps): y = silu(x gate^T) * (x up^T) in bf16, with
/// sums in f32 that are rounded before SwiGLU, by the matrix instructions of compute capability 9.0. Clusters
/// of two blocks, of which each takes tile after tile: kSwigluRows rows of y of its own and the
/// kSwigluColumns columns that both share. One warp fetches the operands into a ring of stages, a step of
/// kSwigluDepth each; two warpgroups multiply, 64 rows each, and write through shared memory.
///
/// The maps are of boxes of kSwigluDepth columns (y: 64) and 128 rows (y: 64), swizzled by 128 bytes; what is
/// outside reads as 0 and is not written. row_pairs: pairs of tiles that cover the rows; steps: of the
/// depth. Source: PTX ISA 8.0, "Asynchronous Warpgroup Level Matrix Instructions", "cp.async.bulk.tensor",
/// "mbarrier".
std::string swiglu_text();

inline constexpr int kSwigluRows = 128, kSwigluColumns = 128, kSwigluDepth = 64;
inline constexpr int kSwigluThreads = 384;
/// Four stages of three tiles, the staged result, the barriers, and what aligns them to 1024 bytes.
inline constexpr int kSwigluShared = 4 * 3 * 16384 + 32768 + 64 + 1024;

}  // namespace dif::cuda

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "dif/dtype.h"

/// What the machine could do at best, measured in the same run as our kernels.
namespace dif::bench {

/// Seconds of the fastest of many calls: half a second of them, at least five unless those take a second,
/// then two.
double fastest(const std::function<void()>& call);

/// FLOP/s of a bare oneDNN product [m, k] x [k, n] with weights in the layout that it prefers.
double onednn_flops(DType dtype, std::int64_t m, std::int64_t k, std::int64_t n);

/// "2.6.0"
std::string onednn_version();

/// Bytes that a call moves from which on it is timed out of memory, wherever caches could have kept them.
inline constexpr std::int64_t kFromMemoryBytes = 8 << 20;

/// How many sets of buffers calls that move `bytes` each go through in turn: below kFromMemoryBytes one; else
/// so many that four times the last cache is moved before a set's turn comes again.
std::size_t sets_in_turn(std::int64_t bytes);

/// Bytes per second, read and written, of a copy of `bytes` by all threads. From kFromMemoryBytes moved on
/// the faster of two copies, one past the caches, over as many sets of buffers as sets_in_turn says.
double copy_bandwidth(std::int64_t bytes);

}  // namespace dif::bench

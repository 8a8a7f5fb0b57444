#pragma once

#include <cstddef>

namespace dif::cpu {

/// Copies to memory that nobody reads soon: the caches are passed by, and what is overwritten is not read
/// first. `x` and `y` do not overlap.
void stream_out(const std::byte* x, std::byte* y, std::size_t bytes);

/// Orders what the calling thread has streamed before all that it writes from now on: once before another
/// thread may read it.
void finish_stream();

}  // namespace dif::cpu

#pragma once

#include <cstddef>
#include <functional>

namespace dif {

/// Calls work(0) ... work(count - 1), each once, on this thread and up to most_threads - 1 others; fewer
/// where there are fewer processors, or where the system has no more threads. Which thread takes which index
/// is open. Returns when all are done; an exception of one of them is thrown again.
void parallel_for(std::size_t count, std::size_t most_threads, const std::function<void(std::size_t)>& work);

}  // namespace dif

#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace dif {

void parallel_for(std::size_t count, std::size_t most_threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take_turns = [&] {
    try {
      for (std::size_t i; (i = next.fetch_add(1)) < count;) work(i);
    } catch (...) {
      next = count;  // the others finish what they have
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  const std::size_t wanted =
      std::min({count, most_threads, std::size_t{std::max(1U, std::thread::hardware_concurrency())}});
  {
    std::vector<std::jthread> helpers;
    helpers.reserve(wanted);
    for (std::size_t i = 1; i < wanted; ++i) {
      try {
        helpers.emplace_back(take_turns);
      } catch (const std::system_error&) {
        break;
      }
    }
    take_turns();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace dif

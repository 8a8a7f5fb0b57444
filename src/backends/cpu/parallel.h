#pragma once

#include <cstdint>
#include <type_traits>

#include "base/checked_math.h"

/// The one pool of the CPU backend is OpenMP's. Work is cut into blocks by shape, never by the number of
/// threads, and each block writes its own part of the result: the same bytes whoever computes them.
namespace dif::cpu {

/// Threads of a parallel region that the calling thread starts (the device sets it before a run).
int thread_count();

/// While it lives, the calling thread's parallel regions and oneDNN calls have one thread.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// Elements of one block of light work: below two of them a parallel region costs more than it saves.
inline constexpr std::int64_t kBlockElements = 16384;

namespace internal {
using BlockBody = void (*)(void* context, std::int64_t block, int slot);
void run_blocks(std::int64_t n_blocks, int max_slots, bool balanced, BlockBody body, void* context);

template <class Body>
void run_blocks(std::int64_t n_blocks, int max_slots, bool balanced, Body& body) {
  run_blocks(
      n_blocks, max_slots, balanced,
      [](void* context, std::int64_t block, int slot) { (*static_cast<Body*>(context))(block, slot); },
      const_cast<void*>(static_cast<const void*>(&body)));
}
}  // namespace internal

/// body(block) for 0 <= block < n_blocks. Neighbouring blocks go to one thread, and the same ones each time.
template <class Body>
void for_blocks(std::int64_t n_blocks, Body&& body) {
  auto with_slot = [&body](std::int64_t block, int) { body(block); };
  internal::run_blocks(n_blocks, thread_count(), false, with_slot);
}

/// body(block, slot) with whichever thread is free: for blocks of unequal cost. Blocks that run at the same
/// time have different slots, 0 <= slot < max_slots (scratch memory is per slot).
template <class Body>
void for_blocks_balanced(std::int64_t n_blocks, int max_slots, Body&& body) {
  internal::run_blocks(n_blocks, max_slots, true, body);
}

}  // namespace dif::cpu

#pragma once

#include <cstdio>
#include <cstdlib>

namespace dif::fuzz {

/// Ends the process when a reader has broken what its header promises: both the fuzzer and a replay see that.
inline void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace dif::fuzz

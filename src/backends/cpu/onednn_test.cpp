#include "backends/cpu/onednn.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace dif::cpu {
namespace {

/// Bytes of address space that this process has.
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

/// 0: there is room, 3: OutOfMemory.
[[noreturn]] void exit_as_found(rlim_t more_bytes) {
  const rlimit limit = {address_space() + more_bytes, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(1);
  const Status room = onednn_making("nothing", [] {});
  std::_Exit(room ? 0 : room.error().code == ErrorCode::kOutOfMemory ? 3 : 1);
}

TEST(OneDnnDeathTest, MakesNothingWhereTheSystemHasNoRoomForCode) {
  EXPECT_EXIT(exit_as_found(1 << 20), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(exit_as_found(rlim_t{1} << 30), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace dif::cpu

#include "cli/machine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/paths.h"

namespace dif::cli {
namespace {

namespace fs = std::filesystem;

/// A folder that looks like / of another computer.
class OtherMachine : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_.path() / path).parent_path());
    std::ofstream(root_.path() / path) << text;
  }
  Machine read() { return read_machine(root_.path()); }

  OtherMachine() {
    write("proc/cpuinfo",
          "processor\t: 0\nmodel name\t: Abacus 9000\nflags\t\t: fpu avx2 fma avx512_bf16 amx_bf16\n\n"
          "processor\t: 1\nmodel name\t: Abacus 1\n");
    write("proc/meminfo", "MemTotal:       8000 kB\nMemFree:        1000 kB\nMemAvailable:   6000 kB\n");
  }
  test::ScratchDir root_;
};

TEST_F(OtherMachine, ProcessorAndMemoryAreRead) {
  const Machine machine = read();
  EXPECT_EQ(machine.processor, "Abacus 9000");
  EXPECT_EQ(machine.features, (std::vector<std::string>{"avx2", "fma", "avx512_bf16", "amx_bf16"}));
  EXPECT_EQ(machine.memory_bytes, 8000U * 1024);
  EXPECT_EQ(machine.memory_available_bytes, 6000U * 1024);
  EXPECT_EQ(machine.memory_limit_bytes, 0U);
  EXPECT_GE(machine.cpus_usable, 1U);
}

TEST_F(OtherMachine, ControlGroupVersion2LimitsCpusAndMemoryAtEveryLevel) {
  write("proc/self/cgroup", "0::/jobs/mine\n");
  write("sys/fs/cgroup/jobs/mine/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/jobs/cpu.max", "50000 100000\n");
  write("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/memory.max", "4096000\n");
  write("sys/fs/cgroup/jobs/memory.current", "1096000\n");
  const Machine machine = read();
  EXPECT_EQ(machine.cpus_usable, 1U);
  EXPECT_EQ(machine.memory_limit_bytes, 4096000U);
  EXPECT_EQ(machine.memory_available_bytes, 3000000U);
}

TEST_F(OtherMachine, ControlGroupVersion1Counts) {
  write("proc/self/cgroup", "4:memory:/box\n1:cpu:/box\n0::/\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000\n");
  write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "2000\n");
  write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read().memory_limit_bytes, 1000U);
  EXPECT_EQ(read().memory_available_bytes, 0U) << "more is used than allowed";
  const unsigned without = read().cpus_usable;
  write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(read().cpus_usable, 1U);
  EXPECT_GE(without, 1U);
}

TEST_F(OtherMachine, ALimitAboveTheMemoryIsNone) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "9223372036854771712\n");
  EXPECT_EQ(read().memory_limit_bytes, 0U);
}

TEST(Machine, AnEmptyRootGivesDefaults) {
  const test::ScratchDir root;
  const Machine machine = read_machine(root.path());
  EXPECT_EQ(machine.processor, "");
  EXPECT_EQ(machine.memory_bytes, 0U);
  EXPECT_GE(machine.cpus_usable, 1U);
}

TEST(Machine, ParsesCpuMax) {
  EXPECT_EQ(parse_cpu_max("250000 100000"), 2.5);
  for (const char* none : {"max 100000", "", "100000", "0 100000", "100000 0", "x y"})
    EXPECT_EQ(parse_cpu_max(none), std::nullopt) << none;
}

TEST(Machine, FindsTheCacheFolder) {
  const auto saved = [](const char* name) {
    const char* value = std::getenv(name);
    return std::pair(std::string(name), value == nullptr ? std::optional<std::string>() : value);
  };
  const auto before = {saved("DIF_CACHE_DIR"), saved("XDG_CACHE_HOME"), saved("HOME")};
  setenv("HOME", "/h", 1);
  unsetenv("DIF_CACHE_DIR");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(cache_folder(), "/h/.cache/diffusion-compiler");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_folder(), "/x/diffusion-compiler");
  setenv("DIF_CACHE_DIR", "/d", 1);
  EXPECT_EQ(cache_folder(), "/d");
  for (const auto& [name, value] : before)
    value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
}

}  // namespace
}  // namespace dif::cli

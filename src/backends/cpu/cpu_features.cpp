#include "backends/cpu/cpu_features.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sched.h>

#include <oneapi/dnnl/dnnl.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "backends/cpu/instruction_set.h"

namespace dif::cpu {

namespace {

std::string processor_name() {
  unsigned words[12] = {};
  if (__get_cpuid_max(0x80000000U, nullptr) < 0x80000004U) return "x86-64";
  for (unsigned leaf = 0; leaf < 3; ++leaf)
    __get_cpuid(0x80000002U + leaf, &words[4 * leaf], &words[4 * leaf + 1], &words[4 * leaf + 2],
                &words[4 * leaf + 3]);
  char text[sizeof(words) + 1] = {};
  std::memcpy(text, words, sizeof(words));
  std::string name;
  for (const char* c = text; *c != '\0'; ++c)
    if (*c >= ' ' && *c < 0x7f && *c != '"' && *c != '\\') name += *c;
  const std::size_t first = name.find_first_not_of(' '), last = name.find_last_not_of(' ');
  return first == std::string::npos ? "x86-64" : name.substr(first, last - first + 1);
}

/// Whether the operating system saves the registers of extended state `mask` (SDM volume 1, 13.3).
bool system_saves(std::uint64_t mask) {
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (((static_cast<std::uint64_t>(high) << 32) | low) & mask) == mask;
}

CpuFeatures detect() {
  CpuFeatures features;
  features.name = processor_name();
  features.avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  features.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
  features.avx512_bf16 = features.avx512 && __builtin_cpu_supports("avx512bf16");
  constexpr std::uint64_t kTileState = 3ULL << 17;
  constexpr unsigned kTile = 1U << 24, kTileBf16 = 1U << 22;
  unsigned a, b, c, d;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0)
    features.amx_bf16 = (d & kTile) != 0 && (d & kTileBf16) != 0 && system_saves(kTileState);
  return features;
}

/// CPUs of the quota in `file` ("max 100000" or "250000 100000"), or `without` when there is none.
double quota(const std::string& file, double without) {
  std::ifstream in(file);
  std::string limit;
  double period = 0;
  if (!(in >> limit >> period) || limit == "max" || period <= 0) return without;
  const double microseconds = std::strtod(limit.c_str(), nullptr);
  return microseconds > 0 ? std::min(without, microseconds / period) : without;
}

/// The smallest quota of our control group (version 2) and the groups around it.
double group_quota(double without) {
  std::ifstream in("/proc/self/cgroup");
  double cpus = quota("/sys/fs/cgroup/cpu.max", without);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("0::/", 0) != 0) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/')))
      cpus = std::min(cpus, quota("/sys/fs/cgroup" + path + "/cpu.max", without));
  }
  return cpus;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

bool multiplies_bf16() {
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  return isa == dnnl_cpu_isa_avx512_core_bf16 || isa == dnnl_cpu_isa_avx512_core_amx;
}

bool convolves_channels_last() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

DType default_dtype() {
  return multiplies_bf16() ? DType::kBF16 : DType::kF32;
}

unsigned usable_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  double cpus = 1;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) cpus = CPU_COUNT(&allowed);
  return static_cast<unsigned>(std::max(1.0, std::ceil(group_quota(cpus))));
}

std::string probe_json() {
  const CpuFeatures& f = cpu_features();
  const dnnl_version_t* v = dnnl_version();
  return fmt::format(
      R"({{"backend":"cpu","devices":[{{"name":"{}","threads":{},"avx2":{},"avx512":{},"avx512_bf16":{},)"
      R"("amx_bf16":{},"default_dtype":"{}"}}],"kernels":"{}","libraries":[{{"name":"oneDNN",)"
      R"("version":"{}.{}.{}"}}]}})",
      f.name, usable_cpus(), f.avx2, f.avx512, f.avx512_bf16, f.amx_bf16,
      default_dtype() == DType::kBF16 ? "bf16" : "f32", instruction_set(), v->major, v->minor, v->patch);
}

}  // namespace dif::cpu

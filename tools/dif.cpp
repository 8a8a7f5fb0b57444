#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_status.h"
#include "tools.h"

namespace dif::tools {

std::span<const cli::Tool* const> all_tools() {
  static constexpr auto kTools = std::to_array<const cli::Tool*>({
#define DIF_TOOL(name) &k_##name,
#include "tools.def"
#undef DIF_TOOL
  });
  return kTools;
}

namespace {

/// `generate`, `difrun` and `run` all find their tool.
const cli::Tool* find_tool(std::string_view name) {
  for (const cli::Tool* tool : all_tools())
    if (tool->name == name || tool->name == fmt::format("dif{}", name)) return tool;
  return nullptr;
}

/// OpenMP's threads spin for milliseconds while they wait for work, and take the CPUs that other processes
/// need: two pictures at a time took 7.2 s on two CPUs where one takes 1.4. With this count they sleep after
/// microseconds (2.9 s, and one still 1.4). Read when a backend loads the library; the user's word goes
/// first.
void let_waiting_threads_sleep() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
}

int run(int argc, char** argv) {
  let_waiting_threads_sleep();
  const std::string program = std::filesystem::path(argv[0]).filename();
  if (program != "dif") {
    if (const cli::Tool* tool = find_tool(program)) return tool->run(argc, argv);
  }
  if (argc < 2) {
    k_help.run(argc, argv);
    return 2;
  }
  const std::string_view name = argv[1];
  if (name == "--version" || name == "-V")
    return cli::print_result(fmt::format("Diffusion Compiler {}\n", DIF_VERSION)) ? 0 : 2;
  if (name == "--help" || name == "-h") return k_help.run(1, argv);
  const cli::Tool* tool = find_tool(name);
  if (tool == nullptr) {
    cli::say(fmt::format("error: \"{}\" is not a tool; dif help lists them\n", name));
    return 2;
  }
  std::string shown = tool->name.starts_with("dif") ? std::string(tool->name) : fmt::format("dif {}", name);
  std::vector<char*> arguments(argv + 1, argv + argc);
  arguments[0] = shown.data();
  arguments.push_back(nullptr);
  return tool->run(argc - 1, arguments.data());
}

}  // namespace

}  // namespace dif::tools

int main(int argc, char** argv) {
  try {
    return dif::tools::run(argc, argv);
  } catch (const std::bad_alloc&) {  // before a tool has its options
    std::fputs("error: the system has no memory left for the program itself\n", stderr);
    return dif::cli::exit_status(dif::ErrorCode::kOutOfMemory);
  }
}

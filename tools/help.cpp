#include <fmt/format.h>

#include "tools.h"

namespace dif::tools {

static int run(int, char**) {
  std::string text = fmt::format(
      "Diffusion Compiler {}: a model directory and a prompt go in, a picture comes out.\n\n"
      "  dif generate \"a red apple\" -o apple.png      draws with the bundled model\n"
      "  dif TOOL --help                              options and examples of a tool\n",
      DIF_VERSION);
  std::string_view group;
  for (const cli::Tool* tool : all_tools()) {
    if (tool->group != group) text += fmt::format("\n{}\n", tool->group);
    group = tool->group;
    text += fmt::format("  {:<14} {}\n", tool->name, tool->summary);
  }
  return cli::print_result(text) ? 0 : 2;
}

const cli::Tool k_help = {"help", "Help and diagnosis", "list the tools", run};

}  // namespace dif::tools

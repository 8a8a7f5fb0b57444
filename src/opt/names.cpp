#include "opt/names.h"

#include <fmt/format.h>

namespace dif::opt {

std::string subject_of(const ir::Program& program, ir::OpId op) {
  const auto& modules = program.provenance.op_modules;
  const std::string_view name = program.ops.at(op).def->name;
  if (op < modules.size() && !modules[op].empty()) return fmt::format("{} in {}", name, modules[op]);
  return fmt::format("{} %{}", name, program.ops[op].results.front());
}

}  // namespace dif::opt

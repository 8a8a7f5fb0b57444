#pragma once

#include <string>

#include "ir/program.h"

namespace dif::opt {

/// An operation for people: "linear in transformer.proj_out", or without a module "linear %12".
std::string subject_of(const ir::Program& program, ir::OpId op);

}  // namespace dif::opt

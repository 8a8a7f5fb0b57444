#pragma once

#include "ir/program.h"

namespace dif::test {

/// A verified program with every kind of attribute, optional and variadic operands, modules and boundaries.
ir::Program sample_program();

}  // namespace dif::test

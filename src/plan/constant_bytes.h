#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/program.h"

namespace dif::plan {

/// A run of bytes of a constant.
struct ConstantBytes {
  ir::ValueId constant = ir::kNoId;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const ConstantBytes&, const ConstantBytes&) = default;
};

/// The bytes of a value as runs of bytes of constants, one after the other, where only views, slices and
/// concatenations made it and the runs are at most 256: what can be read from where the constants are and
/// need not be computed.
std::optional<std::vector<ConstantBytes>> constant_bytes(const ir::Program& program, ir::ValueId value);

}  // namespace dif::plan

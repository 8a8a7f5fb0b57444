#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ir/op_def.h"
#include "ir/tensor_type.h"

namespace dif::ir {

using ValueId = std::uint32_t;  ///< index into Program::values
using OpId = std::uint32_t;     ///< index into Program::ops

inline constexpr std::uint32_t kNoId = std::numeric_limits<std::uint32_t>::max();

enum class ValueKind : std::uint8_t { kInput = 0, kConstant = 1, kResult = 2 };

/// One SSA value. Inputs and constants have names; constants are named as in the checkpoint.
struct ValueInfo {
  TensorType type;
  ValueKind kind = ValueKind::kResult;
  std::string name;       ///< empty for results
  OpId producer = kNoId;  ///< the operation of a result
};

struct Op {
  const OpDef* def = nullptr;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  std::vector<Attr> attrs;  ///< in the order of def->attrs
};

struct Output {
  std::string name;
  ValueId value = kNoId;
};

/// Where an operation came from: never part of a program's meaning, identity or file; the sidecar
/// FILE.difir.provenance.json holds it.
struct Provenance {
  std::string creator;  ///< frontend and model, for people
  std::vector<std::string>
      op_modules;  ///< module path per operation, e.g. "transformer.transformer_blocks.0.attn"
  struct Boundary {
    std::string name;  ///< module path whose result this is, as in the reference framework
    ValueId value = kNoId;
  };
  std::vector<Boundary> boundaries;
};

/// A verified, static-shaped list of operations in execution order. `ir::verify` says whether it holds
/// together.
struct Program {
  std::string name;
  std::vector<ValueInfo> values;
  std::vector<Op> ops;
  std::vector<ValueId> inputs;     ///< in the order in which a run binds them
  std::vector<ValueId> constants;  ///< in the order in which prepare binds them
  std::vector<Output> outputs;
  Provenance provenance;

  const TensorType& type(ValueId id) const { return values.at(id).type; }
  /// The view that verify, infer and kernels read.
  OpView view(OpId op) const;
};

/// Floating-point operations of one operation (2 per multiply-add).
double flops(const OpView& op);
/// Bytes that one operation reads and writes when nothing is kept in registers (0 for a view).
std::uint64_t bytes_moved(const OpView& op);
double flops(const Program& program);

/// Makes the given values outputs too, under the given names (diagnosis and parity tests). Values that are
/// already outputs are named again.
void expose(Program& program, const std::vector<Output>& outputs);

}  // namespace dif::ir

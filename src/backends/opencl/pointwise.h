#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/opencl/kernels.h"

namespace dif::opencl {

/// The names that stand for things in a kernel text.
struct ElementNames {
  std::vector<std::string> x;  ///< operands: float16, or int16 for i32
  std::string number;          ///< the operation's float attribute
};

/// One operation on single elements, as an OpenCL C expression on vectors of sixteen. The generator rounds
/// its value to the result's dtype.
struct ElementOperation {
  std::string (*expression)(const ir::OpView& op, const ElementNames& names) = nullptr;
  float (*number)(const ir::OpView& op) = nullptr;  ///< null: the operation has none
};

/// Each stands in the folder of its operation.
extern const ElementOperation kAdd, kSub, kMul, kAddScalar, kMulScalar, kSilu, kSqrt, kCast;
/// The one of an operation; null where it does not work on single elements.
const ElementOperation* element_operation(const ir::OpDef& def);

/// A value that a chain reads from memory: its strides along the axes of Chain::shape, 0 where it repeats.
struct ChainOperand {
  std::size_t input = 0;  ///< index into the kernel's `in`
  DType dtype = DType::kF32;
  std::vector<std::int64_t> strides;
};

/// One operation of a chain. Values of a chain are numbered: first its operands, then the results of its
/// steps.
struct ChainStep {
  const ir::OpView* op = nullptr;
  std::vector<std::size_t> operands;
};

/// Element-wise operations that become one kernel: results of steps stay in registers and are rounded there,
/// so a chain gives the bits of its operations.
struct Chain {
  Shape shape;  ///< the loops: every step gives as many elements, in this order
  std::vector<ChainOperand> operands;
  std::vector<ChainStep> steps;
  std::vector<std::size_t> results;  ///< values that are written, in the order of the kernel's `out`
};

MakeResult make_chain(const Chain& chain, runtime::Device* device);

/// A chain of one.
MakeResult make_pointwise(const KernelRequest& request);

/// A group of element-wise operations (plan/fusion.h) as one chain. Declines shapes whose axes do not line
/// up.
MakeResult make_pointwise_group(const runtime::GroupRequest& request);
/// Whether such a group may hold the operation.
Status accepts_in_group(const ir::OpView& op);

}  // namespace dif::opencl

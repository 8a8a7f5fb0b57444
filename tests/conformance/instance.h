#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "io/host_tensor.h"
#include "ir/builder.h"
#include "ir/program.h"
#include "tests/conformance/random.h"

/// What an operation brings to the conformance suite: random instances and how close two backends must be.
/// It stands in src/ops/<op>/<op>_test.cpp as `OpCases <op>_cases()`; the suite calls it for each line of
/// ops.def, so an operation without one does not link.
namespace dif::conformance {

/// A program of one operation with the tensors that a run binds.
struct Instance {
  ir::Program program;
  std::vector<io::HostTensor> inputs;     ///< in the order of program.inputs
  std::vector<io::HostTensor> constants;  ///< in the order of program.constants
  /// The size of the numbers that are summed to one result, for Tolerance::of_scale: where terms cancel, an
  /// error is small beside them and not beside the result.
  double scale = 1;
};

/// |got - want| <= relative * |want| + of_scale * instance.scale (+ the dtype's smallest number); two NaN are
/// equal. All zero: the same bits (any NaN for a NaN of a floating dtype). Results that are not floating must
/// have the same bits always.
struct Tolerance {
  double relative = 0;
  double of_scale = 0;
};

struct OpCases {
  std::vector<DType> dtypes;                                ///< what `make` accepts
  Instance (*make)(Random& random, DType dtype) = nullptr;  ///< small: the suite runs hundreds
  Tolerance (*tolerance)(DType dtype) = nullptr;
};

inline const std::vector<DType> kFloats = {DType::kF32, DType::kBF16, DType::kF16};
inline const std::vector<DType> kNumbers = {DType::kF32, DType::kBF16, DType::kF16, DType::kI32};
/// For operations that move bytes: every dtype.
std::vector<DType> all_dtypes();

/// The largest distance between two neighbouring numbers of a dtype, relative to the number: kernels whose
/// f32 results differ in the last bits may round to different neighbours.
double one_ulp(DType dtype);

inline Tolerance same_bits(DType) {
  return {};
}

/// Operands for element-wise operations of two tensors: one of them, or both, repeats along some axes.
std::pair<Shape, Shape> broadcast_pair(Random& random);
/// An instance of add, sub or mul.
Instance binary_instance(Random& random, DType dtype, ir::Value (*op)(ir::Builder&, ir::Value, ir::Value));

/// Collects operands and builds the program.
class OneOp {
 public:
  explicit OneOp(Random& random) : builder("one_op"), random_(random) {}

  ir::Builder builder;

  /// Bound by each run.
  ir::Value input(io::HostTensor tensor);
  /// A constant three times out of four, so that backends may repack it; else an input.
  ir::Value weight(io::HostTensor tensor);
  Instance finish(ir::Value result, double scale = 1);

 private:
  Random& random_;
  Instance instance_;
  int n_named_ = 0;
};

/// The cases of every operation, in the order of ops.def.
std::span<const std::pair<const ir::OpDef*, OpCases>> all_cases();

#define DIF_OP(Name, folder) OpCases folder##_cases();
#include "ops/ops.def"
#undef DIF_OP

}  // namespace dif::conformance

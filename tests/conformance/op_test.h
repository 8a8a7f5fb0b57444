#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/verifier.h"
#include "tests/conformance/instance.h"
#include "tests/conformance/run.h"

/// What the unit tests of src/ops/*/*_test.cpp share.
namespace dif::conformance {

/// EXPECT_TRUE(breaks("C2", op)): verify refuses the operation, naming this constraint.
testing::AssertionResult breaks(std::string_view label, const ir::OpDef& def,
                                std::vector<ir::TensorType> operands, std::vector<ir::Attr> attrs = {});
/// EXPECT_TRUE(holds(op)): verify accepts the operation.
testing::AssertionResult holds(const ir::OpDef& def, std::vector<ir::TensorType> operands,
                               std::vector<ir::Attr> attrs = {});
/// The one result type. Pre: holds.
ir::TensorType inferred(const ir::OpDef& def, std::vector<ir::TensorType> operands,
                        std::vector<ir::Attr> attrs = {});

/// A few operations on literal tensors, run by the reference backend:
///
///     Sheet sheet;
///     const ir::Value x = sheet.f32({2}, {1, 2});
///     EXPECT_EQ(sheet.run(ops::add(sheet.builder, x, x)), (std::vector<float>{2, 4}));
class Sheet {
 public:
  Sheet() : builder("sheet") {}

  ir::Builder builder;

  ir::Value f32(const Shape& shape, std::vector<float> values);
  /// Rounds to a floating dtype.
  ir::Value floats(DType dtype, const Shape& shape, std::vector<float> values);
  ir::Value i32(const Shape& shape, std::vector<std::int32_t> values);
  ir::Value flags(const Shape& shape, std::vector<std::uint8_t> values);
  ir::Value tensor(io::HostTensor tensor);

  /// The result, or an empty tensor and a failure of the test.
  io::HostTensor run_tensor(ir::Value result);
  /// Its elements as f32.
  std::vector<float> run(ir::Value result);
  /// The run's error sentence; a failure of the test when there is none.
  std::string run_error(ir::Value result);

 private:
  Result<io::HostTensor> evaluate(ir::Value result);

  std::vector<io::HostTensor> inputs_;
};

/// Whether each element lies within `tolerance` of the expected one.
testing::AssertionResult near(const std::vector<float>& got, const std::vector<double>& want,
                              double tolerance);

}  // namespace dif::conformance

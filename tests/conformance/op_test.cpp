#include "tests/conformance/op_test.h"

#include <cmath>

namespace dif::conformance {

namespace {

ir::OpView view(const ir::OpDef& def, std::vector<ir::TensorType> operands, std::vector<ir::Attr> attrs) {
  for (std::size_t i = attrs.size(); i < def.attrs.size(); ++i) attrs.push_back(def.attrs[i].fallback);
  return ir::OpView(def, std::move(operands), attrs);
}

}  // namespace

testing::AssertionResult breaks(std::string_view label, const ir::OpDef& def,
                                std::vector<ir::TensorType> operands, std::vector<ir::Attr> attrs) {
  const Status status = ir::verify_op(view(def, std::move(operands), std::move(attrs)));
  if (status) return testing::AssertionFailure() << "accepted";
  const std::string start = fmt::format("{} {}: ", def.name, label);
  if (status.error().code == ErrorCode::kInvalidInput && status.error().message.starts_with(start))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "another reason: " << status.error().message;
}

testing::AssertionResult holds(const ir::OpDef& def, std::vector<ir::TensorType> operands,
                               std::vector<ir::Attr> attrs) {
  const Status status = ir::verify_op(view(def, std::move(operands), std::move(attrs)));
  if (status) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.error().message;
}

ir::TensorType inferred(const ir::OpDef& def, std::vector<ir::TensorType> operands,
                        std::vector<ir::Attr> attrs) {
  return def.infer(view(def, std::move(operands), std::move(attrs))).at(0);
}

ir::Value Sheet::f32(const Shape& shape, std::vector<float> values) {
  return tensor(io::HostTensor::f32(shape, values));
}

ir::Value Sheet::floats(DType dtype, const Shape& shape, std::vector<float> values) {
  return tensor(*io::convert(io::HostTensor::f32(shape, values), dtype));
}

ir::Value Sheet::i32(const Shape& shape, std::vector<std::int32_t> values) {
  return tensor(io::HostTensor::from<std::int32_t>(DType::kI32, shape, values));
}

ir::Value Sheet::flags(const Shape& shape, std::vector<std::uint8_t> values) {
  return tensor(io::HostTensor::from<std::uint8_t>(DType::kBool, shape, values));
}

ir::Value Sheet::tensor(io::HostTensor tensor) {
  const ir::Value value = builder.input(fmt::format("x{}", inputs_.size()), {tensor.dtype, tensor.shape});
  inputs_.push_back(std::move(tensor));
  return value;
}

Result<io::HostTensor> Sheet::evaluate(ir::Value result) {
  static const auto context = open_backend("reference");
  if (!context) return tl::unexpected<Error>(context.error());
  if (result.valid()) builder.output("y", result);
  DIF_ASSIGN(const ir::Program program, builder.finish());
  DIF_ASSIGN(RunResult run, run_program(*context, program, inputs_, {}));
  return std::move(run.outputs.at(0));
}

io::HostTensor Sheet::run_tensor(ir::Value result) {
  auto tensor = evaluate(result);
  if (tensor) return std::move(*tensor);
  ADD_FAILURE() << tensor.error().message;
  return io::HostTensor(DType::kF32, Shape{0});
}

std::vector<float> Sheet::run(ir::Value result) {
  const io::HostTensor tensor = run_tensor(result);
  return tensor.to_f32();
}

std::string Sheet::run_error(ir::Value result) {
  const auto tensor = evaluate(result);
  if (!tensor) return tensor.error().message;
  ADD_FAILURE() << "the run succeeded";
  return {};
}

testing::AssertionResult near(const std::vector<float>& got, const std::vector<double>& want,
                              double tolerance) {
  if (got.size() != want.size())
    return testing::AssertionFailure() << got.size() << " elements, expected are " << want.size();
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(static_cast<double>(got[i]) - want[i]) <= tolerance))
      return testing::AssertionFailure()
             << "element " << i << " is " << got[i] << ", expected is " << want[i];
  return testing::AssertionSuccess();
}

}  // namespace dif::conformance

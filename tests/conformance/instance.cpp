#include "tests/conformance/instance.h"

#include "base/check.h"

namespace dif::conformance {

std::vector<DType> all_dtypes() {
  std::vector<DType> result;
  for (int number = 0; number < kDTypeCount; ++number) result.push_back(static_cast<DType>(number));
  return result;
}

double one_ulp(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF16:
      return 0x1p-10;
    default:
      return 0x1p-23;
  }
}

namespace {

/// `shape` with some dimensions set to 1 and leading ones left out.
Shape narrowed(Random& random, const Shape& shape) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  for (std::int64_t& dim : dims)
    if (random.one_in(3)) dim = 1;
  const std::int64_t dropped = random.one_in(2) ? 0 : random.between(0, shape.rank());
  return Shape(std::span<const std::int64_t>(dims).subspan(static_cast<std::size_t>(dropped)));
}

}  // namespace

std::pair<Shape, Shape> broadcast_pair(Random& random) {
  const Shape full = random.shape(0, 5, 20000);
  if (random.one_in(3)) return {full, full};
  std::pair<Shape, Shape> shapes = {full, narrowed(random, full)};
  if (random.one_in(4)) shapes.first = narrowed(random, full);
  if (random.one_in(2)) std::swap(shapes.first, shapes.second);
  return shapes;
}

Instance binary_instance(Random& random, DType dtype, ir::Value (*op)(ir::Builder&, ir::Value, ir::Value)) {
  const bool special = random.one_in(4);
  const auto values = [&](const Shape& shape) {
    if (dtype == DType::kI32)
      return special ? random.bits({dtype, shape}) : random.integers(shape, -1000, 1000);
    return special ? random.special({dtype, shape}) : random.normal({dtype, shape});
  };
  OneOp one(random);
  const auto [x_shape, y_shape] = broadcast_pair(random);
  const ir::Value x = one.input(values(x_shape)), y = one.weight(values(y_shape));
  return one.finish(op(one.builder, x, y));
}

ir::Value OneOp::input(io::HostTensor tensor) {
  const ir::Value value = builder.input(fmt::format("x{}", n_named_++), {tensor.dtype, tensor.shape});
  instance_.inputs.push_back(std::move(tensor));
  return value;
}

ir::Value OneOp::weight(io::HostTensor tensor) {
  if (random_.one_in(4)) return input(std::move(tensor));
  const ir::Value value = builder.constant(fmt::format("w{}", n_named_++), {tensor.dtype, tensor.shape});
  instance_.constants.push_back(std::move(tensor));
  return value;
}

Instance OneOp::finish(ir::Value result, double scale) {
  builder.output("y", result);
  auto program = builder.finish();
  if (!program) fmt::print(stderr, "a generator made an invalid instance: {}\n", program.error().message);
  DIF_CHECK(program.has_value());
  instance_.program = std::move(*program);
  instance_.scale = scale;
  return std::move(instance_);
}

std::span<const std::pair<const ir::OpDef*, OpCases>> all_cases() {
  static const std::vector<std::pair<const ir::OpDef*, OpCases>> cases = [] {
    std::vector<std::pair<const ir::OpDef*, OpCases>> result;
#define DIF_OP(Name, folder) result.emplace_back(ir::find_op(#folder), folder##_cases());
#include "ops/ops.def"
#undef DIF_OP
    return result;
  }();
  return cases;
}

}  // namespace dif::conformance

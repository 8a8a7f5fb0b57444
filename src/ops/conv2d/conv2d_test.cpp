#include <algorithm>
#include <cmath>

#include "ops/conv2d/conv2d.op.h"
#include "tests/conformance/op_test.h"

namespace dif::conformance {

using ops::Conv2dOptions;
using ops::kConv2d;

namespace {

using Numbers = std::vector<std::int64_t>;

ir::TensorType f32(const Shape& shape) {
  return {DType::kF32, shape};
}

std::vector<ir::Attr> attrs(Numbers strides, Numbers pads, std::int64_t groups = 1,
                            bool channels_last = false) {
  return {std::move(strides), std::move(pads), groups, channels_last};
}

}  // namespace

TEST(Conv2dVerify, C1_RejectsOtherRanks) {
  EXPECT_TRUE(breaks("C1", kConv2d, {f32({3, 8, 8}), f32({4, 3, 3, 3})}));
  EXPECT_TRUE(breaks("C1", kConv2d, {f32({1, 3, 8, 8}), f32({4, 3, 3})}));
}

TEST(Conv2dVerify, C2_RejectsGroupsThatDoNotFit) {
  const ir::TensorType x = f32({1, 4, 8, 8});
  EXPECT_TRUE(breaks("C2", kConv2d, {x, f32({6, 4, 3, 3})}, attrs({1, 1}, {0, 0, 0, 0}, 0)));
  EXPECT_TRUE(breaks("C2", kConv2d, {x, f32({6, 4, 3, 3})}, attrs({1, 1}, {0, 0, 0, 0}, 3)));
  EXPECT_TRUE(breaks("C2", kConv2d, {x, f32({6, 1, 3, 3})}, attrs({1, 1}, {0, 0, 0, 0}, 4)));
  EXPECT_TRUE(breaks("C2", kConv2d, {x, f32({6, 3, 3, 3})}, attrs({1, 1}, {0, 0, 0, 0}, 2)));
  EXPECT_TRUE(holds(kConv2d, {x, f32({6, 2, 3, 3})}, attrs({1, 1}, {0, 0, 0, 0}, 2)));
}

TEST(Conv2dVerify, C2_FindsTheChannelsLast) {
  const std::vector<ir::Attr> last = attrs({1, 1}, {0, 0, 0, 0}, 1, true);
  EXPECT_TRUE(holds(kConv2d, {f32({1, 8, 9, 4}), f32({6, 3, 3, 4})}, last));
  EXPECT_TRUE(breaks("C2", kConv2d, {f32({1, 8, 9, 4}), f32({6, 4, 3, 3})}, last));
  EXPECT_TRUE(breaks("C2", kConv2d, {f32({1, 4, 8, 9}), f32({6, 3, 3, 4})}, last));
}

TEST(Conv2dVerify, C3_RejectsABiasOfAnotherSize) {
  EXPECT_TRUE(breaks("C3", kConv2d, {f32({1, 4, 8, 8}), f32({6, 4, 3, 3}), f32({4})}));
}

TEST(Conv2dVerify, C4_RejectsOtherStridesAndPads) {
  const ir::TensorType x = f32({1, 4, 8, 8}), w = f32({6, 4, 3, 3});
  EXPECT_TRUE(breaks("C4", kConv2d, {x, w}, attrs({1, 0}, {0, 0, 0, 0})));
  EXPECT_TRUE(breaks("C4", kConv2d, {x, w}, attrs({1}, {0, 0, 0, 0})));
  EXPECT_TRUE(breaks("C4", kConv2d, {x, w}, attrs({1, INT64_MAX}, {0, 0, 0, 0})));
  EXPECT_TRUE(breaks("C4", kConv2d, {x, w}, attrs({1, 1}, {0, 0, 0, -1})));
  EXPECT_TRUE(breaks("C4", kConv2d, {x, w}, attrs({1, 1}, {0, 0})));
  EXPECT_TRUE(breaks("C4", kConv2d, {x, w}, attrs({1, 1}, {0, INT64_MAX, 0, 0})));
}

TEST(Conv2dVerify, C5_RejectsKernelsThatDoNotFit) {
  EXPECT_TRUE(breaks("C5", kConv2d, {f32({1, 4, 2, 8}), f32({6, 4, 5, 3})}, attrs({1, 1}, {1, 0, 1, 0})));
  EXPECT_TRUE(breaks("C5", kConv2d, {f32({1, 4, 8, 2}), f32({6, 4, 3, 3})}));
  EXPECT_TRUE(breaks("C5", kConv2d, {f32({1, 4, 8, 8}), f32({6, 4, 0, 3})}));
  EXPECT_TRUE(holds(kConv2d, {f32({1, 4, 2, 8}), f32({6, 4, 5, 3})}, attrs({1, 1}, {1, 0, 2, 0})));
}

TEST(Conv2dVerify, C6_RejectsMixedAndOtherDtypes) {
  EXPECT_TRUE(breaks("C6", kConv2d, {f32({1, 4, 8, 8}), {DType::kBF16, {6, 4, 3, 3}}}));
  EXPECT_TRUE(breaks("C6", kConv2d, {f32({1, 4, 8, 8}), f32({6, 4, 3, 3}), {DType::kF16, {6}}}));
  EXPECT_TRUE(breaks("C6", kConv2d, {{DType::kI32, {1, 4, 8, 8}}, {DType::kI32, {6, 4, 3, 3}}}));
}

TEST(Conv2dInfer, CountsThePlacesOfTheKernel) {
  const ir::TensorType x = f32({2, 4, 9, 8}), w = f32({6, 4, 3, 3});
  EXPECT_EQ(inferred(kConv2d, {x, w}), f32({2, 6, 7, 6}));
  EXPECT_EQ(inferred(kConv2d, {x, w}, attrs({2, 3}, {1, 1, 1, 1})), f32({2, 6, 5, 3}));
  // Padding below and to the right alone, as a downsampling block has it.
  EXPECT_EQ(inferred(kConv2d, {f32({1, 4, 8, 8}), w}, attrs({2, 2}, {0, 0, 1, 1})), f32({1, 6, 4, 4}));
}

TEST(Conv2dInfer, KeepsChannelsLast) {
  EXPECT_EQ(inferred(kConv2d, {f32({2, 9, 8, 4}), f32({6, 3, 5, 4})}, attrs({2, 1}, {1, 0, 1, 0}, 1, true)),
            f32({2, 5, 4, 6}));
}

TEST(Conv2dReference, ReadsAndWritesChannelsLast) {
  Sheet sheet;
  // Two channels of a row of three pixels: 1 2 3 and 10 20 30; two filters of one tap.
  const ir::Value x = sheet.f32({1, 1, 3, 2}, {1, 10, 2, 20, 3, 30}),
                  w = sheet.f32({2, 1, 1, 2}, {1, 1, 0, 2}), bias = sheet.f32({2}, {0, 0.5});
  EXPECT_EQ(sheet.run(ops::conv2d(sheet.builder, x, w, bias, {.channels_last = true})),
            (std::vector<float>{11, 20.5, 22, 40.5, 33, 60.5}));
}

TEST(Conv2dReference, CorrelatesWithoutTurningTheKernel) {
  Sheet sheet;
  const ir::Value x = sheet.f32({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}), w = sheet.f32({1, 1, 1, 2}, {1, 10});
  const ir::Value bias = sheet.f32({1}, {100});
  EXPECT_EQ(sheet.run(ops::conv2d(sheet.builder, x, w, bias, {})), (std::vector<float>{121, 132, 154, 165}));
}

TEST(Conv2dReference, PadsTopLeftBottomRightWithZeros) {
  Sheet sheet;
  const ir::Value x = sheet.f32({1, 1, 1, 1}, {5}), w = sheet.f32({1, 1, 2, 2}, {1, 2, 3, 4});
  const ir::Value y = ops::conv2d(sheet.builder, x, w, std::nullopt, {.pads = {1, 1, 0, 0}});
  EXPECT_EQ(sheet.run(y), (std::vector<float>{20}));
  Sheet other;
  const ir::Value x2 = other.f32({1, 1, 1, 1}, {5}), w2 = other.f32({1, 1, 2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(other.run(ops::conv2d(other.builder, x2, w2, std::nullopt, {.pads = {0, 1, 1, 0}})),
            (std::vector<float>{10}));
}

TEST(Conv2dReference, StepsRowsAndColumns) {
  Sheet sheet;
  const ir::Value x = sheet.f32({1, 1, 3, 4}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}),
                  w = sheet.f32({1, 1, 1, 1}, {1});
  EXPECT_EQ(sheet.run(ops::conv2d(sheet.builder, x, w, std::nullopt, {.strides = {2, 3}})),
            (std::vector<float>{0, 3, 20, 23}));
}

TEST(Conv2dReference, KeepsGroupsApart) {
  Sheet sheet;
  const ir::Value x = sheet.f32({1, 2, 1, 1}, {1, 10}), w = sheet.f32({4, 1, 1, 1}, {1, 2, 3, 4});
  EXPECT_EQ(sheet.run(ops::conv2d(sheet.builder, x, w, std::nullopt, {.groups = 2})),
            (std::vector<float>{1, 2, 30, 40}));
}

namespace {

Instance conv2d_instance(Random& random, DType dtype) {
  OneOp one(random);
  Conv2dOptions options;
  options.groups = random.pick<std::int64_t>({1, 1, 1, 1, 2, 3, 8});
  for (std::int64_t& stride : options.strides) stride = random.pick<std::int64_t>({1, 1, 1, 2, 3});
  const std::int64_t rows = random.pick<std::int64_t>({1, 3, 3, 3, 5, 2}),
                     columns = random.one_in(4) ? random.between(1, 5) : rows;
  const bool same = random.one_in(2);
  for (std::int64_t& pad : options.pads) pad = same ? rows / 2 : random.between(0, 3);
  const std::int64_t height = std::max(random.size(20), rows), width = std::max(random.size(40), columns);
  const std::int64_t in = random.size(20), out = random.size(20),
                     n = random.one_in(24) ? 0 : random.between(1, 2);
  options.channels_last = random.one_in(2);
  const auto image = [&](std::int64_t first, std::int64_t channels, std::int64_t h, std::int64_t w) {
    return options.channels_last ? Shape{first, h, w, channels} : Shape{first, channels, h, w};
  };
  const ir::Value x = one.input(random.normal({dtype, image(n, in * options.groups, height, width)}));
  const ir::Value w =
      one.weight(random.normal({dtype, image(out * options.groups, in, rows, columns)}, 0.25));
  std::optional<ir::Value> bias;
  if (!random.one_in(3)) bias = one.weight(random.normal({dtype, {out * options.groups}}));
  return one.finish(ops::conv2d(one.builder, x, w, bias, options),
                    1 + std::sqrt(static_cast<double>(in * rows * columns)));
}

}  // namespace

/// As for linear.
OpCases conv2d_cases() {
  return {kFloats, conv2d_instance, [](DType dtype) -> Tolerance {
            return {.relative = dtype == DType::kF32 ? 0 : one_ulp(dtype), .of_scale = 4e-6};
          }};
}

}  // namespace dif::conformance

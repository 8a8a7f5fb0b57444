#include "backends/cuda/row_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/kernels.h"
#include "ops/mul/mul.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"

namespace dif::cuda {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// The kernel alone, without what every text begins with.
std::string kernel_of(const std::string& text) {
  return text.substr(text.find("rows("));
}

/// x -> silu(left half) * right half, as a group.
struct SwiGlu {
  ir::TensorType wide, half;
  ir::OpView left, right, silu, mul;
  std::vector<runtime::GroupOp> ops;

  SwiGlu(DType dtype, std::int64_t rows, std::int64_t width)
      : wide{dtype, {rows, 2 * width}},
        half{dtype, {rows, width}},
        left(ops::kSlice, {wide}, attrs(0, width), {half}),
        right(ops::kSlice, {wide}, attrs(width, 2 * width), {half}),
        silu(ops::kSilu, {half}, {}, {half}),
        mul(ops::kMul, {half, half}, {}, {half}) {
    ops.push_back({&left, {{false, 0}}, runtime::kNoOutput});
    ops.push_back({&right, {{false, 0}}, runtime::kNoOutput});
    ops.push_back({&silu, {{true, 0}}, runtime::kNoOutput});
    ops.push_back({&mul, {{true, 2}, {true, 1}}, 0});
  }

  std::vector<ir::Attr> attrs(std::int64_t start, std::int64_t end) const {
    return {std::int64_t{1}, start, end};
  }
  runtime::GroupRequest request(std::int64_t rows) const { return {ops, rows, {}, 1, nullptr}; }
};

TEST(RowText, WritesOnlyWhatLeavesTheGroup) {
  const SwiGlu group(DType::kBF16, 10, 64);
  RowText rows(group.request(10));
  ASSERT_TRUE(rows.check());
  const std::string text = kernel_of(rows.text());
  EXPECT_EQ(count(text, "store<8>"), 1U) << text;
  EXPECT_EQ(count(text, "load<8>(in0"), 2U) << text;
  EXPECT_EQ(count(text, "__syncthreads"), 0U) << "nothing is shared";
}

TEST(RowText, TakesAsManyElementsAsStayTogether) {
  const auto vector = [](DType dtype, std::int64_t width) {
    const SwiGlu group(dtype, 4, width);
    RowText rows(group.request(4));
    (void)rows.text();
    return rows.vector();
  };
  EXPECT_EQ(vector(DType::kBF16, 64), 8) << "16 bytes";
  EXPECT_EQ(vector(DType::kF32, 64), 4) << "16 bytes";
  EXPECT_EQ(vector(DType::kBF16, 36), 4);
  EXPECT_EQ(vector(DType::kBF16, 7), 1);
}

TEST(RowText, ANormReadsItsOperandOnceAndKeepsItInSharedMemory) {
  const ir::TensorType x = {DType::kBF16, {100, 4096}}, w = {DType::kBF16, {4096}};
  const std::vector<ir::Attr> attrs = {1e-6f};
  const ir::OpView norm(ops::kRmsNorm, {x, w}, attrs, {x});
  const std::vector<runtime::GroupOp> ops = {{&norm, {{false, 0}, {false, 1}}, 0}};
  RowText rows({ops, 100, {}, 1, nullptr});
  ASSERT_TRUE(rows.check());
  const std::string text = kernel_of(rows.text());
  EXPECT_EQ(count(text, "(in0 + "), 1U) << text;
  EXPECT_EQ(rows.blocks(), 100);
  EXPECT_GE(rows.shared_bytes(), 8192);
}

TEST(RowText, RowsTooLongForSharedMemoryAreReadAgain) {
  const ir::TensorType x = {DType::kF32, {3, 65536}};
  const std::vector<ir::Attr> attrs = {1e-6f};
  const ir::OpView norm(ops::kRmsNorm, {x}, attrs, {x});
  const std::vector<runtime::GroupOp> ops = {{&norm, {{false, 0}}, 0}};
  RowText rows({ops, 3, {}, 1, nullptr});
  const std::string text = kernel_of(rows.text());
  EXPECT_GT(count(text, "(in0 + "), 1U);
  EXPECT_LT(rows.shared_bytes(), 48 << 10);
}

TEST(RowText, DeclinesWhatHasNoArithmetic) {
  const ir::TensorType x = {DType::kF64, {4}};
  const ir::OpView mul(ops::kMul, {x, x}, {}, {x});
  const std::vector<runtime::GroupOp> ops = {{&mul, {{false, 0}, {false, 1}}, 0}};
  const Status status = RowText({ops, 1, {}, 1, nullptr}).check();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kDeclined);
  EXPECT_NE(status.error().message.find("f64"), std::string::npos);
}

}  // namespace
}  // namespace dif::cuda

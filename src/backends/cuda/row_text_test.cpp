#include "backends/cuda/row_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/kernels.h"
#include "ops/mul/mul.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/rotary/rotary.op.h"
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

/// rms_norm(x [rows, width]) * w, alone.
struct Norm {
  ir::TensorType x, w;
  std::vector<ir::Attr> attrs = {1e-6f};
  ir::OpView norm;
  std::vector<runtime::GroupOp> ops;
  std::int64_t rows;

  Norm(std::int64_t n_rows, std::int64_t width)
      : x{DType::kBF16, {n_rows, width}},
        w{DType::kBF16, {width}},
        norm(ops::kRmsNorm, {x, w}, attrs, {x}),
        ops{{&norm, {{false, 0}, {false, 1}}, 0}},
        rows(n_rows) {}
  runtime::GroupRequest request() const { return {ops, rows, {}, 1, nullptr}; }
};

TEST(RowText, ANormReadsItsOperandOnceAndKeepsItInSharedMemory) {
  const Norm group(100, 520);
  RowText rows(group.request());
  ASSERT_TRUE(rows.check());
  const std::string text = kernel_of(rows.text());
  EXPECT_EQ(count(text, "(in0 + "), 1U) << text;
  EXPECT_EQ(rows.blocks(), 15) << "seven rows each";
  EXPECT_GE(rows.shared_bytes(), 7 * 1040);
}

TEST(RowText, ALongVectorThatThreadsShareEvenlyStaysInTheirRegisters) {
  for (const auto& [width, threads] : {std::pair(4096, 256), std::pair(3072, 192), std::pair(2560, 160)}) {
    const Norm group(100, width);
    RowText rows(group.request());
    const std::string text = kernel_of(rows.text());
    EXPECT_EQ(count(text, "(in0 + "), 2U) << "once for each of a thread's chunks\n" << text;
    EXPECT_EQ(count(text, "__syncthreads"), 0U) << text;
    EXPECT_EQ(count(text, "block_sum_apart"), 1U) << text;
    EXPECT_EQ(rows.threads(), threads);
    EXPECT_EQ(rows.blocks(), 100);
    EXPECT_EQ(rows.shared_bytes(), 0);
  }
}

TEST(RowText, AHeadIsSummedByNeighboursOfOneWarp) {
  const Norm group(1000, 128);
  RowText rows(group.request());
  const std::string text = kernel_of(rows.text());
  EXPECT_EQ(count(text, "lanes_sum<16>"), 1U) << text;
  EXPECT_EQ(count(text, "block_sum"), 0U) << text;
  EXPECT_EQ(rows.blocks(), 63) << "16 heads each";
}

TEST(RowText, AHeadWhoseElementsMoveIsNotInRegisters) {
  const ir::TensorType x = {DType::kBF16, {1, 10, 2, 128}}, angles = {DType::kF32, {10, 64}};
  const std::vector<ir::Attr> attrs = {1e-6f}, halves = {false}, pairs = {true};
  const ir::OpView norm(ops::kRmsNorm, {x}, attrs, {x});
  for (const bool interleaved : {false, true}) {
    const ir::OpView rotary(ops::kRotary, {x, angles, angles}, interleaved ? pairs : halves, {x});
    const std::vector<runtime::GroupOp> ops = {{&norm, {{false, 0}}, runtime::kNoOutput},
                                               {&rotary, {{true, 0}, {false, 1}, {false, 2}}, 0}};
    RowText rows({ops, 10, {}, 1, nullptr});
    const std::string text = kernel_of(rows.text());
    EXPECT_EQ(count(text, "lanes_sum"), interleaved ? 1U : 0U) << "the halves of a head meet\n" << text;
    EXPECT_EQ(rows.shared_bytes() == 0, interleaved);
  }
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

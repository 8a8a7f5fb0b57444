#include "backends/cpu/row_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "backends/cpu/kernel_list.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/testing.h"
#include "ir/builder.h"
#include "ops/add/add.op.h"
#include "ops/add_scalar/add_scalar.op.h"
#include "ops/cast/cast.op.h"
#include "ops/concat/concat.op.h"
#include "ops/layer_norm/layer_norm.op.h"
#include "ops/linear/linear.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/silu/silu.op.h"
#include "ops/slice/slice.op.h"
#include "ops/sqrt/sqrt.op.h"
#include "ops/sub/sub.op.h"
#include "runtime/executor.h"

namespace dif::cpu {
namespace {

using ir::Value;
using testing::HostTensor;

/// A program on the CPU kernels, with or without groups.
class Bench {
 public:
  explicit Bench(ir::Program program) : program_(std::move(program)) {
    for (const auto* list : {&program_.inputs, &program_.constants})
      for (const ir::ValueId id : *list)
        tensors_.push_back(testing::random_tensor(program_.type(id).dtype, program_.type(id).shape,
                                                  static_cast<unsigned>(tensors_.size()), 2));
  }

  std::unique_ptr<runtime::Executor> prepare(bool groups) {
    std::vector<runtime::HostConstant> constants;
    for (std::size_t i = program_.inputs.size(); i < tensors_.size(); ++i)
      constants.push_back({tensors_[i].data(), tensors_[i].bytes()});
    runtime::ExecutorOptions options = {kernel_list(), true, {}};
    if (groups) {
      options.group_kernels = group_kernel_list();
      options.fusion = {.accepts = accepts_in_group};
    }
    auto executor = runtime::Executor::prepare(program_, constants, device_, arena_, options);
    EXPECT_TRUE(executor) << executor.error().message;
    return executor ? std::move(*executor) : nullptr;
  }

  /// The bytes of all outputs.
  std::vector<std::vector<std::byte>> run(runtime::Executor& executor) {
    std::vector<std::vector<std::byte>> outs;
    std::vector<runtime::BufferView> inputs, outputs;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) inputs.push_back({tensors_[i].data(), 0});
    for (const ir::Output& output : program_.outputs) outs.emplace_back(program_.type(output.value).bytes());
    for (auto& out : outs) outputs.push_back({out.data(), 0});
    const Status status = executor.run(inputs, outputs, {});
    EXPECT_TRUE(status) << status.error().message;
    return outs;
  }

  const ir::Program& program() const { return program_; }

 private:
  ir::Program program_;
  std::vector<HostTensor> tensors_;
  runtime::HostDevice device_{0};
  runtime::SharedArena arena_{device_};
};

ir::Program finish(ir::Builder& b) {
  auto program = b.finish();
  EXPECT_TRUE(program) << program.error().message;
  return program ? std::move(*program) : ir::Program();
}

/// Programs of operations that work row by row, in one dtype with now and then another.
class RandomProgram {
 public:
  RandomProgram(unsigned seed, DType dtype) : random_(seed), dtype_(dtype), b_("random") {
    batch_ = pick(1, 2);
    tokens_ = pick(1, 40);
    width_ = std::array<std::int64_t, 5>{4, 20, 32, 96, 200}[static_cast<std::size_t>(pick(0, 4))];
    for (int i = 0; i < 2; ++i) values_.push_back(b_.input(name(), {dtype_, {batch_, tokens_, width_}}));
  }

  ir::Program make(int n_operations) {
    for (int i = 0; i < n_operations; ++i) values_.push_back(next());
    for (int i = 0; i < 3; ++i)
      b_.output(name(), values_[values_.size() - 1 - static_cast<std::size_t>(pick(0, n_operations / 2))]);
    return finish(b_);
  }

 private:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<unsigned>(high - low + 1));
  }
  std::string name() { return fmt::format("v{}", n_names_++); }
  Value any() {
    return values_[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(values_.size()) - 1))];
  }

  /// Something that can be added to x.
  Value partner(Value x) {
    const std::int64_t width = x.dim(-1);
    for (int tries = 0; tries < 4; ++tries)
      if (const Value y = any(); y.shape() == x.shape() && y.dtype() == x.dtype()) return y;
    const std::array<Shape, 6> shapes = {Shape{width},         Shape{1, width}, Shape{batch_, 1, width},
                                         Shape{1, tokens_, 1}, Shape{1},        Shape{1, tokens_, width}};
    const Shape& shape = shapes[static_cast<std::size_t>(pick(0, 5))];
    return pick(0, 1) == 0 ? b_.input(name(), {x.dtype(), shape}) : b_.constant(name(), {x.dtype(), shape});
  }

  Value rotated(Value x) {
    const std::int64_t depth = x.dim(-1) % 8 == 0 ? x.dim(-1) / 2 : x.dim(-1);
    const std::int64_t half = pick(1, depth / 2);
    const Value heads = ops::reshape(b_, x, {batch_, tokens_, x.dim(-1) / depth, depth});
    const Value cos = b_.constant(name(), {DType::kF32, {tokens_, half}});
    const Value sin = b_.constant(name(), {DType::kF32, {tokens_, half}});
    return ops::reshape(b_, ops::rotary(b_, heads, cos, sin, pick(0, 1) == 0), x.shape());
  }

  Value next() {
    const Value x = any();
    const std::int64_t width = x.dim(-1);
    switch (pick(0, 13)) {
      case 0:
        return ops::add(b_, x, partner(x));
      case 1:
        return ops::sub(b_, partner(x), x);
      case 2:
        return ops::mul(b_, x, partner(x));
      case 3:
        return ops::add_scalar(b_, x, 1);
      case 4:
        return ops::mul_scalar(b_, x, -0.3f);
      case 5:
        return ops::silu(b_, x);
      case 6:
        return ops::sqrt(b_, ops::mul(b_, x, x));
      case 7:
        return ops::rms_norm(b_, x, b_.constant(name(), {x.dtype(), {width}}));
      case 8:
        return ops::layer_norm(b_, x, 1e-6f);
      case 9:
        return ops::layer_norm(b_, x, 1e-6f, b_.constant(name(), {x.dtype(), {width}}),
                               b_.constant(name(), {x.dtype(), {width}}));
      case 10:
        return rotated(x);
      case 11:
        return width < 4 ? ops::silu(b_, x) : ops::slice(b_, x, -1, pick(0, 1), width - pick(0, 2));
      case 12:
        for (int tries = 0; tries < 8; ++tries)
          if (const Value y = any(); y.dtype() == x.dtype() && width + y.dim(-1) < 400)
            return ops::concat(b_, std::array{x, y}, -1);
        return ops::add(b_, x, x);
      default:
        return ops::cast(
            b_, x, std::array{DType::kF32, DType::kBF16, DType::kF16}[static_cast<std::size_t>(pick(0, 2))]);
    }
  }

  std::minstd_rand random_;
  DType dtype_;
  ir::Builder b_;
  std::int64_t batch_ = 1, tokens_ = 1, width_ = 1;
  std::vector<Value> values_;
  int n_names_ = 0;
};

std::size_t largest_group(const runtime::Executor& executor) {
  std::size_t largest = 0;
  for (const plan::Group& group : executor.plan().groups) largest = std::max(largest, group.ops.size());
  return largest;
}

TEST(RowGroup, GivesTheBitsOfItsOperationsInEveryDtypeAtEveryThreadCount) {
  std::size_t largest = 0, programs = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (unsigned seed = 1; seed <= 60; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", dtype, seed));
      Bench bench(RandomProgram(seed, dtype).make(static_cast<int>(4 + seed % 12)));
      const auto apart = bench.prepare(false);
      const auto expected = bench.run(*apart);
      for (const int n : {1, 2, 4}) {
        const testing::Threads threads(n);
        const auto joined = bench.prepare(true);
        largest = std::max(largest, largest_group(*joined));
        programs += !joined->plan().groups.empty();
        ASSERT_EQ(bench.run(*joined), expected) << n << " threads";
      }
    }
  EXPECT_GE(largest, 8U);
  EXPECT_GE(programs, 300U);
}

TEST(RowGroup, WritesOnlyWhatIsReadOutside) {
  ir::Builder b("gate");
  const Value x = b.input("x", {DType::kF32, {512, 192}}), y = b.input("y", {DType::kF32, {512, 192}});
  const Value gate = b.input("gate", {DType::kF32, {1, 192}});
  const Value gated = ops::add(b, x, ops::mul(b, gate, y));
  b.output("h", ops::mul(b, ops::layer_norm(b, gated, 1e-6f), ops::add_scalar(b, gated, 1)));
  Bench bench(finish(b));
  const auto apart = bench.prepare(false), joined = bench.prepare(true);
  ASSERT_EQ(largest_group(*joined), 5U);
  EXPECT_EQ(bench.run(*joined), bench.run(*apart));
  EXPECT_EQ(joined->report().arena_bytes, 512U * 192 * 4);
  EXPECT_LT(joined->report().workspace_bytes, 512U * 192 * 4);
}

/// silu(left half) * right half of rows of 2 * width.
ir::Program gated_halves(DType dtype, std::int64_t rows, std::int64_t width) {
  ir::Builder b("swiglu");
  const Value x = b.input("x", {dtype, {rows, 2 * width}});
  const Value left = ops::slice(b, x, -1, 0, width), right = ops::slice(b, x, -1, width, 2 * width);
  b.output("y", ops::mul(b, ops::silu(b, left), right));
  return finish(b);
}

TEST(RowGroup, ReadsWidePartsOfRowsWhereTheyAre) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Bench bench(gated_halves(dtype, 37, 2333));
    const auto apart = bench.prepare(false), joined = bench.prepare(true);
    ASSERT_EQ(largest_group(*joined), 4U);
    EXPECT_EQ(bench.run(*joined), bench.run(*apart));
    // The silu alone is kept, one row of it for each thread.
    const auto row_bytes = static_cast<std::uint64_t>(2333 * dtype_size(dtype));
    EXPECT_LE(joined->report().workspace_bytes, (row_bytes + 64) * static_cast<unsigned>(thread_count()));
  }
}

TEST(RowGroup, GivesTheSameBitsWhereItWritesPastTheCaches) {
  for (const std::int64_t width : {2048, 2049}) {
    ir::Builder b("large");
    const Value x = b.input("x", {DType::kF32, {4200, width}}), y = b.input("y", {DType::kF32, {1, width}});
    const Value sum = ops::add(b, x, y);
    b.output("sum", sum);
    b.output("z", ops::mul(b, sum, y));
    Bench bench(finish(b));
    const auto apart = bench.prepare(false), joined = bench.prepare(true);
    ASSERT_EQ(largest_group(*joined), 2U);
    EXPECT_EQ(bench.run(*joined), bench.run(*apart));
  }
}

/// The tail of half a transformer block: x + gate * y, normalised and modulated.
ir::Program gate_norm_modulate(DType dtype, std::int64_t rows, std::int64_t width) {
  ir::Builder b("gate");
  const Value x = b.input("x", {dtype, {rows, width}}), y = b.input("y", {dtype, {rows, width}});
  const Value gate = b.input("gate", {dtype, {1, width}}), scale = b.input("scale", {dtype, {1, width}});
  const Value residual = ops::add(b, x, ops::mul(b, gate, y));
  b.output("residual", residual);
  b.output("modulated", ops::add(b, ops::mul(b, scale, ops::layer_norm(b, residual, 1e-6f)), gate));
  return finish(b);
}

ir::Program norm_rotary(DType dtype, std::int64_t rows, bool interleaved) {
  constexpr std::int64_t kHeads = 8, kDepth = 128;
  ir::Builder b("query");
  const Value x = b.input("x", {dtype, {1, rows, kHeads, kDepth}}), w = b.input("w", {dtype, {kDepth}});
  const Value cos = b.input("cos", {DType::kF32, {rows, kDepth / 2}});
  const Value sin = b.input("sin", {DType::kF32, {rows, kDepth / 2}});
  b.output("y", ops::rotary(b, ops::rms_norm(b, x, w), cos, sin, interleaved));
  return finish(b);
}

TEST(RowGroup, GivesTheSameBitsWhereItFetchesAheadAndWritesPastTheCaches) {
  const auto expect_same = [](ir::Program program) {
    Bench bench(std::move(program));
    const auto apart = bench.prepare(false), joined = bench.prepare(true);
    ASSERT_GE(largest_group(*joined), 2U);
    EXPECT_EQ(bench.run(*joined), bench.run(*apart));
  };
  expect_same(gate_norm_modulate(DType::kBF16, 1100, 1024));  // 9 MB: fetched
  expect_same(gate_norm_modulate(DType::kF32, 2100, 1025));   // 34 MB: past the caches too, off their lines
  expect_same(norm_rotary(DType::kBF16, 9000, true));         // 37 MB
  expect_same(norm_rotary(DType::kF32, 4200, true));          // 34 MB
  expect_same(norm_rotary(DType::kF32, 4200, false));
}

TEST(RowGroup, DeclinesRowsThatDoNotFitIntoACache) {
  ir::Builder b("wide");
  const Value x = b.input("x", {DType::kF32, {1 << 20}});
  b.output("y", ops::silu(b, ops::add_scalar(b, ops::mul(b, x, x), 1)));
  Bench bench(finish(b));
  const auto joined = bench.prepare(true);
  EXPECT_TRUE(joined->plan().groups.empty());
  EXPECT_NE(joined->report().details.find("more than a core keeps near"), std::string::npos);
}

}  // namespace
}  // namespace dif::cpu

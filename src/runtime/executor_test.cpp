#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "ops/add/add.op.h"
#include "ops/mul/mul.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/silu/silu.op.h"
#include "runtime/test_programs.h"

namespace dif::runtime {
namespace {

using namespace test;

const ir::TensorType kFour = f32({4});

/// x + y, for four floats.
struct AddKernel : Kernel {
  Status run(const KernelArgs& args) override {
    for (int i = 0; i < 4; ++i)
      args.out[0].data<float>()[i] = args.in[0].data<float>()[i] + args.in[1].data<float>()[i];
    return ok();
  }
};

Result<std::unique_ptr<Kernel>> make_add(const KernelRequest&) {
  return std::make_unique<AddKernel>();
}

Result<std::unique_ptr<Kernel>> decline_wide(const KernelRequest& request) {
  return declined("{} columns > 2", request.op->in(0).dim(0));
}

/// Keeps a copy of a constant second operand, as a kernel that repacks weights does.
struct PackedAdd : Kernel {
  explicit PackedAdd(BufferView constant) { std::memcpy(packed, constant.pointer(), sizeof(packed)); }
  Status run(const KernelArgs& args) override {
    for (int i = 0; i < 4; ++i) args.out[0].data<float>()[i] = args.in[0].data<float>()[i] + packed[i];
    return ok();
  }
  std::uint64_t workspace_bytes() const override { return 1000; }
  std::uint64_t prepacked_bytes() const override { return sizeof(packed); }
  bool reads_constant(std::size_t operand) const override { return operand != 1; }
  float packed[4];
};

Result<std::unique_ptr<Kernel>> make_packed_add(const KernelRequest& request) {
  if (!request.constants[1]) return declined("the second operand is no constant");
  return std::make_unique<PackedAdd>(request.constants[1]);
}

struct Fixture {
  HostDevice device{0};
  SharedArena arena{device};
  std::vector<std::uint32_t> released;

  Result<std::unique_ptr<Executor>> prepare(const ir::Program& program, std::span<const KernelEntry> kernels,
                                            std::vector<HostConstant> constants = {}) {
    return Executor::prepare(program, std::move(constants), device, arena,
                             {kernels, true, [this](std::uint32_t i) { released.push_back(i); }});
  }
};

ir::Program sum_with_constant() {
  ir::Builder b("sum");
  b.output("y", ops::add(b, b.input("x", kFour), b.constant("w", kFour)));
  return finish(b);
}

TEST(Executor, AsksKernelsInOrderAndReportsWhyOneDeclined) {
  const KernelEntry kernels[] = {{&ops::kAdd, "narrow", decline_wide}, {&ops::kAdd, "plain", make_add}};
  Fixture f;
  const float w[4] = {1, 2, 3, 4};
  const auto executor = f.prepare(sum_with_constant(), kernels, {{w, 16}});
  ASSERT_TRUE(executor) << executor.error().message;
  const auto details = nlohmann::json::parse((*executor)->report().details);
  const auto& operation = details.at("operations").at(0);
  EXPECT_EQ(operation.at("kernel"), "plain");
  EXPECT_EQ(operation.at("declined"), nlohmann::json::array({"narrow: 4 columns > 2"}));
}

TEST(Executor, NamesEveryOperationWithoutAKernel) {
  ir::Builder b("missing");
  ir::Value x = b.input("x", kFour);
  const ir::Value smooth = ops::silu(b, x);
  b.output("y", ops::mul(b, smooth, ops::add(b, x, x)));
  const KernelEntry kernels[] = {{&ops::kAdd, "narrow", decline_wide}};
  Fixture f;
  const auto executor = f.prepare(finish(b), kernels);
  expect_error(executor, ErrorCode::kDeclined, "cannot run 3 of 3 operations");
  expect_error(executor, ErrorCode::kDeclined, "operation 0 (silu): no kernel");
  expect_error(executor, ErrorCode::kDeclined, "operation 1 (add): narrow: 4 columns > 2");
  expect_error(executor, ErrorCode::kDeclined, "operation 2 (mul): no kernel");
}

TEST(Executor, AKernelThatFailsToBeMadeIsNotPassedOver) {
  const KernelEntry kernels[] = {{&ops::kAdd, "broken",
                                  [](const KernelRequest&) -> Result<std::unique_ptr<Kernel>> {
                                    return fail(ErrorCode::kOutOfMemory, "no scratch");
                                  }},
                                 {&ops::kAdd, "plain", make_add}};
  Fixture f;
  const float w[4] = {};
  expect_error(f.prepare(sum_with_constant(), kernels, {{w, 16}}), ErrorCode::kOutOfMemory,
               "no scratch (kernel broken of operation 0)");
}

TEST(Executor, ReleasesConstantsThatOnlyRepackingKernelsRead) {
  ir::Builder b("release");
  const ir::Value x = b.input("x", kFour);
  const ir::Value packed = b.constant("packed", kFour), shared = b.constant("shared", kFour);
  const ir::Value output = b.constant("output", kFour), unused = b.constant("unused", kFour);
  (void)unused;
  b.output("y", ops::add(b, ops::add(b, shared, ops::add(b, x, packed)), shared));
  b.output("w", output);
  const KernelEntry kernels[] = {{&ops::kAdd, "packed", make_packed_add}, {&ops::kAdd, "plain", make_add}};
  Fixture f;
  float w[4][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}, {5, 5, 5, 5}, {}};
  const auto executor = f.prepare(finish(b), kernels, {{w[0], 16}, {w[1], 16}, {w[2], 16}, {w[3], 16}});
  ASSERT_TRUE(executor) << executor.error().message;
  // `shared` is the first operand of an addition that has no other constant, so it is still read.
  EXPECT_EQ(f.released, (std::vector<std::uint32_t>{0, 3}));
  EXPECT_EQ((*executor)->report().prepacked_bytes, 32U);
  EXPECT_EQ((*executor)->report().workspace_bytes, 1000U);
  EXPECT_EQ((*executor)->report().resident_bytes, 32U) << "shared and output";

  std::memset(w[0], 0, sizeof(w[0]));
  float in[4] = {100, 100, 100, 100}, y[4], out[4];
  const std::vector<BufferView> inputs = {{in, 0}}, outputs = {{y, 0}, {out, 0}};
  ASSERT_TRUE((*executor)->run(inputs, outputs, {}));
  EXPECT_EQ(y[3], 100 + 4 + 40 + 40);
  EXPECT_EQ(out[0], 5);
}

TEST(Executor, AFailedRunNamesOperationAndKernel) {
  struct Failing : Kernel {
    Status run(const KernelArgs&) override { return fail(ErrorCode::kUnavailable, "the device is gone"); }
  };
  const KernelEntry kernels[] = {
      {&ops::kAdd, "failing",
       [](const KernelRequest&) -> Result<std::unique_ptr<Kernel>> { return std::make_unique<Failing>(); }}};
  Fixture f;
  float w[4] = {}, x[4] = {}, y[4] = {};
  const auto executor = f.prepare(sum_with_constant(), kernels, {{w, 16}});
  ASSERT_TRUE(executor);
  const std::vector<BufferView> inputs = {{x, 0}}, outputs = {{y, 0}};
  expect_error((*executor)->run(inputs, outputs, {}), ErrorCode::kUnavailable,
               "the device is gone (operation 0, add, kernel failing)");
  EXPECT_EQ((*executor)->failed_operation(), 0U);
}

TEST(Executor, AFailureWhileFoldingNamesTheOperation) {
  ir::Builder b("fold");
  const ir::Value w = b.constant("w", kFour);
  b.output("y", ops::add(b, b.input("x", kFour), ops::mul_scalar(b, w, 2)));
  const KernelEntry kernels[] = {
      {&ops::kAdd, "plain", make_add},
      {&ops::kMulScalar, "failing", function_kernel<[](const ir::OpView&, const KernelArgs&) -> Status {
         return fail(ErrorCode::kInternal, "no");
       }>}};
  Fixture f;
  const float weights[4] = {};
  expect_error(f.prepare(finish(b), kernels, {{weights, 16}}), ErrorCode::kInternal,
               "while folding operation 0");
}

Status twice(const ir::OpView&, const KernelArgs& args) {
  for (int i = 0; i < 4; ++i) args.out[0].data<float>()[i] = 2 * args.in[0].data<float>()[i];
  return ok();
}

Result<std::unique_ptr<Kernel>> make_lean_packed_add(const KernelRequest& request) {
  struct Lean : PackedAdd {
    using PackedAdd::PackedAdd;
    std::uint64_t workspace_bytes() const override { return 0; }
  };
  return std::make_unique<Lean>(request.constants[1]);
}

const KernelEntry kFoldingKernels[] = {{&ops::kAdd, "packed", make_lean_packed_add},
                                       {&ops::kMulScalar, "twice", function_kernel<twice>}};

TEST(Executor, FoldedWeightsThatAreRepackedAreThereOneAtATime) {
  constexpr int kWeights = 64;
  ir::Builder b("fold");
  ir::Value y = b.input("x", kFour);
  for (int i = 0; i < kWeights; ++i) {
    const ir::Value folded = ops::mul_scalar(b, b.constant(fmt::format("w{}", i), kFour), 2);
    y = ops::add(b, ops::add(b, y, folded), folded);
  }
  b.output("y", y);
  const float w[4] = {1, 2, 3, 4};
  Fixture f;
  const auto executor = f.prepare(finish(b), kFoldingKernels, std::vector<HostConstant>(kWeights, {w, 16}));
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_LE(f.device.peak_bytes(), (*executor)->report().arena_bytes + 16);
  EXPECT_EQ((*executor)->report().resident_bytes, 0U);
  const auto details = nlohmann::json::parse((*executor)->report().details);
  EXPECT_EQ(details.at("operations").size(), 3U * kWeights) << "each weight is folded once";

  float x[4] = {}, sum[4];
  const std::vector<BufferView> inputs = {{x, 0}}, outputs = {{sum, 0}};
  ASSERT_TRUE((*executor)->run(inputs, outputs, {}));
  EXPECT_EQ(sum[3], 2 * 2 * 4.0f * kWeights);
}

TEST(Executor, ALongChainOfConstantsNeedsNoStack) {
  ir::Builder b("chain");
  ir::Value w = b.constant("w", kFour);
  for (int i = 0; i < 40'000; ++i) w = ops::mul_scalar(b, w, 2);
  b.output("y", ops::add(b, b.input("x", kFour), w));
  const float weights[4] = {};
  Fixture f;
  const auto executor = f.prepare(finish(b), kFoldingKernels, {{weights, 16}});
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_LE(f.device.peak_bytes(), (*executor)->report().arena_bytes + 32);
}

// --- memory -----------------------------------------------------------------------------------------------

TEST(HostDevice, GivesAlignedMemoryUnderItsCap) {
  HostDevice device(4096);
  const auto a = device.allocate(1000), c = device.allocate(1);
  ASSERT_TRUE(a && c);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a->pointer()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c->pointer()) % 64, 0U);
  expect_error(device.allocate(4000), ErrorCode::kOutOfMemory, "memory cap of 4096 bytes");
  device.release(*a);
  device.release(*c);
  const auto again = device.allocate(3900);
  ASSERT_TRUE(again) << "what was released counts no more";
  device.release(*again);
  expect_error(device.allocate(UINT64_MAX), ErrorCode::kOutOfMemory, "more than any memory holds");
}

TEST(HostDevice, SaysWhenTheSystemHasNoMemory) {
  HostDevice device(0);
  expect_error(device.allocate(1ULL << 62), ErrorCode::kOutOfMemory, "choose a smaller size");
}

TEST(SharedArena, GrowsAndNeverShrinks) {
  HostDevice device(0);
  SharedArena arena(device);
  ASSERT_TRUE(arena.reserve(1000, 0));
  const std::byte* first = arena.arena().pointer();
  ASSERT_TRUE(arena.reserve(100, 50));
  EXPECT_EQ(arena.arena().pointer(), first);
  EXPECT_NE(arena.workspace().pointer(), nullptr);
  ASSERT_TRUE(arena.reserve(100000, 0));
  std::memset(arena.arena().pointer(), 1, 100000);
}

TEST(SharedArena, APlanMeetsTheCapWhereReservingWould) {
  HostDevice device(0);
  SharedArena arena(device);
  ASSERT_TRUE(arena.plan_under_cap(1000, 300, 100, 200));
  expect_error(arena.plan_under_cap(1000, 701, 100, 0), ErrorCode::kOutOfMemory,
               "701 bytes more would exceed the memory cap of 1000 bytes (300 are held)");
  EXPECT_EQ(arena.planned_resident_bytes(), 200U) << "what was refused counts no more";
  ASSERT_TRUE(arena.plan_under_cap(1000, 700, 0, 0)) << "in the place of the smaller arena";
  expect_error(arena.plan_under_cap(1000, 0, 101, 0), ErrorCode::kOutOfMemory, "(900 are held)");
  arena.plan(0, 0, -200);
  EXPECT_TRUE(arena.plan_under_cap(1000, 0, 101, 0)) << "the weights are gone";
}

}  // namespace
}  // namespace dif::runtime

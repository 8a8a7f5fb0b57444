#include <gtest/gtest.h>

#include <functional>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/testing.h"
#include "backends/reference/kernels.h"
#include "hwy/targets.h"
#include "ops/add/add.op.h"
#include "ops/attention/attention.op.h"
#include "ops/cast/cast.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/layer_norm/layer_norm.op.h"
#include "ops/linear/linear.op.h"
#include "ops/mul/mul.op.h"
#include "ops/rms_norm/rms_norm.op.h"
#include "ops/rotary/rotary.op.h"
#include "ops/silu/silu.op.h"
#include "ops/sub/sub.op.h"
#include "ops/transpose/transpose.op.h"

// What the conformance suite does not reach: sizes that are cut into blocks, every instruction set, any
// number of threads, and what happens to constants. Expected values are those of the reference kernels, which
// sum in f64.

namespace dif::cpu {
namespace {

using testing::HostTensor;
using testing::KernelRun;
using testing::random_tensor;
using testing::relative_error;
using testing::Threads;

using Attrs = std::vector<ir::Attr>;

template <class... Args>
std::string text(const Args&... args) {
  return (fmt::format("{} ", args) + ...);
}

HostTensor expected(const KernelRun& run, runtime::MakeKernel reference) {
  KernelRun plain(run.view().def(), Attrs(run.view().attrs().begin(), run.view().attrs().end()), [&] {
    std::vector<HostTensor> copies;
    for (const HostTensor& operand : run.operands()) {
      copies.emplace_back(operand.type());
      std::memcpy(copies.back().data(), operand.data(), operand.bytes());
    }
    return copies;
  }());
  EXPECT_TRUE(plain.make(reference));
  EXPECT_TRUE(plain.run());
  HostTensor y(plain.y().type());
  std::memcpy(y.data(), plain.y().data(), y.bytes());
  return y;
}

void run_or_fail(KernelRun& run, runtime::MakeKernel make) {
  const Status made = run.make(make);
  ASSERT_TRUE(made) << made.error().message;
  const Status ran = run.run();
  ASSERT_TRUE(ran) << ran.error().message;
}

/// Calls `body` once for each instruction set that this processor has.
void for_each_instruction_set(const std::function<void()>& body) {
  constexpr std::int64_t kAvx512 = HWY_AVX3 | HWY_AVX3_DL, kAvx2 = kAvx512 | HWY_AVX2;
  for (const std::int64_t disabled : {std::int64_t{0}, kAvx512, kAvx2}) {
    hwy::DisableTargets(disabled);
    hwy::GetChosenTarget().DeInit();
    SCOPED_TRACE(instruction_set());
    body();
  }
  hwy::DisableTargets(0);
  hwy::GetChosenTarget().DeInit();
}

template <class... Tensors>
std::vector<HostTensor> operands(Tensors... tensors) {
  std::vector<HostTensor> list;
  (list.push_back(std::move(tensors)), ...);
  return list;
}

/// The same bytes from 1, 2 and 4 threads, prepared and run with that many.
void expect_thread_invariance(const std::function<std::unique_ptr<KernelRun>()>& instance,
                              runtime::MakeKernel make) {
  std::vector<std::byte> first;
  for (const int n : {1, 2, 4}) {
    const Threads threads(n);
    const auto run = instance();
    run_or_fail(*run, make);
    const std::vector<std::byte> bytes(run->y().data(), run->y().data() + run->y().bytes());
    if (n == 1) first = bytes;
    EXPECT_TRUE(bytes == first) << text(run->view().in(0), n, "threads");
  }
}

constexpr double kSumTolerance = 1e-6;    // seen: up to 3e-7; a wrong tile or mask shows from 1e-3
constexpr double kRoundTolerance = 5e-3;  // bf16 has 8 bits: half a unit in the last place is 2e-3

double tolerance(DType dtype) {
  return dtype == DType::kF32 ? kSumTolerance : kRoundTolerance;
}

/// The first of our kernels that takes such tensors.
runtime::MakeKernel linear_kernel(DType dtype) {
  return dtype == DType::kF32 || (dtype == DType::kBF16 && multiplies_bf16()) ? make_onednn_linear
                                                                              : make_upcast_linear;
}

runtime::MakeKernel conv_kernel(DType dtype) {
  return dtype == DType::kF32 || (dtype == DType::kBF16 && multiplies_bf16()) ? make_onednn_conv2d
                                                                              : make_upcast_conv2d;
}

std::unique_ptr<KernelRun> linear_run(DType dtype, const Shape& x, std::int64_t n_out, bool bias = true) {
  const std::int64_t k = x.dim(-1);
  auto list = operands(random_tensor(dtype, x, 1), random_tensor(dtype, {n_out, k}, 2));
  std::vector<std::size_t> constants = {1};
  if (bias) {
    list.push_back(random_tensor(dtype, {n_out}, 3));
    constants.push_back(2);
  }
  return std::make_unique<KernelRun>(ops::kLinear, Attrs{}, std::move(list), constants);
}

TEST(CpuLinear, AgreesWithF64ForEveryStorage) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const auto& [x, n_out] : {std::pair{Shape{2, 67, 96}, std::int64_t{130}},
                                   {Shape{1, 33}, 5},
                                   {Shape{3, 700}, 1100},
                                   {Shape{7}, 3}}) {
      for (const auto make :
           {linear_kernel(dtype), dtype == DType::kF32 ? make_onednn_linear : make_upcast_linear}) {
        const auto run = linear_run(dtype, x, n_out);
        const HostTensor y = expected(*run, runtime::function_kernel<reference::linear>);
        run_or_fail(*run, make);
        EXPECT_LT(relative_error(run->y(), y), tolerance(dtype)) << text(dtype, x);
      }
    }
  }
}

TEST(CpuLinear, Bf16ProductsRoundOnce) {
  if (!multiplies_bf16()) {
    const auto run = linear_run(DType::kBF16, {4, 8}, 8);
    const Status made = run->make(make_onednn_linear);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kDeclined);
    return;
  }
  const auto run = linear_run(DType::kBF16, {50, 200}, 300);
  const HostTensor y = expected(*run, runtime::function_kernel<reference::linear>);
  run_or_fail(*run, make_onednn_linear);
  EXPECT_LT(relative_error(run->y(), y), 1e-4);  // a different rounding here and there
}

TEST(CpuLinear, PackedConstantsAreNotReadAgain) {
  const auto run = linear_run(DType::kF32, {5, 64}, 48);
  const HostTensor y = expected(*run, runtime::function_kernel<reference::linear>);
  ASSERT_TRUE(run->make(make_onednn_linear));
  EXPECT_TRUE(run->kernel().reads_constant(0));
  EXPECT_FALSE(run->kernel().reads_constant(2));
  EXPECT_GT(run->kernel().prepacked_bytes(), 0U);
  for (const std::size_t operand : {1, 2})
    if (!run->kernel().reads_constant(operand))
      std::memset(run->operands()[operand].data(), 0xff, run->operands()[operand].bytes());
  ASSERT_TRUE(run->run());
  EXPECT_LT(relative_error(run->y(), y), kSumTolerance);
}

TEST(CpuLinear, TakesWeightsThatAreNotConstant) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    KernelRun run(ops::kLinear, {},
                  operands(random_tensor(dtype, {9, 40}, 1), random_tensor(dtype, {24, 40}, 2),
                           random_tensor(dtype, {24}, 3)));
    const HostTensor y = expected(run, runtime::function_kernel<reference::linear>);
    run_or_fail(run, linear_kernel(dtype));
    EXPECT_LT(relative_error(run.y(), y), tolerance(dtype)) << text(dtype);
    EXPECT_TRUE(run.kernel().reads_constant(1));
  }
}

TEST(CpuLinear, SameBytesForAnyNumberOfThreads) {
  // The products of the bundled model's programs, and long sums with few results, which invite a split of K.
  for (const auto& [x, n_out] : {std::pair{Shape{2, 576, 192}, std::int64_t{1728}},
                                 {Shape{2, 576, 192}, 192},
                                 {Shape{2, 64, 32}, 192},
                                 {Shape{2, 64, 192}, 32},
                                 {Shape{2, 64, 576}, 192},
                                 {Shape{2, 512, 768}, 192},
                                 {Shape{1, 192}, 1152},
                                 {Shape{20, 256}, 192},
                                 {Shape{512, 64}, 96},
                                 {Shape{512, 128}, 64},
                                 {Shape{256, 64}, 64},
                                 {Shape{4, 12288}, 64},
                                 {Shape{64, 8192}, 16},
                                 {Shape{1, 3072}, 3072}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      expect_thread_invariance([&, &x = x, &n_out = n_out] { return linear_run(dtype, x, n_out); },
                               linear_kernel(dtype));
    }
  }
}

struct ConvCase {
  Shape x, w;
  std::vector<std::int64_t> strides = {1, 1}, pads = {1, 1, 1, 1};
  std::int64_t groups = 1;
  bool channels_last = false;
};

std::unique_ptr<KernelRun> conv_run(DType dtype, const ConvCase& c, bool constant = true) {
  return std::make_unique<KernelRun>(ops::kConv2d, Attrs{c.strides, c.pads, c.groups, c.channels_last},
                                     operands(random_tensor(dtype, c.x, 1), random_tensor(dtype, c.w, 2),
                                              random_tensor(dtype, {c.w.dim(0)}, 3)),
                                     constant ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{});
}

TEST(CpuConv2d, AgreesWithF64) {
  const ConvCase cases[] = {{{2, 8, 16, 16}, {64, 8, 3, 3}},
                            {{1, 32, 30, 17}, {3, 32, 3, 3}},
                            {{1, 24, 9, 11}, {40, 24, 3, 3}},
                            {{1, 3, 21, 20}, {32, 3, 3, 3}, {2, 2}, {0, 0, 1, 1}},
                            {{1, 48, 12, 12}, {32, 48, 1, 1}, {1, 1}, {0, 0, 0, 0}},
                            {{1, 5, 7, 6}, {6, 5, 2, 3}, {1, 2}, {1, 0, 0, 2}},
                            {{2, 30, 17, 32}, {48, 3, 3, 32}, {1, 1}, {1, 1, 1, 1}, 1, true},
                            {{1, 21, 20, 16}, {32, 3, 3, 16}, {2, 2}, {0, 0, 1, 1}, 1, true}};
  for (const ConvCase& c : cases) {
    for (const bool constant : {true, false}) {
      const auto run = conv_run(DType::kF32, c, constant);
      const HostTensor y = expected(*run, runtime::function_kernel<reference::conv2d>);
      run_or_fail(*run, make_onednn_conv2d);
      EXPECT_LT(relative_error(run->y(), y), kSumTolerance) << text(c.x, c.w);
      EXPECT_EQ(run->kernel().reads_constant(1), !constant);
    }
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const auto run = conv_run(dtype, c);
      const HostTensor y = expected(*run, runtime::function_kernel<reference::conv2d>);
      run_or_fail(*run, conv_kernel(dtype));
      EXPECT_LT(relative_error(run->y(), y), kRoundTolerance) << text(dtype, c.x, c.w);
    }
  }
}

TEST(CpuConv2d, ToFewChannelsAgreesWithF64InTilesAndAtEdges) {
  const ConvCase cases[] = {{{2, 32, 30, 17}, {3, 32, 3, 3}},
                            {{1, 8, 40, 300}, {4, 8, 3, 3}},
                            {{1, 5, 9, 130}, {2, 5, 2, 3}, {1, 1}, {1, 0, 0, 2}},
                            {{1, 20, 33, 259}, {1, 20, 5, 5}, {1, 1}, {2, 2, 2, 2}},
                            {{1, 6, 7, 6}, {3, 6, 1, 1}, {1, 1}, {0, 0, 0, 0}}};
  for_each_instruction_set([&] {
    for (const ConvCase& c : cases)
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        const auto run = conv_run(dtype, c);
        const HostTensor y = expected(*run, runtime::function_kernel<reference::conv2d>);
        run_or_fail(*run, make_few_channel_conv2d);
        EXPECT_LT(relative_error(run->y(), y), tolerance(dtype)) << text(dtype, c.x, c.w);
      }
  });
  expect_thread_invariance([&] { return conv_run(DType::kF32, cases[3]); }, make_few_channel_conv2d);
  EXPECT_FALSE(conv_run(DType::kF32, {{1, 8, 9, 9}, {5, 8, 3, 3}})->make(make_few_channel_conv2d));
  EXPECT_FALSE(conv_run(DType::kF32, {{1, 8, 9, 9}, {3, 8, 3, 3}, {2, 2}})->make(make_few_channel_conv2d));
  EXPECT_FALSE(conv_run(DType::kF32, cases[0], false)->make(make_few_channel_conv2d));
}

TEST(CpuConv2d, ImagesThatAreCutIntoBandsHaveNoSeams) {
  const ConvCase cases[] = {{{2, 16, 300, 256}, {16, 16, 3, 3}},
                            {{1, 16, 603, 256}, {16, 16, 3, 3}, {2, 2}, {0, 0, 1, 1}},
                            {{1, 8, 500, 260}, {16, 8, 3, 3}},
                            {{2, 300, 256, 16}, {16, 3, 3, 16}, {1, 1}, {1, 1, 1, 1}, 1, true}};
  for (const ConvCase& c : cases) {
    const auto run = conv_run(DType::kF32, c);
    const HostTensor y = expected(*run, runtime::function_kernel<reference::conv2d>);
    run_or_fail(*run, make_onednn_conv2d);
    EXPECT_LT(run->kernel().workspace_bytes(), 16U << 20);
    EXPECT_LT(relative_error(run->y(), y), kSumTolerance) << text(c.x);
  }
}

TEST(CpuConv2d, SameBytesForAnyNumberOfThreads) {
  const ConvCase cases[] = {
      {{1, 8, 16, 16}, {64, 8, 3, 3}},      {{1, 64, 16, 16}, {64, 64, 3, 3}},
      {{1, 64, 32, 32}, {64, 64, 3, 3}},    {{1, 64, 64, 64}, {48, 64, 3, 3}},
      {{1, 48, 128, 128}, {32, 48, 3, 3}},  {{1, 32, 128, 128}, {32, 32, 3, 3}},
      {{1, 32, 128, 128}, {3, 32, 3, 3}},   {{1, 64, 64, 64}, {48, 64, 1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{1, 512, 32, 32}, {512, 512, 3, 3}}, {{1, 64, 64, 64}, {64, 3, 3, 64}, {1, 1}, {1, 1, 1, 1}, 1, true}};
  for (const ConvCase& c : cases)
    for (const DType dtype : {DType::kF32, DType::kBF16})
      expect_thread_invariance([&] { return conv_run(dtype, c); }, conv_kernel(dtype));
}

struct AttentionCase {
  std::int64_t batch, n_queries, n_keys, heads, key_heads, depth, width;
  bool causal = false;
};

HostTensor mask_of(std::int64_t batch, std::int64_t n_keys,
                   const std::function<bool(std::int64_t, std::int64_t)>& allowed) {
  HostTensor mask({DType::kBool, {batch, n_keys}});
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < n_keys; ++i) mask.as<std::uint8_t>()[b * n_keys + i] = allowed(b, i) ? 1 : 0;
  return mask;
}

std::unique_ptr<KernelRun> attention_run(DType dtype, const AttentionCase& c,
                                         std::optional<HostTensor> mask) {
  auto list = operands(random_tensor(dtype, {c.batch, c.n_queries, c.heads, c.depth}, 1, 2),
                       random_tensor(dtype, {c.batch, c.n_keys, c.key_heads, c.depth}, 2, 2),
                       random_tensor(dtype, {c.batch, c.n_keys, c.key_heads, c.width}, 3));
  if (mask) list.push_back(std::move(*mask));
  const float scale = 1.0f / std::sqrt(static_cast<float>(c.depth));
  return std::make_unique<KernelRun>(ops::kAttention, Attrs{c.causal, scale}, std::move(list));
}

TEST(CpuAttention, AgreesWithF64ForHeadsFrom8To1024) {
  const AttentionCase cases[] = {{2, 150, 150, 6, 6, 32, 32},     {1, 130, 130, 4, 2, 32, 32, true},
                                 {1, 70, 200, 2, 1, 8, 8},        {1, 5, 300, 3, 3, 20, 12},
                                 {1, 65, 65, 1, 1, 64, 64, true}, {1, 97, 129, 2, 2, 128, 128},
                                 {1, 33, 66, 1, 1, 512, 512},     {1, 20, 70, 1, 1, 1024, 1024},
                                 {1, 1, 1, 1, 1, 8, 8, true},     {1, 3, 65, 2, 2, 7, 9}};
  for_each_instruction_set([&] {
    for (const AttentionCase& c : cases) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        const auto run = attention_run(dtype, c, std::nullopt);
        const HostTensor y = expected(*run, runtime::function_kernel<reference::attention>);
        run_or_fail(*run, make_attention);
        EXPECT_LT(relative_error(run->y(), y), tolerance(dtype)) << text(dtype, run->view().in(0));
      }
    }
  });
}

TEST(CpuAttention, ProductsOfPairsAgreeWhereTheProcessorHasThem) {
  const AttentionCase cases[] = {
      {2, 150, 150, 6, 6, 32, 32}, {1, 130, 130, 4, 2, 32, 32, true}, {1, 70, 201, 2, 1, 8, 8},
      {1, 5, 300, 3, 3, 20, 13},   {1, 65, 65, 1, 1, 64, 64, true},   {1, 97, 129, 2, 2, 128, 128},
      {1, 33, 67, 1, 1, 512, 512}, {1, 1, 1, 1, 1, 8, 8, true},       {1, 3, 65, 2, 2, 6, 9}};
  for_each_instruction_set([&] {
    const bool here =
        cpu_features().avx512_bf16 && multiplies_bf16() && instruction_set() == std::string("AVX3");
    for (const AttentionCase& c : cases) {
      for (const bool masked : {false, true}) {
        const auto run = attention_run(
            DType::kBF16, c,
            masked ? std::optional(mask_of(c.batch, c.n_keys, [](auto, auto i) { return i % 7 != 3; }))
                   : std::nullopt);
        const HostTensor y = expected(*run, runtime::function_kernel<reference::attention>);
        const Status made = run->make(make_bf16_attention);
        ASSERT_EQ(made.has_value(), here);
        if (!here) {
          EXPECT_EQ(made.error().code, ErrorCode::kDeclined);
          continue;
        }
        ASSERT_TRUE(run->run());
        EXPECT_LT(relative_error(run->y(), y), kRoundTolerance) << text(run->view().in(0));
      }
    }
  });
  const auto odd = attention_run(DType::kBF16, {1, 4, 4, 1, 1, 7, 7}, std::nullopt);
  EXPECT_FALSE(odd->make(make_bf16_attention));
}

TEST(CpuAttention, MasksKeysAndGivesZerosWithoutAny) {
  const AttentionCase cases[] = {{3, 100, 100, 2, 1, 16, 16, true}, {3, 60, 190, 2, 2, 24, 24}};
  for_each_instruction_set([&] {
    for (const AttentionCase& c : cases) {
      // Batch 0 sees every third key but not the first ones, batch 1 nothing, batch 2 only a late run.
      const auto run = attention_run(DType::kF32, c, mask_of(c.batch, c.n_keys, [](auto b, auto i) {
                                       return b == 0 ? i > 4 && i % 3 == 0 : b == 2 && i > 70 && i < 90;
                                     }));
      const HostTensor y = expected(*run, runtime::function_kernel<reference::attention>);
      run_or_fail(*run, make_attention);
      EXPECT_LT(relative_error(run->y(), y), kSumTolerance);
      const std::int64_t row = c.heads * c.width, image = c.n_queries * row;
      for (std::int64_t i = 0; i < image; ++i) ASSERT_EQ(run->y().get(image + i), 0.0f) << i;
      if (c.causal)
        for (std::int64_t i = 0; i < 6 * row; ++i) ASSERT_EQ(run->y().get(i), 0.0f) << i;
    }
  });
}

TEST(CpuAttention, PaddingBehindAMaskDoesNotChangeABit) {
  const AttentionCase padded = {1, 50, 200, 2, 2, 32, 32}, short_case = {1, 50, 90, 2, 2, 32, 32};
  const auto with = attention_run(DType::kF32, padded, mask_of(1, 200, [](auto, auto i) { return i < 90; }));
  const auto without = attention_run(DType::kF32, short_case, std::nullopt);
  for (const std::size_t operand : {0, 1, 2})
    std::memcpy(without->operands()[operand].data(), with->operands()[operand].data(),
                without->operands()[operand].bytes());
  run_or_fail(*with, make_attention);
  run_or_fail(*without, make_attention);
  EXPECT_TRUE(with->y().same_bytes(without->y()));
}

TEST(CpuAttention, ScoresOfAnySizeStayFinite) {
  const auto run = attention_run(DType::kF32, {1, 40, 130, 1, 1, 16, 16}, std::nullopt);
  for (std::int64_t i = 0; i < run->operands()[0].type().numel(); ++i)
    run->operands()[0].set(i, run->operands()[0].get(i) * 1e4f);
  const HostTensor y = expected(*run, runtime::function_kernel<reference::attention>);
  run_or_fail(*run, make_attention);
  EXPECT_LT(relative_error(run->y(), y), 1e-2);  // scores of 1e5 have an absolute error of 1e-2
}

TEST(CpuAttention, NanInOneValueReachesTheResult) {
  const auto run = attention_run(DType::kF32, {1, 8, 100, 1, 1, 8, 8}, std::nullopt);
  run->operands()[1].set(50 * 8, NAN);
  run_or_fail(*run, make_attention);
  for (std::int64_t i = 0; i < 64; ++i) EXPECT_TRUE(std::isnan(run->y().get(i)));
}

TEST(CpuAttention, SameBytesForAnyNumberOfThreads) {
  expect_thread_invariance(
      [] {
        return attention_run(DType::kF32, {2, 576, 576, 6, 6, 32, 32}, std::nullopt);
      },
      make_attention);
  expect_thread_invariance(
      [] {
        return attention_run(DType::kF32, {1, 512, 512, 4, 2, 32, 32, true},
                             mask_of(1, 512, [](auto, auto i) { return i < 37; }));
      },
      make_attention);
  if (multiplies_bf16() && cpu_features().avx512_bf16)
    expect_thread_invariance(
        [] {
          return attention_run(DType::kBF16, {2, 576, 576, 6, 6, 32, 32}, std::nullopt);
        },
        make_bf16_attention);
}

TEST(CpuSilu, HasFullF32AccuracyEverywhere) {
  constexpr std::int64_t kCount = 400001;
  for_each_instruction_set([] {
    HostTensor x({DType::kF32, {kCount}});
    for (std::int64_t i = 0; i < kCount; ++i)
      x.set(i, static_cast<float>(-100.0 + 200.0 * static_cast<double>(i) / (kCount - 1)));
    for (std::int64_t i = 0; i < 80; ++i)
      x.set(i, std::ldexp(i % 2 == 0 ? 0.7f : -0.7f, static_cast<int>(-i)));
    KernelRun run(ops::kSilu, {}, operands(std::move(x)));
    run_or_fail(run, make_silu);
    double worst = 0, worst_at = 0;
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double v = run.operands()[0].get(i), exact = v / (1.0 + std::exp(-v));
      if (v == 0 || std::fabs(exact) < 1.2e-38) continue;  // subnormal results have fewer bits
      const double error = std::fabs(run.y().get(i) - exact) / std::fabs(exact);
      if (error > worst) worst = error, worst_at = v;
    }
    EXPECT_LT(worst, 3e-7) << "at " << worst_at;
  });
}

TEST(CpuSilu, KeepsNanAndTheLimits) {
  for_each_instruction_set([] {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      HostTensor x({dtype, {75}});
      const float values[] = {NAN, HUGE_VALF, -200.0f, 0.0f, -HUGE_VALF};
      for (std::int64_t i = 0; i < 75; ++i) x.set(i, values[i % 5]);
      KernelRun run(ops::kSilu, {}, operands(std::move(x)));
      run_or_fail(run, make_silu);
      for (std::int64_t i = 0; i < 75; i += 5) {
        EXPECT_TRUE(std::isnan(run.y().get(i)));
        EXPECT_EQ(run.y().get(i + 1), HUGE_VALF);
        EXPECT_EQ(run.y().get(i + 2), 0.0f);
        EXPECT_EQ(run.y().get(i + 3), 0.0f);
        EXPECT_TRUE(std::isnan(run.y().get(i + 4)));
      }
    }
  });
}

TEST(CpuSilu, GivesTheNearestBf16OrItsNeighbour) {
  HostTensor x({DType::kBF16, {1 << 16}});
  for (std::int64_t i = 0; i < 1 << 16; ++i) x.as<Bf16>()[i].bits = static_cast<std::uint16_t>(i);
  for_each_instruction_set([&] {
    HostTensor copy(x.type());
    std::memcpy(copy.data(), x.data(), x.bytes());
    KernelRun run(ops::kSilu, {}, operands(std::move(copy)));
    run_or_fail(run, make_silu);
    int others = 0;
    for (std::int64_t i = 0; i < 1 << 16; ++i) {
      const double v = x.get(i), exact = v / (1.0 + std::exp(-v));
      if (!std::isfinite(v) || std::fabs(exact) < 1e-36) continue;  // where e^x is not an f32
      const int nearest = f32_to_bf16(static_cast<float>(exact)), found = run.y().as<Bf16>()[i].bits;
      EXPECT_LE(std::abs(found - nearest), 1) << v;
      others += found != nearest;
    }
    EXPECT_LE(others, 40);  // 15 were seen; a polynomial of one degree less gives hundreds
  });
}

TEST(CpuPointwise, RoundsLikeTheReferenceBitForBit) {
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 40, 19}, {3, 40, 19}}, {{4, 37}, {37}},     {{2, 33, 20}, {2, 1, 20}},
      {{2, 5, 9, 31}, {5, 1, 1}}, {{50, 7}, {1}},      {{1, 9}, {6, 1}},
      {{70000}, {70000}},         {{2, 70000}, {2, 1}}};
  const std::tuple<const ir::OpDef*, runtime::MakeKernel, runtime::MakeKernel> kernels[] = {
      {&ops::kAdd, make_add, runtime::function_kernel<reference::add>},
      {&ops::kSub, make_sub, runtime::function_kernel<reference::sub>},
      {&ops::kMul, make_mul, runtime::function_kernel<reference::mul>}};
  for_each_instruction_set([&] {
    for (const auto& [def, make, reference] : kernels)
      for (const auto& [x, y] : shapes)
        for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
          KernelRun run(*def, {}, operands(random_tensor(dtype, x, 1, 3), random_tensor(dtype, y, 2, 3)));
          const HostTensor z = expected(run, reference);
          run_or_fail(run, make);
          EXPECT_TRUE(run.y().same_bytes(z)) << text(def->name, dtype, x, y);
        }
  });
}

TEST(CpuPointwise, RoundsEveryBf16LikeTheReferenceBitForBit) {
  // Every bit pattern, NaN and infinities among them, plus numbers that leave bits to be rounded off.
  constexpr std::int64_t kCount = 1 << 16;
  HostTensor x({DType::kBF16, {kCount}}), y({DType::kBF16, {kCount}});
  for (std::int64_t i = 0; i < kCount; ++i) {
    x.as<Bf16>()[i].bits = static_cast<std::uint16_t>(i);
    y.as<Bf16>()[i].bits = static_cast<std::uint16_t>((i & 0xff80) ^ (i * 77 & 0x81ff));
    if (!std::isfinite(y.get(i))) y.set(i, 3);
  }
  for_each_instruction_set([&] {
    HostTensor a(x.type()), b(y.type());
    std::memcpy(a.data(), x.data(), x.bytes());
    std::memcpy(b.data(), y.data(), y.bytes());
    KernelRun run(ops::kAdd, {}, operands(std::move(a), std::move(b)));
    const HostTensor z = expected(run, runtime::function_kernel<reference::add>);
    run_or_fail(run, make_add);
    EXPECT_TRUE(run.y().same_bytes(z));
  });
}

TEST(CpuCast, RoundsEveryF32LikeTheReferenceBitForBit) {
  // All exponents and signs, mantissas around the ties of both formats, infinities and NaN with any payload.
  HostTensor x({DType::kF32, {2 * 256 * 64}});
  const std::uint32_t mantissas[] = {0,        1,        0x1fff,   0x1000,   0x1001,   0x2fff,
                                     0x3000,   0x3001,   0x7fff,   0x8000,   0x8001,   0x17fff,
                                     0x18000,  0x18001,  0x7fffff, 0x7ff000, 0x7fefff, 0x7f8000,
                                     0x7f7fff, 0x400000, 0x400001, 0x3fffff, 0x555555, 0x2aaaaa};
  for (std::uint32_t i = 0; i < 2 * 256 * 64; ++i)
    x.as<std::uint32_t>()[i] = (i & 511) << 23 | (mantissas[(i >> 9) % std::size(mantissas)] ^ (i >> 9));
  for_each_instruction_set([&] {
    for (const DType to : {DType::kBF16, DType::kF16}) {
      HostTensor copy(x.type());
      std::memcpy(copy.data(), x.data(), x.bytes());
      KernelRun run(ops::kCast, {to}, operands(std::move(copy)));
      const HostTensor y = expected(run, runtime::function_kernel<reference::cast>);
      run_or_fail(run, make_cast);
      EXPECT_TRUE(run.y().same_bytes(y)) << text(to);
    }
  });
}

TEST(CpuNorms, HoldWhereTheMeanIsFarFromZero) {
  for_each_instruction_set([] {
    for (const std::int64_t width : {7LL, 32LL, 130LL, 4097LL}) {
      const auto x = [&] { return random_tensor(DType::kF32, {5, width}, 1, 1, 3000); };
      KernelRun layer(
          ops::kLayerNorm, {1e-6f},
          operands(x(), random_tensor(DType::kF32, {width}, 2), random_tensor(DType::kF32, {width}, 3)));
      HostTensor y = expected(layer, runtime::function_kernel<reference::layer_norm>);
      run_or_fail(layer, make_layer_norm);
      EXPECT_LT(relative_error(layer.y(), y), kSumTolerance) << width;
      KernelRun rms(ops::kRmsNorm, {1e-6f}, operands(x(), random_tensor(DType::kF32, {width}, 2)));
      y = expected(rms, runtime::function_kernel<reference::rms_norm>);
      run_or_fail(rms, make_rms_norm);
      EXPECT_LT(relative_error(rms.y(), y), kSumTolerance) << width;
    }
    for (const bool channels_last : {false, true}) {
      const Shape shape = channels_last ? Shape{2, 61, 67, 24} : Shape{2, 24, 61, 67};
      KernelRun group(ops::kGroupNorm, {1e-6f, std::int64_t{4}, channels_last},
                      operands(random_tensor(DType::kF32, shape, 1, 1, 3000),
                               random_tensor(DType::kF32, {24}, 2), random_tensor(DType::kF32, {24}, 3)));
      const HostTensor y = expected(group, runtime::function_kernel<reference::group_norm>);
      run_or_fail(group, channels_last ? make_group_norm_channels_last : make_group_norm);
      EXPECT_LT(relative_error(group.y(), y), kSumTolerance) << channels_last;
    }
  });
}

TEST(CpuRotary, RoundsLikeTheReferenceBitForBit) {
  for_each_instruction_set([] {
    for (const bool interleaved : {true, false})
      for (const std::int64_t half : {16, 13, 1, 0})
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          KernelRun run(
              ops::kRotary, {interleaved},
              operands(random_tensor(dtype, {2, 9, 3, 33}, 1), random_tensor(DType::kF32, {9, half}, 2),
                       random_tensor(DType::kF32, {9, half}, 3)));
          const HostTensor y = expected(run, runtime::function_kernel<reference::rotary>);
          run_or_fail(run, make_rotary);
          EXPECT_TRUE(run.y().same_bytes(y)) << text(interleaved, half, dtype);
        }
  });
}

TEST(CpuTranspose, MovesEveryElementOfEverySize) {
  const std::pair<Shape, std::vector<std::int64_t>> cases[] = {{{37, 41}, {1, 0}},
                                                               {{2, 64, 3, 32}, {0, 2, 1, 3}},
                                                               {{3, 65, 66}, {2, 0, 1}},
                                                               {{3, 5, 4, 70}, {3, 1, 2, 0}},
                                                               {{2, 8, 2, 2, 8, 8}, {0, 1, 4, 2, 5, 3}},
                                                               {{5}, {0}},
                                                               {{4, 1, 9}, {1, 2, 0}},
                                                               {{2, 0, 3}, {2, 1, 0}}};
  for (const auto& [shape, perm] : cases)
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kU8, DType::kI64}) {
      HostTensor x({dtype, shape});
      for (std::size_t i = 0; i < x.bytes() && shape.numel() != 0; ++i)
        x.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
      KernelRun run(ops::kTranspose, {perm}, operands(std::move(x)));
      const HostTensor y = expected(run, runtime::function_kernel<reference::transpose>);
      run_or_fail(run, make_transpose);
      EXPECT_TRUE(run.y().same_bytes(y)) << text(dtype, shape);
    }
}

}  // namespace
}  // namespace dif::cpu

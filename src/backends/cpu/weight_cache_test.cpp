#include "backends/cpu/weight_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/cpu_features.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/testing.h"
#include "io/test_files.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/linear/linear.op.h"
#include "tests/support/paths.h"

namespace dif::cpu {
namespace {

using testing::HostTensor;
using testing::KernelRun;
using testing::random_tensor;
using testing::Threads;

std::span<const std::byte> bytes_of(const std::vector<std::uint8_t>& bytes) {
  return std::as_bytes(std::span(bytes));
}

TEST(Fingerprint, ChangesWithEveryBitAndWithTheLength) {
  std::vector<std::uint8_t> bytes(5000, 7);
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  const auto note = [&] {
    const Fingerprint hash = fingerprint(bytes_of(bytes));
    return seen.insert({hash.first, hash.second}).second;
  };
  EXPECT_TRUE(note());
  for (const std::size_t at : {0, 1, 1023, 1024, 2500, 4096, 4999})
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] ^= static_cast<std::uint8_t>(1 << bit);
      EXPECT_TRUE(note()) << at << ", " << bit;
      bytes[at] ^= static_cast<std::uint8_t>(1 << bit);
    }
  for (const std::size_t n : {5001, 5120, 6000, 0, 1, 1024}) {
    bytes.assign(n, 0);
    EXPECT_TRUE(note()) << n << " zeros";
  }
}

TEST(Fingerprint, IsTheSameForAnyNumberOfThreads) {
  std::vector<std::uint8_t> bytes(std::size_t{3} << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 + i / 999);
  const Fingerprint alone = [&] {
    const Threads threads(1);
    return fingerprint(bytes_of(bytes));
  }();
  const Threads threads(4);
  EXPECT_EQ(fingerprint(bytes_of(bytes)), alone);
}

class CacheTest : public ::testing::Test {
 protected:
  WeightCache::Packed get(WeightCache& cache, std::uint8_t content, std::string_view layout = "a",
                          std::uint64_t bytes = 1000) {
    const std::vector<std::uint8_t> source(500, content);
    return cache.get(bytes_of(source), layout, bytes, [&](std::byte* to) {
      std::memset(to, content, bytes);
      ++n_packed_;
    });
  }
  int n_packed_ = 0;
};

TEST_F(CacheTest, TheSameWeightsArePackedOnceForAllContexts) {
  WeightCache one(UINT64_MAX), other(1 << 20);
  auto a = get(one, 1), b = get(other, 1);
  EXPECT_EQ(a.new_bytes, 1000U);
  EXPECT_EQ(b.new_bytes, 0U);
  EXPECT_EQ(a.buffer, b.buffer);
  EXPECT_NE(get(one, 2).buffer, a.buffer);
  EXPECT_NE(get(one, 1, "b").buffer, a.buffer);
  EXPECT_EQ(n_packed_, 3);
  a = {};
  EXPECT_EQ(get(one, 1).new_bytes, 0U) << "the other context still holds it";
  b = {};
  EXPECT_EQ(get(one, 1).new_bytes, 1000U) << "nobody holds it any more";
}

TEST_F(CacheTest, ABudgetHoldsUntilSomethingIsGivenBack) {
  WeightCache cache(2500);
  auto a = get(cache, 1), b = get(cache, 2);
  EXPECT_TRUE(a.kept && b.kept);
  EXPECT_FALSE(get(cache, 3).kept);
  a = {};
  EXPECT_TRUE(get(cache, 3).kept);
  WeightCache none(0);
  EXPECT_FALSE(get(none, 4).kept);
  EXPECT_EQ(n_packed_, 3);
}

TEST_F(CacheTest, APlanCountsWhatWouldBeHeld) {
  WeightCache cache(2500);
  EXPECT_EQ(cache.plan(1000).new_bytes, 1000U);
  EXPECT_TRUE(cache.plan(1000).kept);
  EXPECT_FALSE(cache.plan(1000).kept);
  EXPECT_EQ(cache.plan(500).buffer, nullptr);
}

TEST(Fingerprint, IsTheSameForTheSameSecretAlone) {
  const std::vector<std::uint8_t> bytes(5000, 7);
  io::Digest secret{}, other{};
  other[0] = 1;
  const Fingerprint hash = fingerprint(bytes_of(bytes), FingerprintKeys(secret));
  EXPECT_EQ(fingerprint(bytes_of(bytes), FingerprintKeys(secret)), hash);
  EXPECT_FALSE(fingerprint(bytes_of(bytes), FingerprintKeys(other)) == hash);
  EXPECT_FALSE(fingerprint(bytes_of(bytes)) == hash);
}

/// Two processes, as far as the folder is concerned: what the first one holds is gone before the second one
/// asks.
class KeptWeights : public CacheTest {
 protected:
  static constexpr std::uint64_t kBytes = 2U << 20;

  /// The content of what a process is given.
  std::vector<std::byte> ask(std::uint8_t content, std::uint64_t kept_bytes = UINT64_MAX) {
    WeightCache cache(UINT64_MAX,
                      io::CacheStore(folder_ / "cache", [this](std::string_view) { ++n_warnings_; }),
                      kept_bytes);
    const auto packed = get(cache, content, "a", kBytes);
    EXPECT_TRUE(packed.kept);
    EXPECT_EQ(packed.new_bytes, kBytes);
    return {packed.buffer->data(), packed.buffer->data() + packed.buffer->bytes()};
  }
  static std::vector<std::byte> right(std::uint8_t content) {
    return std::vector<std::byte>(kBytes, std::byte{content});
  }
  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> found;
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(folder_ / "cache" / "packed-weights", none))
      found.push_back(file.path());
    return found;
  }

  test::ScratchDir folder_;
  int n_warnings_ = 0;
};

TEST_F(KeptWeights, AreFoundByTheNextProcess) {
  EXPECT_EQ(ask(1), right(1));
  EXPECT_EQ(ask(2), right(2));
  EXPECT_EQ(n_packed_, 2);
  EXPECT_EQ(ask(1), right(1));
  EXPECT_EQ(ask(2), right(2));
  EXPECT_EQ(n_packed_, 2);
  EXPECT_EQ(entries().size(), 2U);
  EXPECT_EQ(n_warnings_, 0);
}

TEST_F(KeptWeights, AreOnlyAsManyAsOneContextMayKeep) {
  ask(1, kBytes - 1);
  EXPECT_TRUE(entries().empty());
  ask(1, kBytes);
  EXPECT_EQ(entries().size(), 1U);
}

TEST_F(KeptWeights, ArePackedAgainWhereTheEntryIsDamagedTruncatedOrForeign) {
  ask(1);
  ask(2);
  const auto files = entries();
  ASSERT_EQ(files.size(), 2U);
  const std::string good = io::slurp(files[0]), foreign = io::slurp(files[1]);
  std::string in_the_data = good, in_the_head = good;
  in_the_data[good.size() - 12345] ^= 4;
  in_the_head[100] ^= 4;
  const std::string bad[] = {in_the_data,
                             in_the_head,
                             good.substr(0, good.size() - 1),
                             good.substr(0, 4096),
                             good.substr(0, 30),
                             good + "x",
                             foreign,
                             ""};
  for (const std::string& content : bad) {
    io::spit(files[0], content);
    n_packed_ = n_warnings_ = 0;
    EXPECT_EQ(ask(1), right(1));
    EXPECT_EQ(ask(2), right(2));
    EXPECT_EQ(n_packed_, 1);
    EXPECT_EQ(n_warnings_, 1);
    EXPECT_EQ(io::slurp(files[0]), good) << "the entry is whole again";
  }
}

TEST_F(KeptWeights, AreNotKeptWhereTheFolderCannotBeWrittenOrTheSecretIsGone) {
  ask(1);
  std::filesystem::remove(folder_ / "cache" / "secret");
  EXPECT_EQ(ask(1), right(1));
  EXPECT_EQ(n_packed_, 2) << "an entry under another secret is not found";
  WeightCache nowhere(UINT64_MAX, io::CacheStore("/dev/null/cache"));
  EXPECT_TRUE(get(nowhere, 3, "a", kBytes).kept);
}

std::unique_ptr<KernelRun> linear_run(DType dtype) {
  std::vector<HostTensor> operands;
  operands.push_back(random_tensor(dtype, {37, 96}, 1));
  operands.push_back(random_tensor(dtype, {1300, 96}, 2));
  operands.push_back(random_tensor(dtype, {1300}, 3));
  return std::make_unique<KernelRun>(ops::kLinear, std::vector<ir::Attr>{}, std::move(operands),
                                     std::vector<std::size_t>{1, 2});
}

TEST(WeightBudget, ProductsWithoutRoomForWeightsGiveTheSameResults) {
  CpuDevice without(0, 2, 0), with(0, 2, UINT64_MAX);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    const bool upcast = dtype == DType::kF16 || (dtype == DType::kBF16 && !multiplies_bf16());
    const auto make = upcast ? make_upcast_linear : make_onednn_linear;
    const auto packed = linear_run(dtype), panels = linear_run(dtype);
    ASSERT_TRUE(packed->make(make, &with));
    ASSERT_TRUE(panels->make(make, &without));
    EXPECT_TRUE(panels->kernel().reads_constant(1));
    EXPECT_LT(panels->kernel().prepacked_bytes(), 10000U) << "the bias alone";
    ASSERT_TRUE(packed->run());
    ASSERT_TRUE(panels->run());
    EXPECT_LT(testing::relative_error(panels->y(), packed->y()), dtype == DType::kF32 ? 1e-6 : 2e-3);
  }
}

TEST(WeightBudget, ConvolutionsWithoutRoomForWeightsGiveTheSameResults) {
  CpuDevice without(0, 2, 0);
  std::unique_ptr<KernelRun> runs[2];
  for (auto& run : runs) {
    std::vector<HostTensor> operands;
    operands.push_back(random_tensor(DType::kF32, {1, 32, 20, 20}, 1));
    operands.push_back(random_tensor(DType::kF32, {48, 32, 3, 3}, 2));
    run = std::make_unique<KernelRun>(
        ops::kConv2d,
        std::vector<ir::Attr>{std::vector<std::int64_t>{1, 1}, std::vector<std::int64_t>{1, 1, 1, 1},
                              std::int64_t{1}, false},
        std::move(operands), std::vector<std::size_t>{1});
  }
  ASSERT_TRUE(runs[0]->make(make_onednn_conv2d));
  ASSERT_TRUE(runs[1]->make(make_onednn_conv2d, &without));
  EXPECT_EQ(runs[1]->kernel().prepacked_bytes(), 0U);
  for (auto& run : runs) ASSERT_TRUE(run->run());
  EXPECT_TRUE(runs[0]->y().same_bytes(runs[1]->y()));
}

TEST(WeightBudget, AProductFindsItsWeightsInTheFolderOfAnEarlierOne) {
  const test::ScratchDir folder;
  const auto device = [&] { return CpuDevice(0, 2, UINT64_MAX, io::CacheStore(folder / "cache")); };
  const auto run_on = [&](CpuDevice& on) {
    std::vector<HostTensor> operands;
    operands.push_back(random_tensor(DType::kF16, {3, 600}, 1));
    operands.push_back(random_tensor(DType::kF16, {900, 600}, 2));
    KernelRun run(ops::kLinear, {}, std::move(operands), {1});
    EXPECT_TRUE(run.make(make_upcast_linear, &on));
    EXPECT_TRUE(run.run());
    return std::vector<std::byte>(run.y().data(), run.y().data() + run.y().bytes());
  };
  CpuDevice first = device(), second = device(), without(0, 2, UINT64_MAX);
  const auto y = run_on(first);
  const auto n_entries = [&] {
    return std::distance(std::filesystem::directory_iterator(folder / "cache" / "packed-weights"), {});
  };
  EXPECT_EQ(n_entries(), 1);
  EXPECT_EQ(run_on(second), y);
  EXPECT_EQ(n_entries(), 1) << "the same key again";
  EXPECT_EQ(run_on(without), y);
}

TEST(WeightBudget, TwoKernelsOfTheSameWeightsHoldOneCopy) {
  const auto first = linear_run(DType::kF16), second = linear_run(DType::kF16);
  ASSERT_TRUE(first->make(make_upcast_linear));
  ASSERT_TRUE(second->make(make_upcast_linear));
  const std::uint64_t copy = first->kernel().prepacked_bytes() - second->kernel().prepacked_bytes();
  EXPECT_GE(copy + 4096, 1300U * 96 * 4) << "the second copy was not counted";
}

}  // namespace
}  // namespace dif::cpu

#include "frontends/synthetic/random_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace dif::frontends {
namespace {

std::vector<float> values(const RandomTensor& tensor, std::uint64_t first, std::size_t count) {
  std::vector<float> result(count);
  tensor.fill(first, result);
  return result;
}

TEST(RandomTensor, IsTheDocumentedSequence) {
  // Computed from the formulas of the header with Python's integers and numpy's float32.
  const std::vector<float> expected = {1.04223824F, 0.947241843F, 0.899902225F, 0.946390867F};
  EXPECT_EQ(values(RandomTensor(7, "transformer/x.weight", 1.0, 0.2), 0, 4), expected);
}

TEST(RandomTensor, AnyPartCanBeMadeByItself) {
  const RandomTensor tensor(1, "a", 0, 1);
  const std::vector<float> whole = values(tensor, 0, 1000), part = values(tensor, 700, 300);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 700));
}

TEST(RandomTensor, SeedAndNameMakeOtherNumbers) {
  const std::vector<float> a = values(RandomTensor(1, "a", 0, 1), 0, 8);
  EXPECT_NE(a, values(RandomTensor(2, "a", 0, 1), 0, 8));
  EXPECT_NE(a, values(RandomTensor(1, "b", 0, 1), 0, 8));
}

TEST(RandomTensor, HasItsCentreSpreadAndBounds) {
  for (const auto& [centre, spread] : {std::pair{0.0, 0.02}, {1.0, 0.2}, {1.25, 0.2}}) {
    constexpr std::size_t kCount = 200'000;
    double sum = 0, squares = 0, least = 1e9, most = -1e9;
    for (const float value : values(RandomTensor(3, "x", centre, spread), 0, kCount)) {
      const double z = (static_cast<double>(value) - centre) / spread;
      sum += z;
      squares += z * z;
      least = std::min(least, z);
      most = std::max(most, z);
    }
    // One deviation of the mean of 200,000 numbers is 0.0022; a wrong scale or offset shows in the first
    // digit.
    EXPECT_NEAR(sum / kCount, 0, 0.012);
    EXPECT_NEAR(squares / kCount, 1, 0.012);
    EXPECT_GT(least, -3.47);
    EXPECT_LT(most, 3.47);
    EXPECT_GT(most - least, 6);
  }
}

}  // namespace
}  // namespace dif::frontends

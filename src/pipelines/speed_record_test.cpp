#include "pipelines/speed_record.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/paths.h"

namespace dif {
namespace {

const SpeedConditions kDenoiser = {"cpu", 0, 2, "denoiser", "f32"};

double speed_of(const std::optional<Speed>& speed) {
  return speed ? speed->flops_per_second : 0;
}

TEST(SpeedRecord, FindsWhatWasAchievedUnderTheSameConditionsAlone) {
  const test::ScratchDir folder;
  io::CacheStore store(folder / "cache");
  EXPECT_FALSE(find_speed(store, kDenoiser, 5e9));
  note_speed(store, kDenoiser, 5e9, 20, 1.0);
  EXPECT_DOUBLE_EQ(speed_of(find_speed(store, kDenoiser, 4e9)), 1e11);
  for (const auto& other : {SpeedConditions{"opencl", 0, 2, "denoiser", "f32"},
                            {"cpu", 1, 2, "denoiser", "f32"},
                            {"cpu", 0, 1, "denoiser", "f32"},
                            {"cpu", 0, 2, "decoder", "f32"},
                            {"cpu", 0, 2, "denoiser", "bf16"}})
    EXPECT_FALSE(find_speed(store, other, 5e9));
}

TEST(SpeedRecord, TakesTheNearestAmountOfWork) {
  const test::ScratchDir folder;
  io::CacheStore store(folder / "cache");
  note_speed(store, kDenoiser, 2e9, 1, 1.0);
  note_speed(store, kDenoiser, 3e12, 1, 1.0);
  EXPECT_DOUBLE_EQ(speed_of(find_speed(store, kDenoiser, 9e9)), 2e9);
  EXPECT_DOUBLE_EQ(speed_of(find_speed(store, kDenoiser, 1e10)), 2e9);
  EXPECT_DOUBLE_EQ(speed_of(find_speed(store, kDenoiser, 1e14)), 3e12);
  EXPECT_FALSE(find_speed(store, kDenoiser, 1e17)) << "a hundred thousand times more work";
}

TEST(SpeedRecord, ChangesWhenTheMachineDoesAndKeepsNoNonsense) {
  const test::ScratchDir folder;
  io::CacheStore store(folder / "cache");
  note_speed(store, kDenoiser, 1e9, 1, 1.0);
  note_speed(store, kDenoiser, 1e9, 1, 0.95);
  EXPECT_DOUBLE_EQ(speed_of(find_speed(store, kDenoiser, 1e9)), 1e9) << "much the same";
  note_speed(store, kDenoiser, 1e9, 1, 0.5);
  EXPECT_DOUBLE_EQ(speed_of(find_speed(store, kDenoiser, 1e9)), 2e9);
  for (const double nonsense : {0.0, -1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    note_speed(store, kDenoiser, nonsense, 1, 1.0);
    note_speed(store, kDenoiser, 1e9, 1, nonsense);
    EXPECT_FALSE(find_speed(store, kDenoiser, nonsense));
  }
  EXPECT_DOUBLE_EQ(speed_of(find_speed(store, kDenoiser, 1e9)), 2e9);
  io::CacheStore off("");
  note_speed(off, kDenoiser, 1e9, 1, 1.0);
  EXPECT_FALSE(find_speed(off, kDenoiser, 1e9));
}

}  // namespace
}  // namespace dif

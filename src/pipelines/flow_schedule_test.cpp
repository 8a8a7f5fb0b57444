#include "pipelines/flow_schedule.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "io/safetensors.h"
#include "pipelines/flow_schedule_test_table.h"
#include "pipelines/test_hash.h"
#include "tests/support/paths.h"

namespace dif {
namespace {

using test::fnv1a_of;
using test::Shifting;

FlowSchedulerConfig klein() {
  FlowSchedulerConfig config;
  config.use_dynamic_shifting = true;
  config.shift = 3.0;
  return config;
}

FlowSchedulerConfig config_of(Shifting shifting) {
  FlowSchedulerConfig config = klein();
  if (shifting == Shifting::kLinear) config.time_shift_type = "linear";
  if (shifting == Shifting::kStatic) config.use_dynamic_shifting = false;
  return config;
}

TEST(FlowSchedule, EqualsDiffusersBitForBit) {
  for (const auto& expected : test::kScheduleCases) {
    SCOPED_TRACE(fmt::format("shifting {}, {} steps, {} tokens", static_cast<int>(expected.shifting),
                             expected.steps, expected.image_tokens));
    const auto schedule = flux2_schedule(config_of(expected.shifting), expected.image_tokens, expected.steps);
    ASSERT_TRUE(schedule) << schedule.error().message;
    const auto times = [&](DType dtype) {
      return fnv1a_of<float>(model_times(*schedule, ModelTimeRule::kDiffusers, dtype));
    };
    EXPECT_EQ(std::bit_cast<std::uint64_t>(schedule->mu), expected.mu_bits);
    EXPECT_EQ(fnv1a_of<float>(schedule->sigmas), expected.sigmas);
    EXPECT_EQ(fnv1a_of<float>(schedule->timesteps), expected.timesteps);
    EXPECT_EQ(times(DType::kF32), expected.times_f32);
    EXPECT_EQ(times(DType::kBF16), expected.times_bf16);
    EXPECT_EQ(times(DType::kF16), expected.times_f16);
  }
}

TEST(FlowSchedule, EqualsTheListedSigmas) {
  const auto schedule = flux2_schedule(klein(), 64, 20);
  ASSERT_TRUE(schedule) << schedule.error().message;
  ASSERT_EQ(schedule->sigmas.size(), test::kSigmas20x64.size());
  for (std::size_t i = 0; i < schedule->sigmas.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(schedule->sigmas[i]), test::kSigmas20x64[i]) << i;
  }
}

TEST(FlowSchedule, EqualsEveryFixture) {
  for (const char* name : {"red-heart", "frog-light-blue", "sailboat-light-green-heldout"}) {
    const auto file =
        io::open_safetensors(test::fixture(std::string("emoji-klein/") + name + ".safetensors"));
    ASSERT_TRUE(file) << file.error().message;
    const auto schedule = flux2_schedule(klein(), 64, 20);
    ASSERT_TRUE(schedule) << schedule.error().message;
    const auto expect_same = [&](const char* tensor, const void* ours, std::size_t bytes) {
      const auto theirs = file->require(tensor);
      ASSERT_TRUE(theirs) << theirs.error().message;
      ASSERT_EQ((*theirs)->bytes, bytes);
      EXPECT_EQ(std::memcmp((*theirs)->data, ours, bytes), 0) << name << " " << tensor;
    };
    expect_same("sigmas", schedule->sigmas.data(), 21 * sizeof(float));
    expect_same("timesteps", schedule->timesteps.data(), 20 * sizeof(float));
    expect_same("mu", &schedule->mu, sizeof(double));
  }
}

TEST(FlowSchedule, DeltasLeadFromOneToZero) {
  for (const std::int64_t steps : {1, 2, 7, 50}) {
    const auto schedule = flux2_schedule(klein(), 64, steps);
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_EQ(schedule->steps(), steps);
    EXPECT_EQ(schedule->sigmas.front(), 1.0F);
    EXPECT_EQ(schedule->sigmas.back(), 0.0F);
    double sum = 0;
    for (std::size_t i = 0; i < schedule->deltas.size(); ++i) {
      EXPECT_EQ(schedule->deltas[i], schedule->sigmas[i + 1] - schedule->sigmas[i]);
      EXPECT_LT(schedule->deltas[i], 0.0F);
      sum += schedule->deltas[i];
    }
    EXPECT_NEAR(sum, -1.0, 1e-6);
  }
}

TEST(FlowSchedule, CreatorAndDiffusersTimesDifferInBf16Only) {
  const auto schedule = flux2_schedule(klein(), 4096, 50);
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto largest_gap = [&](DType dtype) {
    const auto ours = model_times(*schedule, ModelTimeRule::kDiffusers, dtype);
    const auto creator = model_times(*schedule, ModelTimeRule::kCreator, dtype);
    float gap = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) gap = std::max(gap, std::abs(ours[i] - creator[i]));
    return gap;
  };
  EXPECT_LT(largest_gap(DType::kF32), 1e-3F);
  EXPECT_EQ(largest_gap(DType::kBF16), 4.0F);
}

TEST(FlowSchedule, RefusesStepsAndSizesOutOfRange) {
  for (const std::int64_t steps : {std::int64_t{0}, std::int64_t{-1}, kMaxSteps + 1}) {
    EXPECT_FALSE(flux2_schedule(klein(), 64, steps)) << steps;
  }
  EXPECT_FALSE(flux2_schedule(klein(), 0, 20));
}

TEST(FlowSchedule, RefusesAScheduleThatIsNotFinite) {
  const auto schedule = flux2_schedule(klein(), 1, 50000);  // e^mu is 0 in f32
  ASSERT_FALSE(schedule);
  EXPECT_NE(schedule.error().message.find("not finite"), std::string::npos) << schedule.error().message;
}

TEST(FlowSchedulerConfig, RefusesWhatItCannotFollowAndNamesTheKey) {
  const std::pair<const char*, std::function<void(FlowSchedulerConfig&)>> cases[] = {
      {"_class_name", [](auto& c) { c.class_name = "EulerDiscreteScheduler"; }},
      {"num_train_timesteps", [](auto& c) { c.num_train_timesteps = 500; }},
      {"time_shift_type", [](auto& c) { c.time_shift_type = "cubic"; }},
      {"shift_terminal", [](auto& c) { c.shift_terminal = 0.1; }},
      {"invert_sigmas", [](auto& c) { c.invert_sigmas = true; }},
      {"use_karras_sigmas", [](auto& c) { c.use_karras_sigmas = true; }},
      {"use_exponential_sigmas", [](auto& c) { c.use_exponential_sigmas = true; }},
      {"use_beta_sigmas", [](auto& c) { c.use_beta_sigmas = true; }},
      {"stochastic_sampling", [](auto& c) { c.stochastic_sampling = true; }},
      {"shift is", [](auto& c) { c.shift = 0; }},
      {"base_shift", [](auto& c) { c.base_shift = std::nan(""); }},
      {"max_shift", [](auto& c) { c.max_shift = -1; }},
      {"base_image_seq_len", [](auto& c) { c.base_image_seq_len = 0; }},
      {"max_image_seq_len", [](auto& c) { c.max_image_seq_len = -5; }},
  };
  for (const auto& [key, spoil] : cases) {
    FlowSchedulerConfig config = klein();
    ASSERT_TRUE(validate(config, "scheduler_config.json"));
    spoil(config);
    const Status status = validate(config, "scheduler_config.json");
    ASSERT_FALSE(status) << key;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(status.error().message.find(key), std::string::npos) << status.error().message;
    EXPECT_EQ(status.error().message.find("scheduler_config.json: "), 0U) << status.error().message;
    EXPECT_FALSE(flux2_schedule(config, 64, 20));
  }
}

TEST(FlowSchedulerConfig, AcceptsAZeroShiftTerminalLikeDiffusers) {
  FlowSchedulerConfig config = klein();
  config.shift_terminal = 0.0;
  EXPECT_TRUE(validate(config, "scheduler_config.json"));
}

}  // namespace
}  // namespace dif

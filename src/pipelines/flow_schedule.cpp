#include "pipelines/flow_schedule.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "base/float_convert.h"

namespace dif {

namespace {

constexpr float kTimeScale = 1000.0F;

/// numpy.linspace(1, 1 / steps, steps) as f32.
std::vector<float> unshifted_sigmas(std::int64_t steps) {
  const double stop = 1.0 / static_cast<double>(steps);
  std::vector<float> sigmas(static_cast<std::size_t>(steps), 1.0F);
  if (steps == 1) return sigmas;
  const double step = (stop - 1.0) / static_cast<double>(steps - 1);
  for (std::size_t i = 0; i < sigmas.size(); ++i) {
    sigmas[i] = static_cast<float>(static_cast<double>(i) * step + 1.0);
  }
  sigmas.back() = static_cast<float>(stop);
  return sigmas;
}

float shifted(const FlowSchedulerConfig& config, double mu, float sigma) {
  if (!config.use_dynamic_shifting) {
    const auto shift = static_cast<float>(config.shift);
    return shift * sigma / (1.0F + static_cast<float>(config.shift - 1.0) * sigma);
  }
  const auto scale = static_cast<float>(config.time_shift_type == "exponential" ? std::exp(mu) : mu);
  return scale / (scale + (1.0F / sigma - 1.0F));
}

float rounded_to(DType dtype, float value) {
  switch (dtype) {
    case DType::kBF16:
      return bf16_to_f32(f32_to_bf16(value));
    case DType::kF16:
      return f16_to_f32(f32_to_f16(value));
    default:
      DIF_CHECK(dtype == DType::kF32);
      return value;
  }
}

Status refuse_flag(bool set, std::string_view source, std::string_view key) {
  if (!set) return ok();
  return invalid_input("{}: {} is true; only schedules without it are supported, set it to false", source,
                       key);
}

Status require_positive(double value, std::string_view source, std::string_view key) {
  if (std::isfinite(value) && value > 0) return ok();
  return invalid_input("{}: {} is {}, expected a finite number above 0", source, key, value);
}

}  // namespace

Status validate(const FlowSchedulerConfig& config, std::string_view source) {
  if (config.class_name != "FlowMatchEulerDiscreteScheduler") {
    return invalid_input(
        "{}: _class_name is \"{}\", the only supported scheduler is "
        "FlowMatchEulerDiscreteScheduler",
        source, config.class_name);
  }
  if (config.num_train_timesteps != 1000) {
    return invalid_input("{}: num_train_timesteps is {}, FLUX.2 models are told the time in 1000ths", source,
                         config.num_train_timesteps);
  }
  if (config.use_dynamic_shifting && config.time_shift_type != "exponential" &&
      config.time_shift_type != "linear") {
    return invalid_input("{}: time_shift_type is \"{}\", expected \"exponential\" or \"linear\"", source,
                         config.time_shift_type);
  }
  if (config.shift_terminal && *config.shift_terminal != 0) {
    return invalid_input("{}: shift_terminal is {}; only schedules without it are supported, set it to null",
                         source, *config.shift_terminal);
  }
  DIF_TRY(refuse_flag(config.invert_sigmas, source, "invert_sigmas"));
  DIF_TRY(refuse_flag(config.use_karras_sigmas, source, "use_karras_sigmas"));
  DIF_TRY(refuse_flag(config.use_exponential_sigmas, source, "use_exponential_sigmas"));
  DIF_TRY(refuse_flag(config.use_beta_sigmas, source, "use_beta_sigmas"));
  DIF_TRY(refuse_flag(config.stochastic_sampling, source, "stochastic_sampling"));
  DIF_TRY(require_positive(config.shift, source, "shift"));
  DIF_TRY(require_positive(config.base_shift, source, "base_shift"));
  DIF_TRY(require_positive(config.max_shift, source, "max_shift"));
  DIF_TRY(require_positive(static_cast<double>(config.base_image_seq_len), source, "base_image_seq_len"));
  DIF_TRY(require_positive(static_cast<double>(config.max_image_seq_len), source, "max_image_seq_len"));
  return ok();
}

double flux2_mu(std::int64_t image_tokens, std::int64_t steps) {
  const auto tokens = static_cast<double>(image_tokens);
  const double at_200 = 0.00016927 * tokens + 0.45666666;
  if (image_tokens > 4300) return at_200;
  const double at_10 = 8.73809524e-05 * tokens + 1.89833333;
  const double slope = (at_200 - at_10) / 190.0;
  const double at_0 = at_200 - 200.0 * slope;
  return slope * static_cast<double>(steps) + at_0;
}

Result<FlowSchedule> flux2_schedule(const FlowSchedulerConfig& config, std::int64_t image_tokens,
                                    std::int64_t steps) {
  DIF_TRY(validate(config, "the scheduler's configuration"));
  if (steps < 1 || steps > kMaxSteps) {
    return invalid_input("{} steps asked for, expected 1 to {}", steps, kMaxSteps);
  }
  if (image_tokens < 1) return invalid_input("a picture of {} latent tokens cannot be sampled", image_tokens);

  FlowSchedule schedule;
  schedule.mu = flux2_mu(image_tokens, steps);
  schedule.sigmas = unshifted_sigmas(steps);
  for (float& sigma : schedule.sigmas) sigma = shifted(config, schedule.mu, sigma);
  if (!std::all_of(schedule.sigmas.begin(), schedule.sigmas.end(),
                   [](float s) { return std::isfinite(s); })) {
    return invalid_input(
        "{} steps for {} latent tokens give a noise schedule that is not finite (mu {}); use "
        "fewer steps",
        steps, image_tokens, schedule.mu);
  }
  for (const float sigma : schedule.sigmas) schedule.timesteps.push_back(sigma * kTimeScale);
  schedule.sigmas.push_back(0.0F);
  for (std::size_t i = 0; i < schedule.timesteps.size(); ++i) {
    schedule.deltas.push_back(schedule.sigmas[i + 1] - schedule.sigmas[i]);
  }
  return schedule;
}

std::vector<float> model_times(const FlowSchedule& schedule, ModelTimeRule rule, DType dtype) {
  std::vector<float> times;
  for (std::size_t i = 0; i < schedule.timesteps.size(); ++i) {
    const float sigma = rule == ModelTimeRule::kDiffusers
                            ? rounded_to(dtype, rounded_to(dtype, schedule.timesteps[i]) / kTimeScale)
                            : rounded_to(dtype, schedule.sigmas[i]);
    times.push_back(rounded_to(dtype, sigma * kTimeScale));
  }
  return times;
}

}  // namespace dif

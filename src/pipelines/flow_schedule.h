#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dif/dtype.h"
#include "dif/status.h"

namespace dif {

/// The fields of a scheduler_config.json. The defaults are what an absent key means in diffusers.
struct FlowSchedulerConfig {
  std::string class_name = "FlowMatchEulerDiscreteScheduler";
  std::int64_t num_train_timesteps = 1000;
  bool use_dynamic_shifting = false;
  std::string time_shift_type = "exponential";  ///< used with dynamic shifting
  double shift = 1.0;                           ///< used without dynamic shifting
  std::optional<double> shift_terminal;
  bool invert_sigmas = false;
  bool use_karras_sigmas = false;
  bool use_exponential_sigmas = false;
  bool use_beta_sigmas = false;
  bool stochastic_sampling = false;
  // Read by other pipelines' mu only; FLUX.2 has a rule of its own (flux2_mu). Must be finite and positive.
  double base_shift = 0.5;
  double max_shift = 1.15;
  std::int64_t base_image_seq_len = 256;
  std::int64_t max_image_seq_len = 4096;
};

/// Whether flux2_schedule can follow this configuration exactly. Errors: InvalidInput, naming `source` (the
/// file), the key, what was found and what is supported.
Status validate(const FlowSchedulerConfig& config, std::string_view source);

/// The shift exponent of FLUX.2 for `image_tokens` latent tokens (reference images not counted) and `steps`.
/// Source: compute_empirical_mu of black-forest-labs/flux2 and of diffusers' FLUX.2 pipelines; in f64.
double flux2_mu(std::int64_t image_tokens, std::int64_t steps);

/// One sampling run, bit for bit as diffusers' Flux2KleinPipeline computes it (in f32 but for mu).
struct FlowSchedule {
  double mu = 0;                 ///< unused by a scheduler without dynamic shifting
  std::vector<float> sigmas;     ///< [steps + 1], from 1 down to 0
  std::vector<float> timesteps;  ///< [steps], 1000 * sigma
  std::vector<float> deltas;     ///< [steps], sigmas[i + 1] - sigmas[i]: latents += delta * velocity

  std::int64_t steps() const { return static_cast<std::int64_t>(timesteps.size()); }
};

inline constexpr std::int64_t kMaxSteps = 100000;

/// Errors: InvalidInput for a configuration that validate() refuses, steps outside [1, kMaxSteps],
/// image_tokens < 1, and for a combination whose sigmas are not finite numbers.
Result<FlowSchedule> flux2_schedule(const FlowSchedulerConfig& config, std::int64_t image_tokens,
                                    std::int64_t steps);

/// How a sigma becomes the time that the model is told, 1000 * sigma, where rounding matters.
enum class ModelTimeRule {
  kDiffusers,  ///< timestep -> dtype, / 1000 -> dtype, * 1000 -> dtype
  kCreator,    ///< sigma -> dtype, * 1000 -> dtype
};

/// The argument of the sinusoidal time embedding for each step, [steps], rounded as a model that computes in
/// `dtype` rounds it and widened to f32. Pre: dtype is f32, bf16 or f16.
std::vector<float> model_times(const FlowSchedule& schedule, ModelTimeRule rule, DType dtype);

}  // namespace dif

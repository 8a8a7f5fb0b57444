#include "pipelines/scheduler_config.h"

#include "base/error.h"
#include "io/json.h"

namespace dif {

Result<FlowSchedulerConfig> read_scheduler_config(const std::filesystem::path& path) {
  DIF_ASSIGN(const io::JsonDocument document, io::JsonDocument::read(path));
  io::ConfigReader reader(document);
  FlowSchedulerConfig config;
  config.class_name = reader.string("_class_name");
  config.num_train_timesteps =
      reader.integer_or("num_train_timesteps", config.num_train_timesteps, {1, 1 << 20});
  config.use_dynamic_shifting = reader.boolean_or("use_dynamic_shifting", config.use_dynamic_shifting);
  config.time_shift_type = reader.string_or("time_shift_type", config.time_shift_type);
  config.shift = reader.number_or("shift", config.shift);
  if (reader.has("shift_terminal")) config.shift_terminal = reader.number("shift_terminal");
  config.invert_sigmas = reader.boolean_or("invert_sigmas", config.invert_sigmas);
  config.use_karras_sigmas = reader.boolean_or("use_karras_sigmas", config.use_karras_sigmas);
  config.use_exponential_sigmas = reader.boolean_or("use_exponential_sigmas", config.use_exponential_sigmas);
  config.use_beta_sigmas = reader.boolean_or("use_beta_sigmas", config.use_beta_sigmas);
  config.stochastic_sampling = reader.boolean_or("stochastic_sampling", config.stochastic_sampling);
  config.base_shift = reader.number_or("base_shift", config.base_shift);
  config.max_shift = reader.number_or("max_shift", config.max_shift);
  config.base_image_seq_len =
      reader.integer_or("base_image_seq_len", config.base_image_seq_len, {1, 1LL << 40});
  config.max_image_seq_len = reader.integer_or("max_image_seq_len", config.max_image_seq_len, {1, 1LL << 40});
  DIF_TRY(reader.finish());
  DIF_TRY(validate(config, path.string()));
  return config;
}

}  // namespace dif

#include "frontends/flux2/klein_presets.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"

namespace dif::frontends::flux2 {

using nlohmann::ordered_json;

namespace {

/// What is not said of a preset is as in both published sizes.
struct Preset {
  std::string_view name;
  // transformer
  std::int64_t heads, head_dim = 128, double_blocks, single_blocks;
  // text encoder
  std::int64_t hidden, layers = 36, text_heads = 32, kv_heads = 8, text_head_dim = 128, text_mlp;
  std::int64_t vocabulary = 151936, padding_id = 151643, end_id = 151645;
  bool tied;
  // VAE
  std::vector<std::int64_t> channels = {128, 256, 512, 512};
  std::int64_t latent_channels = 32, layers_per_block = 2, norm_groups = 32;
  // pixels and steps of dif-defaults.json; 0: the family's
  std::int64_t size = 0, steps = 0;
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list = {
      {.name = "klein-4b",
       .heads = 24,
       .double_blocks = 5,
       .single_blocks = 20,
       .hidden = 2560,
       .text_mlp = 9728,
       .tied = true},
      {.name = "klein-9b",
       .heads = 32,
       .double_blocks = 8,
       .single_blocks = 24,
       .hidden = 4096,
       .text_mlp = 12288,
       .tied = false},
      {.name = "tiny",
       .heads = 2,
       .head_dim = 32,
       .double_blocks = 2,
       .single_blocks = 2,
       .hidden = 32,
       .layers = 28,
       .text_heads = 4,
       .kv_heads = 2,
       .text_head_dim = 16,
       .text_mlp = 64,
       .vocabulary = 1024,
       .padding_id = 998,
       .end_id = 1000,
       .tied = true,
       .channels = {16, 16, 32, 32},
       .latent_channels = 4,
       .layers_per_block = 1,
       .norm_groups = 8,
       .size = 64,
       .steps = 4},
  };
  return list;
}

ordered_json model_index() {
  return {{"_class_name", "Flux2KleinPipeline"},
          {"_diffusers_version", "0.40.0"},
          {"is_distilled", false},
          {"scheduler", {"diffusers", "FlowMatchEulerDiscreteScheduler"}},
          {"text_encoder", {"transformers", "Qwen3ForCausalLM"}},
          {"tokenizer", {"transformers", "Qwen2TokenizerFast"}},
          {"transformer", {"diffusers", "Flux2Transformer2DModel"}},
          {"vae", {"diffusers", "AutoencoderKLFlux2"}}};
}

ordered_json scheduler() {
  return {{"_class_name", "FlowMatchEulerDiscreteScheduler"},
          {"_diffusers_version", "0.40.0"},
          {"base_image_seq_len", 256},
          {"base_shift", 0.5},
          {"invert_sigmas", false},
          {"max_image_seq_len", 4096},
          {"max_shift", 1.15},
          {"num_train_timesteps", 1000},
          {"shift", 3.0},
          {"shift_terminal", nullptr},
          {"stochastic_sampling", false},
          {"time_shift_type", "exponential"},
          {"use_beta_sigmas", false},
          {"use_dynamic_shifting", true},
          {"use_exponential_sigmas", false},
          {"use_karras_sigmas", false}};
}

ordered_json transformer(const Preset& p) {
  const std::int64_t axis = p.head_dim / 4;
  return {{"_class_name", "Flux2Transformer2DModel"},
          {"_diffusers_version", "0.40.0"},
          {"attention_head_dim", p.head_dim},
          {"axes_dims_rope", {axis, axis, axis, axis}},
          {"eps", 1e-6},
          {"guidance_embeds", false},
          {"in_channels", 4 * p.latent_channels},
          {"joint_attention_dim", 3 * p.hidden},
          {"mlp_ratio", 3.0},
          {"num_attention_heads", p.heads},
          {"num_layers", p.double_blocks},
          {"num_single_layers", p.single_blocks},
          {"out_channels", nullptr},
          {"patch_size", 1},
          {"rope_theta", 2000},
          {"timestep_guidance_channels", 256}};
}

ordered_json text_encoder(const Preset& p) {
  return {{"architectures", ordered_json::array({"Qwen3ForCausalLM"})},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", p.padding_id},
          {"eos_token_id", p.end_id},
          {"head_dim", p.text_head_dim},
          {"hidden_act", "silu"},
          {"hidden_size", p.hidden},
          {"initializer_range", 0.02},
          {"intermediate_size", p.text_mlp},
          {"max_position_embeddings", 40960},
          {"max_window_layers", p.layers},
          {"model_type", "qwen3"},
          {"num_attention_heads", p.text_heads},
          {"num_hidden_layers", p.layers},
          {"num_key_value_heads", p.kv_heads},
          {"pad_token_id", p.padding_id},
          {"rms_norm_eps", 1e-6},
          {"rope_scaling", nullptr},
          {"rope_theta", 1000000},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", p.tied},
          {"use_cache", true},
          {"use_sliding_window", false},
          {"vocab_size", p.vocabulary}};
}

ordered_json vae(const Preset& p) {
  const std::size_t levels = p.channels.size();
  return {{"_class_name", "AutoencoderKLFlux2"},
          {"_diffusers_version", "0.40.0"},
          {"act_fn", "silu"},
          {"batch_norm_eps", 1e-4},
          {"batch_norm_momentum", 0.1},
          {"block_out_channels", p.channels},
          {"down_block_types", std::vector<std::string>(levels, "DownEncoderBlock2D")},
          {"force_upcast", true},
          {"in_channels", 3},
          {"latent_channels", p.latent_channels},
          {"layers_per_block", p.layers_per_block},
          {"mid_block_add_attention", true},
          {"norm_num_groups", p.norm_groups},
          {"out_channels", 3},
          {"patch_size", {2, 2}},
          {"sample_size", 1024},
          {"up_block_types", std::vector<std::string>(levels, "UpDecoderBlock2D")},
          {"use_post_quant_conv", true},
          {"use_quant_conv", true}};
}

ModelDocuments documents_of(const Preset& p) {
  ModelDocuments documents = {{"model_index.json", io::json_text(model_index())},
                              {"scheduler/scheduler_config.json", io::json_text(scheduler())},
                              {"transformer/config.json", io::json_text(transformer(p))},
                              {"text_encoder/config.json", io::json_text(text_encoder(p))},
                              {"vae/config.json", io::json_text(vae(p))}};
  if (p.size != 0)
    documents["dif-defaults.json"] =
        io::json_text({{"width", p.size}, {"height", p.size}, {"steps", p.steps}, {"guidance", 4.0}});
  return documents;
}

}  // namespace

std::vector<std::string> klein_presets() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

Result<ModelDocuments> klein_preset_documents(std::string_view name) {
  for (const Preset& preset : presets())
    if (preset.name == name) return documents_of(preset);
  return invalid_input("\"{}\" is no preset; there are {}", io::printable(name, 40),
                       fmt::join(klein_presets(), ", "));
}

}  // namespace dif::frontends::flux2

#include "frontends/flux2/synthetic_model_test_support.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <stdexcept>

namespace dif::frontends::flux2::test {

namespace fs = std::filesystem;

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

void write_checkpoint(const fs::path& path, const TensorList& tensors) {
  nlohmann::ordered_json header;
  std::uint64_t end = 0;
  for (const TestTensor& tensor : tensors) {
    std::uint64_t bytes = tensor.dtype == "F32"       ? 4
                          : tensor.dtype == "I64"     ? 8
                          : tensor.dtype == "F8_E4M3" ? 1
                                                      : 2;
    for (const std::int64_t dim : tensor.shape) bytes *= static_cast<std::uint64_t>(dim);
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string prefix(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  write_text(path, prefix + text);
  const std::uint64_t data = 8 + text.size();
  fs::resize_file(path, data + end);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (const TestTensor& tensor : tensors) {
    if (tensor.values.empty()) continue;
    file.seekp(
        static_cast<std::streamoff>(data + header[tensor.name]["data_offsets"][0].get<std::uint64_t>()));
    file.write(reinterpret_cast<const char*>(tensor.values.data()),
               static_cast<std::streamsize>(tensor.values.size() * 2));
  }
}

Sizes small_sizes() {
  return {.heads = 2,
          .head_dim = 16,
          .double_blocks = 2,
          .single_blocks = 3,
          .mlp = 96,
          .hidden = 16,
          .layers = 28,
          .text_heads = 4,
          .kv_heads = 2,
          .text_head_dim = 8,
          .text_mlp = 24,
          .vocabulary = 64,
          .tied = true,
          .latent_channels = 4,
          .encoder_channels = {8, 12, 16, 16},
          .decoder_channels = {8, 12, 16, 16},
          .layers_per_block = 1,
          .norm_groups = 4};
}

Sizes klein_9b_sizes() {
  return {.heads = 32,
          .head_dim = 128,
          .double_blocks = 8,
          .single_blocks = 24,
          .mlp = 12288,
          .hidden = 4096,
          .layers = 36,
          .text_heads = 32,
          .kv_heads = 8,
          .text_head_dim = 128,
          .text_mlp = 12288,
          .vocabulary = 151936,
          .tied = false,
          .latent_channels = 32,
          .encoder_channels = {128, 256, 512, 512},
          .decoder_channels = {128, 256, 512, 512},
          .layers_per_block = 2,
          .norm_groups = 32};
}

Sizes klein_4b_sizes() {
  Sizes sizes = klein_9b_sizes();
  sizes.heads = 24;
  sizes.double_blocks = 5;
  sizes.single_blocks = 20;
  sizes.mlp = 9216;
  sizes.hidden = 2560;
  sizes.text_mlp = 9728;
  sizes.tied = true;
  return sizes;
}

TensorList transformer_tensors(const Sizes& s) {
  const std::int64_t d = s.width(), m = s.mlp;
  TensorList list = {
      {"x_embedder.weight", {d, s.in_channels()}},
      {"context_embedder.weight", {d, s.text_width()}},
      {"time_guidance_embed.timestep_embedder.linear_1.weight", {d, 256}},
      {"time_guidance_embed.timestep_embedder.linear_2.weight", {d, d}},
      {"double_stream_modulation_img.linear.weight", {6 * d, d}},
      {"double_stream_modulation_txt.linear.weight", {6 * d, d}},
      {"single_stream_modulation.linear.weight", {3 * d, d}},
      {"norm_out.linear.weight", {2 * d, d}},
      {"proj_out.weight", {s.in_channels(), d}},
  };
  for (std::int64_t i = 0; i < s.double_blocks; ++i) {
    const std::string block = fmt::format("transformer_blocks.{}.", i);
    for (const char* name :
         {"to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"})
      list.push_back({fmt::format("{}attn.{}.weight", block, name), {d, d}});
    for (const char* name : {"norm_q", "norm_k", "norm_added_q", "norm_added_k"})
      list.push_back({fmt::format("{}attn.{}.weight", block, name), {s.head_dim}});
    for (const char* name : {"ff", "ff_context"}) {
      list.push_back({fmt::format("{}{}.linear_in.weight", block, name), {2 * m, d}});
      list.push_back({fmt::format("{}{}.linear_out.weight", block, name), {d, m}});
    }
  }
  for (std::int64_t i = 0; i < s.single_blocks; ++i) {
    const std::string block = fmt::format("single_transformer_blocks.{}.attn.", i);
    list.push_back({block + "to_qkv_mlp_proj.weight", {3 * d + 2 * m, d}});
    list.push_back({block + "to_out.weight", {d, d + m}});
    list.push_back({block + "norm_q.weight", {s.head_dim}});
    list.push_back({block + "norm_k.weight", {s.head_dim}});
  }
  return list;
}

TensorList creator_transformer_tensors(const Sizes& s) {
  const std::int64_t d = s.width(), m = s.mlp;
  TensorList list = {
      {"img_in.weight", {d, s.in_channels()}},
      {"txt_in.weight", {d, s.text_width()}},
      {"time_in.in_layer.weight", {d, 256}},
      {"time_in.out_layer.weight", {d, d}},
      {"double_stream_modulation_img.lin.weight", {6 * d, d}},
      {"double_stream_modulation_txt.lin.weight", {6 * d, d}},
      {"single_stream_modulation.lin.weight", {3 * d, d}},
      {"final_layer.adaLN_modulation.1.weight", {2 * d, d}},
      {"final_layer.linear.weight", {s.in_channels(), d}},
  };
  for (std::int64_t i = 0; i < s.double_blocks; ++i)
    for (const char* stream : {"img", "txt"}) {
      const std::string block = fmt::format("double_blocks.{}.{}_", i, stream);
      list.push_back({block + "attn.qkv.weight", {3 * d, d}});
      list.push_back({block + "attn.proj.weight", {d, d}});
      list.push_back({block + "attn.norm.query_norm.scale", {s.head_dim}});
      list.push_back({block + "attn.norm.key_norm.scale", {s.head_dim}});
      list.push_back({block + "mlp.0.weight", {2 * m, d}});
      list.push_back({block + "mlp.2.weight", {d, m}});
    }
  for (std::int64_t i = 0; i < s.single_blocks; ++i) {
    const std::string block = fmt::format("single_blocks.{}.", i);
    list.push_back({block + "linear1.weight", {3 * d + 2 * m, d}});
    list.push_back({block + "linear2.weight", {d, d + m}});
    list.push_back({block + "norm.query_norm.scale", {s.head_dim}});
    list.push_back({block + "norm.key_norm.scale", {s.head_dim}});
  }
  return list;
}

TensorList text_encoder_tensors(const Sizes& s) {
  TensorList list = {{"model.embed_tokens.weight", {s.vocabulary, s.hidden}},
                     {"model.norm.weight", {s.hidden}}};
  if (!s.tied) list.push_back({"lm_head.weight", {s.vocabulary, s.hidden}});
  const std::int64_t q = s.text_heads * s.text_head_dim, kv = s.kv_heads * s.text_head_dim;
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    list.push_back({layer + "input_layernorm.weight", {s.hidden}});
    list.push_back({layer + "post_attention_layernorm.weight", {s.hidden}});
    list.push_back({layer + "self_attn.q_proj.weight", {q, s.hidden}});
    list.push_back({layer + "self_attn.k_proj.weight", {kv, s.hidden}});
    list.push_back({layer + "self_attn.v_proj.weight", {kv, s.hidden}});
    list.push_back({layer + "self_attn.o_proj.weight", {s.hidden, q}});
    list.push_back({layer + "self_attn.q_norm.weight", {s.text_head_dim}});
    list.push_back({layer + "self_attn.k_norm.weight", {s.text_head_dim}});
    list.push_back({layer + "mlp.gate_proj.weight", {s.text_mlp, s.hidden}});
    list.push_back({layer + "mlp.up_proj.weight", {s.text_mlp, s.hidden}});
    list.push_back({layer + "mlp.down_proj.weight", {s.hidden, s.text_mlp}});
  }
  return list;
}

namespace {

void add_affine(TensorList& list, const std::string& name, std::vector<std::int64_t> weight) {
  const std::int64_t rows = weight.front();
  list.push_back({name + ".weight", std::move(weight)});
  list.push_back({name + ".bias", {rows}});
}

void add_resnet(TensorList& list, const std::string& name, std::int64_t in, std::int64_t out,
                const std::string& shortcut) {
  add_affine(list, name + ".norm1", {in});
  add_affine(list, name + ".conv1", {out, in, 3, 3});
  add_affine(list, name + ".norm2", {out});
  add_affine(list, name + ".conv2", {out, out, 3, 3});
  if (in != out) add_affine(list, name + "." + shortcut, {out, in, 1, 1});
}

/// The decoder and the batch norm, in either layout.
TensorList vae_list(const Sizes& s, bool creator) {
  TensorList list = {{"bn.running_mean", {s.in_channels()}},
                     {"bn.running_var", {s.in_channels()}},
                     {"bn.num_batches_tracked", {}, "I64"}};
  const std::int64_t levels = static_cast<std::int64_t>(s.decoder_channels.size());
  const std::int64_t top = s.decoder_channels.back();
  const std::string shortcut = creator ? "nin_shortcut" : "conv_shortcut";
  add_affine(list, "decoder.conv_in", {top, s.latent_channels, 3, 3});
  add_resnet(list, creator ? "decoder.mid.block_1" : "decoder.mid_block.resnets.0", top, top, shortcut);
  add_resnet(list, creator ? "decoder.mid.block_2" : "decoder.mid_block.resnets.1", top, top, shortcut);
  if (s.mid_attention) {
    const std::string attention = creator ? "decoder.mid.attn_1." : "decoder.mid_block.attentions.0.";
    add_affine(list, attention + (creator ? "norm" : "group_norm"), {top});
    for (const char* name :
         creator ? std::array{"q", "k", "v", "proj_out"} : std::array{"to_q", "to_k", "to_v", "to_out.0"})
      add_affine(list, attention + name,
                 creator ? std::vector{top, top, std::int64_t{1}, std::int64_t{1}} : std::vector{top, top});
  }
  std::int64_t width = top;
  for (std::int64_t level = levels - 1; level >= 0; --level) {
    const std::int64_t out = s.decoder_channels[static_cast<std::size_t>(level)];
    const std::string block = creator ? fmt::format("decoder.up.{}.", level)
                                      : fmt::format("decoder.up_blocks.{}.", levels - 1 - level);
    for (std::int64_t i = 0; i <= s.layers_per_block; ++i, width = out)
      add_resnet(list, fmt::format("{}{}.{}", block, creator ? "block" : "resnets", i), width, out, shortcut);
    if (level > 0)
      add_affine(list, block + (creator ? "upsample.conv" : "upsamplers.0.conv"), {out, out, 3, 3});
  }
  add_affine(list, creator ? "decoder.norm_out" : "decoder.conv_norm_out", {width});
  add_affine(list, "decoder.conv_out", {3, width, 3, 3});
  if (s.post_quant_conv)
    add_affine(list, creator ? "decoder.post_quant_conv" : "post_quant_conv",
               {s.latent_channels, s.latent_channels, 1, 1});
  // A little of the encoder, which decoding ignores.
  add_affine(list, "encoder.conv_in", {s.encoder_channels.front(), 3, 3, 3});
  add_affine(list, creator ? "encoder.quant_conv" : "quant_conv",
             {2 * s.latent_channels, 2 * s.latent_channels, 1, 1});
  return list;
}

}  // namespace

TensorList vae_tensors(const Sizes& sizes) {
  return vae_list(sizes, false);
}

TensorList creator_vae_tensors(const Sizes& sizes) {
  return vae_list(sizes, true);
}

SyntheticModel::SyntheticModel(const Sizes& s)
    : transformer(transformer_tensors(s)), text_encoder(text_encoder_tensors(s)), vae(vae_tensors(s)) {
  index = {{"_class_name", "Flux2KleinPipeline"},
           {"is_distilled", false},
           {"scheduler", {"diffusers", "FlowMatchEulerDiscreteScheduler"}},
           {"text_encoder", {"transformers", "Qwen3ForCausalLM"}},
           {"tokenizer", {"transformers", "Qwen2TokenizerFast"}},
           {"transformer", {"diffusers", "Flux2Transformer2DModel"}},
           {"vae", {"diffusers", "AutoencoderKLFlux2"}}};
  const std::int64_t axis = s.head_dim / 4;
  transformer_config = {{"in_channels", s.in_channels()},
                        {"out_channels", nullptr},
                        {"num_attention_heads", s.heads},
                        {"attention_head_dim", s.head_dim},
                        {"num_layers", s.double_blocks},
                        {"num_single_layers", s.single_blocks},
                        {"joint_attention_dim", s.text_width()},
                        {"mlp_ratio", static_cast<double>(s.mlp) / static_cast<double>(s.width())},
                        {"axes_dims_rope", {axis, axis, axis, axis}},
                        {"rope_theta", 2000},
                        {"eps", 1e-6},
                        {"guidance_embeds", false},
                        {"timestep_guidance_channels", 256},
                        {"patch_size", 1}};
  text_encoder_config = {{"vocab_size", s.vocabulary},
                         {"hidden_size", s.hidden},
                         {"num_hidden_layers", s.layers},
                         {"num_attention_heads", s.text_heads},
                         {"num_key_value_heads", s.kv_heads},
                         {"head_dim", s.text_head_dim},
                         {"intermediate_size", s.text_mlp},
                         {"max_position_embeddings", 40960},
                         {"rms_norm_eps", 1e-6},
                         {"rope_theta", 1000000},
                         {"tie_word_embeddings", s.tied},
                         {"hidden_act", "silu"}};
  vae_config = {{"block_out_channels", s.encoder_channels},
                {"latent_channels", s.latent_channels},
                {"layers_per_block", s.layers_per_block},
                {"norm_num_groups", s.norm_groups},
                {"mid_block_add_attention", s.mid_attention},
                {"use_post_quant_conv", s.post_quant_conv},
                {"batch_norm_eps", 1e-4},
                {"out_channels", 3},
                {"patch_size", {2, 2}},
                {"act_fn", "silu"}};
  if (s.decoder_channels != s.encoder_channels) vae_config["decoder_block_out_channels"] = s.decoder_channels;
}

void SyntheticModel::write(const fs::path& folder) const {
  for (const char* part : {"transformer", "text_encoder", "vae", "tokenizer", "scheduler"})
    fs::create_directories(folder / part);
  write_text(folder / "model_index.json", index.dump());
  write_text(folder / "tokenizer" / "tokenizer.json", "{}");
  write_text(folder / "scheduler" / "scheduler_config.json", "{}");
  write_text(folder / "transformer" / "config.json", transformer_config.dump());
  write_text(folder / "text_encoder" / "config.json", text_encoder_config.dump());
  write_text(folder / "vae" / "config.json", vae_config.dump());
  write_checkpoint(folder / "transformer" / "diffusion_pytorch_model.safetensors", transformer);
  write_checkpoint(folder / "text_encoder" / "model.safetensors", text_encoder);
  write_checkpoint(folder / "vae" / "diffusion_pytorch_model.safetensors", vae);
}

}  // namespace dif::frontends::flux2::test

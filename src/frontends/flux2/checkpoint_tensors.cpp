#include "frontends/flux2/checkpoint_tensors.h"

#include <fmt/format.h>

#include <cmath>

namespace dif::frontends::flux2 {

namespace {

/// A list that grows module by module.
class TensorList {
 public:
  explicit TensorList(DType dtype) : dtype_(dtype) {}

  /// A matrix [out, in], or a kernel [out, in, height, width]: as many inputs as a row has elements.
  void weight(const std::string& name, const Shape& shape) {
    const auto inputs = static_cast<double>(shape.numel() / shape.dim(0));
    tensors_.push_back({name + ".weight", shape, dtype_, 0, 1 / std::sqrt(inputs)});
  }
  void matrix(const std::string& name, std::int64_t out, std::int64_t in) { weight(name, {out, in}); }
  void bias(const std::string& name, std::int64_t width) {
    tensors_.push_back({name + ".bias", {width}, dtype_, 0, 0.1});
  }
  /// The factors of a norm without bias.
  void norm(const std::string& name, std::int64_t width) {
    tensors_.push_back({name + ".weight", {width}, dtype_, 1, 0.2});
  }
  void affine_norm(const std::string& name, std::int64_t width) {
    norm(name, width);
    bias(name, width);
  }
  void biased(const std::string& name, const Shape& shape) {
    weight(name, shape);
    bias(name, shape.dim(0));
  }
  void convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t size) {
    biased(name, {out, in, size, size});
  }
  void other(const std::string& name, const Shape& shape, DType dtype, double centre, double spread) {
    tensors_.push_back({name, shape, dtype, centre, spread});
  }
  DType dtype() const { return dtype_; }
  std::vector<SyntheticTensor> take() { return std::move(tensors_); }

 private:
  DType dtype_;
  std::vector<SyntheticTensor> tensors_;
};

void add_double_block(TensorList& list, const std::string& block, const TransformerConfig& c) {
  const std::int64_t d = c.hidden();
  for (const char* name : {"norm_q", "norm_k"}) list.norm(fmt::format("{}.attn.{}", block, name), c.head_dim);
  for (const char* name : {"to_q", "to_k", "to_v", "to_out.0"})
    list.matrix(fmt::format("{}.attn.{}", block, name), d, d);
  for (const char* name : {"norm_added_q", "norm_added_k"})
    list.norm(fmt::format("{}.attn.{}", block, name), c.head_dim);
  for (const char* name : {"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"})
    list.matrix(fmt::format("{}.attn.{}", block, name), d, d);
  for (const char* name : {"ff", "ff_context"}) {
    list.matrix(fmt::format("{}.{}.linear_in", block, name), 2 * c.mlp, d);
    list.matrix(fmt::format("{}.{}.linear_out", block, name), d, c.mlp);
  }
}

void add_single_block(TensorList& list, const std::string& block, const TransformerConfig& c) {
  const std::int64_t d = c.hidden();
  list.matrix(block + ".attn.to_qkv_mlp_proj", 3 * d + 2 * c.mlp, d);
  list.norm(block + ".attn.norm_q", c.head_dim);
  list.norm(block + ".attn.norm_k", c.head_dim);
  list.matrix(block + ".attn.to_out", d, d + c.mlp);
}

void add_resnet(TensorList& list, const std::string& name, std::int64_t in, std::int64_t out) {
  list.affine_norm(name + ".norm1", in);
  list.convolution(name + ".conv1", in, out, 3);
  list.affine_norm(name + ".norm2", out);
  list.convolution(name + ".conv2", out, out, 3);
  if (in != out) list.convolution(name + ".conv_shortcut", in, out, 1);
}

void add_middle(TensorList& list, const std::string& name, std::int64_t width, bool attention) {
  add_resnet(list, name + ".resnets.0", width, width);
  if (attention) {
    list.affine_norm(name + ".attentions.0.group_norm", width);
    for (const char* part : {"to_q", "to_k", "to_v", "to_out.0"})
      list.biased(fmt::format("{}.attentions.0.{}", name, part), {width, width});
  }
  add_resnet(list, name + ".resnets.1", width, width);
}

void add_encoder(TensorList& list, const VaeEncoderConfig& c, const VaeConfig& decoder) {
  std::int64_t width = c.channels.front();
  list.convolution("encoder.conv_in", c.image_channels, width, 3);
  for (std::size_t level = 0; level < c.channels.size(); ++level) {
    const std::string block = fmt::format("encoder.down_blocks.{}", level);
    for (std::int64_t i = 0; i < c.resnets; ++i, width = c.channels[level])
      add_resnet(list, fmt::format("{}.resnets.{}", block, i), width, c.channels[level]);
    if (level + 1 < c.channels.size()) list.convolution(block + ".downsamplers.0.conv", width, width, 3);
  }
  add_middle(list, "encoder.mid_block", width, decoder.mid_attention);
  list.affine_norm("encoder.conv_norm_out", width);
  list.convolution("encoder.conv_out", width, 2 * decoder.latent_channels, 3);
}

void add_decoder(TensorList& list, const VaeConfig& c) {
  std::int64_t width = c.channels.back();
  list.convolution("decoder.conv_in", c.latent_channels, width, 3);
  add_middle(list, "decoder.mid_block", width, c.mid_attention);
  for (std::size_t block = 0; block < c.channels.size(); ++block) {
    const std::int64_t out = c.channels[c.channels.size() - 1 - block];
    const std::string name = fmt::format("decoder.up_blocks.{}", block);
    for (std::int64_t i = 0; i < c.resnets; ++i, width = out)
      add_resnet(list, fmt::format("{}.resnets.{}", name, i), width, out);
    if (block + 1 < c.channels.size()) list.convolution(name + ".upsamplers.0.conv", width, width, 3);
  }
  list.affine_norm("decoder.conv_norm_out", width);
  list.convolution("decoder.conv_out", width, c.image_channels, 3);
}

}  // namespace

std::vector<SyntheticTensor> transformer_tensors(const TransformerConfig& c, DType dtype) {
  const std::int64_t d = c.hidden();
  TensorList list(dtype);
  list.matrix("time_guidance_embed.timestep_embedder.linear_1", d, c.time_channels);
  list.matrix("time_guidance_embed.timestep_embedder.linear_2", d, d);
  list.matrix("double_stream_modulation_img.linear", 6 * d, d);
  list.matrix("double_stream_modulation_txt.linear", 6 * d, d);
  list.matrix("single_stream_modulation.linear", 3 * d, d);
  list.matrix("x_embedder", d, c.in_channels);
  list.matrix("context_embedder", d, c.text_width);
  for (std::int64_t i = 0; i < c.double_blocks; ++i)
    add_double_block(list, fmt::format("transformer_blocks.{}", i), c);
  for (std::int64_t i = 0; i < c.single_blocks; ++i)
    add_single_block(list, fmt::format("single_transformer_blocks.{}", i), c);
  list.matrix("norm_out.linear", 2 * d, d);
  list.matrix("proj_out", c.in_channels, d);
  return list.take();
}

std::vector<SyntheticTensor> qwen3_tensors(const Qwen3Config& c, bool tied, DType dtype) {
  TensorList list(dtype);
  // A row of the table is a whole state of the residual stream.
  list.other("model.embed_tokens.weight", {c.vocabulary, c.hidden}, dtype, 0, 1);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    list.matrix(layer + "self_attn.q_proj", c.heads * c.head_dim, c.hidden);
    list.matrix(layer + "self_attn.k_proj", c.kv_heads * c.head_dim, c.hidden);
    list.matrix(layer + "self_attn.v_proj", c.kv_heads * c.head_dim, c.hidden);
    list.matrix(layer + "self_attn.o_proj", c.hidden, c.heads * c.head_dim);
    list.norm(layer + "self_attn.q_norm", c.head_dim);
    list.norm(layer + "self_attn.k_norm", c.head_dim);
    list.matrix(layer + "mlp.gate_proj", c.mlp, c.hidden);
    list.matrix(layer + "mlp.up_proj", c.mlp, c.hidden);
    list.matrix(layer + "mlp.down_proj", c.hidden, c.mlp);
    list.norm(layer + "input_layernorm", c.hidden);
    list.norm(layer + "post_attention_layernorm", c.hidden);
  }
  list.norm("model.norm", c.hidden);
  if (!tied) list.matrix("lm_head", c.vocabulary, c.hidden);
  return list.take();
}

std::vector<SyntheticTensor> vae_tensors(const VaeConfig& decoder, const VaeEncoderConfig& encoder,
                                         DType dtype) {
  const std::int64_t latent = decoder.latent_channels, packed = kPatch * kPatch * latent;
  TensorList list(dtype);
  add_encoder(list, encoder, decoder);
  add_decoder(list, decoder);
  if (encoder.quant_conv) list.convolution("quant_conv", 2 * latent, 2 * latent, 1);
  if (decoder.post_quant_conv) list.convolution("post_quant_conv", latent, latent, 1);
  list.other("bn.running_mean", {packed}, dtype, 0, 0.5);
  list.other("bn.running_var", {packed}, dtype, 1.25, 0.2);  // positive: 0.56 to 1.94
  list.other("bn.num_batches_tracked", {}, DType::kI64, 0, 1);
  return list.take();
}

}  // namespace dif::frontends::flux2

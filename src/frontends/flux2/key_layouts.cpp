#include "frontends/flux2/key_layouts.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <span>
#include <vector>

namespace dif::frontends::flux2 {

namespace {

/// diffusers' name and the creator's. Each # stands for a number, * for the rest; both sides have the same
/// ones in the same order.
struct KeyRule {
  std::string_view diffusers;
  std::string_view creator;
  int parts = 1;
  std::vector<int> order = {0};
  bool kernel_1x1 = false;
};

/// The creator fuses q, k and v by rows, and the last modulation's rows are shift, scale where diffusers has
/// scale, shift.
const std::vector<KeyRule>& transformer_rules() {
  static const std::vector<KeyRule> rules = {
      {"x_embedder.*", "img_in.*"},
      {"context_embedder.*", "txt_in.*"},
      {"time_guidance_embed.timestep_embedder.linear_1.*", "time_in.in_layer.*"},
      {"time_guidance_embed.timestep_embedder.linear_2.*", "time_in.out_layer.*"},
      {"time_guidance_embed.guidance_embedder.linear_1.*", "guidance_in.in_layer.*"},
      {"time_guidance_embed.guidance_embedder.linear_2.*", "guidance_in.out_layer.*"},
      {"double_stream_modulation_img.linear.*", "double_stream_modulation_img.lin.*"},
      {"double_stream_modulation_txt.linear.*", "double_stream_modulation_txt.lin.*"},
      {"single_stream_modulation.linear.*", "single_stream_modulation.lin.*"},
      {"transformer_blocks.#.attn.to_q.*", "double_blocks.#.img_attn.qkv.*", 3, {0}},
      {"transformer_blocks.#.attn.to_k.*", "double_blocks.#.img_attn.qkv.*", 3, {1}},
      {"transformer_blocks.#.attn.to_v.*", "double_blocks.#.img_attn.qkv.*", 3, {2}},
      {"transformer_blocks.#.attn.add_q_proj.*", "double_blocks.#.txt_attn.qkv.*", 3, {0}},
      {"transformer_blocks.#.attn.add_k_proj.*", "double_blocks.#.txt_attn.qkv.*", 3, {1}},
      {"transformer_blocks.#.attn.add_v_proj.*", "double_blocks.#.txt_attn.qkv.*", 3, {2}},
      {"transformer_blocks.#.attn.norm_q.weight", "double_blocks.#.img_attn.norm.query_norm.scale"},
      {"transformer_blocks.#.attn.norm_k.weight", "double_blocks.#.img_attn.norm.key_norm.scale"},
      {"transformer_blocks.#.attn.norm_added_q.weight", "double_blocks.#.txt_attn.norm.query_norm.scale"},
      {"transformer_blocks.#.attn.norm_added_k.weight", "double_blocks.#.txt_attn.norm.key_norm.scale"},
      {"transformer_blocks.#.attn.to_out.0.*", "double_blocks.#.img_attn.proj.*"},
      {"transformer_blocks.#.attn.to_add_out.*", "double_blocks.#.txt_attn.proj.*"},
      {"transformer_blocks.#.ff.linear_in.*", "double_blocks.#.img_mlp.0.*"},
      {"transformer_blocks.#.ff.linear_out.*", "double_blocks.#.img_mlp.2.*"},
      {"transformer_blocks.#.ff_context.linear_in.*", "double_blocks.#.txt_mlp.0.*"},
      {"transformer_blocks.#.ff_context.linear_out.*", "double_blocks.#.txt_mlp.2.*"},
      {"single_transformer_blocks.#.attn.to_qkv_mlp_proj.*", "single_blocks.#.linear1.*"},
      {"single_transformer_blocks.#.attn.to_out.*", "single_blocks.#.linear2.*"},
      {"single_transformer_blocks.#.attn.norm_q.weight", "single_blocks.#.norm.query_norm.scale"},
      {"single_transformer_blocks.#.attn.norm_k.weight", "single_blocks.#.norm.key_norm.scale"},
      {"norm_out.linear.*", "final_layer.adaLN_modulation.1.*", 2, {1, 0}},
      {"proj_out.*", "final_layer.linear.*"},
  };
  return rules;
}

/// The creator numbers the decoder's levels from the image inwards (`levels`-1 runs first) and stores the
/// attention's projections as 1x1 convolutions.
const std::vector<KeyRule>& vae_rules() {
  static const std::vector<KeyRule> rules = {
      {"decoder.up_blocks.#.resnets.#.conv_shortcut.*", "decoder.up.#.block.#.nin_shortcut.*"},
      {"decoder.up_blocks.#.resnets.#.*", "decoder.up.#.block.#.*"},
      {"decoder.up_blocks.#.upsamplers.0.conv.*", "decoder.up.#.upsample.conv.*"},
      {"decoder.mid_block.resnets.0.*", "decoder.mid.block_1.*"},
      {"decoder.mid_block.resnets.1.*", "decoder.mid.block_2.*"},
      {"decoder.mid_block.attentions.0.group_norm.*", "decoder.mid.attn_1.norm.*"},
      {"decoder.mid_block.attentions.0.to_q.weight", "decoder.mid.attn_1.q.weight", 1, {0}, true},
      {"decoder.mid_block.attentions.0.to_k.weight", "decoder.mid.attn_1.k.weight", 1, {0}, true},
      {"decoder.mid_block.attentions.0.to_v.weight", "decoder.mid.attn_1.v.weight", 1, {0}, true},
      {"decoder.mid_block.attentions.0.to_out.0.weight", "decoder.mid.attn_1.proj_out.weight", 1, {0}, true},
      {"decoder.mid_block.attentions.0.to_q.bias", "decoder.mid.attn_1.q.bias"},
      {"decoder.mid_block.attentions.0.to_k.bias", "decoder.mid.attn_1.k.bias"},
      {"decoder.mid_block.attentions.0.to_v.bias", "decoder.mid.attn_1.v.bias"},
      {"decoder.mid_block.attentions.0.to_out.0.bias", "decoder.mid.attn_1.proj_out.bias"},
      {"decoder.conv_norm_out.*", "decoder.norm_out.*"},
      {"post_quant_conv.*", "decoder.post_quant_conv.*"},
  };
  return rules;
}

/// What the wildcards of a rule stand for.
struct Match {
  std::vector<std::int64_t> numbers;
  std::string_view rest;
};

std::optional<Match> match(std::string_view pattern, std::string_view name) {
  Match found;
  for (; !pattern.empty(); pattern.remove_prefix(1)) {
    if (pattern.front() == '*') {
      found.rest = name;
      return found;
    }
    if (pattern.front() == '#') {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      if (error != std::errc{}) return std::nullopt;
      name.remove_prefix(static_cast<std::size_t>(end - name.data()));
      found.numbers.push_back(number);
    } else {
      if (name.empty() || name.front() != pattern.front()) return std::nullopt;
      name.remove_prefix(1);
    }
  }
  return name.empty() ? std::optional(found) : std::nullopt;
}

std::string fill(std::string_view pattern, const Match& found) {
  std::string name;
  std::size_t number = 0;
  for (const char c : pattern) {
    if (c == '#')
      name += std::to_string(found.numbers.at(number++));
    else if (c == '*')
      name += found.rest;
    else
      name += c;
  }
  return name;
}

/// The creator's names. `reversed_levels` > 0: the first number of a decoder.up_blocks name is counted from
/// the other end of that many levels.
class CreatorLayout : public KeyLayout {
 public:
  explicit CreatorLayout(const std::vector<KeyRule>& rules, std::int64_t reversed_levels = 0)
      : rules_(rules), reversed_levels_(reversed_levels) {}

  StoredTensor locate(std::string_view name) const override {
    for (const KeyRule& rule : rules_) {
      std::optional<Match> found = match(rule.diffusers, name);
      if (!found) continue;
      if (reversed_levels_ > 0 && rule.diffusers.starts_with("decoder.up_blocks."))
        found->numbers.front() = reversed_levels_ - 1 - found->numbers.front();
      return {fill(rule.creator, *found), rule.parts, rule.order, rule.kernel_1x1};
    }
    return {std::string(name)};
  }

 private:
  const std::vector<KeyRule>& rules_;
  std::int64_t reversed_levels_;
};

bool is_creator_transformer(const io::Checkpoint& checkpoint) {
  return checkpoint.find("img_in.weight") != nullptr ||
         checkpoint.find("double_blocks.0.img_attn.qkv.weight") != nullptr ||
         checkpoint.find("single_blocks.0.linear1.weight") != nullptr;
}

bool is_creator_vae(const io::Checkpoint& checkpoint) {
  return checkpoint.find("decoder.mid.block_1.conv1.weight") != nullptr ||
         checkpoint.find("decoder.up.0.block.0.conv1.weight") != nullptr;
}

}  // namespace

std::unique_ptr<KeyLayout> transformer_layout(const io::Checkpoint& checkpoint) {
  if (is_creator_transformer(checkpoint)) return std::make_unique<CreatorLayout>(transformer_rules());
  return std::make_unique<KeyLayout>();
}

std::unique_ptr<KeyLayout> vae_layout(const io::Checkpoint& checkpoint) {
  if (!is_creator_vae(checkpoint)) return std::make_unique<KeyLayout>();
  const KeyLayout plain;
  const std::int64_t levels = WeightSource(checkpoint, plain).count({"decoder.up.#.block.0.conv1.weight"});
  return std::make_unique<CreatorLayout>(vae_rules(), levels);
}

bool holds_transformer(const io::Checkpoint& checkpoint) {
  return is_creator_transformer(checkpoint) || checkpoint.find("x_embedder.weight") != nullptr;
}

bool holds_vae(const io::Checkpoint& checkpoint) {
  return is_creator_vae(checkpoint) || checkpoint.find("decoder.mid_block.resnets.0.conv1.weight") != nullptr;
}

bool vae_may_be_unused(std::string_view name) {
  return (name.starts_with("encoder.") || name.starts_with("quant_conv.") ||
          name == "bn.num_batches_tracked");
}

}  // namespace dif::frontends::flux2

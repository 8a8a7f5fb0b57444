#include "frontends/flux2/key_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/format.h"
#include "frontends/flux2/synthetic_model_test_support.h"
#include "frontends/model.h"
#include "io/digest.h"
#include "ir/tensor_type.h"
#include "tests/support/paths.h"

namespace dif::frontends::flux2 {
namespace {

using test::Sizes;
using test::TensorList;

StoredTensor located(const TensorList& tensors, std::unique_ptr<KeyLayout> (*layout)(const io::Checkpoint&),
                     std::string_view name) {
  const dif::test::ScratchDir dir;
  test::write_checkpoint(dir / "x.safetensors", tensors);
  const io::Checkpoint checkpoint = io::open_checkpoint(dir / "x.safetensors").value();
  return layout(checkpoint)->locate(name);
}

TEST(KeyLayout, DiffusersNamesStandAsTheyAre) {
  const StoredTensor tensor = located(test::transformer_tensors(test::small_sizes()), transformer_layout,
                                      "transformer_blocks.1.attn.to_k.weight");
  EXPECT_EQ(tensor.name, "transformer_blocks.1.attn.to_k.weight");
  EXPECT_TRUE(tensor.is_whole());
}

TEST(KeyLayout, CreatorFusesQueryKeyAndValueByRows) {
  const StoredTensor tensor = located(test::creator_transformer_tensors(test::small_sizes()),
                                      transformer_layout, "transformer_blocks.1.attn.add_v_proj.weight");
  EXPECT_EQ(tensor.name, "double_blocks.1.txt_attn.qkv.weight");
  EXPECT_EQ(tensor.parts, 3);
  EXPECT_EQ(tensor.order, std::vector<int>{2});
  EXPECT_EQ(tensor.stored_shape({32, 32}), (Shape{96, 32}));
  EXPECT_EQ(tensor.wanted_shape({96, 32}), (Shape{32, 32}));
  EXPECT_EQ(tensor.wanted_shape({97, 32}), std::nullopt);
}

TEST(KeyLayout, CreatorHasShiftBeforeScale) {
  const StoredTensor tensor = located(test::creator_transformer_tensors(test::small_sizes()),
                                      transformer_layout, "norm_out.linear.weight");
  EXPECT_EQ(tensor.name, "final_layer.adaLN_modulation.1.weight");
  EXPECT_EQ(tensor.order, (std::vector<int>{1, 0}));
  EXPECT_EQ(tensor.stored_shape({64, 32}), (Shape{64, 32}));
}

TEST(KeyLayout, CreatorNumbersDecoderLevelsFromTheImage) {
  const TensorList vae = test::creator_vae_tensors(test::small_sizes());
  EXPECT_EQ(located(vae, vae_layout, "decoder.up_blocks.0.resnets.1.norm2.bias").name,
            "decoder.up.3.block.1.norm2.bias");
  EXPECT_EQ(located(vae, vae_layout, "decoder.up_blocks.2.upsamplers.0.conv.weight").name,
            "decoder.up.1.upsample.conv.weight");
  EXPECT_EQ(located(vae, vae_layout, "decoder.up_blocks.3.resnets.0.conv_shortcut.bias").name,
            "decoder.up.0.block.0.nin_shortcut.bias");
}

TEST(KeyLayout, CreatorStoresAttentionAsConvolutions) {
  const TensorList vae = test::creator_vae_tensors(test::small_sizes());
  const StoredTensor tensor = located(vae, vae_layout, "decoder.mid_block.attentions.0.to_out.0.weight");
  EXPECT_EQ(tensor.name, "decoder.mid.attn_1.proj_out.weight");
  EXPECT_EQ(tensor.stored_shape({16, 16}), (Shape{16, 16, 1, 1}));
  EXPECT_EQ(tensor.wanted_shape({16, 16, 1, 1}), (Shape{16, 16}));
  EXPECT_EQ(tensor.wanted_shape({16, 16, 3, 3}), std::nullopt);
  EXPECT_FALSE(located(vae, vae_layout, "decoder.mid_block.attentions.0.to_out.0.bias").kernel_1x1);
}

// The same weights in both layouts must give the same programs. What is computed from constants alone is
// computed here, and what depends on inputs is listed.

std::uint16_t next_value(std::uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return static_cast<std::uint16_t>(0x3e00u | (state >> 16 & 0x80ffu));
}

void fill(TensorList& tensors) {
  std::uint32_t state = 7;
  for (test::TestTensor& tensor : tensors) {
    if (tensor.dtype != "BF16") continue;
    std::int64_t count = 1;
    for (const std::int64_t dim : tensor.shape) count *= dim;
    for (std::int64_t i = 0; i < count; ++i) tensor.values.push_back(next_value(state));
  }
}

using Values = std::map<std::string, std::vector<std::uint16_t>>;

Values values_of(const TensorList& tensors) {
  Values values;
  for (const test::TestTensor& tensor : tensors) values[tensor.name] = tensor.values;
  return values;
}

std::vector<std::uint16_t> joined(std::initializer_list<std::vector<std::uint16_t>> parts) {
  std::vector<std::uint16_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// The creator's file with the numbers of a diffusers one, written down by hand.
TensorList as_creator_transformer(const Sizes& sizes, const TensorList& diffusers) {
  const Values from = values_of(diffusers);
  const auto at = [&](const std::string& name) { return from.at(name); };
  Values to = {
      {"img_in.weight", at("x_embedder.weight")},
      {"txt_in.weight", at("context_embedder.weight")},
      {"time_in.in_layer.weight", at("time_guidance_embed.timestep_embedder.linear_1.weight")},
      {"time_in.out_layer.weight", at("time_guidance_embed.timestep_embedder.linear_2.weight")},
      {"double_stream_modulation_img.lin.weight", at("double_stream_modulation_img.linear.weight")},
      {"double_stream_modulation_txt.lin.weight", at("double_stream_modulation_txt.linear.weight")},
      {"single_stream_modulation.lin.weight", at("single_stream_modulation.linear.weight")},
      {"final_layer.linear.weight", at("proj_out.weight")},
  };
  const std::vector<std::uint16_t> scale_shift = at("norm_out.linear.weight");
  const auto middle = scale_shift.begin() + static_cast<long>(scale_shift.size() / 2);
  to["final_layer.adaLN_modulation.1.weight"] =
      joined({{middle, scale_shift.end()}, {scale_shift.begin(), middle}});
  for (std::int64_t i = 0; i < sizes.double_blocks; ++i) {
    const std::string ours = "transformer_blocks." + std::to_string(i) + ".";
    const std::string theirs = "double_blocks." + std::to_string(i) + ".";
    const auto attn = [&](const char* name) { return at(ours + "attn." + name + ".weight"); };
    to[theirs + "img_attn.qkv.weight"] = joined({attn("to_q"), attn("to_k"), attn("to_v")});
    to[theirs + "txt_attn.qkv.weight"] = joined({attn("add_q_proj"), attn("add_k_proj"), attn("add_v_proj")});
    to[theirs + "img_attn.proj.weight"] = attn("to_out.0");
    to[theirs + "txt_attn.proj.weight"] = attn("to_add_out");
    to[theirs + "img_attn.norm.query_norm.scale"] = attn("norm_q");
    to[theirs + "img_attn.norm.key_norm.scale"] = attn("norm_k");
    to[theirs + "txt_attn.norm.query_norm.scale"] = attn("norm_added_q");
    to[theirs + "txt_attn.norm.key_norm.scale"] = attn("norm_added_k");
    to[theirs + "img_mlp.0.weight"] = at(ours + "ff.linear_in.weight");
    to[theirs + "img_mlp.2.weight"] = at(ours + "ff.linear_out.weight");
    to[theirs + "txt_mlp.0.weight"] = at(ours + "ff_context.linear_in.weight");
    to[theirs + "txt_mlp.2.weight"] = at(ours + "ff_context.linear_out.weight");
  }
  for (std::int64_t i = 0; i < sizes.single_blocks; ++i) {
    const std::string ours = "single_transformer_blocks." + std::to_string(i) + ".attn.";
    const std::string theirs = "single_blocks." + std::to_string(i) + ".";
    to[theirs + "linear1.weight"] = at(ours + "to_qkv_mlp_proj.weight");
    to[theirs + "linear2.weight"] = at(ours + "to_out.weight");
    to[theirs + "norm.query_norm.scale"] = at(ours + "norm_q.weight");
    to[theirs + "norm.key_norm.scale"] = at(ours + "norm_k.weight");
  }
  TensorList creator = test::creator_transformer_tensors(sizes);
  for (test::TestTensor& tensor : creator) tensor.values = to.at(tensor.name);
  return creator;
}

TensorList as_creator_vae(const Sizes& sizes, const TensorList& diffusers) {
  Values to;
  for (const test::TestTensor& tensor : diffusers) {
    std::string name = tensor.name;
    const auto replace = [&](std::string_view from, std::string_view by) {
      if (const std::size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), by);
    };
    for (int block = 0; block < 4; ++block)
      replace("up_blocks." + std::to_string(block) + ".", "up.L" + std::to_string(3 - block) + ".");
    replace(".L", ".");
    replace("up_blocks", "up");
    replace("mid_block.resnets.0", "mid.block_1");
    replace("mid_block.resnets.1", "mid.block_2");
    replace("mid_block.attentions.0.group_norm", "mid.attn_1.norm");
    replace("mid_block.attentions.0.to_out.0", "mid.attn_1.proj_out");
    replace("mid_block.attentions.0.to_", "mid.attn_1.");
    replace("resnets", "block");
    replace("conv_shortcut", "nin_shortcut");
    replace("upsamplers.0.conv", "upsample.conv");
    replace("conv_norm_out", "norm_out");
    if (name.starts_with("post_quant_conv")) name.insert(0, "decoder.");
    if (name.starts_with("quant_conv")) name.insert(0, "encoder.");
    to[name] = tensor.values;
  }
  TensorList creator = test::creator_vae_tensors(sizes);
  for (test::TestTensor& tensor : creator) tensor.values = to.at(tensor.name);
  return creator;
}

/// A value that is computed from constants alone: its bytes where slicing, joining and reshaping make them,
/// and a word for how it came about otherwise.
struct Known {
  std::vector<std::byte> bytes;
  std::string how;

  std::string text() const { return how.empty() ? io::hex(io::sha256(std::span(bytes))) : how; }
};

std::string attribute_text(const ir::Attr& attr) {
  if (const auto* value = std::get_if<std::int64_t>(&attr)) return std::to_string(*value);
  if (const auto* value = std::get_if<float>(&attr)) return std::to_string(*value);
  if (const auto* value = std::get_if<bool>(&attr)) return *value ? "true" : "false";
  if (const auto* value = std::get_if<DType>(&attr)) return std::string(dtype_name(*value));
  std::string list;
  for (const std::int64_t item : std::get<ir::Integers>(attr)) list += std::to_string(item) + ",";
  return list;
}

/// The operations that depend on inputs, with what constants amount to: equal lists mean equal programs.
std::vector<std::string> meaning(const Stage& stage) {
  const ir::Program& program = stage.program;
  std::map<ir::ValueId, Known> known;
  std::map<ir::ValueId, std::string> names;
  for (const ir::ValueId id : program.inputs) names[id] = program.values[id].name;
  for (const ir::ValueId id : program.constants) {
    const ConstantRef* ref = stage.constants.find(program.values[id].name);
    if (ref == nullptr)
      known[id].how = program.values[id].name;
    else
      known[id].bytes.assign(ref->data, ref->data + ref->type.bytes());
  }
  std::vector<std::string> lines;
  for (ir::OpId id = 0; id < program.ops.size(); ++id) {
    const ir::Op& op = program.ops[id];
    const ir::OpView view = program.view(id);
    const bool constant = std::all_of(op.operands.begin(), op.operands.end(),
                                      [&](ir::ValueId operand) { return known.contains(operand); });
    if (constant) {
      Known result;
      const std::string_view name = op.def->name;
      const Known& first = known.at(op.operands.front());
      if (name == "reshape" && first.how.empty()) {
        result = first;
      } else if (name == "slice" && first.how.empty() && view.i64("axis") == 0) {
        const std::uint64_t row = first.bytes.size() / static_cast<std::uint64_t>(view.in(0).dim(0));
        result.bytes.assign(
            first.bytes.begin() + static_cast<long>(row * static_cast<std::uint64_t>(view.i64("start"))),
            first.bytes.begin() + static_cast<long>(row * static_cast<std::uint64_t>(view.i64("end"))));
      } else if (name == "concat" && first.how.empty() && view.i64("axis") == 0) {
        for (const ir::ValueId operand : op.operands)
          result.bytes.insert(result.bytes.end(), known.at(operand).bytes.begin(),
                              known.at(operand).bytes.end());
      } else {
        result.how = std::string(name) + "(";
        for (const ir::ValueId operand : op.operands) result.how += known.at(operand).text() + " ";
        for (const ir::Attr& attr : op.attrs) result.how += attribute_text(attr) + " ";
        result.how += ")";
      }
      known[op.results.front()] = result;
      continue;
    }
    std::string line = fmt::format("{} = {}(", view.out(), op.def->name);
    for (const ir::ValueId operand : op.operands)
      line += (known.contains(operand) ? known.at(operand).text() : names.at(operand)) + ", ";
    for (const ir::Attr& attr : op.attrs) line += attribute_text(attr) + "; ";
    names[op.results.front()] = fmt::format("v{}", lines.size());
    lines.push_back(line + ")");
  }
  for (const ir::Output& output : program.outputs)
    lines.push_back(output.name + " = " + names.at(output.value));
  return lines;
}

Chain chain_of(const std::filesystem::path& folder, DType dtype) {
  static std::vector<std::unique_ptr<Model>> opened;  // a chain's constants point into its model
  opened.push_back(open_model(folder).value());
  return opened.back()
      ->build({.width = 64,
               .height = 32,
               .steps = 2,
               .guidance = 3.0f,
               .text_tokens = 5,
               .dtype = dtype,
               .vae_dtype = dtype})
      .value();
}

TEST(KeyLayout, BothLayoutsGiveTheSamePrograms) {
  const dif::test::ScratchDir diffusers, creator;
  Sizes sizes = test::small_sizes();
  test::SyntheticModel model(sizes);
  fill(model.transformer);
  fill(model.vae);
  model.write(diffusers.path());
  model.transformer = as_creator_transformer(sizes, model.transformer);
  model.vae = as_creator_vae(sizes, model.vae);
  model.write(creator.path());
  const Chain ours = chain_of(diffusers.path(), DType::kBF16);
  const Chain theirs = chain_of(creator.path(), DType::kBF16);
  EXPECT_EQ(meaning(ours.step), meaning(theirs.step));
  EXPECT_EQ(meaning(ours.decode), meaning(theirs.decode));
}

TEST(KeyLayout, TheComparisonSeesSwappedRows) {
  const dif::test::ScratchDir right, swapped;
  const Sizes sizes = test::small_sizes();
  test::SyntheticModel model(sizes);
  fill(model.transformer);
  const TensorList original = model.transformer;
  model.transformer = as_creator_transformer(sizes, original);
  model.write(right.path());
  for (test::TestTensor& tensor : model.transformer)
    if (tensor.name == "final_layer.adaLN_modulation.1.weight")
      for (const test::TestTensor& source : original)
        if (source.name == "norm_out.linear.weight") tensor.values = source.values;
  model.write(swapped.path());
  EXPECT_NE(meaning(chain_of(right.path(), DType::kBF16).step),
            meaning(chain_of(swapped.path(), DType::kBF16).step));
}

}  // namespace
}  // namespace dif::frontends::flux2

#include "frontends/flux2/part_file.h"

#include <system_error>

#include "base/error.h"
#include "frontends/family.h"
#include "frontends/flux2/key_layouts.h"
#include "frontends/flux2/transformer.h"
#include "frontends/flux2/vae_decoder.h"
#include "ops/cast/cast.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"

namespace dif::frontends::flux2 {

namespace fs = std::filesystem;

namespace {

using ir::Builder;
using ir::Value;

constexpr std::int64_t kMaxBatch = 64, kMaxRows = 1 << 20;
constexpr float kTimes = 1000;  // the model is told 1000 * sigma, diffusers' argument is sigma

Result<ComponentFiles> open_file(const fs::path& file, std::string_view part,
                                 bool (*holds)(const io::Checkpoint&)) {
  DIF_ASSIGN(io::Checkpoint checkpoint, io::open_checkpoint(file));
  if (!holds(checkpoint)) return invalid_input("{}: it holds no {} of FLUX.2", file.string(), part);
  std::optional<io::JsonDocument> config;
  const fs::path beside = file.parent_path() / "config.json";
  std::error_code error;
  if (fs::exists(beside, error)) {
    DIF_ASSIGN(config, io::JsonDocument::read(beside));
  }
  return ComponentFiles{std::move(checkpoint), std::move(config)};
}

Status check(const RowCounts& rows, DType dtype) {
  if (rows.batch < 1 || rows.batch > kMaxBatch)
    return invalid_input("batch {}: expected 1 to {}", rows.batch, kMaxBatch);
  for (const std::int64_t count : {rows.image, rows.text})
    if (count < 1 || count > kMaxRows) return invalid_input("{} tokens: expected 1 to {}", count, kMaxRows);
  if (dtype != DType::kF32 && dtype != DType::kBF16)
    return invalid_input("{} arithmetic is not supported for FLUX.2: f32 and bf16 are", dtype_name(dtype));
  return ok();
}

Status check_number(std::string_view kind, std::int64_t number, std::int64_t count) {
  if (number >= 0 && number < count) return ok();
  return invalid_input("{} block {}: this transformer has {}, counted from 0", kind, number, count);
}

Rotation rotation_inputs(Builder& b, const TransformerConfig& config, const RowCounts& rows) {
  const ir::TensorType type{DType::kF32, {rows.text + rows.image, config.head_dim / 2}};
  const Value cos = b.input("rotary_cos", type);
  return {cos, b.input("rotary_sin", type)};
}

/// A program of a part, with the weights that it takes from the file.
class PartProgram {
 public:
  PartProgram(std::string name, WeightSource source)
      : b(std::move(name)), source_(std::move(source)), weights_(b, constants_, source_) {}

  Module root(const char* module, DType dtype) { return Module(b, weights_, module, dtype); }
  /// A part uses a part of the checkpoint: what is left over is none of its business.
  Result<Stage> finish() {
    DIF_ASSIGN(ir::Program program, b.finish());
    DIF_TRY(weights_.check([](std::string_view) { return true; }));
    return Stage{std::move(program), std::move(constants_)};
  }

  Builder b;

 private:
  ConstantSet constants_;
  WeightSource source_;
  WeightLookup weights_;
};

}  // namespace

Result<TransformerFile> TransformerFile::open(const fs::path& file) {
  DIF_ASSIGN(ComponentFiles files, open_file(file, "transformer", holds_transformer));
  auto layout = transformer_layout(files.checkpoint);
  DIF_ASSIGN(const TransformerConfig config,
             read_transformer_config(files.config ? &*files.config : nullptr, {files.checkpoint, *layout}));
  return TransformerFile(std::move(files), std::move(layout), config);
}

Result<Stage> TransformerFile::double_block(std::int64_t number, const RowCounts& rows, DType dtype) const {
  DIF_TRY(check(rows, dtype));
  DIF_TRY(check_number("double-stream", number, config_.double_blocks));
  PartProgram part("double_block", weights());
  Builder& b = part.b;
  const std::int64_t hidden = config_.hidden();
  const Value image = b.input("hidden_states", {dtype, {rows.batch, rows.image, hidden}});
  const Value text = b.input("encoder_hidden_states", {dtype, {rows.batch, rows.text, hidden}});
  const Value image_modulation = b.input("temb_mod_img", {dtype, {1, 6 * hidden}});
  const Value text_modulation = b.input("temb_mod_txt", {dtype, {1, 6 * hidden}});
  const Rotation rotation = rotation_inputs(b, config_, rows);
  Streams found;
  {
    const Module root = part.root("transformer", dtype);
    found =
        build_double_block(root, config_, number, {image, text}, image_modulation, text_modulation, rotation);
  }
  const std::string name = with_number("transformer.transformer_blocks.#", number);
  b.output(name + ".out0", found.text);
  b.output(name + ".out1", found.image);
  return part.finish();
}

Result<Stage> TransformerFile::single_block(std::int64_t number, const RowCounts& rows, DType dtype) const {
  DIF_TRY(check(rows, dtype));
  DIF_TRY(check_number("single-stream", number, config_.single_blocks));
  PartProgram part("single_block", weights());
  Builder& b = part.b;
  const std::int64_t hidden = config_.hidden();
  const Value joint = b.input("hidden_states", {dtype, {rows.batch, rows.text + rows.image, hidden}});
  const Value modulation = b.input("temb_mod", {dtype, {1, 3 * hidden}});
  const Rotation rotation = rotation_inputs(b, config_, rows);
  Value found;
  {
    const Module root = part.root("transformer", dtype);
    found = build_single_block(root, config_, number, joint, modulation, rotation);
  }
  b.output(with_number("transformer.single_transformer_blocks.#", number), found);
  return part.finish();
}

Result<Stage> TransformerFile::transformer(std::int64_t double_depth, std::int64_t single_depth,
                                           const RowCounts& rows, DType dtype) const {
  DIF_TRY(check(rows, dtype));
  for (const auto& [kind, depth, count] : {std::tuple("double", double_depth, config_.double_blocks),
                                           std::tuple("single", single_depth, config_.single_blocks)})
    if (depth < 0 || depth > count)
      return invalid_input("{} {}-stream blocks: this transformer has {}", depth, kind, count);
  TransformerConfig config = config_;
  config.double_blocks = double_depth;
  config.single_blocks = single_depth;
  PartProgram part("transformer", weights());
  Builder& b = part.b;
  const Value latents = b.input("hidden_states", {dtype, {rows.batch, rows.image, config.in_channels}});
  const Value prompt = b.input("encoder_hidden_states", {dtype, {rows.batch, rows.text, config.text_width}});
  const Value time = ops::mul_scalar(b, b.input("timestep", {DType::kF32, {1}}), kTimes);
  const Rotation rotation = rotation_inputs(b, config, rows);
  Value found;
  {
    const Module root = part.root("transformer", dtype);
    found = build_transformer(root, config, latents, prompt, time, rotation);
  }
  b.output("transformer.proj_out", found);
  return part.finish();
}

Result<VaeFile> VaeFile::open(const fs::path& file) {
  DIF_ASSIGN(ComponentFiles files, open_file(file, "autoencoder", holds_vae));
  auto layout = vae_layout(files.checkpoint);
  DIF_ASSIGN(VaeConfig config,
             read_vae_config(files.config ? &*files.config : nullptr, {files.checkpoint, *layout}));
  return VaeFile(std::move(files), std::move(layout), std::move(config));
}

Result<Stage> VaeFile::decoder(std::int64_t height, std::int64_t width, DType dtype) const {
  DIF_TRY(check({.batch = 1, .image = height, .text = width}, dtype));
  if (height > kMaxPixels / config_.scale() || width > kMaxPixels / config_.scale())
    return invalid_input("latents of {} x {}: expected at most {} on a side", height, width,
                         kMaxPixels / config_.scale());
  PartProgram part("vae", {files_.checkpoint, *layout_});
  Builder& b = part.b;
  const Value latents = b.input("latents", {dtype, {1, config_.latent_channels, height, width}});
  Value image;
  {
    const Module root = part.root("vae", dtype);
    image = build_vae_decoder(root, config_, latents);
  }
  b.output("vae.decoder", dtype == DType::kF32 ? image : ops::cast(b, image, DType::kF32));
  return part.finish();
}

}  // namespace dif::frontends::flux2

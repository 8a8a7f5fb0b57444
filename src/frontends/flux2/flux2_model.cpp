#include "frontends/flux2/flux2_model.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "base/error.h"
#include "base/parallel.h"
#include "frontends/flux2/component_files.h"
#include "frontends/flux2/config.h"
#include "frontends/flux2/key_layouts.h"
#include "frontends/flux2/programs.h"
#include "io/digest.h"
#include "io/printable.h"

namespace dif::frontends::flux2 {

namespace fs = std::filesystem;

namespace {

/// One part of the model: its files and how to read them.
struct Part {
  ComponentFiles files;
  std::unique_ptr<KeyLayout> layout;

  WeightSource weights() const { return {files.checkpoint, *layout}; }
  const io::JsonDocument* config() const { return files.config ? &*files.config : nullptr; }
};

class Flux2Model final : public Model {
 public:
  Flux2Model(ModelFolder folder, const Family& family, Part text_encoder, Part transformer, Part vae)
      : folder_(std::move(folder)),
        family_(family),
        text_encoder_(std::move(text_encoder)),
        transformer_(std::move(transformer)),
        vae_(std::move(vae)) {}

  /// Reads the configurations and checks that everything fits together.
  Status validate(bool is_distilled);

  std::string name() const override { return folder_.name(); }
  std::string family() const override { return std::string(family_.name); }
  GenerationDefaults defaults() const override { return defaults_; }
  bool supports_guidance() const override { return !is_distilled_; }
  std::int64_t size_multiple() const override { return vae_config_.scale() * kPatch; }
  text::ChatTemplate chat_template() const override { return family_.facts.chat; }
  fs::path tokenizer_folder() const override { return folder_.path / "tokenizer"; }
  fs::path scheduler_config() const override { return folder_.path / "scheduler" / "scheduler_config.json"; }
  Result<std::string> digest(const std::stop_token& stop) const override;
  std::vector<const io::MappedFile*> files() const override;
  Status check_files() const override;
  Result<Chain> build(const ChainRequest& request) const override;

 private:
  Status check(const ChainRequest& request) const;
  std::string creator() const { return fmt::format("{} {}", family_.name, folder_.name()); }

  ModelFolder folder_;
  const Family& family_;
  Part text_encoder_, transformer_, vae_;
  Qwen3Config text_config_;
  TransformerConfig transformer_config_;
  VaeConfig vae_config_;
  GenerationDefaults defaults_;
  bool is_distilled_ = false;
};

Status Flux2Model::validate(bool is_distilled) {
  is_distilled_ = is_distilled;
  const std::vector<std::int64_t>& taps = family_.facts.text_taps;
  DIF_ASSIGN(text_config_,
             read_qwen3_config(*text_encoder_.files.config, text_encoder_.weights(), taps.back()));
  DIF_ASSIGN(transformer_config_, read_transformer_config(transformer_.config(), transformer_.weights()));
  DIF_ASSIGN(vae_config_, read_vae_config(vae_.config(), vae_.weights()));
  DIF_TRY(check_pairing(transformer_config_, text_config_, vae_config_, taps.size()));

  GenerationDefaults defaults = family_.facts.defaults;
  if (is_distilled_) {
    defaults.steps = family_.facts.distilled_steps;
    defaults.guidance = family_.facts.distilled_guidance;
  }
  DIF_ASSIGN(defaults_, read_defaults(folder_, defaults, size_multiple(), supports_guidance()));

  // The programs themselves say which tensors a checkpoint must hold: a chain of the smallest size finds out
  // now.
  ChainRequest smallest{.width = size_multiple(), .height = size_multiple(), .steps = 1, .text_tokens = 1};
  DIF_TRY(build(smallest));
  return ok();
}

Result<std::string> Flux2Model::digest(const std::stop_token& stop) const {
  const std::array parts = {&text_encoder_, &transformer_, &vae_};
  std::array<Result<io::Digest>, parts.size()> digests;
  parallel_for(parts.size(), parts.size(),
               [&](std::size_t i) { digests[i] = parts[i]->files.checkpoint.digest(stop); });
  io::Sha256 all;
  for (const Result<io::Digest>& digest : digests) {
    if (!digest) return tl::unexpected<Error>(digest.error());
    all.update(std::as_bytes(std::span(*digest)));
  }
  return io::hex(all.finish());
}

std::vector<const io::MappedFile*> Flux2Model::files() const {
  std::vector<const io::MappedFile*> files;
  for (const Part* part : {&text_encoder_, &transformer_, &vae_})
    for (const io::SafetensorsFile& shard : part->files.checkpoint.shards()) files.push_back(&shard.file());
  return files;
}

Status Flux2Model::check_files() const {
  for (const Part* part : {&text_encoder_, &transformer_, &vae_}) DIF_TRY(part->files.checkpoint.check());
  return ok();
}

Status Flux2Model::check(const ChainRequest& request) const {
  const std::int64_t multiple = size_multiple();
  for (const auto& [what, value] : {std::pair{"width", request.width}, std::pair{"height", request.height}})
    if (value < multiple || value > kMaxPixels || value % multiple != 0)
      return invalid_input("{} {}: expected a multiple of {} from {} to {} for this model", what, value,
                           multiple, multiple, kMaxPixels / multiple * multiple);
  if (request.steps < 1 || request.steps > kMaxSteps)
    return invalid_input("{} steps: expected 1 to {}", request.steps, kMaxSteps);
  if (request.text_tokens < 1 || request.text_tokens > text_config_.max_positions)
    return invalid_input("{} text tokens: expected 1 to {}, the positions of this text encoder",
                         request.text_tokens, text_config_.max_positions);
  if (request.guidance) {
    if (!supports_guidance())
      return invalid_input("guidance {}: this model is distilled and runs without guidance (1)",
                           *request.guidance);
    if (!(*request.guidance >= 0 && *request.guidance <= kMaxGuidance))
      return invalid_input("guidance {}: expected a number from 0 to {}", *request.guidance, kMaxGuidance);
  }
  for (const DType dtype : {request.dtype, request.vae_dtype, request.state_dtype})
    if (dtype != DType::kF32 && dtype != DType::kBF16)
      return invalid_input(
          "{} arithmetic is not supported for FLUX.2: f32 and bf16 are (f16 overflows in it)",
          dtype_name(dtype));
  return ok();
}

Result<Chain> Flux2Model::build(const ChainRequest& request) const {
  DIF_TRY(check(request));
  Chain chain;
  chain.latent_channels = transformer_config_.in_channels;
  chain.latent_rows = request.height / size_multiple();
  chain.latent_columns = request.width / size_multiple();
  DIF_ASSIGN(chain.encode, build_encode(text_config_, text_encoder_.weights(), family_.facts.text_taps,
                                        request.text_tokens, request.dtype));
  DIF_ASSIGN(chain.step, build_step(transformer_config_, transformer_.weights(),
                                    {.rows = chain.latent_rows,
                                     .columns = chain.latent_columns,
                                     .text_tokens = request.text_tokens,
                                     .steps = request.steps,
                                     .guidance = request.guidance,
                                     .dtype = request.dtype,
                                     .state_dtype = request.state_dtype}));
  DIF_ASSIGN(chain.decode, build_decode(vae_config_, vae_.weights(), chain.latent_rows, chain.latent_columns,
                                        request.vae_dtype));
  for (Stage* stage : {&chain.encode, &chain.step, &chain.decode})
    stage->program.provenance.creator = creator();
  return chain;
}

/// "text_encoder": ["transformers", "Qwen3ForCausalLM"] in model_index.json.
void expect_class(io::ConfigReader& index, std::string_view component, std::string_view expected) {
  const std::vector<std::string> entry = index.strings(component);
  if (entry.size() == 2 && entry[1] != expected) index.problem(component, expected, io::printable(entry[1]));
  if (!entry.empty() && entry.size() != 2)
    index.problem(component, "[library, class]", fmt::format("an array of {}", entry.size()));
}

Status expect_file(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  if (!fs::is_directory((folder / file).parent_path(), error))
    return fail(ErrorCode::kNotFound, "{}: the folder {} is missing, which model_index.json names",
                folder.string(), file.parent_path().string());
  if (!fs::exists(folder / file, error))
    return fail(ErrorCode::kNotFound, "{}: there is no {}", (folder / file).parent_path().string(),
                file.filename().string());
  return ok();
}

}  // namespace

Result<std::unique_ptr<Model>> open_klein(ModelFolder folder, const Family& family) {
  io::ConfigReader index(folder.index);
  const bool is_distilled = index.boolean_or("is_distilled", false);
  expect_class(index, "text_encoder", "Qwen3ForCausalLM");
  expect_class(index, "transformer", "Flux2Transformer2DModel");
  expect_class(index, "vae", "AutoencoderKLFlux2");
  DIF_TRY(index.finish());
  DIF_TRY(expect_file(folder.path, "tokenizer/tokenizer.json"));
  DIF_TRY(expect_file(folder.path, "scheduler/scheduler_config.json"));

  DIF_ASSIGN(ComponentFiles text_encoder, open_component(folder.path, "text_encoder", nullptr));
  DIF_ASSIGN(ComponentFiles transformer,
             open_component(folder.path, "transformer", holds_transformer, folder.files.transformer));
  DIF_ASSIGN(ComponentFiles vae, open_component(folder.path, "vae", holds_vae, folder.files.vae));
  auto transformer_keys = transformer_layout(transformer.checkpoint);
  auto vae_keys = vae_layout(vae.checkpoint);
  auto model = std::make_unique<Flux2Model>(
      std::move(folder), family, Part{std::move(text_encoder), std::make_unique<KeyLayout>()},
      Part{std::move(transformer), std::move(transformer_keys)}, Part{std::move(vae), std::move(vae_keys)});
  DIF_TRY(model->validate(is_distilled));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace dif::frontends::flux2

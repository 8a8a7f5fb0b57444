#include "generation_request.h"

#include <fmt/format.h>

#include <charconv>
#include <random>
#include <tuple>

#include "base/error.h"
#include "base/parse_number.h"
#include "cli/dtype_options.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/tool.h"
#include "io/png.h"
#include "io/printable.h"
#include "opt/pipeline.h"
#include "pipelines/chain_builder.h"
#include "pipelines/decode_choice.h"
#include "pipelines/generation_record.h"
#include "pipelines/model_digest.h"

namespace dif::tools {

using frontends::Model;

namespace {

constexpr std::uint64_t kDefaultSeed = 42;

Result<std::uint64_t> parse_seed(const std::string& text) {
  if (text == "-1") {
    std::random_device random;
    return random() & 0x7fffffffU;
  }
  const auto seed = parse_number<std::uint64_t>(text);
  if (!seed)
    return invalid_input("--seed {}: expected a whole number from 0 to 2^64-1, or -1 to draw one",
                         io::printable(text, 40));
  if (*seed > UINT32_MAX)
    cli::print_warning(
        fmt::format("seed {}: only its low 32 bits count, as in PyTorch ({})", *seed, *seed & UINT32_MAX));
  return *seed;
}

/// Width and height.
Result<std::pair<std::int64_t, std::int64_t>> parse_size(const std::string& text) {
  const char* const end = text.data() + text.size();
  std::int64_t width = 0, height = 0;
  const auto first = std::from_chars(text.data(), end, width);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == 'x') {
    const auto second = std::from_chars(first.ptr + 1, end, height);
    if (second.ec == std::errc() && second.ptr == end) return std::pair(width, height);
  }
  return invalid_input("--size {}: expected WIDTHxHEIGHT in pixels, such as 128x128",
                       io::printable(text, 40));
}

}  // namespace

Status GenerationRequest::read(const Model& model) {
  const frontends::GenerationDefaults defaults = model.defaults();
  std::pair asked = {defaults.width, defaults.height};
  fit_ = *fit_from_name(options_.fit);
  settings = {.steps = defaults.steps, .guidance = defaults.guidance, .text_tokens = defaults.text_tokens};
  seed = kDefaultSeed;
  if (!options_.from.empty()) DIF_TRY(take_from_picture(model, asked));
  if (given("prompt")) settings.prompt = options_.prompt;
  if (!given("prompt") && options_.from.empty())
    return invalid_input("a prompt is needed: dif generate \"a red apple\" -o apple.png");
  if (given("--negative-prompt")) settings.negative_prompt = options_.negative_prompt;
  if (given("--steps")) settings.steps = options_.steps;
  if (given("--guidance")) settings.guidance = static_cast<float>(options_.guidance);
  if (given("--text-tokens")) settings.text_tokens = options_.text_tokens;
  if (given("--size")) {
    DIF_ASSIGN(asked, parse_size(options_.size));
  }
  DIF_TRY(choose_size(model, asked));
  if (given("--seed")) {
    DIF_ASSIGN(seed, parse_seed(options_.seed));
    if (options_.seed == "-1") cli::say(fmt::format("seed {}\n", seed));
  }
  DIF_TRY(choose_dtypes());
  DIF_TRY(choose_noise());
  if (given("--passes")) passes_text = options_.passes;
  DIF_ASSIGN(opt::Pipeline passes, opt::parse_pipeline(passes_text));
  if (passes_text != "default") settings.passes = std::move(passes);
  DIF_TRY(choose_decode());
  settings.allow_nonfinite = options_.allow_nonfinite;
  settings.strict_prompt = options_.strict_prompt;
  warn_of_guidance(model);
  return ok();
}

void GenerationRequest::warn_of_guidance(const Model& model) const {
  if (!given("--guidance")) return;
  if (!model.supports_guidance() && settings.guidance != 1.0f)
    cli::print_warning("this model is distilled: guidance has no effect");
  if (model.supports_guidance() && !guidance_is_active(model, settings.guidance))
    cli::print_warning(
        fmt::format("guidance {}: one evaluation a step, without the negative prompt", settings.guidance));
}

bool GenerationRequest::given(const std::string& option) const {
  return command_.given(option);
}

/// The option, or what a picture's record said.
Status GenerationRequest::choose_noise() {
  const std::string text = given("--rng") || options_.from.empty() ? options_.rng : recorded_rng_;
  if (text != "torch-cuda") {  // only that one is the card's business
    DIF_ASSIGN(settings.noise_source, parse_noise_source(text, "", 0));
    return ok();
  }
  DIF_ASSIGN(const auto library, backend_.load(&backend_choice));
  DIF_ASSIGN(const std::string probe, library->probe());
  DIF_ASSIGN(settings.noise_source, parse_noise_source(text, probe, backend_.device));
  return ok();
}

Status GenerationRequest::choose_decode() {
  const bool tiles = given("--tile-size") || given("--tile-overlap");
  if (given("--decode")) settings.decode.way = *decode_way_from_name(options_.decode);
  if (given("--tile-size")) settings.decode.tile_size = options_.tile_size;
  if (given("--tile-overlap")) settings.decode.tile_overlap = options_.tile_overlap;
  if (tiles && settings.decode.way != DecodeWay::kTiles)
    return invalid_input(
        "--tile-size and --tile-overlap say how --decode tiles works, which is not asked for");
  return ok();
}

/// Options that were not given keep what a picture's record said.
Status GenerationRequest::choose_dtypes() {
  if (given("--dtype") && dtypes_.dtype == "auto") {
    DIF_ASSIGN(const auto library, backend_.load(&backend_choice));
    DIF_ASSIGN(settings.dtype, cli::auto_dtype(*library, backend_.device, &dtype_choice));
  } else if (given("--dtype")) {
    dtype_choice = "chosen";
  }
  for (const auto& [option, name, dtype] :
       {std::tuple("--dtype", &dtypes_.dtype, &settings.dtype),
        std::tuple("--vae-dtype", &dtypes_.vae_dtype, &settings.vae_dtype),
        std::tuple("--state-dtype", &dtypes_.state_dtype, &settings.state_dtype)}) {
    if (!given(option) || (dtype == &settings.dtype && *name == "auto")) continue;
    DIF_ASSIGN(*dtype, cli::parse_dtype(option, *name, {DType::kF32, DType::kBF16},
                                        dtype == &settings.dtype ? "auto" : ""));
  }
  if (given("--noise-dtype") || options_.from.empty()) {
    DIF_ASSIGN(settings.noise_dtype, cli::parse_dtype("--noise-dtype", options_.noise_dtype,
                                                      {DType::kF32, DType::kBF16, DType::kF16}));
  }
  return ok();
}

Status GenerationRequest::choose_size(const Model& model, std::pair<std::int64_t, std::int64_t> asked) {
  DIF_ASSIGN(size, fit_size(asked.first, asked.second, model.size_multiple(), fit_));
  settings.width = size.drawn_width;
  settings.height = size.drawn_height;
  if (std::pair(size.width, size.height) != asked)
    cli::print_warning(fmt::format("{}x{} is drawn as {}x{}, the nearest size of this model", asked.first,
                                   asked.second, size.width, size.height));
  return ok();
}

Status GenerationRequest::take_from_picture(const Model& model,
                                            std::pair<std::int64_t, std::int64_t>& asked) {
  DIF_ASSIGN(const auto texts, io::read_png_text(options_.from));
  DIF_ASSIGN(const GenerationRecord record, find_generation_record(texts, options_.from));
  settings.prompt = record.prompt;
  settings.negative_prompt = record.negative_prompt;
  asked = {record.width, record.height};
  if (record.padded && !given("--fit")) fit_ = Fit::kPad;
  settings.steps = record.steps;
  settings.guidance = static_cast<float>(record.guidance);
  settings.text_tokens = record.text_tokens;
  settings.dtype = dtype_from_name(record.dtype).value_or(DType::kF32);
  settings.vae_dtype = dtype_from_name(record.vae_dtype).value_or(DType::kF32);
  settings.state_dtype = dtype_from_name(record.state_dtype).value_or(DType::kF32);
  settings.noise_dtype = dtype_from_name(record.noise_dtype).value_or(DType::kF32);
  recorded_rng_ = record.rng;
  dtype_choice = "as recorded";
  passes_text = record.passes;
  settings.decode = {*decode_way_from_name(record.decode), record.tile_size, record.tile_overlap,
                     static_cast<std::uint64_t>(record.slab_bytes)};
  seed = record.seed;
  DIF_ASSIGN(model_digest, BackgroundDigest(model, cache_).get(cli::stop_requested));
  if (!record.model_digest.empty() && !model_digest.starts_with(record.model_digest))
    cli::print_warning(fmt::format("{} was made with another model ({}), this one is {}", options_.from,
                                   record.model_name, model.name()));
  return ok();
}

}  // namespace dif::tools

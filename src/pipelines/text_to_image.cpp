#include "pipelines/text_to_image.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "pipelines/chain_programs.h"
#include "pipelines/decode_choice.h"
#include "pipelines/picture_values.h"
#include "pipelines/prompt_reader.h"
#include "runtime/finite.h"

namespace dif {

using frontends::Chain;
using frontends::Model;
using frontends::Stage;
using ir::TensorType;
using runtime::Binding;
using runtime::DeviceValue;
using runtime::PreparedProgram;

namespace {

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

Binding bind_bytes(const TensorType& type, std::vector<std::byte>& bytes) {
  return Binding::of(type, bytes);
}

}  // namespace

class TextToImage::Implementation {
 public:
  Implementation(const Model& model, std::shared_ptr<runtime::Context> context, GenerationSettings settings,
                 GenerationObserver observer)
      : model_(model),
        context_(std::move(context)),
        settings_(std::move(settings)),
        observer_(std::move(observer)),
        programs_(model_, context_, settings_),
        prompt_reader_(model_, settings_, [this](const std::string& sentence) { warn(sentence); }) {}

  Status open() {
    begin("build", 0, "");
    DIF_TRY(programs_.build());
    decode_choice_.emplace(model_, settings_, programs_.built(chain_.decode), chain_, programs_.passes(),
                           context_->memory_cap_bytes());
    DIF_TRY(decode_choice_->fit_into_host_memory());
    end();
    if (settings_.conditioning.empty()) {
      DIF_TRY(encode_prompts());
    } else {
      DIF_TRY(take_conditioning());
    }
    DIF_TRY(prepare_loop_and_decoder());
    return model_.check_files();
  }

  Status encode_prompts() {
    DIF_TRY(tokenize());
    return encode();
  }

  Result<Picture> draw(std::uint64_t seed, const io::HostTensor* init_latents, const StepRange& range) {
    const std::int64_t end = range.end == 0 ? settings_.steps : range.end;
    if (range.first < 0 || range.first >= end || end > settings_.steps)
      return invalid_input("steps {} to {}: expected a part of the schedule's {}, at least one step",
                           range.first, end, settings_.steps);
    DIF_TRY(prepare_loop_and_decoder());
    DIF_ASSIGN(std::vector<float> initial, initial_latents(seed, init_latents));
    Picture picture;
    picture.seed = seed;
    DIF_ASSIGN(const std::vector<std::byte> latents, denoise(bytes_of(initial), range));
    picture.latents = io::HostTensor(DType::kF32, latents_type().shape, latents);
    DIF_ASSIGN(picture.image, decode(latents));
    DIF_TRY(model_.check_files());
    return picture;
  }

  Result<std::vector<io::HostTensor>> prompt_embeds() const {
    std::vector<io::HostTensor> found;
    for (const DeviceValue& embeds : embeds_) {
      io::HostTensor& tensor = found.emplace_back(embeds.type().dtype, embeds.type().shape);
      DIF_TRY(embeds.read(tensor.data));
    }
    return found;
  }

  Result<io::HostTensor> initial_latents(std::uint64_t seed) const {
    DIF_ASSIGN(const std::vector<float> values, initial_latents(seed, nullptr));
    return io::HostTensor::f32(latents_type().shape, values);
  }

  bool guided() const { return chain_.step.program.inputs.size() == 4; }
  const std::vector<StageTime>& times() const { return times_; }
  const std::vector<ProgramReport>& programs() const { return programs_.reports(); }
  std::vector<OperationTime> operation_times(const ProgramReport& report) const {
    if (!settings_.traces) return {};
    for (const Stage* stage : {&chain_.encode, &chain_.step})
      if (stage->program.name == report.name)
        return settings_.traces->of(report.name).of(stage->program, report.memory);
    return operation_times(decode_->parts().front());
  }
  std::vector<OperationTime> operation_times(const DecodePart& part) const {
    if (!settings_.traces) return {};
    return settings_.traces->of(part.program.name).of(part.program, part.memory);
  }
  std::int64_t prompt_tokens() const { return prompts_.empty() ? 0 : prompts_.front().n_tokens; }
  const Decoder& decoder() const { return *decode_; }
  const runtime::LaunchCounts& denoise_launches() const { return denoise_launches_; }
  Result<SharedMemory> memory() const {
    DIF_ASSIGN(const runtime::PreparedReport now, decode_->report());
    SharedMemory memory;
    for (const ProgramReport& program : programs_.reports()) {
      memory.predicted_arena_bytes = std::max(memory.predicted_arena_bytes, program.memory.arena_bytes);
      memory.predicted_workspace_bytes =
          std::max(memory.predicted_workspace_bytes, program.memory.workspace_bytes);
    }
    memory.arena_bytes = now.context_arena_bytes;
    memory.workspace_bytes = now.context_workspace_bytes;
    memory.device_peak_bytes = now.context_peak_bytes;
    return memory;
  }

 private:
  // --- observation
  // -------------------------------------------------------------------------------------------------
  void begin(std::string_view stage, std::uint64_t total, std::string_view unit) {
    times_.push_back({std::string(stage), 0});
    stage_start_ = std::chrono::steady_clock::now();
    if (observer_.begin) observer_.begin(stage, total, unit);
  }
  void advance(std::uint64_t done) {
    if (observer_.advance) observer_.advance(done);
  }
  void end() {
    times_.back().seconds = seconds_since(stage_start_);
    if (observer_.end) observer_.end();
  }
  void warn(const std::string& sentence) {
    if (observer_.warn && !sentence.empty()) observer_.warn(sentence);
  }

  // --- stages
  // ------------------------------------------------------------------------------------------------------
  Status tokenize() {
    begin("tokenize", 0, "");
    DIF_ASSIGN(prompts_, prompt_reader_.read(guided()));
    end();
    return ok();
  }

  /// Encodes the distinct prompts; unless the encoder is to stay, its memory is given back before the
  /// denoiser is prepared.
  Status encode() {
    begin("encode", prompts_.size(), "prompt");
    if (encoder_ == nullptr) {
      if (!keeps_encoder()) take_turns();
      DIF_ASSIGN(encoder_, programs_.prepare(chain_.encode));
    }
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      if (i == embeds_.size()) {
        DIF_ASSIGN(DeviceValue embeds, DeviceValue::create(context_, embeds_type()));
        embeds_.push_back(std::move(embeds));
      }
      DIF_TRY(encode_one(encoder_, prompts_[i], embeds_[i]));
      advance(i + 1);
    }
    if (!keeps_encoder()) encoder_.reset();
    end();
    return ok();
  }

  bool keeps_encoder() const { return settings_.keep_encoder && !takes_turns_; }

  /// The memory of the denoiser and the decoder is the encoder's for a while.
  void take_turns() {
    step_.reset();
    decode_.reset();
  }

  /// The embeddings of the settings, rounded to the denoiser's dtype.
  Status take_conditioning() {
    const std::size_t wanted = guided() ? 2 : 1;
    if (settings_.conditioning.size() != wanted)
      return invalid_input("conditioning of {} prompts: this run takes {}", settings_.conditioning.size(),
                           wanted);
    for (const io::HostTensor& given : settings_.conditioning) {
      const TensorType type = embeds_type();
      if (given.shape != type.shape)
        return invalid_input("conditioning is {}, expected {}", given.shape, type.shape);
      DIF_ASSIGN(const io::HostTensor converted, io::convert(given, type.dtype));
      if (!settings_.allow_nonfinite && !runtime::all_finite(type.dtype, converted.bytes()))
        return fail(ErrorCode::kNonFinite, "the conditioning holds NaN or infinity");
      DIF_ASSIGN(DeviceValue embeds, DeviceValue::create(context_, type));
      DIF_TRY(embeds.write(converted.bytes()));
      embeds_.push_back(std::move(embeds));
    }
    return ok();
  }

  TensorType embeds_type() const {
    return chain_.encode.program.type(chain_.encode.program.outputs.front().value);
  }

  Status encode_one(std::unique_ptr<PreparedProgram>& encoder, const text::EncodedPrompt& prompt,
                    DeviceValue& embeds) {
    const auto length = static_cast<std::int64_t>(prompt.ids.size());
    const auto id_bytes = std::as_bytes(std::span(prompt.ids));
    std::vector<std::byte> ids(id_bytes.begin(), id_bytes.end());
    std::vector<std::byte> mask;
    for (const std::int32_t keep : prompt.mask) mask.push_back(std::byte(keep != 0));
    const std::vector<Binding> inputs = {bind_bytes({DType::kI32, {1, length}}, ids),
                                         bind_bytes({DType::kBool, {1, length}}, mask)};
    const std::vector<Binding> outputs = {Binding::of(embeds)};
    trace(chain_.encode);
    DIF_TRY(encoder->run(inputs, outputs));
    std::vector<std::byte> found(embeds.type().bytes());
    DIF_TRY(embeds.read(found));
    if (settings_.allow_nonfinite || runtime::all_finite(embeds.type().dtype, found)) return ok();
    encoder.reset();
    return tl::unexpected<Error>(programs_.explain(chain_.encode, "encode", [&](PreparedProgram& program) {
      return program.run(inputs, outputs, {true});
    }));
  }

  Result<std::vector<float>> initial_latents(std::uint64_t seed, const io::HostTensor* given) const {
    const std::int64_t positions = chain_.latent_rows * chain_.latent_columns;
    const Shape drawn = {1, chain_.latent_channels, chain_.latent_rows, chain_.latent_columns};
    std::vector<float> values;
    if (given == nullptr) {
      DIF_ASSIGN(const io::HostTensor noise,
                 draw_noise(settings_.noise_source, seed, settings_.noise_dtype, drawn));
      values = pack_latents(noise.to_f32(), chain_.latent_channels, positions);
    } else if (given->shape == latents_type().shape) {
      values = given->to_f32();
    } else if (given->shape == drawn) {
      values = pack_latents(given->to_f32(), chain_.latent_channels, positions);
    } else {
      return invalid_input("initial latents are {}, expected {} (packed) or {} (as drawn)", given->shape,
                           latents_type().shape, drawn);
    }
    if (!settings_.allow_nonfinite && !std::ranges::all_of(values, [](float v) { return std::isfinite(v); }))
      return fail(ErrorCode::kNonFinite, "the initial latents hold NaN or infinity");
    return values;
  }

  Result<std::vector<std::byte>> denoise(std::vector<std::byte> latents, const StepRange& range) {
    const std::int64_t n_steps = (range.end == 0 ? settings_.steps : range.end) - range.first;
    begin("denoise", static_cast<std::uint64_t>(n_steps), "step");
    std::vector<std::byte> result(latents.size()), step_number(sizeof(std::int32_t));
    std::vector<Binding> inputs = {bind_bytes(latents_type(), latents), Binding::of(embeds_.front())};
    if (guided()) inputs.push_back(Binding::of(embeds_.back()));
    inputs.push_back(bind_bytes({DType::kI32, {1}}, step_number));
    const std::vector<Binding> outputs = {bind_bytes(latents_type(), result)};

    std::optional<std::uint32_t> bad_step;
    Status files;
    runtime::LoopOptions loop;
    loop.first_step = static_cast<std::uint32_t>(range.first);
    loop.n_steps = static_cast<std::uint32_t>(n_steps);
    loop.step_input = static_cast<std::uint32_t>(inputs.size() - 1);
    loop.carries = {{0, 0}};
    loop.wants_state = range.after_step != nullptr;
    loop.on_step = [&](const runtime::StepEvent& event) {
      advance(event.step + 1 - loop.first_step);
      files = model_.check_files();
      if (!files) return runtime::AfterStep::kStop;
      if (!event.all_finite && !settings_.allow_nonfinite) {
        bad_step = event.step;
        return runtime::AfterStep::kStop;
      }
      if (range.after_step) {
        std::vector<float> values(event.state.size() / sizeof(float));
        std::memcpy(values.data(), event.state.data(), event.state.size());
        range.after_step(event.step, values);
      }
      return runtime::AfterStep::kContinue;
    };
    trace(chain_.step);
    DIF_ASSIGN(const runtime::LaunchCounts before, step_->launches());
    const Status status = step_->run_loop(inputs, outputs, loop);
    DIF_ASSIGN(const runtime::LaunchCounts after, step_->launches());
    denoise_launches_ = after.since(before);
    if (!files) return tl::unexpected<Error>(std::move(files.error()));
    if (bad_step) {
      loop.on_step = nullptr;
      loop.wants_state = false;
      loop.n_steps = *bad_step - loop.first_step;
      if (loop.n_steps != 0) {  // once more to where its state was finite
        DIF_TRY(step_->run_loop(inputs, outputs, loop));
        std::ranges::copy(result, latents.begin());
      }
      loop.first_step = *bad_step;
      loop.n_steps = 1;
      step_.reset();
      return tl::unexpected<Error>(programs_.explain(
          chain_.step, fmt::format("denoise, step {}", *bad_step),
          [&](PreparedProgram& program) { return program.run_loop(inputs, outputs, loop, {true}); }));
    }
    if (!status) return tl::unexpected<Error>(status.error());
    end();
    return result;
  }

  Result<io::Image> decode(std::vector<std::byte> latents) {
    begin("decode", 0, "");
    image_.resize(static_cast<std::size_t>(3 * settings_.width * settings_.height));
    Status status = decode_->run(latents, image_, settings_.allow_nonfinite);
    if (!status && status.error().code != ErrorCode::kNonFinite)
      return tl::unexpected<Error>(std::move(status.error()));
    if (!status ||
        (!settings_.allow_nonfinite && !runtime::all_finite(DType::kF32, std::as_bytes(std::span(image_))))) {
      if (decode_->way() != DecodeWay::kWhole)
        return tl::unexpected<Error>(programs_.explain_parts(*decode_, latents, image_));
      const TensorType& type = chain_.decode.program.type(chain_.decode.program.outputs.front().value);
      const std::vector<Binding> inputs = {bind_bytes(latents_type(), latents)};
      const std::vector<Binding> outputs = {Binding::of(type, std::as_writable_bytes(std::span(image_)))};
      decode_.reset();
      return tl::unexpected<Error>(programs_.explain(chain_.decode, "decode", [&](PreparedProgram& program) {
        return program.run(inputs, outputs, {true});
      }));
    }
    io::Image pixels = to_pixels(image_, settings_.width, settings_.height);
    end();
    return pixels;
  }

  void trace(const Stage& stage) {
    if (settings_.traces) settings_.traces->begin(stage.program.name);
  }

  // --- helpers
  // -----------------------------------------------------------------------------------------------------
  TensorType latents_type() const {
    return {DType::kF32, {1, chain_.latent_rows * chain_.latent_columns, chain_.latent_channels}};
  }

  Status prepare_decoder() {
    const auto start = std::chrono::steady_clock::now();
    DIF_ASSIGN(decode_, decode_choice_->make([&](const ir::Program& program) {
      return programs_.prepare_program(program, chain_.decode.constants);
    }));
    if (settings_.traces)
      decode_->set_observer(
          [traces = settings_.traces](const ir::Program& part) { traces->begin(part.name); });
    DIF_TRY(decode_->reserve_host_memory());
    return programs_.add_report(*decode_, seconds_since(start));
  }

  /// Where the ring of a kept encoder is what is missing, the two take turns from now on.
  Result<std::unique_ptr<PreparedProgram>> prepare_beside_encoder(const Stage& stage) {
    auto prepared = programs_.prepare(stage);
    const bool may_help = encoder_ != nullptr && settings_.stream_encoder;
    if (prepared || prepared.error().code != ErrorCode::kOutOfMemory || !may_help) return prepared;
    takes_turns_ = true;
    encoder_.reset();
    return programs_.prepare(stage);
  }

  /// The denoiser, ahead of the decoder: its weights may be on their way while that is prepared. Nothing
  /// where it has to be second, because its weights get the memory that the decoder leaves, or where that
  /// fails.
  std::unique_ptr<PreparedProgram> begin_step(double& seconds) {
    if (step_ != nullptr || context_->is_capped()) return nullptr;
    const auto start = std::chrono::steady_clock::now();
    auto step = programs_.prepare_program(chain_.step.program, chain_.step.constants);
    seconds = seconds_since(start);
    return step ? std::move(*step) : nullptr;
  }

  /// What a draw needs and does not have: nothing, but at the start and after explain().
  Status prepare_loop_and_decoder() {
    if (step_ != nullptr && decode_ != nullptr) return ok();
    begin("prepare", 2, "program");
    double step_seconds = 0;
    std::unique_ptr<PreparedProgram> begun = begin_step(step_seconds);
    if (decode_ == nullptr) {
      Status prepared = prepare_decoder();
      if (!prepared && begun != nullptr) {
        begun.reset();  // memory for both is not there: the decoder is the first again
        prepared = prepare_decoder();
      }
      DIF_TRY(std::move(prepared));
    }
    advance(1);
    if (begun != nullptr) {
      DIF_TRY(programs_.add_report(chain_.step, *begun, step_seconds));
      step_ = std::move(begun);
    }
    if (step_ == nullptr) {
      auto step = prepare_beside_encoder(chain_.step);
      while (!step && decode_choice_->give_way(step.error())) {
        decode_.reset();
        DIF_TRY(prepare_decoder());
        step = prepare_beside_encoder(chain_.step);
      }
      if (!step) return tl::unexpected<Error>(std::move(step.error()));
      step_ = std::move(*step);
    }
    end();
    return ok();
  }

  const Model& model_;
  std::shared_ptr<runtime::Context> context_;
  GenerationSettings settings_;
  GenerationObserver observer_;
  ChainPrograms programs_;
  const Chain& chain_ = programs_.chain();
  std::optional<DecodeChoice> decode_choice_;
  PromptReader prompt_reader_;
  std::vector<text::EncodedPrompt> prompts_;  ///< the prompt, then the negative one when guided
  std::vector<DeviceValue> embeds_;
  runtime::LaunchCounts denoise_launches_;    ///< of the last one
  bool takes_turns_ = false;                  ///< a kept encoder would leave the denoiser too little memory
  std::unique_ptr<PreparedProgram> encoder_;  ///< with keep_encoder, while it does not take turns
  std::unique_ptr<PreparedProgram> step_;
  std::unique_ptr<Decoder> decode_;
  std::vector<float> image_;  ///< as the decoder gives it; kept, because fresh pages cost more than a copy
  std::vector<StageTime> times_;
  std::chrono::steady_clock::time_point stage_start_;
};

TextToImage::TextToImage(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
TextToImage::~TextToImage() = default;

Result<std::unique_ptr<TextToImage>> TextToImage::create(const Model& model,
                                                         std::shared_ptr<runtime::Context> context,
                                                         const GenerationSettings& settings,
                                                         const GenerationObserver& observer) {
  auto implementation = std::make_unique<Implementation>(model, std::move(context), settings, observer);
  DIF_TRY(implementation->open());
  return std::unique_ptr<TextToImage>(new TextToImage(std::move(implementation)));
}

Result<Picture> TextToImage::draw(std::uint64_t seed, const io::HostTensor* init_latents,
                                  const StepRange& range) {
  return implementation_->draw(seed, init_latents, range);
}

Status TextToImage::encode_prompts() {
  return implementation_->encode_prompts();
}

Result<std::vector<io::HostTensor>> TextToImage::prompt_embeds() const {
  return implementation_->prompt_embeds();
}
Result<io::HostTensor> TextToImage::initial_latents(std::uint64_t seed) const {
  return implementation_->initial_latents(seed);
}

bool TextToImage::guided() const {
  return implementation_->guided();
}
const std::vector<StageTime>& TextToImage::times() const {
  return implementation_->times();
}
const std::vector<ProgramReport>& TextToImage::programs() const {
  return implementation_->programs();
}
std::vector<OperationTime> TextToImage::operation_times(const ProgramReport& program) const {
  return implementation_->operation_times(program);
}
std::vector<OperationTime> TextToImage::operation_times(const DecodePart& part) const {
  return implementation_->operation_times(part);
}
Result<SharedMemory> TextToImage::memory() const {
  return implementation_->memory();
}
const Decoder& TextToImage::decoder() const {
  return implementation_->decoder();
}
runtime::LaunchCounts TextToImage::denoise_launches() const {
  return implementation_->denoise_launches();
}
std::int64_t TextToImage::prompt_tokens() const {
  return implementation_->prompt_tokens();
}

}  // namespace dif

/// Compares the chain of the bundled model with tensors that diffusers and transformers computed in float32
/// (tests/fixtures/emoji-klein). Bounds: seen here about a tenth of each; a wrong operation, a swapped scale
/// and shift or another rotary layout moves a boundary by 1e-2 or more. With DIF_PARITY_TABLE=FILE the
/// figures are written as Markdown (docs/parity.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "io/png.h"
#include "pipelines/chain_builder.h"
#include "pipelines/picture_values.h"
#include "tests/end_to_end/chain_runner.h"

namespace dif::test {
namespace {

constexpr double kPromptBound = 2e-6;
constexpr double kBoundaryBound = 5e-6;
constexpr double kVelocityBound = 5e-6;
constexpr double kFirstStepBound = 2e-6;
constexpr double kLastStepBound = 2e-5;
constexpr int kPictureBound = 1;
/// Times the distance from f32 that diffusers has in bf16.
constexpr double kBf16Bound = 1.2;

/// Rows of docs/parity.md, in the order in which they were measured.
class Table {
 public:
  static Table& instance() {
    static Table table;
    return table;
  }
  void add(const std::string& what, const std::string& where, double found, double bound) {
    rows_ += fmt::format("| {} | {} | {:.2g} | {:.2g} |\n", what, where, found, bound);
  }
  ~Table() {
    const char* path = std::getenv("DIF_PARITY_TABLE");
    if (path == nullptr) return;
    std::ofstream(path) << "| case | what | found | bound |\n|---|---|---|---|\n" << rows_;
  }

 private:
  std::string rows_;
};

struct Case {
  std::string name, prompt, file;
  std::uint64_t seed = 0;
  GenerationSettings settings;
};

GenerationSettings settings_of(const nlohmann::json& entry) {
  GenerationSettings settings;
  settings.prompt = entry.at("prompt");
  settings.steps = entry.at("steps");
  settings.guidance = entry.at("guidance");
  settings.width = entry.value("w", 128);
  settings.height = entry.value("h", 128);
  return settings;
}

std::vector<Case> cases_of(const nlohmann::json& list) {
  std::vector<Case> cases;
  for (const auto& entry : list)
    cases.push_back({entry.at("name"), entry.at("prompt"), entry.value("file", ""), entry.at("seed"),
                     settings_of(entry)});
  return cases;
}

nlohmann::json document(const std::string& name) {
  return value_of(io::JsonDocument::read(fixture("emoji-klein/" + name))).value();
}

io::SafetensorsFile tensors(const std::string& name) {
  return value_of(io::open_safetensors(fixture("emoji-klein/" + name)));
}

std::vector<std::byte> mask_bytes(const io::HostTensor& mask) {
  std::vector<std::byte> bytes;
  for (const std::int64_t keep : mask.as<std::int64_t>()) bytes.push_back(std::byte(keep != 0));
  return bytes;
}

std::vector<std::byte> id_bytes(const io::HostTensor& ids) {
  std::vector<std::int32_t> narrow;
  for (const std::int64_t id : ids.as<std::int64_t>()) narrow.push_back(static_cast<std::int32_t>(id));
  return bytes_of(std::span<const std::int32_t>(narrow));
}

std::vector<std::byte> step_bytes(std::int32_t step) {
  return bytes_of(std::span<const std::int32_t>(&step, 1));
}

ir::Output boundary(const ir::Program& program, const std::string& name) {
  for (const auto& candidate : program.provenance.boundaries)
    if (candidate.name == name) return {name, candidate.value};
  throw std::runtime_error("the frontend records no boundary " + name);
}

/// One row of a [rows, ...] f32 tensor.
std::span<const float> row(const io::HostTensor& tensor, std::size_t index) {
  const auto values = tensor.as<float>();
  const std::size_t width = values.size() / static_cast<std::size_t>(tensor.shape.dim(0));
  return values.subspan(index * width, width);
}

int largest_difference(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  if (a.size() != b.size()) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
  return largest;
}

class Parity : public ::testing::Test {
 protected:
  std::unique_ptr<frontends::Model> model_ = value_of(frontends::open_model(model_dir()));
  std::shared_ptr<runtime::Context> context_ = test_context();
};

TEST_F(Parity, PromptsVelocitiesLatentsAndPicturesOfEveryFixtureCase) {
  for (const Case& one : cases_of(document("fixtures.json").at("cases"))) {
    SCOPED_TRACE(one.name);
    const auto expected = tensors(one.file);
    const auto chain = value_of(build_chain(*model_, one.settings));

    // Prompt embeddings
    StageRunner encode(context_, chain.encode);
    std::vector<std::vector<std::byte>> embeds;
    for (const std::string prefix : {"", "negative_"}) {
      auto outputs = encode.run({id_bytes(tensor_of(expected, prefix + "input_ids")),
                                 mask_bytes(tensor_of(expected, prefix + "attention_mask"))});
      const io::HostTensor& found = outputs.at("prompt_embeds");
      const double error =
          relative_l2(found.as<float>(), tensor_of(expected, prefix + "prompt_embeds").as<float>());
      Table::instance().add(one.name, prefix + "prompt_embeds", error, kPromptBound);
      EXPECT_LE(error, kPromptBound) << prefix << "prompt_embeds";
      embeds.push_back(bytes_of(found));
    }

    // Velocities of steps 0 and 10 on the reference's own latents
    StageRunner step(context_, chain.step, {boundary(chain.step.program, "transformer.proj_out")});
    const io::HostTensor initial = tensor_of(expected, "initial_latents");
    const io::HostTensor states = tensor_of(expected, "latents_steps");
    const io::HostTensor conditional = tensor_of(expected, "noise_pred_cond");
    const io::HostTensor unconditional = tensor_of(expected, "noise_pred_uncond");
    const io::HostTensor predicted_steps = tensor_of(expected, "pred_steps");
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t number = predicted_steps.as<std::int64_t>()[i];
      const auto latents =
          number == 0 ? bytes_of(initial) : bytes_of(row(states, static_cast<std::size_t>(number) - 1));
      auto outputs = step.run({latents, embeds[0], embeds[1], step_bytes(static_cast<std::int32_t>(number))});
      const io::HostTensor& velocity = outputs.at("transformer.proj_out");
      const double error_u = relative_l2(row(velocity, 0), row(unconditional, i));
      const double error_c = relative_l2(row(velocity, 1), row(conditional, i));
      Table::instance().add(one.name, fmt::format("velocity of step {}", number), std::max(error_u, error_c),
                            kVelocityBound);
      EXPECT_LE(error_u, kVelocityBound) << "unconditional velocity, step " << number;
      EXPECT_LE(error_c, kVelocityBound) << "conditional velocity, step " << number;
    }

    // The whole loop from the initial latents
    std::vector<std::byte> latents = bytes_of(initial);
    for (std::int32_t i = 0; i < one.settings.steps; ++i) {
      latents = bytes_of(step.run({latents, embeds[0], embeds[1], step_bytes(i)}).at("latents"));
      const io::HostTensor now(DType::kF32, initial.shape, latents);
      const double error = relative_l2(now.as<float>(), row(states, static_cast<std::size_t>(i)));
      const double bound = i == 0 ? kFirstStepBound : kLastStepBound;
      if (i == 0 || i + 1 == one.settings.steps)
        Table::instance().add(one.name, fmt::format("latents after step {}", i + 1), error, bound);
      EXPECT_LE(error, bound) << "latents after step " << i + 1;
    }

    StageRunner decode(context_, chain.decode);
    const io::HostTensor image = decode.run({latents}).at("image");
    const auto pixels = to_pixels(image.as<float>(), one.settings.width, one.settings.height).pixels;
    const int levels = largest_difference(pixels, tensor_of(expected, "image_u8").as<std::uint8_t>());
    Table::instance().add(one.name, "picture, levels of 255", levels, kPictureBound);
    EXPECT_LE(levels, kPictureBound);
  }
}

/// The part of a full boundary that the fixture stores.
std::vector<float> stored_part(const io::HostTensor& full, const nlohmann::json& entry, const Shape& stored) {
  const auto values = full.as<float>();
  const std::string rule = entry.at("stored");
  if (rule == "whole") return {values.begin(), values.end()};
  const auto shape = entry.at("full_shape").get<std::vector<std::size_t>>();
  std::size_t width = 1;
  for (std::size_t axis = 2; axis < shape.size(); ++axis) width *= shape[axis];
  std::vector<std::size_t> rows;
  if (rule.starts_with("rows"))
    for (std::size_t i = 0; i < shape[1]; ++i)
      if (i < 24 || i % 32 == 0) rows.push_back(i);
  if (rule.starts_with("channels"))
    for (std::size_t i = 0; i < shape[1]; i += 8) rows.push_back(i);
  EXPECT_EQ(rows.size(), static_cast<std::size_t>(stored.dim(1))) << rule;
  std::vector<float> part;
  for (const std::size_t r : rows)
    part.insert(part.end(), values.begin() + static_cast<std::ptrdiff_t>(r * width),
                values.begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
  return part;
}

/// The reference of a boundary. The fixture holds one of them rounded to f16, 2.2e-4 away from float64, so
/// that one is judged against float64 (scripts/oracle/decoder_f64.py).
io::HostTensor reference_of(const io::SafetensorsFile& boundaries, const std::string& name) {
  if (name != "vae.decoder.conv_norm_out") return tensor_of(boundaries, name);
  return tensor_of(value_of(io::open_safetensors(fixture("emoji-klein-f64/conv_norm_out.safetensors"))),
                   name);
}

/// Runs one program with all of its boundaries exposed and compares those that the fixture has, in program
/// order: the first one that fails is where the program leaves the reference.
std::map<std::string, io::HostTensor> compare_boundaries(std::shared_ptr<runtime::Context> context,
                                                         const frontends::Stage& stage,
                                                         std::vector<std::vector<std::byte>> inputs,
                                                         std::vector<std::string>& compared) {
  const auto expected = tensors("boundaries.safetensors");
  const nlohmann::json facts = document("more.json").at("boundaries").at("tensors");
  std::vector<ir::Output> exposed;
  for (const auto& candidate : stage.program.provenance.boundaries)
    if (facts.contains(candidate.name)) exposed.push_back({candidate.name, candidate.value});
  std::ranges::stable_sort(exposed, {}, &ir::Output::value);
  StageRunner runner(std::move(context), stage, exposed);
  auto outputs = runner.run(std::move(inputs));
  std::string first;
  for (const ir::Output& one : exposed) {
    const io::HostTensor reference = reference_of(expected, one.name);
    const auto part = stored_part(outputs.at(one.name), facts.at(one.name), reference.shape);
    const double error = relative_l2(part, reference.as<float>());
    Table::instance().add("boundaries", one.name, error, kBoundaryBound);
    if (error > kBoundaryBound && first.empty())
      first = fmt::format("{} (relative L2 {:.3g})", one.name, error);
    compared.push_back(one.name);
  }
  EXPECT_EQ(first, "") << "is the first boundary that differs";
  return outputs;
}

TEST_F(Parity, EveryBoundaryOfTheThreeProgramsInOrder) {
  const nlohmann::json facts = document("more.json").at("boundaries");
  const auto frog = tensors("frog-light-blue.safetensors");
  const auto chain = value_of(build_chain(*model_, settings_of(facts)));
  std::vector<std::string> compared;
  auto encoded = compare_boundaries(
      context_, chain.encode,
      {id_bytes(tensor_of(frog, "input_ids")), mask_bytes(tensor_of(frog, "attention_mask"))}, compared);
  auto stepped = compare_boundaries(
      context_, chain.step,
      {bytes_of(tensor_of(frog, "initial_latents")), bytes_of(encoded.at("prompt_embeds")), step_bytes(0)},
      compared);
  compare_boundaries(context_, chain.decode, {bytes_of(stepped.at("latents"))}, compared);
  std::ranges::sort(compared);
  std::vector<std::string> all;
  for (const auto& [name, entry] : facts.at("tensors").items()) all.push_back(name);
  std::ranges::sort(all);
  EXPECT_EQ(compared, all) << "every boundary of the fixture is compared";
}

TEST_F(Parity, OtherSettingsGiveTheSameLatentsAndPictures) {
  const auto expected = tensors("settings.safetensors");
  for (const Case& one : cases_of(document("more.json").at("settings").at("cases"))) {
    SCOPED_TRACE(one.name);
    auto pipeline = value_of(TextToImage::create(*model_, context_, one.settings, {}));
    const Picture picture = value_of(pipeline->draw(one.seed));
    const double error =
        relative_l2(picture.latents.as<float>(), tensor_of(expected, one.name + ".latents").as<float>());
    Table::instance().add(one.name, fmt::format("latents after step {}", one.settings.steps), error,
                          kLastStepBound);
    EXPECT_LE(error, kLastStepBound);
    const int levels = largest_difference(picture.image.pixels,
                                          tensor_of(expected, one.name + ".image_u8").as<std::uint8_t>());
    Table::instance().add(one.name, "picture, levels of 255", levels, kPictureBound);
    EXPECT_LE(levels, kPictureBound);
  }
}

TEST_F(Parity, Bf16IsAsCloseToF32AsTheReferenceInBf16) {
  const auto reference_bf16 = tensors("bf16.safetensors");
  for (Case& one : cases_of(document("more.json").at("bf16").at("cases"))) {
    SCOPED_TRACE(one.name);
    const bool is_setting = one.name == "guidance-1";
    const auto f32 = tensors(is_setting ? "settings.safetensors" : one.name + ".safetensors");
    const io::HostTensor exact = tensor_of(f32, is_setting ? one.name + ".latents" : "latents_steps");
    const auto last =
        is_setting ? exact.as<float>() : row(exact, static_cast<std::size_t>(one.settings.steps) - 1);
    const double allowed =
        kBf16Bound * relative_l2(tensor_of(reference_bf16, one.name + ".latents_bf16").as<float>(), last);
    one.settings.dtype = DType::kBF16;
    auto pipeline = value_of(TextToImage::create(*model_, context_, one.settings, {}));
    const Picture picture = value_of(pipeline->draw(one.seed));
    const double error = relative_l2(picture.latents.as<float>(), last);
    Table::instance().add(one.name, fmt::format("bf16, latents after step {}", one.settings.steps), error,
                          allowed);
    EXPECT_LE(error, allowed);
    EXPECT_GT(error, 1e-4) << "this was not bf16";
  }
}

TEST_F(Parity, ThePictureIsTheReferencePngPixelForPixel) {
  for (const Case& one : cases_of(document("fixtures.json").at("cases"))) {
    SCOPED_TRACE(one.name);
    auto pipeline = value_of(TextToImage::create(*model_, context_, one.settings, {}));
    const Picture picture = value_of(pipeline->draw(one.seed));
    const io::Image reference =
        value_of(io::read_png(fixture("emoji-klein/" + one.name + ".png"), {.channels = 3}));
    EXPECT_LE(largest_difference(picture.image.pixels, reference.pixels), kPictureBound);
  }
}

}  // namespace
}  // namespace dif::test

// A JSON text of any bytes as each configuration of a model folder: config.json of the three parts (held
// against the shapes of the bundled model), model_index.json, dif-defaults.json, scheduler_config.json.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "frontends/blocks/qwen3.h"
#include "frontends/blocks/rotary_tables.h"
#include "frontends/family.h"
#include "frontends/flux2/component_files.h"
#include "frontends/flux2/config.h"
#include "fuzz/promise.h"
#include "io/json.h"
#include "pipelines/flow_schedule.h"
#include "pipelines/scheduler_config.h"
#include "tests/support/paths.h"

namespace {

namespace fs = std::filesystem;
using namespace dif::frontends;
using dif::fuzz::promise;

constexpr std::int64_t kLastLayer = 27;

/// One part of the bundled model.
struct Part {
  explicit Part(std::string_view component)
      : files(flux2::open_component(dif::test::model_dir(), component, nullptr)) {
    promise(files.has_value(), "the bundled model opens");
  }
  WeightSource weights() const { return {files->checkpoint, layout}; }

  dif::Result<flux2::ComponentFiles> files;
  KeyLayout layout;
};

bool is_epsilon(float value) {
  return value >= 0 && value <= 1;
}

void check_table(const RotaryTable& table) {
  for (const auto* values : {&table.cos, &table.sin})
    for (const float value : *values) promise(std::isfinite(value), "rotations are numbers");
}

void read_parts(const dif::io::JsonDocument& document) {
  static const Part text_encoder("text_encoder"), transformer("transformer"), vae("vae");
  if (const auto c = read_qwen3_config(document, text_encoder.weights(), kLastLayer)) {
    promise(c->layers >= kLastLayer && c->heads % c->kv_heads == 0, "the encoder has its layers and heads");
    promise(is_epsilon(c->eps) && c->max_positions > 0, "and its numbers");
    check_table(rotary_table_f32(3, c->head_dim, c->rope_theta));
  }
  if (const auto c = flux2::read_transformer_config(&document, transformer.weights())) {
    std::int64_t rotated = 0;
    for (const std::int64_t dim : c->rope_axes) rotated += dim;
    promise(rotated == c->head_dim, "the rotary axes make up a head");
    promise(is_epsilon(c->eps) && c->double_blocks + c->single_blocks > 0, "the transformer has blocks");
    constexpr std::array<std::int64_t, 4> kPosition = {0, 3, 5, 7};
    check_table(
        rotary_table_f64(std::array<std::array<std::int64_t, 4>, 1>{kPosition}, c->rope_axes, c->rope_theta));
  }
  if (const auto c = flux2::read_vae_config(&document, vae.weights())) {
    promise(is_epsilon(c->bn_eps) && c->scale() > 0, "the decoder has levels");
    for (const std::int64_t width : c->channels) promise(width % c->norm_groups == 0, "groups divide widths");
  }
}

void read_defaults_file(const fs::path& folder) {
  for (const bool guided : {false, true}) {
    ModelFolder model{folder, *dif::io::JsonDocument::parse("{}", "model_index.json"), "Class"};
    const auto defaults = read_defaults(model, {}, 16, guided);
    if (!defaults) continue;
    promise(defaults->width % 16 == 0 && defaults->height % 16 == 0, "sizes are on the grid");
    promise(defaults->width > 0 && defaults->width <= kMaxPixels && defaults->height > 0 &&
                defaults->height <= kMaxPixels && defaults->steps > 0 && defaults->steps <= kMaxSteps,
            "defaults are within the bounds of a request");
    promise(defaults->guidance >= 0 && defaults->guidance <= kMaxGuidance, "guidance too");
  }
}

void read_scheduler_file(const fs::path& path) {
  const auto config = dif::read_scheduler_config(path);
  if (!config) return;
  for (const std::int64_t steps : {1, 4}) {
    const auto schedule = dif::flux2_schedule(*config, 64, steps);
    if (!schedule) continue;
    promise(schedule->steps() == steps, "a schedule has its steps");
    for (const float sigma : schedule->sigmas) promise(std::isfinite(sigma), "sigmas are numbers");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = dif::io::JsonDocument::parse(text, "config.json");
  if (!document) return 0;  // the business of the target json
  read_parts(*document);

  static const dif::test::ScratchDir scratch;
  for (const char* name : {"model_index.json", "dif-defaults.json", "scheduler_config.json"})
    std::ofstream(scratch / name, std::ios::binary) << text;
  const auto model = open_model(scratch.path());
  promise(!model && !model.error().message.empty(), "an index alone is no model");
  read_defaults_file(scratch.path());
  read_scheduler_file(scratch / "scheduler_config.json");
  return 0;
}

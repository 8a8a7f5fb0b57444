#include "frontends/flux2/text_encoder.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "frontends/family.h"
#include "frontends/flux2/programs.h"

namespace dif::frontends::flux2 {

namespace fs = std::filesystem;

namespace {

const Family& klein() {
  const auto families = all_families();
  const auto found = std::ranges::find(families, "flux2-klein", &Family::name);
  DIF_CHECK(found != families.end());
  return *found;
}

}  // namespace

Result<TextEncoder> TextEncoder::open(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const fs::path home = whole.has_filename() ? whole : whole.parent_path();  // DIR/ is DIR
  DIF_ASSIGN(ComponentFiles files, open_component(home.parent_path(), home.filename().string(), nullptr));
  std::vector<std::int64_t> taps = klein().facts.text_taps;
  const KeyLayout layout;
  DIF_ASSIGN(const Qwen3Config config,
             read_qwen3_config(*files.config, {files.checkpoint, layout}, taps.back()));
  return TextEncoder(std::move(files), config, std::move(taps));
}

Result<Stage> TextEncoder::build(std::int64_t text_tokens, DType dtype) const {
  if (text_tokens < 1 || text_tokens > config_.max_positions)
    return invalid_input("{} text tokens: expected 1 to {}, the positions of this text encoder", text_tokens,
                         config_.max_positions);
  if (dtype != DType::kF32 && dtype != DType::kBF16)
    return invalid_input("{} arithmetic is not supported for FLUX.2: f32 and bf16 are", dtype_name(dtype));
  return build_encode(config_, {files_.checkpoint, layout_}, taps_, text_tokens, dtype);
}

}  // namespace dif::frontends::flux2

#include "pipelines/decode_choice.h"

#include <algorithm>

#include "base/error.h"
#include "pipelines/slab_decoder.h"
#include "pipelines/tile_decoder.h"

namespace dif {

namespace {

/// By default slabs are made for this part of the memory.
constexpr std::uint64_t kShare = 4;

/// The denoiser has its memory when the decoder does not run, and by the same arithmetic slabs for half of it
/// never need more.
std::uint64_t free_of_cost(const ir::Program& denoiser) {
  return run_bytes(denoiser) / 2;
}

}  // namespace

DecodeChoice::DecodeChoice(const frontends::Model& model, const GenerationSettings& settings,
                           const ir::Program& built, const frontends::Chain& chain, opt::Pipeline passes,
                           std::uint64_t memory_cap_bytes)
    : model_(model),
      settings_(settings),
      built_(built),
      chain_(chain),
      passes_(std::move(passes)),
      memory_cap_bytes_(memory_cap_bytes),
      way_(settings.decode.way),
      reason_(way_ == DecodeWay::kAuto ? "it fits" : "as asked"),
      slab_bytes_(settings.decode.slab_bytes) {}

Result<std::unique_ptr<Decoder>> DecodeChoice::make(const PrepareProgram& prepare) {
  if (way_ == DecodeWay::kSlabs) return make_slabs(prepare);
  if (way_ == DecodeWay::kTiles) return make_tiles(prepare);
  auto whole = make_whole_decoder(chain_.decode.program, reason_, prepare);
  if (whole || !give_way(whole.error())) return whole;
  auto slabs = make_slabs(prepare);
  if (!slabs && slabs.error().code == ErrorCode::kDeclined) return whole;  // its error says what is missing
  return slabs;
}

bool DecodeChoice::give_way(const Error& error) {
  if (settings_.decode.way != DecodeWay::kAuto || error.code != ErrorCode::kOutOfMemory) return false;
  if (way_ == DecodeWay::kSlabs) {
    const bool in_the_way = slab_bytes_ > free_of_cost(chain_.step.program);
    slab_bytes_ /= 2;
    return in_the_way;
  }
  way_ = DecodeWay::kSlabs;
  reason_ = "in one piece it does not fit: " + error.message;
  return true;
}

/// Slabs are cut from a program whose convolutions and norms are as the frontend made them.
Result<std::unique_ptr<Decoder>> DecodeChoice::make_slabs(const PrepareProgram& prepare) {
  opt::Pipeline exact = passes_;
  std::erase_if(exact, [](const opt::Pass* pass) { return !pass->exact; });
  ir::Program program = exact.size() == passes_.size() ? chain_.decode.program : built_;
  if (exact.size() != passes_.size()) DIF_TRY(opt::run(program, exact));
  const std::uint64_t whole = run_bytes(program);
  if (slab_bytes_ == 0 && memory_cap_bytes_ == 0) slab_bytes_ = whole / kShare;
  if (slab_bytes_ == 0)
    slab_bytes_ = std::min(whole, std::max(memory_cap_bytes_ / kShare, free_of_cost(chain_.step.program)));
  return make_slab_decoder(program, slab_bytes_, reason_, prepare);
}

Result<std::unique_ptr<Decoder>> DecodeChoice::make_tiles(const PrepareProgram& prepare) {
  const std::int64_t scale = model_.size_multiple();
  DIF_ASSIGN(const TileSizes sizes,
             tile_sizes(settings_.decode, settings_.height / scale, settings_.width / scale, scale));
  GenerationSettings of_a_tile = settings_;
  of_a_tile.width = sizes.tile_columns * scale;
  of_a_tile.height = sizes.tile_rows * scale;
  DIF_ASSIGN(frontends::Chain chain, build_chain(model_, of_a_tile));
  DIF_TRY(opt::run(chain.decode.program, passes_));
  return make_tile_decoder(chain.decode.program, sizes, reason_, prepare);
}

std::string decode_text(const Decoder& decoder) {
  const std::int64_t runs = [&] {
    std::int64_t all = 0;
    for (const DecodePart& part : decoder.parts()) all += part.runs;
    return all;
  }();
  switch (decoder.way()) {
    case DecodeWay::kSlabs:
      return fmt::format("decode in slabs, {} programs run {} times: {}", decoder.parts().size(), runs,
                         decoder.reason());
    case DecodeWay::kTiles:
      return fmt::format("decode in {} blended tiles, another picture than without: {}", runs,
                         decoder.reason());
    default:
      return "decode whole: " + decoder.reason();
  }
}

}  // namespace dif

#include "pipelines/decode_choice.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "ir/printer.h"
#include "pipelines/chain_builder.h"
#include "pipelines/slab_decoder.h"
#include "pipelines/tile_decoder.h"
#include "plan/plan.h"

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
  auto decoder = way_ == DecodeWay::kTiles ? make_tiles(prepare)
                                           : make_whole_decoder(chain_.decode.program, reason_, prepare);
  if (decoder || decoder.error().code != ErrorCode::kOutOfMemory) return decoder;
  if (!give_way(decoder.error())) return with_context(std::move(decoder.error()), "{}", smaller_way());
  auto slabs = make_slabs(prepare);
  if (!slabs && slabs.error().code == ErrorCode::kDeclined) return decoder;  // its error says what is missing
  return slabs;
}

/// They keep images in host memory: they spare the memory of a device, or what counts against a cap.
bool DecodeChoice::slabs_save_memory() const {
  return settings_.available_bytes == 0 || memory_cap_bytes_ != 0;
}

const char* DecodeChoice::smaller_way() const {
  if (way_ == DecodeWay::kTiles) return "a smaller --tile-size needs less";
  if (!slabs_save_memory()) return "--decode tiles needs less and gives another picture";
  return "--decode slabs needs less and gives the same picture";
}

std::uint64_t DecodeChoice::host_bytes(std::uint64_t arena_bytes, std::uint64_t image_bytes) const {
  for (const frontends::Stage* stage : {&chain_.encode, &chain_.step})
    arena_bytes = std::max(arena_bytes, plan::make_plan(stage->program).arena_bytes);
  const auto pixels =
      static_cast<std::uint64_t>(settings_.width) * static_cast<std::uint64_t>(settings_.height);
  image_bytes = saturating_add<std::uint64_t>(image_bytes, pixels * 3 * (sizeof(float) + 1));
  return saturating_add(arena_bytes, image_bytes);
}

Result<std::uint64_t> DecodeChoice::host_bytes_of_slabs() const {
  DIF_ASSIGN(const ir::Program program, slab_program());
  const std::uint64_t bytes = slab_bytes_ != 0 ? slab_bytes_ : default_slab_bytes(program);
  DIF_ASSIGN(const SlabLayout layout, choose_slabs(program, bytes));
  DIF_ASSIGN(const SlabBytes taken, slab_bytes(program, layout));
  return host_bytes(taken.run, taken.images);
}

Result<std::uint64_t> DecodeChoice::host_bytes_of_tiles() const {
  DIF_ASSIGN(const TileSizes sizes, sizes_of_tiles());
  DIF_ASSIGN(const ir::Program program, tile_program(sizes));
  return host_bytes(plan::make_plan(program).arena_bytes, 0);
}

Status DecodeChoice::fit_into_host_memory() {
  const std::uint64_t available = settings_.available_bytes;
  if (available == 0) return ok();
  std::uint64_t needed = 0;
  if (way_ == DecodeWay::kSlabs) {
    DIF_ASSIGN(needed, host_bytes_of_slabs());
  } else if (way_ == DecodeWay::kTiles) {
    DIF_ASSIGN(needed, host_bytes_of_tiles());
  } else {
    needed = host_bytes(plan::make_plan(chain_.decode.program).arena_bytes, 0);
  }
  if (needed <= available) return ok();
  if (way_ == DecodeWay::kAuto) reason_ = "slabs of images in the same memory would not need less";
  std::string advice = "choose a smaller size";
  const auto tiles = host_bytes_of_tiles();
  if (way_ == DecodeWay::kTiles && host_bytes(0, 0) <= available)
    advice = "choose a smaller --tile-size";
  else if (way_ != DecodeWay::kTiles && tiles && *tiles <= available)
    advice = fmt::format("--decode tiles needs {} MiB and gives another picture", *tiles >> 20);
  const std::string asked =
      way_ == DecodeWay::kAuto ? "" : fmt::format(" with --decode {}", decode_way_name(way_));
  return fail(
      ErrorCode::kOutOfMemory,
      "a picture of {}x{} with {} text tokens needs at least {} MiB of memory{}, {} MiB are available; "
      "{}",
      settings_.width, settings_.height, settings_.text_tokens, needed >> 20, asked, available >> 20, advice);
}

bool DecodeChoice::give_way(const Error& error) {
  if (settings_.decode.way != DecodeWay::kAuto || error.code != ErrorCode::kOutOfMemory) return false;
  if (!slabs_save_memory()) return false;
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
Result<ir::Program> DecodeChoice::slab_program() const {
  opt::Pipeline exact = passes_;
  std::erase_if(exact, [](const opt::Pass* pass) { return !pass->exact; });
  if (exact.size() == passes_.size()) return chain_.decode.program;
  ir::Program program = built_;
  DIF_TRY(opt::run(program, exact));
  return program;
}

std::uint64_t DecodeChoice::default_slab_bytes(const ir::Program& program) const {
  const std::uint64_t whole = run_bytes(program);
  if (memory_cap_bytes_ == 0) return whole / kShare;
  return std::min(whole, std::max(memory_cap_bytes_ / kShare, free_of_cost(chain_.step.program)));
}

Result<std::unique_ptr<Decoder>> DecodeChoice::make_slabs(const PrepareProgram& prepare) {
  DIF_ASSIGN(const ir::Program program, slab_program());
  if (slab_bytes_ == 0) slab_bytes_ = default_slab_bytes(program);
  return make_slab_decoder(program, slab_bytes_, reason_, prepare);
}

Result<TileSizes> DecodeChoice::sizes_of_tiles() const {
  const std::int64_t scale = model_.size_multiple();
  return tile_sizes(settings_.decode, settings_.height / scale, settings_.width / scale, scale);
}

Result<ir::Program> DecodeChoice::tile_program(const TileSizes& sizes) const {
  GenerationSettings of_a_tile = settings_;
  of_a_tile.width = sizes.tile_columns * sizes.scale;
  of_a_tile.height = sizes.tile_rows * sizes.scale;
  DIF_ASSIGN(frontends::Chain chain, build_chain(model_, of_a_tile));
  DIF_TRY(opt::run(chain.decode.program, passes_));
  return std::move(chain.decode.program);
}

Result<std::unique_ptr<Decoder>> DecodeChoice::make_tiles(const PrepareProgram& prepare) {
  DIF_ASSIGN(const TileSizes sizes, sizes_of_tiles());
  DIF_ASSIGN(const ir::Program program, tile_program(sizes));
  return make_tile_decoder(program, sizes, reason_, prepare);
}

std::string decode_text(const Decoder& decoder) {
  const std::int64_t runs = [&] {
    std::int64_t all = 0;
    for (const DecodePart& part : decoder.parts()) all += part.runs;
    return all;
  }();
  switch (decoder.way()) {
    case DecodeWay::kSlabs:
      return fmt::format("decode in slabs, {} programs run {} times, images of {} in host memory: {}",
                         decoder.parts().size(), runs,
                         ir::amount_text(static_cast<double>(decoder.host_image_bytes()), "B"),
                         decoder.reason());
    case DecodeWay::kTiles:
      if (runs == 1) return "decode in one tile, which is the whole picture: " + decoder.reason();
      return fmt::format("decode in {} blended tiles, another picture than without: {}", runs,
                         decoder.reason());
    default:
      return "decode whole: " + decoder.reason();
  }
}

}  // namespace dif

#include "pipelines/tile_decoder.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"

namespace dif {

using runtime::Binding;

namespace {

class TileDecoder final : public Decoder {
 public:
  TileDecoder(const TileSizes& sizes, std::string reason)
      : Decoder(DecodeWay::kTiles, std::move(reason)),
        sizes_(sizes),
        down_(AxisTiles::over(sizes.rows, sizes.tile_rows, sizes.overlap, sizes.scale)),
        across_(AxisTiles::over(sizes.columns, sizes.tile_columns, sizes.overlap, sizes.scale)) {}

  Status prepare(const ir::Program& program, const PrepareProgram& prepare) {
    return add_part(program, static_cast<std::int64_t>(down_.first.size() * across_.first.size()), 0,
                    prepare);
  }

  Status run(std::span<std::byte> latents, std::span<float> image, bool) override {
    const ir::Program& program = parts().front().program;
    const ir::TensorType &in = program.type(program.inputs.front()),
                         &out = program.type(program.outputs.front().value);
    std::vector<std::byte> tile(in.bytes());
    std::vector<float> pixels(static_cast<std::size_t>(out.numel()));
    std::ranges::fill(image, 0.0f);
    for (std::size_t i = 0; i < down_.first.size(); ++i)
      for (std::size_t j = 0; j < across_.first.size(); ++j) {
        take(latents, i, j, tile);
        const std::array inputs = {Binding::of(in, tile)};
        const std::array outputs = {Binding::of(out, std::as_writable_bytes(std::span(pixels)))};
        DIF_TRY(run_part(0, inputs, outputs));
        add(pixels, i, j, image);
      }
    return ok();
  }

 private:
  /// The latents of a tile: whole positions, row by row.
  void take(std::span<const std::byte> latents, std::size_t i, std::size_t j,
            std::span<std::byte> tile) const {
    const std::size_t position =
                          tile.size() / static_cast<std::size_t>(sizes_.tile_rows * sizes_.tile_columns),
                      row = static_cast<std::size_t>(sizes_.tile_columns) * position;
    for (std::int64_t r = 0; r < sizes_.tile_rows; ++r) {
      const auto from =
          static_cast<std::size_t>((down_.first[i] + r) * sizes_.columns + across_.first[j]) * position;
      std::ranges::copy(latents.subspan(from, row), tile.begin() + r * static_cast<std::int64_t>(row));
    }
  }

  void add(std::span<const float> pixels, std::size_t i, std::size_t j, std::span<float> image) const {
    const std::int64_t height = sizes_.rows * sizes_.scale, width = sizes_.columns * sizes_.scale;
    const std::vector<float>&down = down_.weights[i], &across = across_.weights[j];
    const float* from = pixels.data();
    for (std::int64_t colour = 0; colour < 3; ++colour)
      for (std::size_t r = 0; r < down.size(); ++r, from += across.size()) {
        const std::int64_t row =
            colour * height + down_.first[i] * sizes_.scale + static_cast<std::int64_t>(r);
        float* const to = image.data() + row * width + across_.first[j] * sizes_.scale;
        for (std::size_t c = 0; c < across.size(); ++c) to[c] += down[r] * across[c] * from[c];
      }
  }

  const TileSizes sizes_;
  const AxisTiles down_, across_;
};

}  // namespace

AxisTiles AxisTiles::over(std::int64_t length, std::int64_t size, std::int64_t overlap, std::int64_t scale) {
  AxisTiles tiles;
  tiles.size = std::min(length, size);
  const std::int64_t n = 1 + ceil_div(length - tiles.size, std::max<std::int64_t>(1, tiles.size - overlap));
  for (std::int64_t i = 0; i < n; ++i)  // spread evenly, so that the overlap is about the same everywhere
    tiles.first.push_back(n == 1 ? 0 : (length - tiles.size) * i / (n - 1));
  // Pixels that tile i shares with the one after it.
  const auto shared = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    return i < 0 || i == n - 1 ? 0 : (tiles.first[at] + tiles.size - tiles.first[at + 1]) * scale;
  };
  std::vector<float> total(static_cast<std::size_t>(length * scale));
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<float>& weights = tiles.weights.emplace_back();
    const std::int64_t before = shared(i - 1), after = shared(i), pixels = tiles.size * scale;
    const auto first = static_cast<std::size_t>(tiles.first[static_cast<std::size_t>(i)] * scale);
    for (std::int64_t p = 0; p < pixels; ++p) {  // 0 would be half a pixel outside of the tile
      double weight = 1;
      if (p < before) weight *= (static_cast<double>(p) + 0.5) / static_cast<double>(before);
      if (pixels - p <= after) weight *= (static_cast<double>(pixels - p) - 0.5) / static_cast<double>(after);
      weights.push_back(static_cast<float>(weight));
      total[first + static_cast<std::size_t>(p)] += weights.back();
    }
  }
  for (std::size_t i = 0; i < tiles.first.size(); ++i)
    for (std::size_t p = 0; p < tiles.weights[i].size(); ++p)
      tiles.weights[i][p] /= total[static_cast<std::size_t>(tiles.first[i] * scale) + p];
  return tiles;
}

Result<TileSizes> tile_sizes(const DecodeOptions& options, std::int64_t rows, std::int64_t columns,
                             std::int64_t scale) {
  if (options.tile_size < scale || options.tile_size % scale != 0)
    return invalid_input("--tile-size {}: expected a multiple of {} pixels, {} at the least",
                         options.tile_size, scale, scale);
  if (options.tile_overlap < 0 || options.tile_overlap % scale != 0 ||
      options.tile_overlap > options.tile_size / 2)
    return invalid_input("--tile-overlap {}: expected a multiple of {} pixels, at most half a tile: 0 to {}",
                         options.tile_overlap, scale, options.tile_size / 2 / scale * scale);
  const std::int64_t size = options.tile_size / scale;
  return TileSizes{.rows = rows,
                   .columns = columns,
                   .tile_rows = std::min(size, rows),
                   .tile_columns = std::min(size, columns),
                   .overlap = options.tile_overlap / scale,
                   .scale = scale};
}

Result<std::unique_ptr<Decoder>> make_tile_decoder(const ir::Program& program, const TileSizes& sizes,
                                                   std::string reason, const PrepareProgram& prepare) {
  const ir::TensorType& image = program.type(program.outputs.front().value);
  DIF_CHECK(image.shape == (Shape{1, 3, sizes.tile_rows * sizes.scale, sizes.tile_columns * sizes.scale}));
  auto decoder = std::make_unique<TileDecoder>(sizes, std::move(reason));
  DIF_TRY(decoder->prepare(program, prepare));
  return decoder;
}

}  // namespace dif

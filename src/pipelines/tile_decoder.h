#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dif/status.h"
#include "ir/program.h"
#include "pipelines/decoder.h"

namespace dif {

/// Tiles along one axis of the latents, all of one size, that cover it and overlap. What each gives to a
/// pixel are weights that add up to 1: they fall to 0 in a straight line where the next tile comes in.
struct AxisTiles {
  std::int64_t size = 0;                    ///< positions of the latents
  std::vector<std::int64_t> first;          ///< of each tile, likewise
  std::vector<std::vector<float>> weights;  ///< of each tile, for its size * scale pixels

  /// As few tiles as overlap by `overlap` positions or more. Pre: size >= 1, 0 <= overlap <= size / 2.
  static AxisTiles over(std::int64_t length, std::int64_t size, std::int64_t overlap, std::int64_t scale);
};

/// The sizes of a tiled decode, in positions of the latents; a position is `scale` pixels wide and high.
struct TileSizes {
  std::int64_t rows = 0, columns = 0;            ///< of the picture
  std::int64_t tile_rows = 0, tile_columns = 0;  ///< what `program` decodes
  std::int64_t overlap = 0;
  std::int64_t scale = 1;
};

/// The sizes for a picture of rows x columns positions. Errors: InvalidInput (a tile that is no multiple of
/// `scale` pixels, or an overlap of more than half of it).
Result<TileSizes> tile_sizes(const DecodeOptions& options, std::int64_t rows, std::int64_t columns,
                             std::int64_t scale);

/// A decode in tiles by `program`, which decodes one of them: f32 [1, tile_rows * tile_columns, C] to f32
/// [1, 3, ...]. Each tile is normalised by itself, so the picture is another one.
Result<std::unique_ptr<Decoder>> make_tile_decoder(const ir::Program& program, const TileSizes& sizes,
                                                   std::string reason, const PrepareProgram& prepare);

}  // namespace dif

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "frontends/constant_set.h"
#include "ir/builder.h"

namespace dif::frontends {

/// Cosines and sines of the rotation angles, [positions, pairs], row-major.
struct RotaryTable {
  std::int64_t positions = 0;
  std::int64_t pairs = 0;
  std::vector<float> cos, sin;
};

/// Positions 0 .. n-1, `dim` rotated dimensions, angle = position * theta^(-2i/dim). Frequencies, angles and
/// their cosines are f32, as in transformers (modeling_qwen3.py, Qwen3RotaryEmbedding).
RotaryTable rotary_table_f32(std::int64_t n, std::int64_t dim, double theta);

/// One row per position, which has a coordinate for each of four axes; axis a rotates axes_dims[a]
/// dimensions, one axis after another. Frequencies and angles are f64, rounded to f32 at the end, as in
/// diffusers (transformer_flux2.py, Flux2PosEmbed). Pre: axes_dims are even.
RotaryTable rotary_table_f64(std::span<const std::array<std::int64_t, 4>> positions,
                             const std::array<std::int64_t, 4>& axes_dims, double theta);

/// The two tables as constants of a program.
struct Rotation {
  ir::Value cos, sin;  ///< f32 [positions, pairs]
};
/// Adds `table` to the constants as `prefix`.cos and `prefix`.sin.
Rotation add_rotary_table(ir::Builder& b, ConstantSet& constants, const std::string& prefix,
                          const RotaryTable& table);

/// Rotates all of x [B, S, H, D]: pairs (x[i], x[i + D/2]), the arithmetic in dtype(x). transformers rounds
/// the tables and each product to that dtype, so anything but f32 is composed from single operations.
ir::Value rotate_half_split(ir::Builder& b, ir::Value x, const Rotation& rotation);

}  // namespace dif::frontends

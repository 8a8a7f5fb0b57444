#pragma once

#include <string>

#include "ir/program.h"

/// Programs as text for people (docs/difir.md):
///
///     program step
///
///     inputs
///       %0 = latents : f32[1, 64, 32]
///     constants
///       %3 = x_embedder.weight : f32[192, 32]
///     operations
///       # transformer.x_embedder
///       %4 = linear(%latents, %x_embedder.weight) : f32[1, 64, 192]
///       %5 = mul_scalar(%4) {value = 0.5} : f32[1, 64, 192]
///     outputs
///       y = %5
///
/// A number after % is the value's identifier, as in messages; inputs and constants go by their name where it
/// is plain and unique. What follows # is a comment.
namespace dif::ir {

struct PrintOptions {
  bool modules = true;  ///< a comment line where the module path changes, and boundaries
  bool costs = false;   ///< FLOPs and bytes moved of each operation, and the totals
};

std::string to_text(const Program& program, const PrintOptions& options = {});

/// The line of one operation, without comments.
std::string op_text(const Program& program, OpId op);

/// "1.50 GFLOP", "12 kB": three significant digits and an SI prefix.
std::string amount_text(double amount, std::string_view unit);

}  // namespace dif::ir

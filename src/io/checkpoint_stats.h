#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace dif::io {

/// One tensor of a checkpoint as its file says, whether or not this program can use its dtype.
struct CheckpointRow {
  std::string name;
  std::string dtype;  ///< the file's word: "BF16"
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::size_t shard = 0;  ///< position in Checkpoint::shards()

  std::uint64_t elements() const;
  std::string shape_text() const;  ///< "[2, 4096]"
};

/// Every tensor, shard by shard and in file order.
std::vector<CheckpointRow> checkpoint_rows(const Checkpoint& checkpoint);

struct TensorTotals {
  std::uint64_t tensors = 0, elements = 0, bytes = 0;
};

/// Tensors whose names differ by whole numbers alone ("layers.#.weight") and that have one dtype and shape.
struct ShapePattern {
  std::string name;
  std::string dtype;
  std::string shape;
  TensorTotals totals;
};

/// Counts without any idea of what the model is.
struct CheckpointStats {
  TensorTotals all;
  std::map<std::string, TensorTotals> by_dtype;
  std::map<std::size_t, TensorTotals> by_rank;
  std::vector<ShapePattern> patterns;  ///< of two tensors or more, by name
  std::vector<CheckpointRow> largest;  ///< by bytes, then name
};

/// At most `top` rows in `largest`.
CheckpointStats checkpoint_stats(const std::vector<CheckpointRow>& rows, std::size_t top);

/// `name` with each run of digits that stands alone between dots replaced by #:
/// "layers.12.attn.to_out.0.weight" -> "layers.#.attn.to_out.#.weight".
std::string numbered_pattern(std::string_view name);

}  // namespace dif::io

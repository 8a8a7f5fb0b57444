#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "frontends/blocks/weight_source.h"

namespace dif::frontends {

/// Holds what a config.json says against the shapes in the checkpoint. Shapes win: each function returns what
/// the checkpoint says; a disagreement is noted, and finish() reports all of them, naming both sides.
class ShapeAudit {
 public:
  /// `config` names the configuration in messages.
  ShapeAudit(const WeightSource& weights, std::string config)
      : weights_(weights), config_(std::move(config)) {}

  /// Dimension `axis` of `tensor`, which the configuration calls `key` and gives as `claimed` (nothing when
  /// there is no configuration). Without the tensor: what is claimed, or 0.
  std::int64_t dimension(std::string_view key, std::optional<std::int64_t> claimed, std::string_view tensor,
                         int axis);
  /// The number of blocks, found by tensors named with # for the block's number.
  std::int64_t blocks(std::string_view key, std::optional<std::int64_t> claimed,
                      std::initializer_list<std::string_view> numbered_names);
  /// Whether `tensor` exists.
  bool part(std::string_view key, std::optional<bool> claimed, std::string_view tensor);
  /// A size that follows from `tensor`'s shape.
  std::int64_t derived(std::string_view key, std::optional<std::int64_t> claimed, std::string_view tensor,
                       std::int64_t stored);

  Status finish() const;

 private:
  std::string describe(std::string_view tensor) const;

  const WeightSource& weights_;
  std::string config_;
  std::vector<std::string> problems_;
};

}  // namespace dif::frontends

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dif/dtype.h"
#include "dif/status.h"
#include "frontends/blocks/qwen3.h"
#include "frontends/blocks/weight_source.h"
#include "frontends/flux2/config.h"
#include "frontends/model.h"

namespace dif::frontends::flux2 {

/// The three programs of a picture; inputs and outputs as frontends::Chain promises. Each checks that its
/// checkpoint holds what it needs and nothing else. Errors: InvalidInput.

Result<Stage> build_encode(const Qwen3Config& config, const WeightSource& weights,
                           std::span<const std::int64_t> taps, std::int64_t text_tokens, DType dtype);

struct StepGeometry {
  std::int64_t rows = 0;  ///< of latent tokens
  std::int64_t columns = 0;
  std::int64_t text_tokens = 0;
  std::int64_t steps = 0;
  std::optional<float> guidance;
  DType dtype = DType::kF32;
  DType state_dtype = DType::kF32;  ///< as in ChainRequest
};
Result<Stage> build_step(const TransformerConfig& config, const WeightSource& weights,
                         const StepGeometry& geometry);

Result<Stage> build_decode(const VaeConfig& config, const WeightSource& weights, std::int64_t rows,
                           std::int64_t columns, DType dtype);

}  // namespace dif::frontends::flux2

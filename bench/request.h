#pragma once

#include <cstdint>
#include <string>

#include "dif/status.h"
#include "frontends/model.h"
#include "pipelines/text_to_image.h"

namespace dif::bench {

/// A picture that scripts/bench asks for.
struct Request {
  GenerationSettings settings;
  std::uint64_t seed = 42;
  std::string out;  ///< prefix of the files to write; empty: none
};

/// Reads {"prompt", "seed", "out", "width", "height", "steps", "guidance", "text_tokens", "dtype"}; an absent
/// key is what the model's defaults say. Errors: InvalidInput.
Result<Request> parse_request(const frontends::Model& model, const std::string& line);

}  // namespace dif::bench

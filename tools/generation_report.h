#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "dif/status.h"
#include "pipelines/picture_size.h"
#include "pipelines/text_to_image.h"

namespace dif::cli {
class Progress;
}

namespace dif::tools {

/// What a tool that draws pictures knows beside the pipeline itself.
struct GenerationFacts {
  const frontends::Model& model;
  const GenerationSettings& settings;
  PictureSize size;
  std::string model_digest, backend_name, backend_choice, dtype_choice;
};

/// The document of a run: request, model, backend, programs, memory, stages. The tool adds its pictures.
Result<nlohmann::ordered_json> generation_document(const GenerationFacts& facts, const TextToImage& pipeline);

/// The text of such a document; names of a hostile model may not be UTF-8.
std::string generation_text(const nlohmann::ordered_json& document);

/// Shows stages on `progress` and warnings on stderr. `progress` outlives the result.
GenerationObserver observer_of(cli::Progress& progress);

/// What this process can still have, for a backend that keeps everything in host memory; 0 = not known.
std::uint64_t available_memory(const std::string& backend);

}  // namespace dif::tools

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "frontends/synthetic/synthetic_model.h"

namespace dif::frontends::flux2 {

/// FLUX.2 klein 4B and 9B as published (the undistilled Base behaviour), and a model of two megabytes.
/// Source: the configuration files of the published models.
std::vector<std::string> klein_presets();

/// Errors: InvalidInput, naming the presets that there are.
Result<ModelDocuments> klein_preset_documents(std::string_view preset);

}  // namespace dif::frontends::flux2

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "frontends/model.h"
#include "frontends/synthetic/synthetic_model.h"
#include "io/json.h"
#include "text/chat_template.h"

namespace dif::frontends {

/// A model folder as far as every family needs it.
struct ModelFolder {
  std::filesystem::path path;
  io::JsonDocument index;  ///< model_index.json, an object
  std::string class_name;  ///< its _class_name
  ModelFiles files;

  /// The folder's own name, for people.
  std::string name() const;
};

/// What no file of a model says.
struct FamilyFacts {
  std::vector<std::int64_t> text_taps;  ///< the prompt is the hidden states after these layers
  text::ChatTemplate chat;
  GenerationDefaults defaults;
  std::int64_t distilled_steps = 0;  ///< instead of defaults.steps and .guidance when the model is distilled
  float distilled_guidance = 1.0f;
};

/// One row of families.def.
struct Family {
  std::string_view name;
  std::string_view pipeline_class;  ///< detected by the _class_name of model_index.json
  Result<std::unique_ptr<Model>> (*open)(ModelFolder folder, const Family& family) = nullptr;
  /// describe_synthetic_model for this family.
  Result<SyntheticModel> (*synthesise)(const Family& family, ModelDocuments documents,
                                       const ModelChanges& changes) = nullptr;
  FamilyFacts facts;
};

std::span<const Family> all_families();

/// `defaults` with the width, height, steps and guidance of dif-defaults.json, if the folder has one. Errors:
/// InvalidInput naming the key: sizes that are not multiples of `size_multiple`, unknown keys, absurd values,
/// guidance for a model that has none.
Result<GenerationDefaults> read_defaults(const ModelFolder& folder, GenerationDefaults defaults,
                                         std::int64_t size_multiple, bool supports_guidance);

/// The bounds of a request, which dif-defaults.json must keep too.
inline constexpr std::int64_t kMaxPixels = 8192;  ///< of one side
inline constexpr std::int64_t kMaxSteps = 10000;
inline constexpr float kMaxGuidance = 1000.0f;

}  // namespace dif::frontends

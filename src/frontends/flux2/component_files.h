#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "dif/status.h"
#include "io/checkpoint.h"
#include "io/json.h"

namespace dif::frontends::flux2 {

/// The files of one part of a model folder.
struct ComponentFiles {
  io::Checkpoint checkpoint;
  std::optional<io::JsonDocument>
      config;  ///< nothing: the weights are a creator's file without a config.json
};

/// Opens the weights and config.json of `folder`/`component`. Weights, first match: the standard names of
/// diffusers and transformers (one file or shards) in the component's folder; the one .safetensors file in
/// it, whatever its name; if `holds` is given, the one .safetensors file at the root of `folder` that holds
/// such a part (the creator's single file). config.json may be absent only in the last case. With `file` the
/// weights are that file, which `holds` must accept, and config.json may be absent too. Errors: NotFound,
/// InvalidInput.
Result<ComponentFiles> open_component(const std::filesystem::path& folder, std::string_view component,
                                      bool (*holds)(const io::Checkpoint&),
                                      const std::filesystem::path& file = {});

}  // namespace dif::frontends::flux2

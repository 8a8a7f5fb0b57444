#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace dif::cli {

/// The head that every JSON document of ours has: {"schema": "diffusion-compiler-telemetry", "kind": kind,
/// "version": 1, "provenance": {program, version}}. Members are added by the tool.
nlohmann::ordered_json telemetry_document(std::string_view kind);

}  // namespace dif::cli

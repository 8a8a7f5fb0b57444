#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace dif::runtime {
struct LaunchCounts;
}  // namespace dif::runtime

namespace dif::cli {

/// The head that every JSON document of ours has: {"schema": "diffusion-compiler-telemetry", "kind": kind,
/// "version": 1, "provenance": {program, version}}. Members are added by the tool.
nlohmann::ordered_json telemetry_document(std::string_view kind);

/// `run_launch_telemetry` of such a document.
nlohmann::ordered_json launch_telemetry(const runtime::LaunchCounts& counts);

}  // namespace dif::cli

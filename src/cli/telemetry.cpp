#include "cli/telemetry.h"

#include <nlohmann/json.hpp>

namespace dif::cli {

nlohmann::ordered_json telemetry_document(std::string_view kind) {
  return {{"schema", "diffusion-compiler-telemetry"},
          {"kind", kind},
          {"version", 1},
          {"provenance", {{"program", "diffusion-compiler"}, {"version", DIF_VERSION}}}};
}

}  // namespace dif::cli

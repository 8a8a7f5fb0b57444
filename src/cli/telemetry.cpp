#include "cli/telemetry.h"

#include <nlohmann/json.hpp>

#include "runtime/session.h"

namespace dif::cli {

nlohmann::ordered_json telemetry_document(std::string_view kind) {
  return {{"schema", "diffusion-compiler-telemetry"},
          {"kind", kind},
          {"version", 1},
          {"provenance", {{"program", "diffusion-compiler"}, {"version", DIF_VERSION}}}};
}

nlohmann::ordered_json launch_telemetry(const runtime::LaunchCounts& counts) {
  return {{"graph_launches", counts.graph_launches},
          {"kernel_launches", counts.kernel_launches},
          {"host_stream_synchronizes", counts.host_stream_synchronizes},
          {"device_mem_allocs", counts.device_mem_allocs},
          {"copies", counts.copies}};
}

}  // namespace dif::cli

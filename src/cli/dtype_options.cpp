#include "cli/dtype_options.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"
#include "runtime/backend_library.h"

namespace dif::cli {

namespace {

/// The name under devices[device].default_dtype; empty when there is none. A plug-in's document is not ours:
/// anything may lack.
std::string named_dtype(const std::string& probe, int device) {
  const nlohmann::json parsed = io::plugin_document(probe);
  const auto index = static_cast<std::size_t>(device);
  if (!parsed.is_object() || !parsed.contains("devices") || !parsed["devices"].is_array() ||
      index >= parsed["devices"].size())
    return {};
  const auto& found = parsed["devices"][index];
  return found.is_object() && found.contains("default_dtype") && found["default_dtype"].is_string()
             ? found["default_dtype"].get<std::string>()
             : std::string();
}

}  // namespace

DtypeOptions::DtypeOptions(Command& command) {
  command
      .add_option("--dtype", dtype,
                  "arithmetic of encoder and denoiser: f32, bf16, or auto (what the backend does fast)")
      .show_default();
  command.add_option("--vae-dtype", vae_dtype, "arithmetic of the picture decoder: f32, bf16").show_default();
  command.add_option("--state-dtype", state_dtype, "what latents are rounded to between steps: f32, bf16")
      .show_default();
}

Result<DType> parse_dtype(const std::string& option, const std::string& name,
                          std::initializer_list<DType> legal, std::string_view other) {
  const auto dtype = dtype_from_name(name);
  std::string names;
  for (const DType candidate : legal) {
    if (dtype == candidate) return candidate;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", dtype_name(candidate));
  }
  return invalid_input("{} {}: expected one of {}{}{}", option, io::printable(name, 40), names,
                       other.empty() ? "" : ", ", other);
}

DType auto_dtype(const std::string& probe, const std::string& name, int device, std::string* choice) {
  const auto dtype = dtype_from_name(named_dtype(probe, device));
  if (!dtype || !is_floating(*dtype)) {
    *choice = fmt::format("auto: backend {} names no dtype of its own", name);
    return DType::kF32;
  }
  *choice = fmt::format("auto: what backend {} does fast on this device", name);
  return *dtype;
}

Result<DType> auto_dtype(const runtime::BackendLibrary& library, int device, std::string* choice) {
  DIF_ASSIGN(const std::string probe, library.probe());
  return auto_dtype(probe, library.name(), device, choice);
}

}  // namespace dif::cli

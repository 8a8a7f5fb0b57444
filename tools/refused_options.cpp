#include "refused_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace dif::tools {

RefusedOptions::RefusedOptions(CLI::App& app, std::span<const MissingFeature> features) {
  constexpr const char* kGroup = "Not in this version";
  for (const MissingFeature& missing : features) {
    const std::string note = std::string("needs ") + missing.feature;
    for (const char* name : missing.flags)
      known_.push_back({app.add_flag(name, note)->group(kGroup), name, missing.feature});
    for (const char* name : missing.values)
      known_.push_back(
          {app.add_option(name, note)->expected(0, 1)->take_last()->group(kGroup), name, missing.feature});
  }
}

Status RefusedOptions::check() const {
  for (const Known& known : known_)
    if (known.option->count() != 0)
      return invalid_input("{}: this version has no {}; leave the option out", known.name, known.feature);
  return ok();
}

}  // namespace dif::tools

#include "refused_options.h"

#include "base/error.h"

namespace dif::tools {

RefusedOptions::RefusedOptions(cli::Command& command, std::span<const MissingFeature> features) {
  constexpr const char* kHeading = "Not in this version";
  for (const MissingFeature& missing : features) {
    const std::string note = std::string("needs ") + missing.feature;
    for (const char* name : missing.flags)
      known_.push_back({command.add_bare_flag(name, note).heading(kHeading), name, missing.feature});
    for (const char* name : missing.values)
      known_.push_back({command.add_bare_option(name, note).heading(kHeading), name, missing.feature});
  }
}

Status RefusedOptions::check() const {
  for (const Known& known : known_)
    if (known.option.given())
      return invalid_input("{}: this version has no {}; leave the option out", known.name, known.feature);
  return ok();
}

}  // namespace dif::tools

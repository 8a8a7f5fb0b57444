#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command.h"
#include "dif/status.h"

namespace dif::tools {

/// Options of the command-line contract whose feature this version does not have.
struct MissingFeature {
  const char* feature;              ///< "W8A8 linears"
  std::vector<const char*> flags;   ///< names without a value
  std::vector<const char*> values;  ///< names with one; it may be missing too
};

/// Knows the names, so that a run which asks for one is refused by a sentence about the feature, not as a
/// typing mistake, and never runs without it.
class RefusedOptions {
 public:
  RefusedOptions(cli::Command& command, std::span<const MissingFeature> features);

  /// Errors: InvalidInput when one was given.
  Status check() const;

 private:
  struct Known {
    cli::Option option;
    std::string name, feature;
  };
  std::vector<Known> known_;
};

}  // namespace dif::tools

#pragma once

#include <string>
#include <string_view>

#include "cli/command.h"
#include "dif/dtype.h"
#include "dif/status.h"

namespace dif::runtime {
class BackendLibrary;
}  // namespace dif::runtime

namespace dif::cli {

/// --dtype, --vae-dtype, --state-dtype
struct DtypeOptions {
  explicit DtypeOptions(Command& command);

  std::string dtype = "f32";
  std::string vae_dtype = "f32";
  std::string state_dtype = "f32";
};

/// The dtype of that name if it is one of `legal`. Errors: InvalidInput, naming the option and what is legal:
/// also `other`, a word that the caller has understood before.
Result<DType> parse_dtype(const std::string& option, const std::string& name,
                          std::initializer_list<DType> legal, std::string_view other = {});

/// What --dtype auto means on a backend: the default_dtype of the device in its probe document, f32 when it
/// names none. `choice` says which and why.
Result<DType> auto_dtype(const runtime::BackendLibrary& library, int device, std::string* choice);
/// The same, from the probe document of the backend `name`.
DType auto_dtype(const std::string& probe, const std::string& name, int device, std::string* choice);

}  // namespace dif::cli

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "cli/command.h"
#include "dif/status.h"
#include "frontends/model.h"
#include "generate_options.h"
#include "io/cache_store.h"
#include "pipelines/generation_settings.h"
#include "pipelines/picture_size.h"

namespace dif::cli {
struct BackendOptions;
struct DtypeOptions;
}  // namespace dif::cli

namespace dif::tools {

/// What is to be drawn: what the options say, else what --from's picture recorded, else the model's defaults.
class GenerationRequest {
 public:
  /// Everything outlives the result.
  GenerationRequest(const cli::Command& command, const GenerateOptions& options,
                    const cli::DtypeOptions& dtypes, const cli::BackendOptions& backend,
                    io::CacheStore& cache)
      : command_(command), options_(options), dtypes_(dtypes), backend_(backend), cache_(cache) {}

  /// Errors: InvalidInput, each naming its option; those of a backend that is asked what it computes in.
  Status read(const frontends::Model& model);

  bool given(const std::string& option) const;

  GenerationSettings settings;
  PictureSize size;
  std::uint64_t seed = 0;
  std::string passes_text = "default";
  std::string dtype_choice = "default";  ///< why that dtype
  std::string backend_choice;            ///< why that backend, where one had to be asked
  std::string model_digest;              ///< where it had to be compared with that of a record

 private:
  Status choose_noise();
  Status choose_decode();
  Status choose_dtypes();
  Status choose_size(const frontends::Model& model, std::pair<std::int64_t, std::int64_t> asked);
  Status take_from_picture(const frontends::Model& model, std::pair<std::int64_t, std::int64_t>& asked);
  void warn_of_guidance(const frontends::Model& model) const;

  const cli::Command& command_;
  const GenerateOptions& options_;
  const cli::DtypeOptions& dtypes_;
  const cli::BackendOptions& backend_;
  io::CacheStore& cache_;
  Fit fit_ = Fit::kExact;
  std::string recorded_rng_;
};

}  // namespace dif::tools

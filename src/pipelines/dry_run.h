#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dif/status.h"
#include "frontends/model.h"
#include "io/cache_store.h"
#include "pipelines/speed_record.h"
#include "pipelines/text_to_image.h"
#include "plan/plan_record.h"
#include "runtime/session.h"

namespace dif {

/// One program of a chain as a backend would prepare it.
struct PlannedProgram {
  std::string name;
  std::string fingerprint;
  std::size_t n_operations = 0;    ///< of one run
  double flops = 0;                ///< of one run
  std::int64_t runs = 0;           ///< for one request
  std::uint64_t mapped_bytes = 0;  ///< of checkpoint files, where its constants lie
  runtime::PreparedReport memory;
  std::optional<Speed> speed;  ///< that this machine achieved before
};

/// The programs that are prepared at the same time, and what they take together: arena and workspace are
/// shared, the rest adds up.
struct PlannedStage {
  std::string name;
  std::vector<std::string> programs;
  std::uint64_t arena_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t prepacked_bytes = 0;
  std::uint64_t streamed_bytes = 0;
  std::uint64_t mapped_bytes = 0;
};

/// What a request would take, found out without running it.
struct DryRun {
  std::vector<PlannedProgram> programs;
  std::vector<PlannedStage> stages;   ///< one after the other
  double flops = 0;                   ///< of the whole request
  std::uint64_t available_bytes = 0;  ///< as in GenerationSettings
  std::string decode;                 ///< which way, and why
  std::string refusal;                ///< why this machine would not run it; empty: it would

  /// Of all runs at the speeds of their programs, without preparing them; none if one is not known.
  std::optional<double> seconds() const;
};

/// Builds the chain and asks the backend for its plans. Of the weights only headers are read, and of `speeds`
/// what earlier runs on `backend` (its program and dtype are not read) have kept. Errors: those of
/// build_chain, Unavailable (a plug-in that cannot plan alone).
Result<DryRun> dry_run(const frontends::Model& model, const std::shared_ptr<runtime::Context>& context,
                       const GenerationSettings& settings, std::int64_t n_pictures, io::CacheStore& speeds,
                       const SpeedConditions& backend);

/// Keeps the speeds of a request that ran on `backend`, for dry runs to come.
void note_speeds(io::CacheStore& speeds, const SpeedConditions& backend, const GenerationSettings& settings,
                 const TextToImage& pipeline, std::int64_t n_pictures);

std::string dry_run_text(const DryRun& run);
nlohmann::ordered_json dry_run_json(const DryRun& run);

}  // namespace dif

#pragma once

#include <filesystem>

#include "dif/status.h"
#include "pipelines/flow_schedule.h"

namespace dif {

/// Reads scheduler/scheduler_config.json of a model. Errors: NotFound, Io, InvalidInput (wrong types, or a
/// setting that flux2_schedule cannot follow exactly), naming file and key.
Result<FlowSchedulerConfig> read_scheduler_config(const std::filesystem::path& path);

}  // namespace dif

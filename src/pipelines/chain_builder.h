#pragma once

#include "dif/status.h"
#include "frontends/model.h"
#include "opt/pipeline.h"
#include "pipelines/generation_settings.h"
#include "runtime/backend_library.h"

namespace dif {

/// The chain of a request as the frontend builds it, schedule tables included. Errors:
/// InvalidInput (size off the grid: names the nearest legal ones; steps, guidance, sizes of tiles).
Result<frontends::Chain> build_chain(const frontends::Model& model, const GenerationSettings& settings);

/// Whether a guidance scale asks for two evaluations: above 1 by more than rounding, on a model trained for
/// it.
bool guidance_is_active(const frontends::Model& model, float guidance);

/// The passes of a request on a backend.
opt::Pipeline passes_for(const GenerationSettings& settings, const runtime::BackendLibrary& library);

}  // namespace dif

#pragma once

#include "dif/status.h"
#include "frontends/family.h"
#include "frontends/synthetic/synthetic_model.h"

namespace dif::frontends::flux2 {

/// describe_synthetic_model for Flux2KleinPipeline: changes the configurations, holds them against what our
/// reader supports, and lists the tensors of the three parts. Errors: InvalidInput.
Result<SyntheticModel> synthesise_klein(const Family& family, ModelDocuments documents,
                                        const ModelChanges& changes);

}  // namespace dif::frontends::flux2

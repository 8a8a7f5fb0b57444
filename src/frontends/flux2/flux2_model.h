#pragma once

#include <memory>

#include "dif/status.h"
#include "frontends/family.h"

namespace dif::frontends::flux2 {

/// Opens a Flux2KleinPipeline folder: klein 4B, 9B and small siblings, distilled and Base, in the layouts
/// that NOTES.md lists. Everything that can be wrong with names, shapes and configurations is reported here.
/// Errors: NotFound, InvalidInput.
Result<std::unique_ptr<Model>> open_klein(ModelFolder folder, const Family& family);

}  // namespace dif::frontends::flux2

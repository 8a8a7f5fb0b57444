#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backends/cuda/cuda_api.h"
#include "io/cache_store.h"

namespace dif::cuda {

/// Compiles a kernel text for one architecture (90 = sm_90). No multiply-add is contracted unless the text
/// says so, and denormals stay. Needs no GPU. Errors: Internal (with the compiler's log: the text is ours),
/// Unavailable (this NVRTC does not know the architecture).
Result<std::vector<std::byte>> compile(const CompilerApi& api, const std::string& text, int capability);

/// Where the compiled text is kept between processes: a name for text, architecture, options and compiler.
io::CacheKey compile_key(const CompilerApi& api, const std::string& text, int capability);

}  // namespace dif::cuda

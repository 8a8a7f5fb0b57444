#pragma once

#include <cstdint>
#include <string>

#include "dif/status.h"
#include "frontends/model.h"
#include "io/cache_store.h"

namespace dif {

/// Model::digest(), which reads every byte of the checkpoint, from the cache when no file has changed since:
/// each is still the same file (device and inode) of the same size, modified and changed at the same times.
/// A file that is younger than `settled_seconds` is read, for a change within one tick of the clock would not
/// show.
Result<std::string> model_digest(const frontends::Model& model, io::CacheStore& cache,
                                 std::int64_t settled_seconds = 2);

}  // namespace dif

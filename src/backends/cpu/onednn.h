#pragma once

#include <exception>

#include "base/error.h"

namespace dnnl {
struct engine;
struct stream;
}  // namespace dnnl

namespace dif::cpu {

/// The engine and stream of the process. Primitives keep their scratch memory in the caller's hands, so that
/// several threads may use them.
dnnl::engine& onednn_engine();
dnnl::stream& onednn_stream();

/// Runs `call`, which may throw dnnl::error or bad_alloc. Error: Internal with what oneDNN said.
template <class Call>
Status onednn_guarded(const char* what, Call&& call) {
  try {
    call();
    return ok();
  } catch (const std::exception& e) {
    return fail(ErrorCode::kInternal, "oneDNN, {}: {}", what, e.what());
  }
}

}  // namespace dif::cpu

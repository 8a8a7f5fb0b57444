#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <string>

#include "base/error.h"
#include "dif/dtype.h"

namespace dnnl {
struct engine;
struct stream;
}  // namespace dnnl

namespace dif::cpu {

/// The engine and stream of the process. Primitives keep their scratch memory in the caller's hands, so that
/// several threads may use them.
dnnl::engine& onednn_engine();
dnnl::stream& onednn_stream();

/// A name for how weights of dtype `storage` are packed, for WeightCache; `description` are the bytes of
/// oneDNN's memory descriptor.
std::string layout_name(std::span<const std::byte> description, DType storage);

/// Version and instruction set of oneDNN in this process: what its layouts depend on beside their
/// description.
std::string onednn_identity();

/// Whether there is room for the machine code of a primitive: oneDNN writes it where the system gave it
/// memory, and does not look whether it did. Error: OutOfMemory.
Status onednn_has_room();

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

/// The same for a `call` that makes primitives. Errors also: OutOfMemory.
template <class Call>
Status onednn_making(const char* what, Call&& call) {
  DIF_TRY(onednn_has_room());
  return onednn_guarded(what, call);
}

}  // namespace dif::cpu

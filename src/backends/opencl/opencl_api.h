#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace dif::opencl {

/// The loader's symbol table, opened at run time so that this library loads on a machine without OpenCL.
struct OpenClApi {
#define DIF_OPENCL_FUNCTION(name) decltype(&::name) name = nullptr;
#include "backends/opencl/opencl_functions.def"
#undef DIF_OPENCL_FUNCTION
  std::string library;  ///< the file that was opened

  /// The loader that DIF_OPENCL_PATH names, else libOpenCL.so.1 of the system; opened once a process. Errors:
  /// Unavailable (no such library, or a function is missing; says what to install).
  static Result<const OpenClApi*> load();
};

/// "CL_OUT_OF_RESOURCES", or the number of a code that the header does not name.
std::string code_text(cl_int code);

/// What a failed call means: OutOfMemory where memory ran out, Unavailable where the device is gone, else
/// Internal.
tl::unexpected<Error> call_failed(std::string_view call, cl_int code);

inline Status checked(std::string_view call, cl_int code) {
  if (code == CL_SUCCESS) return ok();
  return call_failed(call, code);
}

}  // namespace dif::opencl

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dif/status.h"
#include "io/host_tensor.h"
#include "ir/program.h"
#include "runtime/session.h"

namespace dif::conformance {

/// A context on the plug-in of that name. Errors: Unavailable (no such plug-in, no device), ...
Result<std::shared_ptr<runtime::Context>> open_backend(const std::string& name, unsigned threads = 0);

/// What a run gives beside its outputs.
struct RunResult {
  std::vector<io::HostTensor> outputs;
  std::string details;  ///< of the backend's report: which kernels ran and why others declined
};

/// Prepares the program and runs it twice; the outputs of both runs must have the same bytes. Errors: those
/// of the backend; AnswerNo when the second run differs.
Result<RunResult> run_program(const std::shared_ptr<runtime::Context>& context, const ir::Program& program,
                              const std::vector<io::HostTensor>& inputs,
                              const std::vector<io::HostTensor>& constants);

}  // namespace dif::conformance

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dif/status.h"
#include "frontends/model.h"
#include "io/safetensors.h"
#include "io/tensor_compare.h"
#include "opt/pipeline.h"
#include "runtime/session.h"

namespace dif {

/// One result of a gated program beside what the fixture says.
struct GateRow {
  std::string boundary;  ///< module path in the reference framework
  io::TensorComparison comparison;
  std::vector<std::string> broken;  ///< one sentence for each bar
};

struct GateResult {
  std::vector<GateRow> rows;  ///< in the program's order
  /// The program's outputs and the captured boundaries, by name.
  std::vector<std::pair<std::string, io::HostTensor>> results;

  bool passed() const;
};

/// Runs a program whose inputs and results are in a fixture (docs/parity.md): every tensor there that bears
/// the name of an output or boundary of the program is compared, and each of the program's own outputs must
/// be there. `captures` are further boundaries for the results. Errors: InvalidInput (an input or result is
/// missing or of another shape, no such boundary), and those of the backend.
Result<GateResult> run_gate(const std::shared_ptr<runtime::Context>& context, const frontends::Stage& stage,
                            const io::SafetensorsFile& fixture, const std::vector<std::string>& captures,
                            const io::ComparisonBars& bars, const opt::Pipeline& passes);

}  // namespace dif

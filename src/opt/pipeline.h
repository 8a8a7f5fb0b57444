#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "ir/program.h"
#include "opt/decision.h"
#include "opt/pass.h"

namespace dif::opt {

using Pipeline = std::vector<const Pass*>;

/// What a backend says about the programs that run fast on it.
struct Preferences {
  bool channels_last = false;      ///< images with channels last
  bool folded_upsampling = false;  ///< convolutions of the image before it is upsampled: not exact
  bool joined_linears = false;     ///< products whose columns are read apart stay one
};

/// What every program goes through before a backend prepares it, in this order.
Pipeline default_pipeline(const Preferences& preferences = {});

/// "default", "none", or names of passes separated by commas, in the order in which they run. Errors:
/// InvalidInput, listing what there is.
Result<Pipeline> parse_pipeline(std::string_view text, const Preferences& preferences = {});
/// The names, separated by commas; "none" for no pass.
std::string pipeline_text(const Pipeline& pipeline);

/// What one pass of a pipeline did.
struct PassReport {
  std::string_view pass;
  bool changed = false;
  double seconds = 0;
  std::size_t operations_before = 0;
  std::size_t operations_after = 0;
  Decisions decisions;
};

struct PipelineOptions {
  bool verify_each =
      true;  ///< the program after each pass that changed it; otherwise after the last one only
  std::function<void(const PassReport& report, const ir::Program& after)> after_pass;
};

/// Runs the passes over a verified program. Errors: Internal (a pass broke the program: says which).
Result<std::vector<PassReport>> run(ir::Program& program, const Pipeline& pipeline,
                                    const PipelineOptions& options = {});

}  // namespace dif::opt

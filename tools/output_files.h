#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dif/status.h"

namespace dif::tools {

/// Something that a tool will write, and the option that asked for it.
struct OutputFile {
  std::string option;
  std::string path;   ///< empty: not asked for
  bool probe = true;  ///< whether to try that it can be written; else its name alone counts
};

/// Whether all of them can be written, each under a name of its own; asked before the work and not after it.
/// What is no regular file (a pipe, a device) is left alone: its reader would see it close, and it may be
/// named twice. Errors: InvalidInput (two under one name), Io.
Status check_outputs(const std::vector<OutputFile>& outputs);

/// The file that DIF_TRACE_FILE names; empty when it names none.
std::string trace_file();
/// Whether a line can be added to it, asked before the work. Leaves it as it is. Errors: Io.
Status check_trace_file();
/// Adds the document as one line, where there is such a file. Errors: Io.
Status append_to_trace_file(const nlohmann::ordered_json& document);

}  // namespace dif::tools

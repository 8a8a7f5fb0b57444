#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "opt/pipeline.h"

/// What passes did, for people and for machines; shared by difc and dif generate.
namespace dif::tools {

/// One object per pass: pass, changed, seconds, operations_before, operations_after, decisions.
nlohmann::ordered_json passes_json(const std::vector<opt::PassReport>& reports);

/// A table, one line per pass; with `why` the decisions of each pass below its line.
std::string passes_text(const std::vector<opt::PassReport>& reports, bool why);

/// Name and summary of every pass, and the default pipeline.
std::string pass_list_text();
nlohmann::ordered_json pass_list_json();

}  // namespace dif::tools

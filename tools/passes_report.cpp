#include "passes_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace dif::tools {

using nlohmann::ordered_json;

ordered_json passes_json(const std::vector<opt::PassReport>& reports) {
  ordered_json result = ordered_json::array();
  for (const opt::PassReport& report : reports) {
    ordered_json decisions = ordered_json::array();
    for (const opt::Decision& decision : report.decisions)
      decisions.push_back(
          {{"subject", decision.subject}, {"verdict", decision.verdict}, {"reason", decision.reason}});
    result.push_back({{"pass", report.pass},
                      {"changed", report.changed},
                      {"seconds", report.seconds},
                      {"operations_before", report.operations_before},
                      {"operations_after", report.operations_after},
                      {"decisions", std::move(decisions)}});
  }
  return result;
}

std::string passes_text(const std::vector<opt::PassReport>& reports, bool why) {
  std::string text = fmt::format("{:<24} {:>10} {:>10} {:>10} {:>14}\n", "pass", "before", "after",
                                 "decisions", "microseconds");
  for (const opt::PassReport& report : reports) {
    text += fmt::format("{:<24} {:>10} {:>10} {:>10} {:>14.0f}\n", report.pass, report.operations_before,
                        report.operations_after, report.decisions.size(), 1e6 * report.seconds);
    if (!why) continue;
    for (const opt::Decision& decision : report.decisions)
      text += fmt::format("  {} {}: {}\n", decision.subject, decision.verdict, decision.reason);
  }
  return text;
}

std::string pass_list_text() {
  std::string text;
  for (const opt::Pass* pass : opt::all_passes())
    text += fmt::format("{:<24} {}{}\n", pass->name, pass->summary, pass->exact ? "" : " Not bit for bit.");
  return text + fmt::format("\ndefault: {}\n", opt::pipeline_text(opt::default_pipeline()));
}

ordered_json pass_list_json() {
  ordered_json passes = ordered_json::array(), pipeline = ordered_json::array();
  for (const opt::Pass* pass : opt::all_passes())
    passes.push_back({{"name", pass->name}, {"summary", pass->summary}, {"exact", pass->exact}});
  for (const opt::Pass* pass : opt::default_pipeline()) pipeline.push_back(pass->name);
  return {{"passes", std::move(passes)}, {"default", std::move(pipeline)}};
}

}  // namespace dif::tools

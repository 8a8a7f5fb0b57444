#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/telemetry.h"
#include "io/json.h"
#include "io/tensor_compare.h"
#include "io/tensor_file.h"
#include "tools.h"

namespace dif::tools {

namespace {

using nlohmann::ordered_json;

/// A bar that was not given is null; so is a figure that is not finite, which JSON cannot hold.
ordered_json document(const io::TensorComparison& c, const io::ComparisonBars& bars,
                      const std::vector<std::string>& broken) {
  const auto bar = [](std::optional<double> value) { return value ? ordered_json(*value) : ordered_json(); };
  ordered_json result = cli::telemetry_document("comparison");
  result["verdict"] = broken.empty() ? "PASS" : "FAIL";
  result["broken_bars"] = broken;
  result["elements"] = c.elements;
  result["differing_elements"] = c.differing;
  result["reference_nonfinite"] = c.reference_nonfinite;
  result["actual_nonfinite"] = c.actual_nonfinite;
  result["cosine"] = c.cosine;
  result["rel_l2"] = c.rel_l2;
  result["norm_ratio"] = c.norm_ratio;
  result["max_abs"] = c.max_abs;
  result["worst"] = {{"index", c.worst}, {"reference", c.worst_reference}, {"actual", c.worst_actual}};
  result["bars"] = {{"min_cos", bar(bars.min_cosine)},
                    {"max_rel_l2", bar(bars.max_rel_l2)},
                    {"min_norm_ratio", bar(bars.min_norm_ratio)},
                    {"max_norm_ratio", bar(bars.max_norm_ratio)},
                    {"max_abs", bar(bars.max_abs)}};
  return result;
}

int run(int argc, char** argv) {
  cli::Command command("difcompare", "Judge one tensor against another: PASS (exit 0) or FAIL (exit 1).");
  std::string reference_file, actual_file;
  io::ComparisonBars bars;
  bool flatten = false;
  command.add_option("REFERENCE", reference_file, "FILE.diftensor or FILE.safetensors::NAME").required();
  command.add_option("ACTUAL", actual_file, "FILE.diftensor or FILE.safetensors::NAME").required();
  command.add_option("--min-cos", bars.min_cosine, "least cosine of the angle between the two");
  command.add_option("--max-rel-l2", bars.max_rel_l2, "most |actual - reference| / |reference|");
  command.add_option("--min-norm-ratio", bars.min_norm_ratio, "least |actual| / |reference|");
  command.add_option("--max-norm-ratio", bars.max_norm_ratio, "most |actual| / |reference|");
  command.add_option("--max-abs", bars.max_abs, "most |actual - reference| of one element");
  command.add_flag("--flatten", flatten, "compare element by element whatever the shapes");
  const cli::ReportOptions report(command);
  command.add_examples(
      "  difcompare ref.safetensors::latents out.diftensor --max-rel-l2 1e-5 --min-cos 0.99999\n"
      "  difcompare a.diftensor b.diftensor --flatten --json\n"
      "A bar that is not given is not applied; NaN and infinity never pass.\n");
  return cli::run_tool(command, argc, argv, [&]() -> Status {
    DIF_ASSIGN(const io::HostTensor reference, io::read_tensor_operand(reference_file));
    DIF_ASSIGN(const io::HostTensor actual, io::read_tensor_operand(actual_file));
    DIF_ASSIGN(const io::TensorComparison comparison, io::compare_tensors(reference, actual, flatten));
    const std::vector<std::string> broken = io::broken_bars(comparison, bars);
    if (!report.json)
      DIF_TRY(cli::print_result(
          fmt::format("{} {}\n", broken.empty() ? "PASS" : "FAIL", io::describe(comparison))));
    if (report.wanted()) DIF_TRY(report.write(io::json_text(document(comparison, bars, broken))));
    if (!broken.empty()) return fail(ErrorCode::kAnswerNo, "{}", fmt::join(broken, "; "));
    return ok();
  });
}

}  // namespace

const cli::Tool k_difcompare = {"difcompare", "Tensors", "judge one tensor against another", run};

}  // namespace dif::tools

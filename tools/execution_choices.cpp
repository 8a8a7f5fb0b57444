#include "execution_choices.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "cli/options.h"
#include "cli/tool.h"
#include "io/printable.h"
#include "pipelines/program_bindings.h"

namespace dif::tools {

namespace {

constexpr std::int64_t kMostRuns = 10'000;

/// "12:3": operation 12, rank 3.
Result<runtime::LinearChoice> parse_selection(const std::string& text) {
  runtime::LinearChoice choice;
  std::uint32_t rank = 0;
  const char* const end = text.data() + text.size();
  const auto [colon, bad_operation] = std::from_chars(text.data(), end, choice.operation);
  const bool found = bad_operation == std::errc() && colon != end && *colon == ':';
  if (const auto [rest, bad_rank] = std::from_chars(found ? colon + 1 : end, end, rank);
      !found || bad_rank != std::errc() || rest != end)
    return invalid_input("--select-linear-algorithm {}: expected OPERATION:RANK, such as 12:0",
                         io::printable(text, 40));
  choice.rank = rank;
  return choice;
}

}  // namespace

ExecutionChoices::ExecutionChoices(cli::Command& command, const Names& names) : names_(names) {
  const cli::Option tune =
      command.add_option(names.tune, tuned_, "operation whose product is measured anew, known or not")
          .one_at_a_time()
          .expect_whole(0, kMostOperations);
  const auto number = [&](const char* name, std::uint32_t& value, std::int64_t least, const char* text) {
    command.add_option(name, value, text).expect_whole(least, kMostRuns).needs(tune);
  };
  number(names.warmups, warmups_, 0, "untimed runs of each algorithm first");
  number(names.iterations, iterations_, 1, "runs of each algorithm in a session");
  number(names.sessions, sessions_, 1, "sessions, in which all algorithms take turns");
  command.add_flag("--expand-linear-algorithms", more_algorithms_,
                   "ask for a longer list of algorithms where they are measured");
  command
      .add_option("--select-linear-algorithm", selected_,
                  "OPERATION:RANK: the algorithm at that place of the library's recommendation, 0 first")
      .one_at_a_time();
  command
      .add_option("--fuse-linear-swiglu", fused_,
                  "operation whose product is one kernel with the SwiGLU behind it, "
                  "whether that is faster or not")
      .one_at_a_time()
      .expect_whole(0, kMostOperations);
  command.add_flag(
      "--persist-linear-heuristics", persists_,
      "keep what was measured in the cache folder (as it is); without such a folder this is an error");
  command
      .add_option("--resident-streamed-constant", resident_,
                  "constant that stays on the device, before all others, by name or number")
      .one_at_a_time()
      .expect_name();
  command
      .add_option("--cudnn-attention-heuristic", heuristic_,
                  "how cuDNN looks for attention's kernel: a (as it is), b, fallback; autotune measures what "
                  "all of them find")
      .expect_one_of({"a", "b", "fallback", "autotune"});
}

Result<runtime::ExecutionOptions> ExecutionChoices::options(const ir::Program& program,
                                                            const std::string& cache_folder) const {
  runtime::ExecutionOptions result;
  if (persists_ && cache_folder.empty())
    return invalid_input("--persist-linear-heuristics: there is no cache folder; name one with --cache-dir");
  for (const std::string& text : selected_) {
    DIF_ASSIGN(const runtime::LinearChoice choice, parse_selection(text));
    result.linears.push_back(choice);
  }
  for (const std::int64_t operation : tuned_)
    result.linears.push_back(
        {static_cast<ir::OpId>(operation), std::nullopt, false, warmups_, iterations_, sessions_});
  for (const std::int64_t operation : fused_)
    result.linears.push_back({static_cast<ir::OpId>(operation), std::nullopt, true});
  for (const runtime::LinearChoice& choice : result.linears)
    if (std::ranges::count(result.linears, choice.operation, &runtime::LinearChoice::operation) > 1)
      return invalid_input(
          "operation {} is chosen for twice by {}, --select-linear-algorithm and --fuse-linear-swiglu",
          choice.operation, names_.tune);
  result.more_algorithms = more_algorithms_;
  for (const std::string& name : resident_) {
    DIF_ASSIGN(const ir::ValueId value, find_value(program, name));
    const auto found = std::ranges::find(program.constants, value);
    if (found == program.constants.end())
      return invalid_input("--resident-streamed-constant {}: %{} of program {} is no constant",
                           io::printable(name, 80), value, program.name);
    result.resident_constants.push_back(static_cast<std::uint32_t>(found - program.constants.begin()));
  }
  using runtime::AttentionHeuristic;
  if (heuristic_ == "a") result.attention = AttentionHeuristic::kA;
  if (heuristic_ == "b") result.attention = AttentionHeuristic::kB;
  if (heuristic_ == "fallback") result.attention = AttentionHeuristic::kFallback;
  if (heuristic_ == "autotune") result.attention = AttentionHeuristic::kAutotune;
  return result;
}

void ExecutionChoices::warn_unused(const std::string& backend) const {
  if (backend == "cuda") return;
  const auto warn = [&](bool given, const char* what, const char* option) {
    if (given) cli::print_warning(fmt::format("backend {} {}: {} has no effect", backend, what, option));
  };
  warn(!heuristic_.empty(), "has no cuDNN", "--cudnn-attention-heuristic");
  warn(more_algorithms_, "measures no algorithms", "--expand-linear-algorithms");
  warn(persists_, "measures no algorithms", "--persist-linear-heuristics");
  warn(!resident_.empty(), "does not stream weights", "--resident-streamed-constant");
}

}  // namespace dif::tools

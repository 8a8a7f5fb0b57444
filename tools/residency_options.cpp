#include "residency_options.h"

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace dif::tools {

ResidencyOptions::ResidencyOptions(CLI::App& app, const Names& names) {
  budget_ = app.add_option(names.budget, budget_mib_, "device memory for the program, MiB");
  CLI::Option* const fixed =
      app.add_option("--fixed-runtime-mib", fixed_runtime_mib_, "of it, what driver and libraries take");
  CLI::Option* const order =
      app.add_option(names.order, order_,
                     "which weights are admitted first: first (as they are read), largest, spread (evenly)");
  CLI::Option* const distance =
      app.add_option("--prefetch-distance", prefetch_distance_, "streamed weights that are fetched ahead");
  for (CLI::Option* const option : {fixed, order, distance}) option->capture_default_str()->needs(budget_);
  order->check(CLI::IsMember({"first", "largest", "spread"}));
  cli::expect_whole(budget_, 0, cli::kMostMib);
  cli::expect_whole(fixed, 0, cli::kMostMib);
  cli::expect_whole(distance, 0, cli::kMostPrefetchDistance);
}

bool ResidencyOptions::given() const {
  return budget_->count() != 0;
}

plan::ResidencyRequest ResidencyOptions::request() const {
  return {budget_mib_ << 20, fixed_runtime_mib_ << 20, *plan::order_from_name(order_), prefetch_distance_};
}

}  // namespace dif::tools

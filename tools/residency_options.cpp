#include "residency_options.h"

#include "cli/options.h"

namespace dif::tools {

ResidencyOptions::ResidencyOptions(cli::Command& command, const Names& names)
    : budget_(command.add_option(names.budget, budget_mib_, "device memory for the program, MiB")
                  .expect_whole(0, cli::kMostMib)) {
  command.add_option("--fixed-runtime-mib", fixed_runtime_mib_, "of it, what driver and libraries take")
      .show_default()
      .needs(budget_)
      .expect_whole(0, cli::kMostMib);
  command
      .add_option(names.order, order_,
                  "which weights are admitted first: first (as they are read), largest, spread (evenly)")
      .show_default()
      .needs(budget_)
      .expect_one_of({"first", "largest", "spread"});
  command.add_option("--prefetch-distance", prefetch_distance_, "streamed weights that are fetched ahead")
      .show_default()
      .needs(budget_)
      .expect_whole(0, cli::kMostPrefetchDistance);
}

bool ResidencyOptions::given() const {
  return budget_.given();
}

plan::ResidencyRequest ResidencyOptions::request() const {
  return {budget_mib_ << 20, fixed_runtime_mib_ << 20, *plan::order_from_name(order_), prefetch_distance_};
}

}  // namespace dif::tools

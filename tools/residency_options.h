#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "plan/residency.h"

namespace dif::tools {

/// A budget for weights: its MiB, --fixed-runtime-mib, the order of admission, --prefetch-distance. Budget
/// and order have other names in other tools.
class ResidencyOptions {
 public:
  struct Names {
    const char* budget;
    const char* order;
  };
  ResidencyOptions(cli::Command& command, const Names& names);

  bool given() const;
  plan::ResidencyRequest request() const;

 private:
  std::uint64_t budget_mib_ = 0, fixed_runtime_mib_ = 0;
  std::uint32_t prefetch_distance_ = 1;
  std::string order_ = "first";
  cli::Option budget_;
};

}  // namespace dif::tools

#pragma once

#include <string>
#include <vector>

namespace dif::opt {

/// One thing that a pass did to a program, or left alone, and why.
struct Decision {
  std::string kind;     ///< name of the pass
  std::string subject;  ///< the operation, with its module where it has one: "linear in transformer.proj_out"
  std::string verdict;  ///< "removed", "rewritten", "hoisted", "narrowed", "kept", ...
  std::string reason;   ///< one sentence or the name of a rule

  friend bool operator==(const Decision&, const Decision&) = default;
};

using Decisions = std::vector<Decision>;

}  // namespace dif::opt

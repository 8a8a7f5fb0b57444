#include "cli/kernel_summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "io/json.h"
#include "io/printable.h"

namespace dif::cli {

namespace {

constexpr std::size_t kMaxNameBytes = 400;

/// Texts and how often each came, in the order of their first coming.
class Counts {
 public:
  void add(const nlohmann::json& text) {
    if (!text.is_string()) return;
    const std::string name = io::printable(text.get<std::string>(), kMaxNameBytes);
    for (auto& [known, n] : counts_)
      if (known == name) {
        ++n;
        return;
      }
    counts_.emplace_back(name, 1);
  }
  const std::vector<std::pair<std::string, int>>& all() const { return counts_; }

 private:
  std::vector<std::pair<std::string, int>> counts_;
};

}  // namespace

std::string kernel_summary(std::string_view program, const std::string& details) {
  const nlohmann::json parsed = io::plugin_document(details);
  if (!parsed.is_object() || !parsed.contains("operations") || !parsed["operations"].is_array())
    return fmt::format("{}: the backend says nothing about its kernels\n", program);
  Counts kernels, declined;
  for (const auto& operation : parsed["operations"]) {
    if (!operation.is_object()) continue;
    if (operation.contains("kernel")) kernels.add(operation["kernel"]);
    if (operation.contains("declined") && operation["declined"].is_array())
      for (const auto& reason : operation["declined"]) declined.add(reason);
  }
  std::string text = fmt::format("{}:", program);
  const char* separator = " ";
  for (const auto& [name, n] : kernels.all()) {
    text += fmt::format("{}{} x {}", separator, n, name);
    separator = ", ";
  }
  text += "\n";
  for (const auto& [reason, n] : declined.all())
    text += fmt::format("  declined {} ({} operations)\n", reason, n);
  return text;
}

}  // namespace dif::cli

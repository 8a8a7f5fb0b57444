#include "text/battery.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "io/printable.h"

namespace dif::text {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxFailures = 10;

struct Case {
  std::string text;
  std::vector<TokenId> ids;
};

std::optional<Case> read_case(const json& entry) {
  if (!entry.is_object() || !entry.contains("text") || !entry.contains("ids")) return std::nullopt;
  const json &text = entry.at("text"), &ids = entry.at("ids");
  if (!text.is_string() || !ids.is_array()) return std::nullopt;
  Case result{.text = text.get<std::string>()};
  for (const json& id : ids) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kMaxTokenId) return std::nullopt;
    result.ids.push_back(id.get<TokenId>());
  }
  return result;
}

std::string id_or_end(const std::vector<TokenId>& ids, std::size_t i) {
  return i < ids.size() ? std::to_string(ids[i]) : "the end";
}

std::string describe(std::size_t index, const Case& expected, const std::vector<TokenId>& found) {
  const auto [a, b] = std::mismatch(expected.ids.begin(), expected.ids.end(), found.begin(), found.end());
  const auto at = static_cast<std::size_t>(a - expected.ids.begin());
  return fmt::format("case {}, \"{}\": token {}: expected {}, found {}", index,
                     io::printable(expected.text, 60), at, id_or_end(expected.ids, at), id_or_end(found, at));
}

}  // namespace

Result<BatteryReport> run_battery(const Tokenizer& tokenizer, const io::JsonDocument& battery) {
  const json& root = battery.value();
  const json& cases = root.is_object() && root.contains("cases") ? root.at("cases") : root;
  if (!cases.is_array() || cases.empty()) {
    return invalid_input(
        "{}: expected a list of {{\"text\", \"ids\"}}, or an object with one under \"cases\"",
        battery.source());
  }
  BatteryReport report;
  for (const json& entry : cases) {
    const std::size_t index = report.n_cases++;
    const auto expected = read_case(entry);
    if (!expected) {
      return invalid_input("{}: case {}: expected {{\"text\": \"...\", \"ids\": [...]}}", battery.source(),
                           index);
    }
    DIF_ASSIGN(const std::vector<TokenId> found, tokenizer.encode(expected->text));
    if (found == expected->ids) continue;
    ++report.n_failed;
    if (report.failures.size() < kMaxFailures) report.failures.push_back(describe(index, *expected, found));
  }
  return report;
}

}  // namespace dif::text

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"

namespace dif::io {

namespace {

constexpr std::size_t kListedProblems = 10;

/// A value for a message: short ones as they stand, containers by their size.
std::string found_text(const nlohmann::json& value) {
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_object()) return "an object";
  return printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 80);
}

std::optional<std::int64_t> as_integer(const nlohmann::json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return std::nullopt;
  return value.get<std::int64_t>();
}

std::string integer_text(IntegerRange range) {
  const bool low = range.min != IntegerRange{}.min, high = range.max != IntegerRange{}.max;
  if (low && high) return fmt::format("an integer from {} to {}", range.min, range.max);
  if (low) return fmt::format("an integer of at least {}", range.min);
  if (high) return fmt::format("an integer of at most {}", range.max);
  return "an integer";
}

}  // namespace

Error problem_list(std::string_view source, const std::vector<std::string>& problems, std::size_t total) {
  total = std::max(total, problems.size());
  if (total == 1) return {ErrorCode::kInvalidInput, fmt::format("{}: {}", source, problems.front())};
  const std::size_t listed = std::min(problems.size(), kListedProblems);
  const auto end = problems.begin() + static_cast<std::ptrdiff_t>(listed);
  std::string text =
      fmt::format("{} has {} problems: {}", source, total, fmt::join(problems.begin(), end, "; "));
  if (listed < total) text += fmt::format("; and {} more", total - listed);
  return {ErrorCode::kInvalidInput, std::move(text)};
}

/// Only the problems that will be listed are kept: a hostile file may have a million.
struct ConfigReader::Problems {
  std::string source;
  std::vector<std::string> list;
  std::size_t total = 0;

  void add(std::string text) {
    if (std::find(list.begin(), list.end(), text) != list.end()) return;
    ++total;
    if (list.size() < kListedProblems) list.push_back(std::move(text));
  }
};

ConfigReader::ConfigReader(const JsonDocument& document)
    : problems_(std::make_shared<Problems>(Problems{document.source(), {}, 0})) {
  if (document.value().is_object()) {
    object_ = &document.value();
  } else {
    problems_->add(fmt::format("expected a JSON object, found {}", found_text(document.value())));
  }
}

ConfigReader::ConfigReader(const nlohmann::json* object, std::string prefix,
                           std::shared_ptr<Problems> problems)
    : object_(object), prefix_(std::move(prefix)), problems_(std::move(problems)) {}

const std::string& ConfigReader::source() const {
  return problems_->source;
}

std::string ConfigReader::full_key(std::string_view key) const {
  return prefix_ + printable(key);
}

const nlohmann::json* ConfigReader::find(std::string_view key) const {
  if (object_ == nullptr) return nullptr;
  const auto at = object_->find(std::string(key));
  return at == object_->end() || at->is_null() ? nullptr : &*at;
}

bool ConfigReader::has(std::string_view key) const {
  return find(key) != nullptr;
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> keys;
  if (object_ != nullptr)
    for (const auto& item : object_->items()) keys.push_back(item.key());
  return keys;
}

void ConfigReader::problem(std::string_view key, std::string_view expected, std::string_view found) {
  problems_->add(fmt::format("key {}: expected {}, found {}", full_key(key), expected, found));
}

const nlohmann::json* ConfigReader::require(std::string_view key, std::string_view expected) {
  const nlohmann::json* value = find(key);
  if (value == nullptr && object_ != nullptr)
    problem(key, expected, object_->contains(std::string(key)) ? "null" : "no such key");
  return value;
}

std::int64_t ConfigReader::integer(std::string_view key, IntegerRange range) {
  const nlohmann::json* value = require(key, integer_text(range));
  if (value == nullptr) return 0;
  const auto number = as_integer(*value);
  if (number && *number >= range.min && *number <= range.max) return *number;
  problem(key, integer_text(range), found_text(*value));
  return 0;
}

std::int64_t ConfigReader::integer_or(std::string_view key, std::int64_t otherwise, IntegerRange range) {
  return has(key) ? integer(key, range) : otherwise;
}

double ConfigReader::number(std::string_view key) {
  const nlohmann::json* value = require(key, "a number");
  if (value == nullptr) return 0;
  if (value->is_number()) return value->get<double>();
  problem(key, "a number", found_text(*value));
  return 0;
}

double ConfigReader::number_or(std::string_view key, double otherwise) {
  return has(key) ? number(key) : otherwise;
}

bool ConfigReader::boolean(std::string_view key) {
  const nlohmann::json* value = require(key, "true or false");
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  problem(key, "true or false", found_text(*value));
  return false;
}

bool ConfigReader::boolean_or(std::string_view key, bool otherwise) {
  return has(key) ? boolean(key) : otherwise;
}

std::string ConfigReader::string(std::string_view key) {
  const nlohmann::json* value = require(key, "a string");
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  problem(key, "a string", found_text(*value));
  return {};
}

std::string ConfigReader::string_or(std::string_view key, std::string_view otherwise) {
  return has(key) ? string(key) : std::string(otherwise);
}

std::vector<std::int64_t> ConfigReader::integers(std::string_view key, IntegerRange range) {
  const std::string expected = fmt::format("an array whose elements are each {}", integer_text(range));
  const nlohmann::json* value = require(key, expected);
  std::vector<std::int64_t> out;
  if (value == nullptr) return out;
  if (!value->is_array()) problem(key, expected, found_text(*value));
  for (std::size_t i = 0; value->is_array() && i < value->size(); ++i) {
    const auto number = as_integer((*value)[i]);
    if (!number || *number < range.min || *number > range.max) {
      problem(fmt::format("{}[{}]", key, i), integer_text(range), found_text((*value)[i]));
      return {};
    }
    out.push_back(*number);
  }
  return out;
}

std::vector<std::int64_t> ConfigReader::integers_or(std::string_view key, std::vector<std::int64_t> otherwise,
                                                    IntegerRange range) {
  return has(key) ? integers(key, range) : std::move(otherwise);
}

std::vector<double> ConfigReader::numbers(std::string_view key) {
  const nlohmann::json* value = require(key, "an array of numbers");
  std::vector<double> out;
  if (value == nullptr) return out;
  if (!value->is_array()) problem(key, "an array of numbers", found_text(*value));
  for (std::size_t i = 0; value->is_array() && i < value->size(); ++i) {
    if (!(*value)[i].is_number()) {
      problem(fmt::format("{}[{}]", key, i), "a number", found_text((*value)[i]));
      return {};
    }
    out.push_back((*value)[i].get<double>());
  }
  return out;
}

std::vector<std::string> ConfigReader::strings(std::string_view key) {
  const nlohmann::json* value = require(key, "an array of strings");
  std::vector<std::string> out;
  if (value == nullptr) return out;
  if (!value->is_array()) problem(key, "an array of strings", found_text(*value));
  for (std::size_t i = 0; value->is_array() && i < value->size(); ++i) {
    if (!(*value)[i].is_string()) {
      problem(fmt::format("{}[{}]", key, i), "a string", found_text((*value)[i]));
      return {};
    }
    out.push_back((*value)[i].get<std::string>());
  }
  return out;
}

std::vector<std::string> ConfigReader::strings_or(std::string_view key, std::vector<std::string> otherwise) {
  return has(key) ? strings(key) : std::move(otherwise);
}

ConfigReader ConfigReader::object(std::string_view key) {
  const nlohmann::json* value = require(key, "an object");
  if (value != nullptr && !value->is_object()) {
    problem(key, "an object", found_text(*value));
    value = nullptr;
  }
  return {value, full_key(key) + ".", problems_};
}

std::optional<ConfigReader> ConfigReader::object_or_none(std::string_view key) {
  if (!has(key)) return std::nullopt;
  return object(key);
}

std::vector<ConfigReader> ConfigReader::objects(std::string_view key) {
  const nlohmann::json* value = require(key, "an array of objects");
  std::vector<ConfigReader> out;
  if (value == nullptr) return out;
  if (!value->is_array()) problem(key, "an array of objects", found_text(*value));
  for (std::size_t i = 0; value->is_array() && i < value->size(); ++i) {
    const nlohmann::json& element = (*value)[i];
    if (!element.is_object()) problem(fmt::format("{}[{}]", key, i), "an object", found_text(element));
    out.push_back(ConfigReader(element.is_object() ? &element : nullptr,
                               fmt::format("{}[{}].", full_key(key), i), problems_));
  }
  return out;
}

Status ConfigReader::finish() const {
  if (problems_->list.empty()) return ok();
  return tl::unexpected<Error>(problem_list(problems_->source, problems_->list, problems_->total));
}

}  // namespace dif::io

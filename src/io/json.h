#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"

namespace dif::io {

struct JsonLimits {
  std::uint64_t max_bytes = 32ULL << 20;
  int max_depth = 64;
};

/// A parsed JSON text, with the name of the file it came from for messages. Every value is finite and every
/// string valid UTF-8; no object has a key twice.
class JsonDocument {
 public:
  /// Errors (kInvalidInput, naming `source`, line and column): not JSON, too long, nested too deep, a key
  /// twice, invalid UTF-8, a number that does not fit, anything after the value.
  static Result<JsonDocument> parse(std::string_view text, std::string source, const JsonLimits& limits = {});
  static Result<JsonDocument> read(const std::filesystem::path& path, const JsonLimits& limits = {});

  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  /// For those who walk the value themselves (include <nlohmann/json.hpp> in the .cpp).
  const nlohmann::json& value() const { return *value_; }
  const std::string& source() const { return source_; }

 private:
  JsonDocument() = default;
  std::unique_ptr<nlohmann::json> value_;
  std::string source_;
};

/// A document that a plug-in gives, about itself or about a program: null where it is none, too long, or
/// nested deeper than anything sensible.
nlohmann::json plugin_document(std::string_view text);

/// Inclusive bounds for an integer of a configuration.
struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// Reads the keys of one JSON object and collects everything that is wrong with it: a getter never fails by
/// itself, it notes the problem and returns an empty value (0, false, "", {}); finish() reports up to 10
/// problems in one message, each naming file, key, expected and found. So a reader of a configuration is a
/// list of lines:
///
///     ConfigReader config(document);
///     c.layers = config.integer("num_layers", {1, 1024});
///     c.eps = config.number_or("eps", 1e-6);
///     DIF_TRY(config.finish());
///
/// The document must outlive the reader and the readers of its sub-objects, which report to the same list.
class ConfigReader {
 public:
  explicit ConfigReader(const JsonDocument& document);

  bool has(std::string_view key) const;                    ///< present and not null
  std::vector<std::string> keys() const;                   ///< sorted
  const std::string& source() const;                       ///< the file's name
  const nlohmann::json* find(std::string_view key) const;  ///< nothing when missing or null

  std::int64_t integer(std::string_view key, IntegerRange range = {});
  std::int64_t integer_or(std::string_view key, std::int64_t otherwise, IntegerRange range = {});
  double number(std::string_view key);  ///< any JSON number
  double number_or(std::string_view key, double otherwise);
  bool boolean(std::string_view key);
  bool boolean_or(std::string_view key, bool otherwise);
  std::string string(std::string_view key);
  std::string string_or(std::string_view key, std::string_view otherwise);
  std::vector<std::int64_t> integers(std::string_view key, IntegerRange range = {});
  std::vector<std::int64_t> integers_or(std::string_view key, std::vector<std::int64_t> otherwise,
                                        IntegerRange range = {});
  std::vector<double> numbers(std::string_view key);
  std::vector<std::string> strings(std::string_view key);
  std::vector<std::string> strings_or(std::string_view key, std::vector<std::string> otherwise);

  /// The object under `key`; an empty one (whose required keys are not reported again) when it is missing or
  /// wrong.
  ConfigReader object(std::string_view key);
  /// The object under `key`, or nothing when the key is missing or null.
  std::optional<ConfigReader> object_or_none(std::string_view key);
  /// Every element of the array under `key`, which must be objects.
  std::vector<ConfigReader> objects(std::string_view key);

  /// Adds a problem found by the caller: "FILE: key hidden_size: expected a multiple of 8, found 12".
  void problem(std::string_view key, std::string_view expected, std::string_view found);

  /// Success, or one kInvalidInput error with up to 10 problems and the count of the rest.
  Status finish() const;

 private:
  struct Problems;
  ConfigReader(const nlohmann::json* object, std::string prefix, std::shared_ptr<Problems> problems);
  const nlohmann::json* require(std::string_view key, std::string_view expected);
  std::string full_key(std::string_view key) const;

  const nlohmann::json* object_ =
      nullptr;  // nothing: the object itself was missing, problems are not repeated
  std::string prefix_;
  std::shared_ptr<Problems> problems_;
};

/// Several problems of one file as one message: "FILE has 17 problems: a; b; c; and 7 more" (up to 10 are
/// listed). `total` counts them when `problems` holds only the first. Pre: problems is not empty.
Error problem_list(std::string_view source, const std::vector<std::string>& problems, std::size_t total = 0);

/// The document as text (2 spaces of indent, keys in insertion order, a final newline); invalid UTF-8 is
/// replaced.
std::string json_text(const nlohmann::ordered_json& document);
/// Writes it, in one piece or not at all.
Status write_json(const std::filesystem::path& path, const nlohmann::ordered_json& document);

}  // namespace dif::io

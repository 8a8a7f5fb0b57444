#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "io/file.h"
#include "io/json.h"
#include "tests/support/paths.h"
#include "text/battery.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace dif::text {

/// The value of a Result, or the end of the test with its message.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

inline std::filesystem::path bundled_tokenizer_dir() {
  return test::model_dir() / "tokenizer";
}

inline const Tokenizer& bundled_tokenizer() {
  static const Tokenizer tokenizer = must(load_tokenizer(bundled_tokenizer_dir()));
  return tokenizer;
}

/// The bundled tokenizer.json, to be changed by a test.
inline nlohmann::json bundled_tokenizer_json() {
  return nlohmann::json::parse(must(io::read_text_file(bundled_tokenizer_dir() / "tokenizer.json", 1 << 20)));
}

/// A small tokenizer.json: 256 bytes as tokens 0..255, "ab" 256 and "abc" 257 by merging, <x> 258 added;
/// GPT-2's words.
inline nlohmann::json small_tokenizer_json() {
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab[bytes_to_symbols(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", {{{"id", 258}, {"content", "<x>"}, {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", nlohmann::json::parse(R"([["a", "b"], ["ab", "c"]])")}}},
  };
}

inline Result<Tokenizer> tokenizer_from(const nlohmann::json& tokenizer, const nlohmann::json& config = {}) {
  const auto document = must(io::JsonDocument::parse(tokenizer.dump(), "tokenizer.json"));
  auto spec = read_tokenizer_json(document);
  if (!spec) return tl::unexpected(spec.error());
  TokenizerConfig read;
  if (!config.is_null()) {
    const auto config_document = must(io::JsonDocument::parse(config.dump(), "tokenizer_config.json"));
    auto result = read_tokenizer_config(config_document);
    if (!result) return tl::unexpected(result.error());
    read = std::move(*result);
  }
  return Tokenizer::build(std::move(*spec), std::move(read));
}

/// The message of the failure, or "accepted".
template <class T>
std::string message_of(const Result<T>& result) {
  return result ? "accepted" : result.error().message;
}

inline ::testing::AssertionResult contains(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" does not contain \"" << part << "\"";
}

inline void expect_battery(const Tokenizer& tokenizer, const std::string& fixture, std::size_t n_cases) {
  const auto battery = must(io::JsonDocument::read(test::fixture(fixture)));
  const auto report = must(run_battery(tokenizer, battery));
  EXPECT_EQ(report.n_cases, n_cases);
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
  EXPECT_EQ(report.n_failed, 0U);
}

}  // namespace dif::text

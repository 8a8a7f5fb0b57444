#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/parse_number.h"
#include "io/printable.h"
#include "pipelines/generation_record.h"

namespace dif {

namespace {

constexpr std::string_view kNegative = "Negative prompt:";
constexpr std::string_view kProduct = "diffusion-compiler ";
constexpr std::size_t kMaxTextBytes = 4U << 20;
constexpr std::size_t kShortDigest = 10;

/// How this record's words are spelled in the text.
constexpr std::pair<std::string_view, std::string_view> kSamplers[] = {{"euler", "Euler"}};
constexpr std::pair<std::string_view, std::string_view> kRngs[] = {{"torch-cpu", "CPU"},
                                                                   {"torch-cuda", "GPU"}};

template <std::size_t N>
std::string_view spelled(const std::pair<std::string_view, std::string_view> (&words)[N],
                         std::string_view word) {
  for (const auto& [ours, theirs] : words) {
    if (ours == word) return theirs;
  }
  return word;
}

template <std::size_t N>
std::string_view meant(const std::pair<std::string_view, std::string_view> (&words)[N],
                       std::string_view word) {
  for (const auto& [ours, theirs] : words) {
    if (theirs == word) return ours;
  }
  return word;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string quoted(std::string_view value) {
  if (value.find_first_of(",:\"\n\r") == std::string_view::npos && trimmed(value) == value) {
    return std::string(value);
  }
  return nlohmann::json(value).dump();
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Where the JSON string that starts at `begin` ends (one past its closing quote); npos when it does not.
std::size_t end_of_quoted(std::string_view line, std::size_t begin) {
  for (std::size_t i = begin + 1; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

/// "Key: value, Key: "quoted, value"" as pairs; nothing when the line is not of that form.
std::optional<Pairs> parse_pairs(std::string_view line) {
  Pairs pairs;
  std::size_t at = 0;
  while (at < line.size()) {
    const auto colon = line.find(':', at);
    if (colon == std::string_view::npos) {
      if (trimmed(line.substr(at)).empty()) break;
      return std::nullopt;
    }
    const std::string_view key = trimmed(line.substr(at, colon - at));
    if (key.empty() || key.find_first_of(",\"") != std::string_view::npos) return std::nullopt;
    const auto begin = std::min(line.find_first_not_of(' ', colon + 1), line.size());
    std::string value;
    std::size_t end = line.size();
    if (begin < line.size() && line[begin] == '"') {
      end = end_of_quoted(line, begin);
      if (end == std::string_view::npos) return std::nullopt;
      const auto parsed = nlohmann::json::parse(line.substr(begin, end - begin), nullptr, false);
      if (!parsed.is_string()) return std::nullopt;
      value = parsed.get<std::string>();
      end = std::min(line.find_first_not_of(' ', end), line.size());
      if (end < line.size() && line[end] != ',') return std::nullopt;
    } else {
      end = std::min(line.find(',', begin), line.size());
      value = trimmed(line.substr(begin, end - begin));
    }
    pairs.emplace_back(key, std::move(value));
    at = end + 1;
  }
  return pairs;
}

/// Reads values of the settings line into fields; keeps the first error.
class Settings {
 public:
  Settings(Pairs pairs, std::string_view source) : pairs_(std::move(pairs)), source_(source) {}

  /// The value of `key`, or nothing. A key given twice is an error.
  const std::string* find(std::string_view key) {
    const std::string* found = nullptr;
    for (const auto& [name, value] : pairs_) {
      if (name != key) continue;
      if (found != nullptr) note(invalid_input("{}: \"{}\" is given twice", source_, key));
      found = &value;
    }
    return found;
  }
  const std::string* require(std::string_view key) {
    const std::string* found = find(key);
    if (found == nullptr) note(invalid_input("{}: the settings have no \"{}\"", source_, key));
    return found;
  }
  template <class Number>
  void number(std::string_view key, const std::string* text, Number& field) {
    if (text == nullptr) return;
    if (const auto value = parse_number<Number>(*text)) {
      field = *value;
    } else {
      note(invalid_input("{}: \"{}\" is \"{}\", expected a number in range", source_, key,
                         io::printable(*text, 40)));
    }
  }
  void size(std::string_view key, const std::string* text, std::int64_t& width, std::int64_t& height) {
    if (text == nullptr) return;
    const auto cross = text->find('x');
    const auto w = parse_number<std::int64_t>(std::string_view(*text).substr(0, cross));
    const auto h = cross == std::string::npos
                       ? std::nullopt
                       : parse_number<std::int64_t>(std::string_view(*text).substr(cross + 1));
    if (w && h) {
      width = *w;
      height = *h;
    } else {
      note(invalid_input("{}: \"{}\" is \"{}\", expected WIDTHxHEIGHT", source_, key,
                         io::printable(*text, 40)));
    }
  }
  void text(std::string_view key, std::string& field) {
    if (const std::string* value = find(key)) field = *value;
  }
  Status finish() const { return status_; }

 private:
  void note(tl::unexpected<Error> error) {
    if (status_) status_ = std::move(error);
  }

  Pairs pairs_;
  std::string_view source_;
  Status status_;
};

/// Splits off the last line that is not blank.
std::pair<std::string_view, std::string_view> split_last_line(std::string_view text) {
  text = trimmed(text);
  const auto newline = text.rfind('\n');
  if (newline == std::string_view::npos) return {{}, text};
  return {text.substr(0, newline), trimmed(text.substr(newline + 1))};
}

}  // namespace

Result<std::string> parameters_text(const GenerationRecord& record) {
  DIF_TRY(validate(record, "the picture's record"));
  std::string text = record.prompt;
  const auto next_line = [&] {
    if (!text.empty()) text += '\n';
  };
  if (!record.negative_prompt.empty()) {
    next_line();
    text += fmt::format("{} {}", kNegative, record.negative_prompt);
  }
  next_line();
  text += fmt::format("Steps: {}, Sampler: {}, CFG scale: {}, Seed: {}, Size: {}x{}", record.steps,
                      quoted(spelled(kSamplers, record.sampler)), record.guidance, record.seed, record.width,
                      record.height);
  const auto add = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) text += fmt::format(", {}: {}", key, quoted(value));
  };
  add("Model hash", std::string_view(record.model_digest).substr(0, kShortDigest));
  add("Model", record.model_name);
  if (record.batch_count > 1) {
    add("Batch size", std::to_string(record.batch_count));
    add("Batch pos", std::to_string(record.batch_index));
  }
  if (record.padded) add("Fit", "pad");
  add("RNG", spelled(kRngs, record.rng));
  add("Text tokens", std::to_string(record.text_tokens));
  add("Dtype", record.dtype);
  add("VAE dtype", record.vae_dtype);
  add("State dtype", record.state_dtype);
  add("Noise dtype", record.noise_dtype);
  if (record.passes != GenerationRecord().passes) add("Passes", record.passes);
  add("Backend", record.backend);
  add("Device", record.device);
  if (!record.version.empty()) add("Version", std::string(kProduct) + record.version);
  return text;
}

Result<GenerationRecord> parse_parameters_text(std::string_view text, std::string_view source) {
  if (text.size() > kMaxTextBytes) {
    return invalid_input("{}: {} bytes long, expected at most {}", source, text.size(), kMaxTextBytes);
  }
  const auto [prompts, line] = split_last_line(text);
  auto pairs = parse_pairs(line);
  if (!pairs) {
    return invalid_input("{}: the last line is not a list of \"Key: value\" settings: \"{}\"", source,
                         io::printable(line, 80));
  }
  GenerationRecord record;
  Settings settings(std::move(*pairs), source);
  settings.number("Steps", settings.require("Steps"), record.steps);
  settings.number("CFG scale", settings.require("CFG scale"), record.guidance);
  settings.number("Seed", settings.require("Seed"), record.seed);
  settings.size("Size", settings.require("Size"), record.width, record.height);
  settings.number("Batch size", settings.find("Batch size"), record.batch_count);
  settings.number("Batch pos", settings.find("Batch pos"), record.batch_index);
  settings.number("Text tokens", settings.find("Text tokens"), record.text_tokens);
  if (const std::string* fit = settings.find("Fit")) record.padded = *fit == "pad";
  settings.text("Sampler", record.sampler);
  record.sampler = meant(kSamplers, record.sampler);
  settings.text("RNG", record.rng);
  record.rng = meant(kRngs, record.rng);
  settings.text("Dtype", record.dtype);
  settings.text("VAE dtype", record.vae_dtype);
  settings.text("State dtype", record.state_dtype);
  settings.text("Noise dtype", record.noise_dtype);
  settings.text("Passes", record.passes);
  settings.text("Backend", record.backend);
  settings.text("Device", record.device);
  settings.text("Model", record.model_name);
  settings.text("Model hash", record.model_digest);
  settings.text("Version", record.version);
  if (record.version.starts_with(kProduct)) record.version.erase(0, kProduct.size());
  DIF_TRY(settings.finish());

  // As other readers do: the first line that announces a negative prompt starts it.
  const auto newline = prompts.starts_with(kNegative) ? 0 : prompts.find("\n" + std::string(kNegative));
  if (newline == std::string_view::npos) {
    record.prompt = trimmed(prompts);
  } else {
    record.prompt = trimmed(prompts.substr(0, newline));
    record.negative_prompt = trimmed(prompts.substr(prompts.find(':', newline) + 1));
  }
  DIF_TRY(validate(record, source));
  return record;
}

}  // namespace dif

#include "io/json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/json_events.h"
#include "io/printable.h"

namespace dif::io {

namespace {

/// Builds the value, refusing what a plain DOM parse lets pass: a key twice, integers that would become
/// floats.
class DocumentBuilder final : public JsonEvents {
 public:
  using JsonEvents::JsonEvents;

  nlohmann::json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos)
      return refuse(fmt::format("integer {} does not fit in 64 bits", printable(text, 40)));
    return add(value);
  }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool key(std::string& value) override {
    const auto [slot, fresh] = open_.back()->get_ref<nlohmann::json::object_t&>().try_emplace(value, nullptr);
    if (!fresh) return refuse(fmt::format("key \"{}\" is there twice", printable(value)));
    slot_ = &slot->second;
    return true;
  }
  bool start_object(std::size_t) override { return enter() && open(nlohmann::json::object()); }
  bool start_array(std::size_t) override { return enter() && open(nlohmann::json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

 private:
  nlohmann::json* place(nlohmann::json&& value) {
    nlohmann::json* at;
    if (open_.empty()) {
      at = &root_;
      *at = std::move(value);
    } else if (open_.back()->is_array()) {
      auto& array = open_.back()->get_ref<nlohmann::json::array_t&>();
      array.push_back(std::move(value));
      at = &array.back();
    } else {
      at = slot_;
      *at = std::move(value);
    }
    return at;
  }
  bool add(nlohmann::json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(nlohmann::json&& container) {
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return leave();
  }

  nlohmann::json root_;
  // Containers that are being filled, outermost first. An array grows only at its last element, which is then
  // not open, so these pointers stay valid.
  std::vector<nlohmann::json*> open_;
  nlohmann::json* slot_ = nullptr;
};

}  // namespace

JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string source,
                                         const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return invalid_input("{}: {} bytes of JSON, expected at most {}", source, text.size(), limits.max_bytes);
  DocumentBuilder builder(limits.max_depth);
  DIF_TRY(parse_json_events(text, source, builder));
  JsonDocument document;
  document.value_ = std::make_unique<nlohmann::json>(builder.take());
  document.source_ = std::move(source);
  return document;
}

nlohmann::json plugin_document(std::string_view text) {
  const auto document =
      JsonDocument::parse(text, "a plug-in's document", {.max_bytes = std::uint64_t{64} << 20});
  return document ? document->value() : nlohmann::json();
}

Result<JsonDocument> JsonDocument::read(const std::filesystem::path& path, const JsonLimits& limits) {
  DIF_ASSIGN(const std::string text, read_text_file(path, limits.max_bytes));
  return parse(text, path.native(), limits);
}

std::string json_text(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status write_json(const std::filesystem::path& path, const nlohmann::ordered_json& document) {
  return write_atomically(path, json_text(document));
}

}  // namespace dif::io

#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "dif/status.h"

namespace dif::io {

/// The strict base of our SAX handlers (for .cpp files only): counts depth, keeps the first problem. A
/// handler overrides the events and returns refuse("...") to stop.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonEvents(int max_depth) : max_depth_(max_depth) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return refuse("binary data"); }
  bool key(std::string&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::json::exception& error) override;

  const std::string& problem() const { return problem_; }

 protected:
  bool enter();
  bool leave() {
    --depth_;
    return true;
  }
  int depth() const { return depth_; }
  /// Stops the parser; the first reason is kept.
  bool refuse(std::string problem);

 private:
  friend Status parse_json_events(std::string_view, std::string_view, JsonEvents&);
  int max_depth_;
  int depth_ = 0;
  std::string problem_;
  std::size_t syntax_error_at_ = 0;  // 1 + offset; 0 for a problem of meaning
};

/// Feeds `text` to `events`. Errors: kInvalidInput "SOURCE: PROBLEM", for syntax with line and column.
Status parse_json_events(std::string_view text, std::string_view source, JsonEvents& events);

}  // namespace dif::io

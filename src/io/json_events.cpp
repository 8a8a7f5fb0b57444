#include "io/json_events.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "io/printable.h"

namespace dif::io {

bool JsonEvents::enter() {
  if (++depth_ > max_depth_) return refuse(fmt::format("values are nested more than {} deep", max_depth_));
  return true;
}

bool JsonEvents::refuse(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
  return false;
}

bool JsonEvents::parse_error(std::size_t position, const std::string&,
                             const nlohmann::json::exception& error) {
  if (!problem_.empty()) return false;
  // The library says "[id] parse error at line 1, column 2: syntax error while parsing value - REASON; last
  // read: X".
  std::string_view reason = error.what();
  if (const auto dash = reason.find(" - "); dash != std::string_view::npos) {
    reason.remove_prefix(dash + 3);
  } else if (const auto bracket = reason.find("] "); bracket != std::string_view::npos) {
    reason.remove_prefix(bracket + 2);
  }
  reason = reason.substr(0, reason.find("; last read"));
  problem_ = printable(reason, 160);
  syntax_error_at_ = std::max<std::size_t>(position, 1);
  return false;
}

Status parse_json_events(std::string_view text, std::string_view source, JsonEvents& events) {
  // The library takes a NUL for the end of the text and skips a byte order mark; neither belongs in JSON.
  if (text.starts_with("\xef\xbb\xbf"))
    return invalid_input("{}: starts with a byte order mark; save it as UTF-8 without one", source);
  if (const auto nul = text.find('\0'); nul != std::string_view::npos)
    return invalid_input("{}: has a NUL byte at offset {}, expected JSON text", source, nul);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return invalid_input("{}: is empty, expected JSON text", source);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &events,
                                                nlohmann::json::input_format_t::json, true);
  if (parsed && events.problem_.empty()) return ok();
  if (events.syntax_error_at_ == 0) return invalid_input("{}: {}", source, events.problem_);
  const std::string_view before = text.substr(0, std::min(events.syntax_error_at_ - 1, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto last_break = before.rfind('\n');
  const auto column = before.size() - (last_break == std::string_view::npos ? 0 : last_break + 1) + 1;
  return invalid_input("{}: not valid JSON at line {}, column {}: {}", source, line, column, events.problem_);
}

}  // namespace dif::io

#include "runtime/kernel_text.h"

#include "base/check.h"

namespace dif::runtime {

std::string fill(std::string_view text,
                 std::initializer_list<std::pair<std::string_view, std::string>> values) {
  std::string result;
  for (std::size_t at = 0;;) {
    const std::size_t open = text.find('@', at);
    if (open == std::string_view::npos) return result.append(text.substr(at));
    const std::size_t close = text.find('@', open + 1);
    DIF_CHECK(close != std::string_view::npos);
    const std::string_view name = text.substr(open + 1, close - open - 1);
    const auto* value = values.begin();
    while (value != values.end() && value->first != name) ++value;
    DIF_CHECK(value != values.end());
    result.append(text.substr(at, open - at)).append(value->second);
    at = close + 1;
  }
}

}  // namespace dif::runtime

// A JSON text of any bytes, and the getters of a configuration on what came out of it.

#include "io/json.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/promise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = dif::io::JsonDocument::parse(text, "input");
  if (!document) return 0;
  dif::io::ConfigReader config(*document);
  for (const std::string& key : config.keys()) {
    config.integer(key, {0, 100});
    config.number(key);
    config.boolean(key);
    config.string(key);
    config.integers(key, {0, 100});
    config.numbers(key);
    config.strings(key);
    config.objects(key);
    config.object(key).integer("inner");
  }
  if (!config.keys().empty()) dif::fuzz::promise(!config.finish(), "no value is of every type at once");
  return 0;
}

// The texts that --from reads out of a picture, of any bytes: our own document, and the settings of other
// programs. Refused, or what we write of them reads back the same.

#include "pipelines/generation_record.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/promise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using dif::fuzz::promise;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto record = dif::parse_generation_json(text, "input")) {
    promise(dif::validate(*record, "input").has_value(), "an accepted record is within its bounds");
    const auto document = dif::generation_json(*record);
    promise(document.has_value(), "what is read can be written");
    const auto again = dif::parse_generation_json(*document, "again");
    promise(again && *again == *record, "and reads back the same");
    promise(dif::png_texts(*record).has_value(), "every record can stand in a picture");
  }
  if (auto record = dif::parse_parameters_text(text, "input")) {
    promise(dif::validate(*record, "input").has_value(), "accepted settings are within their bounds");
    const auto settings = dif::parameters_text(*record);
    promise(settings.has_value(), "what is read can be written");
    const auto again = dif::parse_parameters_text(*settings, "again");
    record->model_digest.resize(std::min<std::size_t>(record->model_digest.size(), 10));  // as it is written
    promise(again && *again == *record, "and reads back the same");
  }
  return 0;
}

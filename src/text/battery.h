#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dif/status.h"
#include "io/json.h"
#include "text/tokenizer.h"

namespace dif::text {

struct BatteryReport {
  std::size_t n_cases = 0;
  std::size_t n_failed = 0;
  std::vector<std::string> failures;  ///< one sentence each for the first ten
};

/// Encodes the texts of a battery and compares with the ids that it lists: [{"text": "...", "ids": [...]},
/// ...], or an object with such a list under "cases". Errors: InvalidInput when the document is not such a
/// list or has no cases.
Result<BatteryReport> run_battery(const Tokenizer& tokenizer, const io::JsonDocument& battery);

}  // namespace dif::text

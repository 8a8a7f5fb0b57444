#pragma once

#include <string>
#include <string_view>

namespace dif::text {

/// Unicode Normalization Form C of well-formed UTF-8, as the reference tokenizer has it (reference_unicode.h:
/// a few recent marks are left where they stand). Time is O(n log n) for any text, also for long runs of
/// combining marks in the wrong order.
std::string nfc(std::string_view text);

}  // namespace dif::text

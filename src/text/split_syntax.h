#pragma once

#include <string>
#include <string_view>

#include "dif/status.h"

namespace dif::text {

/// Rewrites a pre-split pattern of a tokenizer file, written for the Oniguruma engine, as a PCRE2 pattern
/// with the same meaning. Only constructs that can be given the same meaning are accepted: literals; `.`;
/// alternation; groups
/// `( ) (?: ) (?i: ) (?> )`; lookaround; sets without nesting; `\s \S \d \D`, `\p{X} \P{X}` of a general
/// category,
/// `\r \n \t \f`, `\x{H}`, escaped punctuation; quantifiers `* + ?` (also lazy, possessive) and `{n} {n,}
/// {n,m}`. Pre: `pattern` is well-formed UTF-8. Errors: InvalidInput naming the construct and its offset.
Result<std::string> translate_split_pattern(std::string_view pattern);

}  // namespace dif::text

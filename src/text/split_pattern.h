#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"

namespace dif::text {

/// The pattern by which a tokenizer cuts text into words before merging. Immutable; safe to share between
/// threads.
class SplitPattern {
 public:
  /// What one thread needs while it splits; create one and use it for many texts.
  class Scratch;

  /// Errors: InvalidInput when the pattern is malformed, larger than 64 KiB, uses a construct that
  /// translate_split_pattern refuses, or can match the empty text.
  static Result<SplitPattern> compile(std::string_view source);

  Scratch make_scratch() const;

  /// Appends to `ends` the end of each piece of `text`: every match and every gap between matches, none
  /// empty, together the whole text. Pre: `text` is well-formed UTF-8. Errors: InvalidInput when the pattern
  /// backtracks without end (steps per match and time per text are bounded).
  Status split(std::string_view text, Scratch& scratch, std::vector<std::size_t>& ends) const;

  /// The pattern as the file has it.
  const std::string& source() const { return source_; }

 private:
  struct Code;
  SplitPattern(std::string source, std::shared_ptr<const Code> code);

  std::string source_;
  std::shared_ptr<const Code> code_;
};

class SplitPattern::Scratch {
 public:
  Scratch(Scratch&&) noexcept;
  Scratch& operator=(Scratch&&) noexcept;
  ~Scratch();

 private:
  friend class SplitPattern;
  struct Impl;
  explicit Scratch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dif::text

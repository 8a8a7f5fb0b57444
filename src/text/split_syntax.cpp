#include "text/split_syntax.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/reference_unicode.h"

namespace dif::text {
namespace {

constexpr std::array<std::string_view, 37> kCategories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_ascii_punctuation(char c) {
  return c > ' ' && c < 0x7f && !is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z');
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (at_ < in_.size()) DIF_TRY(item());
    return std::move(out_);
  }

 private:
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  void copy(std::size_t n) {
    out_.append(in_.substr(at_, n));
    at_ += n;
  }

  tl::unexpected<Error> refuse(std::string_view what) const {
    return invalid_input("pattern {:?}, offset {}: {}", in_, at_, what);
  }

  Status item() {
    switch (in_[at_]) {
      case '\\':
        DIF_TRY(escape());
        return ok();
      case '[':
        return set();
      case '(':
        return group();
      case '{':
        return counted();
      case '^':
      case '$':
        return refuse("anchors are not supported");
      default:
        copy(1);
        return ok();
    }
  }

  Status group() {
    for (const std::string_view opening : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (next_is(opening)) {
        copy(opening.size());
        return ok();
      }
    }
    if (next_is("(?") || next_is("(*")) return refuse("this kind of group is not supported");
    copy(1);
    return ok();
  }

  /// {n}, {n,} or {n,m}. What follows must not be + or ?, which the two engines read differently there.
  Status counted() {
    std::size_t end = at_ + 1;
    while (end < in_.size() && is_digit(in_[end])) ++end;
    const bool has_minimum = end > at_ + 1;
    if (end < in_.size() && in_[end] == ',') ++end;
    while (end < in_.size() && is_digit(in_[end])) ++end;
    if (!has_minimum || end >= in_.size() || in_[end] != '}') return refuse("expected {n}, {n,} or {n,m}");
    ++end;
    if (end < in_.size() && (in_[end] == '+' || in_[end] == '?')) {
      return refuse("a lazy or possessive {n,m} is not supported");
    }
    copy(end - at_);
    return ok();
  }

  /// True when the escape is a class of characters rather than one character.
  Result<bool> escape() {
    if (at_ + 1 >= in_.size()) return refuse("the pattern ends inside an escape");
    const char kind = in_[at_ + 1];
    // PCRE2 counts U+180E as space; the property is what Oniguruma means by \s.
    if (kind == 's' || kind == 'S') return replace(kind == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
    if (kind == 'd' || kind == 'D') return replace(kind == 'd' ? "\\p{Nd}" : "\\P{Nd}");
    if (kind == 'p' || kind == 'P') return category();
    if (kind == 'x') return code_point();
    if (kind != 'r' && kind != 'n' && kind != 't' && kind != 'f' && !is_ascii_punctuation(kind)) {
      return refuse("this escape is not supported");
    }
    copy(2);
    return false;
  }

  Result<bool> replace(std::string_view text) {
    out_ += text;
    at_ += 2;
    return true;
  }

  Result<bool> category() {
    const std::size_t close = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == std::string_view::npos) {
      return refuse("expected a category in braces");
    }
    const std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    if (std::find(kCategories.begin(), kCategories.end(), name) == kCategories.end()) {
      return refuse("only general categories such as L, Lu or Nd are supported");
    }
    const std::string_view newer = newer_members(name);
    const bool negated = in_[at_ + 1] == 'P';
    if (negated && in_set_ && !newer.empty()) return refuse("a negated category in a set is not supported");
    at_ = close + 1;
    if (in_set_ || newer.empty()) {
      out_ += fmt::format("\\{}{{{}}}{}", negated ? 'P' : 'p', name, newer);
    } else {
      out_ += fmt::format("[{}\\p{{{}}}{}]", negated ? "^" : "", name, newer);
    }
    return true;
  }

  Result<bool> code_point() {
    std::size_t end = at_ + 3;
    while (end < in_.size() && is_hex_digit(in_[end])) ++end;
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == at_ + 3 || end >= in_.size() ||
        in_[end] != '}') {
      return refuse("expected hexadecimal digits in braces");
    }
    copy(end + 1 - at_);
    return false;
  }

  Status set() {
    copy(next_is("[^") ? 2 : 1);
    in_set_ = true;
    if (next_is("]")) return refuse("an empty set is not supported");
    bool after_class = false;
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '[') return refuse("a set inside a set is not supported");
      if (next_is("&&")) return refuse("an intersection of sets is not supported");
      if (in_[at_] == '-' && after_class && !next_is("-]"))
        return refuse("a range cannot start with a class");
      const bool in_range = in_[at_] == '-' && !next_is("-]") && out_.back() != '[' && out_.back() != '^';
      after_class = false;
      if (in_[at_] == '\\') {
        DIF_ASSIGN(after_class, escape());
      } else {
        copy(1);
      }
      if (in_range && at_ + 1 < in_.size() && in_[at_] == '\\' &&
          std::string_view("sSdDpP").find(in_[at_ + 1]) != std::string_view::npos) {
        return refuse("a range cannot end with a class");
      }
    }
    if (at_ >= in_.size()) return refuse("a set is not closed");
    copy(1);
    in_set_ = false;
    return ok();
  }

  std::string_view in_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_set_ = false;
};

}  // namespace

Result<std::string> translate_split_pattern(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace dif::text

#include "text/split_pattern.h"

#include <algorithm>
#include <array>
#include <chrono>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "base/error.h"
#include "text/split_syntax.h"
#include "text/utf8.h"

namespace dif::text {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxPatternBytes = 64 * 1024;
// Of one match. A sane pattern needs a few steps for a character it looks at, and one match may look at all
// of them.
constexpr std::size_t kMinSteps = 1'000'000;
constexpr std::size_t kStepsPerByte = 32;
constexpr std::size_t kMaxScaledBytes = std::size_t{1} << 26;
constexpr std::uint32_t kMaxHeapKib = 256 * 1024;  // of one match without JIT
constexpr std::size_t kJitStackBytes = 1024 * 1024;
constexpr auto kMaxTime = std::chrono::seconds(10);  // of one text; a sane pattern does 1 MB in 0.05 s

struct FreePcre2 {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, FreePcre2>;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

struct SplitPattern::Code {
  Owned<pcre2_code> code;
};

struct SplitPattern::Scratch::Impl {
  Owned<pcre2_match_data> match;
  Owned<pcre2_match_context> context;
  Owned<pcre2_jit_stack> stack;
};

SplitPattern::Scratch::Scratch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SplitPattern::Scratch::Scratch(Scratch&&) noexcept = default;
SplitPattern::Scratch& SplitPattern::Scratch::operator=(Scratch&&) noexcept = default;
SplitPattern::Scratch::~Scratch() = default;

SplitPattern::SplitPattern(std::string source, std::shared_ptr<const Code> code)
    : source_(std::move(source)), code_(std::move(code)) {}

Result<SplitPattern> SplitPattern::compile(std::string_view source) {
  if (source.size() > kMaxPatternBytes) {
    return invalid_input("pattern of {} bytes; the limit is {}", source.size(), kMaxPatternBytes);
  }
  DIF_TRY(check_utf8(source, "pattern"));
  DIF_ASSIGN(const std::string translated, translate_split_pattern(source));
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  DIF_CHECK(context != nullptr);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->code.reset(pcre2_compile(units(translated), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE,
                                 &error, &offset, context.get()));
  if (code->code == nullptr) return invalid_input("pattern {:?}: {}", source, pcre2_message(error));
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(code->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0)
    return invalid_input("pattern {:?} can match the empty text, which cuts no word", source);
  // Without JIT (a kernel that forbids writable code) matching is slower and gives the same pieces.
  pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);
  return SplitPattern(std::string(source), std::move(code));
}

SplitPattern::Scratch SplitPattern::make_scratch() const {
  auto impl = std::make_unique<Scratch::Impl>();
  impl->match.reset(pcre2_match_data_create(1, nullptr));
  impl->context.reset(pcre2_match_context_create(nullptr));
  impl->stack.reset(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr));
  DIF_CHECK(impl->match != nullptr && impl->context != nullptr);
  pcre2_set_heap_limit(impl->context.get(), kMaxHeapKib);
  if (impl->stack != nullptr) pcre2_jit_stack_assign(impl->context.get(), nullptr, impl->stack.get());
  return Scratch(std::move(impl));
}

Status SplitPattern::split(std::string_view text, Scratch& scratch, std::vector<std::size_t>& ends) const {
  const Scratch::Impl& s = *scratch.impl_;
  const auto match_from = [&](std::size_t at, std::uint32_t options) {
    return pcre2_match(code_->code.get(), units(text), text.size(), at, PCRE2_NO_UTF_CHECK | options,
                       s.match.get(), s.context.get());
  };
  const std::size_t steps = std::max(kMinSteps, kStepsPerByte * std::min(text.size(), kMaxScaledBytes));
  pcre2_set_match_limit(s.context.get(), static_cast<std::uint32_t>(steps));
  const auto deadline = Clock::now() + kMaxTime;
  std::size_t done = 0;
  while (done < text.size()) {
    int found = match_from(done, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match_from(done, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return invalid_input("splitting text at offset {} with pattern {:?}: {}", done, source_,
                           pcre2_message(found));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(s.match.get());
    DIF_CHECK(range[0] >= done && range[1] > range[0] && range[1] <= text.size());
    if (range[0] > done) ends.push_back(range[0]);
    ends.push_back(range[1]);
    done = range[1];
    if (Clock::now() > deadline) {
      return invalid_input("splitting {} bytes of text with pattern {:?} takes longer than {} s", text.size(),
                           source_, kMaxTime.count());
    }
  }
  if (done < text.size()) ends.push_back(text.size());
  return ok();
}

}  // namespace dif::text

#pragma once

#include <fmt/format.h>

#include <utility>

#include "dif/status.h"

namespace dif {

/// Builds the error half of a Result: `return fail(ErrorCode::kIo, "{}: cannot open", path);`
template <class... Args>
tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

template <class... Args>
tl::unexpected<Error> invalid_input(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::kInvalidInput, format, std::forward<Args>(args)...);
}

/// Adds where we were: `return with_context(std::move(status.error()), "while building double block {}", i);`
template <class... Args>
tl::unexpected<Error> with_context(Error error, fmt::format_string<Args...> format, Args&&... args) {
  error.message += " (";
  error.message += fmt::format(format, std::forward<Args>(args)...);
  error.message += ")";
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace dif

#define DIF_CONCAT_(a, b) a##b
#define DIF_CONCAT(a, b) DIF_CONCAT_(a, b)

/// Returns the error of `expression` (a Status or Result) to our caller, if it has one.
#define DIF_TRY(...)                                                                       \
  do {                                                                                     \
    auto dif_status_ = (__VA_ARGS__);                                                      \
    if (!dif_status_) return tl::unexpected<::dif::Error>(std::move(dif_status_.error())); \
  } while (false)

/// `DIF_ASSIGN(Program program, build(config));` declares `program` from a Result, or returns its error.
/// Several statements: needs braces below an if.
#define DIF_ASSIGN(declaration, ...)                                                           \
  auto DIF_CONCAT(dif_result_, __LINE__) = (__VA_ARGS__);                                      \
  if (!DIF_CONCAT(dif_result_, __LINE__))                                                      \
    return tl::unexpected<::dif::Error>(std::move(DIF_CONCAT(dif_result_, __LINE__).error())); \
  declaration = std::move(*DIF_CONCAT(dif_result_, __LINE__))

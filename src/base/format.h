#pragma once

#include <fmt/format.h>

#include "dif/dtype.h"
#include "dif/shape.h"

/// Lets dtypes and shapes stand in messages: fmt::format("{} {}", dtype, shape).
template <>
struct fmt::formatter<dif::DType> : fmt::formatter<std::string_view> {
  auto format(dif::DType dtype, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(dif::dtype_name(dtype), context);
  }
};

template <>
struct fmt::formatter<dif::Shape> : fmt::formatter<std::string> {
  auto format(const dif::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(shape.to_string(), context);
  }
};

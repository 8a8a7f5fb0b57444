#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dif/dtype.h"

namespace dif::io {

/// A dtype of the safetensors format. Source: the `Dtype` list of the safetensors package 0.8.
struct SafetensorsDType {
  std::string_view name;
  std::uint64_t bits;          ///< of one element
  std::optional<DType> dtype;  ///< nothing for those that this program has no type for
};

/// Nothing for a word that the format does not know.
const SafetensorsDType* find_safetensors_dtype(std::string_view name);

}  // namespace dif::io

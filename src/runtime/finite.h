#pragma once

#include <cstddef>
#include <span>

#include "dif/dtype.h"

namespace dif::runtime {

struct FiniteSurvey {
  bool all_finite = true;
  bool has_nan = false;
  double largest_finite = 0;  ///< largest magnitude among the finite elements
};

/// Looks at every element; integers are always finite. Pre: `bytes` holds whole elements.
FiniteSurvey survey_finite(DType dtype, std::span<const std::byte> bytes);

/// The quick question alone.
bool all_finite(DType dtype, std::span<const std::byte> bytes);

}  // namespace dif::runtime

#pragma once

#include <cmath>
#include <vector>

namespace dif::reference {

struct Moments {
  double mean = 0;
  double scale = 0;  ///< 1 / sqrt(biased variance + eps)
};

/// Pre: values is not empty.
inline Moments moments(const std::vector<double>& values, float eps) {
  const double count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, 1.0 / std::sqrt(squares / count + static_cast<double>(eps))};
}

}  // namespace dif::reference

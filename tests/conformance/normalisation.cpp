#include "tests/conformance/normalisation.h"

#include <algorithm>
#include <cmath>

namespace dif::conformance {

double normalisation_scale(const io::HostTensor& x, std::int64_t run, float eps) {
  const std::vector<float> values = x.to_f32();
  double largest = 1;
  const auto width = static_cast<std::size_t>(run);
  for (std::size_t first = 0; first + width <= values.size() && width != 0; first += width) {
    double sum = 0, squares = 0, most = 0;
    for (std::size_t i = first; i < first + width; ++i) {
      const double value = static_cast<double>(values[i]);
      sum += value;
      squares += value * value;
      most = std::max(most, std::abs(value));
    }
    const double mean = sum / static_cast<double>(run);
    const double variance = std::max(0.0, squares / static_cast<double>(run) - mean * mean);
    largest = std::max(largest, most / std::sqrt(variance + static_cast<double>(eps)));
  }
  return largest;
}

}  // namespace dif::conformance

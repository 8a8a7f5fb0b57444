#pragma once

#include <string>

#include "io/host_tensor.h"
#include "ir/op_def.h"
#include "tests/conformance/instance.h"

namespace dif::conformance {

struct Difference {
  double of_allowed = 0;  ///< largest difference as a part of what the tolerance allows there; infinite: bits
  std::string text;       ///< names the worst element when of_allowed > 1

  bool ok() const { return of_allowed <= 1; }
};

/// Compares element by element as Tolerance says; dtypes and shapes must agree.
Difference compare(const io::HostTensor& got, const io::HostTensor& want, const Tolerance& tolerance,
                   double scale);

/// An attribute's value for people: 1, 1e-06, true, bf16, [1, 1].
std::string attr_text(const ir::Attr& attr);

}  // namespace dif::conformance

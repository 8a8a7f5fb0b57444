#pragma once

#include <string>
#include <string_view>

namespace dif::cli {

/// For --why: one line that counts the kernels of a prepared program, and one per reason for which others
/// declined. `details` is the backend's JSON document; what does not look as expected is left out.
std::string kernel_summary(std::string_view program, const std::string& details);

}  // namespace dif::cli

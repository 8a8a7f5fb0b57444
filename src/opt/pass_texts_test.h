#pragma once

#include <span>
#include <string_view>

namespace dif::opt {

/// NAME.txt of this folder, as the build read it.
struct PassTextFile {
  std::string_view pass;  ///< NAME
  std::string_view text;
};

/// Defined in a source that CMakeLists.txt makes of the files.
std::span<const PassTextFile> pass_text_files();

}  // namespace dif::opt

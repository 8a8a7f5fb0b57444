#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "dif/status.h"
#include "io/image.h"

namespace dif::io {

/// An uncompressed 24-bit BMP (grey is spread to RGB, alpha is dropped).
/// Errors: kInvalidInput (an empty image, or one past the format's 32-bit sizes).
Result<std::vector<std::byte>> encode_bmp(const Image& image);
Status write_bmp(const std::filesystem::path& path, const Image& image);

}  // namespace dif::io

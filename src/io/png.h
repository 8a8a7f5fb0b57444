#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"
#include "io/image.h"

namespace dif::io {

/// A text chunk. Written as tEXt when the text is ASCII, else as iTXt; left out when the text is empty. Both
/// strings are UTF-8.
struct PngText {
  std::string keyword;  ///< 1 to 79 printable ASCII characters, no space at an end, no two spaces in a row
  std::string text;     ///< no NUL
};

/// The file, packed fast rather than small, by several threads. The same image and texts give the same bytes.
/// Errors: kInvalidInput (an empty or oversized image, a keyword or text that the format cannot hold).
Result<std::vector<std::byte>> encode_png(const Image& image, std::span<const PngText> texts = {});
/// Writes it atomically.
Status write_png(const std::filesystem::path& path, const Image& image, std::span<const PngText> texts = {});

struct PngReadOptions {
  int channels = 0;  ///< 3 or 4; 0 takes what the file has (grey, RGB or RGBA)
  std::uint32_t max_width = 16384, max_height = 16384;
  std::uint64_t max_pixels = 1ULL << 27;
  std::uint64_t max_file_bytes = 1ULL << 30;
};

/// Any PNG as 8-bit pixels: 16-bit samples are cut to their upper byte's value, palettes and transparency are
/// expanded, alpha is dropped for channels == 3. Errors: kNotFound; kIo; kInvalidInput (not a PNG, damaged,
/// too big).
Result<Image> decode_png(std::span<const std::byte> file, std::string_view source,
                         const PngReadOptions& options = {});
Result<Image> read_png(const std::filesystem::path& path, const PngReadOptions& options = {});

/// The text chunks (tEXt, zTXt, iTXt) as UTF-8, in file order; each at most 16 MiB.
Result<std::vector<PngText>> decode_png_text(std::span<const std::byte> file, std::string_view source);
Result<std::vector<PngText>> read_png_text(const std::filesystem::path& path);

}  // namespace dif::io

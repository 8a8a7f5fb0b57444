#include "io/bmp.h"

#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "io/atomic_file.h"

namespace dif::io {

namespace {

constexpr std::size_t kHeaderBytes = 54;  // BITMAPFILEHEADER and BITMAPINFOHEADER

template <class T>
void store(std::vector<std::byte>& file, std::size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof(T));
}

}  // namespace

Result<std::vector<std::byte>> encode_bmp(const Image& image) {
  const std::uint64_t row_bytes = (static_cast<std::uint64_t>(image.width) * 3 + 3) / 4 * 4;
  const auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
  const bool known = image.channels == 1 || image.channels == 3 || image.channels == 4;
  if (image.width == 0 || image.height == 0 || !known || row_bytes > limit ||
      image.height > (limit - kHeaderBytes) / row_bytes)
    return invalid_input("a picture of {} x {} with {} channels cannot be written as BMP", image.width,
                         image.height, image.channels);
  const auto channels = static_cast<std::size_t>(image.channels);
  DIF_CHECK(image.pixels.size() == static_cast<std::size_t>(image.width) * image.height * channels);

  const std::uint64_t pixel_bytes = row_bytes * image.height;
  std::vector<std::byte> file(kHeaderBytes + pixel_bytes);
  store<std::uint16_t>(file, 0, 0x4d42);  // "BM"
  store<std::uint32_t>(file, 2, static_cast<std::uint32_t>(file.size()));
  store<std::uint32_t>(file, 10, kHeaderBytes);
  store<std::uint32_t>(file, 14, 40);  // bytes of the second header
  store<std::uint32_t>(file, 18, image.width);
  store<std::uint32_t>(file, 22, image.height);
  store<std::uint16_t>(file, 26, 1);   // planes
  store<std::uint16_t>(file, 28, 24);  // bits a pixel
  store<std::uint32_t>(file, 34, static_cast<std::uint32_t>(pixel_bytes));
  store<std::uint32_t>(file, 38, 2835);  // 72 dots an inch, in dots a metre
  store<std::uint32_t>(file, 42, 2835);

  for (std::size_t y = 0; y < image.height; ++y) {
    // Rows are stored from the bottom, pixels as blue, green, red.
    std::byte* to = file.data() + kHeaderBytes + (image.height - 1 - y) * row_bytes;
    const std::uint8_t* from = image.pixels.data() + y * image.width * channels;
    for (std::size_t x = 0; x < image.width; ++x, from += channels) {
      *to++ = static_cast<std::byte>(from[channels == 1 ? 0 : 2]);
      *to++ = static_cast<std::byte>(from[channels == 1 ? 0 : 1]);
      *to++ = static_cast<std::byte>(from[0]);
    }
  }
  return file;
}

Status write_bmp(const std::filesystem::path& path, const Image& image) {
  auto file = encode_bmp(image);
  if (!file) return with_context(std::move(file.error()), "while writing {}", path.native());
  return write_atomically(path, *file);
}

}  // namespace dif::io

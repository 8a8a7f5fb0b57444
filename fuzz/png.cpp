// A PNG of any bytes: pixels and text chunks.

#include "io/png.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/promise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  dif::io::PngReadOptions options;
  options.max_pixels = 1 << 16;  // so that the fuzzer spends its time on structure
  if (const auto image = dif::io::decode_png(bytes, "input", options)) {
    const std::size_t expected =
        std::size_t{image->width} * image->height * static_cast<std::size_t>(image->channels);
    dif::fuzz::promise(image->pixels.size() == expected, "as many pixels as the header says");
    dif::fuzz::promise(expected <= std::size_t{4} << 16, "no more pixels than the options allow");
  }
  (void)dif::io::decode_png_text(bytes, "input");
  return 0;
}

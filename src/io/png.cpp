#include "io/png.h"

#include <spng.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "io/file.h"
#include "io/printable.h"

namespace dif::io {

namespace {

constexpr std::size_t kMaxChunkBytes = 16 << 20;
constexpr std::size_t kMaxChunkCacheBytes = 64 << 20;
constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);

struct ContextFree {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, ContextFree>;

Context new_context(int flags) {
  Context context(spng_ctx_new(flags));
  if (context == nullptr) throw std::bad_alloc();
  return context;
}

tl::unexpected<Error> damaged(std::string_view source, int code) {
  if (code == SPNG_EUSER_WIDTH || code == SPNG_EUSER_HEIGHT)
    return invalid_input("{} is wider or higher than this program reads; scale it down", source);
  if (code == SPNG_ESIGNATURE) return invalid_input("{} is not a PNG; give a PNG file", source);
  if (code == SPNG_IO_EOF || code == SPNG_EIDAT_TOO_SHORT)
    return invalid_input("{} is a truncated PNG; copy it again", source);
  return invalid_input("{} is a damaged PNG: {}; copy it again", source, spng_strerror(code));
}

std::string latin1_to_utf8(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += static_cast<char>(0xc0 | (byte >> 6));
      out += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return out;
}

/// A decoder that has read everything before the pixels.
Result<std::pair<Context, spng_ihdr>> open_decoder(std::span<const std::byte> file, std::string_view source,
                                                   const PngReadOptions& options) {
  if (file.empty()) return invalid_input("{} is empty, expected a PNG", source);
  if (std::memcmp(file.data(), kSignature.data(), std::min(file.size(), kSignature.size())) != 0)
    return damaged(source, SPNG_ESIGNATURE);
  Context context = new_context(0);
  spng_set_image_limits(context.get(), options.max_width, options.max_height);
  spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkCacheBytes);
  if (const int code = spng_set_png_buffer(context.get(), file.data(), file.size()); code != 0)
    return damaged(source, code);
  spng_ihdr header{};
  if (const int code = spng_get_ihdr(context.get(), &header); code != 0) return damaged(source, code);
  if (static_cast<std::uint64_t>(header.width) * header.height > options.max_pixels)
    return invalid_input("{} is {} x {}, more than the {} pixels that this program reads; scale it down",
                         source, header.width, header.height, options.max_pixels);
  return std::pair(std::move(context), header);
}

Status decode_pixels(spng_ctx* context, std::string_view source, int format,
                     std::vector<std::uint8_t>& pixels) {
  std::size_t bytes = 0;
  if (const int code = spng_decoded_image_size(context, format, &bytes); code != 0)
    return damaged(source, code);
  pixels.resize(bytes);
  const int flags = format == SPNG_FMT_RGBA8 ? SPNG_DECODE_TRNS : 0;
  if (const int code = spng_decode_image(context, pixels.data(), bytes, format, flags); code != 0)
    return damaged(source, code);
  // The library stops at the last pixel; the checksums behind it are read with the chunks that follow.
  if (const int code = spng_decode_chunks(context); code != 0) return damaged(source, code);
  return ok();
}

/// The text chunks that the decoder has passed so far.
Result<std::vector<PngText>> texts_so_far(spng_ctx* context, std::string_view source) {
  std::uint32_t count = 0;
  int code = spng_get_text(context, nullptr, &count);
  if (code == SPNG_ECHUNKAVAIL) return std::vector<PngText>{};
  if (code != 0) return damaged(source, code);
  std::vector<spng_text> chunks(count);
  code = spng_get_text(context, chunks.data(), &count);
  if (code != 0) return damaged(source, code);

  std::vector<PngText> texts;
  for (const spng_text& chunk : chunks) {
    const std::string_view text =
        chunk.text == nullptr ? std::string_view() : std::string_view(chunk.text, chunk.length);
    if (chunk.type == SPNG_ITXT && first_invalid_utf8(text) != text.size())
      return invalid_input("{}: the text chunk \"{}\" is not UTF-8 at byte {}", source,
                           printable(chunk.keyword), first_invalid_utf8(text));
    texts.push_back(
        {latin1_to_utf8(chunk.keyword), chunk.type == SPNG_ITXT ? std::string(text) : latin1_to_utf8(text)});
  }
  return texts;
}

}  // namespace

Result<Image> decode_png(std::span<const std::byte> file, std::string_view source,
                         const PngReadOptions& options) {
  DIF_ASSIGN(const auto decoder, open_decoder(file, source, options));
  const auto& [context, header] = decoder;
  spng_trns transparency{};
  const bool alpha = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
                     header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA ||
                     spng_get_trns(context.get(), &transparency) == 0;
  const bool grey = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && header.bit_depth <= 8;
  Image image;
  image.width = header.width;
  image.height = header.height;
  image.channels = options.channels != 0 ? options.channels : alpha ? 4 : grey ? 1 : 3;
  DIF_CHECK(image.channels == 1 || image.channels == 3 || image.channels == 4);
  const int format = image.channels == 1 ? SPNG_FMT_G8 : image.channels == 3 ? SPNG_FMT_RGB8 : SPNG_FMT_RGBA8;
  DIF_TRY(decode_pixels(context.get(), source, format, image.pixels));
  return image;
}

Result<Image> read_png(const std::filesystem::path& path, const PngReadOptions& options) {
  DIF_ASSIGN(const std::vector<std::byte> file, read_file(path, options.max_file_bytes));
  return decode_png(file, path.native(), options);
}

Result<std::vector<PngText>> decode_png_text(std::span<const std::byte> file, std::string_view source) {
  DIF_ASSIGN(const auto decoder, open_decoder(file, source, {}));
  spng_ctx* const context = decoder.first.get();
  DIF_ASSIGN(std::vector<PngText> texts, texts_so_far(context, source));
  if (!texts.empty()) return texts;
  // Some programs put their text behind the pixels; the library gets there only through them.
  std::vector<std::uint8_t> pixels;
  DIF_TRY(decode_pixels(context, source, SPNG_FMT_RGB8, pixels));
  return texts_so_far(context, source);
}

Result<std::vector<PngText>> read_png_text(const std::filesystem::path& path) {
  DIF_ASSIGN(const std::vector<std::byte> file, read_file(path, PngReadOptions{}.max_file_bytes));
  return decode_png_text(file, path.native());
}

}  // namespace dif::io

#include <zlib.h>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/error.h"
#include "base/parallel.h"
#include "io/atomic_file.h"
#include "io/png.h"
#include "io/printable.h"

namespace dif::io {

namespace {

constexpr std::uint32_t kMaxPngSide = 0x7fffffff;
constexpr std::size_t kSmallestBandBytes = 256 << 10;
constexpr std::size_t kMaxThreads = 8;
constexpr std::uint8_t kFilterUp = 2;
constexpr int kRawDeflate = -15;  // no zlib header and trailer; a window of 32 KiB
constexpr int kLevel = 1, kMemory = 9;

using Bytes = std::vector<std::byte>;

Status check_text(const PngText& text) {
  const std::string& key = text.keyword;
  const bool printable_ascii =
      std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
  if (key.empty() || key.size() > 79 || !printable_ascii || key.front() == ' ' || key.back() == ' ' ||
      key.find("  ") != std::string::npos)
    return invalid_input(
        "PNG keyword \"{}\" must have 1 to 79 printable ASCII characters and no spare spaces",
        printable(key));
  if (text.text.find('\0') != std::string::npos)
    return invalid_input("the PNG text \"{}\" holds a NUL byte at offset {}", key, text.text.find('\0'));
  if (const std::size_t at = first_invalid_utf8(text.text); at != text.text.size())
    return invalid_input("the PNG text \"{}\" is not UTF-8 at byte {}", key, at);
  return ok();
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void append_u32(Bytes& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::byte>(value >> shift));
}

void append(Bytes& out, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// Starts a chunk; end_chunk() fills in its length and adds its checksum.
std::size_t begin_chunk(Bytes& out, std::string_view type) {
  const std::size_t begin = out.size();
  append_u32(out, 0);
  append(out, type);
  return begin;
}

void end_chunk(Bytes& out, std::size_t begin) {
  const std::size_t content = out.size() - begin - 8;
  for (std::size_t i = 0; i < 4; ++i) out[begin + i] = static_cast<std::byte>(content >> (24 - 8 * i));
  const auto* summed = reinterpret_cast<const Bytef*>(out.data() + begin + 4);
  append_u32(out, static_cast<std::uint32_t>(crc32(0, summed, static_cast<uInt>(content + 4))));
}

void append_text(Bytes& out, const PngText& text) {
  const bool ascii = is_ascii(text.text);
  const std::size_t begin = begin_chunk(out, ascii ? "tEXt" : "iTXt");
  append(out, text.keyword);
  // An iTXt says before its text: not compressed, method 0, no language, no translated keyword.
  append(out, ascii ? std::string_view("\0", 1) : std::string_view("\0\0\0\0\0", 5));
  append(out, text.text);
  end_chunk(out, begin);
}

/// Some rows, filtered and packed.
struct Band {
  Bytes chunk;              ///< a whole IDAT chunk: a part of the deflate stream that ends on a byte
  std::uint32_t adler = 0;  ///< of the filtered rows
  std::size_t filtered_bytes = 0;
};

struct DeflateEnd {
  z_stream* stream;
  ~DeflateEnd() { deflateEnd(stream); }
};

/// Appends `filtered` to the chunk. Runs and entropy coding alone: noise of a picture has no repeats that
/// are worth the search, and is packed twice as fast and a sixth smaller without it.
void deflate_into(Bytes& chunk, std::vector<Bytef>& filtered, bool is_last) {
  z_stream stream{};
  const int code = deflateInit2(&stream, kLevel, Z_DEFLATED, kRawDeflate, kMemory, Z_RLE);
  if (code == Z_MEM_ERROR) throw std::bad_alloc();
  DIF_CHECK(code == Z_OK);
  const DeflateEnd end{&stream};
  const std::size_t begin = chunk.size();
  constexpr std::size_t kSyncMarker = 16;  // what deflateBound does not count: the empty block of a flush
  chunk.resize(begin + deflateBound(&stream, static_cast<uLong>(filtered.size())) + kSyncMarker);
  stream.next_in = filtered.data();
  stream.avail_in = static_cast<uInt>(filtered.size());
  stream.next_out = reinterpret_cast<Bytef*>(chunk.data() + begin);
  stream.avail_out = static_cast<uInt>(chunk.size() - begin);
  const int done = deflate(&stream, is_last ? Z_FINISH : Z_SYNC_FLUSH);
  DIF_CHECK(done == (is_last ? Z_STREAM_END : Z_OK) && stream.avail_in == 0 && stream.avail_out > 0);
  chunk.resize(begin + stream.total_out);
}

class Rows {
 public:
  explicit Rows(const Image& image)
      : image_(image),
        row_bytes_(static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels)),
        band_rows_(std::max<std::size_t>(1, kSmallestBandBytes / (row_bytes_ + 1))) {}

  std::size_t bands() const { return (image_.height + band_rows_ - 1) / band_rows_; }

  Band pack(std::size_t number) const {
    const std::size_t first = number * band_rows_;
    const std::size_t last = std::min<std::size_t>(image_.height, first + band_rows_);
    std::vector<Bytef> filtered = filter(first, last);
    Band band;
    band.filtered_bytes = filtered.size();
    band.adler = static_cast<std::uint32_t>(adler32(1, filtered.data(), static_cast<uInt>(filtered.size())));
    const std::size_t begin = begin_chunk(band.chunk, "IDAT");
    if (number == 0) append(band.chunk, "\x78\x01");  // zlib's header: deflate, a window of 32 KiB, fast
    deflate_into(band.chunk, filtered, last == image_.height);
    end_chunk(band.chunk, begin);
    return band;
  }

 private:
  /// Trying every filter of a row takes longer than packing it and gains little: each row is a difference
  /// from the row above.
  std::vector<Bytef> filter(std::size_t first, std::size_t last) const {
    std::vector<Bytef> filtered((last - first) * (row_bytes_ + 1));
    const std::vector<std::uint8_t> nothing(first == 0 ? row_bytes_ : 0);
    for (std::size_t y = first; y < last; ++y) {
      const std::uint8_t* row = image_.pixels.data() + y * row_bytes_;
      const std::uint8_t* above = y == 0 ? nothing.data() : row - row_bytes_;
      Bytef* out = filtered.data() + (y - first) * (row_bytes_ + 1);
      *out++ = kFilterUp;
      for (std::size_t i = 0; i < row_bytes_; ++i) out[i] = static_cast<Bytef>(row[i] - above[i]);
    }
    return filtered;
  }

  const Image& image_;
  std::size_t row_bytes_;
  std::size_t band_rows_;
};

/// The bands of a picture, by several threads. What a band holds does not depend on who packs it.
std::vector<Band> pack_bands(const Rows& rows) {
  std::vector<Band> bands(rows.bands());
  parallel_for(bands.size(), kMaxThreads, [&](std::size_t i) { bands[i] = rows.pack(i); });
  return bands;
}

void append_header(Bytes& out, const Image& image) {
  constexpr std::uint8_t kGrey = 0, kRgb = 2, kRgba = 6, kBitDepth = 8;
  const std::uint8_t colour = image.channels == 1 ? kGrey : image.channels == 3 ? kRgb : kRgba;
  append(out, std::string_view("\x89PNG\r\n\x1a\n", 8));
  const std::size_t begin = begin_chunk(out, "IHDR");
  append_u32(out, image.width);
  append_u32(out, image.height);
  for (const std::uint8_t value : {kBitDepth, colour, std::uint8_t{0}, std::uint8_t{0}, std::uint8_t{0}})
    out.push_back(static_cast<std::byte>(value));
  end_chunk(out, begin);
}

}  // namespace

Result<Bytes> encode_png(const Image& image, std::span<const PngText> texts) {
  const bool known = image.channels == 1 || image.channels == 3 || image.channels == 4;
  if (image.width == 0 || image.height == 0 || image.width > kMaxPngSide / 4 || image.height > kMaxPngSide ||
      !known)
    return invalid_input("a picture of {} x {} with {} channels cannot be written as PNG", image.width,
                         image.height, image.channels);
  DIF_CHECK(image.pixels.size() ==
            static_cast<std::size_t>(image.width) * image.height * static_cast<std::size_t>(image.channels));
  for (const PngText& text : texts) DIF_TRY(check_text(text));

  Bytes file;
  append_header(file, image);
  for (const PngText& text : texts)
    if (!text.text.empty()) append_text(file, text);
  auto adler = static_cast<uLong>(adler32(0, nullptr, 0));
  for (const Band& band : pack_bands(Rows(image))) {
    file.insert(file.end(), band.chunk.begin(), band.chunk.end());
    adler = adler32_combine(adler, band.adler, static_cast<z_off_t>(band.filtered_bytes));
  }
  const std::size_t trailer = begin_chunk(file, "IDAT");
  append_u32(file, static_cast<std::uint32_t>(adler));
  end_chunk(file, trailer);
  end_chunk(file, begin_chunk(file, "IEND"));
  return file;
}

Status write_png(const std::filesystem::path& path, const Image& image, std::span<const PngText> texts) {
  auto file = encode_png(image, texts);
  if (!file) return with_context(std::move(file.error()), "while writing {}", path.native());
  return write_atomically(path, *file);
}

}  // namespace dif::io

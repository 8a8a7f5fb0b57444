#include "io/range_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "io/mapped_file.h"
#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

std::string numbers(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
}

struct Room {
  explicit Room(std::uint64_t bytes)
      : memory(static_cast<std::byte*>(std::aligned_alloc(RangeReader::kBlock, RangeReader::room(bytes))),
               std::free) {}
  std::unique_ptr<std::byte, void (*)(void*)> memory;
};

TEST(RangeReader, ReadsWarmAndColdRangesAlike) {
  const test::ScratchDir dir;
  const std::string content = numbers(100'000);
  spit(dir / "f", content);
  const auto file = MappedFile::open(dir / "f");
  ASSERT_TRUE(file);
  for (const bool cold : {false, true})
    for (const auto& [offset, bytes] : {std::pair<std::uint64_t, std::uint64_t>{0, 1},
                                        {1, 4096},
                                        {4095, 2},
                                        {5000, 90'000},
                                        {99'999, 1},
                                        {7, 99'993}}) {
      const FileRange range = {file->fd(), offset, bytes, file->bytes().data() + offset};
      if (cold) {
        ::fsync(file->fd());
        drop_from_cache({file->fd(), 0, content.size()});
      }
      RangeReader reader;
      Room room(bytes);
      const auto found = reader.read(range, room.memory.get());
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_EQ(std::memcmp(*found, content.data() + offset, bytes), 0) << offset << " " << bytes;
    }
}

TEST(RangeReader, AFileThatShrankIsNamed) {
  const test::ScratchDir dir;
  spit(dir / "weights", numbers(10'000));
  const auto file = MappedFile::open(dir / "weights");
  ASSERT_TRUE(file);
  ASSERT_EQ(::truncate((dir / "weights").c_str(), 5000), 0);
  RangeReader reader;
  Room room(4000);
  const auto found = reader.read({file->fd(), 3000, 4000}, room.memory.get());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kIo);
  EXPECT_NE(found.error().message.find("weights shrank while in use: 4000 bytes were expected at 3000, 2000"),
            std::string::npos)
      << found.error().message;
}

TEST(RangeReader, ADescriptorThatCannotBeReadIsAnError) {
  RangeReader reader;
  Room room(10);
  EXPECT_FALSE(reader.read({-1, 0, 10}, room.memory.get()));
}

}  // namespace
}  // namespace dif::io

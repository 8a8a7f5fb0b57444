#include "io/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "io/file.h"
#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

namespace fs = std::filesystem;

std::size_t count(std::span<const std::byte> bytes, char c) {
  return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), static_cast<std::byte>(c)));
}

TEST(MappedFile, HoldsTheBytesOfTheFile) {
  const test::ScratchDir dir;
  spit(dir / "a", "hello");
  auto file = MappedFile::open(dir / "a");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->size(), 5U);
  EXPECT_GE(file->fd(), 0);
  EXPECT_EQ(std::memcmp(file->bytes().data(), "hello", 5), 0);
  const std::byte* before = file->bytes().data();
  const MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().data(), before);
  EXPECT_TRUE(moved.check());
  moved.will_need(3, 100);
  moved.will_need(100, 1);
  moved.will_read_sequentially();
  moved.no_longer_needed(0, 5);
  EXPECT_EQ(std::memcmp(moved.bytes().data(), "hello", 5), 0);
}

TEST(MappedFile, EmptyFileHasNoBytes) {
  const test::ScratchDir dir;
  spit(dir / "a", "");
  const auto file = MappedFile::open(dir / "a");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->bytes().empty());
  EXPECT_TRUE(file->check());
}

TEST(MappedFile, RefusesWhatIsNotAFile) {
  const test::ScratchDir dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  expect_refused(MappedFile::open(dir / "no"), ErrorCode::kNotFound, {"no such file", "/no"});
  expect_refused(MappedFile::open(dir.path()), ErrorCode::kInvalidInput, {"is a folder"});
  expect_refused(MappedFile::open(dir / "pipe"), ErrorCode::kInvalidInput, {"not a regular file"});
}

TEST(MappedFile, ShrunkFileReadsZerosAndFailsItsCheck) {
  const test::ScratchDir dir;
  spit(dir / "a", std::string(100'000, 'x'));
  const auto file = MappedFile::open(dir / "a");
  ASSERT_TRUE(file);
  ASSERT_EQ(::truncate((dir / "a").c_str(), 4096), 0);
  EXPECT_EQ(count(file->bytes(), 'x'), 4096U);
  EXPECT_EQ(count(file->bytes(), '\0'), 100'000U - 4096U);
  expect_refused(file->check(), ErrorCode::kIo,
                 {(dir / "a").native(), "shrank or could not be read while in use"});
}

TEST(MappedFile, DamageIsRememberedWhenTheFileGrowsBack) {
  const test::ScratchDir dir;
  spit(dir / "a", std::string(50'000, 'x'));
  const auto file = MappedFile::open(dir / "a");
  ASSERT_TRUE(file);
  ASSERT_EQ(::truncate((dir / "a").c_str(), 0), 0);
  EXPECT_EQ(count(file->bytes(), 'x'), 0U);
  ASSERT_EQ(::truncate((dir / "a").c_str(), 50'000), 0);
  EXPECT_FALSE(file->check());
}

TEST(MappedFile, LossInsideTheLastPageIsSeenWithoutAFault) {
  const test::ScratchDir dir;
  spit(dir / "a", std::string(5000, 'x'));
  const auto file = MappedFile::open(dir / "a");
  ASSERT_TRUE(file);
  ASSERT_EQ(::truncate((dir / "a").c_str(), 4999), 0);
  EXPECT_FALSE(file->check());
}

TEST(MappedFile, ShrinkingWhileManyThreadsReadIsSurvived) {
  const test::ScratchDir dir;
  spit(dir / "a", std::string(8 << 20, 'x'));
  const auto file = MappedFile::open(dir / "a");
  ASSERT_TRUE(file);
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&] {
      while (file->check()) EXPECT_LE(count(file->bytes(), 'x'), 8U << 20);
      EXPECT_LT(count(file->bytes(), 'x'), 8U << 20);
    });
  ASSERT_EQ(::truncate((dir / "a").c_str(), 1 << 20), 0);
  for (std::thread& reader : readers) reader.join();
}

TEST(MappedFile, OnlyTheFileThatShrankIsBlamed) {
  const test::ScratchDir dir;
  std::vector<MappedFile> files;
  for (int i = 0; i < 300; ++i) {  // more than one block of the registry
    const fs::path path = dir / std::to_string(i);
    spit(path, std::string(10'000, 'x'));
    auto file = MappedFile::open(path);
    ASSERT_TRUE(file);
    files.push_back(std::move(*file));
  }
  ASSERT_EQ(::truncate((dir / "257").c_str(), 0), 0);
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(count(files[i].bytes(), 'x'), i == 257 ? 0U : 10'000U);
    EXPECT_EQ(files[i].check().has_value(), i != 257) << i;
  }
}

TEST(MappedFileDeathTest, FaultsOutsideOurMappingsEndTheProcessAsBefore) {
  const test::ScratchDir dir;
  spit(dir / "ours", "x");
  spit(dir / "other", std::string(10'000, 'x'));
  EXPECT_DEATH(
      {
        const auto ours = MappedFile::open(dir / "ours");
        const auto other = MappedFile::open(dir / "other");
        const auto* bytes =
            static_cast<const volatile char*>(::mmap(nullptr, 10'000, PROT_READ, MAP_SHARED, other->fd(), 0));
        if (::truncate((dir / "other").c_str(), 0) == 0) static_cast<void>(bytes[5000]);
      },
      "");
}

TEST(ReadFile, ReadsFilesAndPipesUpToALimit) {
  const test::ScratchDir dir;
  spit(dir / "a", "hello");
  EXPECT_EQ(read_text_file(dir / "a", 5).value(), "hello");
  expect_refused(read_text_file(dir / "a", 4), ErrorCode::kInvalidInput, {"longer than 4 bytes"});
  expect_refused(read_file(dir.path(), 4), ErrorCode::kInvalidInput, {"is a folder"});
  expect_refused(read_file(dir / "b", 4), ErrorCode::kNotFound, {"no such file"});
  expect_refused(read_file("/dev/zero", 10'000), ErrorCode::kInvalidInput, {"longer than 10000 bytes"});
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { spit(dir / "pipe", std::string(20'000, 'y')); });
  EXPECT_EQ(read_text_file(dir / "pipe", 1 << 20).value(), std::string(20'000, 'y'));
  writer.join();
}

TEST(DigestFiles, GivesTheDigestOfEachFileInOrder) {
  const test::ScratchDir dir;
  std::vector<MappedFile> files;
  std::vector<const MappedFile*> pointers;
  for (int i = 0; i < 5; ++i) {
    spit(dir / std::to_string(i), std::string(1000 * i, 'a'));
    files.push_back(std::move(*MappedFile::open(dir / std::to_string(i))));
  }
  for (const MappedFile& file : files) pointers.push_back(&file);
  const auto digests = digest_files(pointers);
  ASSERT_TRUE(digests);
  for (int i = 0; i < 5; ++i) EXPECT_EQ((*digests)[i], sha256(std::string(1000 * i, 'a')));
  ASSERT_EQ(::truncate((dir / "3").c_str(), 10), 0);
  expect_refused(digest_files(pointers), ErrorCode::kIo, {"/3", "shrank"});
}

}  // namespace
}  // namespace dif::io

#include "io/atomic_folder.h"

#include <gtest/gtest.h>

#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

namespace fs = std::filesystem;

TEST(AtomicFolder, AppearsWhenItIsCommitted) {
  const test::ScratchDir dir;
  auto folder = AtomicFolder::create(dir / "out");
  ASSERT_TRUE(folder) << folder.error().message;
  spit(folder->path() / "a.txt", "hello");
  EXPECT_FALSE(fs::exists(dir / "out"));
  const Status committed = folder->commit();
  ASSERT_TRUE(committed) << committed.error().message;
  EXPECT_EQ(slurp(dir / "out" / "a.txt"), "hello");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"out"});
}

TEST(AtomicFolder, LeavesNothingBehindWithoutCommit) {
  const test::ScratchDir dir;
  {
    auto folder = AtomicFolder::create(dir / "out/");
    ASSERT_TRUE(folder) << folder.error().message;
    fs::create_directories(folder->path() / "deep" / "deeper");
    spit(folder->path() / "deep" / "a.txt", "hello");
  }
  EXPECT_TRUE(names_in(dir.path()).empty());
}

TEST(AtomicFolder, TakesThePlaceOfAnEmptyFolderAndOfNothingElse) {
  const test::ScratchDir dir;
  fs::create_directory(dir / "empty");
  auto folder = AtomicFolder::create(dir / "empty");
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_TRUE(folder->commit());

  spit(dir / "file", "x");
  expect_refused(AtomicFolder::create(dir / "file"), ErrorCode::kInvalidInput, {"is there already"});
  fs::create_directory(dir / "full");
  spit(dir / "full" / "file", "x");
  expect_refused(AtomicFolder::create(dir / "full"), ErrorCode::kInvalidInput, {"is there already"});
}

TEST(AtomicFolder, WhatAppearsMeanwhileIsNotOverwritten) {
  const test::ScratchDir dir;
  auto folder = AtomicFolder::create(dir / "out");
  ASSERT_TRUE(folder) << folder.error().message;
  fs::create_directory(dir / "out");
  spit(dir / "out" / "theirs", "x");
  const Status committed = folder->commit();
  ASSERT_FALSE(committed);
  EXPECT_NE(committed.error().message.find("is there already"), std::string::npos);
  EXPECT_TRUE(fs::exists(dir / "out" / "theirs"));
}

TEST(AtomicFolder, AMissingParentIsNamed) {
  const test::ScratchDir dir;
  expect_refused(AtomicFolder::create(dir / "no" / "out"), ErrorCode::kIo,
                 {(dir / "no" / "out").string(), "parent folder does not exist"});
}

}  // namespace
}  // namespace dif::io

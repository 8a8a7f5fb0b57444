#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

#include "base/error.h"
#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

TEST(AtomicFile, WritesAndReplaces) {
  const test::ScratchDir dir;
  ASSERT_TRUE(write_atomically(dir / "a", "first"));
  ASSERT_TRUE(write_atomically(dir / "a", "second"));
  ASSERT_TRUE(write_atomically(dir / "empty", ""));
  EXPECT_EQ(slurp(dir / "a"), "second");
  EXPECT_EQ(fs::file_size(dir / "empty"), 0U);
  EXPECT_EQ(names_in(dir.path()), (Names{"a", "empty"}));
}

TEST(AtomicFile, LargeAndSmallPiecesKeepTheirOrder) {
  const test::ScratchDir dir;
  std::string expected;
  ASSERT_TRUE(write_atomically(dir / "a", [&](AtomicFile& file) -> Status {
    for (int i = 0; i < 40; ++i) {
      const std::string piece(i % 3 == 0 ? 300'000 : 17 * i, static_cast<char>('a' + i % 26));
      expected += piece;
      DIF_TRY(file.write(piece));
    }
    EXPECT_EQ(file.bytes_written(), expected.size());
    return ok();
  }));
  EXPECT_EQ(slurp(dir / "a"), expected);
}

TEST(AtomicFile, ExistingFileKeepsItsPermissionsAndANewOneFollowsTheMask) {
  const test::ScratchDir dir;
  spit(dir / "old", "x");
  ASSERT_EQ(::chmod((dir / "old").c_str(), 0640), 0);
  const mode_t mask = ::umask(0027);
  ASSERT_TRUE(write_atomically(dir / "old", "y"));
  ASSERT_TRUE(write_atomically(dir / "new", "y"));
  ::umask(mask);
  EXPECT_EQ(mode_of(dir / "old"), 0640U);
  EXPECT_EQ(mode_of(dir / "new"), 0640U);
  EXPECT_EQ(slurp(dir / "old"), "y");
}

TEST(AtomicFile, AnErrorOfTheWriterLeavesTheOldFileAndNoTemporary) {
  const test::ScratchDir dir;
  spit(dir / "a", "old");
  const Status status = write_atomically(dir / "a", [](AtomicFile& file) -> Status {
    DIF_TRY(file.write("new"));
    return invalid_input("changed my mind");
  });
  expect_refused(status, ErrorCode::kInvalidInput, {"changed my mind"});
  EXPECT_EQ(slurp(dir / "a"), "old");
  EXPECT_EQ(names_in(dir.path()), Names{"a"});
}

TEST(AtomicFile, AFullDiskAtAnyOperationLeavesTheOldFileAndNoTemporary) {
  const test::ScratchDir dir;
  spit(dir / "a", "old");
  const std::string text(700'000, 'x');
  const auto write = [&] {
    return write_atomically(dir / "a", [&](AtomicFile& file) -> Status {
      DIF_TRY(file.write("head"));
      DIF_TRY(file.write(text));
      return file.write("tail");
    });
  };
  inject_write_fault(0, 0);
  ASSERT_TRUE(write());
  const int operations = inject_write_fault(0, 0);
  ASSERT_GE(operations, 6);  // open, three writes, fsync, rename
  spit(dir / "a", "old");
  for (int nth = 1; nth <= operations; ++nth) {
    inject_write_fault(nth, ENOSPC);
    expect_refused(write(), ErrorCode::kIo, {(dir / "a").native(), "the disk is full; free some space"});
    EXPECT_EQ(slurp(dir / "a"), "old") << nth;
    EXPECT_EQ(names_in(dir.path()), Names{"a"}) << nth;
  }
  inject_write_fault(0, 0);
}

TEST(AtomicFile, NamesTheReasonAndWhatToDo) {
  const test::ScratchDir dir;
  spit(dir / "file", "x");
  const auto refused = [](const fs::path& path, const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.push_back("cannot write");
    all.push_back(path.native());
    expect_refused(write_atomically(path, "x"), ErrorCode::kIo, all);
  };
  refused(dir / "no" / "a.png", {"folder", "/no does not exist; create it first"});
  refused(dir / "no/", {"does not exist"});
  refused(dir.path(), {"it is a folder; give the name of a file"});
  refused(dir / "file" / "a", {"/file is not a folder"});
  refused(dir / std::string(300, 'n'), {"name is too long"});
  refused("/dev/full", {"the disk is full"});
  expect_refused(write_atomically("", "x"), ErrorCode::kIo, {"without a name"});
  fs::create_symlink("loop", dir / "loop");
  refused(dir / "loop", {"symbolic links"});
  EXPECT_EQ(names_in(dir.path()), (Names{"file", "loop"}));
}

TEST(AtomicFile, TakesTheLongestNameThatTheFileSystemTakes) {
  const test::ScratchDir dir;
  const std::string name(255, 'n');
  ASSERT_TRUE(write_atomically(dir / name, "x"));
  EXPECT_EQ(names_in(dir.path()), Names{name});
}

TEST(AtomicFile, RefusesAProtectedFileAndAProtectedFolder) {
  const test::ScratchDir dir;
  fs::create_directory(dir / "folder");
  spit(dir / "file", "old");
  ASSERT_EQ(::chmod(dir.path().c_str(), 0777), 0);
  ASSERT_EQ(::chmod((dir / "folder").c_str(), 0555), 0);
  ASSERT_EQ(::chmod((dir / "file").c_str(), 0444), 0);
  const bool root = ::geteuid() == 0;
  ASSERT_EQ(root ? ::seteuid(65534) : 0, 0);  // nothing is protected from root
  const Status file = write_atomically(dir / "file", "new");
  const Status folder = write_atomically(dir / "folder" / "a", "new");
  ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
  expect_refused(file, ErrorCode::kIo, {"/file", "no permission"});
  expect_refused(folder, ErrorCode::kIo, {"/folder/a", "no permission"});
  EXPECT_EQ(slurp(dir / "file"), "old");
  EXPECT_EQ(names_in(dir.path()), (Names{"file", "folder"}));
  EXPECT_TRUE(names_in(dir / "folder").empty());
}

TEST(AtomicFile, AFileSizeLimitIsAnErrorAndNotTheEnd) {
  const test::ScratchDir dir;
  spit(dir / "a", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_atomically(dir / "a", std::string(1 << 20, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  expect_refused(status, ErrorCode::kIo, {"file size limit", "ulimit -f"});
  EXPECT_EQ(slurp(dir / "a"), "old");
  EXPECT_EQ(names_in(dir.path()), Names{"a"});
}

TEST(AtomicFile, WritesDevicesAndPipesDirectly) {
  const test::ScratchDir dir;
  EXPECT_TRUE(write_atomically("/dev/null", "x"));
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = slurp(dir / "pipe"); });
  EXPECT_TRUE(write_atomically(dir / "pipe", "through"));
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(dir / "pipe"));
}

TEST(AtomicFile, FollowsSymbolicLinks) {
  const test::ScratchDir dir;
  fs::create_directory(dir / "real");
  spit(dir / "real" / "a", "old");
  fs::create_symlink("real/a", dir / "link");
  fs::create_symlink("real/b", dir / "dangling");
  ASSERT_TRUE(write_atomically(dir / "link", "new"));
  ASSERT_TRUE(write_atomically(dir / "dangling", "fresh"));
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(slurp(dir / "real" / "a"), "new");
  EXPECT_EQ(slurp(dir / "real" / "b"), "fresh");
  EXPECT_EQ(names_in(dir / "real"), (Names{"a", "b"}));
}

TEST(AtomicFile, ARelativeNameIsWrittenBesideItself) {
  const test::ScratchDir dir;
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  const Status status = write_atomically("plain.txt", "x");
  fs::current_path(before);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(names_in(dir.path()), Names{"plain.txt"});
}

TEST(AtomicFile, AnotherProgramMayWriteTheTemporary) {
  const test::ScratchDir dir;
  {
    auto file = AtomicFile::create(dir / "video.mp4");
    ASSERT_TRUE(file);
    EXPECT_FALSE(fs::exists(dir / "video.mp4"));
    fs::remove(file->temporary_path());
    spit(file->temporary_path(), "frames");
    ASSERT_TRUE(file->commit());
  }
  EXPECT_EQ(slurp(dir / "video.mp4"), "frames");
  {
    auto file = AtomicFile::create(dir / "video.mp4");
    ASSERT_TRUE(file);
    fs::remove(file->temporary_path());
    expect_refused(file->commit(), ErrorCode::kIo, {"video.mp4"});
  }
  EXPECT_EQ(slurp(dir / "video.mp4"), "frames");
}

TEST(AtomicFile, PendingTemporariesGoOnRequest) {
  const test::ScratchDir dir;
  auto first = AtomicFile::create(dir / "a");
  auto second = AtomicFile::create(dir / "b");
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(write_atomically(dir / "done", "x"));
  EXPECT_EQ(names_in(dir.path()).size(), 3U);
  remove_pending_temporaries();
  EXPECT_EQ(names_in(dir.path()), Names{"done"});
  remove_pending_temporaries();
  EXPECT_FALSE(first->commit());
}

TEST(AtomicFile, ASignalHandlerCanRemoveThemAndAKillLeavesTheOldFile) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    const test::ScratchDir dir;
    spit(dir / "a", "old");
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGTERM, [](int) {
        remove_pending_temporaries();
        ::_exit(143);
      });
      auto file = AtomicFile::create(dir / "a");
      const bool wrote = file && file->write(std::string(1 << 20, 'x'));
      [[maybe_unused]] const ssize_t said = ::write(ready[1], wrote ? "y" : "n", 1);
      while (true) ::pause();
    }
    char answer = 0;
    ASSERT_EQ(::read(ready[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    ::kill(child, signal);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(slurp(dir / "a"), "old");
    if (signal == SIGTERM) {
      EXPECT_EQ(WEXITSTATUS(status), 143);
      EXPECT_EQ(names_in(dir.path()), Names{"a"});
    }
    ::close(ready[0]);
    ::close(ready[1]);
  }
}

TEST(AtomicFile, ManyWritersOfOneFileLeaveOneWholeVersion) {
  const test::ScratchDir dir;
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; ++i)
    writers.emplace_back([&, i] {
      for (int n = 0; n < 10; ++n)
        EXPECT_TRUE(write_atomically(dir / "a", std::string(300'000, static_cast<char>('a' + i))));
    });
  for (std::thread& writer : writers) writer.join();
  const std::string text = slurp(dir / "a");
  EXPECT_EQ(text, std::string(300'000, text.at(0)));
  EXPECT_EQ(names_in(dir.path()), Names{"a"});
}

}  // namespace
}  // namespace dif::io

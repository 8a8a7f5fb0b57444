/// A cache folder that is not as it should be: the picture is drawn all the same, with at most one warning.
#include <algorithm>
#include <memory>

#include "tests/reliability/reliability_test.h"

namespace dif::test {
namespace {

namespace fs = std::filesystem;

class Cache : public ReliabilityTest {
 protected:
  Cache() : ReliabilityTest("Cache") {}

  Arguments draw(const std::string& picture) const {
    return Arguments{"generate", "x", "--seed", "1", "-o", picture} + kTiny;
  }
  Running::Environment with(const std::string& folder) const { return {{"DIF_CACHE_DIR", folder}}; }

  /// Draws with the folder of that name; the picture must be the one that is drawn without a cache.
  void drawn_all_the_same(const std::string& name, const std::string& folder) {
    if (expected_.empty()) {
      succeed("dif", draw("expected.png") + Arguments{"--no-cache"});
      expected_ = read_text(path("expected.png"));
    }
    const Finished finished = run("dif", draw("a.png"), with(folder));
    EXPECT_EQ(finished.status, 0) << name << "\n" << finished.err;
    EXPECT_LE(std::ranges::count(finished.err, '\n'), 1) << name << "\n" << finished.err;
    EXPECT_TRUE(read_text(path("a.png")) == expected_) << name;
    note_case(section_, name, finished.status, last_line(finished.err));
  }

  std::vector<fs::path> entries(const std::string& folder) const {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path(folder)))
      if (entry.is_regular_file()) found.push_back(entry.path());
    return found;
  }

  std::string expected_;
};

TEST_F(Cache, FoldersThatCannotBeWritten) {
  drawn_all_the_same("the cache folder is where nobody may write", "/proc/cache");
  std::ofstream(path("file")) << "";
  drawn_all_the_same("the cache folder is a file", "file");
  drawn_all_the_same("the cache folder is below a file", "file/cache");
}

TEST_F(Cache, ADiskWithoutRoom) {
  // A file size limit of 0 is a disk that takes no byte; /dev/null is no file that grows.
  const Finished finished =
      run("/bin/sh",
          Arguments{"-c", "ulimit -f 0; exec \"$0\" \"$@\" > /dev/null", (bin_dir() / "dif").string()} +
              draw("/dev/null"),
          with("cache"));
  EXPECT_EQ(finished.status, 0) << finished.err;
  note_case(section_, "nothing can be written into the cache folder", finished.status,
            last_line(finished.err));
  EXPECT_TRUE(!fs::exists(path("cache")) || entries("cache").empty()) << "no half entry stays";
}

TEST_F(Cache, EntriesThatAreDamagedOrCut) {
  succeed("dif", draw("a.png"), with("cache"));
  ASSERT_EQ(entries("cache/model-digests").size(), 1U);
  const std::string whole = read_text(entries("cache/model-digests").front());
  const auto damage = [&](const std::string& name, const std::string& bytes) {
    for (const fs::path& entry : entries("cache")) std::ofstream(entry, std::ios::binary) << bytes;
    drawn_all_the_same(name, "cache");
    EXPECT_EQ(read_text(entries("cache/model-digests").front()), whole) << name << ": it is written again";
  };
  std::string changed = whole;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  damage("an entry with another byte", changed);
  damage("an entry that is cut", whole.substr(0, whole.size() / 2));
  damage("an entry that is empty", "");
  for (const fs::path& entry : entries("cache")) fs::resize_file(entry, whole.size() / 2);
  drawn_all_the_same("an entry that was never completed", "cache");
}

TEST_F(Cache, EightProcessesShareOne) {
  std::vector<std::unique_ptr<Running>> processes;
  for (int i = 0; i < 8; ++i)
    processes.push_back(
        std::make_unique<Running>("dif", draw(std::to_string(i) + ".png"), folder_.path(), with("cache")));
  for (const auto& process : processes) {
    const Finished finished = process->wait();
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
  }
  for (int i = 1; i < 8; ++i)
    EXPECT_TRUE(read_text(path(std::to_string(i) + ".png")) == read_text(path("0.png"))) << i;
  EXPECT_FALSE(entries("cache").empty());
}

}  // namespace
}  // namespace dif::test

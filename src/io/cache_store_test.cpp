#include "io/cache_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

namespace fs = std::filesystem;

CacheKey key_of(std::string_view value) {
  return CacheKey("things", 1).add("value", value);
}

std::string text_of(const std::optional<CachedBytes>& found) {
  return found ? std::string(reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size())
               : "nothing";
}

struct Fixture {
  test::ScratchDir folder;
  std::vector<std::string> warnings;
  CacheStore open(std::uint64_t max_bytes = CacheStore::kDefaultMaxBytes) {
    return CacheStore(
        folder / "cache", [this](std::string_view text) { warnings.emplace_back(text); }, max_bytes);
  }
  fs::path file_of(const CacheKey& key) const {
    return folder / "cache" / "things" / (hex(key.digest()) + ".difcache");
  }
};

TEST(CacheKey, DependsOnEveryFieldAndWhereItEnds) {
  const auto digest = [](std::string_view field, std::string_view value) {
    return CacheKey("a", 1).add(field, value).digest();
  };
  EXPECT_EQ(digest("ab", "c"), digest("ab", "c"));
  EXPECT_NE(digest("ab", "c"), digest("a", "bc"));
  EXPECT_NE(digest("ab", "c"), digest("ab", "d"));
  EXPECT_NE(CacheKey("a", 1).digest(), CacheKey("a", 2).digest());
  EXPECT_NE(CacheKey("a", 1).digest(), CacheKey("b", 1).digest());
  EXPECT_NE(CacheKey("a", 1).add("n", 1).digest(), CacheKey("a", 1).add("n", 256).digest());
}

TEST(CacheStore, FindsWhatWasStoredInParts) {
  Fixture f;
  CacheStore store = f.open();
  EXPECT_EQ(text_of(store.find(key_of("x"))), "nothing");
  const auto one = as_bytes("one, "), two = as_bytes("two");
  const std::span<const std::byte> parts[] = {one, two};
  EXPECT_TRUE(store.store(key_of("x"), parts));
  const auto found = f.open().find(key_of("x"));
  EXPECT_EQ(text_of(found), "one, two");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found->bytes.data()) % 64, 0U);
  EXPECT_EQ(text_of(store.find(key_of("y"))), "nothing");
  EXPECT_TRUE(f.warnings.empty()) << f.warnings.front();
}

TEST(CacheStore, WithoutAFolderKeepsNothingAndSaysNothing) {
  Fixture f;
  CacheStore store("", [&](std::string_view text) { f.warnings.emplace_back(text); });
  EXPECT_FALSE(store.is_on());
  EXPECT_FALSE(store.store(key_of("x"), as_bytes("x")));
  EXPECT_FALSE(store.find(key_of("x")));
  EXPECT_TRUE(f.warnings.empty());
}

CacheStore::Checksum sum_of(std::span<const std::byte> bytes) {
  CacheStore::Checksum sum{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    sum[i % sum.size()] = static_cast<std::byte>(std::to_integer<int>(sum[i % sum.size()]) * 3 +
                                                 std::to_integer<int>(bytes[i]) + 1);
  return sum;
}

TEST(CacheStore, LargeDataBeginsAtAPageAndEveryChangedByteIsNoticed) {
  Fixture f;
  const std::string data(9000, 'd');
  CacheStore store = f.open();
  EXPECT_TRUE(store.store_large(key_of("x"), as_bytes(data), sum_of));
  {
    const auto found = store.find_large(key_of("x"), sum_of);
    EXPECT_EQ(text_of(found), data);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found->bytes.data()) % 4096, 0U);
  }
  EXPECT_TRUE(f.warnings.empty());
  EXPECT_EQ(text_of(f.open().find(key_of("x"))), "nothing") << "it is no small entry";
  const std::string good = slurp(f.file_of(key_of("x")));
  ASSERT_EQ(good.size(), 4096 + data.size());
  for (std::size_t at = 0; at < good.size(); at += at < 200 ? 1 : 97) {
    std::string bad = good;
    bad[at] ^= 16;
    spit(f.file_of(key_of("x")), bad);
    f.warnings.clear();
    EXPECT_EQ(text_of(f.open().find_large(key_of("x"), sum_of)), "nothing") << at;
    EXPECT_EQ(f.warnings.size(), 1U) << at;
  }
  for (const std::size_t size : {0UL, 10UL, 100UL, 4000UL, 4096UL, good.size() - 1}) {
    spit(f.file_of(key_of("x")), good.substr(0, size));
    EXPECT_EQ(text_of(f.open().find_large(key_of("x"), sum_of)), "nothing") << size;
  }
}

TEST(CacheStore, ItsSecretStaysAndIsOfItsFolder) {
  Fixture f, other;
  const auto secret = f.open().secret();
  ASSERT_TRUE(secret);
  EXPECT_EQ(f.open().secret(), secret);
  EXPECT_NE(other.open().secret(), secret);
  EXPECT_EQ(fs::status(f.folder / "cache" / "secret").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  spit(f.folder / "cache" / "secret", "damaged");
  const auto drawn = f.open().secret();
  ASSERT_TRUE(drawn);
  EXPECT_NE(drawn, secret);
  EXPECT_FALSE(CacheStore("").secret());
  EXPECT_FALSE(CacheStore("/dev/null/cache").secret());
}

TEST(CacheStore, ADamagedEntryIsNotThereAndIsWrittenAgain) {
  const std::string good = [] {
    Fixture f;
    EXPECT_TRUE(f.open().store(key_of("x"), as_bytes("content")));
    return slurp(f.file_of(key_of("x")));
  }();
  std::vector<std::string> damages = {"", "x", good.substr(0, 60), good.substr(0, good.size() - 1),
                                      good + "x"};
  for (const std::size_t at : {13UL, 60UL, good.size() - 1}) {
    damages.push_back(good);
    damages.back()[at] ^= 1;
  }
  for (const std::string& damage : damages) {
    Fixture f;
    CacheStore store = f.open();
    ASSERT_TRUE(store.store(key_of("x"), as_bytes("content")));
    spit(f.file_of(key_of("x")), damage);
    EXPECT_EQ(text_of(store.find(key_of("x"))), "nothing");
    EXPECT_EQ(text_of(store.find(key_of("x"))), "nothing");
    EXPECT_EQ(f.warnings.size(), 1U) << "one warning, not one for each entry";
    EXPECT_TRUE(store.store(key_of("x"), as_bytes("content")));
    EXPECT_EQ(text_of(store.find(key_of("x"))), "content");
  }
}

TEST(CacheStore, TheEntryOfAnotherKeyIsRefused) {
  Fixture f;
  CacheStore store = f.open();
  ASSERT_TRUE(store.store(key_of("x"), as_bytes("content")));
  fs::rename(f.file_of(key_of("x")), f.file_of(key_of("y")));
  EXPECT_EQ(text_of(store.find(key_of("y"))), "nothing");
  ASSERT_EQ(f.warnings.size(), 1U);
  EXPECT_NE(f.warnings[0].find("is the entry of another key"), std::string::npos) << f.warnings[0];
}

TEST(CacheStore, AFolderThatCannotBeWrittenIsOneWarning) {
  Fixture f;
  spit(f.folder / "cache", std::string_view("a file where the folder should be"));
  CacheStore store = f.open();
  EXPECT_FALSE(store.store(key_of("x"), as_bytes("x")));
  EXPECT_FALSE(store.store(key_of("y"), as_bytes("y")));
  EXPECT_FALSE(store.find(key_of("x")));
  ASSERT_EQ(f.warnings.size(), 1U);
  EXPECT_TRUE(f.warnings[0].starts_with("the cache is not used: ")) << f.warnings[0];
}

TEST(CacheStore, MakesRoomByRemovingWhatWasNotUsedForLongest) {
  Fixture f;
  const std::string content(1000, 'x');
  CacheStore store = f.open(3500);
  const auto age = [&](std::string_view name, int hours) {
    fs::last_write_time(f.file_of(key_of(name)),
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (const auto& [name, hours] : {std::pair{"a", 3}, {"b", 2}, {"c", 1}}) {
    ASSERT_TRUE(store.store(key_of(name), as_bytes(content)));
    age(name, hours);
  }
  EXPECT_TRUE(store.find(key_of("a"))) << "and with that it is the latest";
  ASSERT_TRUE(store.store(key_of("d"), as_bytes(content)));
  EXPECT_FALSE(store.find(key_of("b")));
  EXPECT_TRUE(store.find(key_of("a")) && store.find(key_of("c")) && store.find(key_of("d")));
  EXPECT_FALSE(store.store(key_of("large"), as_bytes(std::string(4000, 'x')))) << "larger than the cache";
  EXPECT_TRUE(store.find(key_of("a"))) << "and nothing was removed for it";
}

TEST(CacheStore, RemovesTemporariesThatAreLeftOver) {
  Fixture f;
  CacheStore store = f.open();
  ASSERT_TRUE(store.store(key_of("x"), as_bytes("x")));
  const fs::path folder = f.file_of(key_of("x")).parent_path();
  for (const char* name : {".old.difcache.1-0.tmp", ".new.difcache.2-0.tmp", ".other.tmp"}) {
    spit(folder / name, std::string_view("half"));
    if (std::string_view(name) != ".new.difcache.2-0.tmp")
      fs::last_write_time(folder / name, fs::file_time_type::clock::now() - std::chrono::hours(5));
  }
  ASSERT_TRUE(store.store(key_of("y"), as_bytes("y")));
  const auto names = names_in(folder);
  EXPECT_EQ(names.size(), 4U);
  EXPECT_EQ(std::count(names.begin(), names.end(), ".old.difcache.1-0.tmp"), 0);
}

/// Each process writes and reads the same few entries; one that removes entries is among them.
TEST(CacheStore, EightProcessesShareOneFolder) {
  Fixture f;
  std::vector<pid_t> children;
  for (int process = 0; process < 8; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool right = true;
      CacheStore store(
          f.folder / "cache", [&](std::string_view) { right = false; },
          process == 0 ? 9000 : CacheStore::kDefaultMaxBytes);
      for (int i = 0; i < 12; ++i) {
        const std::string name = std::to_string((i + process) % 5);
        const std::string content(4000, name[0]);
        const auto found = store.find(key_of(name));
        right = right && (!found || text_of(found) == content);
        if (!found) right = store.store(key_of(name), as_bytes(content)) && right;
        right = right && (!found || text_of(found) == content);
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace dif::io

#include "pipelines/model_digest.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "io/digest.h"
#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif {
namespace {

namespace fs = std::filesystem;

/// One checkpoint file; counts how often it is read.
class OneFile final : public frontends::Model {
 public:
  explicit OneFile(const fs::path& path) : file_(std::move(*io::MappedFile::open(path))) {}
  mutable std::atomic<int> reads = 0;
  bool reads_until_stopped = false;

  std::string name() const override { return "one"; }
  std::string family() const override { return "one"; }
  frontends::GenerationDefaults defaults() const override { return {}; }
  bool supports_guidance() const override { return false; }
  std::int64_t size_multiple() const override { return 1; }
  text::ChatTemplate chat_template() const override { return {}; }
  fs::path tokenizer_folder() const override { return {}; }
  fs::path scheduler_config() const override { return {}; }
  Result<std::string> digest(const std::stop_token& stop) const override {
    ++reads;
    while (reads_until_stopped && !stop.stop_requested()) std::this_thread::yield();
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    return io::hex(io::sha256(file_.bytes()));
  }
  std::vector<const io::MappedFile*> files() const override { return {&file_}; }
  Status check_files() const override { return file_.check(); }
  Result<frontends::Chain> build(const frontends::ChainRequest&) const override {
    return fail(ErrorCode::kUnavailable, "nothing is built here");
  }

 private:
  io::MappedFile file_;
};

struct Fixture {
  test::ScratchDir folder;
  fs::path path = folder / "weights";

  void write(const std::string& content, int hours_ago) const {
    io::spit(path, std::string_view(content));
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  }
  std::pair<std::string, int> digest(const std::string& cache, std::int64_t settled_seconds = 0) const {
    const OneFile model(path);
    io::CacheStore store(cache.empty() ? "" : folder / cache);
    const auto found = model_digest(model, store, settled_seconds);
    EXPECT_TRUE(found) << found.error().message;
    return {found.value_or(""), model.reads};
  }
};

TEST(ModelDigest, IsReadOnceWhileTheFilesStayAsTheyAre) {
  Fixture f;
  f.write("weights", 5);
  const std::string right = io::hex(io::sha256(std::string_view("weights")));
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(f.digest("cache", 1000), std::pair(right, 1)) << "too young for the cache";
  EXPECT_EQ(f.digest("cache"), std::pair(right, 1));
  EXPECT_EQ(f.digest("cache"), std::pair(right, 0)) << "known";
  EXPECT_EQ(f.digest(""), std::pair(right, 1)) << "without a cache it is read";

  f.write("WEIGHTS", 5);
  const std::string other = io::hex(io::sha256(std::string_view("WEIGHTS")));
  EXPECT_EQ(f.digest("cache"), std::pair(other, 1)) << "same size, same modification time, other change time";
}

TEST(BackgroundDigest, IsThatOfTheModelAndStopsReadingWhenNobodyWantsItOrTheUserHadEnough) {
  const Fixture fixture;
  fixture.write("weights", 1);
  OneFile model(fixture.path);
  io::CacheStore store("");
  const std::string digest = fixture.digest("").first;
  EXPECT_EQ(BackgroundDigest(model, store, 0).get([] { return false; }).value_or(""), digest);
  EXPECT_EQ(BackgroundDigest(model, store).get([] { return false; }).value_or(""), digest);
  model.reads_until_stopped = true;
  { const BackgroundDigest unwanted(model, store, 0); }
  const auto stopped = BackgroundDigest(model, store, 0).get([] { return true; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace dif

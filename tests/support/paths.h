#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

/// Where a test finds what it reads and runs. Nothing here is a path of the machine that compiled the test:
/// the same program runs in the build folder (where CMake links models/ and tests/fixtures/ to the sources)
/// and in the unpacked bundle of `make dist`.
namespace dif::test {

/// Folder of the running test program; dif, its tool links, libdif.so and the plug-ins are there too.
/// DIF_TEST_BIN overrides it.
inline std::filesystem::path bin_dir() {
  if (const char* dir = std::getenv("DIF_TEST_BIN")) return dir;
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

/// Folder that holds models/ and tests/fixtures/. DIF_TEST_ROOT overrides it.
inline std::filesystem::path root_dir() {
  if (const char* dir = std::getenv("DIF_TEST_ROOT")) return dir;
  return bin_dir();
}

/// models/emoji-klein, the bundled model.
inline std::filesystem::path model_dir() {
  return root_dir() / "models" / "emoji-klein";
}

/// `name` inside tests/fixtures: fixture("emoji-klein/fixtures.json").
inline std::filesystem::path fixture(const std::string& name) {
  return root_dir() / "tests" / "fixtures" / name;
}

/// A fresh folder below the system's temporary folder, removed with all its content when the object goes.
class ScratchDir {
 public:
  ScratchDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dif-test-XXXXXX").string();
    const char* made = mkdtemp(pattern.data());
    if (made == nullptr) throw std::filesystem::filesystem_error("mkdtemp", pattern, {});
    path_ = made;
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace dif::test

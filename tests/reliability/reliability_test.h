#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "tests/reliability/table.h"
#include "tests/tools/tool_test.h"

namespace dif::test {

/// The smallest picture on the backend that starts at once.
inline const Arguments kTiny = {"--size", "16x16",     "--steps",   "2",      "--text-tokens",
                                "32",     "--backend", "reference", "--quiet"};

/// Runs `dif generate` in a folder of its own, and notes what it prints for docs/reliability.md.
class ReliabilityTest : public ToolTest {
 protected:
  explicit ReliabilityTest(std::string section) : section_(std::move(section)) {}

  Finished generate(const Arguments& arguments) const {
    return run("dif", Arguments{"generate"} + arguments);
  }

  /// It must end with `status`, print a last line that holds `part` and leave nothing beside the files that
  /// were there: refused is refused completely.
  void refused(const std::string& name, const Arguments& arguments, int status, const std::string& part) {
    judge(name, generate(arguments), status, part);
  }

  void judge(const std::string& name, const Finished& finished, int status, const std::string& part) {
    EXPECT_EQ(finished.status, status) << name << "\n" << finished.err;
    EXPECT_EQ(finished.out, "") << name;
    const std::string said = last_line(finished.err);
    EXPECT_NE(said.find(part), std::string::npos) << name << "\n" << finished.err;
    EXPECT_EQ(said.rfind("error: ", 0), 0U) << name << "\n" << finished.err;
    for (const std::string& file : files())
      EXPECT_EQ(file.find(".png"), std::string::npos) << name << ": " << file;
    note_case(section_, name, finished.status, said);
  }

  /// It must succeed and print one line on stderr.
  void allowed(const std::string& name, const Arguments& arguments, const std::string& part) {
    const Finished finished = generate(arguments);
    EXPECT_EQ(finished.status, 0) << name << "\n" << finished.err;
    EXPECT_NE(finished.err.find(part), std::string::npos) << name << "\n" << finished.err;
    note_case(section_, name, finished.status, last_line(finished.err));
  }

  /// A copy of the bundled model in `model`, made of links, where files can be replaced.
  void link_model() const {
    namespace fs = std::filesystem;
    const fs::path from = fs::canonical(model_dir());
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from)) {
      const fs::path to = folder_.path() / "model" / fs::relative(entry.path(), from);
      entry.is_directory() ? void(fs::create_directories(to))
                           : (fs::create_directories(to.parent_path()), fs::create_symlink(entry.path(), to));
    }
  }

  /// Puts a copy of that file in place of its link.
  std::filesystem::path own_file(const std::string& name) const {
    const std::filesystem::path file = folder_.path() / "model" / name;
    std::filesystem::remove(file);
    std::filesystem::copy_file(model_dir() / name, file);
    return file;
  }

  /// Overwrites the first elements of a bf16 tensor of the copy with this bit pattern.
  void patch(const std::string& name, const std::string& tensor, std::uint16_t bits, int count = 1) const {
    const std::filesystem::path file = own_file(name);
    std::uint64_t offset = 0;
    {
      const auto opened = io::open_safetensors(file);
      ASSERT_TRUE(opened) << opened.error().message;
      const io::TensorRef* found = opened->find(tensor);
      ASSERT_NE(found, nullptr) << tensor;
      ASSERT_EQ(found->dtype, DType::kBF16);
      offset = found->file_offset;
    }
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(offset));
    for (int i = 0; i < count; ++i) out.write(reinterpret_cast<const char*>(&bits), sizeof(bits));
  }

  std::string section_;
};

}  // namespace dif::test

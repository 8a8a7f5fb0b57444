// Runs a fuzz target once over each file named, and over each file of the folders named: what the fuzzer once
// found, as a test that needs no fuzzer. A target with a mutator of its own also gets what that makes of each
// file, always the same. Fails when there is nothing to run; a broken promise ends the process inside the
// target.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                                     std::size_t max_size, unsigned seed);

namespace {

void run(const std::vector<std::uint8_t>& input) {
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

void run_mutations(const std::vector<std::uint8_t>& input) {
  constexpr unsigned kMutations = 64;
  constexpr std::size_t kRoom = 4096;
  for (unsigned seed = 0; seed < kMutations; ++seed) {
    std::vector<std::uint8_t> changed = input;
    changed.resize(input.size() + kRoom);
    changed.resize(LLVMFuzzerCustomMutator(changed.data(), input.size(), changed.size(), seed));
    run(changed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> inputs;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      inputs.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) inputs.push_back(entry.path());
  }
  std::sort(inputs.begin(), inputs.end());

  for (const fs::path& input : inputs) {
    std::ifstream file(input, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be read\n", input.c_str());
      return 2;
    }
    const std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(file)),
                                          std::istreambuf_iterator<char>());
    std::fprintf(stderr, "%s: %zu bytes\n", input.c_str(), bytes.size());
    run(bytes);
    if (LLVMFuzzerCustomMutator != nullptr) run_mutations(bytes);
  }
  std::fprintf(stderr, "%zu inputs\n", inputs.size());
  return inputs.empty() ? 2 : 0;
}

#include "backends/cuda/compiler.h"

#include <array>
#include <sstream>

namespace dif::cuda {

namespace {

constexpr std::array kOptions = {"--std=c++17", "--fmad=false", "--ftz=false",
                                 "--device-as-default-execution-space"};

/// A program of NVRTC that destroys itself.
struct Program {
  const CompilerApi& api;
  nvrtcProgram handle = nullptr;

  explicit Program(const CompilerApi& compiler) : api(compiler) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { api.nvrtcDestroyProgram(&handle); }

  /// The first line of the log that says "error": the others follow from it, and an error is one sentence.
  std::string first_error() const {
    std::size_t size = 0;
    if (api.nvrtcGetProgramLogSize(handle, &size) != NVRTC_SUCCESS || size <= 1) return "no log";
    std::string text(size, '\0');
    api.nvrtcGetProgramLog(handle, text.data());
    text.resize(size - 1);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (line.find("error") != std::string::npos) return line;
    return text.substr(0, text.find('\n'));
  }
};

/// With what Hopper alone has where a text uses it: the matrix instructions of its warpgroups.
std::string architecture(const std::string& text, int capability) {
  const bool of_one_kind = text.find("wgmma.") != std::string::npos;
  return fmt::format("--gpu-architecture=sm_{}{}", capability, of_one_kind ? "a" : "");
}

}  // namespace

io::CacheKey compile_key(const CompilerApi& api, const std::string& text, int capability) {
  io::CacheKey key("cuda-kernels", 1);
  key.add("compiler", fmt::format("NVRTC {}.{}", api.major, api.minor))
      .add("architecture", architecture(text, capability));
  for (const char* option : kOptions) key.add("option", option);
  key.add("text", text);
  return key;
}

Result<std::vector<std::byte>> compile(const CompilerApi& api, const std::string& text, int capability) {
  Program program(api);
  nvrtcResult code = api.nvrtcCreateProgram(&program.handle, text.c_str(), "kernel.cu", 0, nullptr, nullptr);
  if (code != NVRTC_SUCCESS)
    return fail(ErrorCode::kInternal, "nvrtcCreateProgram failed with {}", api.nvrtcGetErrorString(code));
  const std::string target = architecture(text, capability);
  std::vector<const char*> options(kOptions.begin(), kOptions.end());
  options.push_back(target.c_str());
  code = api.nvrtcCompileProgram(program.handle, static_cast<int>(options.size()), options.data());
  if (code == NVRTC_ERROR_INVALID_OPTION)
    return fail(
        ErrorCode::kUnavailable,
        "NVRTC {}.{} ({}) makes no code for compute capability {}.{}; name a newer one in DIF_NVRTC_PATH",
        api.major, api.minor, api.file, capability / 10, capability % 10);
  if (code != NVRTC_SUCCESS)
    return fail(ErrorCode::kInternal, "a generated kernel does not compile ({}): {}",
                api.nvrtcGetErrorString(code), program.first_error());
  std::size_t size = 0;
  code = api.nvrtcGetCUBINSize(program.handle, &size);
  std::vector<std::byte> binary(size);
  if (code == NVRTC_SUCCESS) code = api.nvrtcGetCUBIN(program.handle, reinterpret_cast<char*>(binary.data()));
  if (code != NVRTC_SUCCESS)
    return fail(ErrorCode::kInternal, "NVRTC gives no binary: {}", api.nvrtcGetErrorString(code));
  return binary;
}

}  // namespace dif::cuda

// Draws pictures in one process: a request a line on stdin (bench/request.h), an answer a line on stdout.
//
//   picture_loop MODEL_DIR THREADS
//   {"prompt": "a red apple", "seed": 42, "out": "apple"}
//   {"seconds": 1.5, "setup_seconds": 0.4, "stages": {"denoise": 1.3, ...}}
//
// `seconds` is what a picture takes once everything is loaded and prepared: prompts to ids, their encoding,
// every step, decoding to pixels. Building and preparing programs is `setup_seconds`. OUT.latents and OUT.rgb
// get the final latents (f32, packed) and the pixels. scripts/benchmark/diffusers_loop.py answers the same
// requests.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/request.h"
#include "runtime/backend_library.h"
#include "runtime/session.h"

namespace dif::bench {
namespace {

bool is_setup(const std::string& stage) {
  return stage == "build" || stage == "prepare";
}

void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

Result<nlohmann::ordered_json> answer(const frontends::Model& model,
                                      const std::shared_ptr<runtime::Context>& context,
                                      const std::string& line) {
  using Clock = std::chrono::steady_clock;
  DIF_ASSIGN(const Request request, parse_request(model, line));
  const auto start = Clock::now();
  DIF_ASSIGN(const auto pipeline, TextToImage::create(model, context, request.settings, {}));
  DIF_ASSIGN(const Picture picture, pipeline->draw(request.seed));
  const double total = std::chrono::duration<double>(Clock::now() - start).count();
  double setup = 0;
  nlohmann::ordered_json stages;
  for (const StageTime& time : pipeline->times()) {
    stages[time.stage] = time.seconds;
    if (is_setup(time.stage)) setup += time.seconds;
  }
  if (!request.out.empty()) {
    write_bytes(request.out + ".latents", picture.latents.bytes());
    write_bytes(request.out + ".rgb", std::as_bytes(std::span(picture.image.pixels)));
  }
  return nlohmann::ordered_json{{"seconds", total - setup}, {"setup_seconds", setup}, {"stages", stages}};
}

Status run(const std::string& folder, const std::string& threads) {
  DIF_ASSIGN(const auto model, frontends::open_model(folder));
  DIF_ASSIGN(auto library, runtime::BackendLibrary::load_by_name("cpu"));
  runtime::ContextOptions options;
  options.threads = static_cast<unsigned>(std::stoul(threads));
  DIF_ASSIGN(const auto context, runtime::Context::create(std::move(library), options));
  std::cout << R"({"ready": true})" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    DIF_ASSIGN(const nlohmann::ordered_json found, answer(*model, context, line));
    std::cout << found.dump() << std::endl;
  }
  return ok();
}

}  // namespace
}  // namespace dif::bench

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const dif::Status status = dif::bench::run(argv[1], argv[2]);
  if (!status) std::fprintf(stderr, "error: %s\n", status.error().message.c_str());
  return status ? 0 : 1;
}

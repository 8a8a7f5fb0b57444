#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "io/bmp.h"
#include "io/png.h"
#include "io/tensor_file.h"
#include "pipelines/tensor_frames.h"
#include "tools.h"

namespace dif::tools {

namespace {

namespace fs = std::filesystem;

Status write_frames(const TensorFrames& frames, const fs::path& folder, const std::string& format) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return fail(ErrorCode::kIo, "{}: the folder cannot be created: {}", folder.string(), error.message());
  for (std::int64_t i = 0; i < frames.count(); ++i) {
    if (cli::stop_requested()) return fail(ErrorCode::kCancelled, "stopped after {} frames", i);
    const fs::path path = folder / fmt::format("frame-{:05}.{}", i, format);
    DIF_TRY(format == "bmp" ? io::write_bmp(path, frames.frame(i)) : io::write_png(path, frames.frame(i)));
    DIF_TRY(cli::print_result(path.string() + "\n"));
  }
  return ok();
}

int run(int argc, char** argv) {
  cli::Command command("difimage",
                       "Write the pictures of a decoded tensor, one file per frame: frame-00000.png, ...");
  std::string input, folder, format = "png";
  bool allow_nonfinite = false;
  command
      .add_option("INPUT", input,
                  "FILE.diftensor or FILE.safetensors::NAME: floating [3, H, W] or [T, 3, H, W] in [-1, 1], "
                  "or u8 [H, W, 3] or [T, H, W, 3]")
      .required();
  command.add_option("OUTPUT_DIRECTORY", folder, "created when it is not there").required();
  command.add_option("--format", format, "png or bmp").show_default().expect_one_of({"png", "bmp"});
  command.add_flag("--allow-nonfinite", allow_nonfinite, "draw NaN black and infinity as the nearest level");
  command.add_examples(
      "  difimage image.diftensor frames\n"
      "  difimage red-heart.safetensors::image_u8 frames --format bmp\n");
  return cli::run_tool(command, argc, argv, [&]() -> Status {
    DIF_ASSIGN(const io::HostTensor tensor, io::read_tensor_operand(input));
    auto frames = TensorFrames::open(tensor, allow_nonfinite);
    if (!frames) return with_context(std::move(frames.error()), "{}", input);
    return write_frames(*frames, folder, format);
  });
}

}  // namespace

const cli::Tool k_difimage = {"difimage", "Tensors", "write the pictures of a decoded tensor", run};

}  // namespace dif::tools

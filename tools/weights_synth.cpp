#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/error.h"
#include "cli/bundled.h"
#include "cli/interrupt.h"
#include "frontends/synthetic/synthetic_model.h"
#include "io/printable.h"
#include "ir/printer.h"
#include "tools.h"
#include "weights_commands.h"

namespace dif::tools {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kMaxBlocks = 1024;

std::string size_text(std::uint64_t bytes) {
  return ir::amount_text(static_cast<double>(bytes), "B");
}

Result<std::pair<std::int64_t, std::int64_t>> parse_blocks(const std::string& text) {
  const char* const end = text.data() + text.size();
  std::int64_t doubles = -1, singles = -1;
  const auto first = std::from_chars(text.data(), end, doubles);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == ',') {
    const auto second = std::from_chars(first.ptr + 1, end, singles);
    if (second.ec == std::errc() && second.ptr == end && doubles >= 0 && singles >= 0 &&
        doubles <= kMaxBlocks && singles <= kMaxBlocks)
      return std::pair(doubles, singles);
  }
  return invalid_input("--blocks {}: expected DOUBLE,SINGLE, each from 0 to {}, such as 2,2",
                       io::printable(text, 40), kMaxBlocks);
}

/// The tokenizer asked for, else the one of the model that is followed, else that of the bundled model.
Result<fs::path> tokenizer_folder(const std::string& asked, const std::string& like) {
  if (!asked.empty()) return fs::path(asked);
  std::error_code error;
  if (!like.empty() && fs::exists(fs::path(like) / "tokenizer" / "tokenizer.json", error))
    return fs::path(like) / "tokenizer";
  DIF_ASSIGN(const fs::path bundled, cli::bundled_model());
  return bundled / "tokenizer";
}

std::string describe(const frontends::SyntheticModel& model) {
  std::string text;
  for (const frontends::SyntheticPart& part : model.parts)
    text += fmt::format("{:<13}{:>5} tensors, {} parameters, {}\n", part.folder, part.tensors.size(),
                        part.parameters(), size_text(part.bytes()));
  return text;
}

}  // namespace

SynthCommand::SynthCommand(cli::Command& tool)
    : command_(tool.add_subcommand("synth", "write a model folder with random weights")) {
  command_.add_option("OUT_DIR", out_, "model folder to make; it must not be there yet").required();
  const cli::Option like = command_.add_option(
      "--like", like_, "take the configuration of this model folder (its weights need not be there)");
  command_
      .add_option(
          "--preset", preset_,
          fmt::format("take a built-in configuration: {}", fmt::join(frontends::synthetic_presets(), ", ")))
      .excludes(like);
  command_.add_option("--blocks", blocks_,
                      "DOUBLE,SINGLE: transformer blocks instead of the configuration's");
  command_
      .add_option("--encoder-layers", encoder_layers_,
                  "text encoder layers instead of the configuration's; FLUX.2 reads layer 27")
      .expect_whole(1, kMaxBlocks);
  command_.add_flag("--small-encoder", small_encoder_,
                    "the text encoder of the preset tiny; the transformer's text width follows");
  command_.add_flag("--distilled", distilled_, "mark the model as distilled: few steps, no guidance");
  command_.add_option("--dtype", dtype_, "of the weights: bf16 or f32")
      .show_default()
      .expect_one_of({"bf16", "f32"});
  command_.add_option("--seed", seed_, "other seed, other weights").show_default();
  command_.add_option("--shard-size", shard_bytes_, "largest file, such as 500MB or 5GB (default 5GB)")
      .expect_size();
  command_.add_option("--tokenizer", tokenizer_,
                      "folder whose files are copied (default: that of --like, else the bundled model's)");
  command_.add_flag("--dry-run", dry_run_, "say what would be written and stop");
  progress_ = std::make_unique<cli::ProgressOptions>(command_);
}

bool SynthCommand::parsed() const {
  return command_.parsed();
}

Status SynthCommand::run() const {
  if (like_.empty() && preset_.empty())
    return invalid_input("a configuration is needed: --like MODEL_DIR or --preset {}",
                         fmt::join(frontends::synthetic_presets(), "|"));
  if (shard_bytes_ == 0) return invalid_input("--shard-size 0: expected 1 or more bytes");
  frontends::ModelChanges changes;
  if (!blocks_.empty()) {
    DIF_ASSIGN(changes.blocks, parse_blocks(blocks_));
  }
  if (encoder_layers_ != 0) changes.encoder_layers = encoder_layers_;
  changes.small_encoder = small_encoder_;
  if (distilled_) changes.distilled = true;
  changes.dtype = *dtype_from_name(dtype_);

  DIF_ASSIGN(frontends::ModelDocuments documents,
             like_.empty() ? frontends::preset_documents(preset_) : frontends::read_model_documents(like_));
  DIF_ASSIGN(const frontends::SyntheticModel model,
             frontends::describe_synthetic_model(std::move(documents), changes));
  DIF_ASSIGN(const fs::path tokenizer, tokenizer_folder(tokenizer_, like_));
  if (dry_run_)
    return cli::print_result(describe(model) + fmt::format("{}: {}\n", out_, size_text(model.bytes())));

  cli::Progress progress = progress_->create();
  progress.begin("write", model.bytes() >> 20, "MiB");
  DIF_TRY(frontends::write_synthetic_model(model, out_,
                                           {.seed = seed_,
                                            .max_shard_bytes = shard_bytes_,
                                            .tokenizer = tokenizer,
                                            .progress = [&](std::uint64_t bytes) -> Status {
                                              progress.advance(bytes >> 20);
                                              if (cli::stop_requested())
                                                return fail(ErrorCode::kCancelled,
                                                            "stopped before {} was complete", out_);
                                              return ok();
                                            }}));
  progress.finish();
  return cli::print_result(describe(model) + fmt::format("{}: {}\n", out_, size_text(model.bytes())));
}

}  // namespace dif::tools

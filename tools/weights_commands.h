#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/options.h"
#include "dif/status.h"

/// The sub-commands of difweights that work on checkpoints; each adds itself to the tool and keeps its
/// options.
namespace dif::tools {

/// difweights synth
class SynthCommand {
 public:
  explicit SynthCommand(cli::Command& tool);

  bool parsed() const;
  Status run() const;

 private:
  cli::Command command_;
  std::string like_, preset_, out_, blocks_, dtype_ = "bf16", tokenizer_;
  std::int64_t encoder_layers_ = 0;
  std::uint64_t seed_ = 0, shard_bytes_ = 5'000'000'000;
  bool small_encoder_ = false, distilled_ = false, dry_run_ = false;
  std::unique_ptr<cli::ProgressOptions> progress_;
};

/// difweights stats, inspect-shard, inspect-index
class ListingCommands {
 public:
  explicit ListingCommands(cli::Command& tool);

  bool parsed() const;
  Status run() const;

 private:
  cli::Command stats_, shard_, index_;
  std::string path_;
  std::int64_t top_ = 10;
  std::unique_ptr<cli::ReportOptions> report_;
};

}  // namespace dif::tools

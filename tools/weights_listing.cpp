#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/telemetry.h"
#include "io/checkpoint_stats.h"
#include "io/json.h"
#include "io/printable.h"
#include "ir/printer.h"
#include "tools.h"
#include "weights_commands.h"

namespace dif::tools {

namespace {

using nlohmann::ordered_json;

std::string size_text(std::uint64_t bytes) {
  return ir::amount_text(static_cast<double>(bytes), "B");
}

std::string totals_text(const io::TensorTotals& totals) {
  return fmt::format("{} tensors, {} elements, {}", totals.tensors, totals.elements, size_text(totals.bytes));
}

ordered_json totals_json(const io::TensorTotals& totals) {
  return {{"tensors", totals.tensors}, {"elements", totals.elements}, {"bytes", totals.bytes}};
}

std::string stats_text(const io::CheckpointStats& stats, std::size_t shards) {
  std::string text = fmt::format("{} in {} file{}\n", totals_text(stats.all), shards, shards == 1 ? "" : "s");
  for (const auto& [dtype, totals] : stats.by_dtype)
    text += fmt::format("dtype {}: {}\n", dtype, totals_text(totals));
  for (const auto& [rank, totals] : stats.by_rank)
    text += fmt::format("rank {}: {}\n", rank, totals_text(totals));
  for (const io::ShapePattern& pattern : stats.patterns)
    text += fmt::format("pattern {} {}{}: {} times, {}\n", io::printable(pattern.name), pattern.dtype,
                        pattern.shape, pattern.totals.tensors, size_text(pattern.totals.bytes));
  for (const io::CheckpointRow& row : stats.largest)
    text += fmt::format("largest {} {}{}: {}\n", io::printable(row.name), row.dtype, row.shape_text(),
                        size_text(row.bytes));
  return text;
}

ordered_json stats_json(const io::CheckpointStats& stats, const std::string& path, std::size_t shards) {
  ordered_json document = cli::telemetry_document("checkpoint-stats");
  document["checkpoint"] = path;
  document["files"] = shards;
  document["totals"] = totals_json(stats.all);
  for (const auto& [dtype, totals] : stats.by_dtype) document["dtypes"][dtype] = totals_json(totals);
  for (const auto& [rank, totals] : stats.by_rank)
    document["ranks"][std::to_string(rank)] = totals_json(totals);
  document["patterns"] = ordered_json::array();
  for (const io::ShapePattern& pattern : stats.patterns)
    document["patterns"].push_back({{"name", pattern.name},
                                    {"dtype", pattern.dtype},
                                    {"shape", pattern.shape},
                                    {"totals", totals_json(pattern.totals)}});
  document["largest"] = ordered_json::array();
  for (const io::CheckpointRow& row : stats.largest)
    document["largest"].push_back(
        {{"name", row.name}, {"dtype", row.dtype}, {"shape", row.shape}, {"bytes", row.bytes}});
  return document;
}

/// Only a file of the kind that the sub-command names: a folder or the other kind is asked for elsewhere.
Result<io::Checkpoint> open_file(const std::string& path, std::string_view ending) {
  if (!path.ends_with(ending))
    return invalid_input("{}: expected a file that ends in {}", io::printable(path, 200), ending);
  return io::open_checkpoint(path);
}

std::string row_text(const io::CheckpointRow& row) {
  return fmt::format("{} {}{} {}", io::printable(row.name), row.dtype, row.shape_text(),
                     size_text(row.bytes));
}

Status list_shard(const std::string& path) {
  DIF_ASSIGN(const io::Checkpoint checkpoint, open_file(path, ".safetensors"));
  std::string text;
  for (const auto& [key, value] : checkpoint.shards().front().metadata())
    text += fmt::format("metadata {} = {}\n", io::printable(key), io::printable(value, 200));
  const auto rows = io::checkpoint_rows(checkpoint);
  for (const io::CheckpointRow& row : rows) text += row_text(row) + "\n";
  return cli::print_result(text + totals_text(io::checkpoint_stats(rows, 0).all) + "\n");
}

Status list_index(const std::string& path) {
  DIF_ASSIGN(const io::Checkpoint checkpoint, open_file(path, ".json"));
  const auto rows = io::checkpoint_rows(checkpoint);
  std::string text;
  std::vector<io::TensorTotals> shards(checkpoint.shards().size());
  for (const io::CheckpointRow& row : rows) {
    ++shards[row.shard].tensors;
    shards[row.shard].elements += row.elements();
    shards[row.shard].bytes += row.bytes;
  }
  for (std::size_t i = 0; i < shards.size(); ++i)
    text += fmt::format("shard {}: {}: {}\n", i, checkpoint.shards()[i].file().path().filename().string(),
                        totals_text(shards[i]));
  for (const io::CheckpointRow& row : rows) text += fmt::format("{} shard {}\n", row_text(row), row.shard);
  return cli::print_result(text + totals_text(io::checkpoint_stats(rows, 0).all) + "\n");
}

}  // namespace

ListingCommands::ListingCommands(cli::Command& tool)
    : stats_(
          tool.add_subcommand("stats", "count a checkpoint's tensors by dtype, rank and repeated pattern")),
      shard_(tool.add_subcommand("inspect-shard", "list the tensors of one safetensors file")),
      index_(tool.add_subcommand("inspect-index",
                                 "list the shards and tensors of a checkpoint in several files")) {
  stats_.add_option("CHECKPOINT", path_, "FILE.safetensors, FILE.safetensors.index.json or a folder with one")
      .required();
  stats_.add_option("--top", top_, "largest tensors to name").show_default().expect_whole(0, 1 << 20);
  report_ = std::make_unique<cli::ReportOptions>(stats_);
  shard_.add_option("SHARD", path_, "FILE.safetensors").required();
  index_.add_option("INDEX", path_, "FILE.safetensors.index.json").required();
}

bool ListingCommands::parsed() const {
  return stats_.parsed() || shard_.parsed() || index_.parsed();
}

Status ListingCommands::run() const {
  if (shard_.parsed()) return list_shard(path_);
  if (index_.parsed()) return list_index(path_);
  DIF_ASSIGN(const io::Checkpoint checkpoint, io::open_checkpoint(path_));
  const io::CheckpointStats stats =
      io::checkpoint_stats(io::checkpoint_rows(checkpoint), static_cast<std::size_t>(top_));
  const std::size_t shards = checkpoint.shards().size();
  if (!report_->json) DIF_TRY(cli::print_result(stats_text(stats, shards)));
  if (!report_->wanted()) return ok();
  return report_->write(io::json_text(stats_json(stats, checkpoint.path().string(), shards)));
}

}  // namespace dif::tools

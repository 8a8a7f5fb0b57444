#include "io/checkpoint_stats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace dif::io {

namespace {

void add(TensorTotals& totals, const CheckpointRow& row) {
  ++totals.tensors;
  totals.elements += row.elements();
  totals.bytes += row.bytes;
}

}  // namespace

std::uint64_t CheckpointRow::elements() const {
  std::uint64_t product = 1;
  for (const std::uint64_t dim : shape) product *= dim;
  return product;
}

std::string CheckpointRow::shape_text() const {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<CheckpointRow> checkpoint_rows(const Checkpoint& checkpoint) {
  std::vector<CheckpointRow> rows;
  for (std::size_t shard = 0; shard < checkpoint.shards().size(); ++shard) {
    const SafetensorsFile& file = checkpoint.shards()[shard];
    for (const TensorRef& tensor : file.tensors())
      rows.push_back({tensor.name,
                      std::string(safetensors_dtype_name(tensor.dtype)),
                      {tensor.shape.dims().begin(), tensor.shape.dims().end()},
                      tensor.bytes,
                      shard});
    for (const SafetensorsEntry& entry : file.unusable())
      rows.push_back({entry.name, entry.dtype, entry.shape, entry.end - entry.begin, shard});
  }
  return rows;
}

std::string numbered_pattern(std::string_view name) {
  std::string pattern;
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    const bool is_number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    pattern += is_number ? "#" : part;
    if (dot == std::string_view::npos) return pattern;
    pattern += '.';
    name.remove_prefix(dot + 1);
  }
}

CheckpointStats checkpoint_stats(const std::vector<CheckpointRow>& rows, std::size_t top) {
  CheckpointStats stats;
  std::map<std::tuple<std::string, std::string, std::string>, TensorTotals> patterns;
  for (const CheckpointRow& row : rows) {
    add(stats.all, row);
    add(stats.by_dtype[row.dtype], row);
    add(stats.by_rank[row.shape.size()], row);
    add(patterns[{numbered_pattern(row.name), row.dtype, row.shape_text()}], row);
  }
  for (const auto& [key, totals] : patterns)
    if (totals.tensors > 1)
      stats.patterns.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), totals});
  stats.largest = rows;
  std::sort(stats.largest.begin(), stats.largest.end(), [](const CheckpointRow& a, const CheckpointRow& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  stats.largest.resize(std::min(top, stats.largest.size()));
  return stats;
}

}  // namespace dif::io

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "io/printable.h"

namespace dif::io {

namespace {

/// A shard is named relative to its index and stays below the index's folder.
bool stays_inside(std::string_view name) {
  if (name.empty() || name.find('\0') != std::string_view::npos) return false;
  const std::filesystem::path path(name);
  if (path.is_absolute() || !path.has_filename()) return false;
  return std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".." || part == "."; });
}

}  // namespace

Result<SafetensorsIndex> parse_safetensors_index(std::string_view text, std::string_view source) {
  DIF_ASSIGN(const JsonDocument document, JsonDocument::parse(text, std::string(source)));
  ConfigReader root(document);
  SafetensorsIndex index;
  if (std::optional<ConfigReader> metadata = root.object_or_none("metadata")) {
    const nlohmann::json* total = metadata->find("total_size");
    // Some writers give the total as a float (1.8e10); it counts when it is a whole number of bytes.
    const double value = total != nullptr && total->is_number() ? total->get<double>() : 0;
    if (total != nullptr &&
        (!total->is_number() || value < 0 || value > 0x1p53 || value != std::floor(value)))
      metadata->problem("total_size", "a number of bytes",
                        total->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 80));
    else if (total != nullptr)
      index.total_size = static_cast<std::uint64_t>(value);
  }
  ConfigReader map = root.object("weight_map");
  for (const std::string& tensor : map.keys()) {
    std::string shard = map.string(tensor);
    if (!shard.empty() && !stays_inside(shard))
      map.problem(tensor, "a file below the folder of the index", fmt::format("\"{}\"", printable(shard)));
    index.weight_map.emplace_back(tensor, std::move(shard));
  }
  if (root.has("weight_map") && index.weight_map.empty())
    root.problem("weight_map", "at least one tensor", "none");
  DIF_TRY(root.finish());
  for (const auto& [tensor, shard] : index.weight_map)
    if (shard.empty())
      return invalid_input("{}: tensor \"{}\" has an empty shard name", source, printable(tensor));
  return index;
}

}  // namespace dif::io

// A *.safetensors.index.json of any bytes: refused, or each shard is a plain name inside the folder.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/promise.h"
#include "io/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = dif::io::parse_safetensors_index(text, "input");
  if (!index) return 0;
  for (const auto& [tensor, shard] : index->weight_map) {
    dif::fuzz::promise(!shard.empty() && shard.front() != '/', "a shard's path is relative");
    dif::fuzz::promise(shard != ".." && !shard.starts_with("../") && shard.find("/../") == shard.npos,
                       "a shard's path stays in the folder");
  }
  return 0;
}

// A safetensors file of any bytes: refused, or its ranges lie in the file and follow each other.

#include "io/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/promise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto header = dif::io::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
  if (!header) return 0;
  dif::fuzz::promise(header->data_offset <= size, "the data section starts inside the file");
  std::uint64_t end = 0;
  for (const auto& entry : header->entries) {
    dif::fuzz::promise(entry.begin == end && entry.begin <= entry.end,
                       "ranges cover the data without a hole");
    end = entry.end;
  }
  dif::fuzz::promise(end == size - header->data_offset, "ranges end where the file ends");
  return 0;
}

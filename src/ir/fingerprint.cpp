#include <bit>

#include "io/digest.h"
#include "ir/program_file.h"

namespace dif::ir {

namespace {

/// The stream of docs/difir.md: integers little-endian, texts and lists after their length as u64.
class Stream {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    std::byte bytes[sizeof(T)];
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
    hash_.update(std::span<const std::byte>(bytes));
  }
  void count(std::size_t value) { number(static_cast<std::uint64_t>(value)); }
  void text(std::string_view value) {
    count(value.size());
    hash_.update(value);
  }
  void ids(const std::vector<ValueId>& list) {
    count(list.size());
    for (const ValueId id : list) number(id);
  }
  void integers(std::span<const std::int64_t> list) {
    count(list.size());
    for (const std::int64_t value : list) number(static_cast<std::uint64_t>(value));
  }
  /// The alternative's number, then the value.
  void attr(const Attr& attr) {
    number(static_cast<std::uint8_t>(attr.index()));
    std::visit([this](const auto& value) { attr_value(value); }, attr);
  }
  std::string finish() { return io::hex(hash_.finish()); }

 private:
  void attr_value(std::int64_t value) { number(static_cast<std::uint64_t>(value)); }
  void attr_value(float value) { number(std::bit_cast<std::uint32_t>(value)); }
  void attr_value(bool value) { number(static_cast<std::uint8_t>(value)); }
  void attr_value(DType value) { number(static_cast<std::uint8_t>(value)); }
  void attr_value(const std::vector<std::int64_t>& value) { integers(value); }

  io::Sha256 hash_;
};

}  // namespace

std::string fingerprint(const Program& program) {
  Stream stream;
  stream.text("difir");
  stream.number(std::uint32_t{1});
  stream.text(program.name);
  stream.count(program.values.size());
  for (const ValueInfo& value : program.values) {
    stream.number(static_cast<std::uint8_t>(value.kind));
    stream.number(static_cast<std::uint8_t>(value.type.dtype));
    stream.integers(value.type.shape.dims());
    stream.text(value.name);
  }
  stream.count(program.ops.size());
  for (const Op& op : program.ops) {
    stream.text(op.def->name);
    stream.ids(op.operands);
    stream.ids(op.results);
    std::vector<std::size_t> written;
    for (std::size_t i = 0; i < op.attrs.size(); ++i)
      if (op.def->attrs[i].is_written(op.attrs[i])) written.push_back(i);
    stream.count(written.size());
    for (const std::size_t i : written) {
      stream.text(op.def->attrs[i].name);
      stream.attr(op.attrs[i]);
    }
  }
  stream.ids(program.inputs);
  stream.ids(program.constants);
  stream.count(program.outputs.size());
  for (const Output& output : program.outputs) {
    stream.text(output.name);
    stream.number(output.value);
  }
  return stream.finish();
}

}  // namespace dif::ir

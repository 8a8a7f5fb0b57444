#include "tests/support/program_parser.h"

#include <charconv>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "ir/verifier.h"

namespace dif::test {

namespace {

/// One line, read from left to right. Blanks separate words and are skipped.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) { skip(); }

  bool done() const { return rest_.empty() || rest_[0] == '#'; }
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    skip();
    return true;
  }
  Status expect(std::string_view token) {
    if (take(token)) return ok();
    return invalid_input("expected \"{}\", found \"{}\"", token, rest_);
  }
  /// Up to the next blank or one of `= ( ) { } , : [ ] #`, or a text in quotes.
  Result<std::string> word() {
    std::string text;
    if (rest_.starts_with('"')) {
      rest_.remove_prefix(1);
      while (!rest_.empty() && rest_[0] != '"') {
        if (rest_[0] == '\\') rest_.remove_prefix(1);
        text += rest_.substr(0, 1);
        rest_.remove_prefix(std::min<std::size_t>(1, rest_.size()));
      }
      DIF_TRY(expect("\""));
      return text;
    }
    const std::size_t end = std::min(rest_.find_first_of(" =(){},:[]#"), rest_.size());
    if (end == 0) return invalid_input("expected a word, found \"{}\"", rest_);
    text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    skip();
    return text;
  }
  template <class T>
  Result<T> number() {
    DIF_ASSIGN(const std::string text, word());
    T value = {};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      return invalid_input("{} is not a number", text);
    return value;
  }
  Result<std::vector<std::int64_t>> list() {
    std::vector<std::int64_t> values;
    DIF_TRY(expect("["));
    while (!take("]")) {
      DIF_ASSIGN(const std::int64_t value, number<std::int64_t>());
      values.push_back(value);
      take(",");
    }
    return values;
  }
  Result<DType> dtype() {
    DIF_ASSIGN(const std::string name, word());
    const auto dtype = dtype_from_name(name);
    if (!dtype) return invalid_input("there is no dtype {}", name);
    return *dtype;
  }
  Result<ir::TensorType> type() {
    DIF_ASSIGN(const DType element, dtype());
    DIF_ASSIGN(const std::vector<std::int64_t> dims, list());
    if (dims.size() > Shape::kMaxRank) return invalid_input("{} dimensions", dims.size());
    return ir::TensorType{element, Shape(dims)};
  }
  /// Replaces the attribute's value by one of the same alternative.
  Status attr(ir::Attr& attr) {
    return std::visit([this](auto& value) { return read(value); }, attr);
  }

 private:
  template <class T>
  Status read(T& value) {
    DIF_ASSIGN(value, number<T>());
    return ok();
  }
  Status read(bool& value) {
    DIF_ASSIGN(const std::string text, word());
    if (text != "true" && text != "false") return invalid_input("{} is neither true nor false", text);
    value = text == "true";
    return ok();
  }
  Status read(DType& value) {
    DIF_ASSIGN(value, dtype());
    return ok();
  }
  Status read(ir::Integers& value) {
    DIF_ASSIGN(value, list());
    return ok();
  }
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  std::string_view rest_;
};

class Parser {
 public:
  Status line(std::string_view text) {
    for (const std::string_view title : {"inputs", "constants", "operations", "outputs"})
      if (text == title) {
        section_ = title;
        return ok();
      }
    Line line(text);
    if (line.done()) return ok();
    DIF_TRY(item(line));
    if (!line.done()) return invalid_input("something follows the end of the line");
    return ok();
  }

  Result<ir::Program> finish() {
    DIF_TRY(ir::verify(program_));
    return std::move(program_);
  }

 private:
  Status item(Line& line) {
    if (section_ == "operations") return operation(line);
    if (section_ == "outputs") return output(line);
    if (section_ == "inputs") return named(line, ir::ValueKind::kInput);
    if (section_ == "constants") return named(line, ir::ValueKind::kConstant);
    DIF_TRY(line.expect("program"));
    DIF_ASSIGN(program_.name, line.word());
    return ok();
  }

  Result<ir::ValueId> value(Line& line) {
    DIF_TRY(line.expect("%"));
    DIF_ASSIGN(const std::string word, line.word());
    const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
    if (const auto found = named_.find(word); !is_number && found != named_.end()) return found->second;
    Line digits(word);
    DIF_ASSIGN(const ir::ValueId id, digits.number<ir::ValueId>());
    if (id > 1000000) return invalid_input("value %{} is out of range", id);
    return id;
  }

  Status define(ir::ValueId id, ir::ValueInfo info) {
    if (program_.values.size() <= id) program_.values.resize(id + 1);
    program_.values[id] = std::move(info);
    return ok();
  }

  Status named(Line& line, ir::ValueKind kind) {
    DIF_ASSIGN(const ir::ValueId id, value(line));
    DIF_TRY(line.expect("="));
    DIF_ASSIGN(std::string name, line.word());
    DIF_TRY(line.expect(":"));
    DIF_ASSIGN(ir::TensorType type, line.type());
    named_.emplace(name, id);
    (kind == ir::ValueKind::kInput ? program_.inputs : program_.constants).push_back(id);
    return define(id, {std::move(type), kind, std::move(name), ir::kNoId});
  }

  Status operation(Line& line) {
    ir::Op op;
    do {
      DIF_ASSIGN(const ir::ValueId id, value(line));
      op.results.push_back(id);
    } while (line.take(","));
    DIF_TRY(line.expect("="));
    DIF_ASSIGN(const std::string name, line.word());
    op.def = ir::find_op(name);
    if (op.def == nullptr) return invalid_input("there is no operation {}", name);
    DIF_TRY(line.expect("("));
    while (!line.take(")")) {
      DIF_ASSIGN(const ir::ValueId id, value(line));
      op.operands.push_back(id);
      line.take(",");
    }
    DIF_TRY(attrs(line, op));
    DIF_TRY(line.expect(":"));
    for (const ir::ValueId id : op.results) {
      DIF_ASSIGN(ir::TensorType type, line.type());
      line.take(",");
      DIF_TRY(define(
          id, {std::move(type), ir::ValueKind::kResult, {}, static_cast<ir::OpId>(program_.ops.size())}));
    }
    program_.ops.push_back(std::move(op));
    return ok();
  }

  static Status attrs(Line& line, ir::Op& op) {
    bool any = false;
    for (const ir::AttrDef& def : op.def->attrs) {
      op.attrs.push_back(def.fallback);
      if (def.optional && !line.take(any ? "," : "{")) continue;
      if (!def.optional) DIF_TRY(line.expect(any ? "," : "{"));
      any = true;
      DIF_TRY(line.expect(def.name));
      DIF_TRY(line.expect("="));
      DIF_TRY(line.attr(op.attrs.back()));
    }
    return any ? line.expect("}") : ok();
  }

  Status output(Line& line) {
    DIF_ASSIGN(std::string name, line.word());
    DIF_TRY(line.expect("="));
    DIF_ASSIGN(const ir::ValueId id, value(line));
    program_.outputs.push_back({std::move(name), id});
    return ok();
  }

  ir::Program program_;
  std::string section_;
  std::map<std::string, ir::ValueId, std::less<>> named_;
};

}  // namespace

Result<ir::Program> parse_program(std::string_view text) {
  Parser parser;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Status status = parser.line(text.substr(0, end));
    if (!status) return with_context(std::move(status.error()), "line {}", number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.finish();
}

}  // namespace dif::test

#include "ir/printer.h"

#include <algorithm>
#include <map>

namespace dif::ir {

namespace {

bool is_plain(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto plain = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '/';
  };
  return !name.empty() && letter(name[0]) && std::ranges::all_of(name, plain);
}

std::string quoted(std::string_view name) {
  if (is_plain(name)) return std::string(name);
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

struct AttrText {
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(float value) const { return fmt::format("{}", value); }
  std::string operator()(bool value) const { return fmt::format("{}", value); }
  std::string operator()(DType value) const { return fmt::format("{}", value); }
  std::string operator()(const std::vector<std::int64_t>& value) const {
    return fmt::format("[{}]", fmt::join(value, ", "));
  }
};

class Printer {
 public:
  Printer(const Program& program, const PrintOptions& options) : program_(program), options_(options) {
    for (const auto* list : {&program.inputs, &program.constants})
      for (const ValueId id : *list) ++uses_of_name_[program.values[id].name];
  }

  std::string whole() {
    line("program {}", quoted(program_.name));
    named("inputs", program_.inputs);
    named("constants", program_.constants);
    text_ += "\noperations\n";
    std::string module;
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      module_comment(id, module);
      line("  {}{}", op(id), comment(id));
    }
    text_ += "\noutputs\n";
    for (const Output& output : program_.outputs) line("  {} = {}", quoted(output.name), value(output.value));
    if (options_.costs) totals();
    return std::move(text_);
  }

  std::string op(OpId id) const {
    const Op& op = program_.ops[id];
    std::vector<std::string> operands, results, attrs, types;
    for (const ValueId operand : op.operands) operands.push_back(value(operand));
    for (const ValueId result : op.results) {
      results.push_back(value(result));
      types.push_back(fmt::format("{}", program_.type(result)));
    }
    for (std::size_t i = 0; i < op.attrs.size(); ++i)
      if (op.def->attrs[i].is_written(op.attrs[i]))
        attrs.push_back(fmt::format("{} = {}", op.def->attrs[i].name, std::visit(AttrText(), op.attrs[i])));
    return fmt::format(
        "{} = {}({}){} : {}", fmt::join(results, ", "), op.def->name, fmt::join(operands, ", "),
        attrs.empty() ? "" : fmt::format(" {{{}}}", fmt::join(attrs, ", ")), fmt::join(types, ", "));
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  std::string value(ValueId id) const {
    const std::string& name = program_.values[id].name;
    if (!is_plain(name) || uses_of_name_.at(name) != 1) return fmt::format("%{}", id);
    return "%" + name;
  }

  void named(std::string_view title, const std::vector<ValueId>& ids) {
    line("\n{}", title);
    for (const ValueId id : ids)
      line("  %{} = {} : {}", id, quoted(program_.values[id].name), program_.type(id));
  }

  void module_comment(OpId id, std::string& module) {
    const auto& modules = program_.provenance.op_modules;
    if (!options_.modules || id >= modules.size() || (modules[id] == module && id != 0)) return;
    module = modules[id];
    if (id != 0) text_ += '\n';
    if (!module.empty()) line("  # {}", module);
  }

  /// What the line of an operation says after #.
  std::string comment(OpId id) const {
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "  # " : ", ") + part; };
    if (options_.costs) {
      const OpView view = program_.view(id);
      if (const double count = flops(view); count > 0) add(amount_text(count, "FLOP"));
      add(amount_text(static_cast<double>(bytes_moved(view)), "B"));
    }
    if (options_.modules)
      for (const Provenance::Boundary& boundary : program_.provenance.boundaries)
        if (std::ranges::count(program_.ops[id].results, boundary.value) != 0)
          add("result of " + boundary.name);
    return text;
  }

  void totals() {
    double moved = 0, constants = 0;
    for (OpId id = 0; id < program_.ops.size(); ++id)
      moved += static_cast<double>(bytes_moved(program_.view(id)));
    for (const ValueId id : program_.constants) constants += static_cast<double>(program_.type(id).bytes());
    line("\n# {} operations: {}, {} moved; {} constants: {}", program_.ops.size(),
         amount_text(flops(program_), "FLOP"), amount_text(moved, "B"), program_.constants.size(),
         amount_text(constants, "B"));
  }

  const Program& program_;
  PrintOptions options_;
  std::map<std::string_view, int> uses_of_name_;
  std::string text_;
};

}  // namespace

std::string to_text(const Program& program, const PrintOptions& options) {
  return Printer(program, options).whole();
}

std::string op_text(const Program& program, OpId op) {
  return Printer(program, {}).op(op);
}

std::string amount_text(double amount, std::string_view unit) {
  constexpr std::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (amount >= 999.5 && prefix + 1 < std::size(kPrefixes)) {
    amount /= 1000;
    ++prefix;
  }
  const int decimals = prefix == 0 || amount >= 99.95 ? 0 : amount >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}", amount, decimals, kPrefixes[prefix], unit);
}

}  // namespace dif::ir

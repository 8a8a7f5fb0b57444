#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/parse_number.h"
#include "io/printable.h"

namespace dif::cli {

namespace {

/// Checks before CLI11 converts, and rewrites the text so that a leading zero does not make it octal.
template <class Number>
void expect_in_range(CLI::Option* option, Number low, Number high, const std::string& expected) {
  option->transform([=](const std::string& text) {
    const auto number = parse_number<Number>(text);
    if (!number || !(*number >= low && *number <= high))
      throw CLI::ConversionError(fmt::format("{} {}: expected {}", option->get_name(),
                                             text.empty() ? "\"\"" : io::printable(text, 40), expected));
    return fmt::format("{}", *number);
  });
}

}  // namespace

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Option Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option Option::heading(const std::string& text) {
  option_->group(text);
  return *this;
}

Option Option::expect_one_of(std::vector<std::string> words) {
  option_->check(CLI::IsMember(std::move(words)));
  return *this;
}

Option Option::expect_whole(std::int64_t low, std::int64_t high) {
  const bool any = low == INT64_MIN && high == INT64_MAX;
  expect_in_range(option_, low, high, any ? "a whole number" : fmt::format("{} to {}", low, high));
  return *this;
}

Option Option::expect_number(double low, double high) {
  expect_in_range(option_, low, high, fmt::format("a number from {} to {}", low, high));
  return *this;
}

Option Option::expect_name() {
  option_->check([](const std::string& text) {
    return text.empty() ? std::string("expected a name, found \"\"") : std::string();
  });
  return *this;
}

Option Option::expect_size() {
  option_->transform(CLI::AsSizeValue(true));
  return *this;
}

Option Option::one_at_a_time() {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::split_at_commas() {
  option_->delimiter(',');
  return *this;
}

bool Option::given() const {
  return option_->count() != 0;
}

Command::Command(const std::string& name, const std::string& description)
    : app_(std::make_shared<CLI::App>(description, name)) {}

template <class Value>
Option Command::add_option(const std::string& names, Value& value, const std::string& description) {
  return Option(app_->add_option(names, value, description));
}

// Each costs seconds to compile, here once for all tools.
template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&, int&, const std::string&);
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&);
template Option Command::add_option(const std::string&, std::uint32_t&, const std::string&);
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<std::int64_t>&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::int64_t>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&);

Option Command::add_flag(const std::string& names, bool& value, const std::string& description) {
  return Option(app_->add_flag(names, value, description));
}

Option Command::add_bare_flag(const std::string& names, const std::string& description) {
  return Option(app_->add_flag(names, description));
}

Option Command::add_bare_option(const std::string& names, const std::string& description) {
  return Option(app_->add_option(names, description)->expected(0, 1)->take_last());
}

Command Command::add_subcommand(const std::string& name, const std::string& description) {
  app_->require_subcommand(1);
  return Command(app_->get_subcommand_ptr(app_->add_subcommand(name, description)));
}

Command Command::add_alternatives(const std::string& heading) {
  CLI::App* const group = app_->add_option_group(heading)->require_option(1);
  return Command(app_->get_subcommand_ptr(group));
}

void Command::add_examples(std::string_view lines) {
  app_->footer(fmt::format("\nExamples:\n{}", lines));
}

Option Command::option(const std::string& name) const {
  return Option(app_->get_option(name));
}

bool Command::given(const std::string& option_name) const {
  return option(option_name).given();
}

bool Command::parsed() const {
  return app_->parsed();
}

Result<Command::Request> Command::parse(std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);  // as CLI11 wants them
  try {
    app_->parse(std::move(arguments));
    return Request::kRun;
  } catch (const CLI::CallForHelp&) {
    return Request::kHelp;
  } catch (const CLI::ParseError& error) {
    return invalid_input("{} (see {} --help)", error.what(), app_->get_name());
  }
}

std::string Command::help() const {
  return app_->help();
}

}  // namespace dif::cli

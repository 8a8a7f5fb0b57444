#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dif/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

/// What a tool understands of its command line. CLI11 does the work, and is seen by command.cpp alone: its
/// header costs every file that includes it more than most of them cost themselves.
namespace dif::cli {

/// An option, flag or argument of a Command; valid while that is. What says more about it returns it again.
class Option {
 public:
  Option required();
  Option needs(Option other);
  Option excludes(Option other);
  /// --help shows the value that it has at this moment.
  Option show_default();
  /// --help lists it under this heading.
  Option heading(const std::string& text);

  Option expect_one_of(std::vector<std::string> words);
  /// Refuses anything but a decimal whole number in the range, with one sentence that names option, text and
  /// range.
  Option expect_whole(std::int64_t low = INT64_MIN, std::int64_t high = INT64_MAX);
  /// Refuses anything but a decimal number in the range; NaN and infinity are in none.
  Option expect_number(double low, double high);
  /// Refuses an empty text where something is to be named.
  Option expect_name();
  /// Bytes, or a number with a unit: 500MB, with thousands, or 5GiB.
  Option expect_size();
  /// Of a list: one value each time that the option is given, not all that follow.
  Option one_at_a_time();
  /// Of a list that is given one at a time: commas separate values too.
  Option split_at_commas();

  bool given() const;

 private:
  friend class Command;
  explicit Option(CLI::Option* option) : option_(option) {}

  CLI::Option* option_;
};

/// A tool, one of its sub-commands, or a group of options of one. Copies are the same command; a sub-command
/// or group is valid while its tool is. The variables of options stay where they are until parse() has filled
/// them.
class Command {
 public:
  Command(const std::string& name, const std::string& description);

  /// `names` as in "-o,--output", or a name without dashes for an argument that is known by its place.
  /// `Value` is one of the types that command.cpp lists.
  template <class Value>
  Option add_option(const std::string& names, Value& value, const std::string& description);
  Option add_flag(const std::string& names, bool& value, const std::string& description);
  /// Known only for being given: a flag, or an option whose value, if it has one, is dropped.
  Option add_bare_flag(const std::string& names, const std::string& description);
  Option add_bare_option(const std::string& names, const std::string& description);

  /// Exactly one of a command's sub-commands must be given.
  Command add_subcommand(const std::string& name, const std::string& description);
  /// A group of options of which exactly one must be given; --help lists them under the heading.
  Command add_alternatives(const std::string& heading);
  /// Text below the options in --help, one example a line.
  void add_examples(std::string_view lines);

  /// The option of that name, which exists.
  Option option(const std::string& name) const;
  /// Whether the option was given; whether the sub-command was.
  bool given(const std::string& option_name) const;
  bool parsed() const;

  enum class Request { kRun, kHelp };
  /// Reads what stands behind the program's name. Errors: InvalidInput, which says how to get help.
  Result<Request> parse(std::vector<std::string> arguments);
  /// The text of --help: the sub-command's where one was parsed.
  std::string help() const;

 private:
  explicit Command(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}

  std::shared_ptr<CLI::App> app_;
};

}  // namespace dif::cli

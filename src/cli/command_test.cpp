#include "cli/command.h"

#include <gtest/gtest.h>

namespace dif::cli {
namespace {

using Request = Command::Request;

TEST(Command, WritesValuesWhereItWasTold) {
  Command command("tool", "");
  std::string text = "before";
  std::vector<std::string> list;
  std::int64_t number = 7;
  bool flag = false;
  command.add_option("IN", text, "");
  command.add_option("-l,--list", list, "").split_at_commas().one_at_a_time();
  command.add_option("--number", number, "").expect_whole();
  command.add_flag("--flag", flag, "");
  EXPECT_EQ(command.parse({"-l", "a,b", "in", "--list", "c", "--flag"}), Request::kRun);
  EXPECT_EQ(text, "in");
  EXPECT_EQ(list, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(number, 7);
  EXPECT_TRUE(flag);
  EXPECT_TRUE(command.given("--list"));
  EXPECT_FALSE(command.given("--number"));
}

TEST(Command, AUsageErrorSaysWhereHelpIs) {
  Command command("dif tool", "");
  std::int64_t number = 0;
  command.add_option("--number", number, "").expect_whole(1, 9);
  const auto refused = command.parse({"--number", "ten"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(refused.error().message, "--number ten: expected 1 to 9 (see dif tool --help)");
}

TEST(Command, AWholeNumberWithALeadingZeroIsDecimal) {
  Command command("tool", "");
  std::int64_t number = 0;
  command.add_option("--number", number, "").expect_whole();
  ASSERT_TRUE(command.parse({"--number", "010"}));
  EXPECT_EQ(number, 10);
}

TEST(Command, HelpIsThatOfTheSubCommandWhichWasGiven) {
  Command tool("tool", "what the tool does");
  Command one = tool.add_subcommand("one", "what one does");
  const Command two = tool.add_subcommand("two", "what two does");
  std::string size = "as it is";
  one.add_option("--size", size, "of it").show_default();
  tool.add_examples("  tool one\n");
  EXPECT_EQ(tool.parse({"one", "--help"}), Request::kHelp);
  EXPECT_TRUE(one.parsed() && !two.parsed());
  EXPECT_NE(tool.help().find("what one does"), std::string::npos);
  EXPECT_NE(tool.help().find("as it is"), std::string::npos);
  EXPECT_EQ(tool.help().find("what two does"), std::string::npos);
  EXPECT_EQ(tool.parse({"--help"}), Request::kHelp);
  EXPECT_NE(tool.help().find("Examples:\n  tool one"), std::string::npos);
  EXPECT_FALSE(tool.parse({})) << "a sub-command is needed";
}

TEST(Command, OneOfTheAlternativesMustBeGiven) {
  Command command("tool", "");
  std::string a, b;
  Command input = command.add_alternatives("Input");
  input.add_option("--a", a, "");
  input.add_option("--b", b, "");
  EXPECT_FALSE(command.parse({}));
  EXPECT_FALSE(command.parse({"--a", "1", "--b", "2"}));
  EXPECT_TRUE(command.parse({"--b", "2"}));
  EXPECT_TRUE(command.given("--b") && !command.given("--a"));
}

TEST(Command, ABareOptionTakesAValueOrNone) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--bare"}, {"--bare", "1"}, {"--bare", "1", "--bare", "2"}}) {
    Command command("tool", "");
    const Option bare = command.add_bare_option("--bare", "");
    EXPECT_TRUE(command.parse(arguments));
    EXPECT_TRUE(bare.given());
  }
}

TEST(Command, SizesHaveUnits) {
  for (const auto& [text, bytes] :
       {std::pair("5GB", std::uint64_t{5'000'000'000}), std::pair("2KiB", std::uint64_t{2048}),
        std::pair("7", std::uint64_t{7})}) {
    Command command("tool", "");
    std::uint64_t size = 0;
    command.add_option("--size", size, "").expect_size();
    EXPECT_TRUE(command.parse({"--size", text}));
    EXPECT_EQ(size, bytes);
  }
}

}  // namespace
}  // namespace dif::cli

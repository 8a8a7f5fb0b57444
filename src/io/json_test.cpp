#include "io/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

Result<JsonDocument> parse(std::string_view text, const JsonLimits& limits = {}) {
  return JsonDocument::parse(text, "config.json", limits);
}

TEST(JsonDocument, HoldsTheValue) {
  const auto document =
      parse(R"({"a": [1, -2, 2.5, "x", {"b": null}], "c": [[], {}], "d": 18446744073709551615})");
  ASSERT_TRUE(document) << document.error().message;
  const nlohmann::json& value = document->value();
  EXPECT_EQ(value, nlohmann::json::parse(
                       R"({"a": [1, -2, 2.5, "x", {"b": null}], "c": [[], {}], "d": 18446744073709551615})"));
  EXPECT_EQ(value["d"].get<std::uint64_t>(), 18446744073709551615ULL);
}

TEST(JsonDocument, RefusesWhatIsNotJson) {
  const auto refused = [](std::string_view text, const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.push_back("config.json: ");
    expect_refused(parse(text), ErrorCode::kInvalidInput, all);
  };
  refused("", {"empty"});
  refused(" \n", {"empty"});
  refused("{\"a\": 1,\n \"b\" 2}", {"not valid JSON at line 2, column 6"});
  refused("{\"a\": 1} x", {"not valid JSON at line 1, column 10"});
  refused("[1, 2", {"not valid JSON", "unexpected end of input"});
  refused("{'a': 1}", {"not valid JSON"});
  refused("[1,]", {"not valid JSON"});
  refused("[NaN]", {"not valid JSON"});
  refused("[01]", {"not valid JSON"});
  refused("// c\n[]", {"not valid JSON"});
  refused(std::string_view("[]\0", 3), {"NUL byte at offset 2"});
  refused("\xef\xbb\xbf[]", {"byte order mark"});
  refused("[\"\xff\"]", {"not valid JSON", "UTF-8"});
  refused("[\"\xed\xa0\x80\"]", {"UTF-8"});
  refused("[\"\\ud800\"]", {"surrogate"});
  refused("[\"a\nb\"]", {"control character"});
  refused("{\"a\": {\"k\": 1, \"k\": 1}}", {"key \"k\" is there twice"});
  refused("{\"k\": 1, \"\\u006b\": 2}", {"key \"k\" is there twice"});
  refused("[1e999]", {"number overflow"});
  refused("[18446744073709551616]", {"does not fit in 64 bits"});
  refused("[-9223372036854775809]", {"does not fit in 64 bits"});
}

TEST(JsonDocument, KeepsToItsLimits) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse(nested(64)));
  expect_refused(parse(nested(65)), ErrorCode::kInvalidInput, {"nested more than 64 deep"});
  expect_refused(parse(std::string(1'000'000, '[')), ErrorCode::kInvalidInput, {"nested more than 64 deep"});
  EXPECT_TRUE(parse("[1, 2]", {.max_bytes = 6}));
  expect_refused(parse("[1, 2]", {.max_bytes = 5}), ErrorCode::kInvalidInput, {"6 bytes", "at most 5"});
}

TEST(ConfigReader, ReadsEveryType) {
  const auto document = parse(
      R"({"i": 7, "n": 2.5, "w": 3, "b": true, "s": "x", "is": [1, -2], "ns": [1, 0.5], "ss": ["a", "b"],
          "o": {"i": 8}, "os": [{"i": 1}, {"i": 2}], "z": null})");
  ASSERT_TRUE(document);
  ConfigReader c(*document);
  EXPECT_EQ(c.integer("i"), 7);
  EXPECT_EQ(c.integer("i", {0, 7}), 7);
  EXPECT_EQ(c.number("n"), 2.5);
  EXPECT_EQ(c.number("w"), 3.0);
  EXPECT_TRUE(c.boolean("b"));
  EXPECT_EQ(c.string("s"), "x");
  EXPECT_EQ(c.integers("is"), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(c.numbers("ns"), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(c.strings("ss"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c.object("o").integer("i"), 8);
  EXPECT_EQ(c.objects("os").at(1).integer("i"), 2);
  EXPECT_FALSE(c.has("z"));
  EXPECT_EQ(c.integer_or("z", 5), 5);
  EXPECT_EQ(c.integer_or("i", 5), 7);
  EXPECT_EQ(c.number_or("none", 0.5), 0.5);
  EXPECT_EQ(c.boolean_or("none", true), true);
  EXPECT_EQ(c.string_or("none", "d"), "d");
  EXPECT_EQ(c.integers_or("none", {4}), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(c.strings_or("none", {"q"}), (std::vector<std::string>{"q"}));
  EXPECT_FALSE(c.object_or_none("none"));
  EXPECT_TRUE(c.object_or_none("o"));
  EXPECT_TRUE(c.finish());
}

TEST(ConfigReader, NamesKeyExpectedAndFound) {
  const auto refused = [](std::string_view text, auto read, const std::vector<std::string>& parts) {
    const auto document = parse(text);
    ASSERT_TRUE(document);
    ConfigReader c(*document);
    read(c);
    expect_refused(c.finish(), ErrorCode::kInvalidInput, parts);
  };
  using C = ConfigReader;
  refused("{}", [](C& c) { c.integer("n"); }, {"config.json: key n: expected an integer, found no such key"});
  refused(R"({"n": null})", [](C& c) { c.integer("n"); }, {"key n: expected an integer, found null"});
  refused(R"({"n": "7"})", [](C& c) { c.integer("n"); }, {"key n: expected an integer, found \"7\""});
  refused(R"({"n": 7.0})", [](C& c) { c.integer("n"); }, {"found 7.0"});
  refused(R"({"n": 18446744073709551615})", [](C& c) { c.integer("n"); }, {"found 18446744073709551615"});
  refused(R"({"n": 0})",
          [](C& c) {
            c.integer("n", {1, 64});
          },
          {"expected an integer from 1 to 64, found 0"});
  refused(R"({"n": 0})", [](C& c) { c.integer_or("n", 3, {.min = 1}); },
          {"an integer of at least 1, found 0"});
  refused(R"({"n": true})", [](C& c) { c.number("n"); }, {"expected a number, found true"});
  refused(R"({"n": 1})", [](C& c) { c.boolean("n"); }, {"expected true or false, found 1"});
  refused(R"({"n": [1]})", [](C& c) { c.string("n"); }, {"expected a string, found an array of 1"});
  refused(R"({"n": [1, "a"]})", [](C& c) { c.integers("n"); },
          {"key n[1]: expected an integer, found \"a\""});
  refused(R"({"n": {}})", [](C& c) { c.integers("n"); }, {"found an object"});
  refused(R"({"n": [null]})", [](C& c) { c.numbers("n"); }, {"key n[0]: expected a number"});
  refused(R"({"n": [1]})", [](C& c) { c.strings("n"); }, {"key n[0]: expected a string"});
  refused(R"({"o": {"p": {}}})", [](C& c) { c.object("o").object("p").integer("q"); },
          {"key o.p.q: expected"});
  refused(R"({"o": [{"q": 1}, {}]})", [](C& c) { c.objects("o").at(1).integer("q"); },
          {"key o[1].q: expected"});
  refused(R"({"o": [1]})", [](C& c) { c.objects("o").at(0).integer("q"); },
          {"key o[0]: expected an object, found 1"});
  refused("[]", [](C& c) { c.integer("n"); }, {"expected a JSON object, found an array of 0"});
}

TEST(ConfigReader, ListsTenProblemsAndTheCountOnce) {
  const auto document = parse("{}");
  ConfigReader c(*document);
  for (int i = 0; i < 14; ++i) c.integer("key" + std::to_string(i));
  c.integer("key0");
  c.object("inner").integer("not reported: inner itself is missing");
  const Status status = c.finish();
  expect_refused(status, ErrorCode::kInvalidInput, {"has 15 problems", "key key9:", "and 5 more"});
  EXPECT_EQ(status.error().message.find("key10"), std::string::npos);
  EXPECT_EQ(status.error().message.find("not reported"), std::string::npos);
}

TEST(WriteJson, WritesAReadableDocumentWhole) {
  const test::ScratchDir dir;
  nlohmann::ordered_json document;
  document["z"] = 1;
  document["a"] = {"é", "\xff"};
  ASSERT_TRUE(write_json(dir / "a.json", document));
  EXPECT_EQ(slurp(dir / "a.json"), "{\n  \"z\": 1,\n  \"a\": [\n    \"é\",\n    \"\xef\xbf\xbd\"\n  ]\n}\n");
  EXPECT_TRUE(JsonDocument::read(dir / "a.json"));
  expect_refused(JsonDocument::read(dir / "b.json"), ErrorCode::kNotFound, {"b.json"});
}

}  // namespace
}  // namespace dif::io

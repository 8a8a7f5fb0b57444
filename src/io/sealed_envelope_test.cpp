#include "io/sealed_envelope.h"

#include <gtest/gtest.h>

#include <cstring>

#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

std::vector<std::byte> example() {
  return seal(kProgramKind, 3, as_bytes("the payload"));
}

Result<SealedPayload> open(std::span<const std::byte> file) {
  return open_sealed(file, "a.difir", kProgramKind, {2, 3});
}

TEST(SealedEnvelope, OpensWhatWasSealed) {
  const auto sealed = open(example());
  ASSERT_TRUE(sealed) << sealed.error().message;
  EXPECT_EQ(sealed->version, 3U);
  EXPECT_EQ(sealed->payload, as_bytes("the payload"));
  EXPECT_TRUE(open_sealed(seal("WXYZ", 1, {}), "x", "WXYZ", {1})->payload.empty());
}

TEST(SealedEnvelope, LayoutIsAsDocumented) {
  const auto file = example();
  ASSERT_EQ(file.size(), kEnvelopeHeaderBytes + 11);
  EXPECT_EQ(std::memcmp(file.data(),
                        "\x89"
                        "DIF\r\n\x1a\nPROG\3\0\0\0\13\0\0\0\0\0\0\0",
                        24),
            0);
  EXPECT_EQ(std::memcmp(file.data() + 56, "the payload", 11), 0);
}

TEST(SealedEnvelope, RefusesEveryChangeOfAByte) {
  const auto good = example();
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      auto bad = good;
      bad[at] = static_cast<std::byte>(value);
      EXPECT_EQ(open(bad).has_value(), bad == good) << at << " " << value;
    }
  }
}

TEST(SealedEnvelope, RefusesEveryTruncationAndAnyTail) {
  const auto good = example();
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
    expect_refused(open(std::span(good).first(bytes)), ErrorCode::kInvalidInput, {"a.difir is truncated"});
  for (std::size_t extra = 1; extra < 70; ++extra) {
    auto longer = good;
    longer.resize(good.size() + extra);
    expect_refused(open(longer), ErrorCode::kInvalidInput,
                   {std::to_string(extra) + " bytes after its content"});
  }
}

TEST(SealedEnvelope, NamesWhatItFound) {
  expect_refused(open(as_bytes("hello")), ErrorCode::kInvalidInput, {"a.difir is not a program (.difir)"});
  expect_refused(open(seal(kPlanKind, 3, {})), ErrorCode::kInvalidInput,
                 {"a.difir is a plan (.difplan), expected a program (.difir)"});
  expect_refused(open(seal("\x1b[2J", 3, {})), ErrorCode::kInvalidInput, {"kind \"\\x1b[2J\""});
  expect_refused(open(seal(kProgramKind, 4, {})), ErrorCode::kInvalidInput,
                 {"version 4, this program reads 2, 3"});
  auto damaged = example();
  damaged.back() ^= std::byte{1};
  expect_refused(open(damaged), ErrorCode::kInvalidInput, {"damaged", "SHA-256"});
}

TEST(SealedEnvelope, ReadsFiles) {
  const test::ScratchDir dir;
  spit(dir / "a.difir", example());
  EXPECT_TRUE(open_sealed_file(dir / "a.difir", kProgramKind, {3}));
  expect_refused(open_sealed_file(dir / "a.difir", kProgramKind, {3}, 20), ErrorCode::kInvalidInput,
                 {"longer than 20"});
  expect_refused(open_sealed_file(dir / "b.difir", kProgramKind, {3}), ErrorCode::kNotFound, {"b.difir"});
}

}  // namespace
}  // namespace dif::io

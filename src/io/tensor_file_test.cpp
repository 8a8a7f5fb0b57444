#include "io/tensor_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "io/safetensors.h"
#include "io/test_files.h"
#include "tests/support/paths.h"

namespace dif::io {
namespace {

const std::vector<float> kValues = {1, -2, 0.5F, 1e30F, -0.0F, 7};

std::vector<std::byte> example(const test::ScratchDir& dir) {
  EXPECT_TRUE(write_tensor_file(dir / "a.diftensor", HostTensor::f32(Shape{2, 3}, kValues)));
  return as_bytes(slurp(dir / "a.diftensor"));
}

/// Puts `value` at `at` and a matching digest at the end, so that only the meaning is wrong.
template <class T>
std::vector<std::byte> resealed(std::vector<std::byte> file, std::size_t at, T value) {
  std::memcpy(file.data() + at, &value, sizeof value);
  const Digest digest = sha256(std::span(file).first(file.size() - 32));
  std::memcpy(file.data() + file.size() - 32, digest.data(), 32);
  return file;
}

TEST(TensorFile, ReadsWhatWasWritten) {
  const test::ScratchDir dir;
  example(dir);
  const auto tensor = read_tensor_file(dir / "a.diftensor");
  ASSERT_TRUE(tensor) << tensor.error().message;
  EXPECT_EQ(tensor->shape, (Shape{2, 3}));
  EXPECT_EQ(std::memcmp(tensor->data.data(), kValues.data(), 24), 0);
  const auto mapped = map_tensor_file(dir / "a.diftensor");
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->tensor.bytes, 24U);
  EXPECT_EQ(mapped->tensor.file_offset, 32U);
  EXPECT_EQ(std::memcmp(mapped->tensor.data, kValues.data(), 24), 0);
}

TEST(TensorFile, KeepsEveryDTypeScalarsAndEmptyTensors) {
  const test::ScratchDir dir;
  for (int number = 0; number < kDTypeCount; ++number) {
    for (const Shape& shape : {Shape{}, Shape{0, 4}, Shape{1, 1, 1, 1, 1, 1, 1, 2}}) {
      HostTensor tensor(static_cast<DType>(number), shape);
      for (std::byte& byte : tensor.data) byte = std::byte{1};
      ASSERT_TRUE(write_tensor_file(dir / "t", tensor));
      const auto again = read_tensor_file(dir / "t");
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(again->dtype, tensor.dtype);
      EXPECT_EQ(again->shape, shape);
      EXPECT_EQ(again->data, tensor.data);
    }
  }
}

TEST(TensorFile, RefusesEveryChangeOfAByteAndEveryLength) {
  const test::ScratchDir dir;
  const auto good = example(dir);
  ASSERT_TRUE(parse_tensor_file(good, "t"));
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      auto bad = good;
      bad[at] = static_cast<std::byte>(value);
      EXPECT_EQ(parse_tensor_file(bad, "t").has_value(), bad == good) << at << " " << value;
    }
  }
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
    expect_refused(parse_tensor_file(std::span(good).first(bytes), "t"), ErrorCode::kInvalidInput,
                   {"t is truncated"});
  auto longer = good;
  longer.resize(good.size() + 1);
  expect_refused(parse_tensor_file(longer, "t"), ErrorCode::kInvalidInput, {"1 bytes too many"});
}

TEST(TensorFile, RefusesAWrongHeaderUnderARightDigest) {
  const test::ScratchDir dir;
  const auto good = example(dir);
  const auto refused = [](const std::vector<std::byte>& file, const std::string& part) {
    expect_refused(parse_tensor_file(file, "t"), ErrorCode::kInvalidInput, {part});
  };
  refused(resealed<std::uint32_t>(good, 8, 2), "version 2");
  refused(resealed<std::uint8_t>(good, 12, 15), "dtype number 15");
  refused(resealed<std::uint8_t>(good, 13, 9), "rank 9");
  refused(resealed<std::uint16_t>(good, 14, 1), "bytes 14 and 15");
  refused(resealed<std::int64_t>(good, 16, -2), "negative");
  refused(resealed<std::int64_t>(good, 16, INT64_MAX), "too large");
  refused(resealed<std::int64_t>(good, 16, INT64_MAX / 3), "too large");
  refused(resealed<std::int64_t>(good, 16, 1), "too many");
  refused(resealed<std::int64_t>(good, 16, 3), "truncated");
  const HostTensor flags(DType::kBool, Shape{4});
  ASSERT_TRUE(write_tensor_file(dir / "flags", flags));
  refused(resealed<std::uint8_t>(as_bytes(slurp(dir / "flags")), 24, 2), "bool other than 0 and 1");
}

TEST(TensorFile, WritesOnlyWhatItReads) {
  const test::ScratchDir dir;
  const std::vector<std::byte> bytes(4, std::byte{2});
  expect_refused(write_tensor_file(dir / "t", DType::kF32, Shape{2}, bytes), ErrorCode::kInvalidInput,
                 {"do not fit"});
  expect_refused(write_tensor_file(dir / "t", DType::kF32, Shape{-1}, bytes), ErrorCode::kInvalidInput,
                 {"do not fit"});
  expect_refused(write_tensor_file(dir / "t", DType::kBool, Shape{4}, bytes), ErrorCode::kInvalidInput,
                 {"bool"});
  EXPECT_TRUE(names_in(dir.path()).empty());
}

TEST(TensorOperand, NamesATensorOfAnyFile) {
  const test::ScratchDir dir;
  example(dir);
  ASSERT_TRUE(write_safetensors(dir / "s.safetensors",
                                {{"x::y", DType::kF32, Shape{6}, std::as_bytes(std::span(kValues))},
                                 {"z", DType::kF32, Shape{6}, std::as_bytes(std::span(kValues))}}));
  spit(dir / "s.safetensors.index.json",
       R"({"weight_map": {"x::y": "s.safetensors", "z": "s.safetensors"}})");
  const std::string folder = dir.path().native() + "/";
  for (const std::string& operand : {folder + "a.diftensor", folder + "s.safetensors::x::y",
                                     folder + "s.safetensors::z", folder + "s.safetensors.index.json::z"}) {
    const auto tensor = read_tensor_operand(operand);
    ASSERT_TRUE(tensor) << tensor.error().message;
    EXPECT_EQ(tensor->to_f32(), kValues);
  }
  expect_refused(read_tensor_operand(folder + "s.safetensors"), ErrorCode::kInvalidInput,
                 {"s.safetensors::NAME"});
  expect_refused(read_tensor_operand(folder + "s.safetensors::q"), ErrorCode::kNotFound, {"no tensor \"q\""});
  expect_refused(read_tensor_operand(folder + "b.diftensor"), ErrorCode::kNotFound, {"b.diftensor"});
  expect_refused(read_tensor_operand("a.bin::x"), ErrorCode::kInvalidInput, {"expected FILE.diftensor"});
  expect_refused(read_tensor_operand(folder + "s.safetensors.index.json"), ErrorCode::kInvalidInput,
                 {"::NAME"});
}

TEST(TensorCopy, FailsWhenTheFileShrank) {
  const test::ScratchDir dir;
  example(dir);
  const auto mapped = map_tensor_file(dir / "a.diftensor");
  ASSERT_TRUE(mapped);
  ASSERT_EQ(::truncate((dir / "a.diftensor").c_str(), 10), 0);
  expect_refused(copy_tensor(mapped->tensor), ErrorCode::kIo, {"shrank"});
}

template <class T>
std::vector<float> as_f32(DType dtype, std::vector<T> values) {
  return HostTensor::from<T>(dtype, Shape{static_cast<std::int64_t>(values.size())}, values).to_f32();
}

TEST(HostTensor, EveryDTypeConvertsToF32) {
  using Floats = std::vector<float>;
  EXPECT_EQ(as_f32<double>(DType::kF64, {0.1, -2}), (Floats{0.1F, -2}));
  EXPECT_EQ(as_f32<std::int8_t>(DType::kI8, {-128, 127}), (Floats{-128, 127}));
  EXPECT_EQ(as_f32<std::uint8_t>(DType::kU8, {0, 255}), (Floats{0, 255}));
  EXPECT_EQ(as_f32<std::int16_t>(DType::kI16, {-32768}), Floats{-32768});
  EXPECT_EQ(as_f32<std::uint16_t>(DType::kU16, {65535}), Floats{65535});
  EXPECT_EQ(as_f32<std::int32_t>(DType::kI32, {16777217}), Floats{16777216});
  EXPECT_EQ(as_f32<std::uint32_t>(DType::kU32, {4294967295U}), Floats{4294967296.0F});
  EXPECT_EQ(as_f32<std::int64_t>(DType::kI64, {-5}), Floats{-5});
  EXPECT_EQ(as_f32<std::uint64_t>(DType::kU64, {1ULL << 63}), Floats{0x1p63F});
  EXPECT_EQ(as_f32<std::uint8_t>(DType::kBool, {0, 1}), (Floats{0, 1}));
  EXPECT_EQ(as_f32<std::uint16_t>(DType::kBF16, {0x3f80, 0xc000}), (Floats{1, -2}));
  EXPECT_EQ(as_f32<std::uint16_t>(DType::kF16, {0x3c00, 0x0001, 0xfbff}), (Floats{1, 0x1p-24F, -65504}));
}

TEST(HostTensor, EightBitFloatsFollowTheirPaper) {
  using Floats = std::vector<float>;
  // One, the largest, the smallest normal, the largest and smallest subnormal, and a negative zero.
  EXPECT_EQ(as_f32<std::uint8_t>(DType::kF8E4M3, {0x38, 0x7e, 0x08, 0x07, 0x01}),
            (Floats{1, 448, 0x1p-6F, 0.875F * 0x1p-6F, 0x1p-9F}));
  EXPECT_EQ(as_f32<std::uint8_t>(DType::kF8E5M2, {0x3c, 0x7b, 0x04, 0x03, 0x01}),
            (Floats{1, 57344, 0x1p-14F, 0.75F * 0x1p-14F, 0x1p-16F}));
  EXPECT_TRUE(std::signbit(as_f32<std::uint8_t>(DType::kF8E4M3, {0x80})[0]));
  EXPECT_TRUE(std::isnan(as_f32<std::uint8_t>(DType::kF8E4M3, {0x7f})[0]));
  EXPECT_TRUE(std::isnan(as_f32<std::uint8_t>(DType::kF8E4M3, {0xff})[0]));
  EXPECT_EQ(as_f32<std::uint8_t>(DType::kF8E5M2, {0xfc})[0], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(as_f32<std::uint8_t>(DType::kF8E5M2, {0x7d})[0]));
}

TEST(HostTensor, ConvertsBetweenFloatingTypes) {
  const HostTensor tensor = HostTensor::f32(Shape{3}, std::vector<float>{1, 3.14159F, -65504});
  const auto half = convert(tensor, DType::kF16);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->as<std::uint16_t>()[1], 0x4248);
  EXPECT_EQ(half->to_f32()[2], -65504);
  EXPECT_EQ(convert(tensor, DType::kBF16)->as<std::uint16_t>()[1], 0x4049);
  EXPECT_EQ(convert(tensor, DType::kF64)->as<double>()[1], static_cast<double>(3.14159F));
  EXPECT_EQ(convert(*half, DType::kF32)->to_f32(), half->to_f32());
  expect_refused(convert(tensor, DType::kI8), ErrorCode::kInvalidInput, {"cannot convert f32 to i8"});
}

}  // namespace
}  // namespace dif::io

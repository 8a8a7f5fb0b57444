#include "pipelines/slab_decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "io/host_tensor.h"
#include "ir/builder.h"
#include "ops/add/add.op.h"
#include "ops/cast/cast.op.h"
#include "ops/conv2d/conv2d.op.h"
#include "ops/group_norm/group_norm.op.h"
#include "ops/reshape/reshape.op.h"
#include "ops/silu/silu.op.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "opt/pipeline.h"
#include "pipelines/host_image.h"
#include "runtime/backend_library.h"

namespace dif {
namespace {

constexpr std::int64_t kHeight = 7, kWidth = 5, kLatentChannels = 2;

/// A decoder in small: a resnet with a shortcut, an upsampling, a resnet, a norm, three colours.
class DecoderText {
 public:
  explicit DecoderText(DType dtype) : dtype_(dtype), b_("decode") {}

  ir::Program build() {
    const ir::Value tokens = b_.input("latents", {DType::kF32, {1, kHeight * kWidth, kLatentChannels}});
    ir::Value x = ops::reshape(b_, tokens, {1, kLatentChannels, kHeight, kWidth});
    if (dtype_ != DType::kF32) x = ops::cast(b_, x, dtype_);
    x = convolution(x, 8, 3);
    x = resnet(x, 12);
    x = convolution(ops::upsample_nearest(b_, x, 2), 12, 3);
    x = resnet(x, 8);
    x = convolution(norm(x), 3, 3);
    b_.output("image", dtype_ == DType::kF32 ? x : ops::cast(b_, x, DType::kF32));
    auto program = b_.finish();
    if (!program) throw std::runtime_error(program.error().message);
    return std::move(*program);
  }

 private:
  ir::Value constant(const Shape& shape) {
    return b_.constant("c" + std::to_string(n_constants_++), {dtype_, shape});
  }
  ir::Value convolution(ir::Value x, std::int64_t channels, std::int64_t kernel) {
    const std::int64_t pad = kernel / 2;
    return ops::conv2d(b_, x, constant({channels, x.dim(1), kernel, kernel}), constant({channels}),
                       {.pads = {pad, pad, pad, pad}});
  }
  ir::Value norm(ir::Value x) {
    return ops::silu(b_, ops::group_norm(b_, x, constant({x.dim(1)}), constant({x.dim(1)}), 4, 1e-6f));
  }
  ir::Value resnet(ir::Value x, std::int64_t channels) {
    const ir::Value h = convolution(norm(convolution(norm(x), channels, 3)), channels, 3);
    return ops::add(b_, convolution(x, channels, 1), h);
  }

  DType dtype_;
  ir::Builder b_;
  int n_constants_ = 0;
};

/// Numbers that look random: of about [-1, 1].
std::vector<float> numbers(std::int64_t n, double start) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<float>(
        std::sin(start + 12.9898 * static_cast<double>(i) * (1 + 0.01 * static_cast<double>(i % 7)))));
  return values;
}

class Slabs : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  void SetUp() override {
    const auto [dtype, channels_last] = GetParam();
    program_ = DecoderText(dtype).build();
    if (channels_last) {
      const auto passes = opt::run(program_, opt::default_pipeline({.channels_last = true}));
      ASSERT_TRUE(passes) << passes.error().message;
    }
    auto library = runtime::BackendLibrary::load_by_name("reference");
    ASSERT_TRUE(library) << library.error().message;
    auto context = runtime::Context::create(*library, {});
    ASSERT_TRUE(context) << context.error().message;
    context_ = *context;
  }

  /// A constant has its numbers by its name.
  PrepareProgram prepare() {
    return [this](const ir::Program& program) -> Result<std::unique_ptr<runtime::PreparedProgram>> {
      std::vector<runtime::ConstantBinding> constants;
      for (const ir::ValueId id : program.constants) {
        const ir::ValueInfo& info = program.values[id];
        if (weights_.count(info.name) == 0) {
          const double start = std::stod(info.name.substr(1));
          auto values = io::convert(io::HostTensor::f32(info.type.shape, numbers(info.type.numel(), start)),
                                    info.type.dtype);
          if (!values) return tl::unexpected<Error>(std::move(values.error()));
          weights_[info.name] = std::move(*values);
        }
        constants.push_back({weights_[info.name].data.data(), info.type.bytes()});
      }
      ++n_prepared_;
      return runtime::PreparedProgram::prepare(context_, program, constants);
    };
  }

  std::vector<float> image_of(Decoder& decoder) {
    std::vector<float> latents = numbers(kHeight * kWidth * kLatentChannels, 3),
                       image(3 * 4 * kHeight * kWidth);
    const Status status = decoder.run(std::as_writable_bytes(std::span(latents)), image, false);
    EXPECT_TRUE(status) << status.error().message;
    return image;
  }

  ir::Program program_;
  std::shared_ptr<runtime::Context> context_;
  std::map<std::string, io::HostTensor> weights_;
  int n_prepared_ = 0;
};

double relative_l2(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

TEST_P(Slabs, GiveThePictureOfTheWholeDecode) {
  auto whole = make_whole_decoder(program_, "", prepare());
  ASSERT_TRUE(whole) << whole.error().message;
  const std::vector<float> expected = image_of(**whole);
  // Seen: f32 1.1e-7, bf16 0 (equal bits). A halo that lacks a row, or a norm of a slab's own statistics, is
  // 1e-2 and more away.
  const double most = std::get<DType>(GetParam()) == DType::kF32 ? 5e-7 : 2e-3;
  for (const SlabLayout& layout :
       {SlabLayout{0, {1, 2, 3, 5, 14}}, SlabLayout{0, {7, 14, 14, 14, 14}}, SlabLayout{0, {5, 4, 1, 1, 1}},
        SlabLayout{2, {4, 13, 9}}, SlabLayout{4, {3}}}) {
    auto slabs = make_slab_decoder(program_, layout, "", prepare());
    ASSERT_TRUE(slabs) << slabs.error().message;
    EXPECT_EQ((*slabs)->parts().size(), layout.rows.size() + 1);
    const auto planned = slab_bytes(program_, layout);
    ASSERT_TRUE(planned) << planned.error().message;
    EXPECT_EQ((*slabs)->host_image_bytes(), planned->images);
    const std::vector<float> image = image_of(**slabs);
    EXPECT_LT(relative_l2(image, expected), most) << "from stage " << layout.first_stage;
    EXPECT_EQ(image_of(**slabs), image) << "a second picture";
  }
}

TEST_P(Slabs, TakeTheMemoryTheyAreGiven) {
  std::uint64_t last = UINT64_MAX;
  std::size_t last_stage = SIZE_MAX;
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 40, std::uint64_t{20000}, std::uint64_t{6000}, std::uint64_t{0}}) {
    const auto layout = choose_slabs(program_, bytes);
    ASSERT_TRUE(layout) << layout.error().message;
    EXPECT_LE(layout->first_stage, last_stage);
    last_stage = layout->first_stage;
    auto slabs = make_slab_decoder(program_, *layout, "", prepare());
    ASSERT_TRUE(slabs) << slabs.error().message;
    const std::uint64_t arena = memory_of((*slabs)->parts()).arena_bytes;
    if (bytes != 0) {
      EXPECT_LE(arena, bytes);
    }
    EXPECT_LE(arena, last);
    last = arena;
  }
  EXPECT_EQ(last_stage, 0U);
}

TEST_P(Slabs, GrowSmallerUntilTheyArePrepared) {
  const PrepareProgram all = prepare();
  int refused = 0;
  std::uint64_t most = 0;
  const PrepareProgram small_only =
      [&](const ir::Program& program) -> Result<std::unique_ptr<runtime::PreparedProgram>> {
    DIF_ASSIGN(auto prepared, all(program));
    DIF_ASSIGN(const runtime::PreparedReport report, prepared->report());
    if (report.arena_bytes > most) {
      ++refused;
      return fail(ErrorCode::kOutOfMemory, "{} bytes are too many", report.arena_bytes);
    }
    return prepared;
  };
  most = 9000;
  auto slabs = make_slab_decoder(program_, std::uint64_t{1} << 30, "it does not fit", small_only);
  ASSERT_TRUE(slabs) << slabs.error().message;
  EXPECT_GT(refused, 0);
  EXPECT_EQ((*slabs)->reason(), "it does not fit");
  const auto again = make_slab_decoder(program_, (*slabs)->slab_bytes(), "", all);
  ASSERT_TRUE(again) << again.error().message;
  const auto rows_of = [](const Decoder& decoder) {
    std::vector<std::int64_t> rows;
    for (const DecodePart& part : decoder.parts()) rows.push_back(part.rows);
    return rows;
  };
  EXPECT_EQ(rows_of(**again), rows_of(**slabs)) << "what they were made for gives them again";
  most = 100;
  slabs = make_slab_decoder(program_, std::uint64_t{1} << 30, "", small_only);
  ASSERT_FALSE(slabs);
  EXPECT_EQ(slabs.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(slabs.error().message.find("slabs of the fewest rows"), std::string::npos)
      << slabs.error().message;
}

TEST_P(Slabs, NameTheModuleWhoseNormMeetsWhatIsNotFinite) {
  for (std::string& module : program_.provenance.op_modules) module = "vae.somewhere";
  auto slabs = make_slab_decoder(program_, SlabLayout{0, {1, 2, 3, 5, 14}}, "", prepare());
  ASSERT_TRUE(slabs) << slabs.error().message;
  std::vector<float> latents(kHeight * kWidth * kLatentChannels), image(3 * 4 * kHeight * kWidth);
  latents[3] = NAN;
  const auto bytes = std::as_writable_bytes(std::span(latents));
  const Status status = (*slabs)->run(bytes, image, false);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNonFinite);
  EXPECT_NE(status.error().message.find("module vae.somewhere"), std::string::npos) << status.error().message;
  EXPECT_TRUE((*slabs)->run(bytes, image, true));
}

TEST_P(Slabs, FindTheFirstOperationWhoseResultIsNotFinite) {
  std::vector<ir::OpId> convolutions;
  for (ir::OpId op = 0; op < program_.ops.size(); ++op) {
    program_.provenance.op_modules[op] = fmt::format("vae.operation_{}", op);
    if (program_.ops[op].def == &ops::kConv2d) convolutions.push_back(op);
  }
  const SlabLayout layout = {1, {2, 3, 5, 14}};
  ASSERT_TRUE(make_slab_decoder(program_, layout, "", prepare()));  // the weights are there now
  for (const ir::OpId op : {convolutions.front(), convolutions[4], convolutions.back()}) {
    ir::ValueId weight = program_.ops[op].operands[1];
    while (program_.values[weight].kind != ir::ValueKind::kConstant)
      weight = program_.ops[program_.values[weight].producer].operands[0];
    io::HostTensor& poisoned = weights_.at(program_.values[weight].name);
    const io::HostTensor kept = poisoned;
    auto nans = io::convert(
        io::HostTensor::f32(kept.shape, std::vector<float>(static_cast<std::size_t>(kept.numel()), NAN)),
        kept.dtype);
    ASSERT_TRUE(nans) << nans.error().message;
    poisoned = *nans;
    auto slabs = make_slab_decoder(program_, layout, "", prepare());
    ASSERT_TRUE(slabs) << slabs.error().message;
    std::vector<float> latents = numbers(kHeight * kWidth * kLatentChannels, 3),
                       image(3 * 4 * kHeight * kWidth);
    const Status status = (*slabs)->find_nonfinite(std::as_writable_bytes(std::span(latents)), image);
    ASSERT_FALSE(status) << op;
    EXPECT_EQ(status.error().code, ErrorCode::kNonFinite);
    EXPECT_TRUE(status.error().message.ends_with(fmt::format(", module vae.operation_{}", op)))
        << status.error().message;
    EXPECT_NE(status.error().message.find("(conv2d)"), std::string::npos) << status.error().message;
    poisoned = kept;
  }
}

TEST_P(Slabs, SayWhichProgramRuns) {
  auto slabs = make_slab_decoder(program_, SlabLayout{3, {4, 13}}, "", prepare());
  ASSERT_TRUE(slabs) << slabs.error().message;
  std::vector<std::string> ran;
  (*slabs)->set_observer([&](const ir::Program& part) {
    if (ran.empty() || ran.back() != part.name) ran.push_back(part.name);
  });
  image_of(**slabs);
  EXPECT_EQ(ran, (std::vector<std::string>{"decode", "decode.3", "decode.4"}));
}

INSTANTIATE_TEST_SUITE_P(OfBothLayouts, Slabs,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBF16), ::testing::Bool()));

TEST(GroupSums, HaveTheSameBitsHoweverManyRowsComeAtATime) {
  for (const int row_axis : {1, 2}) {
    ImageMemory memory;
    HostImage image({DType::kF32, row_axis == 1 ? Shape{1, 9, 21, 12} : Shape{1, 12, 9, 21}}, row_axis,
                    row_axis == 1 ? 2 : 0, memory);
    const std::vector<float> values = numbers(9 * 21 * 12, 1);
    std::ranges::copy(std::as_bytes(std::span(values)), image.bytes().begin());
    const auto statistics = [&](const std::vector<opt::Rows>& parts) {
      GroupSums sums(image, 4);
      for (const opt::Rows& rows : parts) sums.add(image, rows);
      std::vector<float> mean(12), scale(12);
      sums.finish(1e-6f, mean, scale);
      mean.insert(mean.end(), scale.begin(), scale.end());
      return mean;
    };
    EXPECT_EQ(statistics({{0, 9}}), statistics({{0, 2}, {2, 3}, {3, 9}}));
    double mean = 0;  // of the last group
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t channel = row_axis == 1 ? i % 12 : i / (9 * 21);
      if (channel >= 9) mean += static_cast<double>(values[i]) / (3 * 9 * 21);
    }
    EXPECT_FLOAT_EQ(statistics({{0, 9}})[11], static_cast<float>(mean));
  }
}

TEST(ImageMemory, ComesAgainWhereItIsLargeEnough) {
  ImageMemory memory;
  const std::byte* first = nullptr;
  {
    const HostImage image({DType::kF32, {1, 8, 8, 8}}, 1, 0, memory);
    HostImage other({DType::kF32, {1, 8, 8, 4}}, 1, 0, memory);
    first = other.bytes().data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
  }
  HostImage small({DType::kF32, {1, 8, 8, 3}}, 1, 0, memory);
  EXPECT_EQ(small.bytes().data(), first) << "the smallest that is large enough";
  HostImage large({DType::kF32, {1, 1024, 1024, 1}}, 1, 0, memory);
  std::ranges::fill(large.bytes(), std::byte{1});
}

TEST(HostImage, HasZerosAroundItsRowsWhereSlabsReadBeyondThem) {
  ImageMemory memory;
  const ir::TensorType type = {DType::kF32, {1, 3, 2, 2}};
  for (int i = 0; i < 2; ++i) {  // the second in the memory of the first
    HostImage image(type, 1, 2, memory);
    std::ranges::fill(image.bytes(), std::byte{1});
    const std::span<std::byte> rows = image.where({-2, 5});
    ASSERT_EQ(rows.size(), 7 * 16U);
    for (std::size_t byte = 0; byte < rows.size(); ++byte)
      ASSERT_EQ(rows[byte], std::byte{byte / 16 >= 2 && byte / 16 < 5}) << byte;
    EXPECT_EQ(rows.data() + 32, image.bytes().data());
    EXPECT_TRUE(image.where({-3, 5}).empty());
    EXPECT_TRUE(image.where({0, 6}).empty());
    std::ranges::fill(rows, std::byte{7});
  }
  EXPECT_EQ(HostImage::bytes_with_margin(type, 1, 2), 7 * 16U);
  EXPECT_EQ(HostImage::bytes_with_margin(type, 2, 2), 3 * 16U) << "its rows lie apart";
}

TEST(MemoryOfParts, AddsUpTheSecondsOfPreparing) {
  std::vector<DecodePart> parts(2);
  parts[0].memory.details = R"({"planner": "p", "prepare": {"seconds": 1, "kernel_seconds": {"a": 2}}})";
  parts[1].memory.details =
      R"({"planner": "p", "prepare": {"seconds": 4, "kernel_seconds": {"a": 8, "b": 16}}})";
  EXPECT_EQ(
      nlohmann::json::parse(memory_of(parts).details),
      nlohmann::json::parse(
          R"({"planner": "p", "prepare": {"seconds": 5.0, "kernel_seconds": {"a": 10.0, "b": 16.0}}})"));
  parts[1].memory.details = "";
  EXPECT_EQ(nlohmann::json::parse(memory_of(parts).details)["prepare"]["seconds"], 1.0);
}

}  // namespace
}  // namespace dif

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>

#include "frontends/flux2/synthetic_model_test_support.h"
#include "frontends/model.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "ir/verifier.h"
#include "tests/support/paths.h"

namespace dif::frontends::flux2 {
namespace {

using ir::TensorType;

/// Opens the model once; the folder may go, the files stay mapped.
std::unique_ptr<Model> synthetic(const test::Sizes& sizes) {
  const dif::test::ScratchDir dir;
  test::SyntheticModel(sizes).write(dir.path());
  auto model = open_model(dir.path());
  if (!model) throw std::runtime_error(model.error().message);
  return std::move(*model);
}

const Model& bundled() {
  static const std::unique_ptr<Model> model = open_model(dif::test::model_dir()).value();
  return *model;
}
const Model& klein_9b() {
  static const std::unique_ptr<Model> model = synthetic(test::klein_9b_sizes());
  return *model;
}
const Model& klein_4b() {
  static const std::unique_ptr<Model> model = synthetic(test::klein_4b_sizes());
  return *model;
}

Chain built(const Model& model, const ChainRequest& request) {
  auto chain = model.build(request);
  if (!chain) throw std::runtime_error(chain.error().message);
  return std::move(*chain);
}

using Signature = std::vector<std::pair<std::string, TensorType>>;

Signature inputs(const ir::Program& program) {
  Signature list;
  for (const ir::ValueId id : program.inputs) list.emplace_back(program.values[id].name, program.type(id));
  return list;
}

Signature outputs(const ir::Program& program) {
  Signature list;
  for (const ir::Output& output : program.outputs) list.emplace_back(output.name, program.type(output.value));
  return list;
}

/// Elements of the constants that come from the checkpoint.
std::int64_t parameters(const Stage& stage) {
  std::int64_t total = 0;
  for (const ir::ValueId id : stage.program.constants) {
    const ConstantRef* ref = stage.constants.find(stage.program.values[id].name);
    if (ref != nullptr && !stage.constants.is_generated(stage.program.values[id].name))
      total += ref->type.numel();
  }
  return total;
}

double flops_of(const ir::Program& program, const std::set<std::string_view>& names) {
  double total = 0;
  for (ir::OpId id = 0; id < program.ops.size(); ++id)
    if (names.contains(program.ops[id].def->name)) total += ir::flops(program.view(id));
  return total;
}

double matrix_flops(const ir::Program& program) {
  return flops_of(program, {"linear", "attention", "conv2d"});
}

constexpr ChainRequest kBundledRequest{.width = 128, .height = 128, .steps = 20, .guidance = 4.0f};
constexpr ChainRequest kHeadline{
    .width = 1024, .height = 1024, .steps = 50, .guidance = 4.0f, .dtype = DType::kBF16};

TEST(Flux2Programs, HaveThePromisedInputsAndOutputs) {
  const Chain chain = built(bundled(), kBundledRequest);
  EXPECT_EQ(chain.latent_channels, 32);
  EXPECT_EQ(chain.latent_rows, 8);
  EXPECT_EQ(chain.latent_columns, 8);
  const TensorType prompt{DType::kF32, {1, 512, 192}}, latents{DType::kF32, {1, 64, 32}};
  EXPECT_EQ(inputs(chain.encode.program), (Signature{{"input_ids", {DType::kI32, {1, 512}}},
                                                     {"attention_mask", {DType::kBool, {1, 512}}}}));
  EXPECT_EQ(outputs(chain.encode.program), (Signature{{"prompt_embeds", prompt}}));
  EXPECT_EQ(inputs(chain.step.program), (Signature{{"latents", latents},
                                                   {"prompt_embeds", prompt},
                                                   {"negative_prompt_embeds", prompt},
                                                   {"step", {DType::kI32, {1}}}}));
  EXPECT_EQ(outputs(chain.step.program), (Signature{{"latents", latents}}));
  EXPECT_EQ(inputs(chain.decode.program), (Signature{{"latents", latents}}));
  EXPECT_EQ(outputs(chain.decode.program), (Signature{{"image", {DType::kF32, {1, 3, 128, 128}}}}));
}

TEST(Flux2Programs, WithoutGuidanceThereIsOnePrompt) {
  const Chain chain = built(bundled(), {.width = 64, .height = 192, .steps = 4, .text_tokens = 7});
  const TensorType prompt{DType::kF32, {1, 7, 192}}, latents{DType::kF32, {1, 48, 32}};
  EXPECT_EQ(inputs(chain.step.program),
            (Signature{{"latents", latents}, {"prompt_embeds", prompt}, {"step", {DType::kI32, {1}}}}));
  EXPECT_EQ(chain.latent_rows, 12);
  EXPECT_EQ(chain.latent_columns, 4);
}

TEST(Flux2Programs, VerifyInBothDtypesAtEverySize) {
  for (const Model* model : {&bundled(), &klein_4b(), &klein_9b()})
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Chain chain = built(
          *model,
          {.width = 1024, .height = 768, .steps = 50, .guidance = 4.0f, .dtype = dtype, .vae_dtype = dtype});
      for (const Stage* stage : {&chain.encode, &chain.step, &chain.decode}) {
        const Status status = ir::verify(stage->program);
        EXPECT_TRUE(status) << status.error().message;
        EXPECT_EQ(stage->program.provenance.op_modules.size(), stage->program.ops.size());
      }
      EXPECT_EQ(outputs(chain.encode.program).front().second.dtype, dtype);
      EXPECT_EQ(outputs(chain.step.program).front().second.dtype, DType::kF32);
      EXPECT_EQ(outputs(chain.decode.program).front().second, (TensorType{DType::kF32, {1, 3, 768, 1024}}));
    }
}

TEST(Flux2Programs, ScheduleTablesAreLeftToThePipeline) {
  const Chain chain = built(bundled(), kBundledRequest);
  ConstantSet constants = chain.step.constants;
  EXPECT_FALSE(constants.bind(chain.step.program));
  constants.add_table("schedule.model_time", {20}, std::vector<float>(20));
  EXPECT_FALSE(constants.bind(chain.step.program));
  constants.add_table("schedule.delta_sigma", {20, 1}, std::vector<float>(20));
  const auto bound = constants.bind(chain.step.program);
  EXPECT_TRUE(bound) << bound.error().message;
  EXPECT_TRUE(chain.encode.constants.bind(chain.encode.program));
  EXPECT_TRUE(chain.decode.constants.bind(chain.decode.program));
}

TEST(Flux2Programs, ConstantsAreViewsOfTheCheckpoint) {
  const Chain chain = built(bundled(), kBundledRequest);
  const io::Checkpoint checkpoint = io::open_checkpoint(dif::test::model_dir() / "transformer").value();
  const ConstantRef* ref = chain.step.constants.find("x_embedder.weight");
  ASSERT_NE(ref, nullptr);
  const io::TensorRef* tensor = checkpoint.find("x_embedder.weight");
  EXPECT_EQ(ref->type, (TensorType{DType::kBF16, {192, 32}}));
  EXPECT_EQ(ref->file_offset, tensor->file_offset);
  ASSERT_NE(ref->file, nullptr);
  EXPECT_EQ(std::memcmp(ref->data, tensor->data, tensor->bytes), 0);
}

TEST(Flux2Programs, ParameterCountsAreThoseOfThePublishedModels) {
  const Chain chain = built(klein_9b(), kHeadline);
  EXPECT_EQ(parameters(chain.step), 9'078'581'248);
  EXPECT_EQ(parameters(chain.encode) - 622'329'856, 5'209'553'664);
  // 256 of them are the batch norm's.
  EXPECT_EQ(parameters(chain.decode) - 256, 49'620'259);
}

TEST(Flux2Programs, ParametersOfTheBundledModelAreAllUsed) {
  const Chain chain = built(bundled(), kBundledRequest);
  EXPECT_EQ(parameters(chain.step), 4'596'224);
}

TEST(Flux2Programs, WorkIsThatOfTheHeadlineWorkload) {
  ChainRequest request = kHeadline;
  request.guidance = std::nullopt;
  const Chain chain = built(klein_9b(), request);
  EXPECT_NEAR(matrix_flops(chain.step.program) / 1e12, 75.51, 0.005);
  EXPECT_NEAR(flops_of(chain.step.program, {"attention"}) / 1e12, 11.13, 0.005);
  EXPECT_NEAR(flops_of(chain.encode.program, {"linear"}) / 1e12, 5.33, 0.005);
  EXPECT_NEAR(flops_of(chain.encode.program, {"attention"}) / 1e12, 0.12, 0.005);
  EXPECT_NEAR(matrix_flops(chain.decode.program) / 1e12, 10.48, 0.005);
  // What is not a matrix product is little, and counted.
  EXPECT_GT(ir::flops(chain.step.program), matrix_flops(chain.step.program));
  EXPECT_LT(ir::flops(chain.step.program), 1.001 * matrix_flops(chain.step.program));
}

TEST(Flux2Programs, GuidanceDoublesTheWork) {
  ChainRequest request = kBundledRequest;
  const double guided = matrix_flops(built(bundled(), request).step.program);
  request.guidance = std::nullopt;
  const double single = matrix_flops(built(bundled(), request).step.program);
  EXPECT_NEAR(single / 1e9, 4.88, 0.005);
  // The time embedding and modulation are computed once for both.
  EXPECT_NEAR(guided / single, 2, 0.001);
}

TEST(Flux2Programs, WorkOfABundledPicture) {
  const Chain chain = built(bundled(), kBundledRequest);
  const double sampling = 20 * matrix_flops(chain.step.program) + 2 * matrix_flops(chain.encode.program);
  EXPECT_NEAR(sampling / 1e9, 205, 0.5);
  EXPECT_NEAR(matrix_flops(chain.decode.program) / 1e9, 3.72, 0.05);
}

TEST(Flux2Programs, RequestsOutsideTheBoundsAreRefused) {
  const std::pair<ChainRequest, const char*> cases[] = {
      {{.width = 100, .height = 128, .steps = 1},
       "width 100: expected a multiple of 16 from 16 to 8192 for this model"},
      {{.width = 128, .height = 0, .steps = 1}, "height 0: expected a multiple of 16"},
      {{.width = 128, .height = 1 << 20, .steps = 1}, "height 1048576: expected a multiple of 16"},
      {{.width = 128, .height = 128, .steps = 0}, "0 steps: expected 1 to 10000"},
      {{.width = 128, .height = 128, .steps = 1, .text_tokens = 0}, "0 text tokens: expected 1 to 40960"},
      {{.width = 128, .height = 128, .steps = 1, .guidance = -1.0f},
       "guidance -1: expected a number from 0 to 1000"},
      {{.width = 128, .height = 128, .steps = 1, .dtype = DType::kF16},
       "f16 arithmetic is not supported for FLUX.2"},
  };
  for (const auto& [request, sentence] : cases) {
    const auto chain = bundled().build(request);
    ASSERT_FALSE(chain) << sentence;
    EXPECT_EQ(chain.error().code, ErrorCode::kInvalidInput);
    EXPECT_TRUE(chain.error().message.starts_with(sentence)) << chain.error().message;
  }
}

/// The reference's module results that the fixtures hold, and where they are in our programs.
TEST(Flux2Programs, EveryRecordedBoundaryIsThereInItsShape) {
  const Chain chain = built(bundled(), {.width = 128, .height = 128, .steps = 1});
  std::map<std::string, TensorType> recorded;
  for (const Stage* stage : {&chain.encode, &chain.step, &chain.decode})
    for (const auto& boundary : stage->program.provenance.boundaries) {
      const bool first = recorded.emplace(boundary.name, stage->program.type(boundary.value)).second;
      EXPECT_TRUE(first) << boundary.name << " is recorded twice";
    }
  const io::JsonDocument document =
      io::JsonDocument::read(dif::test::fixture("emoji-klein/more.json")).value();
  const nlohmann::json& tensors = document.value()["boundaries"]["tensors"];
  EXPECT_GE(tensors.size(), 40u);
  for (const auto& [name, entry] : tensors.items()) {
    ASSERT_TRUE(recorded.contains(name)) << name;
    const auto shape = entry["full_shape"].get<std::vector<std::int64_t>>();
    EXPECT_EQ(recorded.at(name).shape, Shape(shape)) << name;
  }
}

TEST(Flux2Programs, OperationsKnowTheirModules) {
  const Chain chain = built(bundled(), kBundledRequest);
  const auto& modules = chain.step.program.provenance.op_modules;
  EXPECT_NE(std::find(modules.begin(), modules.end(), "transformer.transformer_blocks.1.attn.add_q_proj"),
            modules.end());
  EXPECT_EQ(chain.step.program.provenance.creator, "flux2-klein emoji-klein");
}

}  // namespace
}  // namespace dif::frontends::flux2

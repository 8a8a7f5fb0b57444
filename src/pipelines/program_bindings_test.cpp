#include "pipelines/program_bindings.h"

#include <gtest/gtest.h>

#include <cstring>

#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "ir/builder.h"
#include "ir/program_file.h"
#include "ops/add/add.op.h"
#include "ops/gather_rows/gather_rows.op.h"
#include "tests/support/paths.h"

namespace dif {
namespace {

/// x [2, 4] + table[ids], whose table is a constant.
ir::Program sample() {
  ir::Builder b("sample");
  const ir::Value x = b.input("x", {DType::kF32, {2, 4}});
  const ir::Value ids = b.input("ids", {DType::kI32, {2}});
  const ir::Value table = b.constant("table", {DType::kF32, {8, 4}});
  const ir::Value rows = ops::gather_rows(b, table, ids);
  b.boundary("embed", rows);
  b.output("y", ops::add(b, x, rows));
  auto program = b.finish();
  EXPECT_TRUE(program) << program.error().message;
  return std::move(*program);
}

template <class AnyResult>
void expect_refused(const AnyResult& result, const std::string& part) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

class Bindings : public testing::Test {
 protected:
  std::string write(const std::string& name, const io::HostTensor& tensor) {
    const std::string path = (scratch_ / name).string();
    EXPECT_TRUE(io::write_tensor_file(path, tensor));
    return path;
  }
  template <class T>
  std::string write_integers(const std::string& name, DType dtype, const std::vector<T>& values) {
    return write(name, io::HostTensor::from<T>(dtype, {static_cast<std::int64_t>(values.size())}, values));
  }

  test::ScratchDir scratch_;
  ir::Program program_ = sample();
  std::string x_ = write("x.diftensor", {DType::kF32, {2, 4}});
};

TEST(TensorArguments, AreSplitAtTheFirstEqualsSign) {
  const auto argument = parse_tensor_argument("--input", "x=a=b.safetensors::t");
  ASSERT_TRUE(argument);
  EXPECT_EQ(argument->id, "x");
  EXPECT_EQ(argument->file, "a=b.safetensors::t");
  for (const char* wrong : {"", "x", "=file", "x="})
    expect_refused(parse_tensor_argument("--input", wrong),
                   "--input " + std::string(wrong) + ": expected ID=FILE");
}

TEST_F(Bindings, ValuesAreFoundByNumberNameOutputAndBoundary) {
  EXPECT_EQ(find_value(program_, "x").value(), 0U);
  EXPECT_EQ(find_value(program_, "table").value(), 2U);
  EXPECT_EQ(find_value(program_, "embed").value(), 3U);
  EXPECT_EQ(find_value(program_, "y").value(), 4U);
  EXPECT_EQ(find_value(program_, "%3").value(), 3U);
  EXPECT_EQ(find_value(program_, "3").value(), 3U);
  expect_refused(find_value(program_, "5"), "no value %5; the last one is %4");
  expect_refused(find_value(program_, "z"), "named z");
  expect_refused(find_value(program_, "-1"), "named -1");
  expect_refused(find_value(program_, ""), "named");
  expect_refused(find_value(program_, "99999999999"), "named 99999999999");
}

TEST_F(Bindings, InputsAndOutputsGoByNameOrNumber) {
  EXPECT_EQ(find_input(program_, "ids").value(), 1U);
  EXPECT_EQ(find_input(program_, "1").value(), 1U);
  EXPECT_EQ(find_output(program_, "y").value(), 0U);
  EXPECT_EQ(find_output(program_, "4").value(), 0U);
  expect_refused(find_input(program_, "table"), "its inputs: x (%0) f32[2, 4], ids (%1) i32[2]");
  expect_refused(find_output(program_, "3"), "its outputs: y (%4) f32[2, 4]");
  expect_refused(find_output(program_, "3"), "difc expose-tensors");
}

TEST_F(Bindings, InputsComeInTheProgramsOrder) {
  const std::string ids = write_integers<std::int32_t>("ids.diftensor", DType::kI32, {5, 6});
  const auto tensors = read_inputs(program_, {{"ids", ids}, {"0", x_}});
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ((*tensors)[0].shape, (Shape{2, 4}));
  EXPECT_EQ((*tensors)[1].as<std::int32_t>()[1], 6);
}

TEST_F(Bindings, IntegersAreBroughtToTheInputsTypeWhenTheyFit) {
  const std::string wide = write_integers<std::int64_t>("wide.diftensor", DType::kI64, {7, -1});
  const auto tensors = read_inputs(program_, {{"x", x_}, {"ids", wide}});
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ((*tensors)[1].dtype, DType::kI32);
  EXPECT_EQ((*tensors)[1].as<std::int32_t>()[1], -1);
  const std::string large = write_integers<std::int64_t>("large.diftensor", DType::kI64, {7, 1LL << 32});
  expect_refused(read_inputs(program_, {{"x", x_}, {"ids", large}}), "is i64[2], the program wants i32[2]");

  ir::Builder b("mask");
  const ir::Value mask = b.input("mask", {DType::kBool, {2}});
  b.output("mask", mask);
  const auto masked = b.finish();
  ASSERT_TRUE(masked);
  const std::string ones = write_integers<std::int64_t>("ones.diftensor", DType::kI64, {1, 0});
  const std::string twos = write_integers<std::int64_t>("twos.diftensor", DType::kI64, {2, 0});
  EXPECT_TRUE(read_inputs(*masked, {{"mask", ones}}));
  expect_refused(read_inputs(*masked, {{"mask", twos}}), "wants bool[2]");
}

TEST_F(Bindings, WrongInputsAreNamed) {
  const std::string ids = write_integers<std::int32_t>("ids.diftensor", DType::kI32, {5, 6});
  const std::string half = write("half.diftensor", {DType::kBF16, {2, 4}});
  expect_refused(read_inputs(program_, {}), "needs --input ID=FILE for x f32[2, 4], ids i32[2]");
  expect_refused(read_inputs(program_, {{"x", x_}, {"0", x_}, {"ids", ids}}), "input x is bound twice");
  expect_refused(read_inputs(program_, {{"x", half}, {"ids", ids}}), "difcast converts it");
  expect_refused(read_inputs(program_, {{"x", ids}, {"ids", ids}}), "is i32[2], the program wants f32[2, 4]");
  EXPECT_EQ(read_inputs(program_, {{"x", "/nowhere.diftensor"}, {"ids", ids}}).error().code,
            ErrorCode::kNotFound);
}

TEST_F(Bindings, TensorsAreStoredAloneOrTogetherInOneArchive) {
  const io::HostTensor a(DType::kF32, {2}), b(DType::kI32, {3});
  const std::string archive = (scratch_ / "out.safetensors").string(),
                    single = (scratch_ / "a.diftensor").string();
  ASSERT_TRUE(store_tensors({{archive + "::a", &a}, {archive + "::b", &b}, {single, &a}}));
  EXPECT_EQ(io::read_tensor_operand(archive + "::b")->shape, (Shape{3}));
  EXPECT_EQ(io::read_tensor_operand(archive + "::a")->shape, (Shape{2}));
  EXPECT_EQ(io::read_tensor_file(single)->shape, (Shape{2}));
  expect_refused(store_tensors({{single, &a}, {single, &b}}), "two tensors would be written to");
}

TEST_F(Bindings, ConstantsComeFromABundleSealedForThisProgram) {
  std::vector<float> table(32, 0.5f);
  const std::string weights = (scratch_ / "w.safetensors").string();
  ASSERT_TRUE(
      io::write_safetensors(weights, {{"table", DType::kF32, {8, 4}, std::as_bytes(std::span(table))}}));
  const auto checkpoint = io::open_checkpoint(weights);
  ASSERT_TRUE(checkpoint);
  const auto seal = [&](const std::string& fingerprint) {
    const std::string path = (scratch_ / "w.difbind").string();
    const io::BundleBinding binding = {"table", checkpoint->find("table")};
    const auto record = io::make_bundle_record(fingerprint, *checkpoint, std::span(&binding, 1), path);
    EXPECT_TRUE(record) << record.error().message;
    EXPECT_TRUE(io::write_weight_bundle(path, *record));
    return io::open_weight_bundle(path);
  };
  const auto bundle = seal(ir::fingerprint(program_));
  ASSERT_TRUE(bundle) << bundle.error().message;
  const auto constants = bind_constants(program_, *bundle);
  ASSERT_TRUE(constants) << constants.error().message;
  float first = 0;
  std::memcpy(&first, constants->front().data, sizeof(first));
  EXPECT_EQ(first, 0.5f);
  EXPECT_EQ(constants->front().bytes, 128U);

  const auto foreign = seal(std::string(64, 'a'));
  ASSERT_TRUE(foreign);
  expect_refused(bind_constants(program_, *foreign), "sealed for the program with fingerprint aaaaaaaaaaaa");

  const std::filesystem::path moved = scratch_ / "elsewhere" / "w.difbind";
  std::filesystem::create_directories(moved.parent_path());
  const auto rebound = rebind_bundle(foreign->record(), foreign->path(), program_, moved);
  ASSERT_TRUE(rebound) << rebound.error().message;
  ASSERT_TRUE(io::write_weight_bundle(moved, *rebound));
  const auto reopened = io::open_weight_bundle(moved, {.verify_shards = true});
  ASSERT_TRUE(reopened) << reopened.error().message;
  EXPECT_EQ(reopened->record().shards.front().path, "../w.safetensors");
  EXPECT_TRUE(bind_constants(program_, *reopened));

  ir::Builder other("other");
  other.output("t", other.constant("table", {DType::kF32, {4, 8}}));
  other.constant("bias", {DType::kF32, {4}});
  const auto reshaped = other.finish();
  expect_refused(rebind_bundle(foreign->record(), foreign->path(), *reshaped, moved),
                 "constant table is f32[8, 4], the program wants f32[4, 8]; constant bias is missing");
  const auto misfit = seal(ir::fingerprint(*reshaped));
  expect_refused(bind_constants(*reshaped, *misfit),
                 "constant table is f32[8, 4], the program wants f32[4, 8]");
}

}  // namespace
}  // namespace dif

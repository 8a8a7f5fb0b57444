#include "ir/program_file.h"

#include <flatbuffers/flatbuffers.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

#include "ir/builder.h"
#include "ir/provenance_file.h"
#include "ops/upsample_nearest/upsample_nearest.op.h"
#include "tests/support/paths.h"
#include "tests/support/sample_program.h"

namespace dif::ir {

namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

testing::AssertionResult refused(const Result<Program>& program, std::string_view part) {
  if (program) return testing::AssertionFailure() << "accepted";
  if (program.error().code == ErrorCode::kInvalidInput &&
      program.error().message.find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "another reason: " << program.error().message;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Moves the dimensions of value 0 to the end of `bytes`, at a multiple of 4 that is no multiple of 8.
/// Canonical bytes never look like that, but FlatBuffers' verifier accepts it.
std::vector<std::byte> with_misaligned_dims(std::vector<std::byte> bytes) {
  constexpr flatbuffers::voffset_t kValues = 6, kDims = 8;  // fields 1 of Program and 2 of Value
  using Tables = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>;
  const std::size_t field = [&] {
    const auto* root = flatbuffers::GetRoot<flatbuffers::Table>(bytes.data());
    const flatbuffers::Table* value = root->GetPointer<const Tables*>(kValues)->Get(0);
    return static_cast<std::size_t>(value->GetAddressOf(kDims) -
                                    reinterpret_cast<const std::uint8_t*>(bytes.data()));
  }();
  flatbuffers::uoffset_t to_dims = 0;
  std::memcpy(&to_dims, bytes.data() + field, sizeof(to_dims));
  const std::size_t dims = field + to_dims;
  flatbuffers::uoffset_t rank = 0;
  std::memcpy(&rank, bytes.data() + dims, sizeof(rank));
  const std::vector<std::byte> moved(bytes.begin() + static_cast<std::ptrdiff_t>(dims),
                                     bytes.begin() + static_cast<std::ptrdiff_t>(dims + 4 + 8 * rank));
  while (bytes.size() % 8 != 0) bytes.push_back({});  // the count stands here, the numbers 4 bytes later
  to_dims = static_cast<flatbuffers::uoffset_t>(bytes.size() - field);
  std::memcpy(bytes.data() + field, &to_dims, sizeof(to_dims));
  bytes.insert(bytes.end(), moved.begin(), moved.end());
  return bytes;
}

}  // namespace

TEST(ProgramBytes, KeepTheMeaningAndDropProvenance) {
  const Program program = test::sample_program();
  const auto decoded = decode(encode(program));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(encode(*decoded), encode(program));
  EXPECT_EQ(fingerprint(*decoded), fingerprint(program));
  EXPECT_TRUE(decoded->provenance.op_modules.empty());
  EXPECT_EQ(decoded->values[3].name, "blocks.0.b");
  EXPECT_EQ(decoded->ops[2].attrs, program.ops[2].attrs);
}

/// An attribute that operations learnt later is as if it were not there until it says something.
TEST(ProgramBytes, HoldOptionalAttributesOnlyWhereTheySaySomething) {
  const auto upsampled = [](bool channels_last) {
    Builder b("upsampled");
    const Value x = b.input("x", {DType::kF32, {1, 2, 3, 4}});
    b.output("y", ops::upsample_nearest(b, x, 2, channels_last));
    return std::move(*b.finish());
  };
  const Program plain = upsampled(false), last = upsampled(true);
  const auto holds_name = [](const Program& program) {
    const std::vector<std::byte> bytes = encode(program);
    constexpr std::string_view kName = "channels_last";
    return std::search(bytes.begin(), bytes.end(), kName.begin(), kName.end(),
                       [](std::byte b, char c) { return static_cast<char>(b) == c; }) != bytes.end();
  };
  EXPECT_FALSE(holds_name(plain));
  EXPECT_TRUE(holds_name(last));
  for (const Program* program : {&plain, &last}) {
    const auto decoded = decode(encode(*program));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->ops[0].attrs, program->ops[0].attrs);
    EXPECT_EQ(fingerprint(*decoded), fingerprint(*program));
  }
  EXPECT_NE(fingerprint(plain), fingerprint(last));
  // From before there was such an attribute.
  EXPECT_EQ(fingerprint(plain), "dc1128f6ed996a97be888c28dd50a569f2039e82f728dfded44cd39b41e5cfec");
}

TEST(ProgramBytes, KeepTheSignOfZero) {
  Program program = test::sample_program();
  program.ops[4].attrs = {-0.0f};
  const auto decoded = decode(encode(program));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_TRUE(std::signbit(std::get<float>(decoded->ops[4].attrs[0])));
}

TEST(ProgramBytes, MayLieAnywhereInMemory) {
  const std::vector<std::byte> bytes = encode(test::sample_program());
  std::vector<std::byte> shifted(bytes.size() + 3);
  std::ranges::copy(bytes, shifted.begin() + 3);
  EXPECT_TRUE(decode(std::span(shifted).subspan(3)).has_value());
}

TEST(ProgramBytes, ReadMisalignedNumbersAsBytes) {
  // Past the dimensions: they were read right, only their place is not canonical (UBSan watches the reads).
  EXPECT_TRUE(refused(decode(with_misaligned_dims(encode(test::sample_program()))), "canonical form"));
}

TEST(ProgramBytes, RefuseEveryChangedByte) {
  const std::vector<std::byte> bytes = encode(test::sample_program());
  std::size_t n_accepted = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (const std::uint8_t flip : {0x01, 0x80}) {
      std::vector<std::byte> changed = bytes;
      changed[i] ^= static_cast<std::byte>(flip);
      const auto decoded = decode(changed);
      // Another valid program (a name, a number) is fine; the same program from other bytes is not.
      if (!decoded) continue;
      ++n_accepted;
      EXPECT_EQ(encode(*decoded), changed) << "byte " << i;
      EXPECT_NE(fingerprint(*decoded), fingerprint(test::sample_program())) << "byte " << i;
    }
  EXPECT_GT(n_accepted, 0u);
}

TEST(ProgramBytes, RefuseTruncationAndTrailingBytes) {
  std::vector<std::byte> bytes = encode(test::sample_program());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode(std::span(bytes).first(size)).has_value()) << size;
  bytes.resize(bytes.size() + 8);
  EXPECT_TRUE(refused(decode(bytes), "canonical form"));
}

TEST(ProgramBytes, RefuseOperationsThatDoNotExist) {
  std::vector<std::byte> bytes = encode(test::sample_program());
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  replace_all(text, "linear", "lynear");
  EXPECT_TRUE(refused(decode(std::as_bytes(std::span(text))), "there is no operation lynear"));
}

TEST(ProgramBytes, RefuseAttributesUnderAnotherName) {
  std::vector<std::byte> bytes = encode(test::sample_program());
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  replace_all(text, "causal", "casual");
  EXPECT_TRUE(refused(decode(std::as_bytes(std::span(text))), "canonical form"));
}

TEST(ProgramBytes, RefuseProgramsThatTheVerifierRefuses) {
  Program program = test::sample_program();
  program.values[9].type.shape = {1};
  EXPECT_TRUE(refused(decode(encode(program)), "result %9 is stored as f32[1]"));
  program = test::sample_program();
  program.ops[0].operands[0] = 7;
  EXPECT_TRUE(refused(decode(encode(program)), "reads %7 before it is defined"));
}

TEST(Fingerprint, IsTheDocumentedStream) {
  // docs/difir.md describes the stream; this digest was computed from that text by a script of its own.
  EXPECT_EQ(fingerprint(test::sample_program()),
            "ef27e5134aacdbd9c0727128ec5d2d01569bf18b2913e731ea9d644779dbb063");
}

TEST(Fingerprint, IgnoresProvenance) {
  Program program = test::sample_program();
  program.provenance = {};
  EXPECT_EQ(fingerprint(program), fingerprint(test::sample_program()));
}

TEST(Fingerprint, SeesEveryPartOfTheMeaning) {
  std::set<std::string> seen = {fingerprint(test::sample_program())};
  const auto change = [&](auto&& edit) {
    Program program = test::sample_program();
    edit(program);
    EXPECT_TRUE(seen.insert(fingerprint(program)).second);
  };
  change([](Program& p) { p.name = "other"; });
  change([](Program& p) { p.values[0].name = "z"; });
  change([](Program& p) { p.values[0].type.dtype = DType::kF16; });
  change([](Program& p) { p.values[0].type.shape = {1, 8, 5}; });
  change([](Program& p) { p.values[0].type.shape = {1, 5}; });
  change([](Program& p) { p.values[0].kind = ValueKind::kConstant; });
  change([](Program& p) { p.ops[0].def = p.ops[1].def; });
  change([](Program& p) { p.ops[0].operands.pop_back(); });
  change([](Program& p) { p.ops[3].results[0] = 8; });
  change([](Program& p) { p.ops[4].attrs[0] = 0.25f; });
  change([](Program& p) { p.ops[4].attrs[0] = -0.1f; });
  change([](Program& p) { p.ops[2].attrs[0] = false; });
  change([](Program& p) { std::swap(p.inputs[0], p.inputs[1]); });
  change([](Program& p) { std::swap(p.constants[0], p.constants[1]); });
  change([](Program& p) { std::swap(p.outputs[0], p.outputs[1]); });
  change([](Program& p) { p.outputs[0].value = 7; });
}

TEST(ProgramFile, KeepsTheProgramAndItsProvenance) {
  const test::ScratchDir dir;
  const Program program = test::sample_program();
  ASSERT_TRUE(write_program(dir / "p.difir", program).has_value());
  const auto read = read_program(dir / "p.difir");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(encode(*read), encode(program));
  EXPECT_EQ(read->provenance.creator, "sample_program");
  EXPECT_EQ(read->provenance.op_modules, program.provenance.op_modules);
  ASSERT_EQ(read->provenance.boundaries.size(), 1u);
  EXPECT_EQ(read->provenance.boundaries[0].name, "blocks.0.attn");
  EXPECT_EQ(read->provenance.boundaries[0].value, 6u);
}

TEST(ProgramFile, NamesTheFileThatIsWrong) {
  const test::ScratchDir dir;
  write_text(dir / "p.difir", "not a program");
  EXPECT_TRUE(refused(read_program(dir / "p.difir"), "p.difir"));
  const auto missing = read_program(dir / "missing.difir");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(ProgramFile, RefusesASidecarOfAnotherProgram) {
  const test::ScratchDir dir;
  Program program = test::sample_program();
  ASSERT_TRUE(write_program(dir / "other.difir", program).has_value());
  program.name = "changed";
  ASSERT_TRUE(write_program(dir / "p.difir", program).has_value());
  std::filesystem::copy_file(provenance_path(dir / "other.difir"), provenance_path(dir / "p.difir"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(refused(read_program(dir / "p.difir"), "fingerprint"));
}

TEST(ProgramFile, RefusesASidecarThatDoesNotFit) {
  const test::ScratchDir dir;
  ASSERT_TRUE(write_program(dir / "p.difir", test::sample_program()).has_value());
  const std::filesystem::path sidecar = provenance_path(dir / "p.difir");
  const std::string good = read_text(sidecar);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"version\": 1", "\"version\": 2"},
                                                        {"difir-provenance", "other"},
                                                        {"\"value\": 6", "\"value\": 10"},
                                                        {"\"value\": 6", "\"value\": -1"},
                                                        {"\"blocks.0\",", ""}}) {
    std::string bad = good;
    ASSERT_NE(bad.find(from), std::string::npos) << from << "\n" << bad;
    bad.replace(bad.find(from), from.size(), to);
    write_text(sidecar, bad);
    EXPECT_TRUE(refused(read_program(dir / "p.difir"), "p.difir.provenance.json")) << from;
  }
}

TEST(ProgramFile, RemovesTheSidecarOfTheProgramThatItReplaces) {
  const test::ScratchDir dir;
  Program program = test::sample_program();
  ASSERT_TRUE(write_program(dir / "p.difir", program).has_value());
  program.provenance = {};
  ASSERT_TRUE(write_program(dir / "p.difir", program).has_value());
  EXPECT_FALSE(std::filesystem::exists(provenance_path(dir / "p.difir")));
  EXPECT_TRUE(read_program(dir / "p.difir").has_value());
}

}  // namespace dif::ir

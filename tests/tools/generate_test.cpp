/// dif generate as a user runs it. Numbers are the business of tests/end_to_end; here they are small and
/// quick.
#include <nlohmann/json.hpp>

#include "io/png.h"
#include "tests/tools/tool_test.h"

namespace dif::test {
namespace {

const Arguments kSmall = {"--size", "16x16", "--steps", "2", "--text-tokens", "32", "--quiet"};
/// The reference backend starts at once and uses one thread, whatever else this machine does.
const Arguments kQuick = {"--size", "16x16",     "--steps",   "2",      "--text-tokens",
                          "32",     "--backend", "reference", "--quiet"};

/// Whether products in f32 keep packed weights here: oneDNN's kernels without AVX-512 take them as they are,
/// and the weights of convolutions alone are packed.
bool packs_products() {
  return __builtin_cpu_supports("avx512f");
}

class Generate : public ToolTest {
 protected:
  std::string draw(const Arguments& arguments) const {
    return succeed("dif", Arguments{"generate"} + arguments + kQuick);
  }
  void refuse(const Arguments& arguments, int status, const std::string& part) const {
    fail("dif", Arguments{"generate"} + arguments, status, part);
  }
};

TEST_F(Generate, WritesAPictureAndPrintsItsPath) {
  EXPECT_EQ(succeed("dif", Arguments{"generate", "a red apple", "-o", "apple.png"} + kSmall), "apple.png\n");
  EXPECT_EQ(files(), std::set<std::string>{"apple.png"});
  const auto image = io::read_png(path("apple.png"));
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->width, 16U);
  EXPECT_EQ(image->height, 16U);
}

TEST_F(Generate, RepeatsTheSameBytes) {
  draw({"a red apple", "-o", "a.png"});
  draw({"a red apple", "-o", "b.png", "--threads", "1"});
  draw({"a red apple", "-o", "c.png", "--seed", "43"});
  EXPECT_EQ(read_text(path("a.png")), read_text(path("b.png")));
  EXPECT_NE(read_text(path("a.png")), read_text(path("c.png")));
}

TEST_F(Generate, NothingThatOpenMpIsToldChangesThePicture) {
  const auto drawn = [&](const std::string& name, const Running::Environment& environment) {
    succeed("dif",
            Arguments{"generate", "a red apple", "-o", name, "--backend", "cpu", "--threads", "2"} + kSmall,
            environment);
    return read_text(path(name));
  };
  const std::string expected = drawn("plain.png", {});
  for (const auto& [variable, value] : {std::pair("OMP_DYNAMIC", "true"), std::pair("OMP_THREAD_LIMIT", "1"),
                                        std::pair("OMP_MAX_ACTIVE_LEVELS", "0")})
    EXPECT_TRUE(drawn("other.png", {{variable, value}}) == expected) << variable << "=" << value;
}

TEST_F(Generate, FromRepeatsTheRunRecordedInAPicture) {
  draw({"two boats, one \"red\"", "-o", "first.png", "--seed", "18446744073709551615", "--negative-prompt",
        "fog", "--guidance", "3.25"});
  succeed("dif", {"generate", "--from", "first.png", "-o", "again.png", "--quiet", "--backend", "reference"});
  EXPECT_EQ(read_text(path("first.png")), read_text(path("again.png")));
  succeed("dif", {"generate", "--from", "first.png", "-o", "other.png", "--quiet", "--backend", "reference",
                  "--seed", "1"});
  EXPECT_NE(read_text(path("first.png")), read_text(path("other.png")));
}

TEST_F(Generate, PassesChangeThePathAndNotThePicture) {
  const auto drawn = [&](const std::string& name, const Arguments& more) {
    draw(Arguments{"a red apple", "-o", name} + more);
    const auto image = io::read_png(path(name));
    return image ? image->pixels : std::vector<std::uint8_t>();
  };
  const auto plain = drawn("plain.png", {"--passes", "none"});
  EXPECT_FALSE(plain.empty());
  EXPECT_EQ(drawn("default.png", {}), plain);
  EXPECT_EQ(drawn("one.png", {"--passes", "hoist_step"}), plain);
  EXPECT_EQ(drawn("again.png", {"--from", "one.png"}), plain);
  EXPECT_EQ(read_text(path("again.png")), read_text(path("one.png"))) << "--from takes the passes too";
  refuse({"a red apple", "--passes", "hoist"}, 2, "there is no pass \"hoist\"");
}

TEST_F(Generate, DecodesInTheWayThatIsAskedAndRecordsIt) {
  const auto drawn = [&](const std::string& name, const Arguments& more) {
    succeed("dif", Arguments{"generate", "-o", name, "--quiet", "--backend", "reference"} + more);
    const auto image = io::read_png(path(name));
    return image ? image->pixels : std::vector<std::uint8_t>();
  };
  const Arguments request = {"a red apple", "--size", "16x32", "--steps", "1", "--text-tokens", "32"};
  const auto whole = drawn("whole.png", request + Arguments{"--decode", "whole"});
  const auto slabs = drawn(
      "slabs.png", request + Arguments{"--decode", "slabs", "--plan-out", "plans", "--report", "report"});
  ASSERT_EQ(slabs.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(slabs[i], whole[i], 1);
  const nlohmann::json report = nlohmann::json::parse(read_text(path("report")));
  EXPECT_EQ(report.at("decode").at("way"), "slabs");
  EXPECT_EQ(report.at("decode").at("reason"), "as asked");
  EXPECT_GT(report.at("decode").at("programs").size(), 2U);
  EXPECT_GE(report.at("decode").at("host_image_bytes"), 16 * 32 * 3 * sizeof(float));
  EXPECT_NE(succeed("difplan", {"show", "plans/decode.difplan"}).find("decode slabs"), std::string::npos);
  const auto tiles = drawn(
      "tiles.png", request + Arguments{"--decode", "tiles", "--tile-size", "16", "--tile-overlap", "0"});
  EXPECT_NE(tiles, whole);
  EXPECT_EQ(drawn("again.png", {"--from", "tiles.png"}), tiles);
  EXPECT_EQ(drawn("again.png", {"--from", "slabs.png", "--report", "report"}), slabs);
  EXPECT_EQ(nlohmann::json::parse(read_text(path("report"))).at("decode"), report.at("decode"));
  EXPECT_EQ(read_text(path("again.png")), read_text(path("slabs.png")));
  EXPECT_NE(succeed("dif", Arguments{"generate", "--dry-run", "--decode", "slabs", "--backend", "reference"} +
                               request)
                .find("decode in slabs"),
            std::string::npos);
  refuse({"a red apple", "--tile-size", "32"}, 2, "which is not asked for");
  refuse({"a red apple", "--decode", "tiles", "--tile-size", "40"}, 2,
         "--tile-size 40: expected a multiple of 16");
}

TEST_F(Generate, ABatchIsTheSinglePicturesWithSeedsCountedUp) {
  EXPECT_EQ(draw({"a red apple", "-o", "out.png", "--seed", "7", "--batch", "2", "--no-metadata"}),
            "out-0.png\nout-1.png\n");
  draw({"a red apple", "-o", "seven.png", "--seed", "7", "--no-metadata"});
  draw({"a red apple", "-o", "eight.png", "--seed", "8", "--no-metadata"});
  EXPECT_EQ(files(), (std::set<std::string>{"eight.png", "out-0.png", "out-1.png", "seven.png"}));
  EXPECT_EQ(read_text(path("out-0.png")), read_text(path("seven.png")));
  EXPECT_EQ(read_text(path("out-1.png")), read_text(path("eight.png")));
}

TEST_F(Generate, JsonIsOneDocumentOnStdoutAndInTheReport) {
  const std::string out = draw({"a red apple", "-o", "a.png", "--json", "--report", "report.json"});
  EXPECT_EQ(out, read_text(path("report.json")));
  const auto document = nlohmann::json::parse(out);
  EXPECT_EQ(document.at("schema"), "diffusion-compiler-telemetry");
  EXPECT_EQ(document.at("kind"), "generation");
  EXPECT_EQ(document.at("pictures").at(0).at("path"), "a.png");
  EXPECT_EQ(document.at("pictures").at(0).at("seed"), 42);
  EXPECT_EQ(document.at("request").at("prompt"), "a red apple");
  EXPECT_EQ(document.at("programs").size(), 3U);
}

TEST_F(Generate, ReportSaysWhereTheTimeWent) {
  const auto document = nlohmann::json::parse(draw({"a red apple", "-o", "a.png", "--json"}));
  double sum = 0;
  std::string stages;
  for (const auto& stage : document.at("stages")) {
    stages += stage.at("stage").get<std::string>() + " ";
    sum += stage.at("seconds").get<double>();
  }
  EXPECT_EQ(stages, "open context build tokenize encode prepare denoise decode write ");
  EXPECT_LE(sum, document.at("seconds").get<double>());
  for (const auto& program : document.at("programs")) {
    const auto& prepare = program.at("details").at("prepare");
    double kernels = 0;
    for (const auto& [name, seconds] : prepare.at("kernel_seconds").items()) kernels += seconds.get<double>();
    EXPECT_GT(kernels, 0);
    const double all = prepare.at("seconds").get<double>();
    EXPECT_NEAR(
        kernels + prepare.at("weight_seconds").get<double>() + prepare.at("planning_seconds").get<double>(),
        all, 1e-6);
    EXPECT_GE(prepare.at("planning_seconds").get<double>(), 0);
    EXPECT_GE(program.at("prepare_seconds").get<double>(), all);
  }
}

TEST_F(Generate, RepeatReportsEachRequestAndDrawsTheSamePicture) {
  const auto document = nlohmann::json::parse(
      draw({"a red apple", "-o", "a.png", "--json", "--repeat", "2", "--guidance", "3"}));
  draw({"a red apple", "-o", "b.png", "--guidance", "3"});
  EXPECT_EQ(read_text(path("a.png")), read_text(path("b.png")));
  const auto& requests = document.at("requests");
  ASSERT_EQ(requests.size(), 2U);
  for (const auto& request : requests) {
    double sum = 0;
    std::string stages;
    for (const auto& stage : request.at("stages")) {
      stages += stage.at("stage").get<std::string>() + " ";
      sum += stage.at("seconds").get<double>();
    }
    EXPECT_EQ(stages, "tokenize encode denoise decode write ");
    EXPECT_LE(sum, request.at("seconds").get<double>());
  }
  EXPECT_EQ(document.at("pictures").size(), 1U);
  double written = 0;
  for (const auto& request : requests) written += request.at("stages").back().at("seconds").get<double>();
  EXPECT_EQ(document.at("stages").back().at("stage"), "write");
  EXPECT_DOUBLE_EQ(document.at("stages").back().at("seconds").get<double>(), written);
}

TEST_F(Generate, NoiseOfACardIsRecordedAndRepeated) {
  draw({"a red apple", "-o", "cpu.png"});
  draw({"a red apple", "-o", "cuda.png", "--rng", "torch-cuda:132x2048"});
  draw({"--from", "cuda.png", "-o", "again.png"});
  EXPECT_NE(read_text(path("cpu.png")), read_text(path("cuda.png")));
  EXPECT_EQ(read_text(path("cuda.png")), read_text(path("again.png")));
  refuse({"x", "--backend", "reference", "--rng", "torch-cuda"}, 2, "torch-cuda:132x2048");
  refuse({"x", "--backend", "reference", "--rng", "mt19937"}, 2, "names no source of noise");
}

TEST_F(Generate, EveryRunSaysWhichDtypesItUsed) {
  const auto numerics = [](const std::string& document) {
    const auto request = nlohmann::json::parse(document).at("request");
    return std::vector<std::string>{request.at("dtype"), request.at("vae_dtype"), request.at("state_dtype"),
                                    request.at("dtype_choice")};
  };
  EXPECT_EQ(numerics(draw({"x", "-o", "a.png", "--json"})),
            (std::vector<std::string>{"f32", "f32", "f32", "default"}));
  EXPECT_EQ(numerics(draw({"x", "-o", "b.png", "--json", "--dtype", "bf16", "--state-dtype", "bf16"})),
            (std::vector<std::string>{"bf16", "f32", "bf16", "chosen"}));
  EXPECT_NE(read_text(path("a.png")), read_text(path("b.png")));
  EXPECT_EQ(numerics(succeed("dif", {"generate", "--from", "b.png", "-o", "c.png", "--quiet", "--backend",
                                     "reference", "--json"})),
            (std::vector<std::string>{"bf16", "f32", "bf16", "as recorded"}));
  EXPECT_EQ(read_text(path("b.png")), read_text(path("c.png")));
}

TEST_F(Generate, AutoDtypeIsWhatTheBackendDoesFast) {
  const Finished finished =
      run("dif", Arguments{"generate", "x", "-o", "a.png", "--dtype", "auto", "--why"} + kQuick);
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.err.find("dtype f32 (auto: backend reference names no dtype of its own), VAE f32"),
            std::string::npos)
      << finished.err;
  EXPECT_NE(finished.err.find("\nstep: "), std::string::npos) << finished.err;
}

TEST_F(Generate, TraceSaysWhatEachKindOfOperationTookInEveryProgram) {
  const Finished finished =
      run("dif", Arguments{"generate", "x", "-o", "a.png", "--trace-ops", "--report", "r.json"} + kQuick);
  ASSERT_EQ(finished.status, 0) << finished.err;
  for (const char* part : {"program encode\n", "program step\n", "program decode\n", "linear -> f32["})
    EXPECT_NE(finished.err.find(part), std::string::npos) << part << finished.err;
  succeed("dif", Arguments{"generate", "x", "-o", "b.png"} + kQuick);
  EXPECT_EQ(read_text(path("a.png")), read_text(path("b.png"))) << "looking changes nothing";
  const auto document = nlohmann::json::parse(read_text(path("r.json")));
  for (const auto& program : document.at("programs")) {
    double flops = 0;
    for (const auto& operation : program.at("operations")) {
      flops += operation.at("flops").get<double>();
      EXPECT_GT(operation.at("runs"), 0) << operation;
      EXPECT_GT(operation.at("bytes"), 0) << operation;
    }
    EXPECT_GT(flops, 0.9 * program.at("flops").get<double>()) << "what is folded does not run";
    EXPECT_LE(flops, program.at("flops").get<double>());
  }
}

TEST_F(Generate, TraceShowsEveryProgramOfADecodeInParts) {
  const Arguments arguments = {"generate", "x", "-o", "a.png", "--trace-ops", "--report", "r.json"};
  Finished finished = run("dif", arguments + Arguments{"--decode", "slabs"} + kQuick);
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto document = nlohmann::json::parse(read_text(path("r.json")));
  for (const auto& program : document.at("decode").at("programs")) {
    EXPECT_NE(finished.err.find("program " + program.at("name").get<std::string>() + "\n"), std::string::npos)
        << finished.err;
    ASSERT_FALSE(program.at("operations").empty()) << program.at("name");
    for (const auto& operation : program.at("operations"))
      EXPECT_EQ(operation.at("runs"), program.at("runs")) << operation;
  }
  finished = run(
      "dif", arguments + Arguments{"--decode", "tiles", "--tile-size", "16", "--tile-overlap", "0"} + kQuick);
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.err.find("conv2d", finished.err.find("program decode\n")), std::string::npos)
      << finished.err;
  finished = run("dif", Arguments{"generate", "x", "-o", "a.png", "--trace-ops", "--size", "16x16", "--steps",
                                  "1", "--backend", "null", "--quiet"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.err.find("program decode\nnothing ran\n"), std::string::npos) << finished.err;
}

TEST_F(Generate, PeakMemoryIsCheckpointPlanAndPackedWeights) {
  const Arguments arguments = {"generate", "a red apple", "-o",       "a.png", "--steps",
                               "1",        "--quiet",     "--report", "r.json"};
  const Finished finished = run("dif", arguments);
  ASSERT_EQ(finished.status, 0) << finished.err;
  std::uint64_t checkpoint = 0, arena = 0, packed = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(model_dir()))
    if (entry.path().extension() == ".safetensors") checkpoint += entry.file_size();
  const auto document = nlohmann::json::parse(read_text(path("r.json")));
  for (const auto& program : document.at("programs")) {
    arena = std::max<std::uint64_t>(arena, program.at("arena_bytes"));
    packed += program.at("prepacked_bytes").get<std::uint64_t>();
  }
  EXPECT_GT(packed, packs_products() ? checkpoint / 2 : checkpoint / 8);
  const std::uint64_t bound = checkpoint + arena + packed + (std::uint64_t{96} << 20);
  EXPECT_LE(finished.peak_bytes, bound)
      << "checkpoint " << checkpoint << ", arena " << arena << ", packed " << packed;
}

TEST_F(Generate, ADryRunWritesNoPlans) {
  refuse({"x", "--dry-run", "--plan-out", "plans"}, 2, "--plan-out excludes --dry-run");
}

TEST_F(Generate, AWeightCacheOfAnySizeGivesThePicture) {
  const auto packed_with = [&](const std::string& size) {
    const std::string out = succeed("dif", Arguments{"generate", "x", "-o", size + ".png", "--no-metadata",
                                                     "--json", "--weight-cache", size} +
                                               kSmall);
    const auto document = nlohmann::json::parse(out);
    std::uint64_t most = 0;
    for (const auto& program : document.at("programs"))
      most = std::max<std::uint64_t>(most, program.at("prepacked_bytes"));
    return most;
  };
  const std::uint64_t all = packed_with("auto"), some = packed_with("8"), none = packed_with("off");
  EXPECT_GT(all, std::uint64_t{packs_products() ? 12 : 2} << 20) << "of the program that needs most";
  EXPECT_LT(some, std::uint64_t{9} << 20);
  EXPECT_GT(some, std::uint64_t{packs_products() ? 4 : 2} << 20);
  EXPECT_LT(none, std::uint64_t{1} << 20) << "biases alone";
  const auto picture = [&](const std::string& name) { return io::read_png(path(name + ".png"))->pixels; };
  const auto exact = picture("auto");
  for (const char* other : {"8", "off"}) {
    const auto found = picture(other);
    ASSERT_EQ(found.size(), exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(found[i], exact[i], 1) << other << ", " << i;
  }
  refuse({"x", "--weight-cache", "much"}, 2, "--weight-cache much: expected off, auto, disk, or 1 to");
  refuse({"x", "--weight-cache", "-1"}, 2, "--weight-cache -1: expected off, auto, disk, or 1 to");
}

TEST_F(Generate, LatentsCanBeSavedAndGivenAgain) {
  draw({"a red apple", "-o", "a.png", "--save-latents", "l.diftensor"});
  const auto latents = io::read_tensor_file(path("l.diftensor"));
  ASSERT_TRUE(latents) << latents.error().message;
  EXPECT_EQ(latents->shape, (Shape{1, 1, 32}));
  draw({"a red apple", "-o", "b.png", "--init-latents", "l.diftensor"});
  EXPECT_NE(read_text(path("a.png")), read_text(path("b.png")));
}

TEST_F(Generate, ProgressGoesToStderrAlone) {
  const Finished finished = run("dif", {"generate", "a red apple", "--size", "16x16", "--steps", "2",
                                        "--text-tokens", "32", "--progress", "json"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, "out.png\n");
  for (const char* stage : {"encode", "prepare", "denoise", "decode"})
    EXPECT_NE(finished.err.find(std::string("{\"progress\":\"") + stage), std::string::npos) << finished.err;
  const auto line = nlohmann::json::parse(last_line(finished.err));
  EXPECT_EQ(line.at("finished"), true);
}

TEST_F(Generate, InterruptStopsWithinAStepAndLeavesNoFile) {
  for (const auto& [signal, status] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    Running running("dif",
                    {"generate", "a red apple", "-o", "apple.png", "--steps", "5000", "--size", "16x16",
                     "--text-tokens", "32", "--progress", "json"},
                    folder_.path());
    ASSERT_TRUE(running.wait_for_stderr("\"denoise\",\"done\":1"));
    running.send(signal);
    const Finished finished = running.wait();
    EXPECT_EQ(finished.status, status) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(last_line(finished.err).rfind("stopped: ", 0), 0U) << finished.err;
    EXPECT_EQ(files(), std::set<std::string>{}) << "not even a temporary";
  }
}

TEST_F(Generate, RefusesSizes) {
  for (const char* size : {"0x0", "33x32", "-16x16", "16x-16", "100000x16"})
    refuse({"x", "--size", size}, 2, "expected a multiple of 16");
  for (const char* size : {"abc", "32", "32x", "x32", "32x32x32", "32 x 32", "99999999999999999999x16"})
    refuse({"x", "--size", size}, 2, "expected WIDTHxHEIGHT");
  refuse({"x", "--size", "33x32"}, 2, "the nearest are 32 and 48");
}

TEST_F(Generate, RefusesSeeds) {
  for (const char* seed : {"abc", "-2", "18446744073709551616", "", "1.5", "0x10", "7 "})
    refuse({"x", "--seed", seed}, 2, "expected a whole number from 0 to 2^64-1, or -1");
}

TEST_F(Generate, ADrawnSeedIsPrintedAndRepeatsThePicture) {
  const Finished first = run("dif", Arguments{"generate", "x", "-o", "a.png", "--seed", "-1"} + kQuick);
  ASSERT_EQ(first.status, 0) << first.err;
  ASSERT_EQ(first.err.rfind("seed ", 0), 0U) << first.err;
  const std::string seed = first.err.substr(5, first.err.find('\n') - 5);
  draw({"x", "-o", "b.png", "--seed", seed});
  EXPECT_EQ(read_text(path("a.png")), read_text(path("b.png")));
}

TEST_F(Generate, RefusesNumbersOutOfRange) {
  for (const char* steps : {"0", "-1", "1000000000"}) refuse({"x", "--steps", steps}, 2, "expected 1 to");
  for (const char* batch : {"0", "-1", "10001"}) refuse({"x", "--batch", batch}, 2, "expected 1 to 10000");
  for (const char* guidance : {"nan", "inf", "-1", "1e30"})
    refuse({"x", "--guidance", guidance}, 2, "guidance ");
  for (const char* tokens : {"0", "-5", "99999999"})
    refuse({"x", "--text-tokens", tokens}, 2, "text tokens: expected 1");
  for (const char* threads : {"-1", "5000"}) refuse({"x", "--threads", threads}, 2, "expected 0 to 1024");
  for (const char* option : {"--steps", "--batch", "--guidance", "--text-tokens", "--threads"})
    refuse({"x", option, "abc"}, 2, option);
  for (const char* option : {"--steps", "--batch"}) refuse({"x", option, "1.5"}, 2, option);
}

TEST_F(Generate, RefusesOptionsThatDoNotExistAndWordsTooMany) {
  refuse({"x", "--nonsense"}, 2, "--nonsense");
  refuse({"x", "y"}, 2, "not expected: y");
  refuse({"x", "--steps"}, 2, "--steps");
  refuse({"x", "--progress", "wild"}, 2, "wild not in");
  refuse({"x", "--dtype", "f16"}, 2, "--dtype f16: expected one of f32, bf16, auto");
  refuse({"x", "--vae-dtype", "auto"}, 2, "--vae-dtype auto: expected one of f32, bf16");
  refuse({"x", "--state-dtype", "f16"}, 2, "--state-dtype f16: expected one of f32, bf16");
  refuse({"--seed", "3"}, 2, "a prompt is needed");
}

TEST_F(Generate, RefusesModelsThatAreNone) {
  refuse({"x", "--model", "/nowhere"}, 2, "/nowhere: there is no such model folder");
  refuse({"x", "--model", "."}, 2, "no model_index.json");
  fail("dif", {"generate", "x"}, 2, "/nowhere", {{"DIF_MODEL", "/nowhere"}});
}

TEST_F(Generate, RefusesBackendsThatAreNotHere) {
  refuse({"x", "--backend", "abacus"}, 3, "there is no backend \"abacus\" here; available: ");
  refuse({"x", "--backend-plugin", "/nowhere.so"}, 3, "/nowhere.so");
  refuse(Arguments{"x", "--memory-cap-mib", "1"} + kQuick, 3, "memory cap");
}

TEST_F(Generate, RefusesMemoryThatIsTooLittleOrMakesNoSense) {
  refuse(Arguments{"x", "--max-vram", "1MiB"} + kQuick, 3, "memory cap of 1048576 bytes");
  refuse({"x", "--max-vram", "12"}, 2, "--max-vram 12: expected a size such as 12GiB or 900MiB");
  refuse({"x", "--max-vram", "12GiB", "--memory-cap-mib", "100"}, 2, "excludes");
  refuse({"x", "--streamed-staging-buffers", "1000"}, 2,
         "4000 MiB are more than --streamed-pinned-budget-mib");
  refuse({"x", "--resident-order", "last"}, 2, "--resident-order");
}

TEST_F(Generate, SaysWhenABackendHasNoUseForStreaming) {
  const Finished finished = run("dif", Arguments{"generate", "x", "-o", "x.png", "--host-pinned"} + kQuick);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.err.find("backend reference does not stream weights: --host-pinned has no effect"),
            std::string::npos)
      << finished.err;
}

TEST_F(Generate, RefusesOutputsThatCannotBeWritten) {
  refuse(Arguments{"x", "-o", "/nowhere/a.png"} + kQuick, 2, "/nowhere/a.png");
  refuse(Arguments{"x", "-o", folder_.path()} + kQuick, 2, "it is a folder");
}

TEST_F(Generate, RefusesTwoOutputsUnderOneName) {
  refuse({"x", "-o", "q.png", "--report", "./q.png"}, 2,
         "--report and --output would both be written to q.png");
  refuse({"x", "-o", "q.png", "--report", "q-1.png", "--batch", "2"}, 2, "would both be written to q-1.png");
  refuse({"x", "-o", "q.png", "--save-latents", "q.png"}, 2, "--output and --save-latents");
  refuse({"x", "-o", "q.png", "--plan-out", "q.png"}, 2, "--plan-out and --output");
  EXPECT_EQ(files(), std::set<std::string>{});
  draw({"x", "-o", "/dev/null", "--save-latents", "/dev/null"});
}

TEST_F(Generate, RefusesNamesThatAreEmpty) {
  for (const char* option : {"--output", "--report", "--plan-out", "--save-latents", "--init-latents",
                             "--emit-programs", "--from", "--model"})
    refuse({"x", option, ""}, 2, "error: " + std::string(option) + ": expected a name, found \"\"");
}

TEST_F(Generate, SaysThatTheNullBackendComputesNothingAndRemembersNoSpeed) {
  const Running::Environment cache = {{"DIF_CACHE_DIR", path("cache")}};
  const Arguments request = {"generate", "x", "--size", "16x16", "--backend", "null", "--quiet"};
  const Finished drawn = run("dif", request, cache);
  EXPECT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_EQ(drawn.err, "warning: backend null computes nothing: all results are zeros\n");
  const Finished planned = run("dif", request + Arguments{"--dry-run"}, cache);
  EXPECT_EQ(planned.status, 0) << planned.err;
  EXPECT_EQ(planned.out.find("FLOP/s"), std::string::npos) << planned.out;
  EXPECT_EQ(planned.err.find("zeros"), std::string::npos) << planned.err;
}

TEST_F(Generate, RefusesInputFilesThatAreNotWhatTheyShouldBe) {
  write("wrong.diftensor", {DType::kF32, {3}});
  refuse({"--from", "/nowhere.png"}, 2, "/nowhere.png: no such file");
  refuse({"--from", "wrong.diftensor"}, 2, "is not a PNG");
  refuse(Arguments{"x", "--init-latents", "/nowhere"} + kQuick, 2, "/nowhere: no such file");
  refuse(Arguments{"x", "--init-latents", "wrong.diftensor"} + kQuick, 2, "initial latents are [3]");
  refuse(Arguments{"a\xff"} + kQuick, 2, "not UTF-8");
  draw({"x", "-o", "bare.png", "--no-metadata"});
  refuse({"--from", "bare.png"}, 2, "bare.png");
}

TEST_F(Generate, ExportsProgramsInsteadOfDrawing) {
  succeed("dif", {"generate", "x", "--emit-programs", "chain", "--size", "32x16", "--steps", "3"});
  EXPECT_EQ(files(), std::set<std::string>{"chain"});
  for (const char* name : {"encode", "step", "decode"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / "chain" / (std::string(name) + ".difir")));
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / "chain" / (std::string(name) + ".difbind")));
  }
}

TEST_F(Generate, ExportsProgramsAndNothingElse) {
  const Arguments request = {"x", "--emit-programs", "chain"};
  for (const Arguments& more : std::vector<Arguments>{
           {"--dry-run"}, {"--json"}, {"--report", "r"}, {"--plan-out", "p"}, {"--output", "o.png"}})
    refuse(request + more, 2, "leave " + more[0] + " out");
  for (const char* way : {"slabs", "tiles"})
    refuse(request + Arguments{"--decode", way}, 2, "--decode whole asks for that");
  EXPECT_EQ(files(), std::set<std::string>{});
}

}  // namespace
}  // namespace dif::test

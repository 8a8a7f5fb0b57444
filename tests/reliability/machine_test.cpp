/// Folders, disks, signals and files that change: never half a file, never a lost one.
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "io/atomic_file.h"
#include "io/png.h"
#include "io/sealed_envelope.h"
#include "tests/reliability/reliability_test.h"

namespace dif::test {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

class Machine : public ReliabilityTest {
 protected:
  Machine() : ReliabilityTest("Machine") {}

  std::string dif() const { return (bin_dir() / "dif").string(); }
  /// Runs dif generate below a shell that first sets something: "ulimit -f 1".
  Finished generate_after(const std::string& set_up, const Arguments& arguments,
                          const std::string& redirect = "") const {
    return run("/bin/sh",
               Arguments{"-c", set_up + "; exec \"$0\" \"$@\" " + redirect, dif(), "generate"} + arguments);
  }
  void spit(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  bool is_picture(const std::string& name) const { return bool(io::read_png(path(name))); }
};

TEST_F(Machine, OutputFoldersThatCannotBeWritten) {
  refused("-o missing/a.png", Arguments{"x", "-o", "missing/a.png"} + kTiny, 2, "missing/a.png");
  spit("file", "");
  refused("-o file/a.png, where file is no folder", Arguments{"x", "-o", "file/a.png"} + kTiny, 2,
          "file/a.png");
  refused("-o /proc/a.png, where nobody may write", Arguments{"x", "-o", "/proc/a.png"} + kTiny, 2,
          "/proc/a.png");
  std::filesystem::create_directory(path("folder"));
  refused("-o folder", Arguments{"x", "-o", "folder"} + kTiny, 2, "it is a folder");
}

TEST_F(Machine, OutputsAreCheckedBeforeThePictureIsDrawn) {
  const auto start = steady_clock::now();
  const Finished finished = generate({"x", "-o", "missing/a.png", "--steps", "10000"});
  EXPECT_EQ(finished.status, 2) << finished.err;
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(30));
}

TEST_F(Machine, FullDisks) {
  refused("disk full while the picture is written", Arguments{"x", "-o", "/dev/full"} + kTiny, 2,
          "/dev/full");
  refused("disk full while the report is written",
          Arguments{"x", "-o", "/dev/null", "--json", "--report", "/dev/full"} + kTiny, 2, "/dev/full");
  for (const auto& [name, more] : {std::pair<std::string, Arguments>{"standard output is full", {}},
                                   {"standard output is full, --json", {"--json"}}}) {
    const Finished finished =
        generate_after(":", Arguments{"x", "-o", "/dev/null"} + more + kTiny, "> /dev/full");
    judge(name, finished, 2, "standard output cannot be written: No space left on device");
  }
}

TEST_F(Machine, AReaderThatStopsReadingIsNoError) {
  FILE* const pipe = popen(("'" + dif() + "' difprobe --help 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  EXPECT_EQ(pclose(pipe), 0) << "closed before anything was read, as `| head` does";
}

TEST_F(Machine, FileSizeLimit) {
  // The shell's unit is 512 bytes; the picture is larger than one, stderr is not.
  judge("the picture exceeds ulimit -f", generate_after("ulimit -f 1", Arguments{"x", "-o", "a.png"} + kTiny),
        2, "a.png");
  EXPECT_EQ(files(), std::set<std::string>{}) << "not even a temporary";
}

TEST_F(Machine, NoAddressSpaceIsAnErrorWhereverItEnds) {
  constexpr int kCannotLoadProgram = 127;
  // The C++ library takes memory for exceptions when it is loaded. Where that was not there and no more, it
  // ends the process: nothing of ours has run, or could say anything.
  const std::string cannot_throw = "terminate called without an active exception\n";
  const auto expect_error_or_picture = [&](int least_kib, int most_kib, const Arguments& arguments) {
    int n_refused = 0;
    for (int kib = least_kib; kib <= most_kib; kib += 2000) {
      const Finished finished =
          generate_after("ulimit -v " + std::to_string(kib), Arguments{"x", "-o", "a.png"} + arguments);
      if (finished.status == 0) std::filesystem::remove(path("a.png"));
      if (finished.status == 0 || finished.status == kCannotLoadProgram || finished.err == cannot_throw)
        continue;
      ++n_refused;
      EXPECT_EQ(finished.status, 3) << kib << " KiB\n" << finished.err;
      EXPECT_EQ(last_line(finished.err).rfind("error: ", 0), 0U) << kib << " KiB\n" << finished.err;
      EXPECT_EQ(files(), std::set<std::string>{}) << kib << " KiB";
    }
    EXPECT_GT(n_refused, 0);
  };
  expect_error_or_picture(16000, 64000, Arguments{"--threads", "1"} + kTiny);
  // Slabs are summed by threads, for which there may be no room where there is for the picture: whether one
  // of those limits refuses is chance, so the sweep begins where there is no room for the picture either.
  expect_error_or_picture(40000, 92000,
                          {"--steps", "1", "--size", "32x32", "--text-tokens", "16", "--decode", "slabs",
                           "--backend", "reference"});
}

/// Fails every file operation of `write` once, and sees what is left under the name.
void fail_every_operation(const ScratchDir& folder,
                          const std::function<Status(const std::filesystem::path&)>& write) {
  const std::filesystem::path file = folder / "file";
  io::inject_write_fault(0, 0);
  ASSERT_TRUE(write(file));
  const int operations = io::inject_write_fault(0, 0);
  ASSERT_GE(operations, 4) << "open, write, flush and rename";
  const std::string whole = read_text(file);
  for (const int error : {ENOSPC, EDQUOT, EIO})
    for (int nth = 1; nth <= operations; ++nth)
      for (const bool existed : {true, false}) {
        std::filesystem::remove(file);
        if (existed) std::ofstream(file) << "old";
        io::inject_write_fault(nth, error);
        const Status status = write(file);
        io::inject_write_fault(0, 0);
        std::size_t n_files = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path()))
          ++n_files;
        if (status) {
          EXPECT_EQ(read_text(file), whole) << "operation " << nth << ": success means a whole file";
          EXPECT_EQ(n_files, 1U);
          continue;
        }
        EXPECT_EQ(status.error().code, ErrorCode::kIo) << status.error().message;
        EXPECT_NE(status.error().message.find(file.string()), std::string::npos) << status.error().message;
        EXPECT_EQ(n_files, existed ? 1U : 0U) << "operation " << nth;
        EXPECT_EQ(read_text(file), existed ? "old" : "") << "operation " << nth;
      }
}

TEST(FullDisk, AtAnyFileOperationLeavesThePictureAsItWas) {
  const ScratchDir folder;
  const io::Image image(64, 64, 3);
  fail_every_operation(folder, [&](const auto& path) { return io::write_png(path, image); });
}

TEST(FullDisk, AtAnyFileOperationLeavesTensorsAsTheyWere) {
  const ScratchDir folder;
  const io::HostTensor tensor(DType::kF32, {1000, 1000});
  fail_every_operation(folder, [&](const auto& path) { return io::write_tensor_file(path, tensor); });
}

TEST(FullDisk, AtAnyFileOperationLeavesCheckpointsAsTheyWere) {
  const ScratchDir folder;
  const std::vector<std::byte> data(std::size_t{4} << 20);
  fail_every_operation(folder, [&](const auto& path) {
    return io::write_safetensors(path, {{"a", DType::kF32, {1 << 20}, data}});
  });
}

TEST_F(Machine, AnExistingPictureIsReplacedInOneStep) {
  spit("a.png", "old");
  std::filesystem::create_hard_link(path("a.png"), path("witness"));
  ASSERT_EQ(generate(Arguments{"x", "-o", "a.png"} + kTiny).status, 0);
  EXPECT_EQ(read_text(path("witness")), "old") << "the old file was written over";
  EXPECT_TRUE(is_picture("a.png"));
  EXPECT_EQ(files(), (std::set<std::string>{"a.png", "witness"}));
}

TEST_F(Machine, SignalsAtAnyMomentLeaveAWholePictureOrNone) {
  const Arguments run = Arguments{"generate", "x", "-o", "a.png"} + kTiny;
  const auto start = steady_clock::now();
  ASSERT_EQ(succeed("dif", run), "a.png\n");
  const auto whole = std::chrono::duration_cast<microseconds>(steady_clock::now() - start).count();
  std::mt19937 random(20);
  int stopped = 0;
  for (int round = 0; round < 20; ++round) {
    std::filesystem::remove(path("a.png"));
    const int signal = round % 2 == 0 ? SIGINT : SIGTERM;
    Running running("dif", run, folder_.path());
    std::this_thread::sleep_for(microseconds(random() % static_cast<unsigned>(whole)));
    running.send(signal);
    const Finished finished = running.wait();
    EXPECT_TRUE(finished.status == 0 || finished.status == 128 + signal) << finished.status << "\n"
                                                                         << finished.err;
    stopped += finished.status != 0 ? 1 : 0;
    if (finished.status == 0) {
      EXPECT_TRUE(is_picture("a.png"));
    }
    EXPECT_TRUE(files().empty() || (files() == std::set<std::string>{"a.png"} && is_picture("a.png")));
  }
  EXPECT_GT(stopped, 0);
}

TEST_F(Machine, ASignalSaysWhatItStopped) {
  for (const auto& [signal, name] : {std::pair<int, std::string>{SIGINT, "Ctrl-C"}, {SIGTERM, "SIGTERM"}}) {
    Running running("dif",
                    {"generate", "x", "-o", "a.png", "--steps", "5000", "--size", "16x16", "--text-tokens",
                     "32", "--backend", "reference", "--progress", "json"},
                    folder_.path());
    ASSERT_TRUE(running.wait_for_stderr("\"denoise\",\"done\":1"));
    running.send(signal);
    const Finished finished = running.wait();
    EXPECT_EQ(finished.status, 128 + signal);
    EXPECT_EQ(files(), std::set<std::string>{});
    note_case(section_, name + " while denoising", finished.status, last_line(finished.err));
  }
}

TEST_F(Machine, KillLeavesAWholePictureOrTheOldOne) {
  const Arguments run = Arguments{"generate", "x", "-o", "a.png"} + kTiny;
  std::mt19937 random(9);
  for (int round = 0; round < 8; ++round) {
    spit("a.png", "old");
    Running running("dif", run, folder_.path());
    std::this_thread::sleep_for(microseconds(random() % 400000));
    running.send(SIGKILL);
    running.wait();
    EXPECT_TRUE(read_text(path("a.png")) == "old" || is_picture("a.png"));
  }
}

TEST(Kill, InTheMiddleOfAWriteLeavesTheOldFile) {
  const ScratchDir folder;
  const std::filesystem::path file = folder / "file";
  std::ofstream(file) << "old";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t writer = fork();
  if (writer == 0) {
    auto out = io::AtomicFile::create(file);
    const std::string block(std::size_t{1} << 20, 'n');
    for (int i = 0; out && i < 32; ++i)
      if (!out->write(block)) _exit(1);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  kill(writer, SIGKILL);
  waitpid(writer, nullptr, 0);
  EXPECT_EQ(read_text(file), "old");
  // What the dead process left is no obstacle.
  ASSERT_TRUE(io::write_atomically(file, std::string_view("new")));
  EXPECT_EQ(read_text(file), "new");
}

TEST_F(Machine, ACheckpointThatShrinksDuringARunIsAnError) {
  link_model();
  for (const char* name : {"transformer/diffusion_pytorch_model.safetensors",
                           "vae/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors"}) {
    const std::filesystem::path file = own_file(name);
    Running running("dif",
                    {"generate", "x", "--model", "model", "--steps", "5000", "--size", "16x16",
                     "--text-tokens", "32", "--backend", "reference", "--progress", "json", "--no-metadata"},
                    folder_.path());
    ASSERT_TRUE(running.wait_for_stderr("\"denoise\",\"done\":1"));
    std::filesystem::resize_file(file, 5000);
    const Finished finished = running.wait();
    judge(std::string(name) + " is cut while it is in use", finished, 2,
          "shrank or could not be read while in use");
    std::filesystem::remove(file);
    std::filesystem::create_symlink(std::filesystem::canonical(model_dir()) / name, file);
  }
}

TEST_F(Machine, ACheckpointThatWasCutIsRefused) {
  link_model();
  const std::filesystem::path file = own_file("transformer/diffusion_pytorch_model.safetensors");
  for (const std::uintmax_t size : {5'000'000, 3000, 4, 0}) {
    std::filesystem::resize_file(file, size);
    refused("transformer weights cut to " + std::to_string(size) + " bytes",
            Arguments{"x", "--model", "model"} + kTiny, 2, "diffusion_pytorch_model.safetensors");
  }
}

}  // namespace
}  // namespace dif::test

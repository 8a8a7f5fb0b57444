#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/paths.h"

/// Runs the built programs as a user does.
namespace dif::test {

struct Finished {
  int status = -1;               ///< exit status; 128 + signal when a signal ended it
  std::string out;               ///< stdout
  std::string err;               ///< stderr
  std::uint64_t peak_bytes = 0;  ///< most memory that was resident
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A started program. Its stdin is empty; its folder is a scratch folder of its own unless `folder` is given.
class Running {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  /// `tool` is the name of a program beside the test program ("dif", "difrun").
  Running(const std::string& tool, std::vector<std::string> arguments,
          const std::filesystem::path& folder = {}, const Environment& environment = {}) {
    const std::filesystem::path program = bin_dir() / tool;
    arguments.insert(arguments.begin(), program.string());
    std::vector<char*> argv, envp;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<std::string> variables = inherited(environment);
    for (std::string& variable : variables) envp.push_back(variable.data());
    envp.push_back(nullptr);

    const std::filesystem::path work = folder.empty() ? scratch_.path() : folder;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addchdir_np(&actions, work.c_str());
    const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("cannot start " + program.string());
  }
  ~Running() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void send(int signal) { kill(pid_, signal); }

  /// Waits until stderr contains `part`; false when that takes longer than 60 s or the program has ended.
  bool wait_for_stderr(const std::string& part) {
    for (int i = 0; i < 6000; ++i) {
      if (read_text(err_).find(part) != std::string::npos) return true;
      siginfo_t info = {};
      if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
        break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return read_text(err_).find(part) != std::string::npos;
  }

  Finished wait() {
    int status = 0;
    rusage usage = {};
    wait4(pid_, &status, 0, &usage);
    pid_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out_),
            read_text(err_), static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
  }

 private:
  std::vector<std::string> inherited(Environment changes) const {
    // What a run keeps for the next one stays out of the user's cache, and is gone with this object.
    if (std::ranges::find(changes, "DIF_CACHE_DIR", &Environment::value_type::first) == changes.end())
      changes.emplace_back("DIF_CACHE_DIR", (scratch_ / "cache").string());
    std::vector<std::string> result;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string text = *variable;
      bool changed = false;
      for (const auto& [name, value] : changes) changed |= text.starts_with(name + "=");
      if (!changed) result.push_back(text);
    }
    for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
    return result;
  }

  ScratchDir scratch_;
  std::filesystem::path out_ = scratch_ / "stdout", err_ = scratch_ / "stderr";
  pid_t pid_ = 0;
};

inline Finished run_program(const std::string& tool, std::vector<std::string> arguments,
                            const std::filesystem::path& folder = {},
                            const Running::Environment& environment = {}) {
  return Running(tool, std::move(arguments), folder, environment).wait();
}

}  // namespace dif::test

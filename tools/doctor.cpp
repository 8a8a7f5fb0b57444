#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/bundled.h"
#include "cli/command.h"
#include "cli/machine.h"
#include "cli/options.h"
#include "cli/telemetry.h"
#include "frontends/model.h"
#include "io/json.h"
#include "ir/printer.h"
#include "runtime/backend_library.h"
#include "tools.h"

namespace dif::tools {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

enum class Verdict { kGood, kNote, kProblem };

/// One line of the screen.
struct Finding {
  std::string what;
  Verdict verdict = Verdict::kGood;
  std::string found;
  std::string advice;  ///< what to do; empty when nothing needs doing
};

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "ok";
    case Verdict::kNote:
      return "note";
    case Verdict::kProblem:
      return "PROBLEM";
  }
  return "?";
}

std::string bytes(std::uint64_t amount) {
  return ir::amount_text(static_cast<double>(amount), "B");
}

class Doctor {
 public:
  /// Exit 0 when `dif generate` can draw here.
  Status examine(const cli::ReportOptions& report) {
    build();
    processor();
    memory();
    backends();
    model();
    cache();
    if (report.wanted()) DIF_TRY(report.write(document()));
    if (!report.json) DIF_TRY(cli::print_result(screen()));
    if (can_generate()) return ok();
    return fail(ErrorCode::kUnavailable, "dif generate cannot draw here: {}", what_is_missing());
  }

 private:
  void add(Finding finding) { findings_.push_back(std::move(finding)); }

  void build() {
#ifdef __SANITIZE_ADDRESS__
    const char* kind = ", with sanitizers";
#elif defined(NDEBUG)
    const char* kind = "";
#else
    const char* kind = ", debug";
#endif
    add({"build", Verdict::kGood,
         fmt::format("Diffusion Compiler {}, {}{}, glibc {}, in {}", DIF_VERSION, compiler(), kind,
                     gnu_get_libc_version(), cli::program_folder().string()),
         ""});
  }

  static std::string compiler() {
#ifdef __clang__
    return fmt::format("clang {}.{}", __clang_major__, __clang_minor__);
#else
    return fmt::format("gcc {}.{}", __GNUC__, __GNUC_MINOR__);
#endif
  }

  void processor() {
    const std::string name = machine_.processor.empty() ? "unknown processor" : machine_.processor;
    add({"processor", Verdict::kGood,
         fmt::format("{}, {} of {} CPUs usable, {}", name, machine_.cpus_usable, machine_.cpus_online,
                     fmt::join(machine_.features, " ")),
         ""});
  }

  void memory() {
    const std::string limit =
        machine_.memory_limit_bytes == 0
            ? ""
            : fmt::format(", control group limit {}", bytes(machine_.memory_limit_bytes));
    constexpr std::uint64_t kLittle = 1ULL << 30;
    const bool little = machine_.memory_available_bytes < kLittle;
    add({"memory", little ? Verdict::kNote : Verdict::kGood,
         fmt::format("{}, {} available{}", bytes(machine_.memory_bytes),
                     bytes(machine_.memory_available_bytes), limit),
         little ? "large pictures will not fit" : ""});
  }

  void backends() {
    const std::vector<std::string> names = runtime::available_backends();
    for (const std::string& name : names) {
      const auto library = runtime::BackendLibrary::load_by_name(name);
      if (!library) {
        add({"backend " + name, Verdict::kProblem, library.error().message,
             "build it again, or remove the file"});
        continue;
      }
      const auto probe = (*library)->probe();
      if (!probe) {
        add({"backend " + name, Verdict::kProblem, probe.error().message, ""});
        continue;
      }
      const std::string text = probe_text(name, *probe);
      const ordered_json& document = probes_[name];
      if (document.is_object() && document.contains("unavailable")) {
        const ordered_json& reason = document["unavailable"];
        add({"backend " + name, Verdict::kNote, reason.is_string() ? reason.get<std::string>() : text, ""});
        continue;
      }
      add({"backend " + name, Verdict::kGood, text, ""});
      computes_ |= name != "null";
      fast_ |= name != "null" && name != "reference";
    }
    if (!computes_)
      add({"backends", Verdict::kProblem, "no libdif_NAME.so that computes beside libdif.so",
           "build all targets, unpack the whole bundle, or name their folder in DIF_BACKEND_DIR"});
    else if (!fast_)
      add({"backends", Verdict::kNote, "only the reference backend, which is slow",
           "build or install libdif_cpu.so"});
  }

  /// The devices' names and the libraries of a probe document; a plug-in's document is not ours, so anything
  /// may lack.
  std::string probe_text(const std::string& name, const std::string& probe) {
    ordered_json parsed = ordered_json::parse(probe, nullptr, false);
    std::string text;
    const auto collect = [&](const char* list) {
      if (!parsed.is_object() || !parsed.contains(list) || !parsed[list].is_array()) return;
      for (const ordered_json& entry : parsed[list]) {
        if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string()) continue;
        if (entry["name"] == "driver" && !text.empty()) continue;  // its devices have said it
        text += fmt::format("{}{}", text.empty() ? "" : ", ", entry["name"].get<std::string>());
        for (const char* key : {"version", "driver"})
          if (entry.contains(key) && entry[key].is_string())
            text += (*key == 'd' ? ", driver " : " ") + entry[key].get<std::string>();
      }
    };
    collect("devices");
    collect("libraries");
    probes_[name] = parsed.is_discarded() ? ordered_json(probe) : std::move(parsed);
    return text.empty() ? "loads" : text;
  }

  void model() {
    const auto folder = cli::bundled_model();
    if (!folder) {
      add({"model", Verdict::kProblem, folder.error().message, "name a folder in DIF_MODEL or with --model"});
      return;
    }
    const auto model = frontends::open_model(*folder);
    if (!model) {
      add({"model", Verdict::kProblem, model.error().message, "restore models/emoji-klein"});
      return;
    }
    model_ = true;
    add({"model", Verdict::kGood,
         fmt::format("{} ({}) in {}", (*model)->name(), (*model)->family(), folder->string()), ""});
  }

  void cache() {
    const fs::path folder = cli::cache_folder();
    const std::string advice = "name a writable folder in DIF_CACHE_DIR";
    if (folder.empty()) {
      add({"cache", Verdict::kNote, "neither DIF_CACHE_DIR, XDG_CACHE_HOME nor HOME is set", advice});
      return;
    }
    // Nothing is created: the nearest folder that exists must be writable.
    fs::path existing = fs::absolute(folder);
    std::error_code ignored;
    while (!fs::exists(existing, ignored) && existing.has_parent_path() && existing != existing.root_path())
      existing = existing.parent_path();
    const bool writable = fs::is_directory(existing, ignored) && access(existing.c_str(), W_OK | X_OK) == 0;
    add({"cache", writable ? Verdict::kGood : Verdict::kNote,
         fmt::format("{}{}", folder.string(),
                     writable ? "" : fmt::format(": {} cannot be written", existing.string())),
         writable ? "" : advice});
  }

  bool can_generate() const {
    return computes_ && model_;
  }

  std::string what_is_missing() const {
    if (!computes_ && !model_) return "there is no backend that computes and no model";
    return computes_ ? "there is no model" : "there is no backend that computes";
  }

  std::string screen() const {
    std::string text;
    for (const Finding& finding : findings_) {
      text += fmt::format("{:<18} {:<8} {}\n", finding.what, word(finding.verdict), finding.found);
      if (!finding.advice.empty()) text += fmt::format("{:<18} {:<8} -> {}\n", "", "", finding.advice);
    }
    return text + (can_generate() ? "\ndif generate \"a red apple\" -o apple.png works here.\n"
                                  : "\ndif generate does not work here.\n");
  }

  std::string document() const {
    ordered_json result = cli::telemetry_document("doctor");
    result["can_generate"] = can_generate();
    result["machine"] = {{"processor", machine_.processor},
                         {"features", machine_.features},
                         {"cpus_online", machine_.cpus_online},
                         {"cpus_usable", machine_.cpus_usable},
                         {"memory_bytes", machine_.memory_bytes},
                         {"memory_limit_bytes", machine_.memory_limit_bytes},
                         {"memory_available_bytes", machine_.memory_available_bytes}};
    result["findings"] = ordered_json::array();
    for (const Finding& finding : findings_)
      result["findings"].push_back({{"what", finding.what},
                                    {"verdict", word(finding.verdict)},
                                    {"found", finding.found},
                                    {"advice", finding.advice}});
    result["backends"] = probes_;
    return io::json_text(result);
  }

  cli::Machine machine_ = cli::read_machine();
  std::vector<Finding> findings_;
  ordered_json probes_ = ordered_json::object();
  bool computes_ = false, fast_ = false, model_ = false;
};

int run(int argc, char** argv) {
  cli::Command command("dif doctor", "Say what works here, what does not, and what to do about it.");
  const cli::ReportOptions report(command);
  command.add_examples("  dif doctor\n  dif doctor --json\n");
  return cli::run_tool(
      command, argc, argv, [&] { return Doctor().examine(report); }, cli::WithoutArguments::kRun);
}

}  // namespace

const cli::Tool k_doctor = {"doctor", "Help and diagnosis",
                            "say what works here and what to do about the rest", run};

}  // namespace dif::tools

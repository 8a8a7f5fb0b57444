#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/streaming_options.h"
#include "cli/telemetry.h"
#include "cli/tool.h"
#include "execution_choices.h"
#include "io/json.h"
#include "io/weight_bundle.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "opt/absorb_linear_bias.h"
#include "output_files.h"
#include "pipelines/operation_times.h"
#include "pipelines/program_bindings.h"
#include "refused_options.h"
#include "runtime/finite.h"
#include "tools.h"

namespace dif::tools {

namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMaxIterations = 1'000'000;

const std::vector<MissingFeature> kMissing = {
    {"kernels of CUTLASS", {}, {"--cutlass-linear"}},
    {"W8A8 linears",
     {"--w8a8-tail-copy-stream"},
     {"--h3-w8a8-cache", "--h3-w8a8-layer", "--h3-w8a8-resident-layers"}},
    {"INT8 projections",
     {"--h3-int8-cublaslt", "--h3-int8-cublaslt-tune", "--h3-int8-cutlass-scaled-fc1",
      "--h3-int8-cutlass-scaled-all", "--h3-int8-compact-adaln"},
     {"--h3-convrot-int8-checkpoint", "--h3-convrot-int8-layer", "--h3-convrot-int8-resident-layers",
      "--h3-int8-mlp-chunk-rows", "--h3-int8-cublaslt-rank"}},
    {"INT8 weights", {}, {"--h3-groupwise-cache", "--h3-groupwise-layer"}},
    {"precomputed modulation",
     {},
     {"--h3-modulation-cache", "--h3-modulation-input", "--h3-modulation-layer",
      "--h3-modulation-source-index", "--h3-modulation-steps", "--h3-modulation-total-layers"}},
    {"INT8 attention", {}, {"--h3-ck-attention-dso", "--h3-int8-attention-layers"}},
};

struct Options {
  std::string program, bundle;
  std::vector<std::string> inputs, outputs;
  std::vector<std::int64_t> absorbing;  ///< linears that take the bias that is added to them
  std::int64_t warmups = 0, iterations = 1, sessions = 1;
  bool verify_shards = false, trace_ops = false, why = false, allow_nonfinite = false, map_inputs = false,
       profile_pipeline = false;
};

class Run {
 public:
  Run(const Options& options, const cli::BackendOptions& backend, const cli::StreamingOptions& streaming,
      const ExecutionChoices& choices, const cli::ReportOptions& report)
      : options_(options), backend_(backend), streaming_(streaming), choices_(choices), report_(report) {}

  Status run() {
    DIF_ASSIGN(program_, ir::read_program(options_.program));
    DIF_TRY(check_trace_file());
    DIF_TRY(phase("inputs", [&] { return read_bindings(); }));
    DIF_TRY(phase("constants", [&] { return open_constants(); }));
    DIF_TRY(absorb_biases());  // behind that: a bundle is for the program of the file
    DIF_TRY(prepare());
    DIF_TRY(phase("runs", [&] { return execute(); }));
    DIF_TRY(phase("outputs", [&] { return store(); }));
    DIF_TRY(show());
    return check_finite();
  }

 private:
  /// Notes how long a part of the whole takes.
  template <class Body>
  Status phase(const char* name, Body&& body) {
    const auto start = std::chrono::steady_clock::now();
    Status status = body();
    phases_.push_back({{"phase", name}, {"seconds", seconds_since(start)}});
    return status;
  }

  Status read_bindings() {
    std::vector<TensorArgument> arguments;
    for (const std::string& text : options_.inputs) {
      DIF_ASSIGN(TensorArgument argument, parse_tensor_argument("--input", text));
      arguments.push_back(std::move(argument));
    }
    for (const std::string& text : options_.outputs) {
      DIF_ASSIGN(TensorArgument argument, parse_tensor_argument("--output", text));
      DIF_ASSIGN(const std::size_t index, find_output(program_, argument.id));
      targets_.push_back({index, argument.file});
    }
    DIF_TRY(check_targets());
    if (options_.map_inputs) {
      DIF_ASSIGN(MappedInputs mapped, MappedInputs::open(program_, arguments));
      mapped_ = std::move(mapped);
    } else {
      DIF_ASSIGN(inputs_, read_inputs(program_, arguments));
    }
    for (const ir::Output& output : program_.outputs)
      outputs_.emplace_back(program_.type(output.value).dtype, program_.type(output.value).shape);
    return ok();
  }

  /// Tensors of one archive are one file.
  Status check_targets() const {
    std::vector<OutputFile> files = {{"--report", report_.report}};
    std::set<std::string> archives, tensors;
    for (const Target& target : targets_) {
      const std::size_t separator = target.file.find("::");
      const bool is_archive = separator != std::string::npos;
      if (!tensors.insert(target.file).second)
        return invalid_input("two tensors would be written to {}", target.file);
      const std::string path = target.file.substr(0, separator);
      if (!is_archive || archives.insert(path).second)
        files.push_back({fmt::format("--output {}", program_.outputs[target.output].name), path});
    }
    return check_outputs(files);
  }

  Status open_constants() {
    if (program_.constants.empty()) return ok();
    if (options_.bundle.empty())
      return invalid_input("program {} has {} constants; bind them with --weight-bundle FILE.difbind",
                           program_.name, program_.constants.size());
    DIF_ASSIGN(io::WeightBundle bundle,
               io::open_weight_bundle(options_.bundle, {.verify_shards = options_.verify_shards}));
    bundle_ = std::move(bundle);
    DIF_ASSIGN(constants_, bind_constants(program_, *bundle_));
    return ok();
  }

  Status absorb_biases() {
    for (const std::int64_t linear : options_.absorbing) {
      auto absorbed = opt::absorb_linear_bias(program_, static_cast<ir::OpId>(linear));
      if (!absorbed) return with_context(std::move(absorbed.error()), "--absorb-linear-bias {}", linear);
      absorbed_.push_back(
          {{"linear", absorbed->linear}, {"add", absorbed->add}, {"bias", value_name(absorbed->bias)}});
    }
    return ok();
  }

  std::string value_name(ir::ValueId value) const {
    const std::string& name = program_.values[value].name;
    return name.empty() ? fmt::format("%{}", value) : name;
  }

  Status prepare() {
    runtime::ContextOptions context_options;
    if (options_.trace_ops) context_options.trace = [this](const dif_trace_event& event) { record(event); };
    DIF_TRY(streaming_.apply(context_options));
    std::uint64_t io_bytes = 0;
    for (const ir::ValueId input : program_.inputs) io_bytes += program_.type(input).bytes();
    for (const ir::Output& output : program_.outputs) io_bytes += program_.type(output.value).bytes();
    DIF_TRY(streaming_.check_pinned_io(io_bytes));
    DIF_ASSIGN(const runtime::ExecutionOptions execution,
               choices_.options(program_, backend_.cache_folder()));
    DIF_TRY(phase("device", [&]() -> Status {
      DIF_ASSIGN(context_, backend_.create(std::move(context_options), &choice_));
      return ok();
    }));
    choices_.warn_unused(context_->library().name());
    streaming_.warn_unused(context_->library().name());
    const auto start = std::chrono::steady_clock::now();
    DIF_TRY(phase("prepare", [&]() -> Status {
      DIF_ASSIGN(prepared_, runtime::PreparedProgram::prepare(context_, program_, constants_, execution));
      return ok();
    }));
    prepare_seconds_ = seconds_since(start);
    DIF_ASSIGN(memory_, prepared_->report());
    return ok();
  }

  std::vector<runtime::Binding> bindings(std::vector<io::HostTensor>& tensors) {
    std::vector<runtime::Binding> result;
    for (io::HostTensor& tensor : tensors)
      result.push_back(runtime::Binding::of({tensor.dtype, tensor.shape}, tensor.data));
    return result;
  }

  std::vector<runtime::Binding> input_bindings() { return mapped_ ? mapped_->bindings() : bindings(inputs_); }

  Status execute() {
    const auto ins = input_bindings(), outs = bindings(outputs_);
    for (std::int64_t session = 0; session < options_.sessions; ++session)
      for (std::int64_t i = -options_.warmups; i < options_.iterations; ++i) {
        timed_ = i >= 0;
        DIF_ASSIGN(const runtime::LaunchCounts before, prepared_->launches());
        const auto start = std::chrono::steady_clock::now();
        if (Status status = prepared_->run(ins, outs); !status) return located(std::move(status.error()));
        if (timed_) run_seconds_.push_back(seconds_since(start));
        DIF_ASSIGN(const runtime::LaunchCounts after, prepared_->launches());
        launches_ = after.since(before);
      }
    DIF_ASSIGN(memory_, prepared_->report());
    if (mapped_) DIF_TRY(mapped_->check());
    return bundle_ ? bundle_->check() : ok();
  }

  /// Adds the module of the operation that failed.
  Status located(Error error) const {
    const auto op = prepared_->failed_operation();
    const auto& modules = program_.provenance.op_modules;
    if (op && *op < modules.size()) error.message += ", module " + modules[*op];
    return tl::unexpected<Error>(std::move(error));
  }

  Status store() const {
    std::vector<TensorToStore> tensors;
    for (const Target& target : targets_) tensors.push_back({target.file, &outputs_[target.output]});
    return store_tensors(tensors);
  }

  /// After the outputs were written: a file with NaN helps to find out where it came from.
  Status check_finite() {
    if (options_.allow_nonfinite) return ok();
    const bool all = std::ranges::all_of(outputs_, [](const io::HostTensor& tensor) {
      return runtime::all_finite(tensor.dtype, tensor.data);
    });
    if (all) return ok();
    Status status = prepared_->run(input_bindings(), bindings(outputs_), {.check_operations = true});
    if (!status) return located(std::move(status.error()));
    return fail(ErrorCode::kNonFinite, "an output holds NaN or infinity");
  }

  void record(const dif_trace_event& event) {
    if (timed_) op_times_.record(event);
  }

  // --- what is shown --------------------------------------------------------------------------------------

  static double median(std::span<const double> seconds) {
    std::vector<double> sorted(seconds.begin(), seconds.end());
    std::ranges::sort(sorted);
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 != 0 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  static double best(std::span<const double> seconds) { return *std::ranges::min_element(seconds); }
  double median() const { return median(run_seconds_); }
  double best() const { return best(run_seconds_); }

  Status show() const {
    if (report_.wanted()) DIF_TRY(report_.write(io::json_text(document())));
    if (!trace_file().empty()) DIF_TRY(append_to_trace_file(document()));
    if (report_.json) return ok();
    const auto bytes = [](std::uint64_t amount) { return ir::amount_text(static_cast<double>(amount), "B"); };
    std::string text = fmt::format("program {} on {}\n", program_.name, choice_);
    text += fmt::format(
        "prepare {:.6f} s; arena {}, workspace {}, constants {} resident, {} streamed, {} prepacked\n",
        prepare_seconds_, bytes(memory_.arena_bytes), bytes(memory_.workspace_bytes),
        bytes(memory_.resident_bytes), bytes(memory_.streamed_bytes), bytes(memory_.prepacked_bytes));
    text += fmt::format("run     {:.6f} s best, {:.6f} s median of {}; {}/s\n", best(), median(),
                        run_seconds_.size(), ir::amount_text(ir::flops(program_) / best(), "FLOP"));
    for (const ordered_json& one : absorbed_)
      text += fmt::format("operation {} takes {} as its bias, which operation {} added\n",
                          one["linear"].dump(), one["bias"].get<std::string>(), one["add"].dump());
    for (const Target& target : targets_) {
      const ir::Output& output = program_.outputs[target.output];
      text += fmt::format("{} {} -> {}\n", output.name, program_.type(output.value), target.file);
    }
    if (options_.sessions > 1) text += sessions_text();
    if (options_.profile_pipeline) text += pipeline_text();
    if (options_.trace_ops)
      text += fmt::format("\n{}", operation_times_text(op_times_.of(program_, memory_)));
    if (options_.why) text += why_text();
    return cli::print_result(text);
  }

  /// The timed runs of each session.
  std::vector<std::span<const double>> sessions() const {
    std::vector<std::span<const double>> result;
    const auto n = static_cast<std::size_t>(options_.iterations);
    for (std::size_t first = 0; first < run_seconds_.size(); first += n)
      result.push_back(std::span(run_seconds_).subspan(first, n));
    return result;
  }

  std::string sessions_text() const {
    std::string text;
    std::size_t number = 0;
    for (const std::span<const double> seconds : sessions())
      text += fmt::format("session {}: {:.6f} s best, {:.6f} s median of {}\n", ++number, best(seconds),
                          median(seconds), seconds.size());
    return text;
  }

  /// Where the whole time went, and how the weights came.
  ordered_json pipeline() const {
    ordered_json result = {{"phases", phases_}};
    if (const ordered_json found = details(); found.contains("loading")) result["loading"] = found["loading"];
    result["streamed_bytes_per_run"] = memory_.streamed_bytes;
    result["direct_bytes"] = memory_.direct_bytes;
    result["mapped_input_bytes"] = mapped_ ? mapped_->mapped_bytes() : 0;
    return result;
  }

  std::string pipeline_text() const {
    std::string text = "\n";
    for (const ordered_json& entry : phases_)
      text +=
          fmt::format("{:>12.6f} s  {}\n", entry["seconds"].get<double>(), entry["phase"].get<std::string>());
    const ordered_json found = pipeline();
    if (found.contains("loading")) text += fmt::format("loading {}\n", found["loading"].dump());
    return text + fmt::format("streamed {} bytes a run; {} bytes read past the page cache\n",
                              memory_.streamed_bytes, memory_.direct_bytes);
  }

  std::string_view op_name(ir::OpId op) const {
    return op < program_.ops.size() ? program_.ops[op].def->name : std::string_view("?");
  }

  ordered_json details() const {
    ordered_json parsed = ordered_json::parse(memory_.details, nullptr, false);
    return parsed.is_object() ? parsed : ordered_json::object();
  }

  static std::string declined_text(const ordered_json& entry) {
    std::string text;
    if (entry.contains("declined") && entry["declined"].is_array())
      for (const ordered_json& reason : entry["declined"])
        if (reason.is_string()) text += fmt::format("  declined {}\n", reason.get<std::string>());
    return text;
  }

  /// The kernel of each operation, and what the faster ones that declined said. A plug-in's document is not
  /// ours: what does not look as expected is left out.
  std::string why_text() const {
    const ordered_json found = details();
    std::string text = "\n";
    if (!found.contains("operations") || !found["operations"].is_array())
      return text + fmt::format("backend {} says nothing about its kernels\n", context_->library().name());
    for (const ordered_json& operation : found["operations"]) {
      if (!operation.is_object() || !operation.contains("operation") ||
          !operation["operation"].is_number_unsigned())
        continue;
      const auto op = operation["operation"].get<std::uint32_t>();
      text += fmt::format("operation {} {}: {}{}\n", op, op_name(op),
                          operation.value("kernel", ordered_json("?")).dump(),
                          operation.contains("folded")  ? ", folded when prepared"
                          : operation.contains("group") ? ", in group " + operation["group"].dump()
                                                        : "");
      text += declined_text(operation);
    }
    if (!found.contains("groups") || !found["groups"].is_array()) return text;
    std::size_t index = 0;
    for (const ordered_json& group : found["groups"]) {
      if (!group.is_object()) continue;
      text += fmt::format("group {} of operations {}: {}\n", index++,
                          group.value("operations", ordered_json()).dump(),
                          group.value("kernel", ordered_json("every kernel declined")).dump());
      text += declined_text(group);
    }
    return text;
  }

  ordered_json document() const {
    ordered_json result = cli::telemetry_document("runtime-trace");
    result["program"] = {{"name", program_.name},
                         {"fingerprint", ir::fingerprint(program_)},
                         {"operations", program_.ops.size()},
                         {"flops", ir::flops(program_)}};
    if (!absorbed_.empty()) result["program"]["absorbed_biases"] = absorbed_;
    result["backend"] = {{"name", context_->library().name()}, {"choice", choice_}};
    result["execution"] = {{"preparation_reported", true}, {"prepare_seconds", prepare_seconds_},
                           {"warmups", options_.warmups},  {"run_seconds", run_seconds_},
                           {"minimum_seconds", best()},    {"median_seconds", median()}};
    for (const std::span<const double> seconds : sessions())
      result["execution"]["sessions"].push_back(
          {{"minimum_seconds", best(seconds)}, {"median_seconds", median(seconds)}});
    result["run_launch_telemetry"] = cli::launch_telemetry(launches_);
    if (options_.profile_pipeline) result["pipeline"] = pipeline();
    result["memory"] = {
        {"arena_bytes", memory_.arena_bytes},         {"workspace_bytes", memory_.workspace_bytes},
        {"resident_bytes", memory_.resident_bytes},   {"streamed_bytes", memory_.streamed_bytes},
        {"prepacked_bytes", memory_.prepacked_bytes}, {"pinned_host_bytes", memory_.pinned_host_bytes},
        {"host_operations", memory_.host_operations}};
    result["outputs"] = ordered_json::array();
    for (const Target& target : targets_)
      result["outputs"].push_back({{"name", program_.outputs[target.output].name}, {"file", target.file}});
    if (options_.trace_ops) result["operations"] = operation_times_json(op_times_.of(program_, memory_));
    result["details"] = details();
    return result;
  }

  struct Target {
    std::size_t output = 0;
    std::string file;
  };

  const Options& options_;
  const cli::BackendOptions& backend_;
  const cli::StreamingOptions& streaming_;
  const ExecutionChoices& choices_;
  const cli::ReportOptions& report_;
  ir::Program program_;
  std::vector<Target> targets_;
  std::vector<io::HostTensor> inputs_, outputs_;
  std::optional<MappedInputs> mapped_;  ///< instead of inputs_
  std::optional<io::WeightBundle> bundle_;
  std::vector<runtime::ConstantBinding> constants_;
  std::string choice_;
  std::shared_ptr<runtime::Context> context_;
  std::unique_ptr<runtime::PreparedProgram> prepared_;
  runtime::PreparedReport memory_;
  double prepare_seconds_ = 0;
  std::vector<double> run_seconds_;
  OperationTimes op_times_;  ///< of the timed runs
  bool timed_ = false;
  runtime::LaunchCounts launches_;  ///< of the last run
  ordered_json phases_ = ordered_json::array(), absorbed_ = ordered_json::array();
};

int run(int argc, char** argv) {
  cli::Command command("difrun", "Prepare and run one program.");
  Options o;
  command.add_option("--program", o.program, "FILE.difir").required();
  command.add_option("--weight-bundle", o.bundle, "FILE.difbind that holds the program's constants");
  command.add_flag("--verify-shards", o.verify_shards, "recompute the digest of every shard of the bundle");
  command
      .add_option("--input", o.inputs,
                  "ID=FILE for each input: ID is its name or value number, FILE is x.diftensor or "
                  "shard.safetensors::TENSOR")
      .one_at_a_time();
  command.add_option("--output", o.outputs, "ID=FILE for each output to write, as --input").one_at_a_time();
  command.add_option("--warmups", o.warmups, "untimed runs first")
      .show_default()
      .expect_whole(0, kMaxIterations);
  command.add_option("--iterations", o.iterations, "timed runs")
      .show_default()
      .expect_whole(1, kMaxIterations);
  command
      .add_option("--session-runs", o.sessions,
                  "how often warm-ups and timed runs are repeated with the one prepared program")
      .show_default()
      .expect_whole(1, kMaxIterations);
  command
      .add_option("--absorb-linear-bias", o.absorbing,
                  "operation, a linear without bias, that takes the vector that is added to "
                  "its result as its bias: one rounding less")
      .one_at_a_time()
      .expect_whole(0, kMostOperations);
  command.add_flag("--map-inputs", o.map_inputs,
                   "use inputs where their files are mapped, without reading them first");
  command.add_flag("--profile-pipeline", o.profile_pipeline,
                   "time of each part of the whole, and how the weights reached the device");
  command.add_flag("--trace-ops", o.trace_ops, "time of each operation, slowest first");
  command.add_flag("--why", o.why, "kernel of each operation, and why others declined");
  command.add_flag("--allow-nonfinite", o.allow_nonfinite, "NaN and infinity in an output are no failure");
  const cli::BackendOptions backend(command);
  const cli::StreamingOptions streaming(command);
  const ExecutionChoices choices(command, {});
  const cli::ReportOptions report(command);
  const RefusedOptions refused(command, kMissing);
  command.add_examples(
      "  dif generate \"red heart\" --emit-programs chain\n"
      "  difrun --program chain/decode.difir --weight-bundle chain/decode.difbind \\\n"
      "         --input latents=latents.diftensor --output image=image.diftensor\n"
      "  difrun --program step.difir --weight-bundle step.difbind --input latents=l.diftensor ... \\\n"
      "         --warmups 2 --iterations 5 --trace-ops --why\n");
  return cli::run_tool(command, argc, argv, [&]() -> Status {
    DIF_TRY(refused.check());
    return Run(o, backend, streaming, choices, report).run();
  });
}

}  // namespace

const cli::Tool k_difrun = {"difrun", "Execution", "prepare and run one program", run};

}  // namespace dif::tools

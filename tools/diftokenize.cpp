#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/tool.h"
#include "io/file.h"
#include "io/json.h"
#include "text/battery.h"
#include "text/prompt_files.h"
#include "text/tokenizer.h"
#include "tools.h"

namespace dif::tools {

namespace {

struct Options {
  std::string processor, tokenizer_json, tokenizer_config;
  std::string prompt, prompt_file, battery;
  std::string ids_out, diftensor_out, flux2_inputs_out, krea2_inputs_out;
  bool strip_trailing_newline = false, quiet = false;
};

class Tokenize {
 public:
  Tokenize(const cli::Command& command, const Options& options) : command_(command), options_(options) {}

  Status run() {
    DIF_ASSIGN(const text::Tokenizer tokenizer, load());
    if (given("--battery")) return run_battery(tokenizer);
    DIF_ASSIGN(const std::string prompt, read_prompt());
    DIF_ASSIGN(const std::vector<text::TokenId> ids, tokenizer.encode(prompt));
    if (given("--ids-out")) DIF_TRY(text::write_ids(options_.ids_out, ids));
    if (given("--diftensor-out")) DIF_TRY(text::write_id_tensor(options_.diftensor_out, ids));
    if (given("--flux2-inputs-out")) {
      DIF_ASSIGN(const auto encoded, encode(tokenizer, prompt, text::kFlux2Prompt));
      DIF_ASSIGN(const auto negative, encode(tokenizer, "", text::kFlux2Prompt));
      DIF_TRY(text::write_flux2_inputs(options_.flux2_inputs_out, encoded, negative));
    }
    if (given("--krea2-inputs-out")) {
      DIF_ASSIGN(const text::PromptLayout layout, text::krea2_prompt(tokenizer));
      DIF_ASSIGN(const auto encoded, encode(tokenizer, prompt, layout));
      DIF_TRY(text::write_krea2_inputs(options_.krea2_inputs_out, encoded));
    }
    return options_.quiet ? ok() : cli::print_result(fmt::format("{}\n", fmt::join(ids, " ")));
  }

 private:
  bool given(const std::string& option) const { return command_.given(option); }

  Result<text::Tokenizer> load() const {
    if (given("--processor")) return text::load_tokenizer(options_.processor);
    return text::load_tokenizer_files(options_.tokenizer_json, options_.tokenizer_config);
  }

  Result<std::string> read_prompt() const {
    if (!given("--prompt-file")) return options_.prompt;
    DIF_ASSIGN(std::string text, io::read_text_file(options_.prompt_file, text::kMaxTextBytes));
    if (options_.strip_trailing_newline && text.ends_with('\n')) {
      text.pop_back();
      if (text.ends_with('\r')) text.pop_back();
    }
    return text;
  }

  Result<text::EncodedPrompt> encode(const text::Tokenizer& tokenizer, const std::string& prompt,
                                     const text::PromptLayout& layout) const {
    DIF_ASSIGN(text::EncodedPrompt encoded, text::encode_prompt(tokenizer, prompt, layout));
    const std::string warning = text::truncation_warning(encoded);
    if (!warning.empty()) cli::print_warning(warning);
    return encoded;
  }

  Status run_battery(const text::Tokenizer& tokenizer) const {
    DIF_ASSIGN(const io::JsonDocument document, io::JsonDocument::read(options_.battery));
    DIF_ASSIGN(const text::BatteryReport report, text::run_battery(tokenizer, document));
    std::string text;
    for (const std::string& failure : report.failures) text += failure + "\n";
    text += fmt::format("{}: {} of {} cases agree\n", report.n_failed == 0 ? "PASS" : "FAIL",
                        report.n_cases - report.n_failed, report.n_cases);
    if (!options_.quiet) DIF_TRY(cli::print_result(text));
    if (report.n_failed == 0) return ok();
    return fail(ErrorCode::kAnswerNo, "{}: {} of {} cases have other ids", options_.battery, report.n_failed,
                report.n_cases);
  }

  const cli::Command& command_;
  const Options& options_;
};

int run(int argc, char** argv) {
  cli::Command command("diftokenize",
                       "Turn text into the token ids of a model, or check a tokenizer against known ids.");
  Options o;
  cli::Command tokenizer = command.add_alternatives("Tokenizer");
  tokenizer.add_option("--processor", o.processor, "folder with tokenizer.json and tokenizer_config.json");
  const cli::Option json = tokenizer.add_option("--tokenizer-json", o.tokenizer_json, "tokenizer.json");
  command.add_option("--tokenizer-config", o.tokenizer_config, "the tokenizer_config.json that belongs to it")
      .needs(json);
  cli::Command input = command.add_alternatives("Input");
  const cli::Option file = input.add_option("--prompt-file", o.prompt_file, "UTF-8 text (/dev/stdin works)");
  input.add_option("--prompt", o.prompt, "the text itself");
  const cli::Option battery = input.add_option(
      "--battery", o.battery, "JSON list of {\"text\", \"ids\"}: compare, exit 1 if one differs");
  command
      .add_flag("--strip-trailing-newline", o.strip_trailing_newline,
                "drop the last line end of the prompt file")
      .needs(file);
  command.add_option("--ids-out", o.ids_out, "write the ids of the text as a JSON list").excludes(battery);
  command.add_option("--diftensor-out", o.diftensor_out, "write the ids of the text as an i32 tensor")
      .excludes(battery);
  command
      .add_option("--flux2-inputs-out", o.flux2_inputs_out,
                  "write the templated, padded ids and masks of the prompt and the empty negative prompt for "
                  "FLUX.2 (safetensors)")
      .excludes(battery);
  command
      .add_option("--krea2-inputs-out", o.krea2_inputs_out,
                  "write the templated, padded ids, their mask and positions for Krea 2 (safetensors)")
      .excludes(battery);
  command.add_flag("--quiet", o.quiet, "print nothing but errors and warnings");
  command.add_examples(
      "  diftokenize --processor MODEL/tokenizer --prompt \"a red apple\"\n"
      "  diftokenize --processor MODEL/tokenizer --prompt-file prompt.txt --flux2-inputs-out "
      "inputs.safetensors\n"
      "  diftokenize --tokenizer-json tokenizer.json --battery cases.json\n");
  return cli::run_tool(command, argc, argv, [&] { return Tokenize(command, o).run(); });
}

}  // namespace

const cli::Tool k_diftokenize = {"diftokenize", "Text", "text to token ids, and tokenizer checks", run};

}  // namespace dif::tools

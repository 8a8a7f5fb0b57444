#include "text/prompt.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "text/prompt_files.h"
#include "text/test_tokenizers.h"

namespace dif::text {
namespace {

/// A row of integers of a fixture, whichever width it is stored in.
std::vector<std::int32_t> integers(const io::SafetensorsFile& file, const std::string& name) {
  const io::TensorRef& tensor = *must(file.require(name));
  std::vector<std::int32_t> values;
  const std::size_t width = dtype_size(tensor.dtype);
  for (std::size_t i = 0; i < tensor.bytes; i += width) {
    std::int64_t value = 0;  // little-endian, not negative
    std::memcpy(&value, tensor.data + i, width);
    values.push_back(static_cast<std::int32_t>(value));
  }
  return values;
}

constexpr PromptLayout kFlux2 = kFlux2Prompt;

io::JsonDocument fixture_json(const std::string& name) {
  return must(io::JsonDocument::read(test::fixture("emoji-klein/" + name)));
}

TEST(Prompt, GivesTheIdsAndMasksOfTheModelsFixtures) {
  int n_cases = 0;
  const auto document = fixture_json("fixtures.json");
  for (const auto& entry : document.value().at("cases")) {
    const auto prompt = entry.at("prompt").get<std::string>();
    const auto file =
        must(io::open_safetensors(test::fixture("emoji-klein/" + entry.at("file").get<std::string>())));
    const auto encoded = must(encode_prompt(bundled_tokenizer(), prompt, kFlux2));
    EXPECT_EQ(encoded.ids, integers(file, "input_ids")) << prompt;
    EXPECT_EQ(encoded.mask, integers(file, "attention_mask")) << prompt;
    EXPECT_EQ(encoded.n_tokens, entry.at("n_tokens").get<std::int64_t>());
    EXPECT_EQ(encoded.n_dropped, 0);
    const auto negative = must(encode_prompt(bundled_tokenizer(), "", kFlux2));
    EXPECT_EQ(negative.ids, integers(file, "negative_input_ids"));
    EXPECT_EQ(negative.mask, integers(file, "negative_attention_mask"));
    EXPECT_EQ(kFlux2.chat.apply(prompt), entry.at("chat_text").get<std::string>());
    ++n_cases;
  }
  EXPECT_GE(n_cases, 3);
}

TEST(Prompt, GivesTheIdsOfTheSettingsFixtures) {
  int n_cases = 0, n_cut = 0;
  const auto file = must(io::open_safetensors(test::fixture("emoji-klein/settings.safetensors")));
  const auto document = fixture_json("more.json");
  for (const auto& entry : document.value().at("settings").at("cases")) {
    const auto encoded =
        must(encode_prompt(bundled_tokenizer(), entry.at("prompt").get<std::string>(), kFlux2));
    const auto name = entry.at("name").get<std::string>();
    EXPECT_EQ(encoded.ids, integers(file, name + ".input_ids")) << name;
    EXPECT_EQ(encoded.n_tokens, entry.at("tokens_before_truncation").get<std::int64_t>()) << name;
    EXPECT_EQ(encoded.n_kept, entry.at("tokens").get<std::int64_t>()) << name;
    n_cut += encoded.n_dropped > 0 ? 1 : 0;
    ++n_cases;
  }
  EXPECT_GE(n_cases, 6);
  EXPECT_EQ(n_cut, 1);
}

TEST(Prompt, CutsOnTheRightAndSaysHowMuch) {
  const auto whole = must(encode_prompt(bundled_tokenizer(), "a red apple", kFlux2));
  const auto cut =
      must(encode_prompt(bundled_tokenizer(), "a red apple", {.chat = kQwen3EmptyThought, .length = 5}));
  EXPECT_EQ(cut.ids, std::vector<std::int32_t>(whole.ids.begin(), whole.ids.begin() + 5));
  EXPECT_EQ(cut.mask, std::vector<std::int32_t>(5, 1));
  EXPECT_EQ(cut.n_tokens, whole.n_tokens);
  EXPECT_EQ(cut.n_kept, 5);
  EXPECT_EQ(cut.n_dropped, whole.n_tokens - 5);
  EXPECT_EQ(truncation_warning(whole), "");
  EXPECT_EQ(
      truncation_warning(cut),
      fmt::format("the prompt has {} tokens with its template, 5 fit: the last {} are not seen by the model",
                  whole.n_tokens, whole.n_tokens - 5));
}

TEST(Prompt, SuffixAfterPaddingIsNeverCut) {
  const PromptLayout layout{.chat = kQwen3VlDescribe, .length = 60, .suffix_after_padding = true};
  const auto suffix = must(bundled_tokenizer().encode(kQwen3VlDescribe.suffix));
  const auto body = must(bundled_tokenizer().encode(std::string(kQwen3VlDescribe.prefix) + "x"));
  ASSERT_GT(body.size(), 60U);
  const auto cut = must(encode_prompt(bundled_tokenizer(), "x", layout));
  ASSERT_EQ(cut.ids.size(), 60 + suffix.size());
  EXPECT_TRUE(std::equal(suffix.begin(), suffix.end(), cut.ids.begin() + 60));
  EXPECT_EQ(cut.n_dropped, static_cast<std::int64_t>(body.size()) - 60);
  EXPECT_EQ(cut.mask, std::vector<std::int32_t>(cut.ids.size(), 1));

  PromptLayout wide = layout;
  wide.length = static_cast<std::int64_t>(body.size()) + 3;
  const auto padded = must(encode_prompt(bundled_tokenizer(), "x", wide));
  EXPECT_EQ(padded.ids[body.size()], 998);
  EXPECT_EQ(padded.mask[body.size()], 0);
  EXPECT_EQ(padded.mask[body.size() + 3], 1);
  EXPECT_EQ(padded.n_kept, static_cast<std::int64_t>(body.size() + suffix.size()));
}

TEST(Prompt, VerbatimAddsNothing) {
  const auto encoded =
      must(encode_prompt(bundled_tokenizer(), "red heart", {.chat = kVerbatim, .length = 4}));
  EXPECT_EQ(encoded.ids, (std::vector<std::int32_t>{609, 428, 998, 998}));
  EXPECT_EQ(encoded.mask, (std::vector<std::int32_t>{1, 1, 0, 0}));
}

TEST(Prompt, RefusesLengthsPromptsAndTokenizersThatCannotServe) {
  EXPECT_TRUE(
      contains(message_of(encode_prompt(bundled_tokenizer(), "x", {.chat = kQwen3EmptyThought, .length = 0})),
               "prompt length 0: expected 1 to 1048576 tokens"));
  EXPECT_FALSE(
      encode_prompt(bundled_tokenizer(), "x", {.chat = kQwen3EmptyThought, .length = (1 << 20) + 1}));
  EXPECT_TRUE(contains(message_of(encode_prompt(bundled_tokenizer(), "ab\xff", kFlux2)),
                       "prompt: byte 0xff at offset 2"));
  const Tokenizer small = must(tokenizer_from(small_tokenizer_json()));
  EXPECT_TRUE(contains(message_of(encode_prompt(small, "x", kFlux2)),
                       "no added token <|im_start|>, <|im_end|>, <think>, </think>, which"));
  EXPECT_TRUE(contains(message_of(encode_prompt(small, "x", {.chat = kVerbatim})), "names no pad_token"));
}

TEST(Prompt, Krea2LeavesTheAskedRowsAndItsPaddingConsumesNoPosition) {
  const auto layout = must(krea2_prompt(bundled_tokenizer(), 20));
  const auto prefix = must(bundled_tokenizer().encode(kQwen3VlDescribe.prefix));
  const auto encoded = must(encode_prompt(bundled_tokenizer(), "red heart", layout));
  EXPECT_EQ(encoded.ids.size(), prefix.size() + 20);
  const auto positions = mask_positions(encoded.mask);
  ASSERT_EQ(positions.size(), encoded.mask.size());
  EXPECT_EQ(positions.front(), 0);
  EXPECT_EQ(positions.back(), encoded.n_tokens - 1);
  EXPECT_EQ(mask_positions({0, 1, 1, 0, 0, 1}), (std::vector<std::int32_t>{0, 0, 1, 1, 1, 2}));
}

TEST(PromptFiles, HoldWhatWasEncoded) {
  const test::ScratchDir dir;
  const auto encoded = must(encode_prompt(bundled_tokenizer(), "red heart", kFlux2));
  const auto negative = must(encode_prompt(bundled_tokenizer(), "", kFlux2));
  ASSERT_TRUE(write_flux2_inputs(dir / "flux2.safetensors", encoded, negative));
  const auto flux2 = must(io::open_safetensors(dir / "flux2.safetensors"));
  EXPECT_EQ(must(flux2.require("input_ids"))->shape, (Shape{1, 512}));
  EXPECT_EQ(must(flux2.require("input_ids"))->dtype, DType::kI64);
  EXPECT_EQ(integers(flux2, "input_ids"), encoded.ids);
  EXPECT_EQ(integers(flux2, "attention_mask"), encoded.mask);
  EXPECT_EQ(integers(flux2, "negative_input_ids"), negative.ids);
  EXPECT_EQ(integers(flux2, "negative_attention_mask"), negative.mask);
  EXPECT_EQ(flux2.find("position_ids"), nullptr);

  ASSERT_TRUE(write_krea2_inputs(dir / "krea2.safetensors", encoded));
  const auto krea2 = must(io::open_safetensors(dir / "krea2.safetensors"));
  EXPECT_EQ(integers(krea2, "position_ids"), mask_positions(encoded.mask));

  const std::vector<TokenId> ids = {609, 428};
  ASSERT_TRUE(write_ids(dir / "ids.json", ids));
  EXPECT_EQ(must(io::read_text_file(dir / "ids.json", 100)), "[609, 428]\n");
  ASSERT_TRUE(write_ids(dir / "none.json", {}));
  EXPECT_EQ(must(io::read_text_file(dir / "none.json", 100)), "[]\n");
  ASSERT_TRUE(write_id_tensor(dir / "ids.diftensor", ids));
  const auto tensor = must(io::read_tensor_file(dir / "ids.diftensor"));
  EXPECT_EQ(tensor.shape, Shape{2});
  EXPECT_TRUE(std::ranges::equal(tensor.as<std::int32_t>(), ids));
}

TEST(ChatTemplate, ControlTokensAreTheTagsOfTheTemplate) {
  EXPECT_EQ(control_tokens(kQwen3EmptyThought),
            (std::vector<std::string>{"<|im_start|>", "<|im_end|>", "<think>", "</think>"}));
  EXPECT_EQ(control_tokens(kVerbatim), std::vector<std::string>{});
  const ChatTemplate odd{.prefix = "a < b > c <<x>", .suffix = "<y"};
  EXPECT_EQ(control_tokens(odd), (std::vector<std::string>{"<<x>", "<x>"}));
}

TEST(ChatTemplate, WarnsOfFilesWithAnotherTemplate) {
  EXPECT_EQ(chat_template_warning(bundled_tokenizer(), kQwen3EmptyThought), "");
  const auto with = [](const char* jinja) {
    return must(tokenizer_from(small_tokenizer_json(), {{"chat_template", jinja}}));
  };
  EXPECT_TRUE(contains(chat_template_warning(with("[INST] {{ m }}"), kQwen3EmptyThought),
                       "does not use <|im_start|>"));
  EXPECT_EQ(chat_template_warning(with("<|im_start|><|im_end|>"), kQwen3EmptyThought), "");
  EXPECT_EQ(chat_template_warning(must(tokenizer_from(small_tokenizer_json())), kQwen3EmptyThought), "");
}

}  // namespace
}  // namespace dif::text

#include <gtest/gtest.h>

#include <cstdlib>

#include "text/prompt.h"
#include "text/test_tokenizers.h"

namespace dif::text {
namespace {

/// The vocabulary of Qwen3 is not ours to commit. These tests exist only when DIF_QWEN_TOKENIZER names a
/// folder with its tokenizer.json (scripts/oracle/tokenizer_battery.py qwen makes one); otherwise they are
/// not counted at all.
std::vector<std::string> qwen_folders() {
  const char* folder = std::getenv("DIF_QWEN_TOKENIZER");
  return folder == nullptr ? std::vector<std::string>{} : std::vector<std::string>{folder};
}

class QwenTokenizer : public ::testing::TestWithParam<std::string> {
 protected:
  const Tokenizer tokenizer_ = must(load_tokenizer(GetParam()));
};

TEST_P(QwenTokenizer, GivesTheIdsOfTheReferenceForTheBattery) {
  expect_battery(tokenizer_, "tokenizer/qwen3.json", 103);
}

/// models.md, section 5.
TEST_P(QwenTokenizer, HasTheKnownControlTokens) {
  EXPECT_EQ(tokenizer_.pad_id(), 151643);
  EXPECT_EQ(tokenizer_.find("<|im_start|>"), 151644);
  EXPECT_EQ(tokenizer_.find("<|image_pad|>"), 151655);
  EXPECT_EQ(tokenizer_.find("</think>"), 151668);
}

/// models.md, section 2.3.
TEST_P(QwenTokenizer, GivesTheTokenCountsOfTheKrea2Template) {
  EXPECT_EQ(must(tokenizer_.encode(kQwen3VlDescribe.prefix)).size(), 34U);
  EXPECT_EQ(must(tokenizer_.encode(kQwen3VlDescribe.suffix)).size(), 5U);
  EXPECT_EQ(must(krea2_prompt(tokenizer_)).length, 541);
}

INSTANTIATE_TEST_SUITE_P(Folder, QwenTokenizer, ::testing::ValuesIn(qwen_folders()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(QwenTokenizer);

}  // namespace
}  // namespace dif::text

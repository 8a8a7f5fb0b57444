#include "cli/streaming_options.h"

#include <gtest/gtest.h>

#include "cli/options.h"

namespace dif::cli {
namespace {

/// What a command line makes of the context, or what it is refused with.
Result<runtime::ContextOptions> parsed(std::vector<std::string> arguments) {
  Command command("test", "");
  const BackendOptions backend(command);
  const StreamingOptions streaming(command);
  const auto request = command.parse(std::move(arguments));
  if (!request) return tl::unexpected<Error>(request.error());
  runtime::ContextOptions options;
  const Status status = streaming.apply(options);
  if (!status) return tl::unexpected<Error>(status.error());
  return options;
}

TEST(StreamingOptions, SizesHaveAUnit) {
  EXPECT_EQ(parse_size_with_unit("--max-vram", "12GiB"), std::uint64_t{12} << 30);
  EXPECT_EQ(parse_size_with_unit("--max-vram", "900MiB"), std::uint64_t{900} << 20);
  EXPECT_EQ(parse_size_with_unit("--max-vram", "7.5GiB"), std::uint64_t{15} << 29);
  for (const char* wrong : {"", "12", "GiB", "-1GiB", "0GiB", "12 GiB", "12gib", "12GiBx", "nanGiB",
                            "1e99GiB", "99999999999999999999GiB"}) {
    const auto size = parse_size_with_unit("--max-vram", wrong);
    ASSERT_FALSE(size) << wrong;
    EXPECT_NE(size.error().message.find("expected a size such as 12GiB or 900MiB"), std::string::npos);
  }
}

TEST(StreamingOptions, AreWhatTheContextGets) {
  const auto options = parsed({"--max-vram", "12GiB", "--host-pinned", "--resident-order", "largest",
                               "--streamed-prefetch-depth", "3", "--streamed-stage-threads", "4",
                               "--streamed-staging-buffers", "8", "--min-free-mib", "100",
                               "--streamed-release-pages", "--serial-streaming", "--resident-plan-mib", "5"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->memory_cap_bytes, std::uint64_t{12} << 30);
  EXPECT_TRUE(options->weights.host_pinned && options->weights.serial && options->weights.release_pages);
  EXPECT_EQ(options->weights.order, plan::ResidentOrder::kLargest);
  EXPECT_EQ(options->weights.prefetch_distance, 3U);
  EXPECT_EQ(options->weights.threads, 4U);
  EXPECT_EQ(options->weights.n_buffers, 8U);
  EXPECT_EQ(options->weights.least_free_bytes, 100U << 20);
  EXPECT_EQ(options->weights.budget_bytes, 5U << 20);
}

TEST(StreamingOptions, PinnedInputsAndOutputsCountBesideTheStagingBuffers) {
  const auto check = [](std::vector<std::string> arguments, std::uint64_t bytes) {
    Command command("test", "");
    const BackendOptions backend(command);
    const StreamingOptions streaming(command);
    EXPECT_TRUE(command.parse(std::move(arguments)));
    return streaming.check_pinned_io(bytes);
  };
  constexpr std::uint64_t kMiB = 1 << 20;
  const std::vector<std::string> pinned = {"--pinned-io", "--streamed-pinned-budget-mib", "130"};
  EXPECT_TRUE(parsed(pinned)->pinned_io);
  EXPECT_TRUE(check(pinned, 2 * kMiB)) << "128 MiB of staging buffers";
  const Status refused = check(pinned, 2 * kMiB + 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("2097153 bytes of inputs and outputs beside 128 MiB"),
            std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(check({"--streamed-pinned-budget-mib", "130"}, 500 * kMiB)) << "nothing is pinned";
}

TEST(StreamingOptions, WhatContradictsIsRefused) {
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--max-vram", "much"},
           {"--max-vram", "12GiB", "--memory-cap-mib", "100"},
           {"--streamed-keep-pages", "--streamed-release-pages"},
           {"--lazy-resident-upload", "--pipelined-resident-upload"},
           {"--streamed-staging-buffers", "1"},
           {"--streamed-staging-buffers", "100", "--streamed-pinned-budget-mib", "399"},
           {"--resident-order", "last"},
           {"--prefetch-distance", "-1"},
           {"--resident-plan-mib", "0"}})
    EXPECT_FALSE(parsed(wrong)) << wrong.front();
  EXPECT_TRUE(parsed({"--streamed-staging-buffers", "100", "--streamed-pinned-budget-mib", "400"}));
}

}  // namespace
}  // namespace dif::cli

#include "cli/kernel_summary.h"

#include <gtest/gtest.h>

namespace dif::cli {
namespace {

TEST(KernelSummary, CountsKernelsAndReasons) {
  const std::string details = R"({"operations":[
    {"operation":0,"kernel":"matmul_f32","declined":["matmul: no bf16 here"]},
    {"operation":1,"kernel":"simd_add"},
    {"operation":2,"kernel":"matmul_f32","declined":["matmul: no bf16 here"]}]})";
  EXPECT_EQ(kernel_summary("step", details),
            "step: 2 x matmul_f32, 1 x simd_add\n  declined matmul: no bf16 here (2 operations)\n");
}

TEST(KernelSummary, SaysSoWhenADocumentIsNotOne) {
  for (const char* details : {"", "{", "7", "{}", R"({"operations":7})"})
    EXPECT_EQ(kernel_summary("step", details), "step: the backend says nothing about its kernels\n");
  EXPECT_EQ(kernel_summary("step", R"({"operations":[7,{"kernel":7,"declined":7},{"kernel":"a"}]})"),
            "step: 1 x a\n");
}

}  // namespace
}  // namespace dif::cli

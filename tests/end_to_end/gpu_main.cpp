/// Runs the tests of this folder on the CUDA backend.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("DIF_TEST_BACKEND", "cuda", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

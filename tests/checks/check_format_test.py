#!/usr/bin/env python3
"""scripts/check-format finds unformatted code and odd names, and can mend the first."""
import unittest

from tree import TreeTest

GOOD = "int answer() { return 42; }\n"


class CheckFormat(TreeTest):
    check = "check-format"

    def setUp(self):
        super().setUp()
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("src/base/answer.cpp", GOOD)
        self.write("src/ops/rms_norm/rms_norm.op.h", GOOD)
        self.write("src/base/CMakeLists.txt", "")
        self.write("examples/backend-plugin/plugin.c", GOOD)
        self.write("tests/fixtures/Any-Name.JSON", "")

    def test_good_tree_is_clean(self):
        self.track()
        self.assert_clean()

    def test_unformatted_file_is_found_and_mended(self):
        self.write("src/base/answer.cpp", "int   answer( ){return 42;}\n")
        self.track()
        self.assert_found("src/base/answer.cpp:1", "clang-format")
        self.assert_clean("--fix")
        self.assert_clean()

    def test_new_file_counts_before_it_is_tracked(self):
        self.track()
        self.write("src/base/new.cpp", "int   answer( ){return 42;}\n")
        self.assert_found("src/base/new.cpp:1")

    def test_camel_case_file_is_found(self):
        self.write("src/base/ThreadPool.cpp", GOOD)
        self.track()
        self.assert_found("src/base/ThreadPool.cpp", "named")

    def test_unknown_suffix_is_found(self):
        self.write("src/ops/add/add.metal.cpp", GOOD)
        self.track()
        self.assert_found("src/ops/add/add.metal.cpp", "named")

    def test_folder_with_capital_is_found(self):
        self.write("src/Base2/a.h", GOOD)
        self.track()
        self.assert_found("src/Base2/a.h", "named")


if __name__ == "__main__":
    unittest.main()

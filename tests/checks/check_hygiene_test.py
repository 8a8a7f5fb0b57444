#!/usr/bin/env python3
"""scripts/check-hygiene finds each kind of thing that must not be committed."""
import unittest

from tree import TreeTest


class CheckHygiene(TreeTest):
    check = "check-hygiene"

    def spoil(self, path, content, *parts):
        self.write("README.md", "A tidy file.\n")
        self.write(path, content)
        self.track()
        self.assert_found(path, *parts)

    def test_good_tree_is_clean(self):
        self.write("README.md", "Reads $HOME/models, ~/" "work/x, build/" "home/x and https://example.org/" "home/page.\n")
        self.write("tests/fixtures/a.bin", b"\0\1")
        self.write("models/x/README.md", "As it came: TODO  \n")
        self.track()
        self.assert_clean()

    def test_machine_path(self):
        self.spoil("src/a.cpp", "// see\n// /home/someone/notes\n", ":2", "/home/")

    def test_promise(self):
        self.spoil("src/a.cpp", "// TODO later\n", ":1", "TODO")

    def test_missing_thing(self):
        self.spoil("src/a.cpp", 'fail("not implemented");\n', ":1", "not implemented")

    def test_skipped_test(self):
        self.spoil("src/a_test.cpp", 'GTEST_SKIP() << "slow";\n', ":1", "GTEST_SKIP")

    def test_disabled_test(self):
        self.spoil("src/a_test.cpp", "TEST(A, DISABLED_Works) {}\n", ":1", "DISABLED_Works")

    def test_tracker_number(self):
        self.spoil("docs/a.md", "As issue 12 says.\n", ":1", "issue 12")

    def test_large_file(self):
        self.spoil("docs/a.txt", "a\n" * 600_000, "1200000 bytes")

    def test_binary_file_in_source(self):
        self.spoil("src/a.dat", b"\0\1\2", "binary")

    def test_latin1_text(self):
        self.spoil("docs/a.md", "caf\u00e9\n".encode("latin-1"), "not UTF-8 at byte 3")

    def test_trailing_blanks(self):
        self.spoil("docs/a.md", "one\ntwo  \n", ":2", "trailing blanks")

    def test_missing_last_newline(self):
        self.spoil("docs/a.md", "one", "no newline at the end")

    def test_dead_link(self):
        self.spoil("docs/a.md", "See [the top](../README.md#part), [web](https://example.org/x) and [this](gone.md).\n", ":1", "gone.md")

    def test_conflict_marker(self):
        self.spoil("docs/a.md", "<<<<<<< mine\n", ":1", "merge conflict")


if __name__ == "__main__":
    unittest.main()

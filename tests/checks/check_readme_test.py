#!/usr/bin/env python3
"""scripts/check-readme runs the marked blocks, and only those, and reports what fails or is left behind."""
import unittest

from tree import TreeTest


class CheckReadme(TreeTest):
    check = "check-readme"

    def readme(self, *blocks):
        self.write("README.md", "# Title\n" + "".join(f"\n```{kind}\n{text}\n```\n" for kind, text in blocks))
        self.track()

    def test_marked_block_runs(self):
        self.write(".gitignore", "out\n")
        self.readme(("sh run", "echo hello > out"))
        self.assert_clean()
        self.assertEqual((self.root / "out").read_text(), "hello\n")

    def test_other_blocks_do_not_run(self):
        self.readme(("sh run", "true"), ("sh", "exit 1"), ("cpp", "int x;"))
        self.assert_clean()

    def test_first_failing_command_is_reported_with_its_line(self):
        self.readme(("sh run", "true"), ("sh run", "false\ntrue"))
        self.assert_found("README.md:7", "exit status 1")

    def test_file_left_behind_is_reported(self):
        self.readme(("sh run", "touch litter.txt"))
        self.assert_found("litter.txt")

    def test_commands_get_no_standard_input(self):
        self.readme(("sh run", "! read -r line"))
        self.assert_clean()

    def test_readme_without_commands_is_an_error(self):
        self.readme(("sh", "make"))
        status, text = self.run_check()
        self.assertEqual(status, 2, text)


if __name__ == "__main__":
    unittest.main()

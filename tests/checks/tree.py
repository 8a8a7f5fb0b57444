"""What the tests of scripts/check-* share: a small repository in a temporary folder, and a run of the check over it."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


class TreeTest(unittest.TestCase):
    """Subclasses set `check`, the script's name."""

    check = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path, content):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text(content, encoding="utf-8")

    def track(self):
        """Makes the tree a git repository in which every file is tracked."""
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
            environment.pop(variable, None)
        for command in (["init", "--quiet"], ["add", "--all", "--force"]):
            subprocess.run(["git", "-C", self.root, *command], check=True, env=environment)

    def run_check(self, *arguments):
        """Exit status and everything printed."""
        command = [SCRIPTS / self.check, "--root", self.root, *arguments]
        if (SCRIPTS / self.check).read_text(encoding="utf-8").startswith("#!/usr/bin/env python3"):
            command.insert(0, sys.executable)
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def assert_clean(self, *arguments):
        status, text = self.run_check(*arguments)
        self.assertEqual(status, 0, text)

    def assert_found(self, *parts):
        """The check fails, and one line of its output holds all of `parts`."""
        status, text = self.run_check()
        self.assertEqual(status, 1, text)
        self.assertTrue(any(all(part in line for part in parts) for line in text.splitlines()), f"{parts} not in:\n{text}")

#!/usr/bin/env python3
"""scripts/bundle/gpu-report in a bundle of programs that only say what GoogleTest would: shards are summed, failures are kept."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/bundle/gpu-report"

PROBE = """echo '{"target": {"backend": "cuda"}}'"""
DRAW = """while [ "$1" != -o ]; do shift; done; echo picture > "$2" """
# Six tests, of which a shard runs every GTEST_TOTAL_SHARDS-th; each names its shard in a log.
SIX = """
echo "$(basename "$0") $GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS" >> log
ran=0
for test in 0 1 2 3 4 5; do
  [ $((test % GTEST_TOTAL_SHARDS)) = "$GTEST_SHARD_INDEX" ] || continue
  ran=$((ran + 1))
  LINE
done
echo "[==========] $ran tests from 1 test suite ran. (1 ms total)"
"""
CONFORMANCE = SIX.replace("LINE", 'echo "op$test cuda f32: 0.$test of the tolerance"')
PARITY = SIX.replace("LINE", 'rows="$rows| case $test | z | 1 | 2 |\n| case $test | a | 1 | 2 |\n"') + \
    'printf "| case | what | found | bound |\n|---|---|---|---|\n$rows" > "$DIF_PARITY_TABLE"\n'
MEASURING = SIX.replace("LINE", ":")


class GpuReport(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle = Path(folder.name)
        shutil.copy(SCRIPT, self.bundle / "gpu-report")
        self.write("tests.txt", "a_conformance_tests gpu\nhost_tests\nmeasuring_tests gpu,alone\nparity_tests gpu\n")
        for name, text in (("difprobe", PROBE), ("dif", DRAW), ("a_conformance_tests", CONFORMANCE),
                           ("parity_tests", PARITY), ("measuring_tests", MEASURING)):
            self.program(name, text)

    def write(self, name, text):
        (self.bundle / name).write_text(text, encoding="utf-8")

    def program(self, name, text):
        self.write(name, "#!/bin/sh\n" + text)
        os.chmod(self.bundle / name, 0o755)

    def report(self, *arguments):
        """(exit status, document, its tests by name)"""
        out = self.bundle / "out.json"
        path = f"{self.bundle}:{os.environ['PATH']}"
        done = subprocess.run([self.bundle / "gpu-report", out, *arguments], capture_output=True, text=True,
                              env=os.environ | {"PATH": path})
        self.assertTrue(out.is_file(), done.stderr)
        document = json.loads(out.read_text(encoding="utf-8"))
        return done.returncode, document, {test["name"]: test for test in document["tests"]}

    def log(self):
        return (self.bundle / "log").read_text(encoding="utf-8").splitlines()

    def test_shards_are_summed(self):
        for shards in (1, 4):
            with self.subTest(shards=shards):
                status, document, tests = self.report("--shards", str(shards))
                self.assertEqual(status, 0, document)
                self.assertEqual({name: test["tests"] for name, test in tests.items()},
                                 {"a_conformance_tests": 6, "parity_tests": 6, "measuring_tests": 6})
                self.assertEqual(tests["parity_tests"]["shards"], shards)
                self.assertEqual(tests["a_conformance_tests"]["part_of_tolerance"],
                                 {f"op{test} f32": test / 10 for test in range(6)})
                self.assertEqual(tests["parity_tests"]["parity"],
                                 [f"| case {test} | {what} | 1 | 2 |" for test in range(6) for what in "za"])

    def test_what_measures_the_device_runs_whole_and_last(self):
        self.report("--shards", "3")
        log = self.log()
        self.assertEqual(len(log), 7)
        self.assertEqual(log[-1], "measuring_tests 0 of 1")
        self.assertEqual(sorted(log[:-1]), [f"{name} {index} of 3" for name in ("a_conformance_tests", "parity_tests")
                                            for index in range(3)])

    def test_a_shard_that_fails_or_crashes_fails_its_program_alone(self):
        for end, status_there in (("exit 1", 1), ("kill -SEGV $$", -11)):
            self.program("parity_tests", PARITY + f'[ "$GTEST_SHARD_INDEX" != 1 ] || {{ echo broken; {end}; }}\n')
            status, _, tests = self.report("--shards", "3")
            self.assertEqual(status, 1)
            self.assertEqual({name for name, test in tests.items() if not test["passed"]}, {"parity_tests"})
            output = tests["parity_tests"]["output"]
            self.assertTrue(output.startswith(f"shard 1, exit status {status_there}\n"), output)
            self.assertIn("broken", output)
            self.assertNotIn("shard 0", output)

    def test_a_program_of_no_tests_has_not_passed(self):
        self.program("measuring_tests", "echo '[==========] 0 tests from 0 test suites ran. (0 ms total)'")
        status, _, tests = self.report()
        self.assertEqual((status, tests["measuring_tests"]["passed"]), (1, False))

    def test_without_a_device_the_document_says_why(self):
        self.program("difprobe", "echo 'error: no driver' >&2; exit 3")
        self.program("dif", "echo 'error: no driver' >&2; exit 3")
        status, document, tests = self.report()
        self.assertEqual(status, 1)
        self.assertEqual(document["target"], {"failed": "error: no driver"})
        self.assertEqual(document["picture"]["failed"], "error: no driver")
        self.assertEqual(len(tests), 3, "what can run runs")

    def test_two_pictures_that_differ_fail(self):
        self.program("dif", DRAW + '; echo "$*" >> "$2"')
        self.assertEqual(self.report()[0], 1)

    def test_what_a_sanitizer_finds_fails_the_report(self):
        clean = "echo '========= ERROR SUMMARY: 0 errors'"
        for said, passed in ((clean, True), ("echo '========= ERROR SUMMARY: 3 errors'; exit 99", False),
                             ("true", False), (f"{clean}; {clean}", False)):
            with self.subTest(said=said):
                self.program("compute-sanitizer", said)
                status, document, _ = self.report("--sanitize")
                self.assertEqual(status, 0 if passed else 1)
                self.assertEqual([one["passed"] for one in document["sanitizers"]], [passed] * 3)
                self.assertEqual({one["tool"] for one in document["sanitizers"]}, {"memcheck", "racecheck"})

    def test_what_ran_before_the_report_was_cut_off_is_in_it(self):
        self.program("measuring_tests", 'kill -KILL "$PPID"')
        status, document, tests = self.report()
        self.assertNotEqual(status, 0)
        self.assertTrue(document["picture"]["same_bytes_twice"])
        self.assertEqual(set(tests), {"a_conformance_tests", "parity_tests"})

    def test_no_shards_are_a_usage_error(self):
        for shards in ("0", "-1", "many"):
            done = subprocess.run([self.bundle / "gpu-report", self.bundle / "out.json", "--shards", shards],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--shards", done.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""scripts/benchmark and scripts/compare: files are read right, verdicts follow the bounds, committed pages are their documents'."""
import copy
import json
import math
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts/compare")]
from benchmark import files, runs, workloads  # noqa: E402
from benchmark.document import Numbers  # noqa: E402
import floor  # noqa: E402
import operations  # noqa: E402
import ours  # noqa: E402
import verdicts  # noqa: E402


def png(width, height, lines):
    """An RGB picture of lines that are filtered already."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(lines))) + chunk(b"IEND", b"")


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "file"
        self.addCleanup(self.folder.cleanup)

    def test_every_png_filter_is_undone(self):
        rows = [bytes([10, 20, 30, 40, 50, 60]), bytes([1, 2, 3, 255, 128, 7]), bytes([9, 8, 7, 6, 5, 4]),
                bytes([200, 100, 50, 25, 12, 6]), bytes([0, 255, 1, 254, 2, 253])]
        lines, above = [], bytes(6)
        for kind, row in enumerate(rows):
            filtered = []
            for i, value in enumerate(row):
                left, up, corner = (row[i - 3], above[i], above[i - 3]) if i >= 3 else (0, above[i], 0)
                paeth = min((left, up, corner), key=lambda v, p=left + up - corner: abs(p - v))
                filtered.append((value - (0, left, up, (left + up) // 2, paeth)[kind]) & 255)
            lines.append(bytes([kind, *filtered]))
            above = row
        self.path.write_bytes(png(2, 5, lines))
        self.assertEqual(files.read_png(self.path), (2, 5, b"".join(rows)))

    def test_a_picture_is_nearest_to_its_cell_of_the_grid(self):
        fixtures = ROOT / "tests/fixtures/emoji-klein"
        cells = files.grid_cells(fixtures / "grid.png", 24)
        # The same prompts as cells 0 and 20, drawn with other seeds.
        for name, cell in (("red-heart", 0), ("frog-light-blue", 20)):
            self.assertEqual(files.nearest(files.thumbnail(*files.read_png(fixtures / f"{name}.png")), cells), cell)

    def test_thumbnails_are_means_of_squares(self):
        pixels = bytes([0, 0, 0, 4, 8, 12] * 2)
        self.assertEqual(files.thumbnail(2, 2, pixels, size=2, cell=2), [2, 4, 6])

    def test_safetensors_values_are_found(self):
        values, shape = files.read_safetensors(ROOT / "tests/fixtures/emoji-klein/red-heart.safetensors", "latents_steps")
        self.assertEqual(shape, [20, 64, 32])
        self.assertEqual(len(values), 20 * 64 * 32)
        self.assertTrue(all(math.isfinite(value) for value in values))

    def test_distances(self):
        self.assertEqual(files.relative_l2([3, 0], [0, 4]), 1.25)
        self.assertEqual(files.relative_l2([1], [1, 2]), math.inf)
        self.assertEqual(files.levels(bytes([1, 2, 3]), bytes([1, 5, 3])), (3, 1))


class Verdicts(unittest.TestCase):
    def test_bounds_decide(self):
        numbers = Numbers()
        numbers.at_most("a", 1.7, 1.7)
        numbers.below("b", 2.0, 2.0)
        numbers.at_least("c", 0.89, 0.9)
        numbers.all_of("d", 23, 24)
        numbers.holds("e", True)
        numbers.missing("f", "< 2", "no such machine")
        self.assertEqual([row["verdict"] for row in numbers.rows], ["PASS", "FAIL", "FAIL", "FAIL", "PASS", "NOT MEASURED"])

    def test_not_a_number_never_passes(self):
        numbers = Numbers()
        numbers.at_most("a", math.nan, 1)
        numbers.at_least("b", math.nan, 1)
        self.assertEqual([row["verdict"] for row in numbers.rows], ["FAIL", "FAIL"])

    def test_memory_is_that_of_the_worst_moment(self):
        def program(name, prepacked):
            return {"name": name, "prepacked_bytes": prepacked}

        document = {"programs": [program("encode", 500), program("step", 300), program("decode", 100)],
                    "memory": {"arena_bytes": {"predicted": 10}, "workspace_bytes": {"predicted": 2}}}
        self.assertEqual(workloads.planned_bytes(document), (12, 500))

    def test_slow_pointwise_kernels_are_found_by_size(self):
        def row(name, seconds, gb_per_second, share):
            return {"name": name, "bound": "memory", "microseconds": seconds * 1e6, "gb_per_second": gb_per_second, "share": share}

        numbers = Numbers()
        workloads.judge_kernels([row("add/small", 1e-6, 100, 0.1), row("group/large", 1e-2, 10, 0.8), row("add/large", 1e-2, 10, 0.9),
                                 row("slice/large", 1, 1, 0.1)],
                                numbers)
        self.assertEqual((numbers.rows[0]["found"], numbers.rows[0]["verdict"]), (0.8, "PASS"))


class Runs(unittest.TestCase):
    def test_turns_alternate(self):
        order = []
        runs.alternate(2, {"a": lambda: order.append("a"), "b": lambda: order.append("b")})
        self.assertEqual(order, ["a", "b", "a", "b"])

    def test_a_process_is_timed_and_its_memory_seen(self):
        found = runs.run_process([sys.executable, "-c", "x = bytearray(64 << 20); print(len(x))"])
        self.assertGreater(found["peak_mib"], 64)
        self.assertGreater(found["seconds"], 0)

    def test_a_failing_process_ends_the_run_with_its_complaint(self):
        with self.assertRaises(SystemExit) as caught:
            runs.run_process([sys.executable, "-c", "import sys; sys.exit('no such weight')"])
        self.assertIn("no such weight", str(caught.exception))

    def test_a_loop_answers_in_order(self):
        loop = runs.Loop([sys.executable, "-c", "import sys\nprint('{}', flush=True)\n"
                          "for line in sys.stdin: print(line, end='', flush=True)"], None)
        self.assertEqual([loop.draw({"n": n}) for n in (1, 2)], [{"n": 1}, {"n": 2}])
        loop.close()


class Comparison(unittest.TestCase):
    def model(self, heads, blocks):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for part, config in (("transformer", {"num_attention_heads": heads, "attention_head_dim": 128, "mlp_ratio": 3.0,
                                              "num_layers": blocks[0], "num_single_layers": blocks[1]}),
                             ("vae", {"block_out_channels": [128, 256, 512, 512]})):
            (Path(folder.name) / part).mkdir()
            (Path(folder.name) / part / "config.json").write_text(json.dumps(config))
        return folder.name

    def test_a_guided_step_of_klein_9b_has_the_known_work(self):
        step = floor.Transformer(self.model(32, (8, 24)), {"width": 1024, "height": 1024, "text_tokens": 512}, True)
        linear = sum(2 * m * k * n * times for (m, k, n), times in step.linear().items())
        batch, rows, heads, width = step.attention()
        self.assertAlmostEqual(linear / 1e12, 128.6, delta=0.5)
        self.assertAlmostEqual(32 * 4 * batch * rows**2 * heads * width / 1e12, 22.3, delta=0.1)
        self.assertAlmostEqual(step.traffic_bytes() / 4.2e12, 11e-3, delta=1e-3)

    def test_committed_verdicts_follow_from_their_document(self):
        for path in (ROOT / "perf/results").glob("flux2-*.json"):
            document = json.loads(path.read_text())
            run, numbers = copy.deepcopy(document["run"]), Numbers()
            verdicts.judge(run, numbers)
            self.assertEqual(numbers.rows, document["numbers"], path)

    def test_a_slower_step_fails(self):
        for path in (ROOT / "perf/results").glob("flux2-*.json"):
            run, numbers = json.loads(path.read_text())["run"], Numbers()
            for request in run["ours"]["resident"]["requests"]:
                request["stages"]["denoise"] *= 3
            verdicts.judge(run, numbers)
            self.assertEqual([row["verdict"] for row in numbers.rows if "step /" in row["claim"]][0], "FAIL")


class Watch(unittest.TestCase):
    class Nvml:
        NVML_CLOCK_SM = 1

        def __init__(self):
            self.bytes = iter([100, 300, *[200] * 10**6])

        def nvmlDeviceGetHandleByIndex(self, index):
            return index

        def nvmlDeviceGetMemoryInfo(self, handle):
            return type("Info", (), {"used": next(self.bytes) << 20})

        def nvmlDeviceGetClockInfo(self, handle, what):
            return 1980

        def nvmlDeviceGetPowerUsage(self, handle):
            return 650_000

    def test_what_the_device_did_while_something_ran(self):
        watch = ours.DeviceWatch(self.Nvml())
        self.assertEqual(watch.during(lambda: time.sleep(0.2) or "done"), ("done", 200))
        self.assertEqual(watch.load, {"clock_mhz": 1980, "power_watts": 650, "most_watts": 650})

    def test_idle_moments_do_not_count(self):
        self.assertEqual(ours.busy_load([(300, 80), (1500, 690), (1400, 700)]),
                         {"clock_mhz": 1450, "power_watts": 695, "most_watts": 700})
        self.assertIsNone(ours.busy_load([]))


class Streamed(unittest.TestCase):
    def judge(self, **changes):
        one = {"step_ms": 104.0, "streamed_bytes": 5_000_000_000, "resident_bytes": 1, "device_peak_mib": 12000,
               "same_latents": True, **changes}
        run = {"ours": {"streamed": {"cap": "12GiB", "resident_step_ms": 60.0, "pinned host memory": one, "page cache": one}},
               "ceilings": {"upload_gb_per_second": 50.0, "page_cache": {"gb_per_second": 40.0}}}
        numbers = Numbers()
        verdicts.judge_streamed(run, numbers, "a model")
        return numbers.rows

    def test_a_step_is_held_against_the_slower_of_computing_and_fetching(self):
        rows = self.judge()
        self.assertEqual([row["verdict"] for row in rows], ["PASS"] * 6)
        self.assertAlmostEqual(rows[0]["found"], 104 / 100)  # 5 GB at 50 GB/s
        self.assertAlmostEqual(rows[3]["found"], 104 / 125)  # reading is slower than copying here
        self.assertAlmostEqual(self.judge(streamed_bytes=1000)[0]["found"], 104 / 60)

    def test_other_latents_and_more_memory_fail(self):
        self.assertEqual([row["verdict"] for row in self.judge(same_latents=False)[:3]], ["PASS", "FAIL", "PASS"])
        self.assertEqual([row["verdict"] for row in self.judge(device_peak_mib=12289)[:3]], ["PASS", "PASS", "FAIL"])


class Operations(unittest.TestCase):
    ceilings = {"linear": [{"m": 4608, "k": 64, "n": 32, "ms": 2.0}], "attention": [],
                "copy_gb_per_second": {"24 MiB": 1000.0, "300 MiB": 4000.0}}

    def report(self):
        linear = {"name": "linear", "kernel": "library", "result": "bf16[1, 4608, 32]", "flops": 2.0 * 4608 * 64 * 32,
                  "bytes": 9000, "runs": 8, "seconds": 2e-3}
        silu = {"name": "mul+silu", "kernel": "rows", "result": "bf16[1, 4608, 32]", "flops": 1e6, "bytes": 48 << 20,
                "runs": 4, "seconds": 1e-4}
        return {"request": {"guided": False}, "programs": [{"name": "step", "operations": [linear, dict(linear), silu]}]}

    def test_equal_operations_are_one_row_of_one_run(self):
        step = operations.programs(self.report(), requests=2, steps=2)["step"]
        self.assertEqual([(row["operations"], row["times"]) for row in step["kinds"]], [("linear", 4), ("mul+silu", 1)])
        self.assertAlmostEqual(step["ms"], 4 * 2 + 0.1)

    def test_a_row_is_held_against_the_ceiling_of_its_shape(self):
        step = operations.programs(self.report(), requests=2, steps=2)["step"]
        linear, silu = operations.table_rows(step, self.ceilings)
        self.assertEqual(linear[-1], "1.00 of the product alone")
        self.assertEqual(silu[-1], "0.50 of a copy")  # 48 MiB at 1000 GB/s take 0.05 ms of 0.1

    def test_another_shape_has_no_ceiling(self):
        step = operations.programs(self.report(), requests=2, steps=2)["step"]
        self.ceilings["linear"][0]["k"] = 65
        self.assertEqual(operations.table_rows(step, self.ceilings)[0][-1], "")


class Page(unittest.TestCase):
    def test_the_committed_pages_are_rendered_from_the_committed_documents(self):
        document = ROOT / "perf/results/cpu.json"
        self.assertEqual(json.loads(document.read_text())["schema"], "diffusion-compiler-telemetry")
        done = subprocess.run([ROOT / "scripts/render-benchmarks", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()

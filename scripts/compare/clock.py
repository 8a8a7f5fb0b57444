"""Timing on the device that a peer runs on. Needs torch."""
import gc
import statistics
import time

import torch


class Device:
    """The clock and the memory of where the pipeline runs."""

    def __init__(self, name):
        self.name, self.is_cuda = name, name == "cuda"

    def wait(self):
        if self.is_cuda:
            torch.cuda.synchronize()

    def milliseconds(self, run):
        """Of one call: by the device's events, or by the clock where there are none."""
        if not self.is_cuda:
            begin = time.perf_counter()
            run()
            return 1e3 * (time.perf_counter() - begin)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)

    def median(self, run, runs, warm=2):
        for _ in range(warm):
            run()
        self.wait()
        return statistics.median(self.milliseconds(run) for _ in range(runs))

    def reset_peak(self):
        gc.collect()
        if self.is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def peak(self):
        """Bytes of tensors, and of what the allocator holds; without the context."""
        if not self.is_cuda:
            return None
        return {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}

"""Starting what is timed, and waiting for it."""
import json
import os
import statistics
import subprocess
import sys
import time


def stop(command, status, complaint):
    sys.exit(f"bench: {' '.join(map(str, command))}: exit status {status}\n{complaint[-2000:]}")


def run_process(command, request=None, environment=None):
    """One whole process: wall and CPU seconds and peak resident MiB. `request` is its stdin."""
    start = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=environment)
    if request is not None:
        process.stdin.write((json.dumps(request) + "\n").encode())
    process.stdin.close()
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        stop(command, process.returncode, complaint.decode(errors="replace"))
    return {"seconds": time.monotonic() - start, "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak_mib": usage.ru_maxrss / 1024}


def output_of(command, environment=None):
    """What a command prints."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        stop(command, done.returncode, done.stderr)
    return done.stdout


def works(command, environment=None):
    return subprocess.run([str(word) for word in command], capture_output=True, env=environment).returncode == 0


class Loop:
    """A process that answers requests one at a time and is idle in between."""

    def __init__(self, command, environment):
        self.command = [str(word) for word in command]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.hello = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            stop(self.command, self.process.wait(), self.process.stderr.read())
        return json.loads(line)

    def draw(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def alternate(n_runs, competitors):
    """{name: [result of each run]}: a run of each in turn, so that a busy minute hits all of them."""
    results = {name: [] for name in competitors}
    for _ in range(n_runs):
        for name, run in competitors.items():
            results[name].append(run())
    return results


def median(results, key="seconds"):
    return statistics.median(result[key] for result in results)

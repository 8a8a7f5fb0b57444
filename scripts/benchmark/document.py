"""The result document: who measured what, and the numbers that are held against a bound."""
import datetime
import os
import platform
import subprocess
from pathlib import Path

NOT_MEASURED = "NOT MEASURED"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "GOMP_SPINCOUNT", "DIF_CPU_ISA",
                    "ONEDNN_MAX_CPU_ISA")


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def features():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            words = set(line.split(":", 1)[1].split())
            return [name for name in ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16") if name in words]
    return []


def memory_gib():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal"):
            return round(int(line.split()[1]) / 2**20, 1)
    return None


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def head(root, kind, command, environment, dif=None, commit=None):
    """The members that every document begins with. `dif` and `commit` are those of the repository unless given."""
    version = subprocess.run([dif or root / "build/dif", "--version"], capture_output=True, text=True).stdout.strip()
    return {
        "schema": "diffusion-compiler-telemetry",
        "kind": kind,
        "version": 1,
        "provenance": {
            "program": version,
            "commit": commit or git(root, "rev-parse", "HEAD"),
            "uncommitted_changes": not commit and bool(git(root, "status", "--porcelain", "--untracked-files=no")),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "command": command,
            "environment": {name: environment[name] for name in THREAD_VARIABLES if name in environment},
            "load_at_start": os.getloadavg()[0],
        },
        "machine": {
            "processor": processor(),
            "features": features(),
            "cpus": len(os.sched_getaffinity(0)),
            "memory_gib": memory_gib(),
            "system": f"{platform.system()} {platform.release()}",
        },
        "versions": {},
    }


class Numbers:
    """Rows of claim, bound, found value and verdict."""

    def __init__(self):
        self.rows = []

    def _add(self, claim, bound, found, verdict, how):
        self.rows.append({"claim": claim, "bound": bound, "found": found, "verdict": verdict, "how": how})

    def at_most(self, claim, found, bound, how=""):
        self._add(claim, f"<= {bound:g}", found, "PASS" if found <= bound else "FAIL", how)

    def below(self, claim, found, bound, how=""):
        self._add(claim, f"< {bound:g}", found, "PASS" if found < bound else "FAIL", how)

    def at_least(self, claim, found, bound, how=""):
        self._add(claim, f">= {bound:g}", found, "PASS" if found >= bound else "FAIL", how)

    def holds(self, claim, kept, how=""):
        self._add(claim, "yes", "yes" if kept else "no", "PASS" if kept else "FAIL", how)

    def all_of(self, claim, right, of, how=""):
        self._add(claim, f"{of} of {of}", f"{right} of {of}", "PASS" if right == of else "FAIL", how)

    def missing(self, claim, bound, why):
        self._add(claim, bound, None, NOT_MEASURED, why)

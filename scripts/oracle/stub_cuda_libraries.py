#!/usr/bin/env python3
"""Makes empty stand-ins for the CUDA libraries that an installed PyTorch links against and this machine lacks.

    stub_cuda_libraries.py

A CPU run calls none of them, but the loader wants every name and symbol to exist. Each stand-in goes beside
libtorch.so, defines the symbols that PyTorch's libraries import from nowhere else, and answers every call with an
error. Needs gcc and binutils. Undo by deleting the files that it prints.
"""
import ctypes
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    spec = importlib.util.find_spec("torch")
    if spec is None:
        print("torch is not installed in this environment", file=sys.stderr)
        return 2
    folder = pathlib.Path(next(iter(spec.submodule_search_locations))) / "lib"
    # libcaffe2_nvrtc is opened only once a GPU is there.
    libraries = sorted(path for path in folder.glob("lib*.so*") if "nvrtc" not in path.name)
    needed = set()
    for library in libraries:
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", str(library))))
    missing = []
    for name in sorted(needed - {library.name for library in folder.glob('lib*.so*')}):
        try:
            ctypes.CDLL(name)
        except OSError:
            missing.append(name)
    if not missing:
        print("nothing is missing")
        return 0

    prefixes = {re.match(r"lib([a-zA-Z]+)", name).group(1).split("_")[0].lower() for name in missing}
    symbols = set()
    for library in libraries:
        for line in output("nm", "-D", "--undefined-only", str(library)).splitlines():
            symbol = line.split()[-1].split("@")[0]
            if any(symbol.lower().lstrip("_").startswith(prefix) for prefix in prefixes):
                symbols.add(symbol)
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch) / "stub.c"
        source.write_text("".join(f"int {symbol}(void) {{ return 1; }}\n" for symbol in sorted(symbols)))
        for name in missing:
            subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), str(source)],
                           check=True)
            print(folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

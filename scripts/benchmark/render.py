"""A result document as the page docs/performance/cpu.md."""
import statistics


def number(value):
    if value is None:
        return "-"
    if not isinstance(value, (int, float)):
        return str(value)
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(number(cell) for cell in row) + " |" for row in rows] + [""]


def spread(runs, key="seconds"):
    values = [run[key] for run in runs]
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def request_text(request):
    return (f"{request['width']} x {request['height']} pixels, {request['steps']} steps, guidance {request['guidance']:g}, "
            f"{request['text_tokens']} text tokens, f32")


def header(document, source):
    provenance, machine = document["provenance"], document["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    changed = " with uncommitted changes" if provenance["uncommitted_changes"] else ""
    environment = " ".join(f"{name}={value}" for name, value in provenance["environment"].items())
    return ["# Performance on a CPU", "",
            f"Rendered from [{source}](../../{source}) by `scripts/render-benchmarks`; edit neither by hand. "
            "[benchmarks.md](../benchmarks.md) says what is measured and how.", "",
            *table(["", ""], [("measured", provenance["date"]),
                              ("program", f"{provenance['program']}, commit {provenance['commit'][:12]}{changed}"),
                              ("command", f"`{provenance['command']}`"),
                              ("environment", f"`{environment}`"),
                              ("processor", f"{machine['processor']}, {machine['cpus']} CPUs, {', '.join(machine['features'])}"),
                              ("memory", f"{machine['memory_gib']} GiB"),
                              ("versions", versions or "-"),
                              ("load at the start", provenance["load_at_start"])])]


def numbers(document):
    rows = [(row["claim"], row["bound"], row["found"], row["verdict"], row["how"]) for row in document["numbers"]]
    return ["## Numbers that are held to", "", *table(["number", "bound", "found", "verdict", "how"], rows)]


def picture(part):
    names = {"dif": "dif generate", "dif-auto": "dif generate --dtype auto", "dif-64-tokens": "dif generate --text-tokens 64",
             "diffusers": "diffusers", "diffusers-bf16": "diffusers in bf16"}
    lines = ["## A picture of the bundled model", "", request_text(part["request"]) + ".", "",
             *table(["in process", "seconds: median (least to most)"],
                    [(names[name], spread(runs)) for name, runs in part["in_process"].items()]),
             *table(["whole process", "wall, seconds", "CPU, seconds", "peak, MiB"],
                    [(names[name], spread(runs), spread(runs, "cpu_seconds"),
                      max(run["peak_mib"] for run in runs)) for name, runs in part["process"].items()])]
    return lines + stages(part) + ceilings(part["ceilings"])


def stages(part):
    runs = part["in_process"]["dif"]
    return table(["stage", "seconds, median"],
                 [(stage, statistics.median(run["stages"][stage] for run in runs)) for stage in runs[0]["stages"]])


def ceilings(part):
    flops = part["flops"]
    lines = [f"Floor: {part['floor_seconds']:.3g} s = ({flops['linear'] / 1e9:.4g} GFLOP in products + "
             f"{flops['convolution'] / 1e9:.3g} in convolutions) at {part['gemm_flops_per_second'] / 1e9:.0f} GFLOP/s + "
             f"{flops['attention'] / 1e9:.3g} GFLOP in attention at half of that. The rate is that of a bare `dnnl::matmul` "
             "loop with packed weights over the products of at least 16 rows, each as often as it runs.", ""]
    rows = [(f"[{row['m']}, {row['k']}] x [{row['k']}, {row['n']}]", row["times"], row["flops"] / row["bare_seconds"] / 1e9,
             row["flops"] / row["our_seconds"] / 1e9, row["bare_seconds"] / row["our_seconds"]) for row in part["linear"]]
    rows.sort(key=lambda row: row[0])
    return lines + table(["product", "times", "bare, GFLOP/s", "ours, GFLOP/s", "share"], rows)


def wide(part):
    lines = ["## klein 4B's width", "",
             "A synthetic checkpoint (`difweights synth --preset klein-4b --blocks 2,2 --small-encoder`): hidden width 3072, "
             "2 double-stream and 2 single-stream blocks, bf16 weights. " + request_text(part["request"]) + ".", "",
             *table(["in process", "seconds: median (least to most)"],
                    [(name, spread(runs)) for name, runs in part["in_process"].items()])]
    return lines + stages(part) + ceilings(part["ceilings"])


def kernels(rows):
    from_memory = ""
    if any(row.get("from_memory") for row in rows):
        from_memory = (" From 8 MiB on, these kernels and their copies take turns over buffers of four times the last cache: both "
                       "come out of memory, and the copy is the faster of `memcpy` and one past the caches.")
    return ["## Kernels", "", "Fastest of many calls. The share is of a bare oneDNN product of the same shape (products), of "
            "one of 1024 x 1024 x 1024 (convolutions, attention), or of a copy of as many bytes (everything else), measured in "
            "the same run." + from_memory, "",
            *table(["kernel", "microseconds", "GFLOP/s", "GB/s", "share"],
                   [(row["name"], row["microseconds"], row["gflops"], row["gb_per_second"], row["share"]) for row in rows])]


def page(document, source):
    lines = header(document, source) + numbers(document) + picture(document["picture"])
    if "wide" in document:
        lines += wide(document["wide"])
    if "kernels" in document:
        lines += kernels(document["kernels"])
    return "\n".join(lines).rstrip("\n") + "\n"

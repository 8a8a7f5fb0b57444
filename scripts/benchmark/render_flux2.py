"""The documents of scripts/compare as the page docs/performance/flux2.md."""
import statistics

from compare.operations import table_rows

from .render import table


def milliseconds(value):
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def median_stages(requests):
    return {stage: 1e3 * statistics.median(request["stages"][stage] for request in requests)
            for stage in requests[0]["stages"]}


def header(document, source):
    provenance, run, target = document["provenance"], document["run"], document["target"]
    request, device = run["request"], target["device"]
    ours = ", ".join(f"{library['name']} {library['version']}" for library in target["libraries"] if "version" in library)
    theirs = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    changed = " with uncommitted changes" if provenance["uncommitted_changes"] else ""
    guided = f", guidance {request['guidance']:g}" if run["diffusers"]["guided"] else ""
    blocks = f"{run['blocks'][0]} double-stream and {run['blocks'][1]} single-stream blocks of width {run['hidden']}"
    encoder = "small text encoder" if run["small_encoder"] else f"{run['encoder_layers']} encoder layers"
    return [f"## {run['name']}", "",
            f"Rendered from [{source}](../../{source}). {blocks}, {encoder}, {run['checkpoint_bytes'] / 1e9:.1f} GB of random "
            f"weights; {request['width']} x {request['height']} pixels, {request['text_tokens']} text tokens, "
            f"{request['steps']} steps{guided}; {run['dtype']}, VAE {run['vae_dtype']}.", "",
            *table(["", ""], [("measured", provenance["date"]),
                              ("program", f"{provenance['program']}, commit {provenance['commit'][:12]}{changed}"),
                              ("command", f"`{provenance['command']}`"),
                              ("device", device["name"] if device else target["processor"]),
                              ("libraries", ours), ("peer", theirs)])]


def numbers(document):
    rows = [(row["claim"].removeprefix(document["run"]["name"] + ": "), row["bound"], row["found"], row["verdict"], row["how"])
            for row in document["numbers"]]
    return table(["number", "bound", "found", "verdict", "how"], rows)


def times(run):
    """Both sides, stage by stage."""
    ours, peer, steps = median_stages(run["ours"]["resident"]["requests"]), run["diffusers"], run["request"]["steps"]
    variants = [(f"diffusers eager, attention {name}", found) for name, found in peer["eager"].items()]
    if "compiled" in peer:
        variants.append((f"diffusers compiled, attention {peer['compiled']['attention']}", peer["compiled"]))
    rows = [("dif", milliseconds(ours["denoise"] / steps), "", "")]
    rows += [(name, *(milliseconds(found[key]) if key in found else "" for key in ("step", "batch1", "batch2")))
             for name, found in variants]
    lines = table(["step, ms", "step", "one evaluation", "two in a batch"], rows)
    prompts = 2 if peer["guided"] else 1
    lines += table(["model loaded, ms", "dif", "diffusers eager"],
                   [("tokenise", milliseconds(ours["tokenize"]), ""),
                    ("encode a prompt", f"{milliseconds(ours['encode'] / prompts)} ({run['encoder_layers']} layers)",
                     f"{milliseconds(peer['encode']['encode'])} ({peer['encode']['layers_run']} layers, tokenise)"),
                    ("decode", milliseconds(ours["decode"]), milliseconds(peer["decode"])),
                    ("write the PNG", milliseconds(ours["write"]), ""),
                    ("request, prompt to file",
                     milliseconds(1e3 * statistics.median(one["seconds"] for one in run["ours"]["resident"]["requests"])),
                     milliseconds(1e3 * statistics.median(peer["requests"])))])
    return lines


def processes(run):
    def row(name, wall, host, device):
        return (name, f"{wall:.2f}", f"{host:.0f}", "-" if device is None else f"{device:.0f}")

    ours = run["ours"]
    rows = [row("dif, nothing cached", ours["first_process"]["seconds"], ours["first_process"]["peak_mib"],
                ours["first_process"]["device_peak_mib"])]
    best = min(ours["processes"], key=lambda process: process["seconds"])
    rows.append(row("dif, kernels and choices cached", best["seconds"], best["peak_mib"], best["device_peak_mib"]))
    peer = run["diffusers"].get("process")
    if peer:
        rows.append(row("diffusers eager", peer["wall_seconds"], peer["peak_mib"], peer["device_peak_mib"]))
    cache = run["ceilings"]["page_cache"]
    loading = f"Loading: {run['loading']['gb_per_second']:.2f} GB/s; a" if "loading" in run else "A"
    return table(["fresh process to first PNG", "seconds", "host peak, MiB", "device peak, MiB"], rows) + [
        f"{loading} parallel read of the same files by {cache['threads']} threads: "
        f"{cache['gb_per_second']:.2f} GB/s. Device peaks are what NVML saw, context and libraries included.", ""]


def parity(run):
    rows = []
    for row in run["diffusers"]["parity"]:
        if row["boundary"] == "picture":
            rows.append(("picture, mean levels of 255", row["ours"]["mean_levels"], row["diffusers_bf16"]["mean_levels"], ""))
        else:
            rows.append((row["boundary"], row["ours"], row["diffusers_bf16"], row["ours"] / row["diffusers_bf16"]))
    return ["Distance from diffusers in f32 (relative L2), each side on its own way from the same noise, drawn in f32:", "",
            *table(["boundary", "dif", "diffusers bf16", "ratio"], rows)]


def ceilings(run):
    floor, found = run["floor"], run["ceilings"]
    lines = [f"Composite floor of a step: {floor['step_ms']:.2f} ms = {floor['linear_tflop']:.1f} TFLOP of products at their own "
             f"shapes' rates ({floor['linear_ms']:.2f} ms) + attention ({floor['attention_ms']:.2f} ms) + "
             f"{floor['traffic_bytes'] / 1e9:.1f} GB that no fusion removes at the bandwidth of a copy "
             f"({floor['traffic_ms']:.2f} ms).", ""]
    rows = [(f"[{row['m']}, {row['k']}] x [{row['k']}, {row['n']}]", f"{row['ms']:.3f}", f"{row['tflops']:.0f} TFLOP/s")
            for row in found["linear"]]
    rows += [(f"attention, {row['batch']} x {row['rows']} rows, {row['heads']} heads of {row['width']} ({row['kernel']})",
              f"{row['ms']:.3f}", f"{row['tflops']:.0f} TFLOP/s") for row in found["attention"]]
    rows += [(f"copy of {size}, read and written", "", f"{rate:.0f} GB/s") for size, rate in found["copy_gb_per_second"].items()]
    if found["upload_gb_per_second"]:
        rows.append(("upload from pinned memory", "", f"{found['upload_gb_per_second']:.1f} GB/s"))
    return lines + table(["ceiling, in the same run", "ms", "rate"], rows)


def profiles(run):
    """Where the milliseconds go, program by program."""
    found = run["ours"].get("profile", {})
    lines = []
    for name, what in (("step", "One step"), ("decode", "Decode"), ("encode", "Encode of one prompt")):
        if name in found:
            program = found[name]
            statistic = program.get("statistic", "mean, the first run included, which also loads libraries' kernels: what "
                                    "shares them with nothing looks slow")
            lines += [f"{what}, operation by operation (`dif generate --trace-ops`; each by the device's clock, without the "
                      f"graph that a run is otherwise; {statistic}): {program['ms']:.2f} ms.", "",
                      *table(["operations", "result", "kernel", "times", "ms", "each, microseconds", "rate", "ceiling / found"],
                             table_rows(program, run["ceilings"]))]
    return lines


def page(documents):
    """`documents`: {source: document}"""
    lines = ["# FLUX.2 [klein] beside diffusers", "",
             "By `scripts/render-benchmarks` from the documents named below; edit neither by hand. "
             "[benchmarks.md](../benchmarks.md) says what is measured and how, [flux2-misses.md](flux2-misses.md) why what fails does. Where a model has fewer blocks than the published "
             "one, its step is that much shorter on both sides; ratios carry over, times do not.", ""]
    for source, document in documents.items():
        run = document["run"]
        lines += header(document, source) + numbers(document) + times(run) + processes(run) + parity(run) + ceilings(run) + profiles(run)
    return "\n".join(lines).rstrip("\n") + "\n"

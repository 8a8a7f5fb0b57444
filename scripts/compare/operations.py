"""Where the milliseconds of our programs go: the operations of one traced run, by kind, beside the machine's ceilings."""
import re

# A kind below this share of its program is not worth a row.
LEAST_SHARE = 0.004
# Of what a step computes for each byte; below it, bandwidth is what counts.
FEW_FLOPS_PER_BYTE = 16


def kinds(operations, runs):
    """Operations of one program with the same name, kernel, result and work as one row; `runs` of the program were traced."""
    found = {}
    for one in operations:
        key = (one["name"], one["kernel"], one["result"], one["flops"], one["bytes"])
        row = found.setdefault(key, {"operations": one["name"], "kernel": one["kernel"], "result": one["result"],
                                     "times": 0, "ms": 0.0, "flops": one["flops"], "bytes": one["bytes"]})
        row["times"] += one["runs"] / runs
        row["ms"] += 1e3 * one["seconds"] * one["runs"] / runs
    rows = sorted(found.values(), key=lambda row: -row["ms"])
    return {"statistic": "median", "ms": sum(row["ms"] for row in rows), "kinds": rows}


def programs(document, requests, steps):
    """{name: kinds} of a report with traced operations."""
    runs = {"encode": requests * (2 if document["request"]["guided"] else 1), "step": requests * steps, "decode": requests}
    return {program["name"]: kinds(program["operations"], runs[program["name"]]) for program in document["programs"]}


def rows_and_width(result):
    """(rows, width) of a matrix that a product writes."""
    shape = [int(size) for size in re.findall(r"\d+", result.partition("[")[2])]
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows, shape[-1]


def bandwidth(copies, size):
    """GB/s of the copy whose bytes, read and written, are nearest to `size`."""
    sizes = {2 * int(name.split()[0]) * 2**20: rate for name, rate in copies.items()}
    return sizes[min(sizes, key=lambda one: abs(one - size))]


def ceiling(row, ceilings):
    """(what the row is held against, milliseconds that it would take there), or None."""
    each = row["times"]
    if row["operations"].split("+")[0] == "linear":
        rows, width = rows_and_width(row["result"])
        inner = round(row["flops"] / 2 / rows / width)
        for shape in ceilings["linear"]:
            if (shape["m"], shape["k"], shape["n"]) == (rows, inner, width):
                return "the product alone", shape["ms"] * each
        return None
    if row["operations"] == "attention":
        best = ceilings["attention"][0]
        if row["flops"] == 4 * best["batch"] * best["rows"] ** 2 * best["heads"] * best["width"]:
            return best["kernel"], best["ms"] * each
        return None
    if row["flops"] > FEW_FLOPS_PER_BYTE * row["bytes"]:
        return None
    return "a copy", row["bytes"] / bandwidth(ceilings["copy_gb_per_second"], row["bytes"]) / 1e6 * each


def table_rows(program, ceilings):
    """What the page shows of one program."""
    rows, rest = [], 0.0
    for row in program["kinds"]:
        if row["ms"] < LEAST_SHARE * program["ms"]:
            rest += row["ms"]
            continue
        held = ceiling(row, ceilings)
        each = row["ms"] / row["times"]
        computes = row["flops"] > FEW_FLOPS_PER_BYTE * row["bytes"]
        rate = f"{row['flops'] / each / 1e9:.0f} TFLOP/s" if computes else f"{row['bytes'] / each / 1e6:.0f} GB/s"
        rows.append((row["operations"].replace("+", " + "), row["result"], row["kernel"], f"{row['times']:g}", f"{row['ms']:.3f}",
                     f"{1e3 * each:.1f}", rate, f"{held[1] / row['ms']:.2f} of {held[0]}" if held else ""))
    if rest:
        rows.append(("everything else", "", "", "", f"{rest:.3f}", "", "", ""))
    return rows

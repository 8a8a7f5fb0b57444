"""Reading pictures, latents and fixtures without a library, and how far two of them are apart."""
import array
import json
import math
import struct
import zlib
from pathlib import Path


def floats(data):
    values = array.array("f")
    values.frombytes(data)
    return values


def read_floats(path):
    return floats(Path(path).read_bytes())


def read_diftensor(path):
    """The values of an f32 .diftensor (docs/file-formats.md)."""
    data = Path(path).read_bytes()
    if data[12] != 0:
        raise ValueError(f"{path}: expected f32")
    return floats(data[16 + 8 * data[13]:-32])


def read_safetensors(path, name):
    """The values of one F32 tensor, and its shape."""
    data = Path(path).read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    entry = json.loads(data[8:8 + length])[name]
    if entry["dtype"] != "F32":
        raise ValueError(f"{path}: {name}: expected F32, found {entry['dtype']}")
    begin, end = entry["data_offsets"]
    return floats(data[8 + length + begin:8 + length + end]), entry["shape"]


def read_png(path):
    """(width, height, RGB bytes) of an 8-bit RGB picture without interlacing."""
    data, at, packed = Path(path).read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            if (depth, colour, interlaced) != (8, 2, 0):
                raise ValueError(f"{path}: expected 8-bit RGB")
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    raw, stride = zlib.decompress(packed), 3 * width
    pixels, above = bytearray(), bytearray(stride)
    for y in range(height):
        line = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        undo_filter(raw[y * (stride + 1)], line, above)
        pixels += line
        above = line
    return width, height, bytes(pixels)


def undo_filter(kind, line, above):
    """A line of RGB bytes in place (PNG specification, 9.2)."""
    for i in range(len(line)):
        left, up, corner = (line[i - 3], above[i], above[i - 3]) if i >= 3 else (0, above[i], 0)
        if kind == 0:
            return
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        else:
            distances = (abs(up - corner), abs(left - corner), abs(left + up - 2 * corner))
            guess = (left, up, corner)[distances.index(min(distances))]
        line[i] = (line[i] + guess) & 255


def thumbnail(width, height, pixels, left=0, top=0, size=128, cell=4):
    """Mean colours of cell x cell squares of a size x size window."""
    means = []
    for y in range(top, top + size, cell):
        for x in range(left, left + size, cell):
            for channel in range(3):
                total = 0
                for row in range(cell):
                    at = ((y + row) * width + x) * 3 + channel
                    total += sum(pixels[at:at + 3 * cell:3])
                means.append(total / (cell * cell))
    return means


def grid_cells(path, count):
    """Thumbnails of the pictures in the fixtures' grid: six a row, framed, with captions below."""
    width, height, pixels = read_png(path)
    return [thumbnail(width, height, pixels, 136 * (i % 6) + 4, 164 * (i // 6) + 2) for i in range(count)]


def nearest(drawn, cells):
    """The position of the cell that differs least."""
    distances = [sum((a - b) ** 2 for a, b in zip(drawn, cell)) for cell in cells]
    return distances.index(min(distances))


def relative_l2(found, reference):
    if len(found) != len(reference):
        return math.inf
    difference = math.fsum((a - b) ** 2 for a, b in zip(found, reference))
    return math.sqrt(difference / math.fsum(b * b for b in reference))


def levels(found, reference):
    """Largest difference of two pictures' bytes, and how many differ."""
    if len(found) != len(reference):
        return 255, len(reference)
    differences = [abs(a - b) for a, b in zip(found, reference)]
    return max(differences), sum(d > 0 for d in differences)

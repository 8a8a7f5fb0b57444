"""Draws the grid prompts of tests/fixtures/emoji-klein/fixtures.json with dif generate and joins the pictures.

usage: picture_grid.py DIF OUT.png [grid_prompts | heldout_grid_prompts]

Seeds are those of the fixture's own grids: 100 + i, and 300 + i for the held-out pairs. Needs Pillow.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image

dif, out = sys.argv[1], sys.argv[2]
key = sys.argv[3] if len(sys.argv) > 3 else "grid_prompts"
root = pathlib.Path(__file__).resolve().parents[2]
prompts = json.loads((root / "tests/fixtures/emoji-klein/fixtures.json").read_text())[key]
first_seed = 300 if key.startswith("heldout") else 100
columns = 6
grid = Image.new("RGB", (columns * 128, (len(prompts) + columns - 1) // columns * 128), "white")
with tempfile.TemporaryDirectory() as folder:
    for i, prompt in enumerate(prompts):
        path = f"{folder}/{i}.png"
        subprocess.run([dif, "generate", prompt, "--seed", str(first_seed + i), "-q", "-o", path],
                       check=True, stdout=subprocess.DEVNULL)
        grid.paste(Image.open(path), (i % columns * 128, i // columns * 128))
grid.save(out, optimize=True)

"""Draw pictures in which a captioner of digits knows nothing, and count those of which `regard caption` warns.

    python data/digits/foreign.py OUT                           draws 50 of each kind: OUT/noise/00.png, ...
    python data/digits/foreign.py --count captions.jsonl [...]  reads what `regard caption --json` has written

==========  ==================================================================================
kind        40 x 40 grey pictures
==========  ==================================================================================
empty       one shade, from black to white
noise       uniform, Gaussian, or single white pixels
gradients   shades that rise or oscillate in one direction
inverted    scenes of the test, black on white
shapes      one to three white rectangles, ellipses, lines or triangles on black
letters     one to three white letters on black, of the font that comes with Pillow
same pen    the same letters, reduced to 8 x 8 and drawn by `scenes.py` as the digits are
==========  ==================================================================================

Needs Python 3.11, NumPy and Pillow.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scenes import SIZE, Digits, Painter, choose_digits, draw_scenes, png, read_digits

COUNT = 50  # pictures of each kind
LETTERS = "ABCDEFGHKLMNPQRTUVWXYabdefghkmnpqrtwxy"  # those that don't look like a digit
CORNERS = (2, 2), (22, 4), (10, 22)  # of up to three things

Draw = Callable[[np.random.Generator, int], np.ndarray]


def empty(rng: np.random.Generator, number: int) -> np.ndarray:
    return np.full((SIZE, SIZE), round(255 * number / (COUNT - 1)))


def noise(rng: np.random.Generator, number: int) -> np.ndarray:
    if number % 3 == 0:
        return rng.integers(0, 256, (SIZE, SIZE))
    if number % 3 == 1:
        return rng.normal(rng.uniform(0, 255), rng.uniform(10, 80), (SIZE, SIZE)).clip(0, 255)
    return 255 * (rng.random((SIZE, SIZE)) < rng.uniform(0.02, 0.5))


def gradients(rng: np.random.Generator, number: int) -> np.ndarray:
    rows, columns = np.indices((SIZE, SIZE))
    slopes = rng.uniform(-1, 1, 2)
    rise = slopes[0] * rows + slopes[1] * columns
    rise = (rise - rise.min()) / np.ptp(rise)
    shades: np.ndarray = 255 * (0.5 + 0.5 * np.sin(rng.uniform(5, 30) * rise) if number % 2 else rise)
    return shades


def inverted(rng: np.random.Generator, number: int) -> np.ndarray:
    return 255 - test_scenes()[number]


@cache
def test_scenes() -> list[np.ndarray]:
    return [scene.picture for scene in draw_scenes(read_digits(), "test", COUNT, 2)]


def shapes(rng: np.random.Generator, number: int) -> np.ndarray:
    picture = Image.new("L", (SIZE, SIZE))
    draw = ImageDraw.Draw(picture)
    for _ in range(rng.integers(1, 4)):
        (x, y), (width, height) = rng.integers(2, 20, 2).tolist(), rng.integers(8, 18, 2).tolist()
        box, shade = (x, y, x + width, y + height), int(rng.integers(180, 256))
        match rng.integers(4):
            case 0:
                draw.rectangle(box, fill=shade)
            case 1:
                draw.ellipse(box, fill=shade)
            case 2:
                draw.line(box, fill=shade, width=2)
            case _:
                draw.polygon((x, y + height, x + width, y + height, x + width // 2, y), outline=shade)
    return np.asarray(picture)


def letters(rng: np.random.Generator, number: int) -> np.ndarray:
    picture = Image.new("L", (SIZE, SIZE))
    draw = ImageDraw.Draw(picture)
    for corner in CORNERS[: rng.integers(1, 4)]:
        letter, font = str(rng.choice([*LETTERS])), ImageFont.load_default(int(rng.integers(14, 19)))
        draw.text(corner, letter, font=font, fill=int(rng.integers(180, 256)))
    return np.asarray(picture)


def same_pen(rng: np.random.Generator, number: int) -> np.ndarray:
    return painter().draw(choose_digits(rng), rng).picture


@cache
def painter() -> Painter:
    """Return what draws letters in the places of digits."""
    images = np.array([reduced(letter) for letter in LETTERS])
    return Painter(Digits(images, np.arange(len(LETTERS)) % 10), np.arange(len(LETTERS)))


def reduced(letter: str) -> np.ndarray:
    """Return a letter as an 8 x 8 sample of values from 0 to 16."""
    large = Image.new("L", (96, 96))
    ImageDraw.Draw(large).text((16, 16), letter, font=ImageFont.load_default(60), fill=255)
    box = large.getbbox()
    assert box is not None
    ink = large.crop(box)
    side = max(ink.size)
    square = Image.new("L", (side, side))
    square.paste(ink, ((side - ink.width) // 2, (side - ink.height) // 2))
    values = np.asarray(square.resize((8, 8), Image.Resampling.BOX))
    sample: np.ndarray = np.rint(16 * (values / values.max()))
    return sample


KINDS: dict[str, Draw] = {
    "empty": empty,
    "noise": noise,
    "gradients": gradients,
    "inverted": inverted,
    "shapes": shapes,
    "letters": letters,
    "same pen": same_pen,
}


def write(out: Path) -> None:
    """Write 50 pictures of each kind; the same in every call, with the same version of Pillow."""
    for seed, (kind, draw) in enumerate(KINDS.items()):
        (out / kind).mkdir(parents=True, exist_ok=True)
        for number in range(COUNT):
            pixels = draw(np.random.default_rng([seed, number]), number)
            (out / kind / f"{number:02d}.png").write_bytes(png(pixels.astype(np.uint8)))


def count(lines: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return for each folder how many of its pictures have doubts, and how many it has."""
    records = [json.loads(line) for line in lines]
    folders = [Path(record["path"]).parent.name for record in records]
    flagged = Counter(folder for folder, record in zip(folders, records, strict=True) if record.get("doubts"))
    return {folder: (flagged[folder], total) for folder, total in Counter(folders).items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw pictures without digits, or count warnings of them.")
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("out", nargs="?", type=Path, metavar="OUT", help="the folder to write to")
    task.add_argument("--count", nargs="+", type=Path, metavar="FILE", help="files of regard caption --json")
    options = parser.parse_args(arguments)
    if options.out:
        write(options.out)
        return
    counts = count(line for file in options.count for line in file.read_text(encoding="utf-8").splitlines())
    print(f"{'pictures':<12}{'warned of':>10}{'of':>6}")
    for folder, (flagged, total) in counts.items():
        print(f"{folder:<12}{flagged:>10}{total:>6}")


if __name__ == "__main__":
    main()

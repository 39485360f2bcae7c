"""Draw scenes of one to three handwritten digits, with captions and boxes.

    python data/digits/scenes.py OUT --train 20000 --valid 500 --test 1000 --held-out 500 --seed 1

writes `OUT/train/00000.png` and so on (40 x 40 grey pictures), `OUT/train.tsv`, `valid.tsv`, `test.tsv` and
`held_out.tsv` (path relative to the file, TAB, caption), and `OUT/boxes.jsonl`, which gives for each picture of
test and held_out the caption words that name digits and the boxes of these digits.

A caption lists the digits in reading order and relates the first one to each other one:

    a seven
    a seven above a two
    a seven above a two and left of an eight

The same arguments draw the same scenes. Needs Python 3.11 and NumPy.
"""

from __future__ import annotations

import argparse
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
HELD_OUT = tuple(
    map(frozenset, ({0, 3}, {1, 4}, {2, 9}, {5, 7}, {6, 8}))
)  # pairs drawn by lot, each digit once

SIZE = 40  # pixels, the height and the width of a picture
SCALES = (12, 13, 14, 15, 16)  # pixels to which the 8 cells of a sample are enlarged
FAINTEST = 0.1  # fainter ink is left out, so that a box fits the visible ink
DIMMEST = 0.7  # the brightness of a digit is between this and 1
COUNTS = (1, 2, 2, 3, 3)  # digits of a scene, each entry as likely

# Distances in pixels between two digits that make a caption unambiguous
GAP = 2  # at least, between their boxes
SAME_ROW = 4  # their centres differ by at most this in height,
NEXT_ROW = 9  # or by at least this
MARGIN = 5  # at least, between the horizontal and the vertical distance of their centres

LAYOUTS = 200  # are drawn at a time, of which the first unambiguous one is used


class Box(NamedTuple):
    """The pixels of a digit: columns x0 to x1 - 1 and rows y0 to y1 - 1."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def centre(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2


class Digits(NamedTuple):
    """The samples: images (n, 8, 8) of values 0 to 16, and labels (n,)."""

    images: np.ndarray
    labels: np.ndarray


class Scene(NamedTuple):
    """A picture (40, 40), and its digits in the order of the caption."""

    picture: np.ndarray
    digits: tuple[int, ...]
    boxes: tuple[Box, ...]
    samples: tuple[int, ...]  # rows of digits.csv.gz

    @property
    def caption(self) -> str:
        return caption(self.digits, self.boxes)


# ------------------------------------------------------------------------------------------ samples


def read_digits(path: Path = HERE / "digits.csv.gz") -> Digits:
    """Read the samples: one a line, 64 values and the label."""
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    return Digits(table[:, :-1].reshape(-1, 8, 8), table[:, -1])


def split_samples(count: int) -> dict[str, np.ndarray]:
    """Split the samples: a fifth for test, a tenth for validation, the rest for training.

    The split does not depend on the seed of the scenes. It uses the raw output of PCG64, which is the same in
    every version of NumPy.
    """
    order = np.argsort(np.random.PCG64(1998).random_raw(count), kind="stable")
    test, valid = count // 5, count // 10
    return {"test": order[:test], "valid": order[test : test + valid], "train": order[test + valid :]}


def enlarge(images: np.ndarray, side: int) -> np.ndarray:
    """Enlarge the 8 cells of images (n, 8, 8) to `side` pixels by linear interpolation.

    The result (n, side + 4, side + 4) has values from 0 to 1 and a margin of 2 pixels, in which the ink fades
    out.
    """
    cells = (np.arange(side + 4) - 1.5) * 8 / side - 0.5
    weights = np.maximum(0, 1 - np.abs(cells[:, None] - np.arange(8)))
    enlarged: np.ndarray = weights @ (images / 16) @ weights.T
    return enlarged


def crop(ink: np.ndarray) -> np.ndarray:
    """Cut ink (m, m) to the rows and columns that have some, without too faint ink."""
    visible = np.where(ink < FAINTEST, 0, ink)
    rows, columns = np.flatnonzero(visible.any(axis=1)), np.flatnonzero(visible.any(axis=0))
    return visible[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


# ------------------------------------------------------------------------------------------ captions


def distance(a: Box, b: Box) -> tuple[float, float]:
    """Return how far the centre of b is to the right of the centre of a, and how far below it."""
    (ax, ay), (bx, by) = a.centre, b.centre
    return bx - ax, by - ay


def unambiguous(boxes: np.ndarray) -> np.ndarray:
    """Whether boxes (..., n, 4) are apart, in clear rows, and each two of them in a clear relation."""
    first, second = np.triu_indices(boxes.shape[-2], 1)
    a, b = boxes[..., first, :], boxes[..., second, :]
    gap = np.maximum(b[..., :2] - a[..., 2:], a[..., :2] - b[..., 2:]).max(axis=-1)
    dx, dy = np.moveaxis(np.abs(b[..., :2] + b[..., 2:] - a[..., :2] - a[..., 2:]) / 2, -1, 0)
    in_rows = (dy <= SAME_ROW) | (dy >= NEXT_ROW)
    clear: np.ndarray = ((gap >= GAP) & in_rows & (np.abs(dx - dy) >= MARGIN)).all(axis=-1)
    return clear


def reading_order(boxes: Sequence[Box]) -> list[int]:
    """Return the indices of unambiguous boxes row by row from the top, and from left to right in a row."""

    def position(i: int) -> tuple[int, int]:
        return sum(distance(other, boxes[i])[1] >= NEXT_ROW for other in boxes), boxes[i].x0

    return sorted(range(len(boxes)), key=position)


def relation(a: Box, b: Box) -> str:
    """Name the position of a relative to b, by the larger of the two distances of their centres."""
    dx, dy = distance(a, b)
    if abs(dx) > abs(dy):
        return "left of" if dx > 0 else "right of"
    return "above" if dy > 0 else "below"


def named(digit: int) -> str:
    return f"{'an' if digit == 8 else 'a'} {WORDS[digit]}"


def caption(digits: Sequence[int], boxes: Sequence[Box]) -> str:
    """Describe digits in reading order: the first one, and its relation to each other one."""
    others = [
        f"{relation(boxes[0], box)} {named(digit)}" for digit, box in zip(digits[1:], boxes[1:], strict=True)
    ]
    return " ".join([named(digits[0]), *" and ".join(others).split()])


# ------------------------------------------------------------------------------------------ scenes


def has_held_out_pair(digits: Iterable[int]) -> bool:
    present = set(digits)
    return any(pair <= present for pair in HELD_OUT)


def choose_digits(rng: np.random.Generator) -> list[int]:
    """Choose one to three digits without a held-out pair."""
    count = COUNTS[rng.integers(len(COUNTS))]
    while True:
        digits: list[int] = rng.integers(10, size=count).tolist()
        if not has_held_out_pair(digits):
            return digits


def choose_held_out(rng: np.random.Generator) -> list[int]:
    """Choose the two digits of a held-out pair."""
    digits: list[int] = rng.permutation(sorted(HELD_OUT[rng.integers(len(HELD_OUT))])).tolist()
    return digits


class Painter:
    """Draws scenes from some of the samples."""

    def __init__(self, digits: Digits, pool: np.ndarray) -> None:
        self.pool = [pool[digits.labels[pool] == digit].tolist() for digit in range(10)]
        enlarged = [enlarge(digits.images[pool], side) for side in SCALES]
        self.ink = {int(s): [crop(images[i]) for images in enlarged] for i, s in enumerate(pool)}

    def draw(self, digits: Sequence[int], rng: np.random.Generator) -> Scene:
        """Draw the digits with random samples, scales, positions and brightnesses."""
        samples = [self.pool[digit][rng.integers(len(self.pool[digit]))] for digit in digits]
        ink, boxes = self.arrange(samples, rng)
        picture = np.zeros((SIZE, SIZE), np.uint8)
        for part, (x0, y0, x1, y1) in zip(ink, boxes, strict=True):
            picture[y0:y1, x0:x1] = np.rint(255 * rng.uniform(DIMMEST, 1) * part)
        order = reading_order(boxes)
        return Scene(
            picture,
            tuple(digits[i] for i in order),
            tuple(boxes[i] for i in order),
            tuple(samples[i] for i in order),
        )

    def arrange(self, samples: Sequence[int], rng: np.random.Generator) -> tuple[list[np.ndarray], list[Box]]:
        """Draw scales and positions until the boxes are unambiguous."""
        while True:
            scales = rng.integers(len(SCALES), size=len(samples))
            ink = [self.ink[s][scale] for s, scale in zip(samples, scales, strict=True)]
            extent = np.array([part.shape[::-1] for part in ink])
            corner = 1 + (rng.random((LAYOUTS, len(ink), 2)) * (SIZE - 1 - extent)).astype(int)
            boxes = np.concatenate([corner, corner + extent], axis=-1)
            if (good := np.flatnonzero(unambiguous(boxes))).size:
                return ink, [Box(*box) for box in boxes[good[0]].tolist()]


SPLITS: dict[str, tuple[str, Callable[[np.random.Generator], list[int]]]] = {
    "train": ("train", choose_digits),
    "valid": ("valid", choose_digits),
    "test": ("test", choose_digits),
    "held_out": ("test", choose_held_out),
}


def draw_scenes(digits: Digits, split: str, count: int, seed: int) -> Iterator[Scene]:
    """Draw the scenes of a split; the first ones are the same for every count."""
    source, choose = SPLITS[split]
    painter = Painter(digits, split_samples(len(digits.labels))[source])
    rng = np.random.default_rng([seed, list(SPLITS).index(split)])
    return (painter.draw(choose(rng), rng) for _ in range(count))


# ------------------------------------------------------------------------------------------ files


def png(picture: np.ndarray) -> bytes:
    """Return a grey picture (h, w) of uint8 as a PNG file.

    Twenty thousand small pictures take a second or two; Pillow, which is made for large ones, takes nine.
    """
    height, width = picture.shape
    lines = np.zeros((height, width + 1), np.uint8)  # each line begins with 0: no filter
    lines[:, 1:] = picture
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0),  # 8 bits, grey, not interlaced
        b"IDAT": zlib.compress(lines.tobytes(), 6),
        b"IEND": b"",
    }
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    ]
    return b"".join([b"\x89PNG\r\n\x1a\n", *parts])


def describe(path: str, scene: Scene) -> dict[str, Any]:
    """Return the entry of a scene in boxes.jsonl."""
    words = [i for i, word in enumerate(scene.caption.split()) if word in WORDS]
    return {
        "path": path,
        "caption": scene.caption,
        "words": words,
        "digits": list(scene.digits),
        "boxes": [list(box) for box in scene.boxes],
    }


def write_split(out: Path, split: str, scenes: Iterable[Scene]) -> list[dict[str, Any]]:
    """Write the pictures of a split and its TSV; return the descriptions of its scenes."""
    (out / split).mkdir(parents=True, exist_ok=True)
    descriptions = []
    for i, scene in enumerate(scenes):
        path = f"{split}/{i:05d}.png"
        (out / path).write_bytes(png(scene.picture))
        descriptions.append(describe(path, scene))
    lines = [f"{d['path']}\t{d['caption']}\n" for d in descriptions]
    (out / f"{split}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")
    return descriptions


def write_scenes(out: Path, counts: dict[str, int], seed: int) -> None:
    """Write all pictures, captions and boxes; `counts` has the number of scenes of each split."""
    digits = read_digits()
    described = {
        split: write_split(out, split, draw_scenes(digits, split, count, seed))
        for split, count in counts.items()
    }
    lines = [json.dumps(d) + "\n" for d in [*described["test"], *described["held_out"]]]
    (out / "boxes.jsonl").write_text("".join(lines), encoding="utf-8", newline="\n")


def natural(text: str) -> int:
    if (number := int(text)) < 0:
        raise ValueError(text)
    return number


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Draw scenes of handwritten digits, with captions and boxes."
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write to")
    for split, default in {"train": 20000, "valid": 500, "test": 1000, "held_out": 500}.items():
        option = f"--{split.replace('_', '-')}"
        parser.add_argument(option, type=natural, default=default, help=f"scenes (default: {default})")
    parser.add_argument("--seed", type=natural, default=1, help="of the scenes (default: 1)")
    options = parser.parse_args(arguments)
    write_scenes(options.out, {split: getattr(options, split) for split in SPLITS}, options.seed)


if __name__ == "__main__":
    main()

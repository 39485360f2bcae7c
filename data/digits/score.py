"""Score captions of scenes, and the attention of the captioner.

    python data/digits/score.py OUT/test.tsv captions.tsv [--cells cells.jsonl]

`captions.tsv` has path TAB caption a line. `cells.jsonl` has an object a line: {"path": ..., "tokens": [...],
"cells": [[row, column], ...], "grid": [h, w]}, where the cell of a token is the most attended one of an h x w grid
over the picture. The boxes are read from boxes.jsonl in the folder of test.tsv. Pictures are matched by the last two
parts of their paths.

Prints, for scenes of one, two and three digits and for all:

exact    percentage of captions that equal the reference
digits   percentage of digits that are named correctly: the k-th digit word of the caption is that of the reference
in box   percentage of digit words whose most attended cell has its centre in the box of their digit; the k-th digit
         word belongs to the k-th digit, and one without a digit counts as outside
chance   the same for a random cell: mean percentage of the cells of the grid whose centres are in that box
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from scenes import SIZE, WORDS

Box = Sequence[int]


class Shares(NamedTuple):
    """The results on some scenes; `in_box` and `chance` are None without cells or digit words."""

    scenes: int
    exact: float
    digits: float
    in_box: float | None = None
    chance: float | None = None


# ------------------------------------------------------------------------------------------ one scene


def digit_words(caption: str) -> list[str]:
    return [word for word in caption.split() if word in WORDS]


def named_right(caption: str, truth: str) -> int:
    """Count the digits that the caption names correctly, position by position."""
    return sum(a == b for a, b in zip(digit_words(caption), digit_words(truth), strict=False))


def contains(box: Box, cell: Sequence[int], grid: Sequence[int]) -> bool:
    """Whether the centre of a cell (row, column) of a grid (h, w) over the picture is in the box."""
    x0, y0, x1, y1 = box
    y, x = ((index + 0.5) * SIZE / count for index, count in zip(cell, grid, strict=True))
    return x0 <= x < x1 and y0 <= y < y1


def pointed(attended: Mapping[str, Any], boxes: Sequence[Box]) -> list[bool]:
    """Return for each digit word whether its most attended cell is in the box of its digit."""
    pairs = zip(attended["tokens"], attended["cells"], strict=True)
    cells = [cell for token, cell in pairs if token in WORDS]
    return [
        box is not None and contains(box, cell, attended["grid"])
        for cell, box in zip_longest(cells, boxes[: len(cells)])
    ]


def by_chance(attended: Mapping[str, Any], boxes: Sequence[Box]) -> list[float]:
    """Return for each digit word the share of the cells of the grid that are in the box of its digit."""
    h, w = grid = attended["grid"]
    words = sum(token in WORDS for token in attended["tokens"])
    shares = [
        sum(contains(box, (row, column), grid) for row in range(h) for column in range(w)) / (h * w)
        for box in boxes[:words]
    ]
    return shares + [0.0] * (words - len(shares))


# ------------------------------------------------------------------------------------------ all scenes


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def score(
    truth: Mapping[str, str],
    captions: Mapping[str, str],
    attended: Mapping[str, Mapping[str, Any]] | None = None,
    boxes: Mapping[str, Sequence[Box]] | None = None,
) -> Shares:
    """Score the captions of all scenes of the truth; all arguments have the same keys, or more than the truth."""
    right = sum(named_right(captions[path], truth[path]) for path in truth)
    digits = sum(len(digit_words(caption)) for caption in truth.values())
    exact = sum(captions[path].split() == caption.split() for path, caption in truth.items())
    shares = Shares(len(truth), exact / len(truth), right / digits)
    if attended is None or boxes is None:
        return shares
    inside = [x for path in truth for x in pointed(attended[path], boxes[path])]
    chance = [x for path in truth for x in by_chance(attended[path], boxes[path])]
    return shares._replace(in_box=mean(inside), chance=mean(chance))


def by_count(truth: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Group the truth by its number of digits; the last group has all scenes."""
    counts = {path: len(digit_words(caption)) for path, caption in truth.items()}
    groups = {
        str(n): {p: c for p, c in truth.items() if counts[p] == n} for n in sorted(set(counts.values()))
    }
    return {**groups, "all": dict(truth)}


# ------------------------------------------------------------------------------------------ files


def key(path: str) -> str:
    """Return the last two parts of a path, which name the split and the picture."""
    return "/".join(PurePosixPath(path.replace("\\", "/")).parts[-2:])


def read_captions(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {key(name): caption for name, _, caption in (line.partition("\t") for line in lines)}


def read_objects(path: Path) -> dict[str, dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {key(entry["path"]): entry for entry in map(json.loads, lines)}


def require(truth: Iterable[str], content: Mapping[str, Any], file: Path) -> None:
    """Raise ValueError if a picture of the truth is missing in the content of a file."""
    if missing := [path for path in truth if path not in content]:
        raise ValueError(
            f"{file} has nothing for {len(missing)} pictures, the first of which is {missing[0]}"
        )


def report(groups: Mapping[str, Shares]) -> str:
    """Return the table of the results in percent."""
    rows = [f"{'digits':<8}{'scenes':>8}{'exact':>9}{'digits':>9}{'in box':>9}{'chance':>9}"]
    for name, (scenes, *shares) in groups.items():
        cells = [f"{'-':>9}" if share is None else f"{100 * share:>8.1f}%" for share in shares]
        rows.append(f"{name:<8}{scenes:>8}{''.join(cells)}")
    return "\n".join(rows)


def score_files(truth_file: Path, captions_file: Path, cells_file: Path | None = None) -> dict[str, Shares]:
    """Score the captions of a file, and the cells of another one, by the number of digits of the scenes."""
    truth, captions = read_captions(truth_file), read_captions(captions_file)
    if not truth:
        raise ValueError(f"{truth_file} has no scenes")
    require(truth, captions, captions_file)
    attended, boxes = None, None
    if cells_file is not None:
        boxes_file = truth_file.parent / "boxes.jsonl"
        attended = read_objects(cells_file)
        boxes = {path: entry["boxes"] for path, entry in read_objects(boxes_file).items()}
        require(truth, attended, cells_file)
        require(truth, boxes, boxes_file)
    return {name: score(group, captions, attended, boxes) for name, group in by_count(truth).items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Score captions of scenes, and the attention of the captioner."
    )
    parser.add_argument("truth", type=Path, help="path TAB caption, as scenes.py writes it")
    parser.add_argument("captions", type=Path, help="path TAB caption of each of these pictures")
    parser.add_argument("--cells", type=Path, help="JSON lines: path, tokens, cells and grid")
    options = parser.parse_args(arguments)
    try:
        print(report(score_files(options.truth, options.captions, options.cells)))
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

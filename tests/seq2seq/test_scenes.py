"""The demo data in data/digits: the samples, the scenes drawn from them, their files and their score."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from functools import cache
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "data" / "digits"
if not FOLDER.is_dir():  # a source distribution has no data
    pytest.skip("needs data/digits", allow_module_level=True)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


scenes = load("scenes")
score = load("score")
DIGITS = scenes.read_digits()
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
NUMBER = {word: i for i, word in enumerate(WORDS)}


@cache
def drawn(split: str) -> list[Any]:
    return list(scenes.draw_scenes(DIGITS, split, 60, 3))


def all_drawn() -> list[Any]:
    return [scene for split in scenes.SPLITS for scene in drawn(split)]


# ------------------------------------------------------------------------------------------ samples


def test_the_samples_are_those_of_the_readme() -> None:
    packed = (FOLDER / "digits.csv.gz").read_bytes()
    assert len(packed) < 100_000
    assert hashlib.sha256(packed).hexdigest() in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert DIGITS.images.shape == (1797, 8, 8)
    assert (DIGITS.images.min(), DIGITS.images.max()) == (0, 16)
    # the counts that the UCI repository publishes for these samples
    assert np.bincount(DIGITS.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_parts_of_the_split_are_disjoint_and_complete() -> None:
    parts = scenes.split_samples(1797)
    assert {name: len(part) for name, part in parts.items()} == {"test": 359, "valid": 179, "train": 1259}
    assert sorted(np.concatenate(list(parts.values()))) == list(range(1797))


@pytest.mark.parametrize("split", ["train", "valid", "test", "held_out"])
def test_a_scene_has_samples_of_its_part_only(split: str) -> None:
    part = set(scenes.split_samples(1797)["test" if split == "held_out" else split].tolist())
    for scene in drawn(split):
        assert set(scene.samples) <= part
        assert [DIGITS.labels[i] for i in scene.samples] == list(scene.digits)


def test_enlarging_a_full_sample_keeps_its_middle_and_fades_at_the_edge() -> None:
    enlarged = scenes.enlarge(np.full((1, 8, 8), 16), 16)[0]
    assert enlarged.shape == (20, 20)
    np.testing.assert_allclose(enlarged[3:-3, 3:-3], 1)
    np.testing.assert_allclose(
        enlarged[10, :4], [0, 0.25, 0.75, 1]
    )  # 1.25, 0.75 and 0.25 cells outside, then inside


# ------------------------------------------------------------------------------------------ scenes


def test_the_held_out_pairs_have_each_digit_once() -> None:
    assert len(scenes.HELD_OUT) == 5
    assert sorted(d for pair in scenes.HELD_OUT for d in pair) == list(range(10))


def test_held_out_pairs_are_in_held_out_scenes_only() -> None:
    for split in scenes.SPLITS:
        for scene in drawn(split):
            pairs = [set(pair) for pair in combinations(scene.digits, 2)]
            assert any(pair in scenes.HELD_OUT for pair in pairs) == (split == "held_out")
    assert {frozenset(scene.digits) for scene in drawn("held_out")} == set(scenes.HELD_OUT)
    assert {len(scene.digits) for scene in drawn("train")} == {1, 2, 3}


def test_the_caption_is_true_of_the_boxes() -> None:
    claims = {
        "left": lambda right, down: right > abs(down),
        "right": lambda right, down: -right > abs(down),
        "above": lambda right, down: down > abs(right),
    }
    for scene in all_drawn():
        words = [w for w in scene.caption.split() if w not in {"of", "and"}]
        assert [NUMBER[w] for w in words[1::3]] == list(scene.digits)
        assert words[0::3] == ["an" if digit == 8 else "a" for digit in scene.digits]
        (x0, y0, x1, y1), *others = scene.boxes
        for name, (u0, v0, u1, v1) in zip(words[2::3], others, strict=True):
            assert claims[name]((u0 + u1 - x0 - x1) / 2, (v0 + v1 - y0 - y1) / 2)


def test_the_boxes_are_in_reading_order() -> None:
    for scene in all_drawn():
        for (_, y0, x1, y1), (u0, v0, _, v1) in combinations(scene.boxes, 2):
            down = (v0 + v1 - y0 - y1) / 2
            assert down >= 9 or (abs(down) <= 4 and x1 < u0)


def test_each_box_is_full_and_all_ink_is_in_a_box() -> None:
    for scene in all_drawn():
        rest = scene.picture.copy()
        for x0, y0, x1, y1 in scene.boxes:
            ink = scene.picture[y0:y1, x0:x1] > 0
            assert all(edge.any() for edge in (ink[0], ink[-1], ink[:, 0], ink[:, -1]))
            assert rest[y0:y1, x0:x1].any()  # no other box has taken it
            rest[y0:y1, x0:x1] = 0
        assert not rest.any()


@pytest.mark.parametrize(
    ("digits", "boxes", "caption"),
    [
        ([8], [(1, 1, 9, 13)], "an eight"),
        ([7, 2], [(5, 1, 15, 13), (7, 20, 15, 33)], "a seven above a two"),
        ([7, 8], [(5, 1, 15, 13), (25, 2, 33, 14)], "a seven left of an eight"),
        ([7, 2], [(25, 1, 35, 13), (5, 12, 15, 24)], "a seven right of a two"),
        (
            [7, 9, 2],
            [(5, 1, 15, 13), (25, 3, 33, 15), (12, 20, 22, 33)],
            "a seven left of a nine and above a two",
        ),
    ],
)
def test_captions_by_hand(digits: list[int], boxes: list[tuple[int, ...]], caption: str) -> None:
    placed = [scenes.Box(*box) for box in boxes]
    assert scenes.caption(digits, placed) == caption
    assert scenes.unambiguous(np.array(boxes))
    assert scenes.reading_order(placed[::-1]) == list(range(len(boxes)))[::-1]


@pytest.mark.parametrize(
    "second",
    [
        (16, 1, 26, 13),  # one pixel between them
        (25, 7, 35, 19),  # neither in the row nor below it
        (20, 14, 30, 26),  # 15 to the right and 13 down
    ],
)
def test_ambiguous_layouts_are_rejected(second: tuple[int, ...]) -> None:
    assert not scenes.unambiguous(np.array([(5, 1, 15, 13), second]))


@pytest.mark.slow
def test_scenes_depend_on_the_seed_alone() -> None:
    again = [s.picture.tobytes() for s in scenes.draw_scenes(DIGITS, "test", 5, 3)]
    assert again == [s.picture.tobytes() for s in drawn("test")[:5]]
    assert again != [s.picture.tobytes() for s in scenes.draw_scenes(DIGITS, "test", 5, 4)]


# ------------------------------------------------------------------------------------------ files


@pytest.mark.slow
def test_the_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    scenes.main([str(tmp_path), "--train=3", "--valid=0", "--test=4", "--held-out=2", "--seed=3"])
    for split, count in {"train": 3, "valid": 0, "test": 4, "held_out": 2}.items():
        lines = (tmp_path / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
        expected = drawn(split)[:count]
        assert lines == [f"{split}/{i:05d}.png\t{s.caption}" for i, s in enumerate(expected)]
        for i, scene in enumerate(expected):
            with image.open(tmp_path / split / f"{i:05d}.png") as picture:
                assert picture.mode == "L"
                np.testing.assert_array_equal(np.asarray(picture), scene.picture)
    described = [json.loads(line) for line in (tmp_path / "boxes.jsonl").read_text().splitlines()]
    assert [d["path"] for d in described[3:]] == [
        "test/00003.png",
        "held_out/00000.png",
        "held_out/00001.png",
    ]
    for d in described:
        assert [NUMBER[d["caption"].split()[i]] for i in d["words"]] == d["digits"]
        assert len(d["boxes"]) == len(d["digits"])


# ------------------------------------------------------------------------------------------ score

TRUTH = {"test/0.png": "a seven above a two", "test/1.png": "an eight"}
CAPTIONS = {"test/0.png": "a seven left of a one", "test/1.png": "an eight"}
BOXES = {"test/0.png": [[0, 0, 10, 10], [0, 20, 20, 40]], "test/1.png": [[20, 20, 40, 40]]}
# on a grid of 4 x 4 the centres are at 5, 15, 25 and 35
ATTENDED = {
    "test/0.png": {
        "path": "elsewhere/test/0.png",
        "tokens": ["a", "seven", "left", "of", "a", "one"],
        "cells": [[3, 3], [0, 0], [3, 3], [3, 3], [3, 3], [1, 0]],
        "grid": [4, 4],
    },
    "test/1.png": {
        "path": "test/1.png",
        "tokens": ["an", "eight", "eight", "</s>"],
        "cells": [[0, 0], [2, 3], [2, 3], [0, 0]],
        "grid": [4, 4],
    },
}


def test_the_score_by_hand() -> None:
    exact, digits = 1 / 2, 2 / 3  # the eight; the seven and the eight
    assert score.score(TRUTH, CAPTIONS) == (2, exact, digits, None, None)
    # seven is in its box, one is above it, eight is in it, the second eight has none: chances of 1, 4, 4 and 0 cells
    assert score.score(TRUTH, CAPTIONS, ATTENDED, BOXES) == (2, exact, digits, 2 / 4, 9 / 64)


def test_a_cell_counts_by_its_centre() -> None:
    assert score.contains([5, 5, 15, 15], [0, 0], [4, 4])  # (5, 5) is the first pixel of the box
    assert not score.contains([5, 5, 15, 15], [1, 0], [4, 4])  # (5, 15) is just below it
    assert score.contains([30, 0, 40, 20], [0, 3], [2, 4])  # rows and columns have their own sizes


def write(folder: Path, captions: dict[str, str]) -> list[str]:
    for name, values in {"test": TRUTH, "captions": captions}.items():
        (folder / f"{name}.tsv").write_text("".join(f"{p}\t{c}\n" for p, c in values.items()))
    boxes = [json.dumps({"path": p, "boxes": b}) for p, b in BOXES.items()]
    (folder / "boxes.jsonl").write_text("\n".join(boxes))
    (folder / "cells.jsonl").write_text("\n".join(map(json.dumps, ATTENDED.values())))
    return [str(folder / "test.tsv"), str(folder / "captions.tsv")]


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write(tmp_path, CAPTIONS)
    score.main([*files, "--cells", str(tmp_path / "cells.jsonl")])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["digits", "scenes", "exact", "digits", "in", "box", "chance"],
        ["1", "1", "100.0%", "100.0%", "50.0%", "12.5%"],
        ["2", "1", "0.0%", "50.0%", "50.0%", "15.6%"],
        ["all", "2", "50.0%", "66.7%", "50.0%", "14.1%"],
    ]
    score.main(files)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["all", "2", "50.0%", "66.7%", "-", "-"]


# ------------------------------------------------------------------------------------------ pictures without digits


@pytest.mark.slow
def test_foreign_pictures_are_drawn(tmp_path: Path) -> None:
    foreign = load("foreign")
    foreign.main([str(tmp_path)])
    for kind in foreign.KINDS:
        drawn = {path.read_bytes() for path in (tmp_path / kind).glob("*.png")}
        assert len(drawn) == foreign.COUNT  # all differ


def test_warnings_are_counted_by_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records: list[dict[str, Any]] = [
        {"path": f"a/test/{number}.png", "caption": "an eight"} for number in range(3)
    ]
    records += [
        {"path": "a/noise/0.png", "caption": "", "doubts": ["size 9"]},
        {"path": "a/noise/1.png", "caption": ""},
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    load("foreign").main(["--count", str(tmp_path / "x.jsonl")])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [["test", "0", "3"], ["noise", "1", "2"]]


def test_a_missing_caption_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        score.main(write(tmp_path, {"test/0.png": "a seven"}))
    assert stopped.value.code == 2
    assert "has nothing for 1 pictures, the first of which is test/1.png" in capsys.readouterr().err

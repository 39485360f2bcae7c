"""Tiny pictures with captions, and tiny arrays with labels, in a folder with a file of pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.seq2seq import Images, Seq2Seq, Vectors

COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220)}
SIZE = ["--source", "images", "--size", "8", "12"]
SMALL = {"embedding": 8, "encoder": 8, "decoder": 8}
NETWORK = ["--network", *(f"{name}={size}" for name, size in SMALL.items())]


def draw(path: Path, colour: str, side: str, top: int = 2) -> None:
    """Save a picture of 8 x 12 pixels: a square on white, at the left or the right."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.full((8, 12, 3), 255, np.uint8)
    left = 1 if side == "left" else 7
    pixels[top : top + 4, left : left + 4] = COLOURS[colour]
    path.parent.mkdir(parents=True, exist_ok=True)
    image.fromarray(pixels).save(path)


def captions(folder: Path, count: int = 6, name: str = "pairs.tsv") -> Path:
    """Draw pictures into the folder `pictures`, and list them in a file next to it."""
    lines = []
    for number in range(count):
        colour, side = list(COLOURS)[number % 2], ("left", "right")[number // 2 % 2]
        draw(folder / "pictures" / f"{number}.png", colour, side, number % 5)
        lines.append(f"pictures/{number}.png\t{colour} {side}\n")
    path = folder / name
    path.write_text("".join(lines), encoding="utf-8")
    return path


def labels(folder: Path, count: int = 24) -> Path:
    """Save sets of vectors far from 0, and label them by the sign of the first number."""
    rng, lines = np.random.default_rng(0), []
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        rows = rng.normal(0, 1, (1 + number % 3, 2))
        rows[:, 0] = np.abs(rows[:, 0]) * (1 if number % 2 else -1)
        np.save(folder / f"{number}.npy", 1000 + 50 * rows)
        lines.append(f"{number}.npy\t{'high' if number % 2 else 'low'}\n")
    path = folder / "labels.tsv"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def captioner(folder: Path, **options: object) -> Path:
    """Train a small model for one epoch on `captions`, and save it."""
    pairs = [line.split("\t") for line in captions(folder).read_text().splitlines()]
    model = Seq2Seq(source=Images(8, 12, channels=3), network=SMALL, epochs=1, **options)  # type: ignore[arg-type]
    model.fit([str(folder / name) for name, _ in pairs], [text for _, text in pairs])
    model.save(folder / "captioner.safetensors")
    return folder / "captioner.safetensors"


def reader_of_labels(folder: Path, epochs: int = 40) -> Path:
    """Train a small model on `labels`, and save it."""
    pairs = [line.split("\t") for line in labels(folder).read_text().splitlines()]
    model = Seq2Seq(source=Vectors(2, order="set"), network=SMALL, epochs=epochs)
    model.fit([str(folder / name) for name, _ in pairs], [text for _, text in pairs])
    model.save(folder / "reader.safetensors")
    return folder / "reader.safetensors"


def text_model(folder: Path) -> Path:
    """Train a model of text for one epoch, and save it."""
    Seq2Seq(network=SMALL, epochs=1).fit(["one", "two"], ["red", "blue"]).save(folder / "text.safetensors")
    return folder / "text.safetensors"

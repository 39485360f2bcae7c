"""Sources with examples of them, and the smallest models that read them."""

from __future__ import annotations

import wave
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from audio import Audio

from regard.seq2seq import Images, Seq2Seq, Vectors
from regard.seq2seq.sources import Source, Text

Pair = tuple[Any, str]
SMALL = {
    "recurrent": {"embedding": 8, "encoder": 6, "decoder": 8, "attention": 5},
    "transformer": {
        "model_size": 8,
        "heads": 2,
        "feedforward_size": 8,
        "encoder_layers": 1,
        "decoder_layers": 2,
    },
}


class Case(NamedTuple):
    """A source, what makes an example of it with a target, and what it refuses."""

    source: Source
    make: Callable[[np.random.Generator, Path], Pair]
    refused: tuple[Any, type[Exception], str]
    options: str = ""  # of ``regard train``


def sequence(rng: np.random.Generator, folder: Path) -> Pair:
    """One-hot vectors, and the letters of the first and the last."""
    ids = rng.integers(4, size=rng.integers(1, 4))
    return np.eye(4)[ids], f"{'abcd'[ids[0]]} {'abcd'[ids[-1]]}"


def numbers(rng: np.random.Generator, folder: Path) -> Pair:
    """Numbers far from 0, and the largest."""
    several = rng.integers(5, size=rng.integers(1, 5))
    return 1000 + 10.0 * several[:, None], f"n{several.max()}"


def square(rng: np.random.Generator, folder: Path) -> Pair:
    """A bright square in noise, and where it is."""
    picture, (i, j) = rng.integers(0, 100, (8, 8), np.uint8), rng.integers(2, size=2)
    picture[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] += 120
    return picture, f"{('top', 'bottom')[i]} {('left', 'right')[j]}"


def sentence(rng: np.random.Generator, folder: Path) -> Pair:
    words = rng.choice(["one", "two", "three"], rng.integers(1, 5)).tolist()
    return " ".join(words), f"last {words[-1]}"


def letters(rng: np.random.Generator, folder: Path) -> Pair:
    text = "".join(rng.choice(list("abcdef"), rng.integers(2, 8)))
    return text, f"last {text[-1]}"


def points(rng: np.random.Generator, folder: Path) -> Pair:
    count = rng.integers(1, 4)
    return (rng.integers(3, size=(count, 2)), rng.random((count, 1))), f"n{count}"


def colours(rng: np.random.Generator, folder: Path) -> Pair:
    picture = rng.random((4, 8, 3))
    return picture, f"c{picture.mean(axis=(0, 1)).argmax()}"


def tone(rng: np.random.Generator, folder: Path) -> Pair:
    """A recording of a tone, and its pitch."""
    pitch, path = int(rng.integers(1, 4)), folder / f"{rng.integers(1 << 60)}.wav"
    samples = 9000 * np.sin(np.arange(rng.integers(8, 40)) * pitch) + rng.integers(0, 99)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(samples.astype("<i2").tobytes())
    return path, f"p{pitch}"


NO_TEXT = (5.0, TypeError, "a text must be a str or a sequence of tokens. Got float instead.")
NO_NUMBERS = (None, TypeError, "an example must hold real numbers. Got NoneType instead.")
CASES = {
    "words": Case(Text("words"), sentence, NO_TEXT),
    "characters": Case(Text("characters"), letters, NO_TEXT),
    "tokens": Case(Text("tokens"), sentence, (["a b"], ValueError, "a token must be text without spaces.")),
    "sequence": Case(Vectors(4), sequence, NO_NUMBERS, "--source vectors --size 4"),
    "set": Case(Vectors(1, "set"), numbers, NO_NUMBERS, "--source vectors --size 1 --order set"),
    "points": Case(
        Vectors(2, "set", 1),
        points,
        (np.ones((2, 3)), TypeError, "an example with positions must be a pair"),
        "--source vectors --size 2 --order set --positions 1",
    ),
    "images": Case(
        Images(8, 8),
        square,
        (np.zeros((4, 8), np.uint8), ValueError, "an image must have shape (height, width, channels)"),
        "--source images --size 8 8 --channels 1",
    ),
    "colours": Case(
        Images(4, 8, 3, cell=2),
        colours,
        (np.full((4, 8, 3), 2.0), ValueError, "an image of float64 must have numbers from 0 to 1."),
        "--source images --size 4 8 --cell 2",
    ),
    "audio": Case(
        Audio(4),
        tone,
        (b"", TypeError, "a recording must be the path of a file."),
        "--source audio --frame 4",
    ),
    "subwords": Case(Text("subwords", vocabulary=16), sentence, NO_TEXT),
}
# Subwords are learned by sentencepiece, and in threads.
SLOW = [pytest.mark.slow, pytest.mark.threads]
ALL = [pytest.param(kind, marks=SLOW if kind == "subwords" else []) for kind in CASES]
every_kind = pytest.mark.parametrize("kind", ALL)
ARRAYS = [kind for kind, case in CASES.items() if case.source.reads_files]
every_array = pytest.mark.parametrize("kind", ARRAYS)
every_family = pytest.mark.parametrize(
    "family", ["recurrent", pytest.param("transformer", marks=pytest.mark.slow)]
)
FOLDER = [Path()]  # of recordings


def examples(kind: str, count: int, seed: int = 1) -> tuple[list[Any], list[str]]:
    rng = np.random.default_rng(seed)
    pairs = [CASES[kind].make(rng, FOLDER[-1]) for _ in range(count)]
    return [source for source, _ in pairs], [target for _, target in pairs]


def untrained(family: str, kind: str, **options: Any) -> Seq2Seq:
    source = CASES[kind].source
    given: Any = {"source": source if source.reads_files else source.kind}
    if kind == "subwords":
        given["vocabulary"] = 16
    return Seq2Seq(**{"family": family, "network": SMALL[family], "epochs": 2, **given, **options})


@cache
def trained(family: str, kind: str, seed: int = 1) -> Seq2Seq:
    """A model trained for two epochs; not to be changed."""
    return untrained(family, kind, seed=seed).fit(*examples(kind, 24))

"""Examples of sources of arrays, and the smallest networks that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

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


def sequence(rng: np.random.Generator, folder: Path | None = None) -> Pair:
    """One-hot vectors, and the letters of the first and the last."""
    ids = rng.integers(4, size=rng.integers(1, 4))
    return np.eye(4)[ids], f"{'abcd'[ids[0]]} {'abcd'[ids[-1]]}"


def numbers(rng: np.random.Generator, folder: Path | None = None) -> Pair:
    """Numbers far from 0, and the largest."""
    several = rng.integers(5, size=rng.integers(1, 5))
    return 1000 + 10.0 * several[:, None], f"n{several.max()}"


def square(rng: np.random.Generator, folder: Path | None = None) -> Pair:
    """A bright square in noise, and where it is."""
    picture, (i, j) = rng.integers(0, 100, (8, 8), np.uint8), rng.integers(2, size=2)
    picture[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] += 120
    return picture, f"{('top', 'bottom')[i]} {('left', 'right')[j]}"

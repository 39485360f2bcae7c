"""What the tests of exported models need: a trained model, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.seq2seq import Seq2Seq

PAIRS = [
    *(("".join(letters), " ".join(letter.upper() for letter in reversed(letters)))
      for letters in ("ab", "ba", "abc", "cab", "bca", "acb", "bad", "dab", "cad", "abcd", "dcba", "badc")),
]  # fmt: skip
SIZES: dict[str, Any] = {"embedding": 8, "encoder": 6, "decoder": 12, "attention": 6}


def trained(**options: Any) -> Seq2Seq:
    """A model of words to letters, which has learned little."""
    options = {"network": SIZES, "source": "characters", "target": "tokens", "epochs": 3} | options
    return Seq2Seq(**options).fit(*map(list, zip(*PAIRS, strict=True)))


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file, which no test changes."""
    path = tmp_path_factory.mktemp("run") / "model.safetensors"
    trained().save(path)
    return path


def lines(count: int, longest: int = 9) -> list[str]:
    """Different words over the letters of the pairs, and one letter that is in none."""
    rng = np.random.default_rng(4)
    drawn = ("".join(rng.choice(list("abcdx"), rng.integers(1, longest))) for _ in range(10 * count))
    return list(dict.fromkeys(drawn))[:count]

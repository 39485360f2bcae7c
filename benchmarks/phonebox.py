"""A peer of benchmarks/review.py: `phonebox dict review`, with a model of the dictionary that it reviews.

phonebox 0.3.0 aligns letters and phonemes, and trains a decision tree for the letters in their context. Its review
gives each entry the geometric mean of the probabilities of its phonemes, and lists the lowest first. As its
documentation shows it, the model has been trained on the entries that it judges. Entries that the tree cannot give have
the score 0, and stand first in the order of the dictionary. The data by which the tree is pruned are drawn without a
seed, so two reviews differ; without pruning the tree learns the errors.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from data import PHONEBOX, Missing, Pair
from data import phonebox as unpacked_phonebox

NAME = f"{PHONEBOX[0].name} {PHONEBOX[0].version}"


class Review(NamedTuple):
    """Words and their phonemes, worst first, and how many of the first have the score 0."""

    rows: list[Pair]
    zeros: int


def review(words: Path) -> Review:
    """Train a model of a dictionary, and review the dictionary with it."""
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), os.fspath(words.resolve())
        language = ("--locale", "en", "--phoneset", "cmu")
        _run(folder, "train", *language, "--lexicon", file, "-o", "model.g2p.gz")
        _run(folder, "dict", "review", file, "-m", "model.g2p.gz", "-o", "review.tsv")
        with Path(folder, "review.tsv").open(encoding="utf-8", newline="") as table:
            rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    return Review(
        [(row["word"], row["phones"]) for row in rows], sum(float(row["score"]) == 0 for row in rows)
    )


def _run(folder: Path, *options: str) -> None:
    path = os.pathsep.join(os.fspath(package.resolve()) for package in unpacked_phonebox())
    done = subprocess.run(
        [sys.executable, "-m", "phonebox", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise Missing(f"phonebox {options[0]} failed: {lines[-1] if lines else f'exit {done.returncode}'}")

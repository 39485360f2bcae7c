"""What the benchmarks that train share: a model within a budget, its figures, and where they were taken."""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data import Pair
from regard.seq2seq import Seq2Seq
from regard.seq2seq.evaluation.metrics import bleu
from regard.seq2seq.translator import Translator

__all__ = [
    "BEAM",
    "Pairing",
    "Trained",
    "arguments",
    "header",
    "kept",
    "measured",
    "sides",
    "train",
    "translated",
]

RUNS = Path(__file__).parents[1] / "runs"

BEAM = 5
Side = str | Sequence[str]
Pairing = tuple[Side, Side]


class Trained(NamedTuple):
    """A model, and how long it was trained."""

    model: Seq2Seq
    seconds: float


def arguments(description: str | None, *, minutes: float | Sequence[float]) -> argparse.ArgumentParser:
    """Return a parser with what every trial can be told."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    several = isinstance(minutes, Sequence)
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="N",
        default=minutes,
        nargs="+" if several else None,
        help="how long each model may be trained",
    )
    # The time is the budget, so an epoch more or less must not end the training.
    parser.add_argument("--epochs", type=int, default=1000, metavar="N", help="train no longer than this")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all chance in training")
    return parser


def header(*lines: str) -> None:
    """Say on what the figures were taken."""
    processors = f"{os.cpu_count()} processors"
    print(f"NumPy {np.__version__}, Python {platform.python_version()}, {platform.machine()}, {processors}")
    print(*lines, sep="\n", end="\n\n", flush=True)


def train(
    pairs: Sequence[Pairing],
    valid: Sequence[Pairing],
    args: argparse.Namespace,
    options: Mapping[str, Any],
    *,
    minutes: float | None = None,
    links: Sequence[frozenset[tuple[int, int]]] | None = None,
) -> Trained:
    """Train a model; the options are those of `Seq2Seq`, beside those that `arguments` asks for."""
    minutes = args.minutes if minutes is None else minutes
    start = time.perf_counter()
    model = Seq2Seq(minutes=minutes, epochs=args.epochs, seed=args.seed, **options)
    model.fit(*sides(pairs), valid=sides(valid), links=links)
    return Trained(model, time.perf_counter() - start)


def kept(name: str, train: Callable[[], Seq2Seq]) -> Seq2Seq:
    """Return the model of this name in `RUNS`; train it and save it if there is none."""
    path = RUNS / f"{name}.safetensors"
    if path.exists():
        return Seq2Seq.load(path)
    start = time.perf_counter()
    model = train()
    print(f"{name}: trained in {(time.perf_counter() - start) / 60:.1f} minutes", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    return model


def sides(pairs: Sequence[Pairing]) -> tuple[list[Side], list[Side]]:
    """Return the sources and the targets of pairs."""
    return [source for source, _ in pairs], [target for _, target in pairs]


def translated(model: Translator, pairs: Sequence[Pair], *, beam: int = BEAM) -> list[str]:
    """Translate the sources of pairs."""
    return [found.text for found in model.translate([source for source, _ in pairs], beam=beam)]


def measured(model: Translator, pairs: Sequence[Pair], *, beam: int = BEAM) -> float:
    """Return BLEU on pairs, in percent."""
    return bleu(translated(model, pairs, beam=beam), [target for _, target in pairs]).score

"""Shared by the benchmarks of quality: arguments, training within a time limit, translating, and BLEU."""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
from record import add_option

from data import Pair
from regard.seq2seq import Seq2Seq, TrainingConfig
from regard.seq2seq.evaluation.metrics import bleu
from regard.seq2seq.translator import Translator

RUNS = Path(__file__).parents[1] / "runs"

BEAM = 5
Side = str | Sequence[str]
Pairing = tuple[Side, Side]


class Options(TypedDict, total=False):
    """Options of `Seq2Seq`; this type makes mypy check their names."""

    family: str
    attention: bool
    network: dict[str, Any]
    source: str
    target: str
    min_count: int
    extras: Mapping[str, int]
    max_tokens: int
    training: TrainingConfig


class Trained(NamedTuple):
    """A model, and the seconds of its training."""

    model: Seq2Seq
    seconds: float


def arguments(description: str | None, *, minutes: float | Sequence[float]) -> argparse.ArgumentParser:
    """Return a parser with the arguments of every benchmark that trains."""
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
        help="time limit of the training of each model",
    )
    # More than the minutes allow, so that the time limit ends the training.
    parser.add_argument("--epochs", type=int, default=1000, metavar="N", help="the most epochs")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed")
    add_option(parser)
    return parser


def header(*lines: str) -> None:
    """Print the versions, the machine, and other lines."""
    processors = f"{os.cpu_count()} processors"
    print(f"NumPy {np.__version__}, Python {platform.python_version()}, {platform.machine()}, {processors}")
    print(*lines, sep="\n", end="\n\n", flush=True)


def train(
    pairs: Sequence[Pairing],
    valid: Sequence[Pairing],
    args: argparse.Namespace,
    options: Options,
    *,
    minutes: float | None = None,
    links: Sequence[frozenset[tuple[int, int]]] | None = None,
) -> Trained:
    """Train a model with options of `Seq2Seq`, in addition to the arguments of the command line."""
    minutes = args.minutes if minutes is None else minutes
    start = time.perf_counter()
    model = Seq2Seq(minutes=minutes, epochs=args.epochs, seed=args.seed, **options)
    model.fit(*sides(pairs), valid=sides(valid), links=links)
    return Trained(model, time.perf_counter() - start)


def load_or_train(name: str, train: Callable[[], Seq2Seq]) -> Seq2Seq:
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
    return [translation.text for translation in model.translate([source for source, _ in pairs], beam=beam)]


def measured(model: Translator, pairs: Sequence[Pair], *, beam: int = BEAM) -> float:
    """Return BLEU on pairs, in percent."""
    return bleu(translated(model, pairs, beam=beam), [target for _, target in pairs]).score

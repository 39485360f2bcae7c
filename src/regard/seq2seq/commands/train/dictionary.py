"""Pronunciation dictionaries as the pairs of a training."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard import _check
from regard._characters import one_line
from regard.pronunciation import Lexicon, read
from regard.pronunciation.commands.lexicon import joined, note_left_out, prepared
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.decoding.repetition import USUAL, repetitions
from regard.seq2seq.model import Seq2Seq

__all__ = [
    "MOST_TESTED",
    "dictionary_format",
    "dictionary_pairs",
    "most_repetitions",
    "read_dictionary",
    "suggesting_preset",
]

MOST_TESTED = 2_000  # words that are held out for the test
_FORMAT = "tsv"  # which has all words, phones and variants
_DIFFERENT, _EACH = (
    0.6,
    1.5,
)  # share of words that are different, uses of a phone: of sentences they are fewer


def read_dictionary(args: argparse.Namespace, paths: tuple[str, ...]) -> Lexicon:
    """Read dictionaries as one, with the phones that the options ask for; report what is left out."""
    result = prepared(joined([*map(Path, paths)], None, skip_bad=args.skip_bad), args, _FORMAT)
    note_left_out(result, "the training")
    return result.lexicon


@contextmanager
def suggesting_preset(path: str) -> Iterator[None]:
    """Name the preset in the error about a file that has no pairs, if it is a pronunciation dictionary."""
    try:
        yield
    except ValueError as error:
        if path == "-" or not (format := dictionary_format(Path(path))):
            raise
        _check.fail(
            one_line(error), hint=f"--preset pronunciation reads it as a dictionary in the format {format}"
        )


def dictionary_format(path: Path) -> str:
    """Return the format of a dictionary; empty for another file, such as one of sentences."""
    try:
        lexicon = read(path, skip_bad=True)
    except (ValueError, OSError):
        return ""
    entries = [*lexicon.entries()]
    phones = sum(len(variant.phones) for _, variant in entries)
    repeated = len(lexicon) >= _DIFFERENT * len(entries) and phones >= _EACH * len(lexicon.phones())
    return lexicon.format if repeated and len(lexicon.skipped) < len(entries) else ""


def dictionary_pairs(lexicon: Lexicon, model: Seq2Seq) -> list[Pair]:
    """Return a pair for each variant of each word."""
    target = model.target_reader
    return [
        (model.reader.load(word, f"{word!r:.60}: "), target.load(" ".join(variant.phones), f"{word!r:.60}: "))
        for word, variant in lexicon.entries()
    ]


def most_repetitions(lexicon: Lexicon) -> int:
    """Return how often a group of phones comes in a row, at most; no less than what is usual."""
    return max(USUAL, *(repetitions(variant.phones) for _, variant in lexicon.entries()))

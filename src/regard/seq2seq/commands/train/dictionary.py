"""Pronunciation dictionaries as the pairs of a training."""

from __future__ import annotations

import argparse
from pathlib import Path

from regard.pronunciation import Lexicon
from regard.pronunciation.commands.lexicon import joined, note_left_out, prepared
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.decoding.repetition import USUAL, repetitions
from regard.seq2seq.model import Seq2Seq

__all__ = ["MOST_TESTED", "dictionary_pairs", "most_repetitions", "read_dictionary"]

MOST_TESTED = 2_000  # words that are held out for the test
_FORMAT = "tsv"  # which has all words, phones and variants


def read_dictionary(args: argparse.Namespace, paths: tuple[str, ...]) -> Lexicon:
    """Read dictionaries as one, with the phones that the options ask for; report what is left out."""
    result = prepared(joined([*map(Path, paths)], args), args, _FORMAT)
    note_left_out(result, "the training")
    return result.lexicon


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

"""The card of a model of pronunciation: its data, their split, its symbols and rules, its error rates."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from regard.commands.train.data import Data
from regard.commands.train.dictionary import Phones, tested_words
from regard.pronunciation import Lexicon
from regard.pronunciation.ipa import PHONES
from regard.pronunciation.stress import stressed
from regard.seq2seq.corpus.splits import SEED
from regard.seq2seq.evaluation.metrics import error_rate, exact
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources.text.vocabulary import SPECIAL

__all__ = ["describe_rates", "make_card", "rates", "rates_by_length", "rates_of"]


def rates(answers: Sequence[Phones], references: Sequence[Sequence[Phones]]) -> dict[str, Any]:
    """Return the error rates of words and phones, where any variant is right and where the first is.

    Where phones have stress marks, `without_stress` has the rates of what is left when they are dropped.
    """
    measured: dict[str, Any] = {
        "any_variant": rates_of(answers, references),
        "first_variant": rates_of(answers, [variants[:1] for variants in references]),
    }
    plain = [[stressed(phones, "drop") for phones in variants] for variants in references]
    if plain != [[*variants] for variants in references]:
        measured["without_stress"] = rates([stressed(phones, "drop") for phones in answers], plain)
    return measured


def rates_of(answers: Sequence[Phones], references: Sequence[Sequence[Phones]]) -> dict[str, float]:
    """Return the error rates of words and phones, where any variant is right; none without answers."""
    if not answers:
        return {}
    lines, right = [*map(" ".join, answers)], [[*map(" ".join, variants)] for variants in references]
    return {"wer": 1 - exact(lines, right), "per": error_rate(lines, right)}


def rates_by_length(answers: Sequence[Phones], words: Mapping[str, Sequence[Phones]]) -> list[dict[str, Any]]:
    """Return the error rates of words of similar lengths, where any variant is right."""
    grouped: dict[str, list[tuple[Phones, Sequence[Phones]]]] = {name: [] for name in _LENGTHS}
    for answer, (word, variants) in zip(answers, words.items(), strict=True):
        name = next(name for name, most in _LENGTHS.items() if len(word) <= most)
        grouped[name].append((answer, variants))
    return [
        {"letters": name, "words": len(found)} | rates_of([a for a, _ in found], [r for _, r in found])
        for name, found in grouped.items()
        if found
    ]


_LENGTHS = {"1 to 4": 4, "5 or 6": 6, "7 or 8": 8, "9 or 10": 10, "11 or more": math.inf}


def describe_rates(measured: dict[str, Any]) -> str:
    """Describe error rates in one line."""
    words, phones = ([_percent(one[rate]) for one in _rows(measured)] for rate in ("wer", "per"))
    parts = [
        f"{words[0]} of words are wrong (WER) and {phones[0]} of phones (PER)",
        f"{words[1]} and {phones[1]} where only the first variant is right",
        *(f"{word} and {phone} without stress" for word, phone in zip(words[2:], phones[2:], strict=True)),
    ]
    return "; ".join(parts)


def _rows(measured: dict[str, Any]) -> list[dict[str, float]]:
    """Return the rates of all variants, of the first one, and without stress, if there is any."""
    plain = [measured["without_stress"]["any_variant"]] if "without_stress" in measured else []
    return [measured["any_variant"], measured["first_variant"], *plain]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def make_card(
    args: argparse.Namespace, data: Data, model: Seq2Seq, measured: dict[str, Any]
) -> dict[str, Any]:
    """Return the card of a model that is trained on a dictionary; `measured` are its error rates."""
    read, lexicon = model.model, data.lexicon or Lexicon()
    return {
        "files": [*data.files],
        "licence": args.licence,
        "date": datetime.now(UTC).date().isoformat(),
        "words": len(lexicon),
        "entries": sum(map(len, lexicon.values())),
        "split": {
            "by": data.split,
            "seed": None if data.split == "file" else SEED,
            **{part: len(tested_words(getattr(data, part))) for part in _PARTS},
        },
        "letters": [*read.source_tokenizer.tokens[len(SPECIAL) :]],
        "symbols": [*read.target.tokens[len(SPECIAL) :]],
        "rules": {
            "letters": read.source_tokenizer.describe(),
            "repetitions": model.repetitions,
            "phones": args.phones or PHONES[0],
            "stress": args.stress or "keep",
            "phone_map": args.phone_map and args.phone_map.name,
        },
        "held_out": measured,
    }


_PARTS = ("train", "valid", "test")

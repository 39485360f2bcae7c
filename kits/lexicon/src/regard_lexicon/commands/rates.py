"""The error rates of words and phones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.commands.train.confidence import Confidence
from regard.seq2seq.evaluation.metrics import error_rate, exact
from regard_lexicon.commands.dictionary import Phones
from regard_lexicon.stress import stressed

__all__ = ["by_threshold", "describe_rates", "rates", "rates_by_length", "rates_of"]

_THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)


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


def by_threshold(confidence: Confidence, references: Sequence[Sequence[Phones]]) -> list[dict[str, float]]:
    """Return for some probabilities the share of words that have at least that, and their error rates."""
    rows = []
    for least in _THRESHOLDS:
        kept = [i for i, probability in enumerate(confidence.probabilities) if probability >= least]
        answers = [confidence.judged[i].candidates[0].tokens for i in kept]
        row = {"probability": least, "kept": len(kept) / len(confidence.judged)}
        rows.append(row | rates_of(answers, [references[i] for i in kept]))
    return rows


_LENGTHS = {"1 to 4": 4, "5 or 6": 6, "7 or 8": 8, "9 or 10": 10, "11 or more": math.inf}


def describe_rates(measured: dict[str, Any]) -> str:
    """Describe error rates in one line."""
    words, phones = ([_percent(row[rate]) for row in _rows(measured)] for rate in ("wer", "per"))
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

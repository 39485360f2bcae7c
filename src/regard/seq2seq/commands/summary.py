"""The measures of a model in one line: BLEU for sentences, exact matches and error rates for words and short lines."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import NamedTuple

from regard.seq2seq.evaluation import metrics

__all__ = ["Summary", "summarize"]


class Summary(NamedTuple):
    """Measures of translations; None for those that do not apply."""

    exact: float | None  # the share of lines that equal their reference
    errors: float | None  # edits per token of the references
    bleu: float | None  # in percent
    unit: str  # of errors: "tokens", "characters" or "words"
    signature: str  # of BLEU, by sacrebleu

    def __str__(self) -> str:
        parts = [] if self.exact is None else [f"exact {100 * self.exact:.1f} %"]
        parts += [] if self.errors is None else [f"{self.unit[:-1]} errors {100 * self.errors:.1f} %"]
        return ", ".join(parts if self.bleu is None else [*parts, f"BLEU {self.bleu:.1f}"])


def summarize(
    token_type: str, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
) -> Summary:
    """Measure translations: BLEU for sentences; exact matches and errors for other lines, characters and tokens."""
    sentences = metrics.headline(sources, references) == "bleu" and find_spec("sacrebleu") is not None
    bleu, signature = metrics.bleu(translations, references) if sentences else (None, "")
    unit, cut = metrics.unit(references, token_type)
    if sentences and token_type not in ("tokens", "characters"):
        return Summary(None, None, bleu, unit, signature)
    errors = metrics.error_rate(translations, references, cut=cut)
    return Summary(metrics.exact(translations, references), errors, bleu, unit, signature)

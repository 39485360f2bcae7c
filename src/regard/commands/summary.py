"""The measures of a model in one line: BLEU for sentences, exact matches and error rates for words and short lines.

Which of them, and the unit of errors, is decided by the training pairs: of a few held-out lines most may be short.
Of lines with the same source the first is measured, against all their references; only BLEU measures each line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from regard.seq2seq.corpus.pairs import by_source
from regard.seq2seq.evaluation import metrics

__all__ = ["Measures", "Summary"]


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


class Measures(NamedTuple):
    """What is measured: BLEU of sentences; exact matches and errors of other lines, characters and tokens."""

    bleu: bool
    errors: bool
    unit: str  # of errors
    cut: Callable[[str], list[str]]  # into these units

    @classmethod
    def of(cls, token_type: str, sources: Sequence[str], targets: Sequence[str]) -> Measures:
        """Return the measures for pairs like these."""
        sentences = metrics.headline(sources, targets) == "bleu"
        bleu = sentences and find_spec("sacrebleu") is not None
        errors = not bleu or token_type in ("tokens", "characters")
        return cls(bleu, errors, *metrics.unit(targets, token_type))

    def summarize(
        self, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
    ) -> Summary:
        """Measure translations."""
        bleu, signature = metrics.bleu(translations, references) if self.bleu else (None, "")
        if not self.errors:
            return Summary(None, None, bleu, self.unit, signature)
        right = by_source(zip(sources, references, strict=True))
        answers = by_source(zip(sources, translations, strict=True))
        items = [answer for answer, *_ in answers.values()], [*right.values()]
        errors = metrics.error_rate(*items, cut=self.cut)
        return Summary(metrics.exact(*items), errors, bleu, self.unit, signature)

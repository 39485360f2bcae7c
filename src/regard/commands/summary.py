"""The measures of a model in one line: BLEU and chrF of sentences, exact matches and error rates of short lines.

Which of them, and the unit of errors, is decided by the training pairs: of a few held-out lines most may be short.
Of lines with the same source the first is measured, against all their references; BLEU and chrF measure each line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

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
    chrf: float | None = None  # in percent, beside BLEU

    def __str__(self) -> str:
        parts = [] if self.exact is None else [f"exact {100 * self.exact:.1f} %"]
        parts += [] if self.errors is None else [f"{self.unit[:-1]} errors {100 * self.errors:.1f} %"]
        parts += [] if self.bleu is None else [f"BLEU {self.bleu:.1f}", f"chrF {self.chrf:.1f}"]
        return ", ".join(parts)


class Measures(NamedTuple):
    """What is measured: BLEU where there are sentences; exact matches and errors of short lines, characters, tokens."""

    bleu: bool
    errors: bool
    unit: str  # of errors
    cut: Callable[[str], list[str]]  # into these units

    @classmethod
    def of(cls, token_type: str, sources: Sequence[str], targets: Sequence[str]) -> Measures:
        """Return the measures for pairs like these."""
        sentences = metrics.headline(sources, targets) == "bleu"
        mixed = metrics.has_long_runs(sources) and metrics.has_long_runs(targets)
        installed = find_spec("sacrebleu") is not None
        errors = not (sentences and installed) or token_type in ("tokens", "characters")
        return cls((sentences or mixed) and installed, errors, *metrics.unit(targets, token_type))

    def summarize(
        self, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
    ) -> Summary:
        """Measure translations."""
        measured: dict[str, Any] = {"unit": self.unit, **self._of_sacrebleu(translations, references)}
        if not self.errors:
            return Summary(None, None, **measured)
        right = by_source(zip(sources, references, strict=True))
        answers = by_source(zip(sources, translations, strict=True))
        items = [answer for answer, *_ in answers.values()], [*right.values()]
        errors = metrics.error_rate(*items, cut=self.cut)
        return Summary(metrics.exact(*items), errors, **measured)

    def _of_sacrebleu(self, translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
        """Return BLEU and chrF; beside errors, only where a reference is long enough for BLEU."""
        if not self.bleu or (self.errors and not metrics.has_long_runs(references)):
            return {"bleu": None, "signature": ""}
        bleu, signature = metrics.bleu(translations, references)
        return {"bleu": bleu, "signature": signature, "chrf": metrics.chrf(translations, references).score}

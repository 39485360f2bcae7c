"""What a model has reached on some pairs: BLEU for sentences, right ones and errors for words and what is short."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import NamedTuple

from regard.seq2seq.evaluation import metrics as measure

__all__ = ["Reached", "reached"]


class Reached(NamedTuple):
    """Measures of some translations; those that say nothing about them are None.

    Parameters
    ----------
    exact : float or None
        The share that is right as a whole.
    errors : float or None
        Edits for each token of the references.
    bleu : float or None
        In percent.
    unit : str
        What errors are counted in: "tokens", "characters" or "words".
    signature : str
        How sacrebleu computed BLEU.
    """

    exact: float | None
    errors: float | None
    bleu: float | None
    unit: str
    signature: str

    def __str__(self) -> str:
        said = [] if self.exact is None else [f"exact {100 * self.exact:.1f} %"]
        said += [] if self.errors is None else [f"{self.unit[:-1]} errors {100 * self.errors:.1f} %"]
        return ", ".join(said if self.bleu is None else [*said, f"BLEU {self.bleu:.1f}"])


def reached(kind: str, sources: Sequence[str], found: Sequence[str], right: Sequence[str]) -> Reached:
    """Measure translations by what says most about them.

    Examples
    --------
    >>> print(reached("tokens", ["cat", "dog"], ["K AE T", "D AO K"], ["K AE T", "D AO G"]))
    exact 50.0 %, token errors 16.7 %
    """
    sentences = measure.headline(sources, right) == "bleu" and find_spec("sacrebleu") is not None
    bleu, signature = measure.bleu(found, right) if sentences else (None, "")
    unit, cut = measure.unit(right, kind)
    if sentences and kind not in ("tokens", "characters"):
        return Reached(None, None, bleu, unit, signature)
    errors = measure.error_rate(found, right, cut=cut)
    return Reached(measure.exact(found, right), errors, bleu, unit, signature)

"""The items of a test, and their measures as columns of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from regard.seq2seq.evaluation import metrics
from regard.seq2seq.evaluation.metrics import Reference, SacrebleuScore
from regard.seq2seq.evaluation.paired import Paired, of_rates
from regard.seq2seq.sources.text.normalization import Normalization, normalize

__all__ = ["Column", "Items"]


class Items(NamedTuple):
    """The test set: N items with one or several references each."""

    name: str
    sources: list[str] | None
    references: list[Reference]
    token_types: tuple[str | None, str | None] = (None, None)  # of source and target, if there is a model
    lines: Sequence[str] = ()  # the source of each line, if those with the same source are one item

    @property
    def targets(self) -> list[str]:
        """Return one reference of each item."""
        return [reference if isinstance(reference, str) else reference[0] for reference in self.references]

    def normalized(self, form: Normalization) -> Items:
        """Return the test set with references in the Unicode normalization of a model."""

        def of(reference: Reference) -> Reference:
            if isinstance(reference, str):
                return normalize(reference, form)
            return [normalize(text, form) for text in reference]

        return self if form == "none" else self._replace(references=list(map(of, self.references)))

    @property
    def measured_side(self) -> tuple[str, list[str]]:
        """Return the side whose lengths are reported, and its lines."""
        return ("reference", self.targets) if self.sources is None else ("source", self.sources)

    @property
    def length_unit(self) -> tuple[str, Callable[[str], list[str]]]:
        """Return the unit of lengths, and the function that cuts a line into units."""
        return metrics.unit(self.measured_side[1], self.token_types[self.sources is None])

    @property
    def error_unit(self) -> tuple[str, Callable[[str], list[str]]]:
        """Return the unit of errors, and the function that cuts a line into units."""
        return metrics.unit(self.targets, self.token_types[1])


class Column(NamedTuple):
    """A measure as a column of a table; `paired` compares several outputs, where the task has it."""

    title: str
    factor: float
    measure: Callable[[Sequence[str], Sequence[Reference]], float | SacrebleuScore]
    paired: Callable[[Sequence[Sequence[str]], Sequence[Reference]], list[Paired]] | None = None

    @classmethod
    def rate(
        cls, title: str, counts: Callable[[Sequence[str], Sequence[Reference]], list[tuple[int, int]]]
    ) -> Column:
        """Return a rate in percent: each line has a numerator and a denominator, which are summed over the lines."""

        def measure(lines: Sequence[str], references: Sequence[Reference]) -> float:
            return metrics.rate(counts(lines, references))

        return cls(title, 100, measure, lambda each, r: of_rates([counts(lines, r) for lines in each]))

    def number(self, lines: Sequence[str], references: Sequence[Reference]) -> float:
        """Return the measure without its signature."""
        measured = self.measure(lines, references)
        return measured.score if isinstance(measured, SacrebleuScore) else measured

    def cell(self, number: float) -> str:
        """Return the cell of a number in a table."""
        return "-" if math.isnan(number) else f"{self.factor * number:.1f}"

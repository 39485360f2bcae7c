"""The measures of `regard evaluate`, for all items and by length."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from regard import _check
from regard.commands import drawing
from regard.commands.evaluate.data import Items
from regard.commands.evaluate.outputs import Output
from regard.seq2seq.evaluation import metrics
from regard.seq2seq.evaluation.metrics import LengthRow, LinkScore, Reference, SacrebleuScore
from regard.seq2seq.sources.text.normalization import Normalization, normalize
from regard.show.terminal.text import note

__all__ = ["Column", "Result", "make_columns", "measure", "measure_copying", "named_measure"]


class Column(NamedTuple):
    """A measure as a column of a table."""

    title: str
    factor: float
    measure: Callable[[Sequence[str], Sequence[Reference]], float | SacrebleuScore]

    def number(self, lines: Sequence[str], references: Sequence[Reference]) -> float:
        """Return the measure without its signature."""
        return _number(self.measure(lines, references))

    def cell(self, number: float) -> str:
        """Return the cell of a number in a table."""
        return "-" if math.isnan(number) else f"{self.factor * number:.1f}"


class Result(NamedTuple):
    """The measures of one model, or of one file of hypotheses."""

    name: str
    scores: dict[str, float]
    signatures: dict[str, str]
    rows: list[LengthRow]
    links: LinkScore | None


def make_columns(test: Items, tokenize: str) -> dict[str, Column]:
    """Return the measures that can be computed."""
    _, cut = test.error_unit
    if test.phonemes:
        wer = Column("WER %", 100, lambda h, r: 1 - metrics.exact(h, r))
        return {"wer": wer, "per": Column("PER %", 100, metrics.error_rate)}
    columns: dict[str, Column] = {}
    if find_spec("sacrebleu") is None:
        note(drawing.missing_extras("sacrebleu"))
    else:
        columns["bleu"] = Column("BLEU", 1, lambda h, r: metrics.bleu(h, r, tokenize=tokenize))
        columns["chrf"] = Column("chrF", 1, metrics.chrf)
    columns["exact"] = Column("exact %", 100, metrics.exact)
    columns["errors"] = Column("errors %", 100, lambda h, r: metrics.error_rate(h, r, cut=cut))
    return columns


def named_measure(requested: str | None, columns: dict[str, Column], test: Items) -> str:
    """Return the name of the measure to draw and to compare by length."""
    if requested is not None and requested not in columns:
        if test.phonemes or requested in ("wer", "per"):
            measured = ", ".join(columns)
            _check.fail(f"--measure must be one of what is measured: {measured}. Got {requested} instead.")
        raise ImportError(f'--measure {requested} needs sacrebleu: pip install "regard[cli]"')
    best = "per" if test.phonemes else metrics.headline(test.measured_side[1], test.targets)
    return requested or (best if best in columns else "errors")


def measure_copying(test: Items, form: Normalization, columns: dict[str, Column]) -> dict[str, float] | None:
    """Measure the sources as translations, which is a baseline; None where there is no text to copy."""
    if test.sources is None or test.phonemes:
        return None
    lines, references = [normalize(source, form) for source in test.sources], test.normalized(form).references
    return {key: column.number(lines, references) for key, column in columns.items()}


def measure(name: str, output: Output, columns: dict[str, Column], test: Items) -> Result:
    """Measure all lines of an output, and groups of similar lengths."""
    lines, references = output.lines, test.normalized(output.form).references
    measured = {key: column.measure(lines, references) for key, column in columns.items()}
    scores = {key: _number(value) for key, value in measured.items()}
    signatures = {
        key: value.signature for key, value in measured.items() if isinstance(value, SacrebleuScore)
    }
    _, split = test.length_unit
    lengths = [len(split(line)) for line in test.measured_side[1]]
    measures = {key: column.number for key, column in columns.items()}
    rows = metrics.by_length(lengths, lines, references, measures)
    return Result(name, scores, signatures, rows, output.links)


def _number(measured: float | SacrebleuScore) -> float:
    """Return a measure without its signature."""
    return measured.score if isinstance(measured, SacrebleuScore) else measured

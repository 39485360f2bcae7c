"""The measures of `regard evaluate`, for all items and by length."""

from __future__ import annotations

import math
from typing import NamedTuple

from regard import _check
from regard.commands.evaluate.faithfulness import ErasureComparison
from regard.commands.evaluate.outputs import Output
from regard.commands.tasks.items import Column, Items
from regard.seq2seq.evaluation import metrics
from regard.seq2seq.evaluation.metrics import LengthRow, LinkScore, SacrebleuScore
from regard.seq2seq.evaluation.paired import Paired
from regard.seq2seq.sources.text.normalization import Normalization, normalize

__all__ = ["Result", "compare_by_bootstrap", "measure", "measure_copying", "named_measure"]

_OF_SACREBLEU = ("bleu", "chrf")


class Result(NamedTuple):
    """The measures of one model, or of one file of hypotheses."""

    name: str
    scores: dict[str, float]
    signatures: dict[str, str]
    rows: list[LengthRow]
    links: LinkScore | None
    compared: ErasureComparison | None
    output: Output


def named_measure(requested: str | None, columns: dict[str, Column], headline: str) -> str:
    """Return the name of the measure to draw and to compare by length."""
    if requested is not None and requested not in columns:
        if requested in _OF_SACREBLEU and "errors" in columns:
            raise ImportError(f'--measure {requested} needs sacrebleu: pip install "regard[cli]"')
        measured = ", ".join(columns)
        _check.fail(f"--measure must be one of what is measured: {measured}. Got {requested} instead.")
    return requested or (headline if headline in columns else "errors")


def measure_copying(test: Items, form: Normalization, columns: dict[str, Column]) -> dict[str, float] | None:
    """Measure the sources as translations, which is a baseline; None where there is no text to copy."""
    if test.sources is None:
        return None
    lines, references = [normalize(source, form) for source in test.sources], test.normalized(form).references
    return {key: column.number(lines, references) for key, column in columns.items()}


def measure(name: str, output: Output, columns: dict[str, Column], test: Items) -> Result:
    """Measure all lines of an output, and groups of similar lengths."""
    lines, references = output.lines, test.normalized(output.form).references
    measured = {key: column.measure(lines, references) for key, column in columns.items()}
    scores = {
        key: value.score if isinstance(value, SacrebleuScore) else value for key, value in measured.items()
    }
    signatures = {
        key: value.signature for key, value in measured.items() if isinstance(value, SacrebleuScore)
    }
    _, split = test.length_unit
    lengths = [len(split(line)) for line in test.measured_side[1]]
    measures = {key: column.number for key, column in columns.items()}
    rows = metrics.by_length(lengths, lines, references, measures)
    return Result(name, scores, signatures, rows, output.links, output.compared, output)


def compare_by_bootstrap(
    results: list[Result], columns: dict[str, Column], test: Items
) -> dict[str, list[Paired]]:
    """Compare all outputs with the first one, on samples of the items, by each defined measure that can be compared."""
    form = results[0].output.form
    outputs = [[normalize(line, form) for line in result.output.lines] for result in results]
    references = test.normalized(form).references
    defined = {key: columns[key] for key, score in results[0].scores.items() if not math.isnan(score)}
    return {key: column.paired(outputs, references) for key, column in defined.items() if column.paired}

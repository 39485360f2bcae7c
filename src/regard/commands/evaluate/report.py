"""The report of `regard evaluate`: tables, JSON and a picture."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard import _files
from regard.commands.evaluate.faithfulness import ErasureComparison, faithful_json, faithful_table
from regard.commands.evaluate.measures import Result
from regard.commands.tasks.base import Task
from regard.commands.tasks.items import Column, Items
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.evaluation import metrics
from regard.seq2seq.evaluation.metrics import LengthRow, LinkScore
from regard.seq2seq.evaluation.paired import SAMPLES, Paired
from regard.show import figures
from regard.show.figures.figure import warned
from regard.show.terminal.text import align, clean, display_width, fit

__all__ = ["describe", "draw", "json_content", "percents", "write_json"]

_LONGEST_NAME = 32  # columns
FAITHFULNESS = """\
95 % intervals. agrees: the most important input costs the token the most when it is erased; ranks: Spearman's;
comprehensiveness: what the token's log-probability loses without the most important 10, 20, 50 % (large is faithful);
sufficiency: with these alone (small is faithful)"""


def describe(
    args: argparse.Namespace,
    task: type[Task],
    test: Items,
    columns: dict[str, Column],
    key: str,
    results: Sequence[Result],
    copied: dict[str, float] | None,
    paired: Mapping[str, Sequence[Paired]],
) -> str:
    """Return the report: tables and notes."""
    side, lines = test.measured_side
    search = "" if args.hypotheses else f", beam {args.beam or BEAM}"
    titles = [column.title for column in columns.values()]
    totals = [[column.cell(result.scores[k]) for k, column in columns.items()] for result in results]
    if args.gold:
        titles += ["AER %", "precision %", "recall %"]
        totals = [row + percents(result.links) for row, result in zip(totals, results, strict=True)]
    names = [_shown_name(result.name) for result in results]
    if copied is not None and any(metrics.is_near(copied, result.scores) for result in results):
        names.append("copying the source")
        totals.append(
            [column.cell(copied[k]) for k, column in columns.items()] + ["-"] * (3 * bool(args.gold))
        )
    blocks = [
        f"{len(lines):,} {'item' if len(lines) == 1 else 'items'} of {clean(test.name)}{search}",
        _table(["", *titles], [[name, *row] for name, row in zip(names, totals, strict=True)]),
        *([_paired(columns, names, paired)] if paired else []),
        _by_length(columns, key, results, f"{test.length_unit[0]} in the {side}"),
        *(_faithfulness(result.name, result.compared) for result in results if result.compared),
        "\n".join(
            [
                *[FAITHFULNESS] * bool(results[0].compared),
                *task.definitions(test),
                *_notes(columns, results[0]),
            ]
        ),
    ]
    return "\n\n".join(blocks)


def _paired(columns: dict[str, Column], names: Sequence[str], paired: Mapping[str, Sequence[Paired]]) -> str:
    """Return the means of all measures over samples, and p-values."""
    head = [title for key in paired for title in (f"{columns[key].title} ± 95 %", "p")]
    rows = [
        [
            name,
            *(cell for key, each in paired.items() for cell in _paired_cells(columns[key], each[number])),
        ]
        for number, name in enumerate(names[: len(next(iter(paired.values())))])
    ]
    title = f"paired bootstrap of {SAMPLES:,} samples; p: of the difference from {names[0]}"
    return f"{title}\n{_table(['', *head], rows)}"


def _paired_cells(column: Column, paired: Paired) -> tuple[str, str]:
    p = "" if paired.p is None else f"{paired.p:.4f}"
    return f"{column.cell(paired.mean)} ± {column.cell(paired.interval)}", p


def _faithfulness(name: str, compared: ErasureComparison) -> str:
    """Return the table of a model's attention compared with erasure."""
    title = f"importance for each token compared with erasure, {_shown_name(name)}, {compared.items:,} items"
    return f"{title}\n{faithful_table(compared)}" if compared.items else f"{title}: none has two inputs"


def _shown_name(name: str) -> str:
    return fit(name, min(display_width(name), _LONGEST_NAME))


def percents(links: LinkScore | None) -> list[str]:
    """Return error rate, precision and recall as cells of a table."""
    return [f"{100 * number:.1f}" for number in links or ()]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table: the first column left-aligned, numbers right-aligned."""
    width = max(display_width(row[0]) for row in [head, *rows])
    return align([[fit(row[0], max(width, 1)), *row[1:]] for row in [head, *rows]])


def _by_length(columns: dict[str, Column], key: str, results: Sequence[Result], along: str) -> str:
    """Return a table by length: all measures of one model, or one measure of several."""
    rows = results[0].rows
    if len(results) == 1:
        head = [column.title for column in columns.values()]
        cells = [[column.cell(row.scores[k]) for k, column in columns.items()] for row in rows]
        title = f"by {along}"
    else:
        head = [_shown_name(result.name) for result in results]
        cells = [
            [columns[key].cell(result.rows[i].scores[key]) for result in results] for i in range(len(rows))
        ]
        title = f"{columns[key].title} by {along}"
    table = [[_range(row), f"{row.sentences:,}", *line] for row, line in zip(rows, cells, strict=True)]
    return f"{title}\n{_table(['length', 'items', *head], table)}"


def _range(row: LengthRow) -> str:
    return f"{row.shortest}" if row.shortest == row.longest else f"{row.shortest}-{row.longest}"


def _notes(columns: dict[str, Column], result: Result) -> list[str]:
    """Return notes on how BLEU and chrF were computed."""
    signatures = [f"{columns[key].title}: {signature}" for key, signature in result.signatures.items()]
    rows = [result.scores, *(row.scores for row in result.rows)]
    undefined = ["BLEU: - where no reference has four words"] * any(
        math.isnan(row.get("bleu", 0.0)) for row in rows
    )
    return [*undefined, *signatures]


def draw(path: Path, column: Column, key: str, test: Items, results: Sequence[Result]) -> None:
    """Draw a measure by length."""
    rows, (side, _) = results[0].rows, test.measured_side
    with warned(path):
        figure = figures.by_length(
            [_range(row) for row in rows],
            {result.name: [column.factor * row.scores[key] for row in result.rows] for result in results},
            [row.sentences for row in rows],
            measure=column.title,
            along=f"{test.length_unit[0]} in the {side}",
        )
        figures.save(path, figure)


def _without_nan(scores: dict[str, float]) -> dict[str, float | None]:
    """Return scores for JSON, which has no NaN."""
    return {name: None if math.isnan(score) else score for name, score in scores.items()}


def json_content(
    args: argparse.Namespace,
    test: Items,
    results: Sequence[Result],
    copied: dict[str, float] | None,
    paired: Mapping[str, Sequence[Paired]],
) -> dict[str, Any]:
    """Return all measures for JSON."""
    side, _ = test.measured_side
    return {
        "test": clean(test.name),
        "items": len(test.references),
        "beam": None if args.hypotheses else args.beam or BEAM,
        "length": f"{test.length_unit[0]} in the {side}",
        **({} if copied is None else {"copying": _without_nan(copied)}),
        "models": [
            _json_result(result, {key: each[number]._asdict() for key, each in paired.items()})
            for number, result in enumerate(results)
        ],
    }


def _json_result(result: Result, paired: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": result.name,
        **_without_nan(result.scores),
        **({} if result.links is None else {"links": result.links._asdict()}),
        **({} if result.compared is None else {"faithfulness": faithful_json(result.compared)}),
        **({"paired": paired} if paired else {}),
        "signatures": result.signatures,
        "by_length": [
            {
                "shortest": row.shortest,
                "longest": row.longest,
                "items": row.sentences,
                **_without_nan(row.scores),
            }
            for row in result.rows
        ],
    }


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of JSON."""
    with _files.replacing(path) as file:
        file.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())

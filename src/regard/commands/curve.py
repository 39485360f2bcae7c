"""The verb `curve`: draw the learning curves of a log of training."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from regard import _check, _files
from regard.commands import argument_types
from regard.commands.labels import names_of
from regard.seq2seq.training.log import LOG_FILE, column, columns, entries
from regard.show import figures, terminal
from regard.show.figures import Panel
from regard.show.figures.figure import check_picture, warned

__all__ = ["add_arguments", "panels", "run"]

Entries = Iterable[Mapping[str, Any]]
Table = Mapping[str, NDArray[Any]]

_READ = ("step", "seconds", "loss", "validation", "bleu", "errors")

EXAMPLES = """\
examples:
  regard curve runs/mine                                a finished or a running training
  regard curve runs/mine runs/subwords --along minutes  two trainings compared
  regard curve runs/mine --png curves.png
"""

Lines = Mapping[str, tuple[NDArray[Any], NDArray[Any]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard curve`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add(
        "logs",
        nargs="+",
        type=argument_types.path,
        metavar="LOG",
        help="a log of regard train, or the folder of its log.jsonl; several are compared",
    )
    add("--along", choices=("steps", "minutes"), default="steps", help="horizontal axis (default steps)")
    add("--png", type=argument_types.path, metavar="FILE", help="also save a picture (.png, .svg, .pdf)")


def run(args: argparse.Namespace) -> int:
    """Draw learning curves as text, and as a picture if requested."""
    if args.png:
        check_picture(args.png)
    curves = panels(_read(args.logs), along=args.along)
    if not curves:
        single = len(args.logs) == 1
        _check.fail(f"{f'{args.logs[0]} has no loss' if single else 'none of the logs has a validation'} yet")
    if args.png:
        with warned(args.png):
            figures.save(args.png, figures.curves(curves, along=args.along))
    charts = [f"{panel.title}\n{terminal.curves(panel.lines, along=args.along)}" for panel in curves]
    print("\n\n".join(charts))
    return 0


def _read(paths: Sequence[Path]) -> dict[str, Entries]:
    """Read logs by the name of their run."""
    files = [path / LOG_FILE if path.is_dir() else path for path in paths]
    if len({_files.real(file) for file in files}) < len(files):
        _check.fail("the logs to compare must be different files")
    return {name: entries(file) for name, file in zip(names_of(files), files, strict=True)}


def panels(logs: Mapping[str, Entries], *, along: str = "steps") -> list[Panel]:
    """Convert training logs to the panels of `show.figures.curves`."""
    tables = {name: columns(log, _READ) for name, log in logs.items()}
    if len(tables) == 1:
        table = next(iter(tables.values()))
        loss = {"training": _points(table, "loss", along), "validation": _points(table, "validation", along)}
    else:
        loss = {name: _points(table, "validation", along) for name, table in tables.items()}
    names = {"validation": next(iter(tables.values()))} if len(tables) == 1 else tables
    bleu = {name: _points(table, "bleu", along) for name, table in names.items()}
    errors = {name: _percent(_points(table, "errors", along)) for name, table in names.items()}
    result = []
    candidates: list[tuple[str, Lines, Literal["lowest", "highest"]]]
    candidates = [
        ("loss per token" if len(tables) == 1 else "validation loss per token", loss, "lowest"),
        ("errors %", errors, "lowest"),
        ("BLEU", bleu, "highest"),
    ]
    for title, lines, best in candidates:
        measured = {name: points for name, points in lines.items() if points[0].size}
        alone = len(logs) == 1 and "validation" in measured
        if measured:
            result.append(Panel(title, measured, best if alone else None))
    return result


def _points(table: Table, name: str, along: str) -> tuple[NDArray[Any], NDArray[Any]]:
    x, y = column(table, name, "step" if along == "steps" else "seconds")
    return (x if along == "steps" else x / 60), y


def _percent(points: tuple[NDArray[Any], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return points[0], 100 * points[1]

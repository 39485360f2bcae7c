"""The verb `curve`: how training went, or how it is going, from its log."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from regard.seq2seq.commands.labels import names_of
from regard.seq2seq.training.log import LOG_FILE, column, read_log
from regard.show import numbers, sketch
from regard.show.canvas import check_picture, warned
from regard.show.chart import Panel, save_curves

__all__ = ["add_arguments", "panels", "run"]

Entries = Sequence[Mapping[str, Any]]

EXAMPLES = """\
examples:
  regard curve runs/mine                                how it went, or how it is going
  regard curve runs/mine runs/subwords --along minutes  two trainings beside each other
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
        type=numbers.place,
        metavar="LOG",
        help="a log from regard train, or the folder it is in (log.jsonl); several are compared",
    )
    add("--along", choices=("steps", "minutes"), default="steps", help="what is drawn along (default steps)")
    add("--png", type=numbers.place, metavar="FILE", help="draw a picture, too (.png, .svg, .pdf)")


def run(args: argparse.Namespace) -> int:
    """Draw learning curves as text, and as a picture where one is asked for."""
    if args.png:
        check_picture(args.png)
    drawn = panels(_read(args.logs), along=args.along)
    if not drawn:
        wanting = (
            f"{args.logs[0]} has no loss" if len(args.logs) == 1 else "none of the logs has a validation"
        )
        raise ValueError(f"{wanting} yet")
    if args.png:
        with warned(args.png):
            save_curves(args.png, drawn, along=args.along)
    told = [f"{panel.title}\n{sketch.curves(panel.lines, along=args.along)}" for panel in drawn]
    print("\n\n".join(told))
    return 0


def _read(paths: Sequence[Path]) -> dict[str, Entries]:
    """Read logs, and give each a name."""
    files = [path / LOG_FILE if path.is_dir() else path for path in paths]
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError("the logs to compare must be different files")
    return {name: read_log(file) for name, file in zip(names_of(files), files, strict=True)}


def panels(logs: Mapping[str, Entries], *, along: str = "steps") -> list[Panel]:
    """Turn training logs into what `show.chart.curves` draws.

    Examples
    --------
    >>> log = [{"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0, "validation": 2.5}]
    >>> [(panel.title, list(panel.lines)) for panel in panels({"mine": log})]
    [('loss per token', ['training', 'validation'])]
    """
    if len(logs) == 1:
        entries = next(iter(logs.values()))
        loss = {
            "training": _points(entries, "loss", along),
            "validation": _points(entries, "validation", along),
        }
    else:
        loss = {name: _points(entries, "validation", along) for name, entries in logs.items()}
    names = {"validation": next(iter(logs.values()))} if len(logs) == 1 else logs
    bleu = {name: _points(entries, "bleu", along) for name, entries in names.items()}
    errors = {name: _percent(_points(entries, "errors", along)) for name, entries in names.items()}
    found = []
    shown: list[tuple[str, Lines, Literal["lowest", "highest"]]]
    shown = [
        ("loss per token" if len(logs) == 1 else "validation loss per token", loss, "lowest"),
        ("errors %", errors, "lowest"),
        ("BLEU", bleu, "highest"),
    ]
    for title, lines, best in shown:
        seen = {name: points for name, points in lines.items() if points[0].size}
        alone = len(logs) == 1 and "validation" in seen
        if seen:
            found.append(Panel(title, seen, best if alone else None))
    return found


def _points(entries: Entries, name: str, along: str) -> tuple[NDArray[Any], NDArray[Any]]:
    x, y = column(entries, name, "step" if along == "steps" else "seconds")
    return (x if along == "steps" else x / 60), y


def _percent(points: tuple[NDArray[Any], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return points[0], 100 * points[1]

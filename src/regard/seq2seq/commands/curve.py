"""The verb `curve`: how training went, or how it is going, from its log."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from regard import _files
from regard.seq2seq.commands.labels import names_of
from regard.seq2seq.training.log import LOG_FILE, column, columns, entries
from regard.show import numbers, sketch
from regard.show.canvas import check_picture, warned
from regard.show.chart import Panel, save_curves

__all__ = ["add_arguments", "panels", "run"]

Entries = Iterable[Mapping[str, Any]]
Table = Mapping[str, NDArray[Any]]

_READ = ("step", "seconds", "loss", "validation", "bleu", "errors")

EXAMPLES = """\
examples:
  regard curve runs/mine                                how it went, or how it is going
  regard curve runs/mine runs/subwords --along minutes  two trainings beside each other
  regard curve runs/mine --png curves.png
"""

Lines = Mapping[str, tuple[NDArray[Any], NDArray[Any]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard curve`.

    Parameters
    ----------
    parser
        The verb's parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> parser.parse_args(["model/log.jsonl"]).along
    'steps'
    """
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
    """Draw learning curves as text, and as a picture where one is asked for.

    Parameters
    ----------
    args
        What the parser found.

    Returns
    -------
    int
        0.

    Raises
    ------
    ValueError, OSError
        If a log can't be read or has nothing to draw.

    Examples
    --------
    >>> run(argparse.Namespace(logs=[Path("no-such-log")], along="steps", png=None))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-log'
    """
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
    if len({_files.real(file) for file in files}) < len(files):
        raise ValueError("the logs to compare must be different files")
    return {name: entries(file) for name, file in zip(names_of(files), files, strict=True)}


def panels(logs: Mapping[str, Entries], *, along: str = "steps") -> list[Panel]:
    """Turn training logs into what `show.chart.curves` draws.

    Parameters
    ----------
    logs : mapping of str to entries
        The lines of each log, by the name of the run.
    along : str
        "steps" or "minutes".

    Returns
    -------
    list of Panel
        The loss of training and validation; errors and BLEU where they were measured. Of several runs, those of
        validation.

    Examples
    --------
    >>> log = [{"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0, "validation": 2.5}]
    >>> [(panel.title, list(panel.lines)) for panel in panels({"mine": log})]
    [('loss for each word', ['training', 'validation'])]
    """
    tables = {name: columns(log, _READ) for name, log in logs.items()}
    if len(tables) == 1:
        table = next(iter(tables.values()))
        loss = {
            "training": _points(table, "loss", along),
            "validation": _points(table, "validation", along),
        }
    else:
        loss = {name: _points(table, "validation", along) for name, table in tables.items()}
    names = {"validation": next(iter(tables.values()))} if len(tables) == 1 else tables
    bleu = {name: _points(table, "bleu", along) for name, table in names.items()}
    errors = {name: _percent(_points(table, "errors", along)) for name, table in names.items()}
    found = []
    shown: list[tuple[str, Lines, Literal["lowest", "highest"]]]
    shown = [
        ("loss for each word" if len(logs) == 1 else "validation loss for each word", loss, "lowest"),
        ("errors %", errors, "lowest"),
        ("BLEU", bleu, "highest"),
    ]
    for title, lines, best in shown:
        seen = {name: points for name, points in lines.items() if points[0].size}
        alone = len(logs) == 1 and "validation" in seen
        if seen:
            found.append(Panel(title, seen, best if alone else None))
    return found


def _points(table: Table, name: str, along: str) -> tuple[NDArray[Any], NDArray[Any]]:
    x, y = column(table, name, "step" if along == "steps" else "seconds")
    return (x if along == "steps" else x / 60), y


def _percent(points: tuple[NDArray[Any], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return points[0], 100 * points[1]

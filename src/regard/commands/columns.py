"""The option that chooses the source and target columns of a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from regard import _check
from regard.commands import argument_types
from regard.seq2seq.corpus.tables import check_columns

__all__ = ["add_columns", "check_one_file"]


def add_columns(parser: argparse.ArgumentParser | Any) -> None:
    """Add ``--columns`` and ``--encoding`` to a verb that reads pairs."""
    parser.add_argument(
        "--columns",
        nargs=2,
        type=argument_types.non_empty,
        metavar=("SOURCE", "TARGET"),
        help="the columns of source and target: names in the first line, or numbers from 1 (default: the only two);"
        " SOURCE may be several, such as 1+2, which are joined with a blank",
    )
    argument_types.add_encoding(parser)


def check_one_file(columns: Sequence[str] | None, files: Sequence[object], name: str) -> None:
    """Check that the chosen columns are of one file, called `name` in errors."""
    check_columns(columns)
    if columns is not None and len(files) > 1:
        _check.fail(f"--columns needs one file of pairs. {name} has {len(files)} instead.")

"""The option that says which columns of a table are source and target."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from regard.seq2seq.data.tables import check_columns
from regard.show import numbers

__all__ = ["add_columns", "check_one_file"]


def add_columns(parser: argparse.ArgumentParser | Any) -> None:
    """Add ``--columns``.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_columns(parser)
    >>> parser.parse_args(["--columns", "en", "fr"]).columns
    ['en', 'fr']
    """
    parser.add_argument(
        "--columns",
        nargs=2,
        type=numbers.name,
        metavar=("SOURCE", "TARGET"),
        help="which columns hold the pairs: names in the first line, or numbers from 1 (default: there are two)",
    )


def check_one_file(columns: Sequence[str] | None, files: Sequence[object], name: str) -> None:
    """Check that columns are chosen of one file.

    Examples
    --------
    >>> check_one_file(["en", "fr"], ["text.en", "text.fr"], "PAIRS")
    Traceback (most recent call last):
    ValueError: --columns is about one file of pairs. PAIRS has 2 instead.
    """
    check_columns(columns)
    if columns is not None and len(files) > 1:
        raise ValueError(f"--columns is about one file of pairs. {name} has {len(files)} instead.")

"""Argument types of the command line: numbers, names and paths, or one line with the rule that is broken."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard._characters import one_line
from regard._lines import known_encoding

__all__ = ["BEAMS", "add_encoding", "finite", "integer", "non_empty", "number", "path", "positive", "value"]

BEAMS = 100  # the largest beam

_DIGITS = re.compile(r"[0-9]{1,18}")  # more would overflow 64 bits
_SIGNED = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


def add_encoding(parser: Any) -> None:
    """Add ``--encoding`` to a verb that reads text."""
    text = "the encoding of files without a byte order mark, such as windows-1252 (default UTF-8)"
    parser.add_argument("--encoding", type=_encoding, metavar="NAME", help=text)


def _encoding(name: str) -> str:
    try:
        return known_encoding(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(one_line(error)) from None


def integer(least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """Return an argparse type for integers."""

    def read(text: str) -> int:
        number = int(text) if _DIGITS.fullmatch(text) else None
        if number is None or number < least or (most is not None and number > most):
            long = " and at most 18 digits" * (len(text) > 18)
            rule = f"of at least {least}{long}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"must be an integer {rule}. Got {text!r:.60} instead.")
        return number

    return read


def number(rule: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    """Return an argparse type for decimal numbers."""

    def read(text: str) -> float:
        number = float(text) if _DECIMAL.fullmatch(text) else math.inf
        if not (math.isfinite(number) and fits(number)):
            raise argparse.ArgumentTypeError(f"must be a number {rule}. Got {text!r:.60} instead.")
        return number

    return read


def positive(text: str) -> float:
    """Convert an argument to a number greater than 0."""
    return number("greater than 0", lambda number: number > 0)(text)


def finite(text: str) -> float:
    """Convert an argument to a finite number."""
    return number("that is finite", math.isfinite)(text)


def non_empty(text: str) -> str:
    """Check that an argument is not empty: a shell variable that was never set would be."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def path(text: str) -> Path:
    """Convert an argument to a path; an empty one, which would be the current folder, is an error."""
    return Path(non_empty(text))


def value(text: str) -> Any:
    """Convert the value of NAME=VALUE to a number, true, false or a string."""
    if text in ("true", "false"):
        return text == "true"
    if _SIGNED.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text

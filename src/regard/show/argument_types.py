"""Numbers and places as people write them after an option: what makes sense, or one line that says why not."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["BEAMS", "finite", "integer", "non_empty", "number", "path", "positive", "value"]

BEAMS = 100  # hypotheses that are followed at a time, at most

_DIGITS = re.compile(r"[0-9]{1,18}")  # with more it would be no number of this machine
_SIGNED = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


def integer(least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """Return what reads a whole number, for argparse.

    Parameters
    ----------
    least, most : int
        What it must be between; without `most`, anything of up to 18 digits.

    Returns
    -------
    callable
        Returns the number, or raises an error of argparse's.

    Examples
    --------
    >>> integer(most=9)("7")
    7
    >>> integer(most=9)("70")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: must be a whole number from 1 to 9. Got '70' instead.
    """

    def read(text: str) -> int:
        found = int(text) if _DIGITS.fullmatch(text) else None
        if found is None or found < least or (most is not None and found > most):
            long = " and at most 18 digits" * (len(text) > 18)
            rule = f"of at least {least}{long}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"must be a whole number {rule}. Got {text!r:.60} instead.")
        return found

    return read


def number(rule: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    """Return what reads a number, for argparse.

    Parameters
    ----------
    rule : str
        What it must be, in words.
    fits : callable
        The same: whether a number is that.

    Returns
    -------
    callable
        Returns the number, or raises an error of argparse's.

    Examples
    --------
    >>> number("below 1", lambda number: number < 1)("1.5")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: must be a number below 1. Got '1.5' instead.
    """

    def read(text: str) -> float:
        found = float(text) if _DECIMAL.fullmatch(text) else math.inf
        if not (math.isfinite(found) and fits(found)):
            raise argparse.ArgumentTypeError(f"must be a number {rule}. Got {text!r:.60} instead.")
        return found

    return read


def positive(text: str) -> float:
    """Read a number greater than 0, for argparse.

    Parameters
    ----------
    text : str
        As somebody has written it.

    Returns
    -------
    float
        What it says.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.

    Examples
    --------
    >>> positive("0.5")
    0.5
    """
    return number("greater than 0", lambda number: number > 0)(text)


def finite(text: str) -> float:
    """Read any number, for argparse.

    Parameters
    ----------
    text : str
        As somebody has written it.

    Returns
    -------
    float
        What it says.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none, or none that is finite.

    Examples
    --------
    >>> finite("-0.5")
    -0.5
    """
    return number("that is finite", math.isfinite)(text)


def non_empty(text: str) -> str:
    """Read a name, for argparse: an empty one is a variable of somebody's shell that was never set.

    Parameters
    ----------
    text : str
        As somebody has written it.

    Returns
    -------
    str
        The same.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is empty, or spaces alone.

    Examples
    --------
    >>> non_empty("pairs.tsv")
    'pairs.tsv'
    >>> non_empty("")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: must not be empty
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def path(text: str) -> Path:
    """Read the name of a file or folder, for argparse: an empty one would be the current folder.

    Parameters
    ----------
    text : str
        As somebody has written it.

    Returns
    -------
    Path
        What it names.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is empty, or spaces alone.

    Examples
    --------
    >>> path("runs/mine").name
    'mine'
    """
    return Path(non_empty(text))


def value(text: str) -> Any:
    """Read what stands behind NAME=: a number, true, false or a word.

    Parameters
    ----------
    text : str
        As somebody has written it.

    Returns
    -------
    int, float, bool or str
        What it says.

    Examples
    --------
    >>> value("2"), value("1e-3"), value("true"), value("gru")
    (2, 0.001, True, 'gru')
    """
    if text in ("true", "false"):
        return text == "true"
    if _SIGNED.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text

"""Checks of paths."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from regard._check.errors import fail

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["kind_of_file", "not_empty", "replaceable"]


def replaceable(path: str | os.PathLike[str]) -> Path:
    """Return a path with symbolic links resolved, if it is a regular file or does not exist."""
    from pathlib import Path

    not_empty(path)
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        fail(f"{os.fspath(path)} must be a file, or not there yet. It is {kind_of_file(mode)} instead.")
    return target


def not_empty(path: str | os.PathLike[str]) -> None:
    """Raise for an empty path, which would be that of the current folder."""
    if not os.fspath(path):
        fail("the path of a file must not be empty")


def kind_of_file(mode: int) -> str:
    """Describe the type of a path that is not a regular file."""
    return "a folder" if stat.S_ISDIR(mode) else "not a regular file"

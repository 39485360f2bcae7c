"""Checks of paths."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from regard._check.errors import fail

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "folder",
    "kind_of_file",
    "no_null",
    "not_empty",
    "replaceable",
]


def replaceable(path: str | os.PathLike[str]) -> Path:
    """Resolve the symbolic links of a path that is a regular file or does not exist; raise for anything else."""
    from pathlib import Path

    not_empty(path)
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        if os.path.islink(path) and not target.parent.is_dir():
            fail(f"{os.fspath(path)} is a link to {target}: there is no folder {target.parent}")
        return target
    if not stat.S_ISREG(mode):
        fail(f"{os.fspath(path)} must be a file, or not there yet. It is {kind_of_file(mode)} instead.")
    return target


def folder(path: Path, name: str) -> None:
    """Raise for a path that is no folder and cannot become one: it, or what should contain it, is something else."""
    for place in (path, *path.parents):
        if place.is_dir():
            return
        if os.path.lexists(place):
            kind = kind_of_file(place.stat().st_mode) if place.exists() else "a link to nothing"
            fail(f"{name} needs a folder, and {place} is {kind}")


def not_empty(path: str | os.PathLike[str]) -> None:
    """Raise for an empty path, which would be that of the current folder."""
    if not os.fspath(path):
        fail("the path of a file must not be empty")


def no_null(path: str | os.PathLike[str]) -> None:
    """Raise for a path with a null character, for which the system's own error has no path."""
    if "\0" in os.fspath(path):
        fail(f"a path must not have a null character. Got {os.fspath(path)!r} instead.")


def kind_of_file(mode: int) -> str:
    """Describe the type of a path that is not a regular file."""
    return "a folder" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "not a regular file"

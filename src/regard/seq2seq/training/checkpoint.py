"""The checkpoint of a training: checking its path, reading it, and resuming from it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from regard import _check
from regard.seq2seq.storage import checkpoint_file
from regard.seq2seq.storage.checkpoint_file import State
from regard.seq2seq.training.loop import Training

__all__ = ["checkpoint_path", "resume", "read_checkpoint"]

_HINT = "remove it to begin anew"


def checkpoint_path(path: str | os.PathLike[str]) -> Path:
    """Check that a checkpoint can be written to a path, and return the path."""
    folder = _check.replaceable(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder}", os.fspath(path))
    return Path(path)


def read_checkpoint(path: Path, hint: str = "give another name, or remove it if it is of no use") -> State:
    """Read a checkpoint; `hint` ends the error if it is none."""
    try:
        return checkpoint_file.read_checkpoint(path)
    except ValueError as error:
        raise ValueError(f"{error}; {hint}") from None


def resume(training: Training, state: State, path: Path, hint: str = _HINT) -> None:
    """Resume a training, before its first step, from a checkpoint's state; `hint` ends an error."""
    try:
        training.resume_from(state)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; {hint}") from None

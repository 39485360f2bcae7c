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
    """Check that a checkpoint can be written to a path, and return the path.

    Parameters
    ----------
    path : str or path
        The checkpoint.

    Returns
    -------
    Path
        The same.
    """
    folder = _check.replaceable(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder}", os.fspath(path))
    return Path(path)


def read_checkpoint(path: Path, hint: str = "give another name, or remove it if it is of no use") -> State:
    """Read a checkpoint.

    Parameters
    ----------
    path : Path
        The checkpoint.
    hint : str
        The end of the error if it is not a checkpoint.

    Returns
    -------
    State
        The state of a training.
    """
    try:
        return checkpoint_file.read_checkpoint(path)
    except ValueError as error:
        raise ValueError(f"{error}; {hint}") from None


def resume(training: Training, state: State, path: Path, hint: str = _HINT) -> None:
    """Resume a training from a checkpoint.

    Parameters
    ----------
    training : Training
        Before its first step.
    state : State
        The content of the checkpoint.
    path : Path
        The checkpoint, for the error.
    hint : str
        The end of the error if it is of another training.
    """
    try:
        training.resume_from(state)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; {hint}") from None

"""The checkpoint of a training: where it may lie, and how a training goes on from it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from regard import _check
from regard.seq2seq.storage import checkpoint_file
from regard.seq2seq.storage.checkpoint_file import State
from regard.seq2seq.training.loop import Training

__all__ = ["checkpoint_place", "go_on", "read_checkpoint"]

_ANEW = "remove it to begin anew"


def checkpoint_place(given: str | os.PathLike[str]) -> Path:
    """Return where a checkpoint goes, if one can be written there.

    Parameters
    ----------
    given : str or path
        Of the file.

    Returns
    -------
    Path
        The same.

    Raises
    ------
    OSError
        If there is no folder for it.
    ValueError
        If what is there is no file.

    Examples
    --------
    >>> checkpoint_place("mine.safetensors").name
    'mine.safetensors'
    """
    folder = _check.replaceable(given).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder}", os.fspath(given))
    return Path(given)


def read_checkpoint(
    place: Path, otherwise: str = "give another name, or remove it if it is of no use"
) -> State:
    """Read a checkpoint.

    Parameters
    ----------
    place : Path
        Of the checkpoint.
    otherwise : str
        What helps if it is none.

    Returns
    -------
    State
        Of a training.

    Raises
    ------
    ValueError
        If it is none.
    OSError
        If it can't be read.

    Examples
    --------
    >>> read_checkpoint(Path("no-such-file"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    try:
        return checkpoint_file.read_checkpoint(place)
    except ValueError as error:
        raise ValueError(f"{error}; {otherwise}") from None


def go_on(training: Training, state: State, place: Path, otherwise: str = _ANEW) -> None:
    """Go on from a checkpoint.

    Parameters
    ----------
    training : Training
        Before its first step.
    state : State
        What the checkpoint holds.
    place : Path
        Of the checkpoint, for a message.
    otherwise : str
        What helps if it is of another training.

    Raises
    ------
    ValueError
        Then; the training is as it was.

    Examples
    --------
    >>> from regard.seq2seq import Seq2Seq
    >>> one, other = (Seq2Seq(epochs=1, seed=seed).begin([("a", "b")], [("a", "b")]) for seed in (1, 2))
    >>> go_on(one, one.state(), Path("checkpoint"))
    >>> go_on(other, one.state(), Path("checkpoint"))
    Traceback (most recent call last):
    ValueError: checkpoint: ...
    """
    try:
        training.go_on_from(state)
    except ValueError as error:
        raise ValueError(f"{place}: {error}; {otherwise}") from None

"""The checkpoint of a training: reading and resuming it, and steps that write it now and then."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Generator
from pathlib import Path

from regard import _check, _files
from regard.seq2seq.storage import checkpoint_file
from regard.seq2seq.storage.checkpoint_file import State
from regard.seq2seq.training.loop import Training, TrainingStep

__all__ = ["checkpoint_path", "finish", "read_checkpoint", "resume", "steps_with_checkpoints"]

CHECKPOINT_EVERY = 60.0  # seconds

_HINT = "remove it to begin anew"


def checkpoint_path(path: str | os.PathLike[str]) -> Path:
    """Check that a checkpoint can be written to a path, and return the path."""
    folder = _check.replaceable(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder}", os.fspath(path))
    return Path(path)


def read_checkpoint(path: Path, hint: str = "give another name, or remove the file") -> State:
    """Read a checkpoint; `hint` ends the error if it is none."""
    try:
        return checkpoint_file.read_checkpoint(path)
    except ValueError as error:
        _check.fail(str(error), hint=hint)


def resume(training: Training, state: State, path: Path, hint: str = _HINT) -> None:
    """Resume a training, before its first step, from a checkpoint's state; `hint` ends an error."""
    try:
        training.resume_from(state)
    except ValueError as error:
        _check.fail(f"{path}: {error}", hint=hint)


def steps_with_checkpoints(training: Training, path: Path | None) -> Generator[TrainingStep, None, None]:
    """Take the remaining steps; write a checkpoint every minute and when the generator is closed, if there is a path.

    At a validation, and at the end, the network has the best parameters so far.
    """
    written = time.monotonic()
    try:
        for step in training:
            if step.validation is None:
                yield step
            else:
                with training.best_parameters():
                    yield step
            if path is not None and time.monotonic() - written >= CHECKPOINT_EVERY:
                checkpoint_file.write_checkpoint(path, training.state())
                written = time.monotonic()
    except GeneratorExit:
        if path is not None:
            checkpoint_file.write_checkpoint(path, training.state())
        raise
    finally:
        training.use_best()


def finish(training: Training, path: Path | None, *, keep: bool) -> None:
    """Write the last checkpoint if it is kept, otherwise remove it."""
    if path is not None and keep:
        checkpoint_file.write_checkpoint(path, training.state())
    elif path is not None:
        _files.real(path).unlink(missing_ok=True)  # the file, and not only a link to it
        path.unlink(missing_ok=True)

"""The files of a training: the model, the checkpoint, the log, the pictures and the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from regard import _check, _files
from regard.seq2seq.storage.checkpoint_file import State
from regard.seq2seq.storage.model_file import read_model, write_model
from regard.seq2seq.training.checkpoint import read_checkpoint
from regard.seq2seq.training.log import LOG_FILE, Log, entries, read_log

__all__ = ["EXAMPLES", "HINT", "RunFiles"]

EXAMPLES = 3  # translations that are printed and drawn at the end
HINT = "--fresh trains anew"  # for an unusable checkpoint

T = TypeVar("T")


class RunFiles:
    """The files of one training, named after its model file.

    The checkpoint exists from before the first step until `remove_checkpoint`: a model without one is finished. With
    `fresh`, an existing model and its checkpoint are ignored.
    """

    def __init__(self, model: Path, *, fresh: bool = False) -> None:
        self.model, self.fresh = model, fresh
        self.checkpoint, self.log = self._sibling("checkpoint.safetensors"), self._sibling(LOG_FILE)
        self.curve, self.page = self._sibling("curve.png"), self._sibling("alignments.html")
        self.alignments = [self._sibling(f"alignment-{number}.png") for number in range(1, EXAMPLES + 1)]
        self._is_model = _CachedFile(model, _is_model)
        self._state: _CachedFile[State] = _CachedFile(
            self.checkpoint, lambda path: read_checkpoint(path, HINT)
        )

    def _sibling(self, name: str) -> Path:
        """Return the path of a file that belongs to the model file."""
        return self.model.with_name(name if self.model.stem == "model" else f"{self.model.stem}-{name}")

    @property
    def shown(self) -> list[Path]:
        """The page and the pictures."""
        return [self.page, self.curve, *self.alignments]

    def is_done(self) -> bool:
        """Return whether there is a model without a checkpoint, and the training is not to begin anew."""
        return not self.fresh and self.model.exists() and not self.checkpoint.exists()

    def resumes(self) -> bool:
        """Return whether there is a checkpoint, and the training is not to begin anew."""
        return not self.fresh and self.checkpoint.exists()

    def check(self) -> None:
        """Raise if files would be overwritten that no training has written, or the checkpoint can't be used."""
        self.check_overwrites()
        if self.resumes():
            self._state.read()

    def check_overwrites(self) -> None:
        """Raise if files would be overwritten that no training has written."""
        for folder in self.model.parents:
            if folder.exists() and not folder.is_dir():
                _check.fail(f"--out: {folder} is a file, not a folder; nothing is overwritten")
        if self.model.exists():
            if not self._is_model.read():
                _check.fail(f"--out: {self.model} exists and is not a model file; nothing is overwritten")
        elif not self.checkpoint.exists() and not _is_log(self.log):
            _check.fail(f"--out: {self.log} exists and is not a log of a training; nothing is overwritten")
        for path in (self.model, self.checkpoint, self.log, *self.shown):
            _check.replaceable(path)
        if not any(path.exists() for path in (self.model, self.checkpoint, self.log)):
            for path in self.shown:
                if path.exists():
                    _check.fail(f"--out: {path} exists, and no model next to it; nothing is overwritten")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the files against other processes, and remove partial files of killed ones."""
        with _files.locked(self.model) as acquired:
            if not acquired:
                _check.fail(f"--out: another process is training {self.model}.", hint="give another --out")
            self._remove_partial()
            yield

    def remove_leftovers(self) -> None:
        """Remove what was left by processes that were killed after the end of the training.

        Nothing is removed while another process trains, or if the folder can't be written to.
        """
        with suppress(OSError), _files.locked(self.model) as acquired:
            if acquired:
                self._remove_partial()
                self.remove_checkpoint()

    def _remove_partial(self) -> None:
        for path in (self.model, self.checkpoint, self.log, *self.shown):
            _files.remove_partial(path)

    def remove_checkpoint(self) -> None:
        """Remove the checkpoint."""
        self.checkpoint.unlink(missing_ok=True)

    def take_state(self) -> State | None:
        """Return the state of the training to resume, if there is one, and free the memory of the checkpoint."""
        state = self._state.read() if self.resumes() else None
        self._state.clear()
        return state

    def change_card(self, **values: str) -> None:
        """Replace values of the card in the model file, if they differ."""
        with self.locked():
            model = read_model(self.model)
            card = {**(model.card or {}), **values}
            if model.card != card:
                write_model(self.model, model._replace(card=card))

    def finished_identity(self) -> str | None:
        """Return the identity of a finished training, if the log has one."""
        try:
            identities = [entry["finished"] for entry in read_log(self.log) if "finished" in entry]
        except (OSError, ValueError):
            return None
        return str(identities[-1]) if identities else None

    def log_end(self, step: int, identity: str) -> None:
        """Log the end of the training with its identity."""
        with Log(self.log, resume_at=step) as log:
            log.write(step=step, finished=identity)

    def refuse(self) -> NoReturn:
        """Raise for a finished model of another or an unknown command."""
        _check.fail(f"--out: {self.model} is done.", hint="--fresh trains it anew, another --out keeps it")


class _CachedFile(Generic[T]):
    """The content of a file, which is read again only after the file has changed."""

    def __init__(self, path: Path, read: Callable[[Path], T]) -> None:
        self.path, self._read = path, read
        self._cached: tuple[tuple[int, int, int], T] | None = None

    def read(self) -> T:
        """Return the content of the file."""
        stat = self.path.stat()
        version = stat.st_ino, stat.st_size, stat.st_mtime_ns
        if self._cached is None or self._cached[0] != version:
            self._cached = version, self._read(self.path)
        return self._cached[1]

    def clear(self) -> None:
        """Free the memory of the content."""
        self._cached = None


def _is_model(path: Path) -> bool:
    """Return whether a file is a model file."""
    try:
        read_model(path)
    except ValueError:
        return False
    return True


def _is_log(path: Path) -> bool:
    """Return whether a file is a log, empty, or missing."""
    if not path.is_file() or not path.stat().st_size:
        return True
    try:
        return sum(1 for _ in entries(path)) > 0
    except ValueError:
        return False

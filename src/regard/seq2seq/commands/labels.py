"""Short names for files that are shown beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from regard import _files
from regard.seq2seq.storage.model_file import MODEL_FILE
from regard.seq2seq.training.log import LOG_FILE
from regard.show.terminal import clean

__all__ = ["names_of"]


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return a name for each file: its own, or its folder's where its own is the usual one.

    Parameters
    ----------
    paths : sequence of Path
        Different files, or folders.

    Returns
    -------
    list of str
        To be shown, all different: where they would be alike, whole paths.

    Examples
    --------
    >>> names_of([Path("runs/one/log.jsonl"), Path("two.jsonl")])
    ['one', 'two']
    >>> names_of([Path("a/run.jsonl"), Path("b/run.jsonl")])
    ['a/run.jsonl', 'b/run.jsonl']
    """

    def short(path: Path) -> str:
        whole = _files.real(path)
        if whole.name in (LOG_FILE, MODEL_FILE):
            return whole.parent.name
        return whole.name if whole.is_dir() else whole.stem

    def escaped(path: Path) -> str:  # what can't be shown looks alike
        return ascii(str(path))

    ways: tuple[Callable[[Path], str], ...] = (short, str, escaped)
    tries = ([clean(way(path)) for path in paths] for way in ways)
    return next(names for names in tries if len(set(names)) == len(names))

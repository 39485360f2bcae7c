"""Short names for files that are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from regard import _check, _files
from regard.seq2seq.storage.model_file import MODEL_FILE
from regard.seq2seq.training.log import LOG_FILE
from regard.show.terminal.text import clean

__all__ = ["given_names", "names_of"]


def given_names(names: Sequence[str], count: int) -> list[str]:
    """Return the names of --names, cleaned, if they are as many as what is measured, and all different."""
    if len(names) != count:
        _check.fail(f"--names must be as many as what is measured: {count}. Got {len(names)} instead.")
    if len(set(map(clean, names))) != count:
        _check.fail("--names must all be different")
    return list(map(clean, names))


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return a different name for each file: its stem, its folder if the file has a default name, or its path."""

    def short(path: Path) -> str:
        full = _files.real(path)
        if full.name in (LOG_FILE, MODEL_FILE):
            return full.parent.name
        return full.name if full.is_dir() else full.stem

    def escaped(path: Path) -> str:  # names that cannot be displayed may be equal once cleaned
        return ascii(str(path))

    forms: tuple[Callable[[Path], str], ...] = (short, str, escaped)
    candidates = ([clean(form(path)) for path in paths] for form in forms)
    return next(names for names in candidates if len(set(names)) == len(names))

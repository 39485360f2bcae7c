"""Sources that are files of arrays or pictures: read once, with progress, before a verb works on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.seq2seq.data.array_sources import ArraySource, Loaded
from regard.seq2seq.data.arrays import located
from regard.seq2seq.data.parallel_text import Pair
from regard.show.progress import Progress

__all__ = ["beside", "load_pairs", "loaded"]


def beside(file: str, name: str) -> str:
    """Return the path of an example that a file of pairs names: relative to the folder of that file.

    Examples
    --------
    >>> Path(beside("data/pairs.tsv", "cats/1.png")).as_posix()
    'data/cats/1.png'
    >>> beside("-", "1.png")
    '1.png'
    """
    return name if file == "-" else str(Path(file).parent / name)


def load_pairs(pairs: Sequence[Pair], source: ArraySource, file: str) -> list[Pair]:
    """Read the sources of pairs, which are names of files.

    Raises
    ------
    ValueError, TypeError, OSError
        If one can't be read; the text begins with the line of the pair.
    """
    loads = loaded((beside(file, str(name)) for name, _ in pairs), source, len(pairs), f"{file}: line ")
    return [(example, target) for example, (_, target) in zip(loads, pairs, strict=True)]


def loaded(paths: Iterable[str], source: ArraySource, count: int, where: str) -> list[Loaded]:
    """Read files, and report the progress.

    Raises
    ------
    ValueError, TypeError, OSError
        If one can't be read; the text begins with `where` and its number.
    """
    examples: list[Loaded] = []
    with Progress(count, f"reading {source.token_type}") as progress:
        for number, path in enumerate(paths, 1):
            examples.append(Loaded(path, located(source.load, path, f"{where}{number}: ")))
            progress.advance()
    return examples

"""Sources that are files of arrays or pictures: read once, with progress, before a verb works on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.seq2seq.data.array_sources import ArraySource, Loaded
from regard.seq2seq.data.arrays import located
from regard.seq2seq.data.parallel_text import Pair, display_name
from regard.show.progress import Progress

__all__ = ["example_path", "load", "load_pairs", "loaded"]


def example_path(file: str, name: str) -> str:
    """Return the path of an example, whose name in a file of pairs is relative to the folder of that file."""
    return name if file == "-" else str(Path(file).parent / name)


def load_pairs(pairs: Sequence[Pair], source: ArraySource, file: str, lines: Sequence[int]) -> list[Pair]:
    """Read the sources of pairs, which are names of files; `lines` are the line numbers of the pairs."""
    paths = [example_path(file, str(name)) for name, _ in pairs]
    loads = loaded(paths, source, [f"{display_name(file)}, line {line}" for line in lines])
    return [(example, target) for example, (_, target) in zip(loads, pairs, strict=True)]


def load(path: str, source: ArraySource) -> Loaded:
    """Read one file in the layout of a model, which standardises the numbers itself."""
    return Loaded(path, source.load(path))


def loaded(paths: Sequence[str], source: ArraySource, locations: Sequence[str]) -> list[Loaded]:
    """Read files, without standardisation, and report the progress."""
    examples: dict[str, Loaded] = {}  # a picture with several captions is read once
    with Progress(len(set(paths)), f"reading {source.token_type}", unit=source.unit) as progress:
        for path, location in zip(paths, locations, strict=True):
            if path in examples:
                continue
            try:
                examples[path] = located(lambda name: load(name, source), path, f"{location}: ")
            except OSError as error:
                if error.filename is not None:
                    error.filename = f"{location}: {error.filename}"
                raise
            progress.advance()
    return [examples[path] for path in paths]

"""Reading the examples of files of pairs, once, before a verb works on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard._lines import display_name
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources import Example, Source
from regard.show.progress import Progress

__all__ = ["example_path", "load_pairs", "loaded"]


def load_pairs(
    pairs: Sequence[tuple[str, str]], model: Seq2Seq, file: str, lines: Sequence[int]
) -> list[Pair]:
    """Read both sides of pairs of a file; `lines` are the line numbers of the pairs."""
    locations = [f"{display_name(file)}, line {line}" for line in lines]
    sources = loaded([name for name, _ in pairs], model.reader, file, locations)
    target = model.target_reader.tokenizer
    targets = [target.read(text, f"{where}: ") for (_, text), where in zip(pairs, locations, strict=True)]
    return list(zip(sources, targets, strict=True))


def loaded(names: Sequence[str], source: Source, file: str, locations: Sequence[str]) -> list[Example]:
    """Read texts, or files whose names are relative to the folder of the list, with progress."""
    if not source.reads_files:
        return [source.load(text, f"{where}: ") for text, where in zip(names, locations, strict=True)]
    examples: dict[str, Example] = {}  # a picture with several captions is read once
    with Progress(len(set(names)), f"reading {source.kind}", unit=source.unit) as progress:
        for name, where in zip(names, locations, strict=True):
            if name not in examples:
                examples[name] = source.load(example_path(file, name), f"{where}: ")
                progress.advance()
    return [examples[name] for name in names]


def example_path(file: str, name: str) -> str:
    """Return the path of an example; names in a file of pairs are relative to the folder of that file."""
    return name if file == "-" else str(Path(file).parent / name)

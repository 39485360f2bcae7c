"""The verb `align`: sentence pairs in, links between their words out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard.seq2seq.alignment.links import AGREEMENT, METHODS, agree, joint, links, merge, spell, symmetrise
from regard.seq2seq.commands import drawing as pictures
from regard.seq2seq.commands.columns import add_columns, check_one_file
from regard.seq2seq.commands.line_blocks import WINDOW, read_blocks, windows
from regard.seq2seq.commands.loading import (
    Unseen,
    add_ensemble,
    check_pictures,
    found_links,
    load_all,
    numbers_of_words,
)
from regard.seq2seq.data.parallel_text import no_pair, place_name, read_lines
from regard.seq2seq.data.tables import Record, is_csv, note_header, records
from regard.seq2seq.data.tokenizers import Sentence
from regard.seq2seq.translator import LONGEST_SENTENCE, Translation, Translator, check_length
from regard.show import numbers

__all__ = ["add_arguments", "run"]

Array = NDArray[Any]
Pair = tuple[str, str]
Links = frozenset[tuple[int, int]]

DEFAULT = "grow-diag-final-and"
_SHARE = numbers.number("from 0 to less than 1", lambda number: 0 <= number < 1)
TOGETHER = ("agreement", "joint")  # of weights, not of links
EXAMPLES = f"""\
The model says each given translation itself, and each of its words is linked with the source word that was looked at
most. One line is written for each pair, in order: 0-2 links the source's first word with the target's third; words
are what spaces part, unless --by tokens counts what the model cuts text into. A word that looked at the sentence's
end has no link. A side has at most {LONGEST_SENTENCE} tokens: a longer one, or a line that is no pair, ends the work
with an error that names the line. An empty side is fine: it has its end alone, and no links.

examples:
  regard align model/model.safetensors pairs.tsv > links.txt
  regard align en-fr/model.safetensors english.txt french.txt --reverse fr-en/model.safetensors
  regard align en-fr-1 pairs.tsv --ensemble en-fr-2 --reverse fr-en-1 --reverse fr-en-2 --symmetrise joint --posterior
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard align`.

    Parameters
    ----------
    parser
        The verb's parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> parser.parse_args(["model.safetensors", "pairs.tsv"]).by
    'words'
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("model", type=numbers.place, metavar="MODEL", help="a model file from regard train, or its folder")
    add(
        "files",
        nargs="*",
        type=numbers.place,
        metavar="PAIRS",
        help="source TAB target, one pair a line, UTF-8, or a CSV file (.csv), or two files; by default standard input",
    )
    add_columns(parser)
    add_ensemble(parser)
    _add_merging(add)
    add(
        "--by",
        choices=("words", "tokens"),
        default="words",
        help="what is linked and counted (default words)",
    )
    add("--scores", action="store_true", help="each model's mean log-probability before the links, with tabs")
    add("--png", type=numbers.place, metavar="FOLDER", help="draw where the model looked: line-1.png, ...")


def _add_merging(add: Callable[..., Any]) -> None:
    """Describe what links are made of, and how those of two directions are merged."""
    add(
        "--reverse",
        action="append",
        type=numbers.place,
        default=[],
        metavar="MODEL",
        help="a model of the other direction: links of both are merged; may be repeated: those align together",
    )
    add(
        "--symmetrise",
        choices=(*METHODS, *TOGETHER),
        metavar="METHOD",
        help=f"how two directions are merged: {', '.join(METHODS)} (default {DEFAULT}); "
        "agreement: what both look at; joint: each target word with what both look at most",
    )
    add(
        "--posterior",
        action="store_true",
        help="link by where each word was taken from, now that it is known, not by where was looked before it: better "
        "links, but slower; for recurrent models",
    )
    add(
        "--threshold",
        type=_SHARE,
        metavar="X",
        help=f"no link where no weight is greater (default 0; {AGREEMENT} for agreement)",
    )


def run(args: argparse.Namespace) -> int:
    """Align.

    Parameters
    ----------
    args
        What the parser found.

    Returns
    -------
    int
        0.

    Raises
    ------
    ValueError
        If the model is none, options don't fit each other, or a line can't be read.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> run(parser.parse_args(["no-such-file", "pairs.tsv"]))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    if len(args.files) > 2:
        raise ValueError(f"PAIRS must be one file or two. Got {len(args.files)} instead.")
    if args.symmetrise and not args.reverse:
        raise ValueError("--symmetrise needs --reverse: a model of the other direction")
    check_one_file(args.columns, args.files, "PAIRS")
    aligner = _Aligner(args)
    check_pictures(args.png)
    number = 0
    for pairs in _pairs(args.files, aligner.check, args.columns):
        for line, translation in aligner.lines(pairs):
            number += 1
            print(line)
            if args.png and translation.tokens:
                pictures.save(translation, args.png / f"line-{number}.png")
        sys.stdout.flush()  # whoever waits for these lines gets them now
    return 0


def _pairs(
    files: Sequence[Path], check: Callable[[Pair], Pair], columns: Sequence[str] | None = None
) -> Iterator[list[Pair]]:
    """Yield pairs as they come, of one file or of two."""
    if len(files) < 2:
        file = files[0] if files else "-"
        if columns is not None or is_csv(str(file)):
            return windows(_of_table(file, check, columns))
        return windows(read_blocks(file, _Cells(place_name(file), check)))
    if files[0].resolve() == files[1].resolve():
        raise ValueError("PAIRS must be two different files")
    return windows(_side_by_side(list(map(read_lines, files)), list(map(place_name, files)), check))


class _Cells:
    """What makes a pair of a line: the first one may look like a header."""

    def __init__(self, name: str, check: Callable[[Pair], Pair]) -> None:
        self.name, self.check, self.begun = name, check, False

    def __call__(self, line: str) -> Pair:
        """Return a line's pair."""
        cells = line.split("\t")
        if not self.begun:
            note_header(Record(1, cells), self.name)
        self.begun = True
        if len(cells) != 2:
            raise ValueError(no_pair(line))
        return self.check((cells[0], cells[1]))


def _of_table(
    file: Path | str, check: Callable[[Pair], Pair], columns: Sequence[str] | None
) -> Iterator[list[Pair]]:
    """Yield the pairs of a table; an empty row is a pair without words."""
    name = place_name(file)
    rows = records(chain.from_iterable(read_lines(file)), name, columns)
    while True:
        block: list[Pair] = []
        try:
            for line, cells in islice(rows, WINDOW):
                block.append(
                    _checked(check, (cells[0], cells[1]) if cells else ("", ""), f"{name}, line {line}")
                )
        except ValueError:
            yield block  # what is before an error is aligned
            raise
        if not block:
            return
        yield block


def _checked(check: Callable[[Pair], Pair], pair: Pair, place: str) -> Pair:
    try:
        return check(pair)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _side_by_side(
    sides: Sequence[Iterator[list[str]]], names: Sequence[str], check: Callable[[Pair], Pair]
) -> Iterator[list[Pair]]:
    """Yield the lines of two files beside each other."""
    waiting: list[list[str]] = [[], []]
    number = 0
    while True:
        waiting = [lines or next(side, []) for lines, side in zip(waiting, sides, strict=True)]
        count = min(map(len, waiting))
        if not count:
            break
        block: list[Pair] = []
        for pair in zip(waiting[0][:count], waiting[1][:count], strict=True):
            number += 1
            try:
                block.append(check(pair))
            except ValueError as error:
                if block:
                    yield block
                raise ValueError(f"{names[0]} and {names[1]}, line {number}: {error}") from None
        yield block
        waiting = [lines[count:] for lines in waiting]
    if waiting[0] or waiting[1]:
        more, fewer = names if waiting[0] else names[::-1]
        raise ValueError(f"{fewer}, line {number + 1}: missing, but {more} goes on")


class _Aligner:
    """One model, or one for each direction; each may be several that align together."""

    def __init__(self, args: argparse.Namespace) -> None:
        directions = [[args.model, *args.ensemble], args.reverse]
        self.models = [load_all(paths[0], paths[1:]) for paths in directions if paths]
        for paths, model in zip(directions, self.models, strict=False):
            if not model.attention:
                raise ValueError(f"{paths[0]} was trained without attention: it looks nowhere")
        self.method = args.symmetrise or DEFAULT
        usual = AGREEMENT if self.method == "agreement" else 0.0
        self.threshold = usual if args.threshold is None else args.threshold
        self.read = self.done = 0  # lines
        self.unseen = Unseen()
        self.by, self.scores, self.posterior = args.by, args.scores, args.posterior

    def check(self, pair: Pair) -> Pair:
        """Return a pair that is not too long for the models."""
        self.read += 1
        pair = Sentence(pair[0]), Sentence(pair[1])
        for model, sides in zip(self.models, (pair, pair[::-1]), strict=False):
            texts = model.model.source, model.model.target
            for side, text in zip(sides, texts, strict=True):
                tokens = text.cut(side)
                check_length(len(tokens))
                self.unseen.check(text, tokens, f"line {self.read}")
        return pair

    def lines(self, pairs: Sequence[Pair]) -> Iterator[tuple[str, Translation]]:
        """Yield what is printed for each pair, and where the first model looked."""
        sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        aligned = [self.models[0].align(sources, targets, posterior=self.posterior)]
        if len(self.models) > 1:
            aligned.append(self.models[1].align(targets, sources, posterior=self.posterior))
        for both in zip(*aligned, strict=True):
            self.done += 1
            columns = [f"{translation.score:.4f}" for translation in both] if self.scores else []
            try:
                found = self._links(both)
            except ValueError as error:  # both models are fine, but don't see the same words here
                raise ValueError(f"line {self.done}: {error}") from None
            yield "\t".join([*columns, spell(found)]), both[0]

    def _links(self, both: Sequence[Translation]) -> Links:
        sides = [(translation.source[:-1], translation.tokens) for translation in both]
        if self.by == "tokens" and len(both) > 1 and sides[0] != sides[1][::-1]:
            raise ValueError("--by tokens and --reverse need models that cut text into the same tokens")
        if self.method == "agreement":
            return agree(*map(self._weights, self.models, both), threshold=self.threshold)
        if self.method == "joint":
            together = joint(*map(self._weights, self.models, both))
            return links(together, end=False, threshold=self.threshold)
        found = [self._own(model, translation) for model, translation in zip(self.models, both, strict=True)]
        if len(found) == 1:
            return found[0]
        return symmetrise(found[0], {(source, target) for target, source in found[1]}, self.method)

    def _weights(self, model: Translator, translation: Translation) -> Array:
        """Return where a model looked, its sentence's end last."""
        assert translation.alignment is not None  # as was checked of the model
        if self.by == "tokens":
            return translation.alignment
        return merge(translation.alignment, *numbers_of_words(model, translation))

    def _own(self, model: Translator, translation: Translation) -> Links:
        return found_links(model, translation, self.by, self.threshold)

"""The verb `align`: write the links between the words of sentence pairs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard import _files
from regard.seq2seq.alignment.links import links, merge, spell
from regard.seq2seq.alignment.symmetrize import METHODS, posterior_product, symmetrize
from regard.seq2seq.commands import drawing
from regard.seq2seq.commands.columns import add_columns, check_one_file
from regard.seq2seq.commands.line_blocks import WINDOW, read_blocks, windows
from regard.seq2seq.commands.loading import (
    Unseen,
    add_ensemble,
    add_model,
    load_all,
    make_picture_folder,
    word_indices,
    word_links,
)
from regard.seq2seq.data.parallel_text import display_name, no_pair, read_lines
from regard.seq2seq.data.tables import Record, is_csv, note_header, records
from regard.seq2seq.data.tokenizers import Sentence
from regard.seq2seq.translator import LONGEST_SENTENCE, Translation, Translator, check_length
from regard.show import argument_types

__all__ = ["add_arguments", "run"]

Array = NDArray[Any]
Pair = tuple[str, str]
Links = frozenset[tuple[int, int]]

DEFAULT = "grow-diag-final-and"
_THRESHOLD = argument_types.number("from 0 to less than 1", lambda number: 0 <= number < 1)
PRODUCT = "product"  # of weights, not of links
EXAMPLES = f"""\
The model predicts the tokens of each given target, and each target word is linked with the source word that got the
most attention. One line is written for each pair, in order: 0-2 links the first source word with the third target
word. Words are separated by spaces; --by tokens links the tokens of the model instead. A word that attends to the end
of the source has no link. A line that is not a pair, or a side of more than {LONGEST_SENTENCE} tokens, is an error. An
empty side has no links.

examples:
  regard align model/model.safetensors pairs.tsv > links.txt
  regard align en-fr/model.safetensors english.txt french.txt --reverse fr-en/model.safetensors
  regard align en-fr-1 pairs.tsv --ensemble en-fr-2 --reverse fr-en-1 --reverse fr-en-2 --symmetrize product --posterior
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard align`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add_model(parser)
    add(
        "files",
        nargs="*",
        type=argument_types.path,
        metavar="PAIRS",
        help="source TAB target, one pair a line, UTF-8, or a CSV file (.csv), or two files (default: standard input)",
    )
    add_columns(parser)
    add_ensemble(parser)
    _add_merging(add)
    add(
        "--by",
        choices=("words", "tokens"),
        default="words",
        help="what is linked (default words)",
    )
    add(
        "--scores",
        action="store_true",
        help="print the mean log-probability of each model before the links, with TABs",
    )
    add(
        "--png",
        type=argument_types.path,
        metavar="FOLDER",
        help="save pictures of the attention weights: line-1.png, ...",
    )


def _add_merging(add: Callable[..., Any]) -> None:
    """Add the options of computing links, and of two directions."""
    add(
        "--reverse",
        action="append",
        type=argument_types.path,
        default=[],
        metavar="MODEL",
        help="a model of the other direction, whose links are merged with the first; repeated: an ensemble",
    )
    add(
        "--symmetrize",
        choices=(*METHODS, PRODUCT),
        metavar="METHOD",
        help=f"how two directions are merged: {', '.join(METHODS)} (default {DEFAULT}); "
        f"{PRODUCT}: each target word with the largest product of both directions' weights",
    )
    add(
        "--posterior",
        action="store_true",
        help="link by the posterior of the alignment given each target token, not by the attention before it: better "
        "links, but slower; for recurrent models",
    )
    add(
        "--threshold",
        type=_THRESHOLD,
        default=0.0,
        metavar="X",
        help="link only where the attention weight is above X (default 0)",
    )


def run(args: argparse.Namespace) -> int:
    """Align pairs and print their links."""
    if len(args.files) > 2:
        raise ValueError(f"PAIRS must be one file or two. Got {len(args.files)} instead.")
    if args.symmetrize and not args.reverse:
        raise ValueError("--symmetrize needs --reverse: a model of the other direction")
    check_one_file(args.columns, args.files, "PAIRS")
    aligner = _Aligner(args)
    make_picture_folder(args.png)
    number = 0
    for pairs in _pairs(args.files, aligner.check, args.columns):
        for line, translation in aligner.lines(pairs):
            number += 1
            print(line)
            if args.png and translation.tokens:
                drawing.save_alignment(translation, args.png / f"line-{number}.png")
        sys.stdout.flush()  # a program at the other end of a pipe may wait for these lines
    return 0


def _pairs(
    files: Sequence[Path], check: Callable[[Pair], Pair], columns: Sequence[str] | None = None
) -> Iterator[list[Pair]]:
    """Yield pairs of one file or of two, as they arrive."""
    if len(files) < 2:
        file = files[0] if files else "-"
        if columns is not None or is_csv(str(file)):
            return windows(_of_table(file, check, columns))
        return windows(read_blocks(file, _PairParser(display_name(file), check)))
    if _files.real(files[0]) == _files.real(files[1]):
        raise ValueError("PAIRS must be two different files")
    return windows(_of_two_files(list(map(read_lines, files)), list(map(display_name, files)), check))


class _PairParser:
    """Converts lines to pairs; warns if the first looks like a header."""

    def __init__(self, name: str, check: Callable[[Pair], Pair]) -> None:
        self.name, self.check, self.started = name, check, False

    def __call__(self, line: str) -> Pair:
        """Return the pair of a line."""
        cells = line.split("\t")
        if not self.started:
            note_header(Record(1, cells), self.name)
        self.started = True
        if len(cells) != 2:
            raise ValueError(no_pair(line))
        return self.check((cells[0], cells[1]))


def _of_table(
    file: Path | str, check: Callable[[Pair], Pair], columns: Sequence[str] | None
) -> Iterator[list[Pair]]:
    """Yield the pairs of a table; an empty row is a pair of empty sides."""
    name = display_name(file)
    rows = records(chain.from_iterable(read_lines(file)), name, columns)
    while True:
        block: list[Pair] = []
        try:
            for line, cells in islice(rows, WINDOW):
                block.append(
                    _checked(check, (cells[0], cells[1]) if cells else ("", ""), f"{name}, line {line}")
                )
        except ValueError:
            yield block  # pairs before an error are aligned
            raise
        if not block:
            return
        yield block


def _checked(check: Callable[[Pair], Pair], pair: Pair, location: str) -> Pair:
    try:
        return check(pair)
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from None


def _of_two_files(
    sides: Sequence[Iterator[list[str]]], names: Sequence[str], check: Callable[[Pair], Pair]
) -> Iterator[list[Pair]]:
    """Yield the pairs of lines of two files."""
    pending: list[list[str]] = [[], []]
    number = 0
    while True:
        pending = [lines or next(side, []) for lines, side in zip(pending, sides, strict=True)]
        count = min(map(len, pending))
        if not count:
            break
        block: list[Pair] = []
        for pair in zip(pending[0][:count], pending[1][:count], strict=True):
            number += 1
            try:
                block.append(check(pair))
            except ValueError as error:
                if block:
                    yield block
                raise ValueError(f"{names[0]} and {names[1]}, line {number}: {error}") from None
        yield block
        pending = [lines[count:] for lines in pending]
    if pending[0] or pending[1]:
        longer, shorter = names if pending[0] else names[::-1]
        raise ValueError(f"{shorter}, line {number + 1}: missing, but {longer} has more lines")


class _Aligner:
    """Aligns pairs with a model or an ensemble, or with one for each direction."""

    def __init__(self, args: argparse.Namespace) -> None:
        directions = [[args.model, *args.ensemble], args.reverse]
        self.models = [load_all(paths[0], paths[1:]) for paths in directions if paths]
        for paths, model in zip(directions, self.models, strict=False):
            if not model.attention:
                raise ValueError(f"{paths[0]} was trained without attention, so it cannot align")
        self.method = args.symmetrize or DEFAULT
        self.threshold: float = args.threshold
        self.read = self.done = 0  # lines
        self.unseen = Unseen()
        self.by, self.scores, self.posterior = args.by, args.scores, args.posterior

    def check(self, pair: Pair) -> Pair:
        """Return the pair; raise if it is too long for the models, and warn of unseen symbols."""
        self.read += 1
        pair = Sentence(pair[0]), Sentence(pair[1])
        for model, sides in zip(self.models, (pair, pair[::-1]), strict=False):
            tokenizers = model.model.source_tokenizer, model.model.target
            for side, tokenizer in zip(sides, tokenizers, strict=True):
                tokens = tokenizer.cut(side)
                check_length(len(tokens))
                self.unseen.check(tokenizer, tokens, f"line {self.read}")
        return pair

    def lines(self, pairs: Sequence[Pair]) -> Iterator[tuple[str, Translation]]:
        """Yield the output line of each pair, and the translation by the first model."""
        sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        aligned = [self.models[0].align(sources, targets, posterior=self.posterior)]
        if len(self.models) > 1:
            aligned.append(self.models[1].align(targets, sources, posterior=self.posterior))
        for both in zip(*aligned, strict=True):
            self.done += 1
            columns = [f"{translation.score:.4f}" for translation in both] if self.scores else []
            try:
                merged = self._links(both)
            except ValueError as error:  # the two models have different words for this pair
                raise ValueError(f"line {self.done}: {error}") from None
            yield "\t".join([*columns, spell(merged)]), both[0]

    def _links(self, both: Sequence[Translation]) -> Links:
        sides = [(translation.source[:-1], translation.tokens) for translation in both]
        if self.by == "tokens" and len(both) > 1 and sides[0] != sides[1][::-1]:
            raise ValueError("--by tokens and --reverse need models that cut text into the same tokens")
        if self.method == PRODUCT:
            product = posterior_product(*map(self._weights, self.models, both))
            return links(product, end=False, threshold=self.threshold)
        each = [
            word_links(model, translation, self.by, self.threshold)
            for model, translation in zip(self.models, both, strict=True)
        ]
        if len(each) == 1:
            return each[0]
        return symmetrize(each[0], {(source, target) for target, source in each[1]}, self.method)

    def _weights(self, model: Translator, translation: Translation) -> Array:
        """Return the attention weights of a model; the end of the sentence is last."""
        assert translation.alignment is not None  # the model has attention
        if self.by == "tokens":
            return translation.alignment
        return merge(translation.alignment, *word_indices(model, translation))

"""The verb `align`: write the links between the words of sentence pairs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from regard import _check, _files
from regard._lines import display_name, read_lines
from regard.commands import argument_types, drawing
from regard.commands.columns import add_columns, check_one_file
from regard.commands.loading import (
    Unseen,
    add_by,
    add_ensemble,
    add_model,
    add_unknown,
    check_posterior,
    linked_unit,
    load_all,
    make_picture_folder,
    word_indices,
    word_links,
)
from regard.commands.options import first_given
from regard.commands.read_lines import WINDOW, Failed, Failures, read_blocks, results
from regard.commands.tasks import recognising
from regard.seq2seq.alignment.links import links, merge, of_words, spell, word_numbers
from regard.seq2seq.alignment.monotonic import align_pairs
from regard.seq2seq.alignment.symmetrize import METHODS, posterior_product, symmetrize
from regard.seq2seq.corpus.pairs import check_sides, no_pair
from regard.seq2seq.corpus.tables import COMPARED, Record, is_csv, note_header, records
from regard.seq2seq.sources import Example, Source, Text
from regard.seq2seq.sources.text.tokenizers import Tokenizer
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import LONGEST_SENTENCE, Translation, Translator, read_source
from regard.show.terminal.text import clean, note

__all__ = ["add_arguments", "run"]

Array = NDArray[Any]
Pair = tuple[Example, Example]
Links = frozenset[tuple[int, int]]


class Read(NamedTuple):
    """A pair of a line, as the model of each direction reads it, and its symbols that they do not know."""

    pairs: tuple[Pair, ...]
    unseen: tuple[str, ...]


DEFAULT = "grow-diag-final-and"
_THRESHOLD = argument_types.number("from 0 to less than 1", lambda number: 0 <= number < 1)
PRODUCT = "product"  # of weights, not of links
MONOTONIC = "monotonic"
_OF_ATTENTION = ("--reverse", "--symmetrize", "--posterior", "--threshold", "--scores", "--png", "--ensemble")
EXAMPLES = f"""\
The model predicts the tokens of each given target, and each target word is linked with the source word that got the
most attention. One line is written for each pair, in order: 0-2 links the first source word with the third target
word. Words are separated by spaces; --by tokens links the tokens of the model instead, such as letters. A word that
attends to the end of the source has no link. An empty side has no links. A line that is not a pair, is not UTF-8 or has
a side of more than {LONGEST_SENTENCE} tokens gets an error on standard error and an empty line; the others are aligned,
and the exit status is 2 at the end.

examples:
  regard align runs/sounds words.tsv --aligner monotonic
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
    add_by(parser, "what is linked")
    add_unknown(parser)
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
        "--aligner",
        choices=("attention", MONOTONIC),
        default="attention",
        help=f"attention of the model (default); {MONOTONIC}: links from left to right, as of letters and sounds,"
        " learned from these pairs alone; MODEL splits them into tokens",
    )
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
        "links; for recurrent models",
    )
    add(
        "--threshold",
        type=_THRESHOLD,
        metavar="X",
        help="link only where the attention weight is above X (default 0)",
    )


def run(args: argparse.Namespace) -> int:
    """Align pairs and print their links."""
    if len(args.files) > 2:
        _check.fail(f"PAIRS must be one file or two. Got {len(args.files)} instead.")
    if args.aligner == MONOTONIC and (option := first_given(args, _OF_ATTENTION)):
        _check.fail(f"{option} needs attention: --aligner {MONOTONIC} has none")
    if args.symmetrize and not args.reverse:
        _check.fail("--symmetrize needs --reverse: a model of the other direction")
    check_one_file(args.columns, args.files, "PAIRS")
    if len(args.files) == 2 and _files.real(args.files[0]) == _files.real(args.files[1]):
        _check.fail("PAIRS must be two different files")
    failures = Failures("align", "pairs", " and ".join(map(display_name, args.files or ["-"])))
    aligner = _Aligner(args, failures)
    make_picture_folder(args.png)
    number, rows = 0, _rows(args.files, args.columns)
    if aligner.monotonic:  # learns from all pairs
        rows = iter([[*chain.from_iterable(rows)]])
    aligned = results(rows, aligner.read, aligner.align)
    for number, (_, line, both) in enumerate(aligned, 1):
        if isinstance(line, Failed) or isinstance(both, Failed):
            print(aligner.empty)
            continue
        print(aligner.line(number, line, both))
        if args.png and not isinstance(both, frozenset) and both[0].tokens:
            drawing.save_alignment(both[0], args.png / f"line-{number}.png")
    if failures.count and failures.count == failures.total and len(args.files) == 1:
        _name_task(args.files[0])
    return failures.status()


def _name_task(file: Path) -> None:
    """Say how the file of another task becomes pairs, if it is one."""
    if found := recognising(file):
        task, what = found
        note(f"{file} is {what}" + f": {task.into_pairs} makes pairs of it" * bool(task.into_pairs))


def _rows(files: Sequence[Path], columns: Sequence[str] | None) -> Iterator[list[Record]]:
    """Yield pairs of one file or of two, as they arrive."""
    if len(files) == 2:
        return _of_two_files(files)
    file = files[0] if files else "-"
    if columns is not None or is_csv(str(file)):
        errors: dict[int, str] = {}
        lines = chain.from_iterable(read_lines(file, errors))
        return _of_table(records(lines, display_name(file), columns, errors))
    return _of_lines(file)


def _contents(line: Read) -> tuple[Sequence[str], Sequence[str]]:
    """Return the tokens of both sides."""
    source, target = line.pairs[0]
    return source.content, target.content


def _of_lines(file: Path | str) -> Iterator[list[Record]]:
    """Yield the pairs of lines source TAB target; warn if the first looks like a header."""
    for block in read_blocks(file):
        rows = [row._replace(cells=row.cells[0].split("\t")) for row in block]
        if rows and rows[0].line == 1:
            note_header(rows[:COMPARED], display_name(file))
        yield rows


def _of_table(rows: Iterator[Record]) -> Iterator[list[Record]]:
    """Yield the rows of a table; an empty row is a pair of empty sides."""
    while True:
        block: list[Record] = []
        try:
            for row in islice(rows, WINDOW):
                block.append(row._replace(cells=row.cells or ["", ""]))
        except ValueError:
            yield block  # pairs before an error are aligned
            raise
        if not block:
            return
        yield block


def _of_two_files(files: Sequence[Path]) -> Iterator[list[Record]]:
    """Yield the pairs of lines of two files."""
    sides, names = list(map(read_blocks, files)), list(map(display_name, files))
    pending: list[list[Record]] = [[], []]
    number = 0
    while True:
        pending = [lines or next(side, []) for lines, side in zip(pending, sides, strict=True)]
        count = min(map(len, pending))
        if not count:
            break
        if not number:
            check_sides([row.cells for side in pending for row in side], names)
        yield [
            Record(source.line, [*source.cells, *target.cells], source.error or target.error)
            for source, target in zip(*(lines[:count] for lines in pending), strict=True)
        ]
        number += count
        pending = [lines[count:] for lines in pending]
    if pending[0] or pending[1]:
        longer, shorter = names if pending[0] else names[::-1]
        _check.fail(f"{shorter}, line {number + 1}: missing, but {longer} has more lines")


class _Aligner:
    """Aligns pairs with a model or an ensemble, or with one for each direction."""

    def __init__(self, args: argparse.Namespace, failures: Failures) -> None:
        directions = [[args.model, *args.ensemble], args.reverse]
        files = [{_files.real(model_file(path)) for path in paths} for paths in directions]
        if files[0] & files[1]:
            _check.fail("--reverse needs models of the other direction. Got one of the same model instead.")
        self.models = [load_all(paths[0], paths[1:]) for paths in directions if paths]
        for paths, model in zip(directions, self.models, strict=False):
            if not model.attention and args.aligner != MONOTONIC:
                _check.fail(f"{paths[0]} was trained without attention, so it cannot align")
        check_posterior(args, self.models)
        self.method = args.symmetrize or DEFAULT
        self.threshold: float = args.threshold or 0.0
        self.unseen, self.failures = Unseen(failures, args.unknown), failures
        self.by, self.scores, self.posterior = (
            linked_unit(args.by, self.models[0]),
            args.scores,
            args.posterior,
        )
        self.monotonic = args.aligner == MONOTONIC
        self.marks = args.unknown == "guess"
        # The line of a pair that can't be aligned.
        self.empty: str = "\t" * (len(self.models) * args.scores + self.marks)

    @property
    def _tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.models[0].model.source.tokenizer, self.models[0].model.target

    def read(self, row: Record) -> Read | Failed:
        """Return a pair that can be aligned, as each model reads it."""
        return self.failures.read(row, self._checked)

    def _checked(self, row: Record) -> Read:
        """Return a pair as each model reads it; raise if it is none or too long, and warn of unseen symbols."""
        if len(row.cells) != 2:
            _check.fail(no_pair("\t".join(row.cells)))
        sides: Sequence[Any] = row.cells
        pairs: list[Pair] = []
        read: list[tuple[Source, Example]] = []
        for model in self.models:
            readers = model.model.source, Text.of(model.model.target)
            sides = pair = read_source(readers[0], sides[0]), read_source(readers[1], sides[1])
            read += zip(readers, pair, strict=True)
            pairs.append(pair)
            sides = sides[::-1]  # for the model of the other direction
        return Read(tuple(pairs), self.unseen.check(read, f"line {row.line}"))

    def align(self, lines: Sequence[Read]) -> Iterator[tuple[Translation, ...] | Links]:
        """Yield the alignments of each pair, by one model or by those of both directions; or the links."""
        if self.monotonic:
            return map(self._by_units, lines, align_pairs([_contents(line) for line in lines]))
        aligned = [
            model.align([pair[0] for pair in pairs], [pair[1] for pair in pairs], posterior=self.posterior)
            for model, pairs in zip(
                self.models, zip(*(line.pairs for line in lines), strict=True), strict=True
            )
        ]
        return zip(*aligned, strict=True)

    def _by_units(self, line: Read, token_links: Links) -> Links:
        """Return links between tokens as links between what is linked."""
        if self.by == "tokens":
            return token_links
        sides = zip(_contents(line), self._tokenizers, strict=True)
        return of_words(
            token_links, *(word_numbers(tokens, tokenizer.detokenize) for tokens, tokenizer in sides)
        )

    def line(self, number: int, read: Read, both: Sequence[Translation] | Links) -> str:
        """Return the output for a pair."""
        if isinstance(both, frozenset):
            return self._joined([], both, read)
        merged = self.failures.attempt(partial(self._links, both), f"line {number}")
        if isinstance(merged, Failed):  # the two models have different words for this pair
            return self.empty
        return self._joined(
            [f"{translation.score:.4f}" for translation in both] if self.scores else [], merged, read
        )

    def _joined(self, columns: list[str], merged: Links, read: Read) -> str:
        marks = [clean(" ".join(read.unseen)).replace("\t", " ")] if self.marks else []
        return "\t".join([*columns, spell(merged), *marks])

    def _links(self, both: Sequence[Translation]) -> Links:
        sides = [(translation.source[:-1], translation.tokens) for translation in both]
        if self.by == "tokens" and len(both) > 1 and sides[0] != sides[1][::-1]:
            _check.fail("--by tokens and --reverse need models that split text into the same tokens")
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

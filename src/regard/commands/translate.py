"""The verb `translate`: translate lines of text."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from regard import _check
from regard._lines import display_name
from regard.commands import argument_types, drawing
from regard.commands.answers import Answers, add_answers, check_answers
from regard.commands.decoding import add_decoding, check_decoding, searching
from regard.commands.loading import (
    Unseen,
    add_by,
    add_ensemble,
    add_lines,
    add_model,
    add_unknown,
    linked_unit,
    listed,
    load_all,
    make_picture_folder,
    word_links,
)
from regard.commands.options import check_needs
from regard.commands.pages import PageParts, add_importance, check_page
from regard.commands.read_lines import Failed, Failures, read_blocks, results
from regard.seq2seq.alignment.links import spell
from regard.seq2seq.corpus.tables import Record
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.sources import Example
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import (
    LONGEST_SENTENCE,
    Translation,
    Translator,
    read_source,
)
from regard.show.figures import MOST_HEADS
from regard.show.terminal.text import clean, note

__all__ = ["add_arguments", "run", "translate_lines"]


class Line(NamedTuple):
    """A line to translate."""

    number: int  # from 1
    text: Example
    unseen: tuple[str, ...] = ()  # symbols that the model does not know


Search = Callable[[Sequence[Line]], Iterable[list[Translation]]]

EXAMPLES = f"""\
One translation is written for each line, in order; an empty line stays empty. A line of more than {LONGEST_SENTENCE}
tokens, or one that is not UTF-8, gets an error on standard error and a line whose columns are empty but for its number;
all others are translated, and the exit status is 2 at the end. Columns are separated by TABs: the number of the line
(with --n-best and --sample), the score (with those and --scores), the probability that the best translation is right
(with --probabilities), the text, its tokens with their log-probabilities (with --scores tokens), the links between the
words of line and text (with --alignment pharaoh: 0-2 links the first word of the line with the third of the text), and
the symbols of the line that the model does not know (with --unknown guess). A score is the mean log-probability of the
tokens, unless penalties or a reranker change it.

examples:
  echo "Click the icon." | regard translate model/model.safetensors
  regard translate model/model.safetensors sentences.txt --alignment text --png pictures
  regard translate model/model.safetensors sentences.txt --scores tokens --alternatives 5
  regard translate model/model.safetensors sentences.txt --n-best 5 --show page.html --importance
  regard translate model/model.safetensors sentences.txt --n-best 5 --length-penalty 0.6 --coverage-penalty 0.2
  regard translate runs/one sentences.txt --ensemble runs/two --ensemble runs/three
  regard translate model/model.safetensors sentences.txt --sample 10 --temperature 0.8 --seed 7
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard translate`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add_model(parser)
    add_lines(parser, "sentence")
    add_ensemble(parser)
    add_decoding(parser, "translations", "line", of_text=True)
    add_unknown(parser)
    add_answers(parser, "translation", "line", "FILE")
    add(
        "--alignment",
        choices=("none", "text", "pharaoh"),
        default="none",
        help="print the alignment; text: attention weights under each line; pharaoh: links after each line",
    )
    add_by(parser, "what --alignment pharaoh links")
    _add_pictures(add)


def _add_pictures(add: Any) -> None:
    """Add the options of pictures and pages."""
    add(
        "--png",
        type=argument_types.path,
        metavar="FOLDER",
        help="save pictures of the alignments: line-1.png, ...",
    )
    add(
        "--heads",
        type=argument_types.path,
        metavar="FOLDER",
        help="save the attention weights of all heads and layers of a transformer: line-1-encoder.png,"
        " line-1-decoder.png, line-1-source.png, ...",
    )
    add(
        "--show",
        type=argument_types.path,
        metavar="FILE.html",
        help="write one page for a browser: the alignments of all lines, and the heads of a transformer for the first",
    )
    add_importance(add)
    add("--force", action="store_true", help="replace a page that exists")


def run(args: argparse.Namespace) -> int:
    """Translate lines and print them."""
    _check_options(args)
    model = load_all(args.model, args.ensemble)
    if args.coverage_penalty and model.model.extras:
        _check.fail("--coverage-penalty needs a model without extras, which lengthen the source or rerank")
    _check_outputs(model, args)
    output = _Output(model, args)
    search = searching(model, args, every=output.answers.calibrated)
    lines, failures = (
        read_blocks(args.file or "-"),
        Failures("translate", "lines", display_name(args.file or "-")),
    )
    unseen = Unseen(failures, args.unknown)
    for number, (line, translations) in enumerate(translate_lines(model, lines, search, unseen), 1):
        output.show(number, line, translations)
    output.save()
    return failures.status()


def translate_lines(
    model: Translator, lines: Iterable[list[Record]], search: Search, unseen: Unseen
) -> Iterator[tuple[Line | Failed, list[Translation] | Failed]]:
    """Yield each line and its translations, or its error; a line is tokenized once, where it is checked."""
    source, failures, warned = model.model.source, unseen.failures, False

    def checked(record: Record) -> Line:
        nonlocal warned
        text = read_source(source, record.cells[0])
        symbols = unseen.check([(source, text)], f"line {record.line}")
        if "\t" in text.name and not warned:
            warned = True
            rule = "has a TAB, as pairs have: complete lines are translated (cut -f1 gives sources)"
            note(f"line {record.line} {rule}")
        return Line(record.line, text, symbols)

    for _, line, translations in results(lines, lambda record: failures.read(record, checked), search):
        yield line, translations


def _check_outputs(model: Translator, args: argparse.Namespace) -> None:
    """Check that the model has what is to be shown, and that it can be written; make the folders of pictures."""
    needs = {"there is no alignment to show": args.png or args.show or args.alignment != "none"}
    needs["--coverage-penalty needs attention weights"] = args.coverage_penalty
    for why, needed in needs.items():
        if needed and not model.attention:
            _check.fail(f"{args.model} was trained without attention: {why}")
    if args.heads is not None:
        _check_heads(model, args)
    if args.show is not None:
        models = map(model_file, [args.model, *args.ensemble])
        check_page("--show", args.show, [*models, *filter(None, [args.file])], force=args.force)
    make_picture_folder(args.png)
    make_picture_folder(args.heads)


def _check_heads(model: Translator, args: argparse.Namespace) -> None:
    """Check that --heads is given for one transformer, with no more heads than a picture can have."""
    if not isinstance(model, Seq2Seq) or model.family != "transformer":
        problem = "there are several models" if args.ensemble else f"{args.model} is not a transformer"
        _check.fail(f"--heads needs one transformer: {problem}")
    config = model.network.config
    assert isinstance(config, TransformerConfig)
    layers = max(config.encoder_layers, config.decoder_layers)
    if layers * config.heads > MOST_HEADS:
        rule = f"--heads draws up to {MOST_HEADS} heads"
        _check.fail(f"{rule}: {args.model} has {config.heads} in each of {layers} layers")


_NEEDS = (
    ("--by", "--alignment pharaoh", "it is about links"),
    ("--force", "--show", ""),
    ("--importance", "--show", ""),
)


def _check_options(args: argparse.Namespace) -> None:
    check_needs(args, _NEEDS)
    check_decoding(args)
    check_answers(args)


class _Output:
    """Prints and draws the translations of lines."""

    def __init__(self, model: Translator, args: argparse.Namespace) -> None:
        self.answers = Answers(model, args, "lines")
        self.model, self.png, self.heads, self.draws = model, args.png, args.heads, args.alignment == "text"
        self.by, self.links = linked_unit(args.by, model), args.alignment == "pharaoh"
        self.unseen = args.unknown == "guess"
        self.page, self.path = PageParts(model, importance=args.importance), args.show
        self.force = args.force

    def show(self, number: int, line: Line | Failed, translations: Sequence[Translation] | Failed) -> None:
        """Print and draw the translations of one line."""
        probability = None
        if isinstance(line, Line) and not isinstance(translations, Failed):
            translations, probability = self.answers.kept(line.text, translations)
        if isinstance(line, Failed) or isinstance(translations, Failed):
            print(self._row(number, self.answers.columns(None) + [""] * (self.links + self.unseen)))
            return
        if self.path:
            self.page.add(translations)
            if line.unseen:
                self.page.warn(
                    f"line {line.number}: the model does not know {listed(line.unseen)}; the translation is a guess"
                )
        for rank, translation in enumerate(translations, 1):
            columns = self.answers.columns(translation, probability if rank == 1 else None)
            print(self._row(number, columns + self._further(line, translation)))
            self.answers.print_alternatives(translation)
            if translation.alignment is not None and translation.tokens:
                several = self.answers.several
                self._draw(translation, f"line-{number}-{rank}" if several else f"line-{number}")

    def _draw(self, translation: Translation, name: str) -> None:
        """Draw the weights of a translation, on the terminal and into files of this name."""
        if self.draws:
            print(drawing.draw_alignment(translation), end="\n\n")
        if self.png:
            drawing.save_alignment(translation, self.png / f"{name}.png")
        if self.heads:
            assert isinstance(self.model, Seq2Seq)  # as `run` has checked
            drawing.save_heads(self.model.heads(translation), translation, self.heads, name)

    def save(self) -> None:
        """Write the page, if there is one, and report what was dropped."""
        self.answers.threshold.report()
        if self.path:
            self.page.page().save(self.path, force=self.force)

    def _further(self, line: Line, translation: Translation) -> list[str]:
        """Return the columns that only sentences have."""
        columns = [spell(word_links(self.model, translation, self.by))] if self.links else []
        return columns + ([clean(" ".join(line.unseen))] if self.unseen else [])

    def _row(self, number: int, columns: list[str]) -> str:
        """Return a line of the output."""
        columns = [str(number)] * self.answers.several + columns
        return columns[0] if len(columns) == 1 else "\t".join(column.replace("\t", " ") for column in columns)

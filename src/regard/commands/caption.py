"""The verb `caption`: describe images, or other arrays, and show where the model attended."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard import _check, _files
from regard._arrays import file_of
from regard.commands import argument_types, drawing
from regard.commands.answers import Answers, add_answers, check_answers
from regard.commands.decoding import add_decoding, check_decoding, searching
from regard.commands.loading import add_ensemble, add_model, load_all, make_picture_folder
from regard.commands.options import check_outputs, first_given
from regard.commands.pages import PageParts, add_importance, check_page, is_page
from regard.commands.read_lines import Failed, Failures, read_blocks, results, windows
from regard.seq2seq.corpus.tables import Record
from regard.seq2seq.sources import Example, Source
from regard.seq2seq.sources.text.normalization import is_blank
from regard.seq2seq.sources.text.vocabulary import JOIN
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import Translation, Translator
from regard.show.terminal.text import clean

__all__ = ["add_arguments", "run"]

NO_CAPTION = "(no caption)"  # is printed where that is empty
_TOGETHER = 64  # pictures that are read before they are described

EXAMPLES = """\
One line is printed for each image: its name, a TAB, and the caption. With --n-best and --sample there are N lines for
each image. Between the name and the caption stand its score (with these and --scores) and the probability that it is
right (with --probabilities), after it its tokens with their log-probabilities (with --scores tokens). Pictures of any
size are scaled to the size of the model. Arrays must have that size. An image that can't be read gets an error on
standard error and a line without a caption ("error" in --json); the others are described, and the exit status is 2 at
the end. Of a picture that is unlike those of the training, and of a caption that is less probable than usual, a warning
says so ("doubts" in --json).

examples:
  regard caption runs/mine photo.png
  regard caption runs/mine pictures/*.png --n-best 3 --show shown
  regard caption runs/mine pictures/*.png --probabilities --threshold 0.5
  regard caption runs/mine photo.png --sample 5 --top-p 0.9
  ls pictures/*.png | regard caption runs/mine
  regard caption runs/labels measured.npy archive.npz:first     a model that was trained with --source vectors
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard caption`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add_model(parser)
    add(
        "images",
        nargs="*",
        type=argument_types.non_empty,
        metavar="IMAGE",
        help="pictures, or arrays: FILE.npy or FILE.npz:NAME; by default their names are read from standard input, one"
        " a line",
    )
    argument_types.add_encoding(parser)
    add_ensemble(parser)
    add_decoding(parser, "captions", "image", of_text=False)
    add_answers(parser, "caption", "image", "IMAGE")
    _add_outputs(add)


def _add_outputs(add: Any) -> None:
    """Add the options about the model's attention."""
    add(
        "--show",
        type=argument_types.path,
        metavar="FOLDER",
        help="show where the model attended at each word: a picture for each image, 1-NAME.png, ..., or one page for"
        " a browser, FILE.html",
    )
    add_importance(add)
    add("--force", action="store_true", help="replace a page that exists")
    add(
        "--json",
        type=argument_types.path,
        metavar="FILE",
        help="write a line of JSON for each caption: path, caption, score, tokens, and the most attended cell"
        " [row, column] or vector of each token, counted from 0; or path and error",
    )


def run(args: argparse.Namespace) -> int:
    """Describe each image."""
    check_decoding(args)
    check_answers(args)
    model = load_all(args.model, args.ensemble, arrays=True)
    source = model.model.source
    models = [args.model, *args.ensemble]
    inputs = [*models, *map(model_file, models), *(Path(file_of(name)) for name in args.images)]
    failures = Failures("caption", source.unit, warned_of="captions that are guesses")
    output = _Captions(args, model, inputs, failures)

    def load(row: Record) -> tuple[int, Example]:
        return failures.total, _load(source, row)

    search = searching(model, args, every=output.answers.calibrated)
    rows, read = _named(args.images, output.shown), partial(failures.read, parse=load)
    for row, item, captions in results(rows, read, search):
        output.write(row.cells[0], item, captions)
    output.save()
    return failures.status()


class _Captions:
    """Prints the captions of images, warns of doubtful ones, and shows and records them."""

    def __init__(
        self, args: argparse.Namespace, model: Translator, inputs: Sequence[Path], failures: Failures
    ) -> None:
        self.model, self.failures, self.json = model, failures, args.json
        self.searched = args.sample is None
        self.answers = Answers(model, args, model.model.source.unit)
        self.shown, self.records = _Shown(args, model, model.model.source, inputs), list[dict[str, Any]]()

    def write(
        self, name: str, item: tuple[int, Example] | Failed, captions: Sequence[Translation] | Failed
    ) -> None:
        """Write the captions of an image, or an empty one for a failure."""
        probability = None
        if not isinstance(item, Failed) and not isinstance(captions, Failed):
            captions, probability = self.answers.kept(item[1], captions)
        if isinstance(captions, Failed):
            _print([name, *self.answers.columns(None)])
            self._record({"path": name, "error": captions.error})
            return
        assert not isinstance(item, Failed)  # else the captions are its failure
        for rank, caption in enumerate(captions):
            _print([name, *self.answers.columns(caption, None if rank else probability, NO_CAPTION)])
            self.answers.print_alternatives(caption, item[1])
        self.shown.add(*item, captions)
        doubts = self._doubts(name, item[1], captions)
        further: dict[str, Any] = {"doubts": [*doubts]} if doubts else {}
        for rank, caption in enumerate(captions):
            of_best = {} if rank or probability is None else {"probability": probability}
            self._record(_as_record(name, caption) | of_best | further)

    def _record(self, record: dict[str, Any]) -> None:
        """Keep a record for --json."""
        if self.json:
            self.records.append(record)

    def _doubts(self, name: str, example: Example, captions: Sequence[Translation]) -> tuple[str, ...]:
        """Return why the best caption may be a guess, with a warning; a sample may be improbable."""
        unusual = self.model.model.source.out_of_range
        doubts = self.model.warnings(example, captions) if self.searched else unusual(example)
        if doubts:
            self.shown.warn(text := f"{name}: the caption is a guess: {', '.join(doubts)}")
            self.failures.warn(text)
        return doubts

    def save(self) -> None:
        """Write the page and the records, and report what was dropped."""
        self.answers.threshold.report()
        self.shown.save()
        if self.json:
            with _files.replacing(self.json) as file:
                file.writelines(json.dumps(record).encode() + b"\n" for record in self.records)


class _Shown:
    """Shows where a model attended: as one page, or as a picture for each image in a folder."""

    def __init__(
        self, args: argparse.Namespace, model: Translator, source: Source, inputs: Sequence[Path]
    ) -> None:
        self.path, self.force, self.source = args.show, args.force, source
        self.outputs = {"--json": args.json, "--show": args.show if is_page(args.show) else None}
        self.inputs = set[Path]()
        self.check(inputs)
        self.page = PageParts(model, importance=args.importance) if is_page(args.show) else None
        if self.page is None and (option := first_given(args, ("--force", "--importance"))):
            _check.fail(f"{option} needs --show FILE.html")
        of_images = source.spec.image is not None or self.page is not None
        if args.show and not (model.attention and of_images):
            needs = "attention" if of_images else "a model of pictures"
            lack = "without" if of_images else f"of {source.kind}"
            _check.fail(f"--show needs {needs}. {args.model} is a model {lack}.")
        if self.page is None:
            make_picture_folder(args.show)
        else:
            check_page("--show", args.show, inputs, force=args.force)

    def check(self, inputs: Sequence[Path]) -> None:
        """Check that no output overwrites these files or those before them."""
        check_outputs(self.outputs, inputs)
        self.inputs.update(map(_files.real, inputs))

    def warn(self, text: str) -> None:
        """Show a warning above the page."""
        if self.page is not None:
            self.page.warn(text)

    def add(self, number: int, example: Example, captions: Sequence[Translation]) -> None:
        """Show the captions of an example."""
        if self.page is not None:
            self.page.add(captions, example, self.source.picture(example), Path(example.name).name)
        elif self.path:
            path = self.path / f"{number}-{Path(example.name).stem}.png"
            if _files.real(path) in self.inputs:
                _check.fail(f"{path} would be overwritten.", hint="give --show a folder of its own")
            drawing.save_alignment(captions[0], path, self.source.picture(example))

    def save(self) -> None:
        """Write the page, if there is one."""
        if self.page is not None:
            self.page.page("Captions").save(self.path, force=self.force)


def _named(names: Sequence[str], shown: _Shown) -> Iterator[list[Record]]:
    """Yield the names that are arguments, or lines of standard input, once no output can overwrite their files."""
    rows = iter([[Record(0, [name]) for name in names]]) if names else read_blocks("-")
    for group in windows(rows, _TOGETHER):
        shown.check([Path(file_of(row.cells[0])) for row in group])
        yield group


def _load(source: Source, row: Record) -> Example:
    (name,) = row.cells
    if is_blank(name):
        _check.fail("empty; expected the name of a file")
    return source.load(name)


def _print(columns: Sequence[str]) -> None:
    """Print columns, each on one line; a name may have characters that control a terminal."""
    one_line = [" ".join(re.split(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]", column)) for column in columns]
    print("\t".join(map(clean, one_line) if sys.stdout.isatty() else one_line))


def _as_record(name: str, caption: Translation) -> dict[str, Any]:
    """Return a caption and its attended cells, for JSON."""
    record: dict[str, Any] = {"path": name, "caption": caption.text, "score": caption.score}
    record["tokens"] = [token.replace(JOIN, "") for token in caption.tokens]
    if caption.alignment is not None:
        attended = caption.alignment.argmax(axis=1) if caption.tokens else np.zeros(0, np.int64)
        if caption.grid is None:
            record["vectors"] = attended.tolist()
        else:
            record["grid"] = list(caption.grid)
            record["cells"] = np.stack(np.unravel_index(attended, caption.grid), axis=1).tolist()
    return record

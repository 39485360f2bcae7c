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
from regard.commands.loading import add_ensemble, add_model, load_all, make_picture_folder
from regard.commands.options import add_beam, beam_sizes, check_outputs, first_given
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
One line is printed for each image: its name, a TAB, and the caption. With --n-best there are N lines for each image,
with the score of the caption between the name and the caption. Pictures of any size are scaled to the size of the
model. Arrays must have that size. An image that can't be read gets an error on standard error and a line without a
caption ("error" in --json); the others are described, and the exit status is 2 at the end. Of a picture that is unlike
those of the training, and of a caption that is less probable than usual, a warning says so ("doubts" in --json).

examples:
  regard caption runs/mine photo.png
  regard caption runs/mine pictures/*.png --n-best 3 --show shown
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
    add_beam(parser, "print the N best captions of each image, with their scores")
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
    (beam, best), number = beam_sizes(args), 0
    model = load_all(args.model, args.ensemble, arrays=True)
    source = model.model.source
    models = [args.model, *args.ensemble]
    inputs = [*models, *map(model_file, models), *(Path(file_of(name)) for name in args.images)]
    shown, records = _Shown(args, model, source, inputs), list[dict[str, Any]]()
    failures = Failures("caption", source.unit, warned_of="captions that are guesses")
    search = partial(model.candidates, beam=beam, n_best=best)
    rows = _named(args.images, shown)
    read = partial(failures.read, parse=partial(_load, source))
    for number, (row, example, captions) in enumerate(results(rows, read, search), 1):
        _print(row.cells[0], captions, with_scores=args.n_best is not None)
        doubts: tuple[str, ...] = ()
        if not isinstance(example, Failed) and not isinstance(captions, Failed):
            shown.add(number, example, captions)
            if doubts := model.warnings(example, captions):
                failures.warn(f"{row.cells[0]}: the caption is a guess: {', '.join(doubts)}")
        records += _records(row.cells[0], captions, doubts) if args.json else []
    shown.save()
    if args.json:
        with _files.replacing(args.json) as file:
            file.writelines(json.dumps(record).encode() + b"\n" for record in records)
    return failures.status()


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


def _print(name: str, captions: Sequence[Translation] | Failed, *, with_scores: bool) -> None:
    if isinstance(captions, Failed):
        rows = [[name, *([""] if with_scores else []), ""]]
    else:
        rows = [
            [name, *([f"{caption.score:.4f}"] if with_scores else []), caption.text or NO_CAPTION]
            for caption in captions
        ]
    for columns in rows:
        one_line = [
            " ".join(re.split(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]", column)) for column in columns
        ]
        # The vocabulary of an untrusted model, and a name, may hold control characters.
        print("\t".join(map(clean, one_line) if sys.stdout.isatty() else one_line))


def _records(
    name: str, captions: Sequence[Translation] | Failed, doubts: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the captions of an example, or its error, for JSON."""
    if isinstance(captions, Failed):
        return [{"path": name, "error": captions.error}]
    return [_record(name, caption) | ({"doubts": [*doubts]} if doubts else {}) for caption in captions]


def _record(name: str, caption: Translation) -> dict[str, Any]:
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

"""The verb `caption`: describe pictures, or other arrays, and show where the model attended."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.seq2seq.commands import drawing
from regard.seq2seq.commands.line_blocks import read_blocks, windows
from regard.seq2seq.commands.loading import add_ensemble, load_all, make_picture_folder
from regard.seq2seq.data.array_sources import ArraySource, Images, Loaded
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.translator import Translation
from regard.show import argument_types
from regard.show.terminal import clean

__all__ = ["add_arguments", "run"]

_TOGETHER = 64  # pictures that are read before they are described

EXAMPLES = """\
One line is written for each picture: its path, a TAB, and the caption; with --n-best, several lines for each, with the
score before the caption. A model of vectors reads .npy files, or FILE.npz:NAME for one array of an archive.

examples:
  regard caption runs/mine photo.png
  regard caption runs/mine pictures/*.png --n-best 3 --show shown
  ls pictures/*.png | regard caption runs/mine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard caption`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add(
        "model",
        type=argument_types.path,
        metavar="MODEL",
        help="a model file from regard train, or its folder",
    )
    add(
        "images",
        nargs="*",
        type=argument_types.non_empty,
        metavar="IMAGE",
        help="pictures; by default their names are read from standard input, one a line",
    )
    add_ensemble(parser)
    add(
        "--beam",
        type=argument_types.integer(most=argument_types.BEAMS),
        metavar="N",
        help=f"beam size (default {BEAM}, or --n-best if that is more; 1 is greedy search)",
    )
    add(
        "--n-best",
        type=argument_types.integer(most=argument_types.BEAMS),
        metavar="N",
        help="write the N best captions of each picture, with their scores",
    )
    add(
        "--show",
        type=argument_types.path,
        metavar="FOLDER",
        help="save for each picture where the model attended at each word: 1-NAME.png, ...",
    )


def run(args: argparse.Namespace) -> int:
    """Describe each picture.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> run(parser.parse_args(["no-such-file", "picture.png"]))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    if args.beam and args.n_best and args.n_best > args.beam:
        raise ValueError(f"--n-best must be at most --beam = {args.beam}. Got {args.n_best} instead.")
    model = load_all(args.model, args.ensemble, arrays=True)
    source = model.model.source
    assert isinstance(source, ArraySource)  # as `load_all` has checked
    if args.show and not (model.attention and isinstance(source, Images)):
        needs = "attention" if isinstance(source, Images) else "a model of pictures"
        raise ValueError(f"--show needs {needs}, which {args.model} has not")
    make_picture_folder(args.show)
    beam, number = args.beam or max(BEAM, args.n_best or 1), 0
    for block in _blocks(args.images, source):
        for example, captions in zip(
            block, model.candidates(block, beam=beam, n_best=args.n_best or 1), strict=True
        ):
            number += 1
            _print(example, captions, with_scores=args.n_best is not None)
            if args.show and isinstance(source, Images):
                name = f"{number}-{Path(example).stem}.png"
                drawing.save_captioned(source, example, captions[0], args.show / name)
        sys.stdout.flush()  # for a reader who waits for these lines
    return 0


def _blocks(names: Sequence[str], source: ArraySource) -> Iterator[list[Loaded]]:
    """Read the examples that are named as arguments, or by lines of standard input."""

    def load(name: str) -> Loaded:
        return Loaded(name, source.load(name))

    if names:
        for start in range(0, len(names), _TOGETHER):
            yield [load(name) for name in names[start : start + _TOGETHER]]
    else:
        yield from windows(read_blocks("-", load))


def _print(example: Loaded, captions: Sequence[Translation], *, with_scores: bool) -> None:
    for caption in captions:
        # The vocabulary of an untrusted model may hold control characters.
        text = clean(caption.text) if sys.stdout.isatty() else caption.text
        columns = [str(example), *([f"{caption.score:.4f}"] if with_scores else []), text]
        print("\t".join(column.replace("\t", " ") for column in columns))

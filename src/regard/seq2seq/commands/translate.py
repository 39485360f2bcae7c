"""The verb `translate`: lines in, lines out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from regard.seq2seq.commands import pictures
from regard.seq2seq.model import LONGEST_SENTENCE, Seq2Seq, Translation
from regard.seq2seq.pairs import LONGEST_LINE, decode_line
from regard.seq2seq.text import cut
from regard.show.terminal import clean

__all__ = ["add_arguments", "run"]

EXAMPLES = f"""\
One translation is written for each line, in order; an empty line stays empty. A line has at most {LONGEST_SENTENCE}
tokens (words and signs): a longer one ends the work with an error that names the line.

examples:
  echo "Click the icon." | regard translate model/model.safetensors
  regard translate model/model.safetensors sentences.txt --alignment text --png pictures
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard translate`.

    Parameters
    ----------
    parser
        The verb's parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> parser.parse_args(["model.safetensors"]).beam
    5
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="a model file from regard train, or its folder"
    )
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="one sentence a line, UTF-8; by default standard input",
    )
    parser.add_argument(
        "--beam",
        type=_width,
        default=5,
        metavar="N",
        help="hypotheses followed at a time (default 5; 1 is greedy)",
    )
    parser.add_argument(
        "--alignment",
        choices=("none", "text"),
        default="none",
        help="text: where each word looked, under each line",
    )
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="draw alignments there: line-1.png, ...")


def _width(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 100. Got {text!r} instead.")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Translate.

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
        If the model is none, or a line can't be read.

    Examples
    --------
    >>> run(argparse.Namespace(model=Path("no-such-file"), png=None, alignment="none"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    inside = args.model / "model.safetensors"
    model = Seq2Seq.load(inside if inside.is_file() else args.model)
    if (args.png or args.alignment == "text") and not model.attention:
        raise ValueError(f"{args.model} was trained without attention: there is no alignment to show")
    if args.png:
        if find_spec("matplotlib") is None:
            raise ImportError('pictures need Matplotlib: pip install "regard[cli]"')
        args.png.mkdir(parents=True, exist_ok=True)
    if args.file is None:
        _translate(model, sys.stdin.buffer, "standard input", args)
    else:
        with args.file.open("rb") as file:
            _translate(model, file, str(args.file), args)
    return 0


def _translate(model: Seq2Seq, file: Any, name: str, args: argparse.Namespace) -> None:
    number = 0
    for sentences in read_blocks(file, name):
        for translation in model.translate(sentences, beam=args.beam):
            number += 1
            _show(translation, number, args)
        sys.stdout.flush()  # whoever waits for these lines gets them now


def _show(translation: Translation, number: int, args: argparse.Namespace) -> None:
    # A stranger's model may know words that a terminal would obey.
    print(clean(translation.text) if sys.stdout.isatty() else translation.text)
    if translation.alignment is None or not translation.tokens:
        return
    if args.alignment == "text":
        print(pictures.draw(translation), end="\n\n")
    if args.png:
        pictures.save(translation, args.png / f"line-{number}.png")


def read_blocks(file: BinaryIO, name: str) -> Iterator[list[str]]:
    """Yield the lines that are there, many at a time from a file, one by one from someone who types.

    Parameters
    ----------
    file : binary file
        UTF-8 text.
    name : str
        What it is called, for errors.

    Yields
    ------
    list of str
        Sentences in order. What can't be read is an error after the sentences before it.

    Raises
    ------
    ValueError
        With the line's number.

    Examples
    --------
    >>> import io
    >>> list(read_blocks(io.BytesIO(b"one\\n\\nthree"), "it"))
    [['one', ''], ['three']]
    """
    number = 0
    for lines in _lines(file):
        block: list[str] = []
        for line in lines:
            number += 1
            try:
                block.append(_sentence(line, f"{name}, line {number}", first=number == 1))
            except ValueError:
                if block:
                    yield block
                raise
        yield block


def _sentence(line: bytes, place: str, *, first: bool) -> str:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"{place}: longer than {LONGEST_LINE} bytes")
    text = decode_line(line, place, first=first)
    count = len(cut(text))
    if count > LONGEST_SENTENCE:
        raise ValueError(f"{place}: {count} tokens; at most {LONGEST_SENTENCE} are allowed")
    return text


def _lines(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield whole lines as they come; one that never ends is given up when it is too long."""
    begun = b""
    while data := file.read1(1 << 16):  # type: ignore[attr-defined]
        *lines, begun = (begun + data).split(b"\n")
        if lines:
            yield lines
        if len(begun) > LONGEST_LINE:
            break
    if begun:
        yield [begun]

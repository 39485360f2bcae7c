"""The verb `show`: attention as a page of a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard.seq2seq.commands.options import first_given
from regard.show import argument_types
from regard.show.array_files import read_arrays, read_named
from regard.show.inputs import add_input, add_labels, check_files_alone, labels_of, seed_of, words_of
from regard.show.page import HtmlPage, page
from regard.show.page.document import check_new
from regard.show.page.examples import drawn, meanings, reordering

__all__ = ["add_arguments", "run"]

EXAMPLES = """\
examples:
  regard show --out page.html                                four words whose numbers can be changed, and a decoder
  regard show --words "1 0; 0 1" --seed 7 --out page.html    your words
  regard show my.npz --out page.html                         your queries, keys and values, or your weights
  regard show runs/mine --text "two cats" --out page.html    the alignments and heads of a model of regard train
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `regard show` to its parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add_input(parser, files="; an .npz with an array weights shows these")
    add("--out", type=argument_types.path, metavar="FILE.html", help="the page to write")
    add(
        "--text",
        metavar="SENTENCE",
        help="translate a sentence with the model FILE, from regard train, and show its alignments and heads",
    )
    add("--force", action="store_true", help="replace a page that exists")
    add_labels(parser)
    add("--title", metavar="TEXT", default="Attention", help="title of the page (default Attention)")


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    if args.out is None:
        raise ValueError("give --out FILE.html, the page to write")
    check_new(args.out, force=args.force, hint="--force")
    document = _text(args) if args.text is not None else _files(args) if args.files else _words(args)
    document.save(args.out, force=args.force)
    print(f"{args.out} ({args.out.stat().st_size / 1000:.0f} KB): open it in a browser")
    return 0


def _text(args: argparse.Namespace) -> HtmlPage:
    """Return the page of a model's translations of a sentence."""
    from regard.seq2seq.commands.pages import translated

    if len(args.files) != 1:
        raise ValueError(f"--text needs one FILE, a model from regard train. Got {len(args.files)} instead.")
    if option := first_given(args, ("--words", "--seed", "--labels", "--query-labels", "--key-labels")):
        raise ValueError(f"{option} and --text exclude each other: give one")
    return translated(args.files[0], args.text, title=args.title)


def _words(args: argparse.Namespace) -> HtmlPage:
    """Return the page of words; where none are given, with Bahdanau's decoder below."""
    own = args.words is not None or args.seed is not None or args.labels is not None
    vectors = words_of(args)
    if args.query_labels is not None or args.key_labels is not None:
        raise ValueError("words have the same names as queries and keys: give --labels")
    if not own:
        return HtmlPage([meanings(), reordering()], title=args.title)
    return HtmlPage([drawn(vectors, seed_of(args), labels_of(args)[0])], title=args.title)


def _files(args: argparse.Namespace) -> HtmlPage:
    """Return the page of the user's arrays."""
    check_files_alone(args, ("words", "seed"))
    query_labels, key_labels = labels_of(args)
    first = args.files[0]
    if first.is_dir() or first.suffix.lower() == ".safetensors":
        kind = "folder" if first.is_dir() else "safetensors file"
        raise ValueError(f"{first} is a {kind}: with --text it may be a model of regard train")
    weights = _weights(args.files)
    arrays = read_arrays(args.files) if weights is None else (weights,)
    return page(*arrays, query_labels=query_labels, key_labels=key_labels, title=args.title)


def _weights(paths: list[Path]) -> NDArray[Any] | None:
    """Return the weights of an .npz file, or None if it has none."""
    if len(paths) != 1 or paths[0].suffix.lower() != ".npz":
        return None
    return read_named(paths[0], ["weights"]).get("weights")

"""The verb `show`: attention as a page of a browser."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard import _check
from regard._arrays import array_names
from regard.commands import argument_types
from regard.commands.array_files import read_array, read_named
from regard.commands.inputs import Given, add_attention, add_input, given, labels_of
from regard.commands.options import check_needs, first_given
from regard.show.figures.figure import PICTURES, check_picture, save
from regard.show.page import HtmlPage, page
from regard.show.page.chapters import ALONE, CHAPTERS, story
from regard.show.page.document import check_new
from regard.show.page.mechanism import with_words
from regard.show.page.section import labels
from regard.show.steps import LANGUAGES, in_language, texts
from regard.show.terminal.text import note
from regard.show.weights_figure import chosen_heads, save_weights

__all__ = ["add_arguments", "run"]

_INPUT = ("--words", "--seed", "--query-weight", "--key-weight", "--value-weight")
_ATTENTION = (
    "--score",
    "--score-arrays",
    "--scale",
    "--softcap",
    "--normalize",
    "--causal",
    "--window",
    "--align",
    "--mask",
)
_LABELS = ("--labels", "--query-labels", "--key-labels")
_STORY = ("--section", "--slides")
_WITH_TEXT = "language-model"  # the section that goes on with --text
_NEEDS = (
    ("--token", "--text", "the sentence whose translation has the token"),
    ("--layer", "--token", ""),
    ("--head", "--token", ""),
    ("--importance", "--text", "it is about a translation"),
)
EXAMPLES = """\
examples:
  regard show --out page.html                                examples to change, as numbers and arrows; heads, a decoder
  regard show "the cat sat" --out page.html                  your words, their vectors drawn with seed 42
  regard show --words vectors.csv --causal --out page.html   your vectors, names in the first column
  regard show my.npz --out page.html                         your queries, keys and values, or your weights
  regard show --weights w.npy --out weights.svg              weights of any model, as a page or as a picture
  regard show --words vectors.csv --query 3 --out lanes.svg  how the keys share the attention of query 3
  regard show runs/mine --text "two cats" --out page.html    the alignments and heads of a model of regard train
  regard show runs/mine --text "two cats" --token 2 --out page.html   how its decoder attends when it writes token 2
  regard show --section language-model --text "To in" --out page.html  a small language model goes on with this text
  regard show --section heads --language fr --out heads.svg  the picture of a chapter, here in French
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `regard show` to its parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add_input(parser, files="; an .npz with an array weights shows these")
    add_attention(parser)
    group = parser.add_argument_group("page")
    group.add_argument(
        "--weights",
        type=argument_types.path,
        metavar="FILE",
        help="show weights instead: (n, m), or with layers and heads before, .npy or CSV",
    )
    _add_model(group)
    group.add_argument(
        "--out",
        type=argument_types.path,
        metavar="FILE",
        help="the page to write; a name that ends in .png, .svg or .pdf: a picture of the weights, or of what --query,"
        " --section, --text or --token says",
    )
    group.add_argument(
        "--importance",
        action="store_true",
        help="with --text: beside the weights, what each token loses without each input, and what that contributes",
    )
    group.add_argument(
        "--query",
        type=argument_types.integer(),
        metavar="N",
        help="a picture of the lanes of query N instead of all weights: scores, shares and context",
    )
    group.add_argument("--force", action="store_true", help="replace a page that exists")
    group.add_argument(
        "--title", metavar="TEXT", default="Attention", help="title of the page (default Attention)"
    )
    _add_story(group)


def _add_model(group: argparse._ArgumentGroup) -> None:
    """Add the arguments of the pages of a model."""
    group.add_argument(
        "--text",
        type=argument_types.non_empty,
        metavar="SENTENCE",
        help="translate a sentence with the model FILE, from regard train, and show its alignments and heads; with"
        " --section language-model: the text that it goes on with",
    )
    group.add_argument(
        "--token",
        type=argument_types.integer(),
        metavar="N",
        help="with --text: show the decoder step that writes token N, in all its numbers, and what is predicted",
    )
    for name, default in (("layer", "the layer of its alignments"), ("head", "1")):
        group.add_argument(
            f"--{name}",
            type=argument_types.integer(),
            metavar="N",
            help=f"with --token, of a transformer: the {name} that is shown (default {default})",
        )


def _add_story(group: argparse._ArgumentGroup) -> None:
    """Add the arguments of the page without an input."""
    group.add_argument(
        "--section",
        action="append",
        choices=[chapter.name for chapter in (*CHAPTERS, *ALONE)],
        metavar="NAME",
        help="of the page without an input, only this chapter, or its pictures: %(choices)s; may be repeated",
    )
    group.add_argument(
        "--slides", action="store_true", help="one step a screen, with the arrow keys on and back"
    )
    group.add_argument(
        "--language",
        choices=LANGUAGES,
        default="en",
        help="language of the page or the picture (default en)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the page or the picture."""
    if args.out is None:
        _check.fail("give --out FILE.html, the page to write")
    check_needs(args, _NEEDS)
    if (option := first_given(args, _STORY)) and (other := first_given(args, _excluded(args))):
        _check.exclude(other, option)
    if args.importance and args.token is not None:
        _check.exclude("--importance", "--token")
    if args.out.suffix.lower() in PICTURES:
        return _draw(args)
    if args.query is not None:
        _check.fail(f"--query draws a picture: --out must end in .png, .svg or .pdf. Got {args.out} instead.")
    check_new(args.out, force=args.force, hint="--force")
    document = _page(args)
    document.save(args.out, force=args.force)
    print(f"{args.out} ({args.out.stat().st_size / 1000:.0f} KB): open it in a browser")
    return 0


def _excluded(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the options that the page without an input doesn't take."""
    text = () if args.section == [_WITH_TEXT] else ("--text",)
    others = ("--weights", "--query", "--token", "--importance", *_INPUT, *_ATTENTION, *_LABELS)
    return "FILES", *text, *others


def _page(args: argparse.Namespace) -> HtmlPage:
    """Return the page of a model's translations, of weights, of the input, or without any of these the examples."""
    if args.text is not None and not args.section:
        return _text(args)
    if (weights := _weights(args)) is not None:
        queries, keys = labels_of(args, (None, None))
        names: dict[str, Any] = {"query_labels": queries, "key_labels": keys}
        return page(weights, **names, title=args.title, language=args.language)
    if not args.files and first_given(args, (*_INPUT, *_ATTENTION, *_LABELS)) is None:
        shown = story(args.section, args.language, args.text)
        return HtmlPage(shown, title=args.title, language=args.language, slides=args.slides)
    return _input(given(args), args.title, args.language)


def _text(args: argparse.Namespace) -> HtmlPage:
    """Return the page of a model's translations of a sentence."""
    from regard.commands.pages import decoder_step, translated

    if len(args.files) != 1:
        _check.fail(f"--text needs one FILE, a model from regard train. Got {len(args.files)} instead.")
    if option := first_given(args, ("--weights", *_INPUT, *_ATTENTION, *_LABELS)):
        _check.exclude(option, "--text")
    look = {"title": args.title, "language": args.language}
    if args.token is not None:
        place = {"layer": args.layer, "head": args.head}
        return decoder_step(args.files[0], args.text, args.token, **look, **place)
    return translated(args.files[0], args.text, **look, importance=args.importance)


def _input(inputs: Given, title: str, language: str) -> HtmlPage:
    """Return the page of queries, keys and values, which begins with the words they are made of."""
    queries, keys = inputs.names() if inputs.words else inputs.labels
    look: dict[str, Any] = {"title": title, "language": language}
    document = page(*inputs.arrays, **inputs.options, query_labels=queries, key_labels=keys, **look)
    section = document.sections[0]
    for warning in section.warnings:
        note(warning)
    if not inputs.words or section.view != "mechanism":
        return document
    return HtmlPage(
        [with_words(section, *inputs.words.values(), origin=inputs.origin, features=inputs.features)],
        **look,
    )


def _weights(args: argparse.Namespace) -> NDArray[Any] | None:
    """Return the weights of --weights or of an .npz file, or None if there are none."""
    if args.weights is not None:
        if option := first_given(args, ("FILES", *_INPUT, *_ATTENTION)):
            _check.exclude(option, "--weights")
        is_archive = args.weights.suffix.lower() == ".npz"
        return _named_weights(args.weights) if is_archive else read_array(args.weights)
    if not args.files:
        return None
    first = args.files[0]
    if os.path.isdir(first) or first.suffix.lower() == ".safetensors":
        kind = "folder" if os.path.isdir(first) else "safetensors file"
        _check.fail(f"{first} is a {kind}: with --text it may be a model of regard train")
    if len(args.files) != 1 or first.suffix.lower() != ".npz":
        return None
    return _named_weights(first) if "weights" in array_names(first) else None


def _named_weights(path: Path) -> NDArray[Any]:
    """Return the array weights of an .npz file."""
    return read_named(path, ["weights"])["weights"]


def _draw(args: argparse.Namespace) -> int:
    """Write a picture: of a chapter, of a translation, of one query, or of all weights."""
    check_picture(args.out)
    if args.query is not None and (option := first_given(args, ("--text", "--weights"))):
        _check.exclude(option, "--query")
    if first_given(args, _STORY):
        return _draw_chapter(args)
    if args.text is not None:
        return _draw_translation(args)
    return _draw_lanes(args) if args.query is not None else _draw_weights(args)


def _draw_chapter(args: argparse.Namespace) -> int:
    """Write the picture of a chapter, and of its drawers that have one, each in a file with a number."""
    from regard.show.figures._sections import drawn

    if args.slides or len(args.section or ()) != 1:
        _check.fail("a picture is that of one chapter: give one --section, and no --slides")
    ((first, *drawers),) = (section.parts for section in story(args.section, args.language, args.text))
    for number, part in enumerate((first, *drawers), 1):
        path = args.out if number == 1 else args.out.with_stem(f"{args.out.stem}-{number}")
        save(path, drawn(part, texts(args.language)))
        print(path)
    return 0


def _draw_translation(args: argparse.Namespace) -> int:
    """Write a picture of the weights of a translation, or of the decoder's step that writes a token."""
    from regard.show.figures._sections import drawn

    if args.importance:
        _check.fail(f"--importance makes a page: --out must end in .html. Got {args.out} instead.")
    save(args.out, drawn(_text(args).sections[0], texts(args.language)))
    print(args.out)
    return 0


def _draw_lanes(args: argparse.Namespace) -> int:
    """Write a picture of the keys of one query."""
    from regard.show.figures._lanes import lanes

    inputs = given(args)
    queries, keys = inputs.names()
    row = _check.integer("--query", args.query, 1, most=len(queries)) - 1
    known = texts(args.language)
    query, *keys = (in_language(name, known) for name in (queries[row], *keys))
    save(args.out, lanes(inputs.attend(), row, query, keys, texts=known))
    print(args.out)
    return 0


def _draw_weights(args: argparse.Namespace) -> int:
    """Write a picture of the weights."""
    weights = _weights(args)
    if weights is None:
        inputs = given(args)
        weights, names = inputs.attend()._masked_weights(), inputs.names()
    else:
        own_labels = labels_of(args, (None, None))
        queries, keys = (
            labels(*side) for side in zip(own_labels, weights.shape[-2:], ("query", "key"), strict=True)
        )
        names = queries, keys
    title, known = "" if args.title == "Attention" else args.title, texts(args.language)
    rows, columns = ([in_language(name, known) for name in side] for side in names)
    save_weights(args.out, chosen_heads(weights), (rows, columns), title=title, texts=known)
    print(args.out)
    return 0

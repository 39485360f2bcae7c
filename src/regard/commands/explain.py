"""The command `regard explain`: scores, weights and context of any input, in numbers and words."""

import argparse
import re
import sys
from typing import Any

from regard import _check
from regard._layout import item_of
from regard.commands import argument_types
from regard.commands.inputs import Arrays, add_attention, add_input, given
from regard.context import PARTS, Attention
from regard.show.explanation import STEPS, Explanation, check_size
from regard.show.figures.figure import check_picture, warned
from regard.show.page.document import check_new
from regard.show.terminal.text import wants_color
from regard.show.weights_figure import chosen_heads, save_weights

__all__ = ["add_arguments", "run"]

_INDICES = re.compile("-?[0-9]{1,18}(, ?-?[0-9]{1,18})*")
_EACH = 0  # one step after the other
EXAMPLES = """\
examples:
  regard explain                                        four words, weights drawn with seed 42
  regard explain "the cat sat"                          your words, their vectors drawn with seed 42
  regard explain --words "the 1 0; cat 0 1; sat 1 1"    your words with your vectors
  regard explain --query-weight "2 0; 0 1" --key-weight "1 0; 0 1" --value-weight "1 1; 0 1" --words "1 0; 0 1"
  regard explain q.npy k.npy v.npy --causal --row 3     your arrays, one query term by term
  regard explain states.npy annotations.npy --score additive   Bahdanau's score, with the numbers inside it
  regard explain --step                                 one step after the other
  regard explain --row 3 --latex                        a query as LaTeX, for a paper or a hand-out
  regard explain arrays.npz --png weights.png           the weights as a picture, too
  regard explain --html page.html                       and a page in which the numbers can be changed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `regard explain` to its parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add_input(parser)
    add_attention(parser)
    _add_output(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--step",
        type=_step,
        nargs="?",
        const=_EACH,
        metavar="STEP",
        help=f"print this step alone: {', '.join(STEPS)}, or 1, 2, 3; without STEP, all of them, each after Enter on a "
        "terminal",
    )
    group.add_argument(
        "--row",
        type=argument_types.integer(),
        default=1,
        metavar="I",
        help="the query explained term by term (default 1)",
    )
    group.add_argument(
        "--digits",
        type=argument_types.integer(0, 17),
        default=5,
        metavar="N",
        help="digits after the point (default 5)",
    )
    group.add_argument(
        "--at",
        type=_indices,
        metavar="I,J",
        help="indices into the leading dimensions, from 1; of a dimension without one, the first is explained"
        " and all are drawn",
    )
    group.add_argument("--title", metavar="TEXT", help="the first line, and the title of page and figure")
    group.add_argument(
        "--columns",
        type=argument_types.integer(40, 10_000),
        metavar="N",
        help="columns of the text, of which wide matrices need more (default: those of the terminal, or 80)",
    )
    _add_files(group)


def _add_files(group: Any) -> None:
    group.add_argument(
        "--latex",
        action="store_true",
        help="print the query of --row as LaTeX (amsmath) instead: vectors, scores, logits, weights and context",
    )
    group.add_argument(
        "--png",
        type=argument_types.path,
        metavar="FILE",
        help="also draw the weights of all heads as a figure (.png, .svg, .pdf)",
    )
    group.add_argument(
        "--html",
        type=argument_types.path,
        metavar="FILE",
        help="also write a page for a browser, in which the numbers can be changed",
    )
    group.add_argument("--force", action="store_true", help="replace a page that exists")


def _step(text: str) -> str | int:
    if text in STEPS:
        return text
    if text in ("1", "2", "3"):
        return int(text)
    steps = f"must be one of {', '.join(STEPS)}, 1, 2, 3, or left out at the end of the line. Got {text!r:.60} instead."
    raise argparse.ArgumentTypeError(steps)


def _indices(text: str) -> tuple[int, ...]:
    if not _INDICES.fullmatch(text):
        raise argparse.ArgumentTypeError(f"integers between commas are needed: {text!r:.60}")
    return tuple(map(int, text.split(",")))


def run(args: argparse.Namespace) -> int:
    """Print the three steps, or a query as LaTeX, and draw the weights with --png."""
    if args.force and args.html is None:
        _check.fail("--force needs --html")
    if args.latex and args.step is not None:
        _check.fail("--latex prints a whole query: leave --step out")
    if args.html is not None:
        check_new(args.html, force=args.force, hint="--force")
    if args.png is not None:
        check_picture(args.png)
    inputs = given(args)
    check_size(*inputs.arrays)
    batch = inputs.attend()
    attention, arrays, slice_line = _slice(batch, inputs.arrays, args.at or ())
    n = len(attention.weights)
    if args.row > n > 0:
        _check.fail(f"--row must be one of the {n} queries, counted from 1: {args.row}")
    names = inputs.names()
    explanation = Explanation(
        attention,
        *arrays,
        *names,
        **inputs.options,
        chosen=args.row - 1,
        digits=args.digits,
        color=wants_color(sys.stdout),
        columns=args.columns,
        title="\n\n".join(filter(None, [args.title, slice_line, inputs.title])),
        inputs=inputs.words,
    )
    if args.png is not None:
        heads = chosen_heads(batch._masked_weights(), args.at or ())
        with warned(args.png):
            save_weights(args.png, heads, names, at=args.at or (), title=args.title or "")
    if args.html is not None:
        explanation.in_browser(args.title or "Attention").save(args.html, force=args.force)
    if args.latex:
        print(explanation.latex())
    else:
        _print(explanation, args.step)
    return 0


def _print(explanation: Explanation, step: str | int | None) -> None:
    """Print all steps, one of them, or one after the other, on a terminal each after Enter."""
    if step != _EACH:
        print(explanation if step is None else explanation.step(step))
        return
    waits = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    for i, name in enumerate(STEPS):
        print("\n" * bool(i) + explanation.step(name))
        if waits and i + 1 < len(STEPS):
            print(f"\nEnter: {STEPS[i + 1]}, Ctrl-D: the end ", end="", flush=True)
            if not sys.stdin.readline():
                print()
                return


def _slice(attention: Attention, arrays: Arrays, at: tuple[int, ...]) -> tuple[Attention, Arrays, str]:
    """Return one slice of the leading dimensions, the first by default, and the line that names it."""
    leading = attention.weights.shape[:-2]
    if at and not leading:
        _check.fail("--at is for arrays with leading dimensions; these have none")
    if len(at) > len(leading) or not all(1 <= i <= size for i, size in zip(at, leading, strict=False)):
        _check.fail(f"--at must choose positions in the leading dimensions {leading}, from 1: {at}")
    chosen = at + (1,) * (len(leading) - len(at))
    index = tuple(i - 1 for i in chosen)
    parts = {name: getattr(attention, name)[index] for name in PARTS}
    line = ""
    if leading:
        line = f"leading dimensions {leading}; shown: {','.join(map(str, chosen))} (choose with --at)"
    queries, keys, values = (item_of(array, leading, index) for array in arrays)
    return Attention(**parts), (queries, keys, values), line

"""The command `regard explain`: scores, weights and context of any input, in numbers and words."""

import argparse
import functools
import inspect
import math
import operator
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from regard import _check, mask, scores, weights
from regard._characters import report
from regard._layout import item_of
from regard.context import PARTS, Attention, attend
from regard.mask import Dense, Mask, MaskLike
from regard.scores import ScoreLike
from regard.show import argument_types
from regard.show.array_files import parse_matrix, read_array, read_arrays, read_named
from regard.show.explanation import STEPS, Explanation, check_size, counted, projected
from regard.show.figures.figure import check_picture, save, warned
from regard.show.figures.heatmap import MOST_HEADS, heatmap, heatmaps
from regard.show.inputs import (
    add_input,
    add_labels,
    check_files_alone,
    drawn_weights,
    labels_of,
    seed_of,
    words_of,
)
from regard.show.page.document import check_new
from regard.show.page.section import labels as names_of
from regard.show.steps import Formula, TextFormat
from regard.show.terminal.text import wants_color

__all__ = ["add_arguments", "run"]

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

_EACH = 0  # one step after the other
_WEIGHTS = ("query_weight", "key_weight", "value_weight")
_SIMPLE_SCORES = ("scaled_dot", "dot", "cosine", "gaussian")
_LEARNED_SCORES = ("general", "additive", "concat", "location")
_NORMALIZE = tuple(weights.NAMED)
EXAMPLES = """\
examples:
  regard explain                                        four words, weights drawn with seed 42
  regard explain --words "1 0; 0 1; 1 1" --seed 7       your words
  regard explain --query-weight "2 0; 0 1" --key-weight "1 0; 0 1" --value-weight "1 1; 0 1" --words "1 0; 0 1"
  regard explain q.npy k.npy v.npy --causal --row 3     your arrays, one query term by term
  regard explain states.npy annotations.npy --score additive   Bahdanau's score, with the numbers inside it
  regard explain --step                                 one step after the other
  regard explain arrays.npz --png weights.png           the weights as a picture, too
  regard explain --html page.html                       and a page in which the numbers can be changed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `regard explain` to its parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    _add_input(parser)
    _add_attention(parser)
    _add_output(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("input: files, or words and weights")
    learned = (
        "; then the arrays of a learned score without --score-arrays: normal() / sqrt(rows), to two digits"
    )
    add_input(group, seed=learned)
    for name in _WEIGHTS:
        side = name.split("_")[0]
        group.add_argument(f"--{side}-weight", metavar="ROWS", help=f"{side} weights instead of random ones")
    group.add_argument(
        "--at",
        type=_indices,
        metavar="I,J",
        help="indices into the leading dimensions, from 1; of a dimension without one, the first is explained"
        " and all are drawn",
    )


def _add_attention(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("attention")
    group.add_argument(
        "--score",
        choices=_SIMPLE_SCORES + _LEARNED_SCORES,
        default="scaled_dot",
        metavar="NAME",
        help=f"{', '.join(_SIMPLE_SCORES)} (default scaled_dot); learned, so from --score-arrays or drawn with "
        f"--seed: {', '.join(_LEARNED_SCORES)}",
    )
    group.add_argument(
        "--score-arrays",
        type=argument_types.path,
        metavar="NPZ",
        help="the learned arrays of the score function, by their names",
    )
    group.add_argument("--scale", type=argument_types.finite, metavar="X", help="multiply the scores by X")
    group.add_argument(
        "--softcap", type=argument_types.positive, metavar="X", help="squash the logits into -X..X with tanh"
    )
    names = f"{', '.join(_NORMALIZE)} (default softmax)"
    group.add_argument("--normalize", choices=_NORMALIZE, default="softmax", metavar="NAME", help=names)
    _add_mask(group)


def _add_mask(group: Any) -> None:
    group.add_argument(
        "--causal", action="store_true", help="query i attends to the keys up to its own position"
    )
    group.add_argument(
        "--window",
        type=argument_types.integer(0),
        nargs=2,
        metavar=("LEFT", "RIGHT"),
        help="query i attends to LEFT keys before its own position and RIGHT after it",
    )
    group.add_argument(
        "--align",
        choices=("start", "end"),
        help="which ends of queries and keys are aligned, for --causal and --window where n != m",
    )
    group.add_argument(
        "--mask",
        type=argument_types.path,
        metavar="FILE",
        help="(n, m) .npy or CSV, 1: the key is visible to the query",
    )


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
    add_labels(group)
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
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"integers between commas are needed: {text!r:.60}") from None


def run(args: argparse.Namespace) -> int:
    """Print the three steps, and draw the weights with --png."""
    if args.force and args.html is None:
        raise ValueError("--force goes with --html")
    if args.html is not None:
        check_new(args.html, force=args.force, hint="--force")
    if args.png is not None:
        check_picture(args.png)
    generator = _generator(args)
    arrays, inputs, title = _words_input(args, generator) if not args.files else _files_input(args)
    check_size(*arrays)
    score = _score(args, generator, arrays)
    visible = _mask(args, arrays[0].shape[-2], arrays[1].shape[-2])
    batch = _attend(args, arrays, score, visible)
    attention, arrays, slice_line = _slice(batch, arrays, args.at or ())
    n, m = attention.weights.shape
    if args.row > n > 0:
        raise ValueError(f"--row must be one of the {n} queries, counted from 1: {args.row}")
    names = _labels(args, n, m)
    explanation = Explanation(
        attention,
        *arrays,
        formula=Formula(score, visible, args.scale, args.softcap, normalize=args.normalize),
        page=TextFormat(*names, digits=args.digits, color=wants_color(sys.stdout)),
        chosen=args.row - 1,
        title="\n\n".join(filter(None, [slice_line, title])),
        inputs=inputs,
    )
    if args.png is not None:
        heads = _heads(batch.weights, args.at or ())
        with warned(args.png):
            _draw(args.png, heads, args.at or (), names)
    if args.html is not None:
        explanation.in_browser().save(args.html, force=args.force)
    _print(explanation, args.step)
    return 0


def _print(explanation: Explanation, step: str | int | None) -> None:
    """Print the story, one step of it, or one step after the other: on a terminal, each after Enter."""
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


def _heads(weights: NDArray[Any], at: tuple[int, ...]) -> NDArray[Any]:
    """Return the weights of one head, or of all heads at the indices `at`."""
    heads: NDArray[Any] = weights[tuple(i - 1 for i in at)]
    if heads.size == math.prod(heads.shape[-2:]):
        return heads.reshape(heads.shape[-2:])
    if heads.ndim > 4 or math.prod(heads.shape[:-2]) > MOST_HEADS:
        rule = (
            f"--png draws up to two leading dimensions, of {MOST_HEADS} heads in all; choose some with --at"
        )
        raise ValueError(f"{rule}: they are {heads.shape[:-2]}")
    return heads


def _draw(path: Path, weights: NDArray[Any], at: tuple[int, ...], words: tuple[list[str], list[str]]) -> None:
    """Draw the weights of one head or of several."""
    if weights.ndim == 2:
        return save(path, heatmap(weights, *words))
    names = [",".join(map(str, (*at, *(i + 1 for i in index)))) for index in np.ndindex(weights.shape[:-2])]
    save(path, heatmaps(weights, *words, names=names))


def _words_input(
    args: argparse.Namespace, generator: np.random.RandomState
) -> tuple[Arrays, dict[str, NDArray[Any]], str]:
    """Return queries, keys and values as words times weights, these by name, and where they are from."""
    words = words_of(args)
    texts = {name: getattr(args, name) for name in _WEIGHTS}
    missing = [f"--{name.replace('_', '-')}" for name, text in texts.items() if text is None]
    if 0 < len(missing) < len(texts):
        raise ValueError(f"give all three weights or none: {' and '.join(missing)} missing")
    if missing:
        weights = drawn_weights(generator, words.shape[-1])
        source = f"weights drawn with seed {seed_of(args)}"
    else:
        weights = [parse_matrix(text, name.replace("_", " ")) for name, text in texts.items()]
        source = "the weights given" + _drawn_words(args)
    arrays, inputs = projected(words, *weights)
    return arrays, inputs, f"{counted(words)}, and {source}"


def _files_input(args: argparse.Namespace) -> tuple[Arrays, dict[str, NDArray[Any]], str]:
    """Return queries, keys and values from files, and a note about drawn arrays."""
    check_files_alone(args, ("words", *_WEIGHTS))
    return _check.three(*read_arrays(args.files)), {}, _drawn_words(args).removeprefix("; ")


def _generator(args: argparse.Namespace) -> np.random.RandomState:
    """Return the generator of weights and learned arrays; raise if --seed would draw nothing."""
    if args.seed is not None and not _draws_score(args):
        if args.files:
            raise ValueError("give files or --seed, not both")
        if all(getattr(args, name) is not None for name in _WEIGHTS):
            raise ValueError("give the three weights or a seed that draws them, not both")
    # The legacy generator: its draws are the same in every release, and those of tutorials.
    return np.random.RandomState(seed_of(args))


def _draws_score(args: argparse.Namespace) -> bool:
    return args.score in _LEARNED_SCORES and args.score_arrays is None


def _drawn_words(args: argparse.Namespace) -> str:
    return f"; arrays of the score drawn with seed {seed_of(args)}" if _draws_score(args) else ""


def _attend(
    args: argparse.Namespace, arrays: Arrays, score: ScoreLike, visible: MaskLike | None
) -> Attention:
    return attend(
        *arrays,
        score=score,
        mask=visible,
        scale=args.scale,
        softcap=args.softcap,
        normalize=args.normalize,
    )


def _score(args: argparse.Namespace, generator: np.random.RandomState, arrays: Arrays) -> ScoreLike:
    """Return the score function, with its learned arrays where it has any."""
    if args.score not in _LEARNED_SCORES:
        if args.score_arrays is not None:
            raise ValueError(f"--score {args.score} has no learned arrays: leave --score-arrays out")
        return cast(ScoreLike, args.score)
    learned = _drawn(args.score, generator, *arrays) if args.score_arrays is None else _read_score(args)
    return cast(ScoreLike, getattr(scores, args.score)(**learned))


def _drawn(
    score: str, generator: np.random.RandomState, queries: NDArray[Any], keys: NDArray[Any], _: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Draw the arrays of a learned score; the hidden layer of a perceptron has the size of a query."""
    d, e, m = queries.shape[-1], keys.shape[-1], keys.shape[-2]
    h = max(d, 1)
    shapes: dict[str, tuple[int, ...]] = {
        "general": {"weight": (d, e)},
        "additive": {"query_weight": (d, h), "key_weight": (e, h), "vector": (h,)},
        "concat": {"weight": (d + e, h), "vector": (h,)},
        "location": {"weight": (d, m)},
    }[score]
    # Two digits, so that what is printed is all that there is.
    return {
        name: (generator.normal(size=shape) / max(shape[0], 1) ** 0.5).round(2)
        for name, shape in shapes.items()
    }


def _read_score(args: argparse.Namespace) -> dict[str, NDArray[Any]]:
    """Return the learned arrays of the score from their file."""
    factory = getattr(scores, args.score)
    known = inspect.signature(factory).parameters
    arrays = read_named(args.score_arrays)
    needed = [name for name, parameter in known.items() if parameter.default is parameter.empty]
    names = report(", ".join(arrays))
    rule = ""
    if not set(needed) <= set(arrays):
        rule = f"hold {', '.join(needed)} for --score {args.score}: it holds {f'only {names}' if names else 'nothing'}"
    elif not set(arrays) <= set(known):
        rule = f"hold only {', '.join(known)} for --score {args.score}: it holds {names}"
    if rule:
        raise ValueError(f"{args.score_arrays} must {rule}")
    return arrays


def _mask(args: argparse.Namespace, n: int, m: int) -> Mask | NDArray[Any] | None:
    """Return the intersection of all masks of the command line."""
    if args.align and not (args.causal or args.window):
        raise ValueError("--align goes with --causal or --window")
    if (args.causal or args.window) and args.align is None and n != m:
        which = "--causal" if args.causal else "--window"
        raise ValueError(f"{which} needs --align start or --align end where n != m: {n} and {m}")
    masks: list[Mask] = []
    if args.causal:
        masks.append(mask.causal(args.align))
    if args.window:
        masks.append(mask.window(args.window[0], args.window[1], args.align))
    if args.mask is not None:
        masks.append(Dense(_zeros_and_ones(args.mask)))
    return functools.reduce(operator.and_, masks) if masks else None


def _zeros_and_ones(path: Path) -> NDArray[Any]:
    array = read_array(path)
    if not np.all((array == 0) | (array == 1)):
        raise ValueError(f"{path} must hold 0 and 1 only (1: the key is visible to the query)")
    visible: NDArray[Any] = array != 0
    return visible


def _slice(attention: Attention, arrays: Arrays, at: tuple[int, ...]) -> tuple[Attention, Arrays, str]:
    """Return one slice of the leading dimensions, the first by default, and the line that names it."""
    leading = attention.weights.shape[:-2]
    if at and not leading:
        raise ValueError("--at is for arrays with leading dimensions; these have none")
    if len(at) > len(leading) or not all(1 <= i <= size for i, size in zip(at, leading, strict=False)):
        raise ValueError(f"--at must choose positions in the leading dimensions {leading}, from 1: {at}")
    chosen = at + (1,) * (len(leading) - len(at))
    index = tuple(i - 1 for i in chosen)
    parts = {name: getattr(attention, name)[index] for name in PARTS}
    line = ""
    if leading:
        line = f"leading dimensions {leading}; shown: {','.join(map(str, chosen))} (choose with --at)"
    queries, keys, values = (item_of(array, leading, index) for array in arrays)
    return Attention(**parts), (queries, keys, values), line


def _labels(args: argparse.Namespace, n: int, m: int) -> tuple[list[str], list[str]]:
    """Return labels of queries and keys: those of the options, or numbers from 1."""
    nouns = ("query", "key") if args.files else ("word", "word")
    queries, keys = (names_of(*part) for part in zip(labels_of(args), (n, m), nouns, strict=True))
    return queries, keys

"""The command `regard explain`: scores, weights and context of any input, in numbers and words."""

import argparse
import functools
import inspect
import math
import operator
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from regard import _check, mask, scores, weights
from regard._characters import report
from regard.context import PARTS, Attention, attend
from regard.mask import Dense, Mask
from regard.scores import ScoreLike
from regard.show import argument_types
from regard.show.array_files import parse_matrix, read_array, read_arrays, read_named
from regard.show.explanation import explain, matrices
from regard.show.figures.canvas import check_picture, warned
from regard.show.figures.heatmap import MOST_HEADS, save_heatmap, save_heatmaps
from regard.show.terminal.text import wants_color

__all__ = ["add_arguments", "run"]

_WORDS = "1 0 0; 0 1 0; 1 1 0; 0 0 1"
_SEED = 42
_MOST_WEIGHTS = 1 << 22
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
  regard explain arrays.npz --png weights.png           the weights as a picture, too
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `regard explain` to its parser.

    Parameters
    ----------
    parser
        The command's parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> parser.parse_args(["--seed", "7"]).seed
    7
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    _add_input(parser)
    _add_attention(parser)
    _add_output(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("input: files, or words and weights")
    group.add_argument(
        "files",
        nargs="*",
        type=argument_types.path,
        metavar="FILE",
        help="queries, keys, values: one .npz (arrays queries, keys, values or q, k, v), or three .npy or CSV files; "
        "two: the second is keys and values; one: all three",
    )
    group.add_argument(
        "--words", metavar="ROWS", help=f'word vectors: "1 0; 0 1" or a .npy or CSV file (default "{_WORDS}")'
    )
    group.add_argument(
        "--seed",
        type=argument_types.integer(0, 2**32 - 1),
        metavar="N",
        help="draw the query, key and value weights as NumPy does: random.seed(N), then three times "
        f"randint(3, size=(d, d)) (default {_SEED})",
    )
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
        help=f"{', '.join(_SIMPLE_SCORES)} (default scaled_dot); with --score-arrays "
        f"{', '.join(_LEARNED_SCORES)}",
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
    group.add_argument("--labels", metavar="WORDS", help='names of the queries and keys: "the cat sat"')
    group.add_argument("--query-labels", metavar="WORDS", help="names of the queries alone")
    group.add_argument("--key-labels", metavar="WORDS", help="names of the keys alone")
    group.add_argument(
        "--png",
        type=argument_types.path,
        metavar="FILE",
        help="also draw the weights of all heads as a figure (.png, .svg, .pdf)",
    )


def _indices(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"integers between commas are needed: {text!r:.60}") from None


def run(args: argparse.Namespace) -> int:
    """Print the three steps, and draw the weights with --png.

    Parameters
    ----------
    args
        Parsed arguments.

    Returns
    -------
    int
        0.

    Raises
    ------
    ValueError, TypeError, OSError
        If the input can't be read or is invalid for attention.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> run(parser.parse_args(["--words", "1", "--seed", "2"]))  # doctest: +ELLIPSIS
    1 word, and weights drawn with seed 2
    ...
    0
    """
    if args.png is not None:
        check_picture(args.png)
    arrays, opening = _words_input(args) if not args.files else _files_input(args)
    batch = _attend(args, arrays)
    attention, arrays, slice_line = _slice(batch, arrays, args.at or ())
    n, m = attention.weights.shape
    if opening == "":
        opening = _matrices(arrays, args.digits)
    if n == 0:
        raise ValueError("there is no query to explain: n is 0")
    if args.row > n:
        raise ValueError(f"--row must be one of the {n} queries, counted from 1: {args.row}")
    query_words, key_words = _labels(args, n, m)
    explanation = explain(
        attention,
        *arrays,
        score=args.score,
        normalize=args.normalize,
        scale=args.scale,
        softcap=args.softcap,
        row=args.row - 1,
        query_words=query_words,
        key_words=key_words,
        digits=args.digits,
        color=wants_color(sys.stdout),
    )
    if args.png is not None:
        heads = _heads(batch.weights, args.at or ())
        with warned(args.png):
            _draw(args.png, heads, args.at or (), (query_words, key_words))
    print("\n\n".join(filter(None, [slice_line, opening, explanation])))
    return 0


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
        return save_heatmap(path, weights, *words)
    names = [",".join(map(str, (*at, *(i + 1 for i in index)))) for index in np.ndindex(weights.shape[:-2])]
    save_heatmaps(path, weights, *words, names=names)


def _words_input(args: argparse.Namespace) -> tuple[list[NDArray[Any]], str]:
    """Return queries, keys and values as word vectors times weight matrices, with the text that shows them."""
    try:
        words = parse_matrix(_WORDS if args.words is None else args.words, "words")
    except ValueError as error:
        hint = 'a word is a vector here, as in "1 0; 0 1", and --labels names them'
        raise ValueError(f"{error}; {hint}" if "is not a number" in str(error) else str(error)) from None
    if words.ndim != 2:
        raise ValueError(f"words must be an (n, d) array: they are {words.shape}")
    texts = {name: getattr(args, name) for name in _WEIGHTS}
    missing = [f"--{name.replace('_', '-')}" for name, text in texts.items() if text is None]
    if 0 < len(missing) < len(texts):
        raise ValueError(f"give all three weights or none: {' and '.join(missing)} missing")
    if not missing and args.seed is not None:
        raise ValueError("give the three weights or a seed that draws them, not both")
    if missing:
        seed = _SEED if args.seed is None else args.seed
        # The legacy generator: its draws are the same in every release, and those of tutorials.
        generator = np.random.RandomState(seed)
        weights = [generator.randint(3, size=(words.shape[1],) * 2) for _ in texts]
        title = f"{_count(words)}, and weights drawn with seed {seed}"
    else:
        weights = [parse_matrix(text, name.replace("_", " ")) for name, text in texts.items()]
        title = f"{_count(words)}, and the weights given"
    for name, weight in zip(texts, weights, strict=True):
        if weight.ndim != 2 or weight.shape[0] != words.shape[1]:
            rows = f"must have {words.shape[1]} rows, one for each number of a word"
            raise ValueError(f"{name.replace('_', ' ')} {rows}: it is {weight.shape}")
    compute, _ = _check.dtypes(words, *weights)  # integers would overflow
    arrays = [words.astype(compute) @ weight for weight in weights]
    inputs = [("words", words), *zip(("query weights", "key weights", "value weights"), weights, strict=True)]
    return arrays, "\n\n".join(
        [
            title,
            matrices(inputs, digits=args.digits),
            "queries = words @ query weights, and keys and values likewise",
            _matrices(arrays, args.digits),
        ]
    )


def _count(words: NDArray[Any]) -> str:
    return "1 word" if len(words) == 1 else f"{len(words)} words"


def _matrices(arrays: list[NDArray[Any]], digits: int) -> str:
    return matrices(list(zip(("queries", "keys", "values"), arrays, strict=True)), digits=digits)


def _files_input(args: argparse.Namespace) -> tuple[list[NDArray[Any]], str]:
    """Return queries, keys and values from files."""
    for name in ("words", "seed", *_WEIGHTS):
        if getattr(args, name) is not None:
            raise ValueError(f"give files or --{name.replace('_', '-')}, not both")
    return list(_check.three(*read_arrays(args.files))), ""


def _attend(args: argparse.Namespace, arrays: list[NDArray[Any]]) -> Attention:
    _check_size(arrays)
    return attend(
        *arrays,
        score=_score(args),
        mask=_mask(args, arrays[0].shape[-2], arrays[1].shape[-2]),
        scale=args.scale,
        softcap=args.softcap,
        normalize=args.normalize,
    )


def _check_size(arrays: list[NDArray[Any]]) -> None:
    """Raise for inputs of a few kilobytes whose weights take gigabytes."""
    n, m = arrays[0].shape[-2], arrays[1].shape[-2]
    leading = [max(sizes) for sizes in zip_longest(*(array.shape[-3::-1] for array in arrays), fillvalue=1)]
    if math.prod(leading) * n * m > _MOST_WEIGHTS:
        rule = f"explain computes at most {_MOST_WEIGHTS:,} weights, here {math.prod(leading) * n * m:,}"
        raise ValueError(f"{rule} ({'x'.join(map(str, (*leading[::-1], n, m)))}): give fewer queries or keys")


def _score(args: argparse.Namespace) -> ScoreLike:
    """Return the score function, with its learned arrays where it has any."""
    if args.score_arrays is None:
        if args.score in _LEARNED_SCORES:
            raise ValueError(
                f"--score {args.score} has learned arrays: name their .npz file with --score-arrays"
            )
        return scores.gaussian() if args.score == "gaussian" else cast(ScoreLike, args.score)
    if args.score not in _LEARNED_SCORES:
        raise ValueError(f"--score {args.score} has no learned arrays: leave --score-arrays out")
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
    return cast(ScoreLike, factory(**arrays))


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


def _slice(
    attention: Attention, arrays: list[NDArray[Any]], at: tuple[int, ...]
) -> tuple[Attention, list[NDArray[Any]], str]:
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
    return Attention(**parts), [_part(array, leading, index) for array in arrays], line


def _part(array: NDArray[Any], leading: tuple[int, ...], index: tuple[int, ...]) -> NDArray[Any]:
    """Return the slice of one input; sizes of 1 are broadcast, and a key head serves a group of query heads."""
    own = array.shape[:-2]
    pairs = zip(own, leading[len(leading) - len(own) :], index[len(index) - len(own) :], strict=True)
    part: NDArray[Any] = array[tuple(i * size // full for size, full, i in pairs)]
    return part


def _labels(args: argparse.Namespace, n: int, m: int) -> tuple[list[str], list[str]]:
    """Return labels of queries and keys: those of the options, or numbers from 1."""
    nouns = ("query", "key") if args.files else ("word", "word")
    named = []
    for noun, own, count in zip(nouns, (args.query_labels, args.key_labels), (n, m), strict=True):
        text = args.labels if own is None else own
        names = [f"{noun} {i + 1}" for i in range(count)] if text is None else text.split()
        if len(names) != count:
            labels = "1 label" if len(names) == 1 else f"{len(names)} labels"
            raise ValueError(f"labels must name each {noun}: {labels} for {count}")
        named.append(names)
    return named[0], named[1]

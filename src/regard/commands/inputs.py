"""The input of `regard explain` and `regard show`: words or files of arrays, names, and the options of attention."""

from __future__ import annotations

import argparse
import functools
import inspect
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from regard import _check, mask, scores, weights
from regard._arrays import array_names, is_array_file
from regard._characters import report
from regard.commands import argument_types
from regard.commands.array_files import (
    Table,
    parse_matrix,
    parse_table,
    read_array,
    read_named,
    read_tables,
)
from regard.context import Attention, attend
from regard.mask import Dense, Mask, MaskLike
from regard.scores import Score, ScoreLike
from regard.show.explanation import counted, projected
from regard.show.page.examples import drawn_weights
from regard.show.page.section import labels as names_of
from regard.show.steps import PageText
from regard.show.terminal.text import note

__all__: list[str] = []

Array = NDArray[Any]
Arrays = tuple[Array, Array, Array]

_WORDS = "1 0 0; 0 1 0; 1 1 0; 0 0 1"
_VECTOR = 'a word is a vector here, as in "1 0; 0 1"; regard explain "the cat sat" draws one for each word'
_SEED = 42
_FILES = (".csv", ".tsv", ".txt", ".safetensors")
_SIZE = 4  # numbers of a vector that is drawn for a word
_WEIGHTS = ("query_weight", "key_weight", "value_weight")
_SIMPLE_SCORES = tuple(scores.NAMED)
_LEARNED_SCORES = tuple(
    name
    for name, score in vars(scores).items()
    if isinstance(score, type) and issubclass(score, Score) and score.learned and name not in _SIMPLE_SCORES
)
_NORMALIZE = tuple(weights.NAMED)


class Given(NamedTuple):
    """Queries, keys and values of a command, what they were made of, and the options of their attention."""

    arrays: Arrays
    labels: tuple[list[str] | None, list[str] | None]  # of queries and keys
    words: dict[str, Array]  # the vectors of words and the three weights, if there are any
    features: list[str] | None  # names of the numbers of a word
    origin: str  # of the weights
    title: str
    score: ScoreLike
    mask: MaskLike | None
    scale: float | None
    softcap: float | None
    normalize: str

    @property
    def options(self) -> dict[str, Any]:
        """The options of `attend`."""
        return {name: getattr(self, name) for name in ("score", "mask", "scale", "softcap", "normalize")}

    def attend(self) -> Attention:
        """Return the attention."""
        return attend(*self.arrays, **self.options)

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of queries and keys, numbers from 1 where none are given."""
        noun = ("word", "word") if self.words else ("query", "key")
        counts = self.arrays[0].shape[-2], self.arrays[1].shape[-2]
        queries, keys = (names_of(*part) for part in zip(self.labels, counts, noun, strict=True))
        return queries, keys


def add_input(parser: argparse.ArgumentParser, *, files: str = "") -> None:
    """Add files, words, weights and names to a parser; `files` ends their help."""
    group = parser.add_argument_group("input: files, or words and weights")
    group.add_argument(
        "files",
        nargs="*",
        type=argument_types.path,
        metavar="FILE",
        help="queries, keys, values: one .npz (arrays queries, keys, values or q, k, v), or three: FILE.npy, "
        'FILE.npz:NAME, CSV; two: the second is keys and values; one: all three. Or a sentence, "the cat sat": its '
        f"vectors and weights are drawn by normal(), these divided by sqrt(d), to one digit{files}",
    )
    argument_types.add_encoding(group)
    group.add_argument(
        "--words",
        metavar="ROWS",
        help='word vectors: "1 0; 0 1", with names "river 1 0; bank 0 1", or a .npy or CSV file, whose first line and '
        f'first column may be names (default "{_WORDS}")',
    )
    group.add_argument(
        "--seed",
        type=argument_types.integer(0, 2**32 - 1),
        metavar="N",
        help="draw the query, key and value weights as NumPy does: random.seed(N), then three times "
        f"randint(3, size=(d, d)) (default {_SEED}); then the arrays of a learned score without --score-arrays: "
        "normal() / sqrt(rows), to two digits",
    )
    for name in _WEIGHTS:
        side = name.split("_")[0]
        group.add_argument(f"--{side}-weight", metavar="ROWS", help=f"{side} weights instead of random ones")
    group.add_argument("--labels", metavar="WORDS", help='names of the queries and keys: "the cat sat"')
    group.add_argument("--query-labels", metavar="WORDS", help="names of the queries alone")
    group.add_argument("--key-labels", metavar="WORDS", help="names of the keys alone")


def add_attention(parser: argparse.ArgumentParser) -> None:
    """Add score, scale, softcap, normalisation and mask to a parser."""
    group = parser.add_argument_group("attention")
    group.add_argument(
        "--score",
        choices=_SIMPLE_SCORES + _LEARNED_SCORES,
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
    group.add_argument("--normalize", choices=_NORMALIZE, metavar="NAME", help=names)
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


def given(args: argparse.Namespace) -> Given:
    """Read the input; raise for what does not fit, before anything is computed."""
    generator = _generator(args)
    fields = _files_input(args) if args.files and _sentence(args) is None else _words_input(args, generator)
    n, m = (array.shape[-2] for array in fields["arrays"][:2])
    return Given(
        **fields,
        score=_score(args, generator, fields["arrays"]),
        mask=_mask(args, n, m),
        scale=args.scale,
        softcap=args.softcap,
        normalize=args.normalize or "softmax",
    )


def _words_input(args: argparse.Namespace, generator: np.random.RandomState) -> dict[str, Any]:
    """Return the fields of `Given` for words: queries, keys and values are words times weights."""
    sentence, drawn = _sentence(args) is not None, PageText("pages.origins.seed", seed=str(seed_of(args)))
    table = _table_of(args, generator)
    if args.query_labels is not None or args.key_labels is not None:
        _check.fail("words have the same names as queries and keys: give --labels")
    texts = {name: getattr(args, name) for name in _WEIGHTS}
    missing = [f"--{name.replace('_', '-')}" for name, text in texts.items() if text is None]
    if 0 < len(missing) < len(texts):
        _check.fail(f"give all three weights or none: {' and '.join(missing)} missing")
    if missing:
        weights = (_normal_weights if sentence else drawn_weights)(generator, table.numbers.shape[-1])
        origin, source = drawn, f"{'their vectors' if sentence else ''} and weights {drawn}"
    else:
        weights = [parse_matrix(text, name.replace("_", " ")) for name, text in texts.items()]
        vectors = f"their vectors {drawn}, " if sentence else ""
        origin, source = (
            PageText("pages.origins.given"),
            f"{vectors}and the weights given{_drawn_words(args)}",
        )
    arrays, words = projected(table.numbers, *weights)
    return {
        "arrays": arrays,
        "labels": labels_of(args, (table.rows, table.rows)),
        "words": words,
        "features": table.columns,
        "origin": origin,
        "title": f"{counted(table.numbers)}, {source.strip()}",
    }


def _files_input(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `Given` for files: the arrays, the names of their rows, and a note about drawn arrays."""
    for name in ("words", *_WEIGHTS):
        if getattr(args, name) is not None:
            _check.exclude("FILES", f"--{name.replace('_', '-')}")
    queries, keys, values = tables = read_tables(args.files)
    if queries is values and _like_weights(queries.numbers):
        note(f"the rows of {args.files[0]} sum to 1, as weights do; regard show --weights FILE shows weights")
    return {
        "arrays": _check.three(*(table.numbers for table in tables)),
        "labels": labels_of(args, (queries.rows, keys.rows or values.rows)),
        "words": {},
        "features": None,
        "origin": "",
        "title": _drawn_words(args).removeprefix("; "),
    }


def _like_weights(array: Array) -> bool:
    if array.dtype.kind != "f" or array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        return False
    fractions = (array > 0) & (array < 1)
    return bool(fractions.any() and (array >= 0).all() and np.allclose(array.sum(axis=-1), 1, atol=1e-3))


def _sentence(args: argparse.Namespace) -> list[str] | None:
    """Return the words of a sentence in place of files: several words, none of which looks like a file."""
    words = " ".join(map(str, args.files)).split()
    if len(words) < 2 or any(map(_is_file, args.files)):
        return None
    return words


def _is_file(path: Path) -> bool:
    """Whether an argument names a file of arrays, which may not exist."""
    name = str(path)
    return (
        os.path.exists(path)  # a long sentence is no name of a file, and no error
        or path.suffix.lower() in _FILES
        or is_array_file(path)
        or ("/" in name and " " not in name)
    )


def _table_of(args: argparse.Namespace, generator: np.random.RandomState) -> Table:
    """Return the vectors of the words, those of the tutorial by default."""
    if (words := _sentence(args)) is not None:
        if args.words is not None:
            _check.exclude("a sentence", "--words")
        distinct = list(dict.fromkeys(words))
        drawn = generator.normal(size=(len(distinct), _SIZE)).round(1)  # the same word has the same vector
        return Table(drawn[[distinct.index(word) for word in words]], words)
    try:
        return parse_table(_WORDS if args.words is None else args.words, "words")
    except ValueError as error:
        known = "is not a number" in str(error) or "no numbers" in str(error)
        _check.fail(str(error), hint=_VECTOR if known else "")


def seed_of(args: argparse.Namespace) -> int:
    """Return the seed of what is drawn."""
    return _SEED if args.seed is None else int(args.seed)


def _normal_weights(generator: np.random.RandomState, size: int) -> list[Array]:
    """Draw weights for vectors of variance 1, whose queries, keys and values have variance 1, too."""
    return [(generator.normal(size=(size, size)) / size**0.5).round(1) for _ in range(3)]


def labels_of(
    args: argparse.Namespace, rows: Sequence[list[str] | None]
) -> tuple[list[str] | None, list[str] | None]:
    """Return the names of queries and of keys: those of the options, or those of the files."""
    texts = (args.labels if text is None else text for text in (args.query_labels, args.key_labels))
    queries, keys = (names if text is None else text.split() for text, names in zip(texts, rows, strict=True))
    return queries, keys


def _generator(args: argparse.Namespace) -> np.random.RandomState:
    """Return the generator of weights and learned arrays; raise if --seed would draw nothing."""
    if args.seed is not None and not _draws_score(args):
        if args.files and _sentence(args) is None:
            _check.exclude("FILES", "--seed")
        if _sentence(args) is None and all(getattr(args, name) is not None for name in _WEIGHTS):
            _check.exclude("all three weights", "--seed")
    # The legacy generator: its draws are the same in every release, and those of tutorials.
    return np.random.RandomState(seed_of(args))


def _draws_score(args: argparse.Namespace) -> bool:
    return args.score in _LEARNED_SCORES and args.score_arrays is None


def _drawn_words(args: argparse.Namespace) -> str:
    return f"; arrays of the score drawn with seed {seed_of(args)}" if _draws_score(args) else ""


def _score(args: argparse.Namespace, generator: np.random.RandomState, arrays: Arrays) -> ScoreLike:
    """Return the score function, with its learned arrays where it has any."""
    score = args.score or "scaled_dot"
    if score not in _LEARNED_SCORES:
        if args.score_arrays is not None:
            _check.fail(f"--score {score} has no learned arrays: leave --score-arrays out")
        return cast(ScoreLike, score)
    learned = _drawn(score, generator, *arrays) if args.score_arrays is None else _read_score(args)
    return cast(ScoreLike, getattr(scores, score)(**learned))


def _drawn(
    score: str, generator: np.random.RandomState, queries: Array, keys: Array, _: Array
) -> dict[str, Array]:
    """Draw the arrays of a learned score; the hidden layer of a perceptron has the size of a query."""
    d = queries.shape[-1]
    sizes = {"d": d, "d'": keys.shape[-1], "h": max(d, 1), "M": keys.shape[-2]}
    kind: type[Score] = getattr(scores, score)
    shapes = {
        name: tuple(sum(sizes[letter] for letter in axis.split(" + ")) for axis in _check.axes(axes))
        for name, axes in kind.learned.items()
        if name in _required(kind)
    }
    # Two digits, so that the printed numbers are exact.
    return {
        name: (generator.normal(size=shape) / max(shape[0], 1) ** 0.5).round(2)
        for name, shape in shapes.items()
    }


def _required(factory: Any) -> list[str]:
    """Return the names of the arguments without a default."""
    parameters = inspect.signature(factory).parameters.items()
    return [name for name, parameter in parameters if parameter.default is parameter.empty]


def _read_score(args: argparse.Namespace) -> dict[str, Array]:
    """Return the learned arrays of the score from their file."""
    factory = getattr(scores, args.score)
    known = inspect.signature(factory).parameters
    held, needed = array_names(args.score_arrays), _required(factory)
    names = report(", ".join(held))
    rule = ""
    if not set(needed) <= set(held):
        rule = f"hold {', '.join(needed)} for --score {args.score}: it holds {f'only {names}' if names else 'nothing'}"
    elif not set(held) <= set(known):
        rule = f"hold only {', '.join(known)} for --score {args.score}: it holds {names}"
    if rule:
        _check.fail(f"{args.score_arrays} must {rule}")
    return read_named(args.score_arrays, held)


def _mask(args: argparse.Namespace, n: int, m: int) -> Mask | None:
    """Return the intersection of all masks of the command line."""
    if args.align and not (args.causal or args.window):
        _check.fail("--align needs --causal or --window")
    if (args.causal or args.window) and args.align is None and n != m:
        which = "--causal" if args.causal else "--window"
        _check.fail(f"{which} needs --align start or --align end where n != m: {n} and {m}")
    masks: list[Mask] = []
    if args.causal:
        masks.append(mask.causal(args.align))
    if args.window:
        masks.append(mask.window(args.window[0], args.window[1], args.align))
    if args.mask is not None:
        masks.append(Dense(_zeros_and_ones(args.mask)))
    return functools.reduce(operator.and_, masks) if masks else None


def _zeros_and_ones(path: Path) -> Array:
    array = read_array(path)
    if not np.all((array == 0) | (array == 1)):
        _check.fail(f"{path} must hold 0 and 1 only (1: the key is visible to the query)")
    visible: Array = array != 0
    return visible

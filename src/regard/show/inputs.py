"""The input of `regard explain` and `regard show`: files of arrays, or words and a seed, and names of both sides."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.show import argument_types
from regard.show.array_files import parse_matrix, read_arrays
from regard.show.terminal.text import note

__all__: list[str] = []

_WORDS = "1 0 0; 0 1 0; 1 1 0; 0 0 1"
_SEED = 42


def add_input(group: Any, *, files: str = "", seed: str = "") -> None:
    """Add files, --words and --seed to a parser or group; `files` and `seed` end their help."""
    group.add_argument(
        "files",
        nargs="*",
        type=argument_types.path,
        metavar="FILE",
        help="queries, keys, values: one .npz (arrays queries, keys, values or q, k, v), or three .npy or CSV files; "
        f"two: the second is keys and values; one: all three{files}",
    )
    group.add_argument(
        "--words",
        metavar="ROWS",
        help=f'word vectors: "1 0; 0 1" or a .npy or CSV file (default "{_WORDS}")',
    )
    group.add_argument(
        "--seed",
        type=argument_types.integer(0, 2**32 - 1),
        metavar="N",
        help="draw the query, key and value weights as NumPy does: random.seed(N), then three times "
        f"randint(3, size=(d, d)) (default {_SEED}){seed}",
    )


def add_labels(group: Any) -> None:
    """Add the options for the names of queries and keys."""
    group.add_argument("--labels", metavar="WORDS", help='names of the queries and keys: "the cat sat"')
    group.add_argument("--query-labels", metavar="WORDS", help="names of the queries alone")
    group.add_argument("--key-labels", metavar="WORDS", help="names of the keys alone")


def words_of(args: argparse.Namespace) -> NDArray[Any]:
    """Return the vectors of the words, those of the tutorial by default."""
    try:
        return parse_matrix(_WORDS if args.words is None else args.words, "words")
    except ValueError as error:
        hint = 'a word is a vector here, as in "1 0; 0 1", and --labels names them'
        raise ValueError(f"{error}; {hint}" if "is not a number" in str(error) else str(error)) from None


def seed_of(args: argparse.Namespace) -> int:
    """Return the seed of the weights."""
    return _SEED if args.seed is None else int(args.seed)


def drawn_weights(generator: np.random.RandomState, size: int) -> list[NDArray[Any]]:
    """Draw the query, key and value weights as tutorials do, for words of this size."""
    return [generator.randint(3, size=(size, size)) for _ in range(3)]


def check_files_alone(args: argparse.Namespace, names: tuple[str, ...]) -> None:
    """Raise for an option that makes queries, keys and values where files have them."""
    for name in names:
        if getattr(args, name) is not None:
            raise ValueError(f"give files or --{name.replace('_', '-')}, not both")


def read_inputs(paths: Sequence[Path]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return queries, keys and values from files; a note says where one file rather has weights."""
    arrays = read_arrays(paths)
    if len(paths) == 1 and arrays[0] is arrays[1] and _are_weights(arrays[0]):
        rows = f"{paths[0]} is square, and its rows sum to 1"
        note(f"note: {rows}: it is taken for queries, keys and values; regard show --weights shows weights")
    return arrays


def _are_weights(array: NDArray[Any]) -> bool:
    square = array.ndim >= 2 and array.shape[-1] == array.shape[-2] > 1
    shares = (array >= 0).all() and not np.isin(array, (0, 1)).all()  # words are often one-hot
    return bool(square and shares and np.allclose(array.sum(axis=-1), 1, atol=1e-3))


def labels_of(args: argparse.Namespace) -> tuple[list[str] | None, list[str] | None]:
    """Return the names of the queries and of the keys that are given."""
    texts = (args.labels if own is None else own for own in (args.query_labels, args.key_labels))
    queries, keys = (None if text is None else text.split() for text in texts)
    return queries, keys

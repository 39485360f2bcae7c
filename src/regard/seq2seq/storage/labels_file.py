"""The labels of teachers: their answers and the distributions of tokens, in a file of `regard._safetensors`.

::

    answers             U8   the ids of the target's tokens of each answer, END after each (as in `packing`)
    sources             U8   for each answer the number of its source, counted from 0, in four bytes
    tokens              U8   (N, K) ids, as wide as those of `answers`
    log_probabilities   F32  (N, K)

The N rows are the positions, END included, of the given pairs and then of the answers. The metadata: format
"regard.labels", version "1", and ``identity``: a hash of the teachers, the pairs, the sources and the options.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard._safetensors import Container, Wrong, opened, write
from regard.seq2seq.corpus.batching import SoftTargets
from regard.seq2seq.corpus.packing import Row, numbers, packed, unpacked, width

__all__ = ["Answers", "read_answers", "write_answers"]

FORMAT, VERSION = "regard.labels", "1"


class Answers(NamedTuple):
    """The answers of teachers, and the distributions of the tokens of given pairs and of these answers.

    `targets`: the ids of each answer, without START and END; `sources` (A,): the number of the source of each;
    `soft` (N, K): a row for each token and END, those of the given pairs first.
    """

    targets: Sequence[Row]
    sources: Sequence[int]
    soft: SoftTargets


def write_answers(path: str | os.PathLike[str], answers: Answers, size: int, identity: str) -> None:
    """Write labels atomically; `size` is that of the target's vocabulary."""
    tokens, logs = answers.soft
    arrays = {
        "answers": np.frombuffer(packed(answers.targets, size), np.uint8),
        "sources": np.array(answers.sources, "<u4").view(np.uint8),
        "tokens": tokens.astype(width(size)).reshape(-1).view(np.uint8),
        "log_probabilities": logs,
    }
    write(path, arrays, {"format": FORMAT, "version": VERSION, "identity": identity})


def read_answers(path: str | os.PathLike[str], sizes: tuple[int, int, int], identity: str) -> Answers | None:
    """Read labels, which may be untrusted; return None if they are those of another identity.

    `sizes`: of the target's vocabulary, the rows of the given pairs, and the number of sources.
    """
    with opened(path, "file of labels") as file:
        file.expect_format(FORMAT, VERSION)
        return _read(file, *sizes) if file.metadata.get("identity") == identity else None


def _read(file: Container, size: int, given: int, asked: int) -> Answers:
    if file.tensors.keys() != {"answers", "sources", "tokens", "log_probabilities"}:
        raise Wrong("it must have answers, sources, tokens and log_probabilities")
    try:
        data = file.bytes("answers")
        targets: Sequence[Row] = unpacked("answers", data, size) if data else []
        tokens = numbers("tokens", file.bytes("tokens"), size)
    except ValueError as error:
        raise Wrong(str(error)) from None
    rows, shape = given + sum(len(row) + 1 for row in targets), file.tensors["log_probabilities"].shape
    if len(shape) != 2 or shape[0] != rows or tokens.size != shape[0] * shape[1] or not shape[1]:
        raise Wrong(f"its distributions must have {rows} rows. They have shape {shape} instead.")
    if tokens.size and tokens.max() >= size:
        raise Wrong(f"tokens must be less than {size}. One is {tokens.max()} instead.")
    sources = file.bytes("sources")
    if len(sources) != 4 * len(targets):
        raise Wrong(f"it must have a source for each of {len(targets)} answers")
    numbers_of = np.frombuffer(sources, "<u4")
    if len(numbers_of) and numbers_of.max() >= asked:
        raise Wrong(f"the number of a source must be less than {asked}. One is {numbers_of.max()} instead.")
    file.expect("F32", {"log_probabilities": shape})
    soft = SoftTargets(tokens.reshape(shape).astype(np.int32), file.array("log_probabilities"))
    return Answers(targets, numbers_of.tolist(), soft)

"""Beam search with a fused recurrent decoder, many steps in one call of the library (`training/search.cpp`).

`seq2seq/decoding/beam.py` has the same search for every network, step by step; `recurrence.native_does` returns whether
the library can compute it. It runs on the calling thread. Letters: S sentences, T source positions, R hypotheses that
continue, H size of the state, E of embeddings and readout.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._threads import stop_if_requested
from regard.kernels import library, recurrence, training

__all__: list[str] = []

Array = NDArray[Any]
Counts = NDArray[np.int64]

_MOST_STEPS = 16  # in a call, at most
_CALL_WORK = (
    1 << 32
)  # multiplications of a call, unless one step has more: Ctrl-C waits for the end of a call
_MOST_ROWS = 1 << 32  # more never fit into memory


_ENDING = np.dtype(
    {"names": ["score", "log", "step", "row", "word"], "formats": ["f8", "f8", "i8", "i8", "i8"]}
)  # `struct Ending`


class CSearch(ctypes.Structure):
    """`struct Search`."""

    _fields_ = [
        ("decoder", recurrence.CRecurrence),
        *((name, library.Int) for name in ("words", "size", "begin", "end")),
        *((name, library.Pointer) for name in ("embedding", "word_weight", "word_bias", "readout_weight")),
        *((name, library.Pointer) for name in ("output_weight", "output_bias")),
        *((name, library.Int) for name in ("width", "n_best")),
        *((name, library.Pointer) for name in ("max_length", "workspace")),
        *((name, library.Int) for name in ("step", "rows", "capacity", "steps_taken")),
        *(
            (name, library.Pointer)
            for name in ("rows_per_step", "tokens", "parents", "log_probabilities", "attention_weights")
        ),
        *((name, library.Pointer) for name in ("finished_count", "finished")),
        *((name, ctypes.c_double) for name in ("penalty", "offset", "invalid_value")),
    ]


class NotFinite(ArithmeticError):
    """The decoder predicts NaN or infinity: the first argument."""


@dataclass(frozen=True)
class Decoder:
    """The embeddings and the output layer of a decoder, in float32.

    `embedding` (V, E); `input_weight` (E, 3 H + E) and `input_bias` (3 H + E,): from an embedding to gates and readout;
    `readout_weight` (H, E); `output`: the output matrix.
    """

    embedding: Array
    input_weight: Array
    input_bias: Array
    readout_weight: Array
    output: training.PackedWeights


@dataclass(frozen=True)
class BeamOptions:
    """Options of a search: the `n_best` of `width` hypotheses, from the token `begin` to the token `end`.

    `most` (S,): the most tokens of a sentence; `penalty` and `offset`: for ranking, the log-probability of
    n tokens is divided by ``((offset + n) / (offset + 1)) ** penalty``.
    """

    begin: int
    end: int
    width: int
    n_best: int
    most: Counts
    penalty: float
    offset: float


class SearchStep(NamedTuple):
    """The R hypotheses before one step of a search, row by row.

    `tokens` (R,): the last token of each; START before the first step; `parents` (R,): the row of each in the step
    before; `log_probabilities` (R,): the log-probability of each last token; `weights` (R, T) or (R, 0): the
    attention weights of the step.
    """

    tokens: Counts
    parents: Counts
    log_probabilities: Array
    weights: Array


class Ending(NamedTuple):
    """The end of a hypothesis.

    `score`: the score that ranks it, if it is known; `step`, `row`: the last step that has it, counted from 0, and
    its row there; `token`: the token after that step: END, or another one if the hypothesis was cut off; None if no
    token was possible; `log_probability`: the log-probability of that token.
    """

    score: float | None
    step: int
    row: int
    token: int | None
    log_probability: float


class SearchResult(NamedTuple):
    """The steps of a search, and the endings of each sentence, the best first."""

    steps: list[SearchStep]
    endings: list[list[Ending]]


_loaded = library.checked({"Search": CSearch, "Ending": _ENDING})


def _library() -> ctypes.CDLL:
    loaded = _loaded()
    assert loaded is not None
    return loaded


def beam(
    fused: recurrence.FusedDecoder, start: Array, decoder: Decoder, options: BeamOptions
) -> SearchResult:
    """Search from the states (S, H) of S sentences until nothing better can come.

    Raises `NotFinite`, IndexError if `begin` is not a token, and MemoryError.
    """
    if not (sentences := len(start)):
        return SearchResult([], [])
    if not 0 <= options.begin < len(decoder.embedding):
        raise IndexError(
            f"a search begins with token {options.begin}, and there are {len(decoder.embedding)}"
        )
    if sentences * options.width > _MOST_ROWS:
        raise MemoryError(f"no memory for {options.width} hypotheses of {sentences} sentences")
    endings, ended = np.zeros((sentences, options.n_best), _ENDING), np.zeros(sentences, np.int64)
    float_arrays = {
        "embedding": decoder.embedding,
        "word_weight": decoder.input_weight,
        "word_bias": decoder.input_bias,
        "readout_weight": decoder.readout_weight,
        "output_weight": decoder.output.weight,
        "output_bias": decoder.output.bias,
        "start": start,
    }
    arrays: dict[str, Array] = {
        name: np.require(x, np.float32, ["C", "A"]) for name, x in float_arrays.items()
    }
    arrays |= {
        "max_length": np.require(options.most, np.int64, ["C", "A"]),
        "finished_count": ended,
        "finished": endings,
    }
    c = CSearch(recurrence.CRecurrence.from_buffer_copy(fused.call.c))
    for name, x in arrays.items():
        setattr(c.decoder if name == "start" else c, name, library.address(x))
    c.words, c.size = decoder.embedding.shape
    for name in ("begin", "end", "width", "n_best", "penalty", "offset"):
        setattr(c, name, getattr(options, name))
    workspace = library.workspace(_library().regard_search_bytes(ctypes.byref(c)))
    c.workspace = library.address(workspace)
    steps = [step for part in _parts(c, sentences * options.width) for step in part]
    return SearchResult(steps, _endings(endings, ended))


def _parts(c: CSearch, most_rows: int) -> Iterator[list[SearchStep]]:
    """Call the library until the search ends, and yield the steps of each call."""
    steps = min(_MOST_STEPS, max(1, _CALL_WORK // (most_rows * c.words * c.size)))
    capacity = c.capacity = most_rows * steps
    while True:
        stop_if_requested()
        counts, tokens, parents = (np.empty(capacity, np.int64) for _ in range(3))
        logs, weights = np.empty(capacity), np.empty((capacity, c.decoder.positions), np.float32)
        c.rows_per_step, c.tokens, c.parents, c.log_probabilities, c.attention_weights = map(
            library.address, (counts, tokens, parents, logs, weights)
        )
        if status := _library().regard_search(ctypes.byref(c)):
            raise MemoryError if status == 1 else NotFinite(c.invalid_value)
        ends = np.cumsum(counts[: c.steps_taken])
        yield [
            SearchStep(tokens[start:end], parents[start:end], logs[start:end], weights[start:end])
            for start, end in zip((ends - counts[: c.steps_taken]).tolist(), ends.tolist(), strict=True)
        ]
        if not c.rows:
            return


def _endings(endings: Array, ended: Counts) -> list[list[Ending]]:
    return [
        [
            Ending(None if score != score else score, step, row, None if token < 0 else token, log)
            for score, log, step, row, token in of_sentence[:count]
        ]
        for of_sentence, count in zip(endings.tolist(), ended.tolist(), strict=True)
    ]

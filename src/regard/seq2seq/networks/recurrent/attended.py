"""The attention of a recurrent decoder at each step of a translation: states, their projection, annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.corpus.batching import source_batch
from regard.seq2seq.networks.attended import DecoderAttention, Predicted
from regard.seq2seq.networks.normalizing import normalizer
from regard.seq2seq.networks.recurrent.attention import Encoded, Place, centres, options
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.encoder import encode
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.recurrent.ops import Forward
from regard.seq2seq.networks.recurrent.step import top
from regard.seq2seq.networks.recurrent.stepper import RecurrentStepper
from regard.weights import NormalizeLike, local_m, local_p

__all__ = ["decoder_steps"]

Array = NDArray[Any]


class _Kept(NamedTuple):
    """What the steps are recorded into: the states that attend, and the centres of their windows with local_p."""

    states: list[Array]
    centres: list[Array]


class _Recording(Forward):
    """The operations of a step, which keep the states that attend."""

    def __init__(
        self, p: Mapping[str, Array], c: RecurrentConfig, source: Encoded, number: int, kept: _Kept
    ) -> None:
        super().__init__(p, c, source, number)
        self.kept = kept

    def linear(
        self,
        *terms: tuple[Array, str],
        bias: str | None = None,
        added: Array | None = None,
        squash: bool = False,
    ) -> Array:
        if terms[0][1] == "query_weight":
            self.kept.states.append(terms[0][0][0, 0])
        return super().linear(*terms, bias=bias, added=added, squash=squash)

    def attend(self, query: Array, predicted: Array | None = None) -> tuple[Array, Array]:
        if not self.c.projects_queries:
            self.kept.states.append(query[0, 0])
        if predicted is not None:
            self.kept.centres.append(centres(self.source, predicted)[0, 0])
        return super().attend(query, predicted)


class _RecordingStepper(RecurrentStepper):
    """The steps of one hypothesis: their states that attend, their states after the step, and their readouts."""

    def __init__(self, p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded) -> None:
        super().__init__(p, c, encoded)
        self.kept = _Kept([], [])
        self.after: list[Array] = []
        self.readouts: list[Array] = []

    def _operations(self) -> Forward:
        return _Recording(self.p, self.c, self.encoded, self.taken, self.kept)

    def _read_out(self, tokens: NDArray[np.int64]) -> tuple[Array, Array]:
        readout, weights = super()._read_out(tokens)
        self.after.append(top(self.c, self.memory)[0, 0])
        self.readouts.append(readout[0, 0])
        return readout, weights


def decoder_steps(
    network: RecurrentNetwork,
    source: Sequence[int] | Array,
    before: Sequence[int],
    source_tokens: tuple[str, ...],
    target_tokens: tuple[str, ...],
    predicted: Predicted,
) -> DecoderAttention:
    """Take the decoder steps of a translation.

    `source` (m, F): the m ids of the source, END included; or its vectors or cells; `before`: the n ids that the
    decoder reads, from START on; the m and n tokens are kept as names, `predicted` as it is.
    """
    p, c = network.parameters, network.config
    encoded, _ = encode(p, c, *source_batch([source]), keep=False)
    stepper = _RecordingStepper(p, c, encoded)
    for token in before:
        stepper(np.array([[token]]))
    chosen = options(p, replace(c, normalize="softmax"), encoded, Place(0))
    return DecoderAttention(
        source_tokens,
        target_tokens,
        states=np.stack(stepper.kept.states),
        query_weight=p["query_weight"] if c.projects_queries else None,
        keys=encoded.keys[0],
        values=encoded.values[0],
        score=chosen["score"],
        mask=chosen["mask"],
        normalize=_normalizer(c, stepper.kept),
        style=c.style,
        annotations=encoded.values[0],
        key_weight=p["key_weight"] if c.projects_keys else None,
        after=np.stack(stepper.after),
        readouts=np.stack(stepper.readouts),
        predicted=predicted,
    )


def _normalizer(c: RecurrentConfig, kept: _Kept) -> NormalizeLike:
    """Return the normalisation of all steps, query i of which is step i."""
    if c.normalize == "local_m":
        return local_m(c.window)
    return local_p(np.stack(kept.centres), c.window) if c.predicts else normalizer(c)

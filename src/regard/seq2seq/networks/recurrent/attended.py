"""The attention of a recurrent decoder at each step of a translation: states, their projection, annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._display import Displayed
from regard.context import Attention, attend
from regard.scores import ScoreLike
from regard.seq2seq.corpus.batching import source_batch
from regard.seq2seq.networks.recurrent.attention import Encoded, score
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.encoder import encode
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.recurrent.ops import Forward
from regard.seq2seq.networks.recurrent.stepper import RecurrentStepper

__all__ = ["DecoderAttention", "decoder_steps"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class DecoderAttention(Displayed):
    """The attention of each of n decoder steps to m source tokens, from the states to the contexts.

    `source_tokens`, `target_tokens`: without markers of spacing, the source's with </s> and retrieved ones; `states`
    (n, D): the state that attends at each step; `query_weight` (D, A) or None: makes queries of states, which else are
    the queries; `keys` (m, A): projected once for all steps; `values` (m, C): the annotations; `score`: of queries and
    keys.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    states: Array
    query_weight: Array | None
    keys: Array
    values: Array
    score: ScoreLike

    view = "steps"

    @property
    def queries(self) -> Array:
        """The queries (n, A)."""
        return self.states if self.query_weight is None else self.states @ self.query_weight

    def attend(self) -> Attention:
        """Return the attention of all steps; its weights (n, m) are the translation's alignment."""
        return attend(self.queries, self.keys, self.values, score=self.score)


class _Recording(Forward):
    """The operations of a step, which keep the states that attend."""

    def __init__(
        self, p: Mapping[str, Array], c: RecurrentConfig, source: Encoded, states: list[Array]
    ) -> None:
        super().__init__(p, c, source)
        self.states = states

    def linear(
        self,
        *terms: tuple[Array, str],
        bias: str | None = None,
        added: Array | None = None,
        squash: bool = False,
    ) -> Array:
        if terms[0][1] == "query_weight":
            self.states.append(terms[0][0][0, 0])
        return super().linear(*terms, bias=bias, added=added, squash=squash)

    def attend(self, query: Array) -> tuple[Array, Array]:
        if not self.c.projects_queries:
            self.states.append(query[0, 0])
        return super().attend(query)


class _RecordingStepper(RecurrentStepper):
    """The steps of one hypothesis, and their states that attend."""

    def __init__(self, p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded) -> None:
        super().__init__(p, c, encoded)
        self.states: list[Array] = []

    def _operations(self) -> Forward:
        return _Recording(self.p, self.c, self.encoded, self.states)


def decoder_steps(
    network: RecurrentNetwork,
    source: Sequence[int] | Array,
    before: Sequence[int],
    source_tokens: tuple[str, ...],
    target_tokens: tuple[str, ...],
) -> DecoderAttention:
    """Take the decoder steps of a translation.

    `source` (m, F): the m ids of the source, END included; or its vectors or cells; `before`: the n ids that the
    decoder reads, from START on; the m and n tokens are kept as names.
    """
    p, c = network.parameters, network.config
    encoded, _ = encode(p, c, *source_batch([source]), keep=False)
    stepper = _RecordingStepper(p, c, encoded)
    for token in before:
        stepper(np.array([[token]]))
    return DecoderAttention(
        source_tokens,
        target_tokens,
        states=np.stack(stepper.states),
        query_weight=p["query_weight"] if c.projects_queries else None,
        keys=encoded.keys[0],
        values=encoded.values[0],
        score=score(p, c),
    )

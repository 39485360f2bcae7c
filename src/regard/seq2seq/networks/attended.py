"""The attention of a decoder at each step of a translation, opened: what attends, to what, and what is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from regard._display import Displayed
from regard.context import Attention, attend
from regard.mask import Mask
from regard.scores import ScoreLike
from regard.weights import NormalizeLike

__all__ = ["DecoderAttention"]

Array = NDArray[Any]
Predicted = tuple[tuple[tuple[str, float], ...], ...]


@dataclass(frozen=True, eq=False)
class DecoderAttention(Displayed):
    """One attention of a decoder at each of n steps, to m tokens, from the states to the contexts and the next words.

    Of a recurrent network, its only attention; of a transformer, one head of a layer.

    `source_tokens`, `target_tokens`: without markers of spacing, the source's with </s> and retrieved ones; of a
    transformer's self-attention, those that the decoder read; `states` (n, D): what attends at each step: the state
    that `style` says, or a transformer's vectors after normalisation; `query_weight` (D, A) or None: makes queries of
    states, which else are the queries; `keys` (m, A): projected once for all steps; `values` (m, e): the annotations,
    or what `value_weight` makes of them; `score`: of queries and keys; `normalize`: step 2, query i of which is step i.

    `style`: that of a recurrent decoder, which says when it attends, or "transformer"; `annotations` (m, C): what keys
    and values are made of; `key_weight` (C, A), `value_weight` (C, e): the matrices that make them, None where keys or
    values are the annotations; `mask`: which tokens a step sees; `after` (n, D) or None: the state of a recurrent
    decoder after each step; `readouts` (n, E) or None: what each next token is predicted from; `predicted`: of each
    step the most probable tokens with their probabilities, the most probable first.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    states: Array
    query_weight: Array | None
    keys: Array
    values: Array
    score: ScoreLike
    style: str = ""
    annotations: Array | None = None
    key_weight: Array | None = None
    value_weight: Array | None = None
    mask: Mask | None = None
    after: Array | None = None
    readouts: Array | None = None
    predicted: Predicted = ()
    normalize: NormalizeLike = "softmax"

    view = "steps"

    @property
    def queries(self) -> Array:
        """The queries (n, A)."""
        return self.states if self.query_weight is None else self.states @ self.query_weight

    def attend(self) -> Attention:
        """Return the attention of all steps; of a recurrent network, its weights are the translation's alignment."""
        options: dict[str, Any] = {"score": self.score, "mask": self.mask, "normalize": self.normalize}
        return attend(self.queries, self.keys, self.values, **options)

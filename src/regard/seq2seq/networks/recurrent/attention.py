"""Attention of a decoder state over the annotations of the source: the score functions by name, one step, one pass.

Letters: T source positions, B sentences, k hypotheses, D decoder state, C annotation, A attention size. For a decoder
state s and an annotation h::

    additive      v . tanh(s Wq + h Wk)        Bahdanau, Cho and Bengio 2014, A.1.2
    general       (s Wq) . h                   Luong, Pham and Manning 2015, 3.1
    dot           s . h                        the same; D must be C
    scaled_dot    (s Wq) . (h Wk) / sqrt(A)    Vaswani et al. 2017, eq. 1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import scores
from regard.context import attend
from regard.mask import lengths as length_mask
from regard.seq2seq.networks.recurrent.config import RecurrentConfig

__all__ = ["Encoded", "attend_once", "score"]

Array = NDArray[Any]


class Encoded(NamedTuple):
    """The encoder's output for a batch; its gradients have the same form.

    `start` (B, S): the decoder's first states, all layers side by side; `keys` (B, T, A): the annotations, projected
    once for all decoder steps; `values` (B, T, C): the annotations; `final` (B, C): the last states of both
    directions, which a decoder without attention reads; `lengths` (B,): tokens of each source; positions from there
    on are padding and never visible.
    """

    start: Array
    keys: Array
    values: Array
    final: Array
    lengths: NDArray[np.int64]

    def keep(self, sentences: NDArray[np.int64]) -> Encoded:
        """Return the parts of these sentences."""
        return Encoded(*(part[sentences] for part in self))

    def mask(self) -> Any:
        """Return the mask that hides the padding, or None without padding."""
        full = (self.lengths == self.values.shape[1]).all()
        return None if full else length_mask(self.lengths)


def score(p: Mapping[str, Array], c: RecurrentConfig) -> Any:
    """Return the score of projected queries and keys."""
    if c.score == "additive":
        return scores.additive(None, None, p["attention_vector"])
    return scores.scaled_dot() if c.score == "scaled_dot" else scores.dot()


def attend_once(
    p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded, queries: Array
) -> tuple[Array, Array]:
    """Attend to the source, without gradients.

    `encoded`: the sources; `queries` (B, k, A): the projected states of k hypotheses of each sentence, which are k
    queries to the same keys; the states (B, k, D) themselves if the score does not project them, or without
    attention. Returns `contexts` (B, k, C): the weighted sums of annotations; the encoder's last states without
    attention; `weights` (B, k, T): the attention weights; (B, k, 0) without attention.
    """
    if not c.attends:
        final = encoded.final[:, None]
        return np.broadcast_to(final, (*queries.shape[:2], final.shape[-1])), np.zeros(
            (*queries.shape[:2], 0)
        )
    attention = attend(queries, encoded.keys, encoded.values, score=score(p, c), mask=encoded.mask())
    return attention.context, attention.weights

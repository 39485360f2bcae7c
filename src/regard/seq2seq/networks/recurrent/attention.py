"""Attention of a decoder state over the annotations of the source: the score functions by name, one step, one pass.

Letters: T source positions, B sentences, k hypotheses, D decoder state, C annotation, A attention size. For a decoder
state s and an annotation h::

    additive      v . tanh(s Wq + h Wk)        Bahdanau, Cho and Bengio 2014, A.1.2
    general       (s Wq) . h                   Luong, Pham and Manning 2015, 3.1
    dot           s . h                        the same; D must be C
    scaled_dot    (s Wq) . (h Wk) / sqrt(A)    Vaswani et al. 2017, eq. 1
    concat        v . tanh([s; h] W)           Luong 2015: additive, with Wq above Wk as W
    cosine        sharpness * cos(s Wq, h Wk)  Graves, Wayne and Danihelka 2014, eq. 5 and 6
    gaussian      -|s Wq - h Wk|^2 / (2 sqrt(A))
    location      (s W)_j                      Luong 2015, 3.1: by the position j of h alone
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import scores
from regard.context import attend
from regard.mask import as_mask
from regard.mask import lengths as length_mask
from regard.scores import Score
from regard.seq2seq.networks.normalizing import normalizer
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.weights import NormalizeLike, local_p

__all__ = ["LEARNED", "Encoded", "Place", "attend_once", "centres", "options", "score"]

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


LEARNED = {  # arrays of scores, and the parameters that they are
    "vector": "attention_vector",
    "sharpness": "attention_sharpness",
    "weight": "location_weight",
}


def score(p: Mapping[str, Array], c: RecurrentConfig, m: int) -> Score:
    """Return the score of projected queries and keys, of m source positions."""
    if c.perceptron:
        return scores.additive(None, None, p["attention_vector"])
    if c.score == "cosine":
        return scores.cosine(p["attention_sharpness"])
    if c.score == "gaussian":  # as scaled_dot, less half the squared lengths
        return scores.gaussian(c.attention**0.25)
    if c.score == "location":
        return scores.location(np.pad(p["location_weight"], ((0, 0), (0, max(m - c.positions, 0)))))
    return scores.scaled_dot() if c.score == "scaled_dot" else scores.dot()


class Place(NamedTuple):
    """Where steps attend: the number of the first, and what predicts the centre of each (B, k, 1), with local_p."""

    step: int
    predicted: Array | None = None


def options(p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded, place: Place) -> dict[str, Any]:
    """Return the options of an attention: score, normalisation, and the mask of padding and of what is too far."""
    m = encoded.values.shape[1]
    masks = [mask for mask in [encoded.mask()] if mask is not None]
    if c.score == "location" and m > c.positions:
        masks.append(as_mask(np.arange(m) < c.positions))
    if c.normalize == "local_m":
        masks.append(as_mask(np.abs(np.arange(m) - place.step) <= c.window))
    return {
        "score": score(p, c, m),
        "mask": reduce(and_, masks) if masks else None,
        "normalize": _normalizer(c, encoded, place),
    }


def _normalizer(c: RecurrentConfig, encoded: Encoded, place: Place) -> NormalizeLike:
    if c.normalize == "local_m":
        return "softmax"
    return normalizer(c) if place.predicted is None else local_p(centres(encoded, place.predicted), c.window)


def centres(encoded: Encoded, predicted: Array) -> Array:
    """Return the positions (B, k) around which steps attend, of their predictions (B, k, 1): Luong 2015, eq. 9."""
    share = (1 + np.tanh(predicted[..., 0] / 2)) / 2
    return share * encoded.lengths[:, None].astype(share.dtype)


def attend_once(
    p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded, queries: Array, place: Place
) -> tuple[Array, Array]:
    """Attend to the source, without gradients.

    `encoded`: the sources; `queries` (B, k, A): the projected states of k hypotheses of each sentence, which are k
    queries to the same keys; the states (B, k, D) themselves if the score does not project them, or without
    attention; `place`: the number of the step, and its predictions. Returns `contexts` (B, k, C): the weighted sums of
    annotations; the encoder's last states without attention; `weights` (B, k, T): the attention weights; (B, k, 0)
    without attention.
    """
    if not c.attends:
        final = encoded.final[:, None]
        return np.broadcast_to(final, (*queries.shape[:2], final.shape[-1])), np.zeros(
            (*queries.shape[:2], 0)
        )
    attention = attend(queries, encoded.keys, encoded.values, **options(p, c, encoded, place))
    return attention.context, attention.weights

"""Attention of a decoder state over the annotations of the source: the score functions by name, one step, one pass.

Letters: T source positions, B sentences, k hypotheses, D decoder state, C annotation, A attention size. For a decoder
state s and an annotation h::

    additive      v . tanh(s Wq + h Wk)        Bahdanau, Cho and Bengio 2014, A.1.2
    general       (s Wq) . h                   Luong, Pham and Manning 2015, 3.1
    dot           s . h                        the same; D must be C
    scaled_dot    (s Wq) . (h Wk) / sqrt(A)    Vaswani et al. 2017, eq. 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import scores
from regard.attention import attention_vjp
from regard.context import attend
from regard.mask import lengths as length_mask
from regard.seq2seq.networks.padding import append_identity
from regard.seq2seq.networks.recurrent.config import RecurrentConfig

__all__ = ["AttentionPass", "Encoded", "attend_once"]

Array = NDArray[Any]
Named = dict[str, Array]


class Encoded(NamedTuple):
    """The encoder's output for a batch; its gradients have the same form.

    Parameters
    ----------
    start : array (B, S)
        The decoder's first states, all layers side by side.
    keys : array (B, T, A)
        The annotations, projected once for all decoder steps.
    values : array (B, T, C)
        The annotations.
    final : array (B, C)
        The last states of both directions, which a decoder without attention reads.
    lengths : integer array (B,)
        Tokens of each source; positions from there on are padding and never visible.
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


def _score(p: Mapping[str, Array], c: RecurrentConfig) -> Any:
    if c.score == "additive":
        return scores.additive(None, None, p["attention_vector"])
    return scores.scaled_dot() if c.score == "scaled_dot" else scores.dot()


def _queries(p: Mapping[str, Array], states: Array) -> Array:
    queries: Array = states @ p["query_weight"] if "query_weight" in p else states
    return queries


def attend_once(
    p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded, states: Array
) -> tuple[Array, Array]:
    """Attend from decoder states to the source, without gradients.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : RecurrentConfig
        Its configuration.
    encoded : Encoded
        The sources.
    states : array (B, k, D)
        k hypotheses of each sentence are k queries to the same keys.

    Returns
    -------
    contexts : array (B, k, C)
        The weighted sums of annotations; the encoder's last states without attention.
    weights : array (B, k, T)
        The attention weights; (B, k, 0) without attention.

    Examples
    --------
    >>> from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
    >>> c = RecurrentConfig(9, 7, embedding=4, encoder=3, decoder=5, attention=2)
    >>> parts = map(np.zeros, ((1, 5), (1, 3, 2), (1, 3, 6), (1, 6)))
    >>> encoded = Encoded(*parts, np.array([2]))  # two tokens and one position of padding
    >>> attend_once(RecurrentNetwork(c).parameters, c, encoded, np.zeros((1, 1, 5)))[1].tolist()
    [[[0.5, 0.5, 0.0]]]
    """
    if not c.attends:
        final = encoded.final[:, None]
        return np.broadcast_to(final, (*states.shape[:2], final.shape[-1])), np.zeros((*states.shape[:2], 0))
    attention = attend(
        _queries(p, states), encoded.keys, encoded.values, score=_score(p, c), mask=encoded.mask()
    )
    return attention.context, attention.weights


class AttentionPass:
    """The attention steps of one pass over a batch's targets, with their backward pass.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : RecurrentConfig
        Its configuration.
    encoded : Encoded
        The sources.
    with_weights : bool
        Whether the weights are returned and have a gradient.
    """

    def __init__(
        self, p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded, *, with_weights: bool = False
    ) -> None:
        self.p, self.c, self.encoded = p, c, encoded
        self.with_weights = c.attends and with_weights
        self.values = append_identity(encoded.values) if self.with_weights else encoded.values
        self.states: list[Array] = []
        self.dqueries: list[Array] = []
        self.pullbacks: list[Callable[[Array], Any]] = []
        self.d = Encoded(*(np.zeros_like(part) for part in encoded))
        self.g: Named = {
            name: np.zeros_like(p[name]) for name in ("query_weight", "attention_vector") if name in p
        }

    def forward(self, state: Array) -> tuple[Array, Array | None]:
        """Return the context (B, C) of states (B, D), and the weights (B, T) if they are requested."""
        if not self.c.attends:
            return self.encoded.final, None
        queries = _queries(self.p, state[:, None])
        context, pullback = attention_vjp(
            queries,
            self.encoded.keys,
            self.values,
            score=_score(self.p, self.c),
            mask=self.encoded.mask(),
        )
        self.states.append(state)
        self.pullbacks.append(pullback)
        size = self.encoded.values.shape[-1]
        return context[:, 0, :size], context[:, 0, size:] if self.with_weights else None

    def backward(self, dcontext: Array, dweights: Array | None = None) -> Array:
        """Return the gradient (B, D) of the states of the last step that has no gradient yet."""
        if not self.c.attends:
            self.d.final[...] += dcontext
            return np.zeros_like(dcontext, shape=(len(dcontext), self.c.decoder))
        if self.with_weights:
            if dweights is None:
                dweights = np.zeros_like(dcontext, shape=self.encoded.values.shape[:2])
            dcontext = np.concatenate([dcontext, dweights], axis=-1)
        gradients = self.pullbacks.pop()(dcontext[:, None])
        self.d.keys[...] += gradients.keys
        self.d.values[...] += gradients.values[..., : self.d.values.shape[-1]]
        if "vector" in gradients.score:
            self.g["attention_vector"] += gradients.score["vector"]
        dqueries: Array = gradients.queries[:, 0]
        self.dqueries.append(dqueries)
        return dqueries @ self.p["query_weight"].T if "query_weight" in self.p else dqueries

    def finish(self, dstart: Array) -> tuple[Encoded, Named]:
        """Return the sums over all steps: the gradients of the encoder's output and of the parameters."""
        if self.dqueries and "query_weight" in self.p:
            dqueries = np.concatenate(self.dqueries[::-1])
            self.g["query_weight"] += np.concatenate(self.states).T @ dqueries
        return self.d._replace(start=dstart), self.g

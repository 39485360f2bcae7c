"""The decoder: a GRU that asks the attention before every word (Bahdanau, Cho and Bengio 2014, A.2.2).

Letters: n words of the target, B sentences, E embedding, D decoder state, A hidden size of the attention's perceptron,
C the size of a context, V target words. At each step::

    query   = state @ query_weight
    context = attention(query, keys, values, score=additive(...))        or the encoder's end, without attention
    state   = gru(word before, context; state)
    logits  = tanh(word before + state + context, each projected) @ target_embedding.T
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import scores
from regard.attention import attention_vjp
from regard.context import attend
from regard.nn import dropout, embed, gru_step, linear, tanh
from regard.seq2seq.encoder import Encoded, Named

__all__ = ["Steps", "decode", "unroll"]

Array = NDArray[Any]
Pull = Callable[..., Any]


def decode(
    p: Mapping[str, Array],
    encoded: Encoded,
    words: NDArray[np.int64],
    rates: tuple[float, float],
    rng: np.random.Generator | None,
) -> tuple[Array, Callable[[Array], tuple[Encoded, Named]]]:
    """Read the target's words, each before the next is predicted: teacher forcing.

    Parameters
    ----------
    p : mapping of str to array
        The model's parameters.
    encoded : Encoded
        The source sentences.
    words : integer array (n, B)
        Target words, beginning with START.
    rates : (float, float)
        Dropout of the embeddings and of the readout.
    rng : numpy.random.Generator or None
        Chance for dropout; None outside training.

    Returns
    -------
    readout : array (n, B, E)
        What each next word is predicted from, by a product with the target embedding.
    pullback : function
        ``pullback(dreadout) -> (dencoded, gradients by parameter name)``.

    Examples
    --------
    >>> from regard.seq2seq.network import Network, Sizes
    >>> p = Network(Sizes(9, 7, embedding=4, encoder=3, decoder=5, attention=2)).parameters
    >>> encoded = Encoded(*map(np.zeros, ((1, 5), (1, 3, 2), (1, 3, 6), (1, 6))))
    >>> readout, _ = decode(p, encoded, np.array([[1], [4]]), (0.0, 0.0), None)
    >>> readout.shape
    (2, 1, 4)
    """
    y, embed_back = embed(p["target_embedding"], words)  # (n, B, E)
    y, y_back = dropout(y, rates[0], rng)
    inputs, inputs_back = linear(y, p["decoder_word"], p["decoder_bias"])  # (n, B, 3D)
    states, contexts, unroll_back = unroll(p, encoded, inputs)
    readout, readout_back = _read_out(p, y, states[1:], contexts)
    readout, dropout_back = dropout(readout, rates[1], rng)

    def pullback(dreadout: Array) -> tuple[Encoded, Named]:
        dy, dstates, dcontexts, g = readout_back(dropout_back(dreadout)[0])
        dencoded, dinputs, more = unroll_back(dstates, dcontexts)
        dwords, g["decoder_word"], g["decoder_bias"] = inputs_back(dinputs)
        dy += dwords
        (g["target_embedding"],) = embed_back(y_back(dy)[0])
        return dencoded, g | more

    return readout, pullback


def _read_out(
    p: Mapping[str, Array], words: Array, states: Array, contexts: Array
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array, Named]]]:
    """Put together what is known before a word: (n, B, E)."""
    summed, words_back = linear(words, p["readout_word"], p["readout_bias"])
    of_states, states_back = linear(states, p["readout_state"])
    of_contexts, contexts_back = linear(contexts, p["readout_context"])
    summed += of_states
    summed += of_contexts
    readout, tanh_back = tanh(summed)

    def pullback(dreadout: Array) -> tuple[Array, Array, Array, Named]:
        (dsummed,) = tanh_back(dreadout)
        g: Named = {}
        dwords, g["readout_word"], g["readout_bias"] = words_back(dsummed)
        dstates, g["readout_state"] = states_back(dsummed)
        dcontexts, g["readout_context"] = contexts_back(dsummed)
        return dwords, dstates, dcontexts, g

    return readout, pullback


def unroll(
    p: Mapping[str, Array], encoded: Encoded, inputs: Array
) -> tuple[Array, Array, Callable[[Array, Array], tuple[Encoded, Array, Named]]]:
    """Take the decoder's steps one after the other.

    Parameters
    ----------
    p : mapping of str to array
        The model's parameters.
    encoded : Encoded
        The source sentences.
    inputs : array (n, B, 3 D)
        What the words before give to the gates.

    Returns
    -------
    states : array (n + 1, B, D)
        Before the first and after each step.
    contexts : array (n, B, C)
        What each step saw of the source.
    pullback : function
        ``pullback(dstates (n, B, D), dcontexts (n, B, C)) -> (dencoded, dinputs, gradients by parameter name)``.

    Examples
    --------
    >>> from regard.seq2seq.network import Network, Sizes
    >>> p = Network(Sizes(9, 7, embedding=4, encoder=3, decoder=5, attention=2)).parameters
    >>> encoded = Encoded(*map(np.zeros, ((1, 5), (1, 3, 2), (1, 3, 6), (1, 6))))
    >>> states, contexts, _ = unroll(p, encoded, np.zeros((2, 1, 15)))
    >>> states.shape, contexts.shape
    ((3, 1, 5), (2, 1, 6))
    """
    n, batch, _ = inputs.shape
    states = np.empty((n + 1, *encoded.start.shape), inputs.dtype)
    contexts = np.empty((n, batch, encoded.values.shape[-1]), inputs.dtype)
    states[0] = encoded.start
    look = _Looks(p, encoded)
    steps: list[Pull] = []
    for t in range(n):
        contexts[t] = look.forward(states[t])
        gates = contexts[t] @ p["decoder_context"]  # (B, 3D)
        gates += inputs[t]
        states[t + 1], step = gru_step(gates, states[t] @ p["decoder_state"], states[t])
        steps.append(step)

    def pullback(dstates: Array, dcontexts: Array) -> tuple[Encoded, Array, Named]:
        dinputs, dhidden = np.empty_like(inputs), np.empty_like(inputs)
        to_state, to_context = (
            np.ascontiguousarray(p[name].T) for name in ("decoder_state", "decoder_context")
        )
        dstate = np.zeros_like(encoded.start)
        for t in reversed(range(n)):
            dinputs[t], dhidden[t], direct = steps[t](dstate + dstates[t])
            dstate = look.backward(t, dcontexts[t] + dinputs[t] @ to_context)
            dstate += dhidden[t] @ to_state
            dstate += direct
        g = look.gradients(states[:-1])
        g["decoder_state"] = _flat(states[:-1]).T @ _flat(dhidden)
        g["decoder_context"] = _flat(contexts).T @ _flat(dinputs)
        return look.dencoded(dstate), dinputs, g

    return states, contexts, pullback


class _Looks:
    """The looks at the source in one pass: through `attention_vjp`, or always at where the encoder ended."""

    def __init__(self, p: Mapping[str, Array], encoded: Encoded) -> None:
        self.p, self.encoded = p, encoded
        self.attends = has_attention(p)
        self.score = scores.additive(None, None, p["attention_vector"]) if self.attends else None
        self.pulls: list[Pull] = []
        self.d = Encoded(*(np.zeros_like(part) for part in encoded))
        self.dqueries: list[Array] = []
        self.dvector = np.zeros_like(p["attention_vector"])

    def forward(self, state: Array) -> Array:
        """Return what a state (B, D) sees: (B, C)."""
        if self.score is None:
            return self.encoded.final
        # (B, A), projected here, so that its gradient is one product
        queries = state @ self.p["query_weight"]
        context, pull = attention_vjp(
            queries[:, None], self.encoded.keys, self.encoded.values, score=self.score
        )
        self.pulls.append(pull)
        return context[:, 0]

    def backward(self, t: int, dcontext: Array) -> Array:
        """Return the gradient (B, D) of the state that looked at step t."""
        if self.score is None:
            self.d.final[...] += dcontext
            return np.zeros_like(self.encoded.start)
        gradients = self.pulls[t](dcontext[:, None])
        self.d.keys[...] += gradients.keys
        self.d.values[...] += gradients.values
        self.dvector += gradients.score["vector"]
        self.dqueries.append(gradients.queries[:, 0])
        dstate: Array = self.dqueries[-1] @ self.p["query_weight"].T
        return dstate

    def gradients(self, states: Array) -> Named:
        """Return the gradients of the parameters, for the states (n, B, D) that looked."""
        if not self.dqueries:
            return {name: np.zeros_like(self.p[name]) for name in ("query_weight", "attention_vector")}
        dqueries = np.concatenate(self.dqueries[::-1])  # (n B, A)
        return {"query_weight": _flat(states).T @ dqueries, "attention_vector": self.dvector}

    def dencoded(self, dstart: Array) -> Encoded:
        """Return what was collected for the encoder."""
        return self.d._replace(start=dstart)


class Steps:
    """The decoder's steps for a search: k hypotheses of each of B sentences, and where each of them looks.

    Parameters
    ----------
    p : mapping of str to array
        The model's parameters.
    encoded : Encoded
        The source sentences.
    """

    def __init__(self, p: Mapping[str, Array], encoded: Encoded) -> None:
        self.p, self.encoded = p, encoded
        # (V, 3D), once for all
        self.inputs = linear(p["target_embedding"], p["decoder_word"], p["decoder_bias"])[0]
        self.score = scores.additive(None, None, p["attention_vector"]) if has_attention(p) else None

    def __call__(self, words: NDArray[np.int64], states: Array) -> tuple[Array, Array, Array]:
        """Predict what follows.

        Parameters
        ----------
        words : integer array (B, k)
            The words before.
        states : array (B, k, D)
            The states before.

        Returns
        -------
        logits : array (B, k, V)
            How well each word would follow.
        states : array (B, k, D)
            The states after.
        weights : array (B, k, T)
            Where each hypothesis looked; (B, k, 0) without attention.
        """
        p = self.p
        contexts, weights = self._look(states)
        gates = self.inputs[words]
        gates += contexts @ p["decoder_context"]
        states, _ = gru_step(gates, states @ p["decoder_state"], states)
        readout, _ = _read_out(p, p["target_embedding"][words], states, contexts)  # (B, k, E)
        logits = _flat(readout) @ p["target_embedding"].T
        logits += p["output_bias"]
        return logits.reshape(*words.shape, -1), states, weights

    def _look(self, states: Array) -> tuple[Array, Array]:
        if self.score is None:
            final = self.encoded.final[:, None]
            return np.broadcast_to(final, (*states.shape[:2], final.shape[-1])), np.zeros(
                (*states.shape[:2], 0)
            )
        # The k hypotheses of a sentence are k queries to the same keys.
        seen = attend(
            states @ self.p["query_weight"], self.encoded.keys, self.encoded.values, score=self.score
        )
        return seen.context, seen.weights


def has_attention(p: Mapping[str, Array]) -> bool:
    """Say whether parameters are those of a model with attention; without it, the perceptron's size A is 0.

    Parameters
    ----------
    p : mapping of str to array
        The model's parameters.

    Returns
    -------
    bool
        True with attention.

    Examples
    --------
    >>> has_attention({"attention_vector": np.zeros(0)})
    False
    """
    return bool(p["attention_vector"].size)


def _flat(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])

"""The decoder in training: all steps over a batch's targets by teacher forcing, and back.

Letters: n target positions, B sentences, T source positions, E embedding, D decoder state, C annotation, G gates of a
cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.nn import attended_gru, conditional_gru, dropout, embed, linear
from regard.seq2seq.networks.recurrent.attention import AttentionPass, Encoded
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.step import decoder_step, read_out, read_out_gradients

__all__ = ["Decoded", "decode"]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Named = dict[str, Array]


class Decoded(NamedTuple):
    """The decoder's output under teacher forcing.

    Parameters
    ----------
    readout : array (n, B, E)
        What each next token is predicted from, by a product with the target embedding.
    weights : array (n, B, T) or None
        The attention weights, if they were requested.
    """

    readout: Array
    weights: Array | None


def decode(
    p: Mapping[str, Array],
    c: RecurrentConfig,
    encoded: Encoded,
    tokens: Ids,
    *,
    rates: tuple[float, float] = (0.0, 0.0),
    rng: np.random.Generator | None = None,
    with_weights: bool = False,
    readings: int = 1,
) -> tuple[Decoded, Callable[..., tuple[Encoded, Named]]]:
    """Read the target's tokens, each before the next is predicted (teacher forcing).

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : RecurrentConfig
        Its configuration.
    encoded : Encoded
        The source sentences.
    tokens : integer array (n, B)
        Target tokens, beginning with START.
    rates : (float, float)
        Dropout of the embeddings and of the readout.
    rng : numpy.random.Generator or None
        Random numbers for dropout; None outside training.
    with_weights : bool
        Whether the attention weights are returned and have a gradient.
    readings : int
        How many readouts there are of each position, side by side, each with dropout of its own.

    Returns
    -------
    decoded : Decoded
        Readouts (n, readings B, E) and weights.
    pullback : function
        ``pullback(dreadout, dweights=None, onto=None) -> (dencoded, gradients by parameter name)``; the target
        embedding's gradient is added to the array `onto` if it is given.

    Examples
    --------
    >>> from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
    >>> c = RecurrentConfig(9, 7, embedding=4, encoder=3, decoder=5, attention=2)
    >>> parts = map(np.zeros, ((1, 5), (1, 3, 2), (1, 3, 6), (1, 6)))
    >>> encoded = Encoded(*parts, np.array([3]))
    >>> decoded, _ = decode(RecurrentNetwork(c).parameters, c, encoded, np.array([[1], [4]]), with_weights=True)
    >>> decoded.readout.shape, decoded.weights.shape
    ((2, 1, 4), (2, 1, 3))
    """
    y, embed_back = embed(p["target_embedding"], tokens)  # (n, B, E)
    y, y_back = dropout(y, rates[0], rng)
    inputs, inputs_back = linear(y, p["decoder_word"], p["decoder_bias"])  # (n, B, G D)
    steps = (_Fused if c.fused else _Unrolled)(p, c, encoded, y, with_weights=with_weights)
    readout = steps.forward(inputs)
    if readings > 1:
        readout = np.tile(readout, (1, readings, 1))
    dropped, dropout_back = dropout(readout, rates[1], rng)

    def pullback(
        dreadout: Array, dweights: Array | None = None, onto: Array | None = None
    ) -> tuple[Encoded, Named]:
        (dreadout,) = dropout_back(dreadout)
        if readings > 1:
            dreadout = dreadout.reshape(len(tokens), readings, -1, dreadout.shape[-1]).sum(axis=1)
        dencoded, dinputs, dy, g = steps.backward(dreadout, dweights)
        dembedded, g["decoder_word"], g["decoder_bias"] = inputs_back(dinputs)
        dembedded += dy
        (g["target_embedding"],) = embed_back(y_back(dembedded)[0], onto)
        return dencoded, g

    return Decoded(dropped, steps.weights), pullback


class _Unrolled:
    """All steps of a decoder one by one, forward and backward."""

    def __init__(
        self,
        p: Mapping[str, Array],
        c: RecurrentConfig,
        encoded: Encoded,
        embeddings: Array,
        *,
        with_weights: bool,
    ) -> None:
        self.p, self.c, self.encoded = p, c, encoded
        self.embeddings = None if c.style == "luong" else embeddings  # None if the readout does not read them
        self.attention = AttentionPass(p, c, encoded, with_weights=with_weights)
        self.step = decoder_step(p, c, keep=True)
        n, batch, _ = embeddings.shape
        self.states = np.empty((n, batch, c.decoder), embeddings.dtype)  # the last layer's, after each step
        self.contexts = np.empty((n, batch, encoded.values.shape[-1]), embeddings.dtype)
        self.readouts = np.empty_like(embeddings)
        self.weights: Array | None = None

    def forward(self, inputs: Array) -> Array:
        """Take all steps, from the tokens' summands in the gates (n, B, G D) to readouts (n, B, E)."""
        memory, readout, weights = self.encoded.start, None, []
        for t in range(len(inputs)):
            step = self.step.forward(inputs[t], memory, readout, self.attention.forward)
            memory, self.states[t], self.contexts[t] = step[:3]
            weights.append(step.weights)
            if self.embeddings is None:
                readout = self.readouts[t] = read_out(self.p, self.states[t], self.contexts[t], None)
        if self.embeddings is not None:
            self.readouts = read_out(self.p, self.states, self.contexts, self.embeddings)
        self.weights = np.stack(weights) if self.attention.with_weights else None
        return self.readouts

    def backward(
        self, dreadout: Array, dweights: Array | None
    ) -> tuple[Encoded, Array, Array | float, Named]:
        """Go back: (dencoded, dinputs, dembeddings, gradients)."""
        back = _ReadoutBack(self.p, self.readouts, dreadout, together=self.embeddings is not None)
        dmemory, dfed = np.zeros_like(self.encoded.start), None
        dinputs = np.empty((*dreadout.shape[:2], self.p["decoder_word"].shape[1]), dreadout.dtype)
        for t in reversed(range(len(dreadout))):
            dstate, dcontext = back.step(t, dfed)
            of_weights = None if dweights is None else dweights[t]
            dinputs[t], dmemory = self.step.backward(
                dmemory, dstate, dcontext, of_weights, self.attention.backward
            )
            dfed = self.step.readout_gradient(dinputs[t])
        dencoded, g = self.attention.finish(dmemory)
        g |= self.step.gradients(dinputs, self.contexts, self.readouts)
        g |= read_out_gradients(back.dsummed, self.states, self.contexts, self.embeddings)
        dembeddings = 0.0 if self.embeddings is None else back.dsummed @ self.p["readout_word"].T
        return dencoded, dinputs, dembeddings, g


class _ReadoutBack:
    """The backward pass of the readouts: all of them together, or step by step where a readout feeds the next step."""

    def __init__(self, p: Mapping[str, Array], readouts: Array, dreadout: Array, *, together: bool) -> None:
        self.readouts, self.dreadout, self.together = readouts, dreadout, together
        self.to_state, self.to_context = p["readout_state"].T, p["readout_context"].T
        if together:
            self.dsummed = dreadout * (1 - readouts * readouts)
            self.dstates, self.dcontexts = self.dsummed @ self.to_state, self.dsummed @ self.to_context
        else:
            self.dsummed = np.empty_like(dreadout)
            self.to_state, self.to_context = map(np.ascontiguousarray, (self.to_state, self.to_context))

    def step(self, t: int, dfed: Array | None) -> tuple[Array, Array]:
        """Return the gradients of a step's state and context; `dfed` is that of the readout from the next step."""
        if self.together:
            return self.dstates[t], self.dcontexts[t]
        dreadout = self.dreadout[t] if dfed is None else self.dreadout[t] + dfed
        self.dsummed[t] = dreadout * (1 - self.readouts[t] * self.readouts[t])
        return self.dsummed[t] @ self.to_state, self.dsummed[t] @ self.to_context


_FUSED: dict[str, Callable[..., Any]] = {"bahdanau": attended_gru, "conditional": conditional_gru}


def _fused_weights(c: RecurrentConfig) -> list[str]:
    """Return the names of the parameters that the fused steps take after keys and values."""
    names = ["query_weight", "attention_vector", "decoder_context", "decoder_state"]
    return [*names, "decoder_state_after", "decoder_bias_after"] if c.style == "conditional" else names


class _Fused:
    """The same function as `_Unrolled`, all steps in one call of the library, several times as fast."""

    def __init__(
        self,
        p: Mapping[str, Array],
        c: RecurrentConfig,
        encoded: Encoded,
        embeddings: Array,
        *,
        with_weights: bool,
    ) -> None:
        self.p, self.c, self.encoded, self.embeddings = p, c, encoded, embeddings
        self.weights: Array | None = None

    def forward(self, inputs: Array) -> Array:
        """Take all steps, from the tokens' summands in the gates (n, B, G D) to readouts (n, B, E)."""
        e, parameters = self.encoded, (self.p[name] for name in _fused_weights(self.c))
        (states, self.contexts, self.weights), self.pull = _FUSED[self.c.style](
            inputs, e.start, e.keys, e.values, *parameters, lengths=e.lengths
        )
        self.states = states[1:]
        self.readouts = read_out(self.p, self.states, self.contexts, self.embeddings)
        return self.readouts

    def backward(self, dreadout: Array, dweights: Array | None) -> tuple[Encoded, Array, Array, Named]:
        """Go back: (dencoded, dinputs, dembeddings, gradients)."""
        p = self.p
        dsummed = self.readouts * self.readouts
        np.subtract(1, dsummed, out=dsummed)
        dsummed *= dreadout
        dinputs, dstart, dkeys, dvalues, *of_parameters = self.pull(
            linear(dsummed, p["readout_state"].T)[0], linear(dsummed, p["readout_context"].T)[0], dweights
        )
        g = dict(zip(_fused_weights(self.c), of_parameters, strict=True))
        g |= read_out_gradients(dsummed, self.states, self.contexts, self.embeddings)
        dencoded = Encoded(dstart, dkeys, dvalues, np.zeros_like(self.encoded.final), self.encoded.lengths)
        return dencoded, dinputs, linear(dsummed, p["readout_word"].T)[0], g

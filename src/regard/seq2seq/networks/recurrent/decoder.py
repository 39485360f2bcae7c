"""The decoder: recurrent layers that ask the attention once for every word.

Letters: n words of the target, B sentences, E embedding, D decoder state, S what all layers remember, C annotation, V
target words. Three orders of looking and stepping::

    bahdanau    context = look(state before)                              (Bahdanau, Cho and Bengio 2014, A.2.2)
                state   = cell(word before, context; state before)
                readout = tanh(word before + state + context, each projected)

    luong       state   = cell(word before, readout before; state before) (Luong, Pham and Manning 2015, 3.1 and 3.3;
                context = look(state)                                      the readout before: input feeding)
                readout = tanh(state + context, each projected)

    conditional between = cell(word before; state before)             (Sennrich et al. 2017, "Nematus: a Toolkit for
                context = look(between)                                 Neural Machine Translation", section 3)
                state   = cell after(context; between)
                readout = tanh(word before + state + context, each projected)

and in all, logits = readout @ target_embedding.T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._layout import as_rows
from regard.kernels.matrix import multiply, multiply_and_sum
from regard.nn import attended_gru, conditional_gru, dropout, embed, linear
from regard.seq2seq.networks.recurrent.attention import Encoded, Looks
from regard.seq2seq.networks.recurrent.cells import GATES, Stack, layer, parts

if TYPE_CHECKING:
    from regard.seq2seq.networks.recurrent.network import Recurrent

__all__ = ["Decoded", "decode", "shapes"]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Named = dict[str, Array]


def shapes(c: Recurrent) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the decoder's parameters, but for those of its attention.

    Parameters
    ----------
    c : Recurrent
        The configuration.

    Returns
    -------
    dict of str to tuple of int
        By name.

    Examples
    --------
    >>> from regard.seq2seq.networks.recurrent.network import Recurrent
    >>> shapes(Recurrent(9, 7, embedding=4, encoder=3, decoder=5, attention=2))["readout_word"]
    (4, 4)
    """
    e, d, size, gates = c.embedding, c.decoder, 2 * c.encoder, GATES[c.cell] * c.decoder
    found: dict[str, tuple[int, ...]] = {"target_embedding": (c.target_words, e), "decoder_word": (e, gates)}
    if c.style != "luong":
        found["decoder_context"] = (size, gates)
    elif c.feeding:
        found["decoder_readout"] = (e, gates)
    if c.style == "conditional":
        found |= {"decoder_bias_after": (gates,), "decoder_state_after": (d, gates)}
    found |= {"decoder_bias": (gates,), "decoder_state": (d, gates)}
    for number in range(1, c.layers):
        found[layer("decoder_input", number)] = (d, gates)
        found[layer("decoder_bias", number)] = (gates,)
        found[layer("decoder_state", number)] = (d, gates)
    if c.style != "luong":
        found["readout_word"] = (e, e)
    return found | {
        "readout_state": (d, e),
        "readout_context": (size, e),
        "readout_bias": (e,),
        "output_bias": (c.target_words,),
    }


class Decoded(NamedTuple):
    """What teacher forcing comes to.

    Parameters
    ----------
    readout : array (n, B, E)
        What each next word is predicted from, by a product with the target embedding.
    weights : array (n, B, T) or None
        Where it was looked, if that was asked for.
    """

    readout: Array
    weights: Array | None


def decode(
    p: Mapping[str, Array],
    c: Recurrent,
    encoded: Encoded,
    words: Ids,
    *,
    rates: tuple[float, float] = (0.0, 0.0),
    rng: np.random.Generator | None = None,
    seen: bool = False,
    readings: int = 1,
) -> tuple[Decoded, Callable[..., tuple[Encoded, Named]]]:
    """Read the target's words, each before the next is predicted: teacher forcing.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : Recurrent
        Its configuration.
    encoded : Encoded
        The source sentences.
    words : integer array (n, B)
        Target words, beginning with START.
    rates : (float, float)
        Dropout of the embeddings and of the readout.
    rng : numpy.random.Generator or None
        Chance for dropout; None outside training.
    seen : bool
        Whether the weights are wanted.
    readings : int
        How many readouts there are of each word, side by side, with different numbers dropped.

    Returns
    -------
    decoded : Decoded
        Readouts (n, readings B, E) and weights.
    pullback : function
        ``pullback(dreadout, dweights=None, onto=None) -> (dencoded, gradients by parameter name)``; the target
        embedding's is added to the array `onto` where there is one.

    Examples
    --------
    >>> from regard.seq2seq.networks.recurrent.network import Recurrent, RecurrentNetwork
    >>> c = Recurrent(9, 7, embedding=4, encoder=3, decoder=5, attention=2)
    >>> parts = map(np.zeros, ((1, 5), (1, 3, 2), (1, 3, 6), (1, 6)))
    >>> encoded = Encoded(*parts, np.array([3]))
    >>> decoded, _ = decode(RecurrentNetwork(c).parameters, c, encoded, np.array([[1], [4]]), seen=True)
    >>> decoded.readout.shape, decoded.weights.shape
    ((2, 1, 4), (2, 1, 3))
    """
    y, embed_back = embed(p["target_embedding"], words)  # (n, B, E)
    y, y_back = dropout(y, rates[0], rng)
    inputs, inputs_back = linear(y, p["decoder_word"], p["decoder_bias"])  # (n, B, G D)
    unroll = _Fused if is_plain(c) else _ORDERS[c.style]
    pass_ = unroll(p, c, encoded, y, seen=seen)
    readout = pass_.forward(inputs)
    if readings > 1:
        readout = np.tile(readout, (1, readings, 1))
    dropped, dropout_back = dropout(readout, rates[1], rng)

    def pullback(
        dreadout: Array, dweights: Array | None = None, onto: Array | None = None
    ) -> tuple[Encoded, Named]:
        (dreadout,) = dropout_back(dreadout)
        if readings > 1:
            dreadout = dreadout.reshape(len(words), readings, -1, dreadout.shape[-1]).sum(axis=1)
        dencoded, dinputs, dy, g = pass_.backward(dreadout, dweights)
        dwords, g["decoder_word"], g["decoder_bias"] = inputs_back(dinputs)
        dwords += dy
        (g["target_embedding"],) = embed_back(y_back(dwords)[0], onto)
        return dencoded, g

    return Decoded(dropped, pass_.weights()), pullback


class _Pass:
    """One pass over the target and back; what all three orders of looking and stepping share."""

    def __init__(
        self, p: Mapping[str, Array], c: Recurrent, encoded: Encoded, words: Array, *, seen: bool
    ) -> None:
        self.p, self.c, self.encoded, self.words = p, c, encoded, words
        self.stack = Stack(p, c.cell, c.layers)
        self.asked = seen
        n, batch, _ = words.shape
        self.states = np.empty((n, batch, c.decoder), words.dtype)  # the last layer's, after each step
        self.contexts = np.empty((n, batch, encoded.values.shape[-1]), words.dtype)
        self.seen: list[Array] = []

    @cached_property
    def looks(self) -> Looks:
        """The looks, taken one by one."""
        return Looks(self.p, self.c, self.encoded, seen=self.asked)

    def look(self, t: int, state: Array) -> None:
        """Let a state look before or after step t."""
        self.contexts[t], weights = self.looks.forward(state)
        if weights is not None:
            self.seen.append(weights)

    def weights(self) -> Array | None:
        """Return where was looked: (n, B, T), or None if it was not asked for."""
        return np.stack(self.seen) if self.seen else None

    def finish(
        self, dmemory: Array, dinputs: Array, outside: Array | None, name: str
    ) -> tuple[Encoded, Named]:
        """Return the gradients of the source and of the steps' parameters; `outside` went through matrix `name`."""
        dencoded, g = self.looks.finish(dmemory)
        if outside is not None:
            g[name] = as_rows(outside).T @ as_rows(dinputs)
        return dencoded, g | self.stack.g


class _LookThenStep(_Pass):
    """Bahdanau's order: the state before a step looks."""

    def forward(self, inputs: Array) -> Array:
        """Take all steps, from what the words give to the gates (n, B, G D) to readouts (n, B, E)."""
        memory = self.encoded.start
        for t in range(len(inputs)):
            self.look(t, self.stack.top(memory))
            memory = self.stack.forward(inputs[t] + self.contexts[t] @ self.p["decoder_context"], memory)
            self.states[t] = self.stack.top(memory)
        self.readout = read_out(self.p, self.states, self.contexts, self.words)
        return self.readout

    def backward(self, dreadout: Array, dweights: Array | None) -> tuple[Encoded, Array, Array, Named]:
        """Go back: (dencoded, dinputs, dwords, gradients)."""
        p = self.p
        dsummed = dreadout * (1 - self.readout * self.readout)
        dstates, dcontexts = dsummed @ p["readout_state"].T, dsummed @ p["readout_context"].T
        to_context = np.ascontiguousarray(p["decoder_context"].T)
        dmemory = np.zeros_like(self.encoded.start)
        dinputs = np.empty((*dreadout.shape[:2], to_context.shape[0]), dreadout.dtype)
        for t in reversed(range(len(dreadout))):
            self.stack.top(dmemory)[...] += dstates[t]
            dinputs[t], dmemory = self.stack.backward(dmemory)
            dcontext = dcontexts[t] + dinputs[t] @ to_context
            dlook = self.looks.backward(dcontext, None if dweights is None else dweights[t])
            self.stack.top(dmemory)[...] += dlook
        dencoded, g = self.finish(dmemory, dinputs, self.contexts, "decoder_context")
        g |= _read_out_gradients(dsummed, self.states, self.contexts, self.words)
        return dencoded, dinputs, dsummed @ p["readout_word"].T, g


_UNROLLS: dict[str, Callable[..., Any]] = {"bahdanau": attended_gru, "conditional": conditional_gru}


def is_plain(c: Recurrent) -> bool:
    """Say whether this is a model whose steps the library takes all at once: one layer of GRUs, additive attention."""
    plain = c.score in ("additive", "concat") and c.window == "global" and not c.coverage
    return plain and c.style in _UNROLLS and c.cell == "gru" and c.layers == 1


def _weights(c: Recurrent) -> list[str]:
    """Return the names of what a plain model's steps take after keys and values."""
    names = ["query_weight", "attention_vector", "decoder_context", "decoder_state"]
    return [*names, "decoder_state_after", "decoder_bias_after"] if c.style == "conditional" else names


class _Fused(_Pass):
    """Plain models, several times as fast: the same functions as `_LookThenStep` and `_StepLookStep`."""

    def forward(self, inputs: Array) -> Array:
        """Take all steps, from what the words give to the gates (n, B, G D) to readouts (n, B, E)."""
        e, weights = self.encoded, (self.p[name] for name in _weights(self.c))
        (states, self.contexts, looked), self.pull = _UNROLLS[self.c.style](
            inputs, e.start, e.keys, e.values, *weights, lengths=e.lengths
        )
        self.states = states[1:]
        self.seen = list(looked)
        self.readout = read_out(self.p, self.states, self.contexts, self.words)
        return self.readout

    def backward(self, dreadout: Array, dweights: Array | None) -> tuple[Encoded, Array, Array, Named]:
        """Go back: (dencoded, dinputs, dwords, gradients)."""
        p = self.p
        dsummed = self.readout * self.readout
        np.subtract(1, dsummed, out=dsummed)
        dsummed *= dreadout
        dinputs, dstart, dkeys, dvalues, *weights = self.pull(
            linear(dsummed, p["readout_state"].T)[0], linear(dsummed, p["readout_context"].T)[0], dweights
        )
        g = dict(zip(_weights(self.c), weights, strict=True))
        g |= _read_out_gradients(dsummed, self.states, self.contexts, self.words)
        dencoded = Encoded(dstart, dkeys, dvalues, np.zeros_like(self.encoded.final), self.encoded.lengths)
        return dencoded, dinputs, linear(dsummed, p["readout_word"].T)[0], g


class _StepThenLook(_Pass):
    """Luong's order: the state after a step looks, and the readout is fed to the next step."""

    def forward(self, inputs: Array) -> Array:
        """Take all steps, from what the words give to the gates (n, B, G D) to readouts (n, B, E)."""
        memory, readout = self.encoded.start, np.zeros_like(self.words)
        for t in range(len(inputs)):
            gates = inputs[t]
            if self.c.feeding and t:
                gates = gates + readout[t - 1] @ self.p["decoder_readout"]
            memory = self.stack.forward(gates, memory)
            self.states[t] = self.stack.top(memory)
            self.look(t, self.states[t])
            readout[t] = read_out(self.p, self.states[t], self.contexts[t], None)
        self.readout = readout
        return readout

    def backward(self, dreadout: Array, dweights: Array | None) -> tuple[Encoded, Array, Array, Named]:
        """Go back: (dencoded, dinputs, dwords, gradients)."""
        p = self.p
        dsummed = np.empty_like(dreadout)
        to_state, to_context = (np.ascontiguousarray(p[f"readout_{of}"].T) for of in ("state", "context"))
        dmemory, dfed = (
            np.zeros_like(self.encoded.start),
            np.zeros_like(dreadout[:1])[0] if len(dreadout) else 0,
        )
        dinputs = np.empty((*dreadout.shape[:2], p["decoder_word"].shape[1]), dreadout.dtype)
        for t in reversed(range(len(dreadout))):
            dsummed[t] = (dreadout[t] + dfed) * (1 - self.readout[t] * self.readout[t])
            dlook = self.looks.backward(dsummed[t] @ to_context, None if dweights is None else dweights[t])
            self.stack.top(dmemory)[...] += dsummed[t] @ to_state + dlook
            dinputs[t], dmemory = self.stack.backward(dmemory)
            if self.c.feeding:
                dfed = dinputs[t] @ p["decoder_readout"].T
        fed = np.concatenate([np.zeros_like(self.readout[:1]), self.readout[:-1]]) if self.c.feeding else None
        dencoded, g = self.finish(dmemory, dinputs, fed, "decoder_readout")
        g |= _read_out_gradients(dsummed, self.states, self.contexts, None)
        return dencoded, dinputs, np.zeros_like(self.words), g


class _StepLookStep(_Pass):
    """The conditional order: a state that has read the word before looks, and one more step reads what it saw."""

    def forward(self, inputs: Array) -> Array:
        """Take all steps, from what the words give to the gates (n, B, G D) to readouts (n, B, E)."""
        memory, self.after = self.encoded.start, After(self.p, self.c)
        for t in range(len(inputs)):
            between = self.stack.forward(inputs[t], memory)
            self.look(t, self.stack.top(between))
            memory = self.after.forward(self.contexts[t], between)
            self.states[t] = self.stack.top(memory)
        self.readout = read_out(self.p, self.states, self.contexts, self.words)
        return self.readout

    def backward(self, dreadout: Array, dweights: Array | None) -> tuple[Encoded, Array, Array, Named]:
        """Go back: (dencoded, dinputs, dwords, gradients)."""
        p = self.p
        dsummed = dreadout * (1 - self.readout * self.readout)
        dstates, dcontexts = dsummed @ p["readout_state"].T, dsummed @ p["readout_context"].T
        dmemory = np.zeros_like(self.encoded.start)
        dinputs = np.empty((*dreadout.shape[:2], p["decoder_word"].shape[1]), dreadout.dtype)
        dafter = np.empty_like(dinputs)
        for t in reversed(range(len(dreadout))):
            self.stack.top(dmemory)[...] += dstates[t]
            dafter[t], dcontext, dmemory = self.after.backward(dmemory)
            dlook = self.looks.backward(dcontexts[t] + dcontext, None if dweights is None else dweights[t])
            self.stack.top(dmemory)[...] += dlook
            dinputs[t], dmemory = self.stack.backward(dmemory)
        dencoded, g = self.finish(dmemory, dafter, self.contexts, "decoder_context")
        g |= _read_out_gradients(dsummed, self.states, self.contexts, self.words)
        g |= {"decoder_bias_after": as_rows(dafter).sum(axis=0)} | self.after.gradients()
        return dencoded, dinputs, dsummed @ p["readout_word"].T, g


class After:
    """The second step of the conditional order: a cell on the last layer that reads a context."""

    def __init__(self, p: Mapping[str, Array], c: Recurrent) -> None:
        self.p, self.own = p, parts(c.cell) * c.decoder  # which lie behind what the other layers remember
        self.stack = Stack({"decoder_state": p["decoder_state_after"]}, c.cell, 1)
        self.to_context = np.ascontiguousarray(p["decoder_context"].T)

    def forward(self, contexts: Array, memory: Array, *, keep: bool = True) -> Array:
        """Return what all layers remember (..., S) after the last one has read contexts (..., C)."""
        gates, _ = linear(contexts, self.p["decoder_context"], self.p["decoder_bias_after"])
        last = self.stack.forward(gates, memory[..., -self.own :], keep=keep)
        return np.concatenate([memory[..., : -self.own], last], axis=-1)

    def backward(self, dmemory: Array) -> tuple[Array, Array, Array]:
        """Take the last step back: (dgates, dcontexts, dmemory before)."""
        dgates, dlast = self.stack.backward(dmemory[..., -self.own :])
        dbefore = np.concatenate([dmemory[..., : -self.own], dlast], axis=-1)
        return dgates, dgates @ self.to_context, dbefore

    def gradients(self) -> Named:
        """Return the gradient of its state matrix."""
        return {"decoder_state_after": self.stack.g["decoder_state"]}


_ORDERS: dict[str, type[_LookThenStep | _StepThenLook | _StepLookStep]] = {
    "bahdanau": _LookThenStep,
    "luong": _StepThenLook,
    "conditional": _StepLookStep,
}


def read_out(p: Mapping[str, Array], states: Array, contexts: Array, words: Array | None) -> Array:
    """Put together what is known before a word: (..., E)."""
    summed = multiply(as_rows(states), p["readout_state"], p["readout_bias"])
    if words is not None:
        multiply(as_rows(words), p["readout_word"], out=summed, add=True)
    multiply(as_rows(contexts), p["readout_context"], out=summed, add=True, squash=True)
    return summed.reshape(*states.shape[:-1], -1)


def _read_out_gradients(dsummed: Array, states: Array, contexts: Array, words: Array | None) -> Named:
    rows = as_rows(dsummed)
    g = {"readout_context": multiply(as_rows(contexts).T, rows)}
    g["readout_state"], g["readout_bias"] = multiply_and_sum(as_rows(states).T, rows)
    if words is not None:
        g["readout_word"] = multiply(as_rows(words).T, rows)
    return g

"""One step of the recurrent decoder, the same function for training and for search, in three styles.

Letters: B sentences or (B, k) hypotheses of them, E embedding, D decoder state, S state of all layers, C annotation, G
gates of a cell. The styles differ in when the decoder attends::

    bahdanau    context = attention(state before)                         (Bahdanau, Cho and Bengio 2014, A.2.2)
                state   = cell(token before, context; state before)
                readout = tanh(token before + state + context, each projected)

    luong       state   = cell(token before, readout before; state before) (Luong, Pham and Manning 2015, 3.1 and 3.3;
                context = attention(state)                                 the readout before: input feeding)
                readout = tanh(state + context, each projected)

    conditional between = cell(token before; state before)            (Sennrich et al. 2017, "Nematus: a Toolkit for
                context = attention(between)                           Neural Machine Translation", section 3)
                state   = second cell(context; between)
                readout = tanh(token before + state + context, each projected)

and in all, logits = readout @ target_embedding.T.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from regard._layout import as_rows
from regard.kernels.matrix import multiply, multiply_and_sum
from regard.nn import linear
from regard.seq2seq.networks.recurrent.cells import Stack, parts
from regard.seq2seq.networks.recurrent.config import RecurrentConfig

__all__ = ["Attended", "DecoderStep", "decoder_step", "read_out", "read_out_gradients"]

Array = NDArray[Any]
Named = dict[str, Array]
Attend = Callable[[Array], tuple[Array, Any]]


class AttendBack(Protocol):
    """The backward pass of an attention step."""

    def __call__(self, dcontext: Array, dweights: Array | None = None, /) -> Array:
        """Return the gradient of the state that attended."""


class Attended(NamedTuple):
    """The result of one step.

    Parameters
    ----------
    memory : array (..., S)
        The state of all layers after the step.
    state : array (..., D)
        The last layer's part of it.
    context : array (..., C)
        The weighted sum of annotations.
    weights : array (..., T) or None
        The attention weights, if the attention returns them.
    """

    memory: Array
    state: Array
    context: Array
    weights: Any


class DecoderStep(ABC):
    """One decoder step of a style, with its backward pass.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : RecurrentConfig
        Its configuration.
    keep : bool
        Whether there will be a backward pass.
    """

    def __init__(self, p: Mapping[str, Array], c: RecurrentConfig, *, keep: bool = False) -> None:
        self.p, self.c, self.keep = p, c, keep
        self.stack = Stack(p, c.cell, c.layers)

    @abstractmethod
    def forward(self, gates: Array, memory: Array, readout: Array | None, attend: Attend) -> Attended:
        """Take a step.

        Parameters
        ----------
        gates : array (..., G D)
            The summand of the previous token in the gates of the first layer.
        memory : array (..., S)
            The state of all layers before the step.
        readout : array (..., E) or None
            The readout of the step before, None at the first step.
        attend : callable
            ``attend(state) -> (context, weights)``.

        Returns
        -------
        Attended
            The state after the step, and the context.
        """

    @abstractmethod
    def backward(
        self, dmemory: Array, dstate: Array, dcontext: Array, dweights: Array | None, back: AttendBack
    ) -> tuple[Array, Array]:
        """Run the backward pass of the last step: from gradients of its results to (dgates, dmemory before)."""

    @abstractmethod
    def gradients(self, dgates: Array, contexts: Array, readouts: Array) -> Named:
        """Return the gradients of the parameters of all steps, after the last backward step."""

    def readout_gradient(self, dgates: Array) -> Array | None:
        """Return the gradient of the readout that a step has read, None where it reads none."""
        return None

    def _add_to_top(self, dmemory: Array, *gradients: Array) -> None:
        for gradient in gradients:
            self.stack.top(dmemory)[...] += gradient


class _AttendFirst(DecoderStep):
    """Bahdanau's style: the state before the step attends."""

    def forward(self, gates: Array, memory: Array, readout: Array | None, attend: Attend) -> Attended:
        context, weights = attend(self.stack.top(memory))
        gates = gates + context @ self.p["decoder_context"]
        memory = self.stack.forward(gates, memory, keep=self.keep)
        return Attended(memory, self.stack.top(memory), context, weights)

    def backward(
        self, dmemory: Array, dstate: Array, dcontext: Array, dweights: Array | None, back: AttendBack
    ) -> tuple[Array, Array]:
        self._add_to_top(dmemory, dstate)
        dgates, dmemory = self.stack.backward(dmemory)
        dcontext = dcontext + dgates @ self.stack.transposed("decoder_context")
        self._add_to_top(dmemory, back(dcontext, dweights))
        return dgates, dmemory

    def gradients(self, dgates: Array, contexts: Array, readouts: Array) -> Named:
        return self.stack.g | {"decoder_context": as_rows(contexts).T @ as_rows(dgates)}


class _AttendLast(DecoderStep):
    """Luong's style: the state after the step attends; with input feeding, the next step reads the readout."""

    def forward(self, gates: Array, memory: Array, readout: Array | None, attend: Attend) -> Attended:
        if self.c.feeding and readout is not None:
            gates = gates + readout @ self.p["decoder_readout"]
        memory = self.stack.forward(gates, memory, keep=self.keep)
        state = self.stack.top(memory)
        return Attended(memory, state, *attend(state))

    def backward(
        self, dmemory: Array, dstate: Array, dcontext: Array, dweights: Array | None, back: AttendBack
    ) -> tuple[Array, Array]:
        self._add_to_top(dmemory, dstate + back(dcontext, dweights))
        return self.stack.backward(dmemory)

    def gradients(self, dgates: Array, contexts: Array, readouts: Array) -> Named:
        if not self.c.feeding:
            return self.stack.g
        fed = np.concatenate([np.zeros_like(readouts[:1]), readouts[:-1]])
        return self.stack.g | {"decoder_readout": as_rows(fed).T @ as_rows(dgates)}

    def readout_gradient(self, dgates: Array) -> Array | None:
        return dgates @ self.p["decoder_readout"].T if self.c.feeding else None


class _AttendBetween(DecoderStep):
    """The conditional style: the state between two cells attends, and the second cell reads the context."""

    def __init__(self, p: Mapping[str, Array], c: RecurrentConfig, *, keep: bool = False) -> None:
        super().__init__(p, c, keep=keep)
        self.second = Stack({"decoder_state": p["decoder_state_after"]}, c.cell, 1)
        self.own = parts(c.cell) * c.decoder  # the last layer's part of the memory, at its end
        self.dsecond: list[Array] = []

    def forward(self, gates: Array, memory: Array, readout: Array | None, attend: Attend) -> Attended:
        between = self.stack.forward(gates, memory, keep=self.keep)
        context, weights = attend(self.stack.top(between))
        second, _ = linear(context, self.p["decoder_context"], self.p["decoder_bias_after"])
        last = self.second.forward(second, between[..., -self.own :], keep=self.keep)
        memory = np.concatenate([between[..., : -self.own], last], axis=-1)
        return Attended(memory, self.stack.top(memory), context, weights)

    def backward(
        self, dmemory: Array, dstate: Array, dcontext: Array, dweights: Array | None, back: AttendBack
    ) -> tuple[Array, Array]:
        self._add_to_top(dmemory, dstate)
        dsecond, dlast = self.second.backward(dmemory[..., -self.own :])
        self.dsecond.append(dsecond)
        dbetween = np.concatenate([dmemory[..., : -self.own], dlast], axis=-1)
        dcontext = dcontext + dsecond @ self.stack.transposed("decoder_context")
        self._add_to_top(dbetween, back(dcontext, dweights))
        return self.stack.backward(dbetween)

    def gradients(self, dgates: Array, contexts: Array, readouts: Array) -> Named:
        dsecond = as_rows(np.stack(self.dsecond[::-1])) if self.dsecond else as_rows(dgates)
        return self.stack.g | {
            "decoder_context": as_rows(contexts).T @ dsecond,
            "decoder_bias_after": dsecond.sum(axis=0),
            "decoder_state_after": self.second.g["decoder_state"],
        }


_STYLES: dict[str, type[DecoderStep]] = {
    "bahdanau": _AttendFirst,
    "luong": _AttendLast,
    "conditional": _AttendBetween,
}


def decoder_step(p: Mapping[str, Array], c: RecurrentConfig, *, keep: bool = False) -> DecoderStep:
    """Return the decoder step of a configuration's style.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : RecurrentConfig
        Its configuration.
    keep : bool
        Whether there will be a backward pass.

    Returns
    -------
    DecoderStep
        Before the first step.

    Examples
    --------
    >>> from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
    >>> c = RecurrentConfig(9, 7, embedding=4, encoder=3, decoder=5, attention=2)
    >>> step = decoder_step(RecurrentNetwork(c).parameters, c)
    >>> context = np.zeros((1, 6))
    >>> step.forward(np.zeros((1, 15)), np.ones((1, 5)), None, lambda state: (context, None)).state.tolist()
    [[0.25, 0.25, 0.25, 0.25, 0.25]]
    """
    return _STYLES[c.style](p, c, keep=keep)


def read_out(p: Mapping[str, Array], states: Array, contexts: Array, embeddings: Array | None) -> Array:
    """Return the readout, from which the next token is predicted by a product with the target embedding.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    states : array (..., D)
        The states of the last layer.
    contexts : array (..., C)
        The contexts.
    embeddings : array (..., E) or None
        The embeddings of the tokens before; None in Luong's style.

    Returns
    -------
    array (..., E)
        The readout.

    Examples
    --------
    >>> p = {f"readout_{name}": np.eye(1) for name in ("state", "context", "word")} | {"readout_bias": np.zeros(1)}
    >>> read_out(p, np.ones((2, 1)), np.ones((2, 1)), -2 * np.ones((2, 1))).tolist()
    [[0.0], [0.0]]
    """
    summed = multiply(as_rows(states), p["readout_state"], p["readout_bias"])
    if embeddings is not None:
        multiply(as_rows(embeddings), p["readout_word"], out=summed, add=True)
    multiply(as_rows(contexts), p["readout_context"], out=summed, add=True, squash=True)
    return summed.reshape(*states.shape[:-1], -1)


def read_out_gradients(dsummed: Array, states: Array, contexts: Array, embeddings: Array | None) -> Named:
    """Return the gradients of the readout's parameters.

    Parameters
    ----------
    dsummed : array (..., E)
        The gradient of the argument of the hyperbolic tangent.
    states, contexts, embeddings
        As for `read_out`.

    Returns
    -------
    dict of str to array
        By parameter name.

    Examples
    --------
    >>> read_out_gradients(np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 1)), None)["readout_state"].tolist()
    [[2.0]]
    """
    rows = as_rows(dsummed)
    g = {"readout_context": multiply(as_rows(contexts).T, rows)}
    g["readout_state"], g["readout_bias"] = multiply_and_sum(as_rows(states).T, rows)
    if embeddings is not None:
        g["readout_word"] = multiply(as_rows(embeddings).T, rows)
    return g

"""One step of the recurrent decoder, defined once over the operations of `ops`: for training and for search.

The styles differ in when the decoder attends::

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

and in all, logits = readout @ target_embedding.T + output_bias.

Letters: E embedding, D decoder state, C annotation, T source positions, G gates of a cell; a memory is the state of
each layer and, of an LSTM, its cell after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from regard.seq2seq.networks.recurrent.cells import layer, parts
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.ops import Ops

__all__ = ["Stepped", "enter", "leave", "readout_terms", "step", "top"]

V = TypeVar("V")


class Stepped(NamedTuple, Generic[V]):
    """The result of a step: memory, the last layer's state (..., D), context (..., C), attention weights (..., T)."""

    memory: tuple[V, ...]
    state: V
    context: V
    weights: Any


def enter(ops: Ops[V], embedding: V) -> V:
    """Return the summand (..., G D) of the token before, of embedding (..., E), in the gates of the first layer."""
    return ops.linear((embedding, "decoder_word"), bias="decoder_bias")


def step(ops: Ops[V], c: RecurrentConfig, gates: V, memory: Sequence[V], fed: V | None = None) -> Stepped[V]:
    """Take a step with the result of `enter`; `fed` is the readout before (..., E), with input feeding."""
    if c.style == "bahdanau":
        context, weights = _attend(ops, c, memory)
        gates = ops.linear((context, "decoder_context"), added=gates)
    if fed is not None:
        gates = ops.linear((fed, "decoder_readout"), added=gates)
    memory = _layers(ops, c, gates, memory)
    if c.style != "bahdanau":
        context, weights = _attend(ops, c, memory)
    if c.style == "conditional":
        count = parts(c.cell)
        second = ops.linear((context, "decoder_context"), bias="decoder_bias_after")
        memory = [*memory[:-count], *_cell(ops, second, memory[-count:], "decoder_state_after")]
    return Stepped(tuple(memory), top(c, memory), context, weights)


def leave(ops: Ops[V], c: RecurrentConfig, embedding: V, state: V, context: V) -> V:
    """Return the readout (..., E), from which the next token is predicted."""
    terms = (*readout_terms(c, embedding, state), (context, "readout_context"))
    return ops.linear(*terms, bias="readout_bias", squash=True)


def readout_terms(c: RecurrentConfig, embedding: V, state: V) -> list[tuple[V, str]]:
    """Return the factors of the readout's summands, except the context's."""
    terms = [(state, "readout_state")]
    return terms if c.style == "luong" else [*terms, (embedding, "readout_word")]


def top(c: RecurrentConfig, memory: Sequence[V]) -> V:
    """Return the last layer's state of a memory."""
    return memory[-parts(c.cell)]


def _attend(ops: Ops[V], c: RecurrentConfig, memory: Sequence[V]) -> tuple[V, Any]:
    state = top(c, memory)
    query = ops.linear((state, "query_weight")) if c.projects_queries else state
    if not c.predicts:
        return ops.attend(query)
    hidden = ops.linear((state, "position_weight"), squash=True)
    return ops.attend(query, ops.linear((hidden, "position_vector")))


def _layers(ops: Ops[V], c: RecurrentConfig, gates: V, memory: Sequence[V]) -> list[V]:
    """Take the step in each layer: the first reads the gates' summand, each other the state of the one below."""
    new: list[V] = []
    for number in range(c.layers):
        if number:
            gates = ops.linear(
                (top(c, new), layer("decoder_input", number)), bias=layer("decoder_bias", number)
            )
        states = memory[number * parts(c.cell) : (number + 1) * parts(c.cell)]
        new += _cell(ops, gates, states, layer("decoder_state", number))
    return new


def _cell(ops: Ops[V], gates: V, memory: Sequence[V], weight: str) -> tuple[V, ...]:
    return ops.cell(gates, ops.linear((memory[0], weight)), *memory)

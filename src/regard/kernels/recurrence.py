"""Gated recurrent units over sequences: in the library (`training/recurrence.cpp`) and in NumPy.

`native_does` and the memory layout of the states decide which is used: the library computes in float32 only, on the
calling thread. A decoder that attends is in the library only. The callers have checked all arrays. Letters: n steps of
B sequences, H size of the state; with attention, T positions, A size of the attention's perceptron, C size of the
values.

Padding has no influence, even where it is NaN.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.kernels import library

__all__: list[str] = []

Array = NDArray[Any]
Counts = NDArray[np.int64]
Pull = Callable[..., Any]


def native_does(*arrays: Array | None) -> bool:
    """Return whether the library can compute with these arrays, all of them float32."""
    return library.trains(library.load()) is not None and all(
        x is None or x.dtype == np.float32 for x in arrays
    )


# ---- a sequence of steps -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gru:
    """A gated recurrent unit and its input.

    `inputs` (n, B, 3 H), `start` (B, H), `weight` (H, 3 H), `bias` (3 H) or None, `lengths` (B,) or None: the steps of
    each sequence, after which its state stays unchanged. `reverse`: whether the last step comes first.
    """

    inputs: Array
    start: Array
    weight: Array
    bias: Array | None = None
    lengths: Counts | None = None
    reverse: bool = False


def gru(g: Gru, states: Array, keep: bool = True) -> Pull:
    """Write the states after each step to (n, B, H), which must stay unchanged for the gradients.

    Returns ``pullback(dstates, dinputs) -> (dhidden (n, B, 3 H), dstart (B, H))``, which writes to `dinputs`. `dhidden`
    is the gradient of ``state before @ weight + bias``. `states`, `dstates` and `dinputs` may have strides between
    rows. With `keep` False it can't be called.
    """
    native = native_does(g.inputs, g.start, g.weight, g.bias) and _has_rows(states)
    return (_native_gru if native else _plain_gru)(g, states, keep)


@dataclass(frozen=True)
class AdditiveAttention:
    """Additive attention in every step of a decoder.

    `keys` (B, T, A), `values` (B, T, C), `lengths` (B,) or None: positions of each sequence; `query_weight` (H, A),
    `vector` (A,), `context_weight` (C, 3 H): from the context to the gates, added to the inputs.
    """

    keys: Array
    values: Array
    lengths: Counts | None
    query_weight: Array
    vector: Array
    context_weight: Array

    @property
    def counts(self) -> Counts:
        """Positions of each sequence (B,)."""
        batch, positions, _ = self.keys.shape
        return np.full(batch, positions) if self.lengths is None else self.lengths


@dataclass(frozen=True)
class SecondGru:
    """A second unit, which steps after attending, from the query state: `weight` (H, 3 H), `bias` (3 H).

    With it, the first unit reads the inputs and gives the query, and the second reads the context.
    """

    weight: Array
    bias: Array


@dataclass(frozen=True)
class DecoderSteps:
    """The steps of a decoder: `states` (n + 1, B, H) from the start on, `contexts` (n, B, C), `weights` (n, B, T).

    `query_states` (n, B, H) are the states that attend: those before each step, or between its two units.
    """

    states: Array
    contexts: Array
    weights: Array
    query_states: Array

    @classmethod
    def empty(cls, g: Gru, attention: AdditiveAttention, second: SecondGru | None) -> DecoderSteps:
        """Allocate the arrays."""
        (n, batch, _), size = g.inputs.shape, len(g.weight)
        _, positions, width = attention.values.shape
        shapes = (n + 1, batch, size), (n, batch, width), (n, batch, positions)
        states, contexts, weights = (np.empty(shape, np.float32) for shape in shapes)
        states[0] = g.start
        query_states = np.empty((n, batch, size), np.float32) if second else states[:-1]
        return cls(states, contexts, weights, query_states)


@dataclass(frozen=True)
class DecoderGradients:
    """Gradients of a decoder.

    `dinputs` and `dhidden` (n, B, 3 H) are those of the summands of the gates, `dqueries` (n, B, A) those of the
    projected queries, `dstart`, `dkeys`, `dvalues` and `dvector` those of the arrays of these names. `dsecond` and
    `dsecond_hidden` are those of the gates of the second unit; without a second unit, of the first.
    """

    dinputs: Array
    dhidden: Array
    dstart: Array
    dqueries: Array
    dkeys: Array
    dvalues: Array
    dvector: Array
    dsecond: Array
    dsecond_hidden: Array

    @classmethod
    def empty(cls, g: Gru, attention: AdditiveAttention, second: SecondGru | None) -> DecoderGradients:
        """Allocate the arrays, with zeros where gradients are summed."""
        shape, gates = (*g.inputs.shape[:2], len(attention.vector)), g.inputs.shape
        inputs, hidden, start, queries = (
            np.empty(s, np.float32) for s in (gates, gates, g.start.shape, shape)
        )
        keys, values, vector = (
            np.zeros(x.shape, np.float32) for x in (attention.keys, attention.values, attention.vector)
        )
        of_second = (np.empty(gates, np.float32), np.empty(gates, np.float32)) if second else (inputs, hidden)
        return cls(inputs, hidden, start, queries, keys, values, vector, *of_second)


# ---- in NumPy ------------------------------------------------------------------------------------------------


def step(
    inputs: Array, hidden: Array, state: Array
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array]]]:
    """Take one step from the two summands of the gates: `nn.gru_step`."""
    size = state.shape[-1]
    gates = _sigmoid(inputs[..., : 2 * size] + hidden[..., : 2 * size])
    reset, update = gates[..., :size], gates[..., size:]
    candidate = reset * hidden[..., 2 * size :]
    candidate += inputs[..., 2 * size :]
    np.tanh(candidate, out=candidate)
    new = state - candidate
    new *= update
    new += candidate

    def pullback(dnew: Array) -> tuple[Array, Array, Array]:
        dinputs, dhidden = np.empty_like(inputs), np.empty_like(hidden)
        dcandidate = dinputs[..., 2 * size :]
        np.multiply(1 - update, dnew, out=dcandidate)
        dcandidate *= 1 - candidate * candidate
        np.multiply(dcandidate, reset, out=dhidden[..., 2 * size :])
        np.multiply(dcandidate, hidden[..., 2 * size :], out=dinputs[..., :size])  # of the reset gate
        np.multiply(state - candidate, dnew, out=dinputs[..., size : 2 * size])  # of the update gate
        slope = 1 - gates
        slope *= gates
        dinputs[..., : 2 * size] *= slope
        dhidden[..., : 2 * size] = dinputs[..., : 2 * size]
        return dinputs, dhidden, dnew * update

    return new, pullback


def _sigmoid(x: Array) -> Array:
    """Overwrite x with 1 / (1 + exp(-x)), by tanh, which can't overflow."""
    x *= 0.5
    np.tanh(x, out=x)
    x += 1
    x *= 0.5
    return x


def _plain_gru(g: Gru, states: Array, keep: bool) -> Pull:
    order = list(range(len(g.inputs)))[:: -1 if g.reverse else 1]
    pulls: dict[int, Pull] = {}
    state = g.start
    for t in order:
        active = slice(None) if g.lengths is None else t < g.lengths  # (B,)
        hidden = state[active] @ g.weight
        if g.bias is not None:
            hidden += g.bias
        states[t] = state
        states[t][active], pull = step(g.inputs[t][active], hidden, state[active])
        if keep:
            pulls[t] = pull
        state = states[t]

    def pullback(dstates: Array, dinputs: Array) -> tuple[Array, Array]:
        dhidden = np.zeros(g.inputs.shape, dstates.dtype)
        dinputs[...] = 0
        dstate = np.zeros(g.start.shape, dstates.dtype)
        for t in reversed(order):
            active = slice(None) if g.lengths is None else t < g.lengths
            dstate += dstates[t]
            dinputs[t][active], dhidden[t][active], direct = pulls[t](dstate[active])
            dstate[active] = direct + dhidden[t][active] @ g.weight.T
        return dhidden, dstate

    return pullback


# ---- in the library ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    """A recurrence as a structure of the library, and the arrays that it points to."""

    c: Any
    alive: list[Any]

    def point_to(self, **arrays: Array | None) -> None:
        """Set the addresses of arrays."""
        for name, x in arrays.items():
            self.alive.append(x)
            setattr(self.c, name, None if x is None else library.address(x))

    def copy(self) -> _Call:
        """Return a copy for further addresses."""
        return _Call(type(self.c).from_buffer_copy(self.c), [self.alive])

    def run(self, backward: bool) -> None:
        """Run the kernel, in one thread."""
        c = self.c
        each = 3 * c.size * (c.size + c.context) + c.hidden * (c.size + library.TANH_WORK * c.positions)
        library.run("recur", c, backward, c.steps * c.batch * each * (2 if backward else 1))


def _has_rows(x: Array) -> bool:
    """Return whether an array (n, B, size) of float32 has contiguous rows with one stride between them."""
    n, batch, size = x.shape
    plain = x.dtype == np.float32 and x.flags.aligned
    contiguous = size < 2 or x.strides[2] == x.itemsize
    evenly_spaced = n < 2 or batch < 2 or x.strides[0] == batch * x.strides[1]
    return bool(plain and contiguous and evenly_spaced and _row_bytes(x) % x.itemsize == 0)


def _rows(x: Array) -> Array:
    return x if _has_rows(x) else np.require(x, np.float32, ["C", "A"])


def _contiguous(x: Array | None) -> Array | None:
    """Return an array as contiguous float32 in native byte order."""
    return None if x is None else np.require(x, np.float32, ["C", "A"])


def _counts(x: Counts | None) -> Counts | None:
    return None if x is None else np.require(x, np.int64, ["C", "A"])


def _row_stride(x: Array) -> int:
    """Return the stride between rows in elements."""
    return _row_bytes(x) // x.itemsize


def _row_bytes(x: Array) -> int:
    """Return the stride between rows in bytes; that of a dimension of size 1 is arbitrary."""
    n, batch, size = x.shape
    return x.strides[1] if batch > 1 else x.strides[0] if n > 1 else size * x.itemsize


def _call(g: Gru, states: Array, keep: bool = True) -> _Call:
    (n, batch, _), size = g.inputs.shape, len(g.weight)
    inputs = _rows(g.inputs)
    c = library.structure("Recurrence", steps=n, batch=batch, size=size, reversed=g.reverse)
    c.input_row, c.state_row = _row_stride(inputs), _row_stride(states)
    call = _Call(c, [])
    call.point_to(inputs=inputs, states=states, start=_contiguous(g.start), lengths=_counts(g.lengths))
    call.point_to(state_weight=_contiguous(g.weight), state_bias=_contiguous(g.bias))
    call.point_to(gates=_gates(n * batch, size) if keep else None)
    return call


def _gates(rows: int, size: int) -> Array:
    """Allocate memory for the values of each step that the backward pass needs."""
    return np.empty((rows, 4, library.padded(size)), np.float32)


def _native_gru(g: Gru, states: Array, keep: bool) -> Pull:
    call = _call(g, states, keep)
    call.run(False)

    def pullback(dstates: Array, dinputs: Array) -> tuple[Array, Array]:
        backward, dstates = call.copy(), _rows(dstates)
        dhidden, dstart = np.empty(g.inputs.shape, np.float32), np.empty(g.start.shape, np.float32)
        written = dinputs if _has_rows(dinputs) else np.empty(dinputs.shape, np.float32)
        backward.c.dstate_row, backward.c.dinput_row = _row_stride(dstates), _row_stride(written)
        backward.point_to(dstates=dstates, dinputs=written, dhidden=dhidden, dstart=dstart)
        backward.run(True)
        if written is not dinputs:
            dinputs[...] = written
        return dhidden, dstart

    return pullback


def attended_gru(
    g: Gru, attention: AdditiveAttention, second: SecondGru | None = None
) -> tuple[DecoderSteps, Callable[[Array, Array, Array | None], DecoderGradients]]:
    """Run a decoder that attends in every step; ``pullback(dstates (n, B, H), dcontexts, dweights)``."""
    steps = DecoderSteps.empty(g, attention, second)
    call = _call(g, steps.states[1:])
    _, call.c.positions, call.c.context = attention.values.shape
    call.c.hidden = len(attention.vector)
    call.point_to(
        valid_positions=_counts(attention.counts),
        keys=_contiguous(attention.keys),
        values=_contiguous(attention.values),
    )
    call.point_to(query_weight=_contiguous(attention.query_weight), vector=_contiguous(attention.vector))
    call.point_to(
        context_weight=_contiguous(attention.context_weight), weights=steps.weights, contexts=steps.contexts
    )
    call.point_to(queries=np.empty((*g.inputs.shape[:2], len(attention.vector)), np.float32))
    if second:
        call.point_to(
            second_weight=_contiguous(second.weight),
            second_bias=_contiguous(second.bias),
            attending_states=steps.query_states,
        )
        call.point_to(second_gates=_gates(len(g.inputs) * len(g.start), len(g.weight)))
    call.run(False)

    def pullback(dstates: Array, dcontexts: Array, dweights: Array | None) -> DecoderGradients:
        backward, dstates = call.copy(), _rows(dstates)
        d = DecoderGradients.empty(g, attention, second)
        backward.c.dstate_row, backward.c.dinput_row = _row_stride(dstates), _row_stride(d.dinputs)
        backward.point_to(
            dstates=dstates, dcontexts=_contiguous(dcontexts), dweights=_contiguous(dweights), **vars(d)
        )
        backward.run(True)
        return d

    return steps, pullback


class FusedDecoder:
    """A decoder whose rows are hypotheses of sentences; in the library only, see `native_does`.

    `keys` (S, T, A), `values` (S, T, C) and `lengths` (S,) of S sentences, `query_weight` (H, A), `vector` (A,) and the
    state's `weight` (H, 3 H) are converted once. The first 3 H columns of the values are their summands of the gates,
    of the second unit if there is one.
    """

    def __init__(
        self,
        keys: Array,
        values: Array,
        lengths: Counts,
        query_weight: Array,
        vector: Array,
        weight: Array,
        second: SecondGru | None = None,
    ) -> None:
        sentences, positions, width = values.shape
        self.sizes = len(weight), len(vector), width, positions
        self.call = _Call(library.structure("Recurrence", steps=1, size=len(weight)), [])
        c = self.call.c
        c.positions, c.hidden, c.context, c.sentences = positions, len(vector), width, sentences
        self.call.point_to(
            valid_positions=_counts(lengths), keys=_contiguous(keys), values=_contiguous(values)
        )
        self.call.point_to(
            query_weight=_contiguous(query_weight),
            vector=_contiguous(vector),
            state_weight=_contiguous(weight),
        )
        self.has_second = second is not None
        if second:
            self.call.point_to(second_weight=_contiguous(second.weight), second_bias=_contiguous(second.bias))
        self.workspace = np.empty(0, np.uint8)

    def step(self, inputs: Array, start: Array, sentence: Counts) -> DecoderSteps:
        """Take a step of R hypotheses of sentences (R,), from inputs (R, 3 H) and states `start` (R, H)."""
        rows, (size, hidden, width, positions) = len(start), self.sizes
        if inputs.shape != (rows, 3 * size) or start.shape != (rows, size) or len(sentence) != rows:
            _check.fail(
                f"tokens must be one for each of {rows} hypotheses. Got {len(inputs)} of {len(sentence)} instead."
            )
        states, contexts, weights, queries = (
            np.empty((1, rows, count), np.float32) for count in (size, width, positions, hidden)
        )
        gates = _gates(rows, size)
        inputs = _rows(inputs[None])
        call = _Call(self.call.c, [])
        call.c.batch, call.c.input_row, call.c.state_row = rows, _row_stride(inputs), size
        call.point_to(
            inputs=inputs, start=_contiguous(start), states=states, contexts=contexts, weights=weights
        )
        call.point_to(queries=queries, gates=gates, sentence_of_row=_counts(sentence))
        query_states = start
        if self.has_second:
            query_states = np.empty((rows, size), np.float32)
            call.point_to(
                attending_states=query_states, second_gates=gates
            )  # neither is read, so both may write there
        self._reserve_workspace(call)
        call.run(False)
        call.c.workspace_filled = 1
        return DecoderSteps(states[0], contexts[0], weights[0], query_states)

    def _reserve_workspace(self, call: _Call) -> None:
        loaded = library.load()
        assert loaded is not None
        needed = loaded.regard_recurrence_bytes(ctypes.byref(call.c))
        if needed > len(self.workspace):
            self.workspace, call.c.workspace_filled = library.workspace(needed), 0
            call.c.workspace = library.address(self.workspace)

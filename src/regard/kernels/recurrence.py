"""Gated recurrent units over whole sequences: the library's (`training/recurrence.cpp`) and NumPy's.

Which of the two does the work is decided in `native_does`, and by how states lie: the library has them for float32
only. It uses the thread that calls it and no other. Arrays are taken as `nn` has checked them. Letters: n steps of B
sequences, H the state's size; where every step looks at other states, T positions, A the size of the attention's
perceptron, C of the values.

What lies behind the end of a sequence has no influence, NaN included.
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
    """Say whether the library computes with these arrays: it is there and can, and they are all float32."""
    return library.trains(_library()) is not None and all(x is None or x.dtype == np.float32 for x in arrays)


# ---- a sequence of steps -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gru:
    """A gated recurrent unit, and the sequence it reads.

    `inputs` (n, B, 3 H), `start` (B, H), `weight` (H, 3 H), `bias` (3 H) or None, `lengths` (B,) or None: steps of each
    sequence, at later ones its state stays what it was. `reverse`: whether the last step comes first.
    """

    inputs: Array
    start: Array
    weight: Array
    bias: Array | None = None
    lengths: Counts | None = None
    reverse: bool = False


def gru(g: Gru, states: Array, keep: bool = True) -> Pull:
    """Write the states after each step to (n, B, H), which must stay as they are for the gradients.

    Returns ``pullback(dstates, dinputs) -> (dhidden (n, B, 3 H), dstart (B, H))``, which writes to `dinputs`. `dhidden`
    is the gradient of ``state before @ weight + bias``. The rows of `states`, `dstates` and `dinputs` may be apart.
    Where nothing is to be kept for it, it can't be called.
    """
    does = native_does(g.inputs, g.start, g.weight, g.bias) and _in_rows(states)
    return (_native_gru if does else _plain_gru)(g, states, keep)


@dataclass(frozen=True)
class Looks:
    """What every step of a decoder looks at, and how.

    `keys` (B, T, A), `values` (B, T, C), `lengths` (B,) or None: positions of each sequence; `query_weight` (H, A),
    `vector` (A,), `context_weight` (C, 3 H): from what is seen to the gates, added to the inputs.
    """

    keys: Array
    values: Array
    lengths: Counts | None
    query_weight: Array
    vector: Array
    context_weight: Array

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All that is not whole numbers."""
        return self.keys, self.values, self.query_weight, self.vector, self.context_weight

    @property
    def seen(self) -> Counts:
        """Positions of each sequence (B,)."""
        batch, positions, _ = self.keys.shape
        return np.full(batch, positions) if self.lengths is None else self.lengths


@dataclass(frozen=True)
class After:
    """A unit that takes a step after each look, from the state that looked: `weight` (H, 3 H), `bias` (3 H).

    Where there is one, it is what reads the contexts; the first unit reads the inputs, and looks.
    """

    weight: Array
    bias: Array


@dataclass(frozen=True)
class Unrolled:
    """A decoder's steps: `states` (n + 1, B, H) from the start on, `contexts` (n, B, C), `weights` (n, B, T).

    `looked` (n, B, H) are the states that looked: those before each step, or between its two.
    """

    states: Array
    contexts: Array
    weights: Array
    looked: Array

    @classmethod
    def room(cls, g: Gru, looks: Looks, after: After | None) -> Unrolled:
        """Return arrays to be filled."""
        known = (g.inputs, g.start, g.weight, *looks.arrays, *(vars(after).values() if after else ()))
        dtype = np.result_type(*known)
        (n, batch, _), size = g.inputs.shape, len(g.weight)
        _, positions, width = looks.values.shape
        shapes = (n + 1, batch, size), (n, batch, width), (n, batch, positions)
        states, contexts, weights = (np.empty(shape, dtype) for shape in shapes)
        states[0] = g.start
        looked = np.empty((n, batch, size), dtype) if after else states[:-1]
        return cls(states, contexts, weights, looked)


@dataclass(frozen=True)
class Unrolling:
    """Gradients of an unrolled decoder: of what went into the gates from both sides (n, B, 3 H), of the queries
    (n, B, A), and of the arrays that they are named after.

    `dafter` and `dafter_hidden` are those of the gates of the unit after the looks; without one, of the only unit.
    """

    dinputs: Array
    dhidden: Array
    dstart: Array
    dqueries: Array
    dkeys: Array
    dvalues: Array
    dvector: Array
    dafter: Array
    dafter_hidden: Array

    @classmethod
    def room(cls, g: Gru, looks: Looks, after: After | None, dtype: np.dtype[Any]) -> Unrolling:
        """Return arrays to be filled, and zeros where gradients are added up."""
        shape, gates = (*g.inputs.shape[:2], len(looks.vector)), g.inputs.shape
        inputs, hidden, start, queries = (np.empty(s, dtype) for s in (gates, gates, g.start.shape, shape))
        keys, values, vector = (np.zeros(x.shape, dtype) for x in (looks.keys, looks.values, looks.vector))
        behind = (np.empty(gates, dtype), np.empty(gates, dtype)) if after else (inputs, hidden)
        return cls(inputs, hidden, start, queries, keys, values, vector, *behind)


def attended(
    g: Gru, looks: Looks, after: After | None = None
) -> tuple[Unrolled, Callable[[Array, Array, Array | None], Unrolling]]:
    """Take the steps of a decoder, each after a look; ``pullback(dstates (n, B, H), dcontexts, dweights)``."""
    behind = (after.weight, after.bias) if after else ()
    does = native_does(g.inputs, g.start, g.weight, *looks.arrays, *behind)
    return _native_attended(g, looks, after) if does else _plain_attended(g, looks, after)


# ---- in NumPy ------------------------------------------------------------------------------------------------


def step(
    inputs: Array, hidden: Array, state: Array
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array]]]:
    """Take one step from the two halves of the gates' sums: `nn.gru_step`."""
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
    """Return 1 / (1 + exp(-x)), written over x: by way of tanh it can't overflow."""
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
        awake = slice(None) if g.lengths is None else t < g.lengths  # (B,)
        hidden = state[awake] @ g.weight
        if g.bias is not None:
            hidden += g.bias
        states[t] = state
        states[t][awake], pull = step(g.inputs[t][awake], hidden, state[awake])
        if keep:
            pulls[t] = pull
        state = states[t]

    def pullback(dstates: Array, dinputs: Array) -> tuple[Array, Array]:
        dhidden = np.zeros(g.inputs.shape, dstates.dtype)
        dinputs[...] = 0
        dstate = np.zeros(g.start.shape, dstates.dtype)
        for t in reversed(order):
            awake = slice(None) if g.lengths is None else t < g.lengths
            dstate += dstates[t]
            dinputs[t][awake], dhidden[t][awake], direct = pulls[t](dstate[awake])
            dstate[awake] = direct + dhidden[t][awake] @ g.weight.T
        return dhidden, dstate

    return pullback


@dataclass(frozen=True)
class _Sight:
    """Keys (B, T, A) and values (B, T, C) with zeros where nothing is to be seen, and where something is (B, T)."""

    keys: Array
    values: Array
    seen: NDArray[np.bool_]
    vector: Array

    def look(self, queries: Array) -> tuple[Array, Array]:
        """Return the squashed sums (B, T, A) and the weights (B, T)."""
        squashed = np.tanh(queries[:, None] + self.keys)
        scores = np.where(self.seen, squashed @ self.vector, -np.inf)
        scores -= np.where(self.seen.any(-1), scores.max(-1, initial=-np.inf), 0)[:, None]
        weights = np.exp(scores)
        return squashed, weights / np.where(self.seen.any(-1), weights.sum(-1), 1)[:, None]


def _sight(looks: Looks) -> _Sight:
    seen = np.arange(looks.keys.shape[1]) < looks.seen[:, None]
    keys, values = (np.where(seen[..., None], x, 0) for x in (looks.keys, looks.values))
    return _Sight(keys, values, seen, looks.vector)


def _plain_attended(
    g: Gru, looks: Looks, after: After | None
) -> tuple[Unrolled, Callable[[Array, Array, Array | None], Unrolling]]:
    made, sight = Unrolled.room(g, looks, after), _sight(looks)
    pulls: list[tuple[Pull, Pull | None]] = []
    for t, state in enumerate(made.states[:-1]):
        first, given, weight = None, g.inputs[t], g.weight
        if after:
            made.looked[t], first = step(given, state @ weight, state)
            state, given, weight = made.looked[t], after.bias, after.weight
        _, made.weights[t] = sight.look(state @ looks.query_weight)
        made.contexts[t] = (made.weights[t][:, None] @ sight.values)[:, 0]
        gates = given + made.contexts[t] @ looks.context_weight
        made.states[t + 1], last = step(gates, state @ weight, state)
        pulls.append((last, first))

    def pullback(dstates: Array, dcontexts: Array, dweights: Array | None) -> Unrolling:
        d = Unrolling.room(g, looks, after, made.states.dtype)
        dstate = np.zeros_like(made.states[0])
        for t in reversed(range(len(g.inputs))):
            last, first = pulls[t]
            d.dafter[t], d.dafter_hidden[t], direct = last(dstate + dstates[t])
            dcontext = dcontexts[t] + d.dafter[t] @ looks.context_weight.T
            more = 0 if dweights is None else dweights[t]
            query = made.looked[t] @ looks.query_weight
            d.dqueries[t] = _back_look(sight, query, made.weights[t], dcontext, more, d)
            weight = after.weight if after else g.weight
            dstate = direct + d.dafter_hidden[t] @ weight.T + d.dqueries[t] @ looks.query_weight.T
            if first:
                d.dinputs[t], d.dhidden[t], direct = first(dstate)
                dstate = direct + d.dhidden[t] @ g.weight.T
        d.dstart[...] = dstate
        return d

    return made, pullback


def _back_look(
    sight: _Sight, query: Array, weights: Array, dcontext: Array, dweights: Array | int, d: Unrolling
) -> Array:
    """Add one look's gradients of keys, values and vector, and return that of the queries (B, A)."""
    squashed, _ = sight.look(query)
    of_weights = (sight.values @ dcontext[..., None])[..., 0] + np.where(sight.seen, dweights, 0)  # (B, T)
    dscores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True))
    dsum = dscores[..., None] * sight.vector * (1 - squashed * squashed)  # (B, T, A)
    d.dvalues[...] += weights[..., None] * dcontext[:, None]
    d.dkeys[...] += dsum
    d.dvector[...] += np.einsum("bt,bta->a", dscores, squashed)
    dquery: Array = dsum.sum(1)
    return dquery


# ---- in the library ------------------------------------------------------------------------------------------


class CRecurrence(ctypes.Structure):
    """One recurrence: `struct Recurrence`."""

    _fields_ = [
        *((name, library.Int) for name in ("steps", "batch", "size", "reversed")),
        *((name, library.Int) for name in ("input_row", "state_row", "dinput_row", "dstate_row")),
        *((name, library.Pointer) for name in ("lengths", "inputs", "state_weight", "state_bias", "start")),
        *((name, library.Pointer) for name in ("states", "gates")),
        *((name, library.Int) for name in ("positions", "hidden", "context")),
        *(
            (name, library.Pointer)
            for name in ("valid_positions", "keys", "values", "query_weight", "vector")
        ),
        *((name, library.Pointer) for name in ("context_weight", "queries", "weights", "contexts")),
        *(
            (name, library.Pointer)
            for name in ("second_weight", "second_bias", "attending_states", "second_gates")
        ),
        ("sentences", library.Int),
        *((name, library.Pointer) for name in ("sentence_of_row", "workspace")),
        ("workspace_filled", library.Int),
        *((name, library.Pointer) for name in ("dstates", "dcontexts", "dweights")),
        *((name, library.Pointer) for name in ("dinputs", "dhidden", "dstart", "dsecond", "dsecond_hidden")),
        *((name, library.Pointer) for name in ("dqueries", "dkeys", "dvalues", "dvector", "stop")),
    ]


_library = library.checked({"Recurrence": CRecurrence})


@dataclass(frozen=True)
class _Call:
    """A recurrence in the library's form, and what keeps its memory alive."""

    c: CRecurrence
    alive: list[Any]

    def point(self, **arrays: Array | None) -> None:
        """Tell where arrays are."""
        for name, x in arrays.items():
            self.alive.append(x)
            setattr(self.c, name, None if x is None else library.address(x))

    def again(self) -> _Call:
        """Return a copy that can be told more."""
        return _Call(CRecurrence.from_buffer_copy(self.c), [self.alive])

    def run(self, backward: bool) -> None:
        """Run the kernel, in one thread."""
        c, loaded = self.c, _library()
        assert loaded is not None

        def call(stop: int) -> int:
            c.stop = stop
            failed: int = loaded.regard_recur(ctypes.byref(c), int(backward))
            return failed

        each = 3 * c.size * (c.size + c.context) + c.hidden * (c.size + library.SLOW * c.positions)
        if library.interruptible(call, c.steps * c.batch * each * (2 if backward else 1)):
            raise MemoryError


def _in_rows(x: Array) -> bool:
    """Whether an array (n, B, size) of float32 has its numbers side by side, and its rows at one distance."""
    n, batch, size = x.shape
    plain = x.dtype == np.float32 and x.flags.aligned
    side_by_side = size < 2 or x.strides[2] == x.itemsize
    even = n < 2 or batch < 2 or x.strides[0] == batch * x.strides[1]
    return bool(plain and side_by_side and even and _apart(x) % x.itemsize == 0)


def _rows(x: Array) -> Array:
    return x if _in_rows(x) else np.require(x, np.float32, ["C", "A"])


def _whole(x: Array | None) -> Array | None:
    """Return an array as the library reads it: numbers of the machine's own kind, one after the other."""
    return None if x is None else np.require(x, np.float32, ["C", "A"])


def _counts(x: Counts | None) -> Counts | None:
    return None if x is None else np.require(x, np.int64, ["C", "A"])


def _row(x: Array) -> int:
    """Return how many numbers lie between the starts of two rows."""
    return _apart(x) // x.itemsize


def _apart(x: Array) -> int:
    """Return how many bytes lie between the starts of two rows; the stride of a dimension of 1 says nothing."""
    n, batch, size = x.shape
    return x.strides[1] if batch > 1 else x.strides[0] if n > 1 else size * x.itemsize


def _call(g: Gru, states: Array, keep: bool = True) -> _Call:
    (n, batch, _), size = g.inputs.shape, len(g.weight)
    inputs = _rows(g.inputs)
    made = _Call(CRecurrence(n, batch, size, g.reverse, _row(inputs), _row(states)), [])
    made.point(inputs=inputs, states=states, start=_whole(g.start), lengths=_counts(g.lengths))
    made.point(state_weight=_whole(g.weight), state_bias=_whole(g.bias))
    made.point(gates=_gates(n * batch, size) if keep else None)
    return made


def _gates(rows: int, size: int) -> Array:
    """Return room for what the kernel keeps of each step for the way back."""
    return np.empty((rows, 4, library.padded(size)), np.float32)


def _native_gru(g: Gru, states: Array, keep: bool) -> Pull:
    call = _call(g, states, keep)
    call.run(False)

    def pullback(dstates: Array, dinputs: Array) -> tuple[Array, Array]:
        again, dstates = call.again(), _rows(dstates)
        dhidden, dstart = np.empty(g.inputs.shape, np.float32), np.empty(g.start.shape, np.float32)
        written = dinputs if _in_rows(dinputs) else np.empty(dinputs.shape, np.float32)
        again.c.dstate_row, again.c.dinput_row = _row(dstates), _row(written)
        again.point(dstates=dstates, dinputs=written, dhidden=dhidden, dstart=dstart)
        again.run(True)
        if written is not dinputs:
            dinputs[...] = written
        return dhidden, dstart

    return pullback


def _native_attended(
    g: Gru, looks: Looks, after: After | None
) -> tuple[Unrolled, Callable[[Array, Array, Array | None], Unrolling]]:
    made = Unrolled.room(g, looks, after)
    call = _call(g, made.states[1:])
    _, call.c.positions, call.c.context = looks.values.shape
    call.c.hidden = len(looks.vector)
    call.point(valid_positions=_counts(looks.seen), keys=_whole(looks.keys), values=_whole(looks.values))
    call.point(query_weight=_whole(looks.query_weight), vector=_whole(looks.vector))
    call.point(context_weight=_whole(looks.context_weight), weights=made.weights, contexts=made.contexts)
    call.point(queries=np.empty((*g.inputs.shape[:2], len(looks.vector)), np.float32))
    if after:
        call.point(
            second_weight=_whole(after.weight), second_bias=_whole(after.bias), attending_states=made.looked
        )
        call.point(second_gates=_gates(len(g.inputs) * len(g.start), len(g.weight)))
    call.run(False)

    def pullback(dstates: Array, dcontexts: Array, dweights: Array | None) -> Unrolling:
        again, dstates = call.again(), _rows(dstates)
        d = Unrolling.room(g, looks, after, made.states.dtype)
        again.c.dstate_row, again.c.dinput_row = _row(dstates), _row(d.dinputs)
        again.point(dstates=dstates, dcontexts=_whole(dcontexts), dweights=_whole(dweights), **vars(d))
        again.run(True)
        return d

    return made, pullback


class Search:
    """The steps of a decoder whose rows are hypotheses of sentences; in the library only, see `native_does`.

    What is looked at is given once, and kept in the form that the library computes with: `keys` (S, T, A), `values`
    (S, T, C) and `lengths` (S,) of S sentences, `query_weight` (H, A), `vector` (A,) and the state's `weight` (H, 3 H).
    Values begin with what they give to the gates, 3 H numbers; to those of the unit after the look where there is one.
    """

    def __init__(
        self,
        keys: Array,
        values: Array,
        lengths: Counts,
        query_weight: Array,
        vector: Array,
        weight: Array,
        after: After | None = None,
    ) -> None:
        sentences, positions, width = values.shape
        self.sizes = len(weight), len(vector), width, positions
        self.call = _Call(CRecurrence(1, 0, len(weight)), [])
        c = self.call.c
        c.positions, c.hidden, c.context, c.sentences = positions, len(vector), width, sentences
        self.call.point(valid_positions=_counts(lengths), keys=_whole(keys), values=_whole(values))
        self.call.point(query_weight=_whole(query_weight), vector=_whole(vector), state_weight=_whole(weight))
        self.after = after is not None
        if after:
            self.call.point(second_weight=_whole(after.weight), second_bias=_whole(after.bias))
        self.kept = np.empty(0, np.uint8)

    def step(self, inputs: Array, start: Array, sentence: Counts) -> Unrolled:
        """Let each of R hypotheses look at its sentence (R,), and take a step from inputs (R, 3 H) and start (R, H)."""
        rows, (size, hidden, width, positions) = len(start), self.sizes
        if inputs.shape != (rows, 3 * size) or start.shape != (rows, size) or len(sentence) != rows:
            _check.fail(
                f"words must be one for each of {rows} hypotheses. Got {len(inputs)} of {len(sentence)} instead."
            )
        states, contexts, weights, queries = (
            np.empty((1, rows, count), np.float32) for count in (size, width, positions, hidden)
        )
        gates = _gates(rows, size)
        inputs = _rows(inputs[None])
        call = _Call(self.call.c, [])
        call.c.batch, call.c.input_row, call.c.state_row = rows, _row(inputs), size
        call.point(inputs=inputs, start=_whole(start), states=states, contexts=contexts, weights=weights)
        call.point(queries=queries, gates=gates, sentence_of_row=_counts(sentence))
        looked = start
        if self.after:
            looked = np.empty((rows, size), np.float32)
            call.point(
                attending_states=looked, second_gates=gates
            )  # nobody reads them, so both may write there
        self._make_room(call)
        call.run(False)
        call.c.workspace_filled = 1
        return Unrolled(states[0], contexts[0], weights[0], looked)

    def _make_room(self, call: _Call) -> None:
        loaded = _library()
        assert loaded is not None
        needed = loaded.regard_recurrence_bytes(ctypes.byref(call.c))
        if needed > len(self.kept):
            self.kept, call.c.workspace_filled = library.workspace(needed), 0
            call.c.workspace = library.address(self.kept)

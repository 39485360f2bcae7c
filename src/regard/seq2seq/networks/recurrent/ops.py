"""The operations that a decoder step is made of: their interface, in NumPy, and in NumPy with gradients.

`step` defines the decoder over this interface alone. A value is an array in a search (`Forward`), and a `Node` in
training (`Taped`); whatever else implements the three operations gets the same decoder.

Letters: B sentences, k hypotheses, T source positions, D decoder state, C annotation, G gates of a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard._attention import attention_vjp
from regard._layout import as_rows
from regard.kernels.matrix import multiply, multiply_and_sum
from regard.nn import gru_step, lstm_step
from regard.seq2seq.networks.padding import append_identity
from regard.seq2seq.networks.recurrent.attention import LEARNED, Encoded, Place, attend_once, options
from regard.seq2seq.networks.recurrent.choices import Choices
from regard.seq2seq.networks.recurrent.config import RecurrentConfig

__all__ = ["Forward", "Node", "Ops", "Taped"]

Array = NDArray[Any]
Named = dict[str, Array]
V = TypeVar("V")


class Ops(Protocol[V]):
    """The operations of a decoder step, on values V; parameters are called by their names in the configuration."""

    def linear(
        self, *terms: tuple[V, str], bias: str | None = None, added: V | None = None, squash: bool = False
    ) -> V:
        """Return the sum of ``x @ weight`` for pairs (x, name of a weight), bias and `added`; its tanh if `squash`."""

    def cell(self, inputs: V, hidden: V, *memory: V) -> tuple[V, ...]:
        """Return a layer's memory after a step: the state and, of an LSTM, its cell; gates are of inputs + hidden."""

    def attend(self, query: V, predicted: V | None = None) -> tuple[V, Any]:
        """Return the context and weights of a query; without attention, the encoder's last states are the context.

        `predicted` (..., 1): what the centre of its window is made of, with local_p.
        """


class Forward:
    """The operations on arrays (B, k, ...), without gradients; `number`: that of the step, from 0."""

    def __init__(self, p: Mapping[str, Array], c: RecurrentConfig, source: Encoded, number: int = 0) -> None:
        self.p, self.c, self.source, self.number = p, c, source, number

    def linear(
        self,
        *terms: tuple[Array, str],
        bias: str | None = None,
        added: Array | None = None,
        squash: bool = False,
    ) -> Array:
        """Return a sum of products, as `Ops` describes."""
        total = None if added is None else as_rows(added) + (self.p[bias] if bias else 0)
        for number, (x, weight) in enumerate(terms, 1):
            last = squash and number == len(terms)
            if total is None:
                total = multiply(as_rows(x), self.p[weight], self.p[bias] if bias else None, squash=last)
            else:
                multiply(as_rows(x), self.p[weight], out=total, add=True, squash=last)
        assert total is not None
        return total.reshape(*terms[0][0].shape[:-1], total.shape[-1])

    def cell(self, inputs: Array, hidden: Array, *memory: Array) -> tuple[Array, ...]:
        """Return a layer's memory after a step."""
        return _cell(inputs, hidden, *memory)[0]

    def attend(self, query: Array, predicted: Array | None = None) -> tuple[Array, Array]:
        """Return contexts (B, k, C) and weights (B, k, T) of queries (B, k, ...)."""
        return attend_once(self.p, self.c, self.source, query, Place(self.number, predicted))


def _cell(inputs: Array, hidden: Array, *memory: Array) -> tuple[tuple[Array, ...], Callable[..., Any]]:
    """Return a layer's memory after a step, and its pullback to (dinputs, dhidden, dmemory or None ...)."""
    state, *cell = memory
    if not cell:
        new, gru_back = gru_step(inputs, hidden, state)
        return (new,), gru_back
    pair, lstm_back = lstm_step(inputs, hidden, cell[0])

    def pullback(dstate: Array, dcell: Array) -> tuple[Array | None, ...]:
        dinputs, dhidden, dbefore = lstm_back(dstate, dcell)
        return dinputs, dhidden, None, dbefore  # the state before enters by `hidden` alone

    return pair, pullback


class Node:
    """An array of a computation with gradients, and the sum of the gradients that have come back to it."""

    def __init__(self, value: Array) -> None:
        self.value = value
        self.gradient: Array | None = None
        self._own = False  # whether the gradient is an array of this node alone

    def add(self, gradient: Array) -> None:
        """Add a gradient, which may be an array of others."""
        if self.gradient is None:
            self.gradient = gradient
        elif self._own:
            self.gradient += gradient
        else:
            self.gradient, self._own = self.gradient + gradient, True

    def summed(self) -> Array:
        """Return the gradient, zeros if nothing depended on this value."""
        return np.zeros_like(self.value) if self.gradient is None else self.gradient


class Taped:
    """The operations on nodes (B, ...): each writes its backward pass on a tape, which `backward` runs from the end.

    The gradient of a weight is one product, of what all its uses have multiplied and of what came back to them. The
    functions on the tape get the `Taped` as an argument: a reference to it from its own tape would be a cycle, which
    keeps the arrays of a loss without a backward pass until the garbage collector runs.
    """

    def __init__(
        self,
        p: Mapping[str, Array],
        c: RecurrentConfig,
        source: Encoded,
        *,
        with_weights: bool = False,
        choices: Choices | None = None,
    ) -> None:
        self.p, self.source, self.choices = p, source, choices
        self.c = replace(c, normalize="softmax") if choices else c  # choices are drawn from it
        self.with_weights = c.attends and (with_weights or choices is not None)
        self.forward = Forward(p, c, source)
        self.start, self.keys, self.values, self.final = map(Node, source[:4])
        self.taken = 0  # steps
        self.tape: list[Callable[[Taped], None]] = []
        self.uses: dict[tuple[str, str | None], list[tuple[Array, Array]]] = {}
        self.g: Named = {}

    def linear(
        self,
        *terms: tuple[Node, str],
        bias: str | None = None,
        added: Node | None = None,
        squash: bool = False,
    ) -> Node:
        """Return a sum of products, as `Ops` describes."""
        arrays = [(x.value, weight) for x, weight in terms]
        y = Node(self.forward.linear(*arrays, bias=bias, added=added.value if added else None, squash=squash))

        def back(ops: Taped) -> None:
            dy = y.summed()
            if squash:
                dy = (1 - y.value * y.value) * dy
            rows, bias_name = as_rows(dy), bias
            for x, weight in terms:
                x.add(multiply(rows, ops.p[weight].T).reshape(x.value.shape))
                ops.uses.setdefault((weight, bias_name), []).append((as_rows(x.value), rows))
                bias_name = None  # the bias goes with the first weight
            if added:
                added.add(dy)

        self.tape.append(back)
        return y

    def cell(self, inputs: Node, hidden: Node, *memory: Node) -> tuple[Node, ...]:
        """Return a layer's memory after a step."""
        before = (inputs, hidden, *memory)
        new, pull = _cell(*(node.value for node in before))
        nodes = tuple(map(Node, new))

        def back(_: Taped) -> None:
            for node, gradient in zip(before, pull(*(node.summed() for node in nodes)), strict=True):
                if gradient is not None:
                    node.add(gradient)

        self.tape.append(back)
        return nodes

    def attend(self, query: Node, predicted: Node | None = None) -> tuple[Node, Node | None]:
        """Return the context (B, C) of a query, and the weights (B, T) if they are requested."""
        if not self.c.attends:
            return self.final, None
        size = self.source.values.shape[-1]
        # The weighted sum of an identity's rows is the weights, and their gradient comes back as any value's.
        values = append_identity(self.source.values) if self.with_weights else self.source.values
        place = Place(self.taken, None if predicted is None else predicted.value[:, None])
        chosen = options(self.p, self.c, self.source, place)
        self.taken += 1
        both, pull = attention_vjp(query.value[:, None], self.source.keys, values, **chosen)
        context = Node(both[:, 0, :size])
        weights = Node(both[:, 0, size:]) if self.with_weights else None

        def back(ops: Taped) -> None:
            parts = [context.summed()] + ([weights.summed()] if weights else [])
            gradients = pull(np.concatenate(parts, axis=-1)[:, None])
            query.add(gradients.queries[:, 0])
            ops.keys.add(gradients.keys)
            ops.values.add(gradients.values[..., :size])
            if predicted is not None:
                share = (
                    chosen["normalize"].positions[:, 0] / ops.source.lengths
                )  # a sigmoid of the prediction
                slope = share * (1 - share) * ops.source.lengths
                predicted.add(
                    (gradients.normalize["positions"][:, 0] * slope)[:, None].astype(predicted.value.dtype)
                )
            for name, gradient in gradients.score.items():
                if name in LEARNED:
                    parameter = ops.p[LEARNED[name]]
                    ops._add(LEARNED[name], gradient[..., : parameter.shape[-1]])

        self.tape.append(back)
        if self.choices and weights:
            at_choice = Node(self.choices.context(context.value, weights.value, self.source.values))
            self.tape.append(lambda _: context.add(at_choice.summed()))  # as if it were the weighted sum
            return at_choice, weights
        return context, weights

    def split(self, node: Node, count: int) -> list[Node]:
        """Return equal parts of a node along its last axis."""
        nodes = list(map(Node, np.split(node.value, count, axis=-1)))
        self.tape.append(lambda _: node.add(np.concatenate([part.summed() for part in nodes], axis=-1)))
        return nodes

    def rows(self, node: Node) -> list[Node]:
        """Return the parts of a node along its first axis."""
        nodes = list(map(Node, node.value))
        self.tape.append(lambda _: node.add(np.stack([row.summed() for row in nodes])))
        return nodes

    def stack(self, nodes: Sequence[Node]) -> Node:
        """Return an array of several nodes along a new first axis."""
        stacked = Node(np.stack([node.value for node in nodes]))

        def back(_: Taped) -> None:
            for node, gradient in zip(nodes, stacked.summed(), strict=True):
                node.add(gradient)

        self.tape.append(back)
        return stacked

    def backward(self) -> tuple[Encoded, Named]:
        """Return the gradients of the encoder's output and of the parameters, once those of the results are set."""
        while self.tape:
            self.tape.pop()(self)
        for (weight, bias), uses in self.uses.items():
            x, dy = (
                parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in zip(*uses, strict=True)
            )
            if bias is None:
                self._add(weight, multiply(x.T, dy))
            else:
                of_weight, of_bias = multiply_and_sum(x.T, dy)
                self._add(weight, of_weight)
                self._add(bias, of_bias)
        start, keys, values, final = (
            node.summed() for node in (self.start, self.keys, self.values, self.final)
        )
        return Encoded(start, keys, values, final, self.source.lengths), self.g

    def _add(self, name: str, gradient: Array) -> None:
        self.g[name] = self.g[name] + gradient if name in self.g else gradient

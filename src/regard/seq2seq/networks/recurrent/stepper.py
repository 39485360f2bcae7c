"""The recurrent decoder in a search: hypotheses of many sentences, one token at a time.

Letters: B sentences, k hypotheses, T source positions, E embedding, D decoder state, S state of all layers, G gates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._layout import as_rows
from regard._once import computed_once
from regard.context import recording
from regard.kernels import recurrence
from regard.kernels.matrix import multiply
from regard.nn import linear
from regard.seq2seq.networks.base import Stepper
from regard.seq2seq.networks.recurrent.attention import Encoded
from regard.seq2seq.networks.recurrent.cells import parts
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.ops import Forward
from regard.seq2seq.networks.recurrent.posterior import posterior
from regard.seq2seq.networks.recurrent.step import enter, leave, readout_terms, step, top
from regard.seq2seq.networks.top_tokens import OutputLayer, TopTokens

__all__ = ["RecurrentStepper", "recurrent_stepper"]

Array = NDArray[Any]
Ids = NDArray[np.int64]


class _Last(NamedTuple):
    """The last step: states (B, k, D), the tokens (B, k) before it, weights (B, k, T)."""

    state: Array
    tokens: Ids
    weights: Array


class RecurrentStepper(Stepper):
    """The decoder steps of a search by the same step as training: k hypotheses of each of B sentences.

    `encoded`: the source sentences; `width`: k, at first.
    """

    has_posterior = True

    def __init__(self, p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded, width: int = 1) -> None:
        self.p, self.c, self.encoded = p, c, encoded
        start = np.repeat(encoded.start[:, None], width, axis=1)  # (B, k, S)
        self.memory = tuple(np.split(start, c.layers * parts(c.cell), axis=-1))
        self.readout: Array | None = None  # of the step before, where the next one reads it
        self.taken = 0  # steps
        self.output = OutputLayer(p)
        self.last: _Last | None = None

    def __call__(self, tokens: Ids) -> tuple[Array, Array]:
        """Take a step after tokens (B, k): logits (B, k, V); weights (B, k, T), or (B, k, 0) without attention."""
        readout, weights = self._advance(tokens)
        return self.output.logits(as_rows(readout)).reshape(*tokens.shape, -1), weights

    def top(self, tokens: Ids, count: int, first: int) -> tuple[TopTokens, Array]:
        """Take a step, and return the `count` largest logits from token `first` on, of B k rows; weights (B, k, T)."""
        readout, weights = self._advance(tokens)
        return self.output.top(as_rows(readout), count, first), weights

    def _advance(self, tokens: Ids) -> tuple[Array, Array]:
        """Return the readouts (B, k, E) and the attention weights."""
        readout, weights = self._read_out(tokens)
        self.last = _Last(top(self.c, self.memory), tokens, weights)
        return readout, weights

    def _read_out(self, tokens: Ids) -> tuple[Array, Array]:
        embedding, ops = self.p["target_embedding"][tokens], self._operations()
        done = step(ops, self.c, enter(ops, embedding), self.memory, self.readout)
        self.memory = done.memory
        self.taken += 1
        readout = leave(ops, self.c, embedding, done.state, done.context)
        if self.c.feeds:
            self.readout = readout
        return readout, done.weights

    def _operations(self) -> Forward:
        return Forward(self.p, self.c, self.encoded, self.taken)

    def posterior(self, tokens: Ids) -> Array:
        """Return the posterior attention (B, k, T) of the last step, given the tokens (B, k) that followed it."""
        if self.last is None or not self.c.attends:
            return np.zeros((*tokens.shape, 0))
        state, read, weights = self.last
        terms = readout_terms(self.c, self.p["target_embedding"][read], state)
        partial_sum = Forward(self.p, self.c, self.encoded).linear(*terms, bias="readout_bias")
        return posterior(self.p, partial_sum, self._annotations(), weights, tokens)

    def _annotations(self) -> Array:
        """Return the annotations (B, T, C)."""
        return self.encoded.values

    def select(self, parents: Ids) -> None:
        """Continue with these hypotheses (B, k) of each sentence."""
        self._change(lambda part: np.take_along_axis(part, parents[:, :, None], axis=1))

    def keep(self, sentences: Ids) -> None:
        """Continue with these sentences (B',) only."""
        self.encoded = self.encoded.keep(sentences)
        self._change(lambda part: part[sentences])

    def _change(self, change: Callable[[Array], Array]) -> None:
        self.memory = tuple(map(change, self.memory))
        if self.readout is not None:
            self.readout = change(self.readout)


class _FusedStepper(RecurrentStepper):
    """The same function for configurations that are `fused`, several times as fast.

    The context is a sum of values, so values go through the matrices behind it once, and not at every step.
    """

    def __init__(self, p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded, width: int = 1) -> None:
        super().__init__(p, c, encoded, width)
        to_gates_and_readout = np.concatenate([p["decoder_context"], p["readout_context"]], axis=1)
        values = linear(encoded.values, to_gates_and_readout)[0]
        query_weight, vector, weight = (
            p[name] for name in ("query_weight", "attention_vector", "decoder_state")
        )
        second = None
        if c.style == "conditional":
            second = recurrence.SecondGru(p["decoder_state_after"], p["decoder_bias_after"])
        self.fused = recurrence.FusedDecoder(
            encoded.keys, values, encoded.lengths, query_weight, vector, weight, second
        )
        self.sentences = np.arange(len(encoded.start))  # (B',): those that continue
        self.table = _TokenTable(p)

    def _read_out(self, tokens: Ids) -> tuple[Array, Array]:
        (batch, k), rows = tokens.shape, as_rows(self.memory[0])
        gates = 3 * rows.shape[1]
        inputs = self.table(tokens.reshape(-1))
        steps = self.fused.step(inputs[:, :gates], rows, np.repeat(self.sentences, k))
        self.memory = (steps.states.reshape(batch, k, rows.shape[1]),)
        partial_sum = steps.contexts[:, gates:] + inputs[:, gates:]
        readout = multiply(steps.states, self.p["readout_state"], out=partial_sum, add=True, squash=True)
        weights = steps.weights.reshape(batch, k, steps.weights.shape[1])
        return readout.reshape(batch, k, readout.shape[1]), weights

    def select(self, parents: Ids) -> None:
        """Continue with these hypotheses (B, k) of each sentence."""
        (states,) = self.memory
        if parents.shape[1] > 1 or states.shape[1] > 1:
            self.memory = (states[np.arange(len(parents))[:, None], parents],)

    def _annotations(self) -> Array:
        """Return the annotations (B', T, C)."""
        annotations: Array = self.encoded.values[self.sentences]
        return annotations

    def keep(self, sentences: Ids) -> None:
        """Continue with these sentences (B',) only; keys and values stay where they are."""
        self.sentences, self.memory = self.sentences[sentences], (self.memory[0][sentences],)


class _TokenTable:
    """The summands of each token in the gates and the readout, side by side; computed at its first use."""

    def __init__(self, p: Mapping[str, Array]) -> None:
        self.embedding = p["target_embedding"]
        self.weight = np.concatenate([p["decoder_word"], p["readout_word"]], axis=1)
        self.bias = np.concatenate([p["decoder_bias"], p["readout_bias"]])
        self.computed = np.zeros(len(self.embedding), bool)

    @computed_once
    def table(self) -> Array:
        """The rows (V, G D + E), as far as they have been computed."""
        return np.empty((len(self.embedding), len(self.bias)), self.weight.dtype)

    def __call__(self, tokens: Ids) -> Array:
        """Return the rows of tokens (R,)."""
        new = tokens[~self.computed[tokens]]
        if len(new):
            new = np.unique(new)
            self.table[new] = multiply(self.embedding[new], self.weight, self.bias)
            self.computed[new] = True
        rows: Array = self.table.take(tokens, axis=0)
        return rows


def recurrent_stepper(
    p: Mapping[str, Array], c: RecurrentConfig, encoded: Encoded, width: int = 1
) -> RecurrentStepper:
    """Return the fused stepper if it is possible; in a `record` block the one whose attention is recorded.

    `encoded`: the source sentences; `width`: hypotheses of each sentence, at first.
    """
    arrays = p["decoder_state"], p["target_embedding"], p["output_bias"], *encoded[:3]
    fused = c.fused and recurrence.native_does(*arrays) and not recording()
    return (_FusedStepper if fused else RecurrentStepper)(p, c, encoded, width)

"""The recurrent decoder's steps in a search: hypotheses of many sentences, one word at a time.

The same three orders of looking and stepping as in `regard.seq2seq.decoder`, forwards only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._layout import as_rows
from regard.context import recording
from regard.kernels import recurrence, search
from regard.kernels.matrix import multiply
from regard.nn import linear
from regard.seq2seq.cells import Stack
from regard.seq2seq.decoder import After, is_plain, read_out
from regard.seq2seq.looks import Encoded, glance
from regard.seq2seq.posterior import posterior
from regard.seq2seq.ranking import Output, Tops

if TYPE_CHECKING:
    from regard.seq2seq.recurrent import Recurrent

__all__ = ["Steps", "steps"]

Array = NDArray[Any]
Ids = NDArray[np.int64]


class _Last(NamedTuple):
    """The last step of a search: states (B, k, D), the words (B, k) before if the readout takes them, weights."""

    state: Array
    read: Ids | None
    weights: Array


class Steps:
    """The decoder's steps for a search: k hypotheses of each of B sentences, and where each of them looks.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : Recurrent
        Its configuration.
    encoded : Encoded
        The source sentences.
    width : int
        k, at first.
    """

    def __init__(self, p: Mapping[str, Array], c: Recurrent, encoded: Encoded, width: int = 1) -> None:
        self.p, self.c, self.encoded = p, c, encoded
        self.place = 0
        self.stack = Stack(p, c.cell, c.layers)
        self.memory = np.repeat(encoded.start[:, None], width, axis=1)  # (B, k, S)
        batch, length, _ = encoded.values.shape
        self.coverage = np.zeros((batch, width, length), encoded.values.dtype) if c.coverage else None
        self.readout: Array | None = None
        self.output = Output(p)
        self.last: _Last | None = None

    def __call__(self, words: Ids) -> tuple[Array, Array]:
        """Predict what follows the words (B, k): logits (B, k, V), and where each looked, (B, k, T) or (B, k, 0)."""
        readout, weights = self._step(words)
        return self.output.logits(as_rows(readout)).reshape(*words.shape, -1), weights

    def rank(self, words: Ids, count: int, first: int) -> tuple[Tops, Array]:
        """Predict what follows the words (B, k): the `count` likeliest words from `first` on, and the same weights."""
        readout, weights = self._step(words)
        return self.output.tops(as_rows(readout), count, first), weights

    def _step(self, words: Ids) -> tuple[Array, Array]:
        """Return what is known before the next word (B, k, E), and where each looked."""
        readout, weights = self._take(words)
        self.last = _Last(self.stack.top(self.memory), None if self.c.style == "luong" else words, weights)
        if self.coverage is not None:
            self.coverage = self.coverage + weights
        self.place += 1
        return readout, weights

    def _take(self, words: Ids) -> tuple[Array, Array]:
        orders = {
            "bahdanau": self._look_then_step,
            "luong": self._step_then_look,
            "conditional": self._step_look_step,
        }
        return orders[self.c.style](words)

    def _look_then_step(self, words: Ids) -> tuple[Array, Array]:
        contexts, weights = self._look(self.stack.top(self.memory))
        y, gates = self._read(words)
        gates += contexts @ self.p["decoder_context"]
        self.memory = self.stack.forward(gates, self.memory, keep=False)
        return read_out(self.p, self.stack.top(self.memory), contexts, y), weights

    def _step_then_look(self, words: Ids) -> tuple[Array, Array]:
        _, gates = self._read(words)
        if self.c.feeding and self.readout is not None:
            gates += self.readout @ self.p["decoder_readout"]
        self.memory = self.stack.forward(gates, self.memory, keep=False)
        state = self.stack.top(self.memory)
        contexts, weights = self._look(state)
        self.readout = read_out(self.p, state, contexts, None)
        return self.readout, weights

    def _step_look_step(self, words: Ids) -> tuple[Array, Array]:
        y, gates = self._read(words)
        between = self.stack.forward(gates, self.memory, keep=False)
        contexts, weights = self._look(self.stack.top(between))
        self.memory = After(self.p, self.c).forward(contexts, between, keep=False)
        return read_out(self.p, self.stack.top(self.memory), contexts, y), weights

    def _read(self, words: Ids) -> tuple[Array, Array]:
        """Return the embeddings (B, k, E) of words, and what they give to the gates (B, k, G D)."""
        y = self.p["target_embedding"][words]
        return y, linear(y, self.p["decoder_word"], self.p["decoder_bias"])[0]

    def _look(self, states: Array) -> tuple[Array, Array]:
        return glance(self.p, self.c, self.encoded, states, self.place, self.coverage)

    def posterior(self, words: Ids) -> Array:
        """Return where the words (B, k) that came after the last step were taken from: (B, k, T), or (B, k, 0)."""
        if self.last is None or not self.c.attends:
            return np.zeros((*words.shape, 0))
        state, read, weights = self.last
        known, _ = linear(state, self.p["readout_state"], self.p["readout_bias"])
        if read is not None:
            known += self.p["target_embedding"][read] @ self.p["readout_word"]
        return posterior(self.p, known, self.annotations(), weights, words, self.output)

    def annotations(self) -> Array:
        """Return what can be looked at (B, T, C)."""
        return self.encoded.values

    def select(self, parents: Ids) -> None:
        """Go on with these hypotheses (B, k) of each sentence."""
        self._each(lambda part: np.take_along_axis(part, parents[:, :, None], axis=1))

    def keep(self, sentences: Ids) -> None:
        """Go on with these sentences (B',) only."""
        self.encoded = self.encoded.keep(sentences)
        self._each(lambda part: part[sentences])

    def _each(self, change: Callable[[Array], Array]) -> None:
        self.memory = change(self.memory)
        if self.readout is not None:
            self.readout = change(self.readout)
        if self.coverage is not None:
            self.coverage = change(self.coverage)


class _FusedSteps(Steps):
    """Plain models, several times as fast: the same function as `Steps`.

    What is seen is a sum of values, so values go through the matrices behind it once, and not at every step.
    """

    def __init__(self, p: Mapping[str, Array], c: Recurrent, encoded: Encoded, width: int = 1) -> None:
        super().__init__(p, c, encoded, width)
        to_gates_and_readout = np.concatenate([p["decoder_context"], p["readout_context"]], axis=1)
        values = linear(encoded.values, to_gates_and_readout)[0]
        query_weight, vector, weight = (
            p[name] for name in ("query_weight", "attention_vector", "decoder_state")
        )
        after = None
        if c.style == "conditional":
            after = recurrence.After(p["decoder_state_after"], p["decoder_bias_after"])
        self.search = recurrence.Search(
            encoded.keys, values, encoded.lengths, query_weight, vector, weight, after
        )
        self.sentences = np.arange(len(encoded.start))  # (B',): those that go on
        self.words = _Words(p)

    def _take(self, words: Ids) -> tuple[Array, Array]:
        (batch, k), rows = words.shape, as_rows(self.memory)
        gates = 3 * rows.shape[1]
        given = self.words(words.reshape(-1))
        made = self.search.step(given[:, :gates], rows, np.repeat(self.sentences, k))
        self.memory = made.states.reshape(batch, k, rows.shape[1])
        known = made.contexts[:, gates:] + given[:, gates:]
        readout = multiply(made.states, self.p["readout_state"], out=known, add=True, squash=True)
        return readout.reshape(batch, k, readout.shape[1]), made.weights.reshape(
            batch, k, made.weights.shape[1]
        )

    def beam(self, aims: search.Aims) -> search.Found:
        """Search to the end, before the first step: in the library, with no Python between the steps."""
        given, words = self.words, self.output.words
        assert words is not None
        decoder = search.Decoder(given.embedding, given.weight, given.bias, self.p["readout_state"], words)
        return search.beam(self.search, self.encoded.start, decoder, aims)

    def select(self, parents: Ids) -> None:
        """Go on with these hypotheses (B, k) of each sentence."""
        if parents.shape[1] > 1 or self.memory.shape[1] > 1:
            self.memory = self.memory[np.arange(len(parents))[:, None], parents]

    def annotations(self) -> Array:
        """Return what can be looked at (B', T, C)."""
        annotations: Array = self.encoded.values[self.sentences]
        return annotations

    def keep(self, sentences: Ids) -> None:
        """Go on with these sentences (B',) only; what they look at stays where it is."""
        self.sentences, self.memory = self.sentences[sentences], self.memory[sentences]


class _Words:
    """What words give to the gates and to the readout, side by side; computed when a word is first said."""

    def __init__(self, p: Mapping[str, Array]) -> None:
        self.embedding = p["target_embedding"]
        self.weight = np.concatenate([p["decoder_word"], p["readout_word"]], axis=1)
        self.bias = np.concatenate([p["decoder_bias"], p["readout_bias"]])
        self.known = np.zeros(len(self.embedding), bool)

    @cached_property
    def table(self) -> Array:
        """Their rows, as far as they are known."""
        return np.empty((len(self.embedding), len(self.bias)), self.weight.dtype)

    def __call__(self, words: Ids) -> Array:
        """Return the rows of words (R,)."""
        fresh = words[~self.known[words]]
        if len(fresh):
            fresh = np.unique(fresh)
            self.table[fresh] = multiply(self.embedding[fresh], self.weight, self.bias)
            self.known[fresh] = True
        rows: Array = self.table.take(words, axis=0)
        return rows


def steps(p: Mapping[str, Array], c: Recurrent, encoded: Encoded, width: int = 1) -> Steps:
    """Return the decoder's steps for a search, the fastest that there are; in a `record` block those that it sees.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : Recurrent
        Its configuration.
    encoded : Encoded
        The source sentences.
    width : int
        Hypotheses of each sentence, at first.

    Returns
    -------
    Steps
        Before the first word.

    Examples
    --------
    >>> from regard.seq2seq.recurrent import Recurrent, RecurrentNetwork
    >>> c = Recurrent(9, 7, embedding=4, encoder=3, decoder=5, attention=2)
    >>> parts = map(np.zeros, ((1, 5), (1, 3, 2), (1, 3, 6), (1, 6)))
    >>> encoded = Encoded(*parts, np.array([2]))  # two words, and one that is no word
    >>> logits, weights = steps(RecurrentNetwork(c).parameters, c, encoded)(np.array([[1]]))
    >>> logits.shape, weights.tolist()
    ((1, 1, 7), [[[0.5, 0.5, 0.0]]])
    """
    read = p["decoder_state"], p["target_embedding"], p["output_bias"], *encoded[:3]
    fused = is_plain(c) and recurrence.native_does(*read) and not recording()
    return (_FusedSteps if fused else Steps)(p, c, encoded, width)

"""The transformer's steps for a search.

Letters: B sentences, T source positions, k hypotheses of a sentence, m words that its hypotheses have had so far,
V words of the vocabulary, W width, d = W / heads.

All hypotheses of a sentence share one cache: each step appends the keys and values of its k words, and a bool array
(B, k, m) says which of the m words are of whose past. A search that drops hypotheses and splits others changes that
array alone; keys and values stay where they are. What a hypothesis does not see has no influence (law 2), so sharing is
safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import mask
from regard.attention import attention
from regard.cache import KVCache
from regard.context import attend
from regard.nn import layer_norm, linear
from regard.position import sinusoidal
from regard.seq2seq.data.batching import Ids
from regard.seq2seq.networks.base import Stepper
from regard.seq2seq.networks.padding import Places, split_heads
from regard.seq2seq.networks.top_tokens import Output, Tops
from regard.seq2seq.networks.transformer.layers import Look, hidden_block, look_block, undropped
from regard.seq2seq.networks.transformer.stacks import layers

__all__ = ["TransformerStepper"]

Array = NDArray[Any]
Back = Callable[[Array], Array]

_STEPS = 32  # as many as there is room for at first


class TransformerStepper(Stepper):
    """The decoder's steps: k hypotheses of each of B sentences, and where each of them looks.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    heads : int
        Of each attention.
    aligned : int
        The layer, counted from 0, whose weights are given.
    memory : array (M, W)
        The source words, encoded.
    over : Places
        Where these stand.
    width : int
        k, at first.

    Examples
    --------
    >>> from regard.seq2seq.networks.transformer.config import TransformerConfig
    >>> from regard.seq2seq.networks.transformer.network import TransformerNetwork
    >>> network = TransformerNetwork(TransformerConfig(9, 7, width=4, heads=2, hidden=8))
    >>> stepper = network.stepper(np.array([[5, 4], [2, 4], [0, 2]]), np.array([2, 3]), width=2)
    >>> logits, weights = stepper(np.array([[1, 1], [1, 1]]))
    >>> logits.shape, weights[0, 0].tolist()
    ((2, 2, 7), [0.5, 0.5, 0.0])
    """

    def __init__(
        self, p: Mapping[str, Array], heads: int, aligned: int, memory: Array, over: Places, width: int = 1
    ) -> None:
        self.p, self.heads, self.aligned, self.lengths = p, heads, aligned, over.lengths
        self.layers = layers(p, "decoder")
        self.source: list[
            list[Array]
        ] = []  # keys and values (B, heads, T, d) of each layer, once for all steps
        for layer in self.layers:
            keys, _ = linear(memory, p[layer + "source_keys"])
            self.source.append(_in_heads(over.spread(keys), 2, heads))
        self.seen = np.zeros((len(over.lengths), width, 0), bool)
        self.output, self.place = Output(p), 0
        self.room = _STEPS * width
        table = p["target_embedding"]  # positions are those of as many words as were said, or more
        self.positions = sinusoidal(_STEPS, table.shape[1]).astype(table.dtype)
        self.caches = [self._cache() for _ in self.layers]
        self.weights = np.zeros((0, 0, 0))

    def __call__(self, tokens: Ids) -> tuple[Array, Array]:
        """Take a step after tokens (B, k): logits (B, k, V); attention weights (B, k, T)."""
        return self.output.logits(self._step(tokens)).reshape(*tokens.shape, -1), self.weights

    def top(self, tokens: Ids, count: int, first: int) -> tuple[Tops, Array]:
        """Take a step, and return the `count` largest logits from token `first` on, of B k rows; weights (B, k, T)."""
        return self.output.tops(self._step(tokens), count, first), self.weights

    def _step(self, tokens: Ids) -> Array:
        """Return the readouts (B k, W)."""
        batch, k = tokens.shape
        self._remember(batch, k)
        table = self.p["target_embedding"]
        x = table[tokens.reshape(-1)] * table.dtype.type(table.shape[1] ** 0.5)  # (B k, W)
        if self.place == len(self.positions):
            self.positions = sinusoidal(2 * self.place, table.shape[1]).astype(table.dtype)
        x += self.positions[self.place]
        for i, layer in enumerate(self.layers):
            x, _ = look_block(self.p, layer + "self_", x, self._own_look(i, k), undropped)
            x, _ = look_block(self.p, layer + "source_", x, self._source_look(i, k), undropped)
            x, _ = hidden_block(self.p, layer + "hidden_", x, undropped)
        readout, _ = layer_norm(x, self.p["decoder_gain"], self.p["decoder_shift"])
        self.place += 1
        return readout

    def select(self, parents: Ids) -> None:
        """Continue with these hypotheses (B, k) of each sentence."""
        self.seen = np.take_along_axis(self.seen, parents[:, :, None], axis=1)

    def keep(self, sentences: Ids) -> None:
        """Continue with these sentences (B,) only."""
        self.lengths, self.seen = self.lengths[sentences], self.seen[sentences]
        self.source = [[part[sentences] for part in parts] for parts in self.source]
        self.caches = [self._moved(cache, sentences) for cache in self.caches]

    def _own_look(self, i: int, k: int) -> Look:
        """Look at the words that each hypothesis has had, its newest with them."""
        cache = self.caches[i]

        def look(projected: Array) -> tuple[Array, Back]:
            places = projected.reshape(len(self.lengths), k, projected.shape[1])
            queries, keys, values = _in_heads(places, 3, self.heads)
            cache.append(keys, values)
            who = None if self.seen.all() else self.seen[:, None]
            return _in_rows(attention(queries, cache.keys, cache.values, mask=who)), _no_way_back

        return look

    def _source_look(self, i: int, k: int) -> Look:
        """Look at the source; the aligned layer keeps where."""
        keys, values = self.source[i]
        who = mask.lengths(self.lengths[:, None])

        def look(projected: Array) -> tuple[Array, Back]:
            (queries,) = _in_heads(projected.reshape(len(self.lengths), k, -1), 1, self.heads)
            if i != self.aligned:
                return _in_rows(attention(queries, keys, values, mask=who)), _no_way_back
            seen = attend(queries, keys, values, mask=who)
            self.weights = seen.weights.mean(axis=1)
            return _in_rows(seen.context), _no_way_back

        return look

    def _remember(self, batch: int, k: int) -> None:
        """Let each hypothesis see the word that it is about to get, and make room for them."""
        own = np.broadcast_to(np.eye(k, dtype=bool), (batch, k, k))
        self.seen = np.concatenate([self.seen, own], axis=-1)
        if self.seen.shape[-1] > self.room:
            self.room = 2 * self.seen.shape[-1]
            self.caches = [self._moved(cache, np.arange(batch)) for cache in self.caches]

    def _cache(self) -> KVCache:
        table = self.p["target_embedding"]
        lead = len(self.lengths), self.heads
        return KVCache(lead, table.shape[1] // self.heads, capacity=self.room, dtype=table.dtype)

    def _moved(self, cache: KVCache, sentences: Ids) -> KVCache:
        """Return a cache with room for more, of these sentences."""
        moved = self._cache()
        moved.append(cache.keys[sentences], cache.values[sentences])
        return moved


def _in_heads(places: Array, kinds: int, heads: int) -> list[Array]:
    """View what stands side by side (B, T, kinds W) as so many arrays (B, heads, T, d)."""
    return [split_heads(part, heads) for part in np.split(places, kinds, axis=-1)]


def _in_rows(context: Array) -> Array:
    """Return what heads found (B, heads, k, d) as rows (B k, W)."""
    batch, heads, k, size = context.shape
    return context.swapaxes(1, 2).reshape(batch * k, heads * size)


def _no_way_back(_: Array) -> Array:
    raise NotImplementedError("a search has no gradients")

"""The transformer's steps for a search.

Letters: B sentences, T source positions, k hypotheses of a sentence, m tokens of all its hypotheses so far, V
size of the vocabulary, W model size, d = W / heads.

All hypotheses of a sentence share one cache: each step appends the keys and values of its k tokens, and a bool array
(B, k, m) is the mask of each hypothesis. A search that drops hypotheses and splits others changes that
array alone; keys and values stay where they are. Masked tokens have no influence (law 2), so sharing is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import mask
from regard._attention import attention
from regard.cache import KVCache
from regard.context import attend
from regard.nn import layer_norm, linear
from regard.position import sinusoidal
from regard.seq2seq.corpus.batching import Ids
from regard.seq2seq.networks.base import Stepper
from regard.seq2seq.networks.normalizing import normalizer
from regard.seq2seq.networks.padding import Padding, split_heads
from regard.seq2seq.networks.top_tokens import OutputLayer, TopTokens
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.layers import Attend, attention_block, feed_forward_block, no_dropout
from regard.seq2seq.networks.transformer.stacks import layers

__all__ = ["TransformerStepper"]

Array = NDArray[Any]
Back = Callable[[Array], Array]

_STEPS = 32  # initial capacity


class TransformerStepper(Stepper):
    """The decoder steps of a search: k hypotheses of each of B sentences.

    `c`: the configuration, whose `aligned` is the layer whose cross-attention weights are returned; `memory` (M, W):
    the encoder's output; `padding`: its positions; `width`: k, at first.
    """

    def __init__(
        self,
        p: Mapping[str, Array],
        c: TransformerConfig,
        memory: Array,
        padding: Padding,
        width: int = 1,
    ) -> None:
        self.p, self.heads, self.aligned, self.lengths = p, c.heads, c.aligned, padding.lengths
        self.normalize = normalizer(c)
        self.layers = layers(p, "decoder")
        self.source: list[list[Array]] = []  # keys and values (B, heads, T, d) of each layer, for all steps
        for layer in self.layers:
            keys, _ = linear(memory, p[layer + "source_keys"])
            self.source.append(_in_heads(padding.pad(keys), 2, c.heads))
        self.visible = np.zeros((len(padding.lengths), width, 0), bool)  # cached positions of each hypothesis
        self.output, self.step = OutputLayer(p), 0
        self.capacity = _STEPS * width
        table = p["target_embedding"]  # at least as many positions as steps were taken
        self.positions = sinusoidal(_STEPS, table.shape[1]).astype(table.dtype)
        self.caches = [self._cache() for _ in self.layers]
        self.weights = np.zeros((0, 0, 0))

    def __call__(self, tokens: Ids) -> tuple[Array, Array]:
        """Take a step after tokens (B, k): logits (B, k, V); attention weights (B, k, T)."""
        return self.output.logits(self._step(tokens)).reshape(*tokens.shape, -1), self.weights

    def top(self, tokens: Ids, count: int, first: int) -> tuple[TopTokens, Array]:
        """Take a step, and return the `count` largest logits from token `first` on, of B k rows; weights (B, k, T)."""
        return self.output.top(self._step(tokens), count, first), self.weights

    def _step(self, tokens: Ids) -> Array:
        """Return the readouts (B k, W)."""
        batch, k = tokens.shape
        self._extend(batch, k)
        table = self.p["target_embedding"]
        x = table[tokens.reshape(-1)] * table.dtype.type(table.shape[1] ** 0.5)  # (B k, W)
        if self.step == len(self.positions):
            self.positions = sinusoidal(2 * self.step, table.shape[1]).astype(table.dtype)
        x += self.positions[self.step]
        for i, layer in enumerate(self.layers):
            x, _ = attention_block(self.p, layer + "self_", x, self._self_attention(i, k), no_dropout)
            x, _ = attention_block(self.p, layer + "source_", x, self._cross_attention(i, k), no_dropout)
            x, _ = feed_forward_block(self.p, layer + "hidden_", x, no_dropout)
        readout, _ = layer_norm(x, self.p["decoder_gain"], self.p["decoder_shift"])
        self.step += 1
        return readout

    def select(self, parents: Ids) -> None:
        """Continue with these hypotheses (B, k) of each sentence."""
        self.visible = np.take_along_axis(self.visible, parents[:, :, None], axis=1)

    def keep(self, sentences: Ids) -> None:
        """Continue with these sentences (B,) only."""
        self.lengths, self.visible = self.lengths[sentences], self.visible[sentences]
        self.source = [[part[sentences] for part in parts] for parts in self.source]
        self.caches = [self._moved(cache, sentences) for cache in self.caches]

    def _self_attention(self, i: int, k: int) -> Attend:
        """Attend to the tokens of each hypothesis, the newest included."""
        cache = self.caches[i]

        def attend_own(projected: Array) -> tuple[Array, Back]:
            positions = projected.reshape(len(self.lengths), k, projected.shape[1])
            queries, keys, values = _in_heads(positions, 3, self.heads)
            cache.append(keys, values)
            visible = None if self.visible.all() else self.visible[:, None]
            context = attention(queries, cache.keys, cache.values, mask=visible, normalize=self.normalize)
            return _in_rows(context), _no_pullback

        return attend_own

    def _cross_attention(self, i: int, k: int) -> Attend:
        """Attend to the source; the aligned layer keeps its weights."""
        keys, values = self.source[i]
        visible = mask.lengths(self.lengths[:, None])

        def attend_source(projected: Array) -> tuple[Array, Back]:
            (queries,) = _in_heads(projected.reshape(len(self.lengths), k, -1), 1, self.heads)
            if i != self.aligned:
                context = attention(queries, keys, values, mask=visible, normalize=self.normalize)
                return _in_rows(context), _no_pullback
            attended = attend(queries, keys, values, mask=visible, normalize=self.normalize)
            self.weights = attended.weights.mean(axis=1)
            return _in_rows(attended.context), _no_pullback

        return attend_source

    def _extend(self, batch: int, k: int) -> None:
        """Make the next token visible to its hypothesis, and enlarge the caches if they are full."""
        new_token = np.broadcast_to(np.eye(k, dtype=bool), (batch, k, k))
        self.visible = np.concatenate([self.visible, new_token], axis=-1)
        if self.visible.shape[-1] > self.capacity:
            self.capacity = 2 * self.visible.shape[-1]
            self.caches = [self._moved(cache, np.arange(batch)) for cache in self.caches]

    def _cache(self) -> KVCache:
        table = self.p["target_embedding"]
        lead = len(self.lengths), self.heads
        return KVCache(lead, table.shape[1] // self.heads, capacity=self.capacity, dtype=table.dtype)

    def _moved(self, cache: KVCache, sentences: Ids) -> KVCache:
        """Return a larger cache of these sentences."""
        moved = self._cache()
        moved.append(cache.keys[sentences], cache.values[sentences])
        return moved


def _in_heads(x: Array, parts: int, heads: int) -> list[Array]:
    """Split side-by-side vectors (B, T, parts W) into arrays (B, heads, T, d)."""
    return [split_heads(part, heads) for part in np.split(x, parts, axis=-1)]


def _in_rows(context: Array) -> Array:
    """Return the contexts of heads (B, heads, k, d) as rows (B k, W)."""
    batch, heads, k, size = context.shape
    return context.swapaxes(1, 2).reshape(batch * k, heads * size)


def _no_pullback(_: Array) -> Array:
    raise NotImplementedError("a search has no gradients")

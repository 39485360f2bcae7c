"""The blocks of a transformer: attention and feed-forward, over the tokens of sentences of different lengths.

Letters: N tokens of a batch, B sentences, T source positions, n target positions, W model size, d = W / heads.

Rows (N, W) come in and go out, one for each token. Every block adds its output to its input, and reads the normalised
input (Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", figure 1b). The pullback of a block
takes a dict and writes the gradients of its parameters into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._attention import attention_vjp
from regard.mask import Mask
from regard.nn import layer_norm, linear, perceptron
from regard.seq2seq.networks.padding import Padding, append_identity, split_heads
from regard.weights import NormalizeLike

__all__ = [
    "CrossAttention",
    "MultiHeadAttention",
    "attention_block",
    "feed_forward_block",
    "no_dropout",
    "self_attention",
]

Array = NDArray[Any]
Named = dict[str, Array]
Back = Callable[[Array, Named], Array]
Drop = Callable[[Array], tuple[Array, Callable[[Array], tuple[Array]]]]
Attend = Callable[[Array], tuple[Array, Callable[[Array], Array]]]


def no_dropout(rows: Array) -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Return rows unchanged, in place of dropout outside training.

    `rows`: any. Returns `pullback`: ``pullback(drows) -> (drows,)``.
    """
    return rows, lambda drows: (drows,)


class MultiHeadAttention:
    """Multi-head attention between the tokens of two sides, rows in and rows out.

    `queries_padding`, `keys_padding`: the positions of the queries' tokens and of the keys'; `heads`: the number of
    heads; `mask`: which keys are visible to which query; `normalize`: step 2; `with_weights`: whether to return the
    weights. `weights` (B, n, T): their mean over the heads, if they are requested: set by the call; `dweights` (B, n,
    T): their gradient, to be set before the backward pass.

    Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(
        self,
        queries_padding: Padding,
        keys_padding: Padding,
        heads: int,
        mask: Mask,
        normalize: NormalizeLike,
        *,
        with_weights: bool = False,
    ) -> None:
        self.queries_padding, self.keys_padding, self.heads = queries_padding, keys_padding, heads
        self.normalize = normalize
        self.mask, self.with_weights = mask, with_weights
        self.weights = np.zeros((0, 0, 0))
        self.dweights: Array | None = None

    def __call__(self, queries: Array, keys: Array, values: Array) -> tuple[Array, Callable[..., None]]:
        """Attend; ``pullback(dcontext, dqueries, dkeys, dvalues)`` writes into the last three."""
        q = split_heads(self.queries_padding.pad(queries), self.heads)  # (B, heads, n, d)
        k, v = (split_heads(self.keys_padding.pad(x), self.heads) for x in (keys, values))  # (B, heads, T, d)
        size = v.shape[-1]
        # The values of an identity are the weights, and their gradient comes back as any value's.
        v = append_identity(v) if self.with_weights else v
        context, pull = attention_vjp(q, k, v, mask=self.mask, normalize=self.normalize)
        if self.with_weights:
            self.weights = context[..., size:].mean(axis=1)
        rows = self._unpadded(context[..., :size], self.queries_padding, np.empty_like(queries))

        def pullback(dcontext: Array, dqueries: Array, dkeys: Array, dvalues: Array) -> None:
            of_heads = split_heads(self.queries_padding.pad(dcontext), self.heads)
            gradients = pull(self._with_dweights(of_heads))
            self._unpadded(gradients.queries, self.queries_padding, dqueries)
            self._unpadded(gradients.keys, self.keys_padding, dkeys)
            self._unpadded(gradients.values[..., :size], self.keys_padding, dvalues)

        return rows, pullback

    def _unpadded(self, x: Array, padding: Padding, out: Array) -> Array:
        """Write the vectors of heads (B, heads, T, d) into rows (N, W)."""
        padding.unpad(x.swapaxes(1, 2), out.reshape(len(out), self.heads, x.shape[-1]))
        return out

    def _with_dweights(self, dcontext: Array) -> Array:
        """Append the gradient of the weights to that of the context, if weights are requested."""
        if not self.with_weights:
            return dcontext
        dweights = np.zeros_like(self.weights) if self.dweights is None else self.dweights
        share = (dweights / dweights.dtype.type(self.heads))[:, None]
        lead = dcontext.shape[:-1]
        return np.concatenate([dcontext, np.broadcast_to(share, (*lead, share.shape[-1]))], axis=-1)


def self_attention(attention: MultiHeadAttention) -> Attend:
    """Return the self-attention of an `attention_block`.

    `attention`: with the same padding for queries and keys. Returns ``attend(projected (N, 3 W)) -> (context (N, W),
    pullback)``: queries, keys and values come side by side.
    """

    def attend(projected: Array) -> tuple[Array, Callable[[Array], Array]]:
        context, pull = attention(*np.split(projected, 3, axis=1))

        def pullback(dcontext: Array) -> Array:
            dprojected = np.empty_like(projected)
            pull(dcontext, *np.split(dprojected, 3, axis=1))
            return dprojected

        return context, pullback

    return attend


class CrossAttention:
    """The attention of target tokens over the source, for an `attention_block`.

    `attention`: from the target's positions to the source's; `keys` (M, 2 W): keys and values of the source tokens,
    side by side. `dkeys` (M, 2 W): their gradient: set by the backward pass.
    """

    def __init__(self, attention: MultiHeadAttention, keys: Array) -> None:
        self.attention, self.keys = attention, keys
        self.dkeys = np.zeros((0, 0))

    def __call__(self, queries: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Attend: ``attend(queries (N, W)) -> (context (N, W), pullback)``."""
        context, pull = self.attention(queries, *np.split(self.keys, 2, axis=1))

        def pullback(dcontext: Array) -> Array:
            dqueries, self.dkeys = np.empty_like(queries), np.empty_like(self.keys)
            pull(dcontext, dqueries, *np.split(self.dkeys, 2, axis=1))
            return dqueries

        return context, pullback


def attention_block(
    p: Mapping[str, Array], name: str, x: Array, attend: Attend, drop: Drop
) -> tuple[Array, Back]:
    """Add attention to each row: ``x + drop(attend(norm(x) @ in) @ out)``.

    `name`: the prefix of the names of this block's parameters; `x` (N, W): a row for each token; `attend`:
    ``attend(projected) -> (context (N, W), pullback)``; `drop`: dropout. Returns `y` (N, W): the rows plus the output
    of attention; `pullback`: ``pullback(dy, gradients by name) -> dx``.

    Vaswani et al. 2017, section 3.2.2; Xiong et al. 2020, figure 1b.
    """
    normal, norm_back = layer_norm(x, p[name + "gain"], p[name + "shift"])
    projected, in_back = linear(normal, p[name + "in"])
    context, attend_back = attend(projected)
    y, out_back = linear(context, p[name + "out"])
    y, drop_back = drop(y)
    y += x

    def pullback(dy: Array, g: Named) -> Array:
        dcontext, g[name + "out"] = out_back(drop_back(dy)[0])
        dnormal, g[name + "in"] = in_back(attend_back(dcontext))
        dx, g[name + "gain"], g[name + "shift"] = norm_back(dnormal, dy)
        return dx

    return y, pullback


def feed_forward_block(p: Mapping[str, Array], name: str, x: Array, drop: Drop) -> tuple[Array, Back]:
    """Add a feed-forward layer to each row: ``x + drop(perceptron(norm(x)))``.

    `name`: the prefix of the names of this block's parameters; `x` (N, W): a row for each token; `drop`: dropout.
    Returns `y` (N, W): the rows after the layer; `pullback`: ``pullback(dy, gradients by name) -> dx``.

    Vaswani et al. 2017, section 3.3; Xiong et al. 2020, figure 1b.
    """
    weights = [name + part for part in ("in", "in_bias", "out", "out_bias")]
    normal, norm_back = layer_norm(x, p[name + "gain"], p[name + "shift"])
    y, perceptron_back = perceptron(normal, *(p[weight] for weight in weights))
    y, drop_back = drop(y)
    y += x

    def pullback(dy: Array, g: Named) -> Array:
        dnormal, *gradients = perceptron_back(drop_back(dy)[0])
        g.update(zip(weights, gradients, strict=True))
        dx, g[name + "gain"], g[name + "shift"] = norm_back(dnormal, dy)
        return dx

    return y, pullback

"""The transformer's two stacks: the encoder reads a source at once, the decoder each target word after those before it.

Letters: N target words of a batch, M source words, B sentences, T source positions, n target positions, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import mask
from regard.nn import embed, layer_norm, linear
from regard.position import sinusoidal
from regard.seq2seq.data.batching import Ids
from regard.seq2seq.networks.padding import Places
from regard.seq2seq.networks.transformer.layers import (
    Attending,
    Back,
    Drop,
    Named,
    SourceLook,
    hidden_block,
    look_block,
    self_look,
)

__all__ = ["decode", "encode", "layers"]

Array = NDArray[Any]


def layers(p: Mapping[str, Array], stack: str) -> list[str]:
    """Return what the names of each layer's parameters begin with.

    Parameters
    ----------
    p : mapping of str to array
        The parameters.
    stack : str
        "encoder" or "decoder".

    Returns
    -------
    list of str
        From the first layer to the last.

    Examples
    --------
    >>> layers({"encoder_0_self_in": np.zeros(1), "encoder_1_self_in": np.zeros(1)}, "encoder")
    ['encoder_0_', 'encoder_1_']
    """
    count = sum(name.startswith(stack) and name.endswith("self_in") for name in p)
    return [f"{stack}_{i}_" for i in range(count)]


def _words(table: Array, ids: Ids, at: Places, drop: Drop) -> tuple[Array, Callable[[Array], Array]]:
    """Look words up and add their positions: (N, W); the pullback gives the table's gradient (V, W)."""
    scale = table.dtype.type(table.shape[1] ** 0.5)
    rows, embed_back = embed(table, ids)
    rows *= scale
    rows += sinusoidal(at.longest, table.shape[1]).astype(table.dtype)[at.position]
    rows, drop_back = drop(rows)
    return rows, lambda drows: embed_back(drop_back(drows)[0] * scale)[0]


def encode(
    p: Mapping[str, Array], ids: Ids, at: Places, drop: Drop, *, heads: int
) -> tuple[Array, Callable[[Array], Named]]:
    """Read source words, each in the light of the others.

    Parameters
    ----------
    p : mapping of str to array
        The parameters.
    ids : integer array (M,)
        The words.
    at : Places
        Where they stand.
    drop : function
        Dropout.
    heads : int
        Of each attention.

    Returns
    -------
    memory : array (M, W)
        What the decoder looks at.
    pullback : function
        ``pullback(dmemory) -> gradients by name``.

    References
    ----------
    Vaswani et al. 2017, section 3.1 and 3.4.

    Examples
    --------
    >>> from regard.seq2seq.networks.transformer.config import TransformerConfig
    >>> from regard.seq2seq.networks.transformer.network import TransformerNetwork
    >>> p = TransformerNetwork(TransformerConfig(9, 9, width=4, heads=2, hidden=8)).parameters
    >>> memory, _ = encode(p, np.array([5, 2, 2]), Places(np.array([2, 1])), lambda rows: (rows, None), heads=2)
    >>> memory.shape
    (3, 4)
    """
    x, words_back = _words(p["source_embedding"], ids, at, drop)
    who = mask.lengths(at.lengths[:, None])
    backs: list[Back] = []
    for layer in layers(p, "encoder"):
        x, self_back = look_block(p, layer + "self_", x, self_look(Attending(at, at, heads, who)), drop)
        x, hidden_back = hidden_block(p, layer + "hidden_", x, drop)
        backs += [self_back, hidden_back]
    memory, norm_back = layer_norm(x, p["encoder_gain"], p["encoder_shift"])

    def pullback(dmemory: Array) -> Named:
        g: Named = {}
        dx, g["encoder_gain"], g["encoder_shift"] = norm_back(dmemory)
        for back in reversed(backs):
            dx = back(dx, g)
        g["source_embedding"] = words_back(dx)
        return g

    return memory, pullback


def decode(
    p: Mapping[str, Array],
    ids: Ids,
    at: Places,
    memory: Array,
    over: Places,
    drop: Drop,
    *,
    heads: int,
    watched: int | None = None,
) -> tuple[Array, Array, Callable[[Array, Array | None], tuple[Array, Named]]]:
    """Read target words, each in the light of those before it and of the source.

    Parameters
    ----------
    p : mapping of str to array
        The parameters.
    ids : integer array (N,)
        The words, each sentence's from START.
    at : Places
        Where they stand.
    memory : array (M, W)
        The source words.
    over : Places
        Where these stand.
    drop : function
        Dropout.
    heads : int
        Of each attention.
    watched : int, optional
        The layer whose looks at the source are wanted.

    Returns
    -------
    readout : array (N, W)
        What each next word is predicted from.
    weights : array (B, n, T)
        Where the watched layer looked, the mean over its heads; (0, 0, 0) if none is watched.
    pullback : function
        ``pullback(dreadout, dweights or None) -> (dmemory, gradients by name)``.

    References
    ----------
    Vaswani et al. 2017, section 3.1 and 3.4.

    Examples
    --------
    >>> from regard.seq2seq.networks.transformer.config import TransformerConfig
    >>> from regard.seq2seq.networks.transformer.network import TransformerNetwork
    >>> p = TransformerNetwork(TransformerConfig(9, 9, width=4, heads=2, hidden=8)).parameters
    >>> at, over = Places(np.array([1])), Places(np.array([2]))
    >>> found = decode(p, np.array([1]), at, np.zeros((2, 4)), over, lambda rows: (rows, None), heads=2, watched=1)
    >>> found[1].tolist()
    [[[0.5, 0.5]]]
    """
    x, words_back = _words(p["target_embedding"], ids, at, drop)
    before, who = mask.causal(), mask.lengths(over.lengths[:, None])
    looks: list[Attending] = []
    backs: list[Callable[[Array, Array, Named], Array]] = []
    for i, layer in enumerate(layers(p, "decoder")):
        looks.append(Attending(at, over, heads, who, watched=i == watched))
        x, back = _decoder_layer(p, layer, x, memory, (Attending(at, at, heads, before), looks[-1]), drop)
        backs.append(back)
    readout, norm_back = layer_norm(x, p["decoder_gain"], p["decoder_shift"])

    def pullback(dreadout: Array, dweights: Array | None) -> tuple[Array, Named]:
        g: Named = {}
        dmemory = np.zeros_like(memory)
        if watched is not None:
            looks[watched].dweights = dweights
        dx, g["decoder_gain"], g["decoder_shift"] = norm_back(dreadout)
        for back in reversed(backs):
            dx = back(dx, dmemory, g)
        g["target_embedding"] = words_back(dx)
        return dmemory, g

    return readout, np.zeros((0, 0, 0)) if watched is None else looks[watched].weights, pullback


def _decoder_layer(
    p: Mapping[str, Array],
    layer: str,
    x: Array,
    memory: Array,
    attendings: tuple[Attending, Attending],
    drop: Drop,
) -> tuple[Array, Callable[[Array, Array, Named], Array]]:
    """Look at the words before, then at the source, then think; the pullback adds to dmemory."""
    x, self_back = look_block(p, layer + "self_", x, self_look(attendings[0]), drop)
    keys, keys_back = linear(memory, p[layer + "source_keys"])
    look = SourceLook(attendings[1], keys)
    x, source_back = look_block(p, layer + "source_", x, look, drop)
    x, hidden_back = hidden_block(p, layer + "hidden_", x, drop)

    def pullback(dx: Array, dmemory: Array, g: Named) -> Array:
        dx = source_back(hidden_back(dx, g), g)
        found, g[layer + "source_keys"] = keys_back(look.dkeys)
        dmemory += found
        return self_back(dx, g)

    return x, pullback

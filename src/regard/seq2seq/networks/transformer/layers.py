"""What a transformer is made of: looks and hidden layers, over the words of sentences of different lengths.

Letters: N words of a batch, B sentences, T source positions, n target positions, W width, d = W / heads.

A batch is worked on as rows (N, W), one for each word: what pads a sentence is never computed. Only attention needs to
know where a word stands, so rows are spread over B x T places on the way into it, and gathered behind it. Every block
adds to its input what it finds in the normalised input (Xiong et al. 2020, "On Layer Normalization in the Transformer
Architecture", figure 1b). The pullback of a block takes a dict and writes the gradients of its parameters into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import mask
from regard.attention import attention_vjp
from regard.nn import layer_norm, linear, perceptron
from regard.seq2seq.networks.padding import Places, beside_identity, split_heads

__all__ = ["Attending", "SourceLook", "hidden_block", "look_block", "self_look", "undropped"]

Array = NDArray[Any]
Named = dict[str, Array]
Back = Callable[[Array, Named], Array]
Drop = Callable[[Array], tuple[Array, Callable[[Array], tuple[Array]]]]
Look = Callable[[Array], tuple[Array, Callable[[Array], Array]]]


def undropped(rows: Array) -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Drop nothing out.

    Parameters
    ----------
    rows : array
        Any.

    Returns
    -------
    rows : array
        The same.
    pullback : function
        What gives gradients back as they are.

    Examples
    --------
    >>> undropped(np.eye(1))[0].tolist()
    [[1.0]]
    """
    return rows, lambda drows: (drows,)


class Attending:
    """Multi-head attention from the words at some places to those at others, rows in and rows out.

    Parameters
    ----------
    at : Places
        Where the words stand that look.
    over : Places
        Where those stand that are looked at.
    heads : int
        How many look side by side.
    who : Mask
        Who may see whom.
    watched : bool
        Whether the weights are wanted.

    Attributes
    ----------
    weights : array (B, n, T)
        The mean over the heads, where they are wanted: known after the call.
    dweights : array (B, n, T) or None
        Their gradient, to be set before the way back.

    References
    ----------
    Vaswani et al. 2017, section 3.2.2.

    Examples
    --------
    >>> at = Places(np.array([1, 2]))
    >>> attending = Attending(at, at, 1, mask.lengths(at.lengths[:, None]), watched=True)
    >>> attending(np.zeros((3, 1)), np.zeros((3, 1)), np.array([[8.0], [2.0], [4.0]]))[0].tolist()
    [[8.0], [3.0], [3.0]]
    >>> attending.weights[1].tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    def __init__(
        self, at: Places, over: Places, heads: int, who: mask.Mask, *, watched: bool = False
    ) -> None:
        self.at, self.over, self.heads, self.who, self.watched = at, over, heads, who, watched
        self.weights = np.zeros((0, 0, 0))
        self.dweights: Array | None = None

    def __call__(self, queries: Array, keys: Array, values: Array) -> tuple[Array, Callable[..., None]]:
        """Attend; ``pullback(dcontext, dqueries, dkeys, dvalues)`` writes into the last three."""
        q = split_heads(self.at.spread(queries), self.heads)  # (B, heads, n, d)
        k, v = (split_heads(self.over.spread(x), self.heads) for x in (keys, values))  # (B, heads, T, d)
        size = v.shape[-1]
        # The values of an identity are the weights, and their gradient comes back as any value's.
        context, pull = attention_vjp(q, k, beside_identity(v) if self.watched else v, mask=self.who)
        if self.watched:
            self.weights = context[..., size:].mean(axis=1)
        found = self._gathered(context[..., :size], self.at, np.empty_like(queries))

        def pullback(dcontext: Array, dqueries: Array, dkeys: Array, dvalues: Array) -> None:
            gradients = pull(self._whole(split_heads(self.at.spread(dcontext), self.heads)))
            self._gathered(gradients.queries, self.at, dqueries)
            self._gathered(gradients.keys, self.over, dkeys)
            self._gathered(gradients.values[..., :size], self.over, dvalues)

        return found, pullback

    def _gathered(self, x: Array, places: Places, out: Array) -> Array:
        """Write what heads have at their places (B, heads, T, d) into rows (N, W)."""
        places.gather(x.swapaxes(1, 2), out.reshape(len(out), self.heads, x.shape[-1]))
        return out

    def _whole(self, dcontext: Array) -> Array:
        """Return the gradient of all that came out: of the weights too, where they are wanted."""
        if not self.watched:
            return dcontext
        dweights = np.zeros_like(self.weights) if self.dweights is None else self.dweights
        share = (dweights / dweights.dtype.type(self.heads))[:, None]
        lead = dcontext.shape[:-1]
        return np.concatenate([dcontext, np.broadcast_to(share, (*lead, share.shape[-1]))], axis=-1)


def self_look(attending: Attending) -> Look:
    """Return the look of each word at its own sentence, for `look_block`.

    Parameters
    ----------
    attending : Attending
        From places to themselves.

    Returns
    -------
    function
        ``look(projected (N, 3 W)) -> (context (N, W), pullback)``: queries, keys and values come side by side.

    Examples
    --------
    >>> at = Places(np.array([2]))
    >>> look = self_look(Attending(at, at, 1, mask.causal()))
    >>> look(np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 4.0]]))[0].tolist()
    [[2.0], [3.0]]
    """

    def look(projected: Array) -> tuple[Array, Callable[[Array], Array]]:
        context, pull = attending(*np.split(projected, 3, axis=1))

        def pullback(dcontext: Array) -> Array:
            dprojected = np.empty_like(projected)
            pull(dcontext, *np.split(dprojected, 3, axis=1))
            return dprojected

        return context, pullback

    return look


class SourceLook:
    """The look of target words at the source, for `look_block`.

    Parameters
    ----------
    attending : Attending
        From the target's places to the source's.
    keys : array (M, 2 W)
        Keys and values of the source words, side by side.

    Attributes
    ----------
    dkeys : array (M, 2 W)
        Their gradient: known after the way back.

    Examples
    --------
    >>> attending = Attending(Places(np.array([1])), Places(np.array([2])), 1, mask.lengths([[2]]))
    >>> SourceLook(attending, np.array([[0.0, 2.0], [0.0, 4.0]]))(np.zeros((1, 1)))[0].tolist()
    [[3.0]]
    """

    def __init__(self, attending: Attending, keys: Array) -> None:
        self.attending, self.keys = attending, keys
        self.dkeys = np.zeros((0, 0))

    def __call__(self, queries: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Look, as ``look(queries (N, W)) -> (context (N, W), pullback)``."""
        context, pull = self.attending(queries, *np.split(self.keys, 2, axis=1))

        def pullback(dcontext: Array) -> Array:
            dqueries, self.dkeys = np.empty_like(queries), np.empty_like(self.keys)
            pull(dcontext, dqueries, *np.split(self.dkeys, 2, axis=1))
            return dqueries

        return context, pullback


def look_block(p: Mapping[str, Array], name: str, x: Array, look: Look, drop: Drop) -> tuple[Array, Back]:
    """Add to each row what it finds by looking: ``x + drop(look(norm(x) @ in) @ out)``.

    Parameters
    ----------
    p : mapping of str to array
        The parameters.
    name : str
        What the names of this block's begin with.
    x : array (N, W)
        The words.
    look : function
        ``look(projected) -> (context (N, W), pullback)``.
    drop : function
        Dropout.

    Returns
    -------
    y : array (N, W)
        The words, knowing more.
    pullback : function
        ``pullback(dy, gradients by name) -> dx``.

    References
    ----------
    Vaswani et al. 2017, section 3.2.2; Xiong et al. 2020, figure 1b.

    Examples
    --------
    >>> p = {"gain": np.ones(2), "shift": np.zeros(2), "in": np.eye(2), "out": np.eye(2)}
    >>> y, _ = look_block(p, "", np.array([[1.0, 3.0]]), lambda rows: (rows, None), lambda rows: (rows, None))
    >>> y.round(2)
    array([[0., 4.]])
    """
    normal, norm_back = layer_norm(x, p[name + "gain"], p[name + "shift"])
    projected, in_back = linear(normal, p[name + "in"])
    context, look_back = look(projected)
    found, out_back = linear(context, p[name + "out"])
    found, drop_back = drop(found)
    found += x

    def pullback(dy: Array, g: Named) -> Array:
        dcontext, g[name + "out"] = out_back(drop_back(dy)[0])
        dnormal, g[name + "in"] = in_back(look_back(dcontext))
        dx, g[name + "gain"], g[name + "shift"] = norm_back(dnormal, dy)
        return dx

    return found, pullback


def hidden_block(p: Mapping[str, Array], name: str, x: Array, drop: Drop) -> tuple[Array, Back]:
    """Add to each row what a hidden layer makes of it: ``x + drop(perceptron(norm(x)))``.

    Parameters
    ----------
    p : mapping of str to array
        The parameters.
    name : str
        What the names of this block's begin with.
    x : array (N, W)
        The words.
    drop : function
        Dropout.

    Returns
    -------
    y : array (N, W)
        The words, thought about.
    pullback : function
        ``pullback(dy, gradients by name) -> dx``.

    References
    ----------
    Vaswani et al. 2017, section 3.3; Xiong et al. 2020, figure 1b.

    Examples
    --------
    >>> p = {"gain": np.ones(2), "shift": np.zeros(2), "in": np.eye(2), "out": np.eye(2)}
    >>> p |= {"in_bias": np.zeros(2), "out_bias": np.zeros(2)}
    >>> hidden_block(p, "", np.array([[1.0, 3.0]]), lambda rows: (rows, None))[0].round(2)
    array([[1., 4.]])
    """
    weights = [name + part for part in ("in", "in_bias", "out", "out_bias")]
    normal, norm_back = layer_norm(x, p[name + "gain"], p[name + "shift"])
    found, perceptron_back = perceptron(normal, *(p[weight] for weight in weights))
    found, drop_back = drop(found)
    found += x

    def pullback(dy: Array, g: Named) -> Array:
        dnormal, *gradients = perceptron_back(drop_back(dy)[0])
        g.update(zip(weights, gradients, strict=True))
        dx, g[name + "gain"], g[name + "shift"] = norm_back(dnormal, dy)
        return dx

    return found, pullback

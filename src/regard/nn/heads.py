"""Multi-head attention with its projections, and splitting and merging of heads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._attention import attention_vjp
from regard.mask import MaskLike
from regard.nn.layers import linear
from regard.nn.normal import rms_norm
from regard.position import BiasLike
from regard.weights import NormalizeLike

__all__ = ["MultiHeadGradients", "merge_heads", "multi_head_attention", "split_heads"]

Array = NDArray[Any]
Rotate = Callable[[Array], tuple[Array, Callable[[Array], tuple[Array]]]]
Norm = Callable[[Array], tuple[Array, Callable[[Array], tuple[Array, Array]]]]


def split_heads(x: Array, heads: int) -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Split every vector into heads: (..., n, heads * d) becomes (..., heads, n, d).

    Parameters
    ----------
    x : array (..., n, heads * d)
        Projected queries, keys or values.
    heads : int
        Number of heads; with grouped heads, keys and values have fewer than queries.

    Returns
    -------
    y : array (..., heads, n, d)
        Input of attention.
    pullback : function
        ``pullback(dy (..., heads, n, d)) -> (dx (..., n, heads * d),)``.

    Raises
    ------
    ValueError, TypeError
        If the size of a vector is not a multiple of `heads`.

    Examples
    --------
    >>> import numpy as np
    >>> split_heads(np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]), heads=2)[0]
    array([[[1., 2.],
            [5., 6.]],
    <BLANKLINE>
           [[3., 4.],
            [7., 8.]]])
    """
    _check_floats("x", x)
    heads = _check.integer("heads", heads, least=1)
    if x.ndim < 2 or x.shape[-1] % heads:
        _check.fail(f"x must have shape (..., n, heads * d) with heads = {heads}. Got {x.shape} instead.")
    shape = (*x.shape[:-2], heads, x.shape[-2], x.shape[-1] // heads)

    def pullback(dy: Array) -> tuple[Array]:
        _check_floats("dy", dy)
        _check.shape("dy", dy.shape, shape)
        return (_merged(dy),)

    return _split(x, heads), pullback


def merge_heads(x: Array) -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Concatenate the vectors of all heads: (..., heads, n, d) becomes (..., n, heads * d).

    Parameters
    ----------
    x : array (..., heads, n, d)
        Contexts of the heads.

    Returns
    -------
    y : array (..., n, heads * d)
        Input of the output projection.
    pullback : function
        ``pullback(dy (..., n, heads * d)) -> (dx (..., heads, n, d),)``.

    Raises
    ------
    ValueError, TypeError
        If x is not such an array of floats.

    Examples
    --------
    >>> import numpy as np
    >>> merge_heads(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]))[0]
    array([[1., 2., 3., 4.]])
    """
    _check_floats("x", x)
    _check.dimensions(x=(x, "(..., heads, n, d)"))
    heads, n, d = x.shape[-3:]

    def pullback(dy: Array) -> tuple[Array]:
        _check_floats("dy", dy)
        _check.shape("dy", dy.shape, (*x.shape[:-3], n, heads * d))
        return (_split(dy, heads),)

    return _merged(x), pullback


def _check_floats(name: str, x: Array) -> None:
    """Check that an array holds floats; half precision is allowed, since heads are only moved."""
    if not (type(x) is np.ndarray and _check.is_half(x.dtype)):
        _check.floats(**{name: x})


def _split(x: Array, heads: int) -> Array:
    parts = x.reshape(*x.shape[:-1], heads, x.shape[-1] // max(heads, 1))
    return np.ascontiguousarray(np.swapaxes(parts, -2, -3))


def _merged(x: Array) -> Array:
    heads, n, d = x.shape[-3:]
    return np.ascontiguousarray(np.swapaxes(x, -2, -3)).reshape(*x.shape[:-3], n, heads * d)


class MultiHeadGradients(NamedTuple):
    """Gradients of `multi_head_attention`, each in the shape of its argument; None for arguments that were None.

    Parameters
    ----------
    x, memory : array
        Of the inputs of the projections. Without a memory, x has the gradient of both.
    query_weight, key_weight, value_weight, output_weight : array
        Of the projections.
    query_bias, key_bias, value_bias, output_bias : array or None
        Of the biases of the projections.
    bias, sink : array or None
        Of the options of the attention.
    value_memory : array or None
        Of the input of the values, where that is another one.
    query_gain, key_gain : array or None
        Of the norms.
    normalize : dict of str to array
        Of the normalisation, as in `regard.Gradients`.

    Examples
    --------
    >>> import numpy as np
    >>> _, pullback = multi_head_attention(np.ones((3, 2)), None, *np.ones((4, 2, 2)), heads=2)
    >>> gradients = pullback(np.ones((3, 2)))
    >>> gradients.x.shape, gradients.memory
    ((3, 2), None)
    """

    x: Array
    memory: Array | None
    query_weight: Array
    key_weight: Array
    value_weight: Array
    output_weight: Array
    query_bias: Array | None
    key_bias: Array | None
    value_bias: Array | None
    output_bias: Array | None
    bias: Array | None
    sink: Array | None
    value_memory: Array | None
    query_gain: Array | None
    key_gain: Array | None
    normalize: dict[str, Array]


def multi_head_attention(
    x: Array,
    memory: Array | None,
    query_weight: Array,
    key_weight: Array,
    value_weight: Array,
    output_weight: Array,
    query_bias: Array | None = None,
    key_bias: Array | None = None,
    value_bias: Array | None = None,
    output_bias: Array | None = None,
    *,
    heads: int,
    key_heads: int | None = None,
    value_memory: Array | None = None,
    query_gain: Array | None = None,
    key_gain: Array | None = None,
    epsilon: float = 1e-6,
    rotate: Rotate | None = None,
    mask: MaskLike | None = None,
    bias: BiasLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    normalize: NormalizeLike = "softmax",
    sink: ArrayLike | None = None,
) -> tuple[Array, Callable[[Array], MultiHeadGradients]]:
    """Project, attend with several heads, and project the contexts. ::

        queries, keys, values = split_heads(x @ query_weight), split_heads(memory @ key_weight), ...
        y = merge_heads(attention(queries, keys, values)) @ output_weight

    Parameters
    ----------
    x : array (..., n, w)
        Input of the queries.
    memory : array (..., m, v) or None
        Input of keys and values; None: x itself.
    query_weight : array (w, heads * d)
        Projection to the queries.
    key_weight : array (v, key_heads * d)
        Projection to the keys.
    value_weight : array (v, key_heads * e)
        Projection to the values.
    output_weight : array (heads * e, u)
        Projection of the contexts.
    query_bias, key_bias, value_bias, output_bias : array, optional
        Biases of the projections.
    heads : int
        Number of query heads.
    key_heads : int, optional
        Number of key and value heads, a divisor of `heads`; equal to it by default.
    value_memory : array (..., m, v'), optional
        Input of the values, (v', key_heads * e) the shape of their projection; by default that of the keys.
    query_gain, key_gain : array (d,), optional
        Gains of an RMS norm of the queries and of the keys of each head, before `rotate`; without them no norm.
    epsilon : float
        As for `rms_norm`.
    rotate : function, optional
        ``rotate(array (..., heads, n, d)) -> (array, pullback)``, applied to queries and to keys, such as
        ``regard.position.rotary_vjp``.
    mask, bias, scale, softcap, normalize, sink
        As for `regard.attention_vjp`.

    Returns
    -------
    y : array (..., n, u)
        The projected contexts.
    pullback : function
        ``pullback(dy (..., n, u)) -> MultiHeadGradients``.

    Raises
    ------
    ValueError, TypeError
        If shapes, heads or options don't match.

    References
    ----------
    Vaswani et al. 2017, section 3.2.2; Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models",
    section 2.2 (fewer key heads); Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters",
    section 2 (norms of queries and keys).

    Examples
    --------
    >>> import numpy as np, regard
    >>> x, eye = np.arange(8.0).reshape(2, 4), np.eye(4)
    >>> y, _ = multi_head_attention(x, None, eye, eye, eye, eye, heads=2, mask=regard.mask.causal())
    >>> y[0]
    array([0., 1., 2., 3.])
    """
    heads = _check.integer("heads", heads, least=1)
    key_heads = heads if key_heads is None else _check.integer("key_heads", key_heads, least=1)
    source = x if memory is None else memory
    of_values_source = source if value_memory is None else value_memory
    _check_sizes(query_weight, key_weight, heads, key_heads)
    norms = _norm(query_gain, epsilon), _norm(key_gain, epsilon)
    queries, of_queries = _project(x, query_weight, query_bias, heads, norms[0], rotate)
    keys, of_keys = _project(source, key_weight, key_bias, key_heads, norms[1], rotate)
    values, of_values = _project(of_values_source, value_weight, value_bias, key_heads, None, None)
    options: dict[str, Any] = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "sink": sink}
    context, of_attention = attention_vjp(queries, keys, values, **options, normalize=normalize)
    merged, of_merging = merge_heads(context)
    y, of_output = linear(merged, output_weight, output_bias)

    def pullback(dy: Array) -> MultiHeadGradients:
        dmerged, doutput, doutput_bias = _three(of_output(dy))
        gradients = of_attention(of_merging(dmerged)[0])
        dx, dquery, dquery_bias, dquery_gain = of_queries(gradients.queries)
        from_keys, dkey, dkey_bias, dkey_gain = of_keys(gradients.keys)
        from_values, dvalue, dvalue_bias, _ = of_values(gradients.values)
        dsource, dvalues = (
            (from_keys + from_values, None) if value_memory is None else (from_keys, from_values)
        )
        dx, dmemory = (dx + dsource, None) if memory is None else (dx, dsource)
        weights = dquery, dkey, dvalue, doutput
        biases = dquery_bias, dkey_bias, dvalue_bias, doutput_bias
        others = gradients.bias, gradients.sink, dvalues, dquery_gain, dkey_gain
        return MultiHeadGradients(dx, dmemory, *weights, *biases, *others, gradients.normalize)

    return y, pullback


def _check_sizes(query_weight: Array, key_weight: Array, heads: int, key_heads: int) -> None:
    """Check that queries and keys have the same size d."""
    _check.floats(query_weight=query_weight, key_weight=key_weight)
    sizes = query_weight.shape[-1:], key_weight.shape[-1:]
    if query_weight.ndim == key_weight.ndim == 2 and sizes[0][0] * key_heads != sizes[1][0] * heads:
        _check.fail(
            "query_weight (w, heads * d) and key_weight (v, key_heads * d) must share d: "
            f"{sizes[0][0]} / {heads} and {sizes[1][0]} / {key_heads}",
            hint="key_heads= is the number of heads of keys and values",
        )


def _norm(gain: Array | None, epsilon: float) -> Norm | None:
    return None if gain is None else partial(rms_norm, gain=gain, epsilon=epsilon)


def _project(
    x: Array, weight: Array, bias: Array | None, heads: int, norm: Norm | None, rotate: Rotate | None
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array | None, Array | None]]]:
    """Project, split, normalise and rotate; the pullback gives the gradients of x, weight, bias and gain."""
    projected, of_projection = linear(x, weight, bias)
    split, of_splitting = split_heads(projected, heads)
    normal, of_norm = (split, None) if norm is None else norm(split)
    rotated, of_rotation = (
        (normal, None) if rotate is None else _check.with_pullback("rotate(x)", rotate(normal))
    )

    def pullback(dheads: Array) -> tuple[Array, Array, Array | None, Array | None]:
        dnormal = dheads if of_rotation is None else of_rotation(dheads)[0]
        dsplit, dgain = (dnormal, None) if of_norm is None else of_norm(dnormal)
        return *_three(of_projection(of_splitting(dsplit)[0])), dgain

    return rotated, pullback


def _three(gradients: tuple[Array, ...]) -> tuple[Array, Array, Array | None]:
    """Return the gradients of a linear layer, with None where it has no bias."""
    dx, dweight, *dbias = gradients
    return dx, dweight, dbias[0] if dbias else None

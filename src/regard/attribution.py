"""Does a weight matter? What each input contributes, what an output loses without it, and whether attention agrees.

A weight says which inputs an output was computed from. Whether they mattered is another question (Jain and Wallace
2019, "Attention is not Explanation"; Wiegreffe and Pinter 2019, "Attention is not not Explanation").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._einsum import einsum
from regard._statistics import Measure, bootstrap, correlation

__all__ = [
    "Agreement",
    "Faithfulness",
    "Measure",
    "agreement",
    "bootstrap",
    "contributions",
    "erasure",
    "faithfulness",
    "rollout",
]

Array = NDArray[Any]
Model = Callable[[list[Any]], ArrayLike]


def contributions(
    weights: ArrayLike, values: ArrayLike, projection: ArrayLike | None = None, *, joint: bool = False
) -> Array:
    """Return how long the vector is that each key contributes to each context: ``|w_ij v_j P|``.

    Parameters
    ----------
    weights : array (..., n, m)
        Attention weights.
    values : array (..., m, e)
        What was weighted.
    projection : array (..., e, d), optional
        The output projection of the values; of several heads one each, (heads, e, d).
    joint : bool
        Whether the vectors of all heads, the axis before the last two, are added before they are measured.

    Returns
    -------
    array (..., n, m)
        Lengths, at least 0; with `joint` without the axis of heads.

    Raises
    ------
    ValueError
        If a number is not finite, or the shapes don't match.

    References
    ----------
    Kobayashi et al. 2020, "Attention is Not Only a Weight: Analyzing Transformers with Vector Norms".

    Examples
    --------
    >>> contributions([[0.75, 0.25]], [[1.0, 0.0], [0.0, 12.0]])
    array([[0.75, 3.  ]])
    """
    w, v = _finite("weights", weights, "(..., n, m)"), _finite("values", values, "(..., m, e)")
    if w.shape[-1] != v.shape[-2]:
        _check.fail(f"values must be (..., {w.shape[-1]}, e) as weights are. Got shape {v.shape} instead.")
    if projection is not None:
        p = _finite("projection", projection, "(..., e, d)")
        if v.shape[-1] != p.shape[-2]:
            _check.fail(f"projection must be (..., {v.shape[-1]}, d) as values are. Got {p.shape} instead.")
        v = v @ p
    if not joint:
        return np.asarray(np.abs(w) * np.linalg.norm(v, axis=-1)[..., None, :])
    if min(w.ndim, v.ndim) < 3:
        _check.fail(f"weights and values must have an axis of heads. Got {w.shape} and {v.shape} instead.")
    products = einsum("...hme,...gme->...hgm", v, v)  # of the heads' vectors of a key
    squares = einsum("...hnm,...hgm,...gnm->...nm", w, products, w)
    return np.asarray(np.sqrt(np.maximum(squares, 0)))


def rollout(layers: Iterable[ArrayLike], *, residual: float = 0.5) -> Array:
    """Return how much of each input is in each output of a stack of self-attention layers.

    Every layer mixes its inputs by ``residual * I + (1 - residual) * weights``, whose rows are made to sum to 1; the
    rollout is the product of all.

    Parameters
    ----------
    layers : sequence of arrays (..., n, n)
        The weights of each layer, the first layer first, such as the means over heads.
    residual : float
        The share of the residual connection, between 0 and 1.

    Returns
    -------
    array (..., n, n)
        Rows, one for each output, that sum to 1; to 0 where nothing is visible and `residual` is 0.

    Raises
    ------
    ValueError
        If there is no layer, a weight is negative or not finite, or the shapes don't match.

    References
    ----------
    Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.

    Examples
    --------
    >>> rollout([[[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    share, product = _check.number("residual", residual, least=0, most=1), None
    for number, layer in enumerate(layers):
        weights = _finite(f"layer {number}", layer, "(..., n, n)")
        size = weights.shape[-2] if product is None else product.shape[-2]
        if weights.shape[-2:] != (size, size):
            wanted = f"(..., {size}, {size}), self-attention of as many inputs as before."
            _check.fail(f"layer {number} must be {wanted} Got shape {weights.shape} instead.")
        if (weights < 0).any():
            _check.fail(f"layer {number} must have no negative weight. Got {weights.min():g} instead.")
        mixed = (1 - share) * weights + share * np.eye(size)
        mixed /= np.maximum(mixed.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
        product = mixed if product is None else mixed @ product
    if product is None:
        _check.fail("layers must not be empty.")
    return product


def erasure(
    model: Model,
    inputs: Sequence[Any],
    *,
    replacement: Any = None,
    positions: Sequence[int] | None = None,
    batch: int = 64,
    progress: Callable[[int], object] = lambda count: None,
) -> Array:
    """Return what an output loses without each input: the importance that attention is compared with.

    Parameters
    ----------
    model : function
        Called with a list of inputs, each like `inputs`; returns an array (count, ...), such as the log-probabilities
        of the tokens of one translation given each of these sources, (count, n).
    inputs : sequence
        The m inputs of one example: tokens, rows of an array.
    replacement : optional
        What an input becomes, such as an unknown token or the mean of all rows. None: it is left out.
    positions : sequence of int, optional
        Which inputs are erased, all by default; a long computation is resumed with those that are missing.
    batch : int
        How many variants the model gets at once, at most.
    progress : function, optional
        Called with the number of variants that are done, after each batch.

    Returns
    -------
    array (..., m)
        The output with all inputs less the output without input j; (n, m) of the example above.

    Raises
    ------
    ValueError
        If there is no input, a position is out of range, or the model returns something else.

    References
    ----------
    Li, Monroe and Jurafsky 2016, "Understanding Neural Networks through Representation Erasure"; Zeiler and Fergus
    2014, "Visualizing and Understanding Convolutional Networks" (occlusion).

    Examples
    --------
    >>> erasure(lambda lists: np.array([sum(each) for each in lists]), [1.0, 2.0, 5.0])
    array([1., 2., 5.])
    """
    if not len(inputs):
        _check.fail("inputs must not be empty.")
    numbers = range(len(inputs)) if positions is None else positions
    erased = [{_check.integer("positions", number, 0, len(inputs) - 1)} for number in numbers]
    losses = _losses(model, inputs, erased, replacement, batch, progress)
    return np.moveaxis(losses, 0, -1)


class Faithfulness(NamedTuple):
    """What an output loses without the most important inputs, and with nothing but these."""

    comprehensiveness: Array
    sufficiency: Array


def faithfulness(
    model: Model,
    inputs: Sequence[Any],
    importance: ArrayLike,
    *,
    shares: Sequence[float] = (0.1, 0.2, 0.5),
    replacement: Any = None,
) -> Faithfulness:
    """Return what an output loses without the most important inputs, and with these alone; means over `shares`.

    Parameters
    ----------
    model, inputs
        As for `erasure`.
    importance : array (m,) or (..., m)
        Such as weights: for all outputs, or for each number of an example's output; of several as important the first.
    shares : sequence of float
        Shares of the inputs that are the most important ones, above 0 and at most 1; at least one input.
    replacement : optional
        As for `erasure`.

    Returns
    -------
    Faithfulness
        ``comprehensiveness``, large if importance is faithful, and ``sufficiency``, small then: arrays (...) as
        `model` returns for one example.

    Raises
    ------
    ValueError
        If the shapes don't match, or a share is out of range.

    References
    ----------
    DeYoung et al. 2020, "ERASER: A Benchmark to Evaluate Rationalized NLP Models", section 5.

    Examples
    --------
    >>> result = faithfulness(lambda x: [sum(each) for each in x], [1.0, 2.0, 5.0], [0.1, 0.2, 0.7], shares=[0.5])
    >>> float(result.comprehensiveness), float(result.sufficiency)
    (7.0, 1.0)
    """
    scores = _check.numeric("importance", importance)
    if scores.shape[-1:] != (len(inputs),) or not len(inputs):
        _check.fail(f"importance must be (..., {len(inputs)}), one each. Got shape {scores.shape} instead.")
    _check.finite("importance", scores)
    if not len(shares) or not all(0 < share <= 1 for share in shares):
        _check.fail(f"shares must be above 0 and at most 1. Got {shares!r:.60} instead.")
    orders = np.argsort(-scores, axis=-1, kind="stable").reshape(-1, len(inputs)).tolist()
    counts = [max(1, round(share * len(inputs))) for share in shares]
    sides = [frozenset(part) for order in orders for k in counts for part in (order[:k], order[k:])]
    numbers = {erased: number for number, erased in enumerate(dict.fromkeys(sides))}
    losses = _losses(model, inputs, list(numbers), replacement)
    shape = losses.shape[1:]
    if scores.ndim > 1 and scores.shape[:-1] != shape:
        _check.fail(f"importance must be {(*shape, len(inputs))} as outputs are. Got {scores.shape} instead.")
    rows = np.array([numbers[side] for side in sides]).reshape(len(orders), len(counts), 2)
    outputs = np.arange(len(orders))[:, None, None] if scores.ndim > 1 else slice(None)
    means = losses.reshape(len(losses), -1)[rows, outputs].mean(axis=1)
    return Faithfulness(*np.moveaxis(means, 1, 0).reshape(2, *shape))


class Agreement(NamedTuple):
    """How well weights agree with importance: see `agreement`."""

    rows: int
    top: Measure
    correlation: Measure

    def __str__(self) -> str:
        top, ranks = self.top, self.correlation
        return (
            f"the most attended input is the most important one in {top.value:.1%} of {self.rows} rows "
            f"(95 % interval {top.low:.1%} to {top.high:.1%}, chance {top.chance:.1%}); the ranks agree by "
            f"{ranks.value:.2f} ({ranks.low:.2f} to {ranks.high:.2f}, chance 0)"
        )


def agreement(
    weights: ArrayLike | Sequence[ArrayLike],
    importance: ArrayLike | Sequence[ArrayLike],
    *,
    samples: int = 1000,
    rng: int | np.random.Generator = 0,
) -> Agreement:
    """Return how often the most attended input is the most important one, and how well the ranks agree (Spearman).

    Rows with fewer than two inputs say nothing and are left out; so are those with equal weights or equal importance
    from the correlation. Of inputs with equal weights each is the most attended one as probably.

    Parameters
    ----------
    weights, importance : array (n, m), or a list of such arrays
        Attention weights, or contributions, and the importance of the same inputs, such as from `erasure`: of one
        example, or of several. NaN: an input that is not visible.
    samples, rng
        As for `bootstrap`, which draws whole examples; of one example its rows.

    Returns
    -------
    Agreement
        ``rows``, ``top`` and ``correlation``.

    Raises
    ------
    ValueError
        If the shapes differ, a number is infinite, or no row has two inputs.

    References
    ----------
    Jain and Wallace 2019, section 4.1 (ranks of both); Spearman 1904.

    Examples
    --------
    >>> result = agreement([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]], [[3.0, 1.0, 0.5], [0.2, 0.4, 0.9]])
    >>> result.top.value, result.top.chance, round(result.correlation.value, 6)
    (0.5, 0.3333333333333333, 0.75)
    """
    generator = _check.generator("rng", rng)
    examples = _examples(weights=weights, importance=importance)
    if len(examples) == 1:
        examples = [[row] for row in examples[0]]
    rows = [row for example in examples for row in example]
    if not rows:
        _check.fail("weights and importance must have a row with at least two visible inputs.")
    chance = float(np.mean([(needed == needed.max()).mean() for _, needed in rows]))
    top, ranks = ([[of(*row) for row in example] for example in examples] for of in (_top, correlation))
    means = (top, chance), (ranks, 0.0)
    return Agreement(len(rows), *(bootstrap(x, chance=c, samples=samples, rng=generator) for x, c in means))


def _finite(name: str, value: ArrayLike, letters: str) -> Array:
    """Return an array of finite numbers in double precision, with these axes."""
    array = _check.numeric(name, value).astype(np.float64)
    _check.dimensions(**{name: (array, letters)})
    _check.finite(name, array)
    return array


def _without(inputs: Sequence[Any], erased: Set[int], replacement: Any) -> list[Any]:
    """Return the inputs with some of them replaced, or left out."""
    if replacement is None:
        return [each for i, each in enumerate(inputs) if i not in erased]
    return [replacement if i in erased else each for i, each in enumerate(inputs)]


def _losses(
    model: Model,
    inputs: Sequence[Any],
    erased: Sequence[Set[int]],
    replacement: Any,
    batch: int = 64,
    progress: Callable[[int], object] = lambda count: None,
) -> Array:
    """Return what the output of all inputs loses without each of these sets of them, in batches."""
    size = _check.integer("batch", batch, 1)
    complete = _output(model, [list(inputs)])
    losses = [complete[:0]]
    for start in range(0, len(erased), size):
        variants = [_without(inputs, each, replacement) for each in erased[start : start + size]]
        losses.append(complete - _output(model, variants, complete.shape[1:]))
        progress(len(variants))
    return np.concatenate(losses)


def _output(model: Model, variants: list[list[Any]], shape: tuple[int, ...] | None = None) -> Array:
    """Return the output of a model, an array (count, ...) or of the shape of the one before."""
    output = _check.numeric("the output of model", model(variants)).astype(np.float64)
    wanted = len(variants), *(output.shape[1:] if shape is None else shape)
    if output.shape != wanted:
        _check.fail(f"the output of model must be {wanted}. Got shape {output.shape} instead.")
    return output


def _examples(**sides: Any) -> list[list[tuple[Array, Array]]]:
    """Return the rows of each example, or of the only one, that have at least two visible inputs, and these alone."""
    arrays = [
        [_check.numeric(name, each).astype(np.float64) for each in (side if _is_list(side) else [side])]
        for name, side in sides.items()
    ]
    shapes = [[each.shape for each in side] for side in arrays]
    if shapes[0] != shapes[1] or any(len(shape) != 2 for shape in shapes[0]):
        rule = "weights and importance must both be (n, m), or as many such arrays."
        _check.fail(f"{rule} Got {str(shapes[0])[:60]} and {str(shapes[1])[:60]} instead.")
    if any(np.isinf(each).any() for side in arrays for each in side):
        _check.fail("weights and importance must be finite, or NaN for an input that is not visible.")
    return [
        [(w[some], needed[some]) for w, needed, some in zip(*pair, visible, strict=True) if some.sum() > 1]
        for pair in zip(*arrays, strict=True)
        for visible in [~(np.isnan(pair[0]) | np.isnan(pair[1]))]
    ]


def _is_list(value: Any) -> bool:
    """Return whether a value is a list of matrices, not of rows."""
    return isinstance(value, list | tuple) and bool(value) and np.ndim(value[0]) == 2


def _top(weights: Array, importance: Array) -> float:
    """Return the probability that the most attended input, one of several by chance, is a most important one."""
    return float((importance[weights == weights.max()] == importance.max()).mean())

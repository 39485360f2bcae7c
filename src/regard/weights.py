"""Step 2: normalisation, which turns the logits of a row into its weights.

A normalisation is any function ``normalize(logits (..., m)) -> weights (..., m)`` of complete rows, each of which
depends on its own logits alone; they are -inf at masked keys, whose weights count as 0. With a method ``vjp``
(`DifferentiableNormalizer`) it has gradients. Those of this module are functions, or small objects with parameters. ::

    softmax    exp(z_j) / sum exp(z)                  every visible key gets a weight
    sparsemax  max(z_j - t, 0)                        Martins and Astudillo 2016: many weights are exactly 0
    entmax15   max(z_j / 2 - t, 0)^2                  Peters, Niculae and Martins 2019, alpha = 1.5: between the two
    entmax     ((alpha - 1) (z_j - t))^(1/(alpha-1))  the same paper, any alpha from 1: softmax, entmax15, sparsemax
    hard       1 for the largest                      the first of equal ones
    sigmoid    1 / (1 + exp(-z_j - b))                Ramapuram et al. 2024: keys do not compete, a row has any sum
    relu       max(z_j, 0) / m                        Wortsman et al. 2023: likewise, and many weights are exactly 0
    local_m    softmax near position i                   Luong 2015, section 3.2
    local_p    softmax near a predicted position, times a Gaussian around it
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import Layout, as_align
from regard._repr import constructor_text

__all__ = [
    "DifferentiableNormalizer",
    "Normalizer",
    "entmax",
    "entmax15",
    "hard",
    "local_m",
    "local_p",
    "predict_positions",
    "relu",
    "sigmoid",
    "softmax",
    "sparsemax",
]

Array = NDArray[Any]


def _logits(logits: ArrayLike) -> Array:
    array = _check.numeric("logits", logits)
    _check.dimensions(logits=(array, "(..., m)"))
    real = _check.is_float(array.dtype)
    return array.astype(array.dtype.newbyteorder("=") if real else float, copy=False)


def _in_float32(normalize: Callable[[Array], Array]) -> Callable[[ArrayLike], Array]:
    """Check logits; compute half precision in float32, whose sums are more exact, and round the weights back."""

    @functools.wraps(normalize)
    def rounded(logits: ArrayLike) -> Array:
        z = _logits(logits)
        if not _check.is_half(z.dtype):
            return normalize(z)
        return _check.rounded(normalize(z.astype(np.float32)), z.dtype)

    return rounded


def _without_warnings() -> np.errstate:
    """Silence NumPy: a visible NaN or +inf makes the row NaN, and an exponential that underflows is 0."""
    return np.errstate(all="ignore")


@_in_float32
def softmax(logits: Array) -> Array:
    """Turn logits into weights with ``exp(z_j) / sum_k exp(z_k)``.

    Parameters
    ----------
    logits : array (..., m)
        Logits, -inf at masked keys.

    Returns
    -------
    array (..., m)
        Positive at visible keys, unless the weight underflows; a row without a visible key is all 0.

    References
    ----------
    Bahdanau, Cho and Bengio 2014, eq. 6.

    Examples
    --------
    >>> import numpy as np
    >>> from regard import weights
    >>> weights.softmax([0.0, np.log(3.0), -np.inf])
    array([0.25, 0.75, 0.  ])
    """
    with _without_warnings():
        exponentials = np.exp(logits - _largest(logits))
        total = exponentials.sum(-1, keepdims=True)  # at least exp(0) = 1, or 0 without a visible key
        weights: Array = exponentials / np.maximum(total, 1)
    weights[logits == -np.inf] = 0  # also in a row with a NaN
    return weights


def log_sum_exp(logits: Array) -> Array:
    """Return the logarithm of the sum that `softmax` divides by (...): -inf for a row without a visible key."""
    with _without_warnings():
        largest = _largest(logits)
        lse: Array = np.log(np.exp(logits - largest).sum(-1)) + largest[..., 0]
    return lse


def _largest(z: Array) -> Array:
    """Return the largest logit of each row (..., 1), or a finite number for a row without a visible key."""
    largest: Array = z.max(axis=-1, keepdims=True, initial=np.finfo(z.dtype).min)
    return largest


def _sorted(z: Array) -> tuple[Array, Array, Array]:
    """Return sorted logits minus the largest of the row, their ranks 1..m, and whether no key is visible."""
    with _without_warnings():
        largest = np.max(z, axis=-1, keepdims=True, initial=-np.inf)
        shifted = z - np.where(np.isneginf(largest), 0, largest)
    descending = -np.sort(-shifted, axis=-1)
    return descending, np.arange(1, z.shape[-1] + 1), np.isneginf(largest)


@_in_float32
def sparsemax(logits: Array) -> Array:
    """Turn logits into the nearest point of the simplex, ``max(z_j - t, 0)`` with t such that the row sums to 1.

    Parameters
    ----------
    logits : array (..., m)
        Logits, -inf at masked keys.

    Returns
    -------
    array (..., m)
        Rows sum to 1, many weights are exactly 0; a row without a visible key is all 0.

    References
    ----------
    Martins and Astudillo 2016, "From Softmax to Sparsemax", algorithm 1.

    Examples
    --------
    >>> from regard import weights
    >>> weights.sparsemax([1.0, 0.5, -1.0])
    array([0.75, 0.25, 0.  ])
    """
    descending, rank, empty = _sorted(logits)
    with _without_warnings():
        total = np.cumsum(np.where(np.isneginf(descending), 0, descending), axis=-1, dtype=np.float64)
        support = 1 + rank * descending > total
        return _above(logits, _at_last_rank(support, (total - 1) / rank), empty, 1)


@_in_float32
def entmax15(logits: Array) -> Array:
    """Turn logits into 1.5-entmax weights, ``max(z_j / 2 - t, 0)^2`` with t such that the row sums to 1.

    Parameters
    ----------
    logits : array (..., m)
        Logits, -inf at masked keys.

    Returns
    -------
    array (..., m)
        Rows sum to 1, small weights are exactly 0; a row without a visible key is all 0.

    References
    ----------
    Peters, Niculae and Martins 2019, "Sparse Sequence-to-Sequence Models", algorithm 2.

    Examples
    --------
    >>> from regard import weights
    >>> weights.entmax15([3.0, 0.0])
    array([1., 0.])
    """
    with _without_warnings():
        logits = logits / 2
    descending, rank, empty = _sorted(logits)
    with _without_warnings():
        finite = np.where(np.isneginf(descending), 0, descending)
        mean = np.cumsum(finite, axis=-1, dtype=np.float64) / rank
        spread = np.cumsum(finite**2, axis=-1, dtype=np.float64) - rank * mean**2
        threshold = mean - np.sqrt(np.maximum((1 - spread) / rank, 0))
        support = (threshold <= descending) & ~np.isneginf(descending)
        return _above(logits, _at_last_rank(support, threshold), empty, 2)


def _at_last_rank(support: Array, candidates: Array) -> Array:
    """Return the candidate threshold of each row at the last rank of its support."""
    if not support.shape[-1]:
        return np.zeros((*support.shape[:-1], 1), candidates.dtype)
    index = np.maximum(support.sum(-1, keepdims=True) - 1, 0)
    return np.take_along_axis(candidates, index, axis=-1)


def _above(z: Array, threshold: Array, empty: Array, power: int) -> Array:
    """Return max(z - largest - threshold, 0) ** power; rows with a NaN or +inf are NaN at visible keys."""
    largest = np.max(z, axis=-1, keepdims=True, initial=-np.inf)
    above = np.maximum(z - np.where(empty, 0, largest) - threshold, 0) ** power
    invalid = np.isnan(largest) | np.isposinf(largest)
    return np.where(np.isneginf(z), 0, np.where(invalid, np.nan, above)).astype(z.dtype)


@_in_float32
def hard(logits: Array) -> Array:
    """Turn logits into weight 1 for the largest (the first of equal ones) and 0 for all others.

    Parameters
    ----------
    logits : array (..., m)
        Logits, -inf at masked keys.

    Returns
    -------
    array (..., m)
        One 1 in each row; a row without a visible key is all 0; a row with a visible NaN or inf is NaN at all
        visible keys.

    References
    ----------
    Xu et al. 2015, "Show, Attend and Tell", section 4.1 (the most probable position instead of a sampled one).

    Examples
    --------
    >>> from regard import weights
    >>> weights.hard([1.0, 5.0, 5.0])
    array([0., 1., 0.])
    """
    if not logits.size:
        return np.zeros_like(logits)
    one_hot = np.arange(logits.shape[-1]) == np.argmax(logits, axis=-1)[..., None]
    invalid = np.isnan(logits).any(-1, keepdims=True) | np.isposinf(logits).any(-1, keepdims=True)
    return np.where(np.isneginf(logits), 0, np.where(invalid, np.nan, one_hot)).astype(logits.dtype)


@runtime_checkable
class DifferentiableNormalizer(Protocol):
    """Protocol of a user-defined normalisation with gradients.

    Examples
    --------
    >>> import numpy as np, regard
    >>> class Exponential:
    ...     def __call__(self, logits):
    ...         return np.exp(logits)
    ...     def vjp(self, logits):
    ...         weights = self(logits)
    ...         return weights, lambda dweights: dweights * weights
    >>> isinstance(Exponential(), regard.weights.DifferentiableNormalizer)
    True
    >>> regard.attend([[0.0]], [[1.0], [2.0]], [[1.0], [2.0]], normalize=Exponential()).weights
    array([[1., 1.]])
    """

    def __call__(self, logits: Any, /) -> Any:
        """Turn complete rows of logits (..., m), -inf at masked keys, into weights (..., m)."""
        ...

    def vjp(self, logits: Any, /) -> tuple[Any, Callable[[Any], Any]]:
        """Return weights and ``pullback(dweights) -> dlogits`` or ``(dlogits, {name: gradient})``."""
        ...


class Normalizer:
    """Base class of the normalisations of this package with parameters: callable, with `vjp`.

    Examples
    --------
    >>> from regard import weights
    >>> isinstance(weights.relu(), weights.Normalizer)
    True
    """

    def __call__(self, logits: ArrayLike) -> Array:
        """Turn logits (..., m), -inf at masked keys, into weights (..., m)."""
        with _without_warnings():
            return _in_float32(self._define)(logits)

    def vjp(self, logits: ArrayLike) -> tuple[Array, Callable[[Array], Any]]:
        """Return the weights and their pullback.

        Parameters
        ----------
        logits : array (..., m)
            Logits, -inf at masked keys.

        Returns
        -------
        weights : array (..., m)
            As from calling the object.
        pullback : function
            Maps the gradient of the weights to that of the logits, or to ``(dlogits, {name: gradient})``.

        Examples
        --------
        >>> import numpy as np
        >>> from regard import weights
        >>> _, pullback = weights.relu().vjp([1.0, -1.0])
        >>> pullback(np.ones(2))
        array([0.5, 0. ])
        """
        z = _logits(logits)
        weights = self(z)

        def pullback(dweights: Array) -> Any:
            with _without_warnings():
                return self._pull_back(z, weights, dweights)

        return weights, pullback

    def _define(self, logits: Array) -> Array:
        """Return weights in the dtype of the logits."""
        raise NotImplementedError

    def _pull_back(self, logits: Array, weights: Array, dweights: Array) -> Any:
        """Return the gradient of the logits, and those of parameters by their names."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return constructor_text(self)


@dataclass(frozen=True, eq=False, repr=False)
class entmax(Normalizer):
    """Turn logits into alpha-entmax weights, ``max((alpha - 1) (z_j - t), 0)^(1 / (alpha - 1))`` that sum to 1.

    Parameters
    ----------
    alpha : float
        From 1 (`softmax`) through 1.5 (`entmax15`) and 2 (`sparsemax`) upwards; the larger, the more weights are 0.

    Returns
    -------
    entmax
        For ``normalize=``; calling it maps logits (..., m) to weights (..., m).

    References
    ----------
    Peters, Niculae and Martins 2019, "Sparse Sequence-to-Sequence Models", eq. 10, with Newton's steps in place of
    bisection.

    Examples
    --------
    >>> from regard import weights
    >>> weights.entmax(3.0)([0.4, 0.4, -0.6])
    array([0.5, 0.5, 0. ])
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _check.number("alpha", self.alpha))
        if self.alpha < 1:
            hint = "1 is softmax, 1.5 is entmax15, 2 is sparsemax"
            _check.fail(f"alpha must be at least 1. Got {self.alpha:g} instead.", hint=hint)

    def _define(self, logits: Array) -> Array:
        if self.alpha in _ENTMAX:
            return NAMED[_ENTMAX[self.alpha]](logits)
        if not logits.size:
            return np.zeros_like(logits)
        z, weight = self._relative(logits.astype(np.float64))
        for _ in range(_MOST_STEPS):
            weights, slopes = self._beside(weight, z)
            step = (weights.sum(-1, keepdims=True) - 1) / slopes.sum(-1, keepdims=True)
            if not (moving := step > _CONVERGED * weight).any():
                break
            weight = np.where(moving, weight - step, weight)
        return weights.astype(logits.dtype)

    def _beside(self, weight: Array, z: Array) -> tuple[Array, Array]:
        """Return the weights of keys by z above the key that has this weight, and their slopes in that weight.

        They are ``(weight^(alpha - 1) + (alpha - 1) z)^(1 / (alpha - 1))``, which tends to ``weight exp(z)``.
        """
        power = self.alpha - 1
        if power > 0.1:
            base = np.maximum(weight**power + power * z, 0)
            weights = base ** (1 / power)
        else:  # the root would multiply the rounding of a sum near 1
            above = np.maximum(np.expm1(power * np.log(weight)) + power * z, -1)
            base, weights = 1 + above, np.exp(np.log1p(above) / power)
        return weights, weights / np.where(base == 0, 1, base) * weight ** (power - 1)

    def _relative(self, z: Array) -> tuple[Array, Array]:
        """Return logits minus that of one key of each row, and no less than its weight (..., 1), to begin with.

        The sum of all weights is convex in that of the first key or, for alpha > 2, of the last key that has one, so
        that Newton's steps from above never pass the solution. Each row converges independently of the others.
        """
        largest = np.max(z, axis=-1, keepdims=True)
        key, count = (
            _last_with_weight(z, self._beside) if self.alpha > 2 else (largest, np.ones_like(largest))
        )
        above = z - np.where(np.isfinite(largest), key, np.nan)
        return np.where(np.isneginf(z) | ((above < 0) & (self.alpha > 2)), -np.inf, above), 1 / count

    def _pull_back(self, logits: Array, weights: Array, dweights: Array) -> Array:
        """Return ``slope_j (dweights_j - mean)``; of the steepest weight, whose slope has no bound, minus the others'.

        So that slope multiplies no difference of nearly equal numbers.
        """
        if not weights.size:
            return np.zeros_like(weights)
        slopes = _slopes(weights, self.alpha)
        steepest = np.argmax(slopes, -1, keepdims=True)
        largest = np.take_along_axis(weights, steepest, -1)
        shares = _slopes(weights / np.where(largest == 0, 1, largest), self.alpha)
        total = shares.sum(-1, keepdims=True)
        relative = dweights - np.take_along_axis(dweights, steepest, -1)
        mean = (shares * relative).sum(-1, keepdims=True) / np.where(total == 0, 1, total)
        dlogits: Array = slopes * (relative - mean)
        np.put_along_axis(dlogits, steepest, 0, -1)
        np.put_along_axis(dlogits, steepest, -dlogits.sum(-1, keepdims=True), -1)
        return dlogits


def _last_with_weight(z: Array, beside: Callable[..., tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the least logit with a weight (..., 1), and how many have one: without its own, the sum is less than 1."""
    m, ordered = z.shape[-1], -np.sort(-z, axis=-1)
    last = np.zeros((*z.shape[:-1], 1), np.intp)
    for step in 2 ** np.arange(m.bit_length())[::-1]:
        further = np.take_along_axis(ordered, np.minimum(last + step, m - 1), -1)
        below = beside(np.zeros_like(further), z - further)[0].sum(-1, keepdims=True) < 1
        last = np.where((last + step < m) & below, last + step, last)
    return np.take_along_axis(ordered, last, -1), last + 1


def _slopes(weights: Array, alpha: float) -> Array:
    """Return weights^(2 - alpha), the slope of each entmax weight in its logit, and 0 outside of the support."""
    return np.where(weights == 0, 0, np.where(weights == 0, 1, weights) ** (2 - alpha))


def _visible_keys(logits: Array) -> Array:
    """Return the number of visible keys of each row (..., 1), at least 1, in the dtype of the logits."""
    counts: Array = (~np.isneginf(logits)).sum(-1, keepdims=True)
    return np.maximum(counts, 1).astype(logits.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class sigmoid(Normalizer):
    """Turn each logit into a weight of its own, ``1 / (1 + exp(-(z_j + bias)))``.

    Parameters
    ----------
    bias : float, optional
        By default ``-log(m)``, with the number m of keys that are visible to the query: many keys then begin with as
        much weight altogether as one. `attention_vjp` gives the gradient of a number; of one for each head,
        ``bias=`` of `attention` does.

    Returns
    -------
    sigmoid
        For ``normalize=``; calling it maps logits (..., m) to weights (..., m), whose rows have any sum up to m.

    References
    ----------
    Ramapuram et al. 2024, "Theory, Analysis, and Best Practices for Sigmoid Self-Attention", eq. 3 and section 3.1.

    Examples
    --------
    >>> from regard import weights
    >>> weights.sigmoid(bias=0.0)([0.0, 0.0])
    array([0.5, 0.5])
    >>> weights.sigmoid()([0.0, 0.0, -float("inf")]).round(3)
    array([0.333, 0.333, 0.   ])
    """

    bias: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bias", None if self.bias is None else _check.number("bias", self.bias))

    def _define(self, logits: Array) -> Array:
        bias = -np.log(_visible_keys(logits)) if self.bias is None else logits.dtype.type(self.bias)
        return np.asarray(1 / (1 + np.exp(-(logits + bias))))

    def _pull_back(self, logits: Array, weights: Array, dweights: Array) -> Any:
        dlogits = dweights * weights * (1 - weights)
        return dlogits if self.bias is None else (dlogits, {"bias": dlogits.sum(dtype=np.float64)})


@dataclass(frozen=True, eq=False, repr=False)
class relu(Normalizer):
    """Turn each logit into a weight of its own, ``max(z_j, 0) / m`` with the number m of keys visible to the query.

    Returns
    -------
    relu
        For ``normalize=``; calling it maps logits (..., m) to weights (..., m), whose rows have any sum.

    References
    ----------
    Wortsman, Lee, Gilmer and Kornblith 2023, "Replacing softmax with ReLU in Vision Transformers", section 3.

    Examples
    --------
    >>> from regard import weights
    >>> weights.relu()([1.0, -1.0])
    array([0.5, 0. ])
    """

    def _define(self, logits: Array) -> Array:
        return np.asarray(np.maximum(logits, 0) / _visible_keys(logits))

    def _pull_back(self, logits: Array, weights: Array, dweights: Array) -> Array:
        return np.asarray(dweights * np.heaviside(logits, 0) / _visible_keys(logits))


@dataclass(frozen=True, eq=False, repr=False)
class local_m:
    """Apply softmax inside a window that moves with the query: keys i - width to i + width.

    Parameters
    ----------
    width : int
        Visible keys on either side of the aligned position (D in the paper).
    align : {"start", "end"} or int array broadcasting to (...)
        Query i is aligned with key i ("start"), key i + m - n ("end") or key i + `align`.

    Returns
    -------
    local_m
        For ``normalize=``.

    References
    ----------
    Luong, Pham and Manning 2015, section 3.2, monotonic alignment.

    Examples
    --------
    >>> import numpy as np, regard
    >>> near, x = regard.weights.local_m(1), np.zeros((3, 1))
    >>> regard.attend(x, x, np.eye(3), normalize=near).weights.round(2)
    array([[0.5 , 0.5 , 0.  ],
           [0.33, 0.33, 0.33],
           [0.  , 0.5 , 0.5 ]])
    """

    width: int
    align: Any = "start"

    def __repr__(self) -> str:
        return constructor_text(self)

    def __post_init__(self) -> None:
        # A Python integer: NumPy's wrap around.
        object.__setattr__(self, "width", _check.integer("width", self.width))
        object.__setattr__(self, "align", as_align(self.align, optional=False))


@dataclass(frozen=True, eq=False, repr=False)
class local_p:
    """Apply softmax inside a window around a predicted position p, times ``exp(-(j - p)^2 / (2 (width / 2)^2))``.

    The factor is applied after the softmax without another normalisation, so rows sum to less than 1.

    Parameters
    ----------
    positions : array broadcasting to (..., n)
        Position p of each query, a real number from 0 to m: see `predict_positions`.
    width : float
        Half the window (D in the paper); greater than 0.

    Returns
    -------
    local_p
        For ``normalize=``.

    References
    ----------
    Luong, Pham and Manning 2015, section 3.2, eq. 9 and 10.

    Examples
    --------
    >>> import numpy as np, regard
    >>> near = regard.weights.local_p([1.0], width=2.0)
    >>> regard.attend(np.zeros((1, 1)), np.zeros((3, 1)), np.eye(3), normalize=near).weights.round(3)
    array([[0.202, 0.333, 0.202]])
    """

    positions: Any
    width: float

    def __repr__(self) -> str:
        return constructor_text(self)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", _check.floating("positions", self.positions))
        object.__setattr__(self, "width", _check.number("width", self.width, positive=True))

    def distance(self, positions: Array, m: int) -> Array:
        """Return the distance of each key from the predicted position, j - p.

        Parameters
        ----------
        positions : array (...)
            Positions p.
        m : int
            Number of keys.

        Returns
        -------
        array (..., m)
            The distances.

        Examples
        --------
        >>> import numpy as np, regard
        >>> regard.weights.local_p([1.0], width=2.0).distance(np.array([1.0]), 3)
        array([[-1.,  0.,  1.]])
        """
        distance: Array = np.arange(m) - positions[..., None]
        return distance

    def gauss(self, distance: Array) -> Array:
        """Return the Gaussian factor for distances.

        Parameters
        ----------
        distance : array
            Distances j - p.

        Returns
        -------
        array of the same shape
            From 0 to 1.

        Examples
        --------
        >>> import numpy as np, regard
        >>> regard.weights.local_p([1.0], width=2.0).gauss(np.array([0.0, 1.0])).round(3)
        array([1.   , 0.607])
        """
        return np.exp(-2 * (distance / self.width) ** 2)


def predict_positions(queries: ArrayLike, weight: ArrayLike, vector: ArrayLike, m: int) -> Array:
    """Predict the position that each query attends to, ``m * sigmoid(v . tanh(q W))``.

    Parameters
    ----------
    queries : array (..., n, d)
        Decoder states.
    weight : array (d, h)
        Learned projection.
    vector : array (h,)
        Learned output weights.
    m : int
        Number of keys.

    Returns
    -------
    array (..., n)
        Positions from 0 to m, for `local_p`.

    References
    ----------
    Luong, Pham and Manning 2015, eq. 9.

    Examples
    --------
    >>> from regard import weights
    >>> weights.predict_positions([[0.0]], [[1.0]], [1.0], 10)
    array([5.])
    """
    array, projection = _check.numeric("queries", queries), _check.parameter("weight", weight, "(d, h)")
    array = array.astype(_check.dtypes(array)[0], copy=False)  # float16 represents integers up to 2,048 only
    if not array.ndim or array.shape[-1] != len(projection):
        rule = f"queries must have shape (..., n, {len(projection)}). Got shape {array.shape} instead."
        _check.fail(
            rule, hint=_check.transpose_hint("weight", projection.shape, (*array.shape[-1:], len(projection)))
        )
    output = _check.parameter("vector", vector, "(h,)")
    _check.hidden("weight", projection, len(output))
    sigmoid = (1 + np.tanh(np.tanh(array @ projection) @ output / 2)) / 2
    positions: Array = _check.integer("m", m) * sigmoid
    return positions


NAMED: dict[str, Callable[[ArrayLike], Array]] = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "hard": hard,
}
NormalizeLike: TypeAlias = str | local_m | local_p | Callable[[Any], Any]
_ENTMAX = {
    1.0: "softmax",
    1.5: "entmax15",
    2.0: "sparsemax",
}  # by alpha: those with an algorithm of their own
_MOST_STEPS = 100  # of Newton's method
_CONVERGED = 4 * float(np.finfo(np.float64).eps)


def as_normalize(normalize: NormalizeLike) -> NormalizeLike:
    """Check the argument ``normalize=``; return the name of what has a name."""
    if isinstance(normalize, str | local_m | local_p):
        if isinstance(normalize, str) and normalize not in NAMED:
            _unknown(normalize)
        return normalize
    if isinstance(normalize, type):
        module = "weights." if normalize.__module__ == __name__ else ""
        rule = f"normalize must be an instance, not a class: {module}{normalize.__name__}(...)"
        _check.fail(rule, kind=TypeError)
    if not callable(normalize):
        _unknown(normalize)
    if type(normalize) is entmax and normalize.alpha in _ENTMAX:
        return _ENTMAX[normalize.alpha]
    return next((name for name, function in NAMED.items() if function is normalize), normalize)


def _unknown(normalize: object) -> None:
    objects = "entmax(alpha), sigmoid(), relu(), local_m(width), local_p(positions, width)"
    hint = f"or an object of regard.weights: {objects}; or a function of rows"
    _check.one_of("normalize", normalize, NAMED, hint)


def is_softmax(normalize: NormalizeLike) -> bool:
    """Return whether this is the softmax, whatever the equality of a user's object says."""
    return isinstance(normalize, str) and normalize == "softmax"


def is_of_rows(normalize: NormalizeLike) -> bool:
    """Return whether this is a function of complete rows: of a user's, or an object of this module."""
    return not isinstance(normalize, str | local_m | local_p)


def apply(normalize: NormalizeLike, logits: Array) -> Array:
    """Return the weights (..., m) by a function of complete rows, 0 at masked keys whatever it returns there."""
    if not logits.size:
        return np.zeros_like(logits)
    return _of_rows("normalize(logits)", cast(Any, normalize)(_read_only(logits)), logits)


def pull_back(
    normalize: NormalizeLike, logits: Array, dweights: Array
) -> tuple[Array, Array, dict[str, Array]]:
    """Return weights, the gradient of the logits, and those of learned numbers, by a function of complete rows."""
    result = cast(DifferentiableNormalizer, normalize).vjp(_read_only(logits))
    weights, pullback = _check.with_pullback("normalize.vjp(logits)", result)
    gradients = pullback(dweights)
    dlogits, named = gradients if isinstance(gradients, tuple) else (gradients, {})
    return _of_rows("weights", weights, logits), _of_rows("dlogits", dlogits, logits), named


def _read_only(logits: Array) -> Array:
    view = logits.view()
    view.flags.writeable = False
    return view


def _of_rows(name: str, result: Any, logits: Array) -> Array:
    """Return the result of a function of rows, 0 at masked keys."""
    array = _check.numeric(name, result)
    _check.shape(name, array.shape, logits.shape)
    return np.where(np.isneginf(logits), 0, array).astype(logits.dtype, copy=False)


class Sink:
    """A learned logit for each head, of a key with value 0 that is visible to every query of the head."""

    def __init__(self, sink: ArrayLike, layout: Layout, dtype: np.dtype[Any]) -> None:
        self.array = _check.floating("sink", sink)
        hint = "one for each head of (batch, heads, n, d) has shape (heads,)"
        _check.broadcast("sink", self.array.shape, layout.batch_shape, "(...)", hint)
        logits = self.array.astype(np.float64)
        if wrong := logits[~(logits < np.inf)].tolist():
            _check.fail(f"sink must be finite, or -inf for no sink. Got {wrong[0]} instead.")
        largest = np.abs(logits[np.isfinite(logits)]).max(initial=0.0)
        _check.representable("sink", float(largest), dtype)
        self.logits = np.broadcast_to(_check.rounded(self.array, dtype), layout.batch_shape)

    def join(self, statistic: Array, unit: float) -> Joined:
        """Add the sink to the log-sum-exp of all rows.

        statistic (items, 2, n): the largest logit of each row, and the log-sum-exp relative to it. Both are multiples
        of `unit`.
        """
        base, logsum = statistic[:, 0], statistic[:, 1].astype(np.float64) * unit
        base = np.where(np.isneginf(base), 0, base)
        with _without_warnings():
            above = self.logits.reshape(-1, 1).astype(np.float64) - base.astype(np.float64) * unit
            total = np.logaddexp(logsum, above)
            safe = np.where(np.isneginf(total), 0, total)
            joined = np.stack([base, (total / unit).astype(statistic.dtype)], axis=1)
            return Joined(np.exp(logsum - safe), np.exp(above - safe), joined)


@dataclass(frozen=True, eq=False)
class Joined:
    """Rows with a sink: the total weights of keys and sink (items, n), and the statistic (items, 2, n)."""

    keys: Array
    sink: Array
    statistic: Array

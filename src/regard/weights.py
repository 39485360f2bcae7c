"""Step 2: from the scores of a row to its weights.

Every function takes logits (..., m) in which -inf marks what is not seen, and gives weights (..., m): 0 where nothing
is seen, and rows that sum to 1 unless they see nothing. ::

    softmax    exp(z_j) / sum exp(z)                  everything seen gets a weight
    sparsemax  max(z_j - t, 0)                        Martins and Astudillo 2016: many weights are exactly 0
    entmax15   max(z_j / 2 - t, 0)^2                  Peters, Niculae and Martins 2019, alpha = 1.5: between the two
    hard       1 for the largest                      the first of equal ones
    local_m    softmax near place i                   Luong 2015, section 3.2
    local_p    softmax near a predicted place, times a Gaussian around it
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import Layout

__all__ = ["entmax15", "hard", "local_m", "local_p", "predict_positions", "softmax", "sparsemax"]

Array = NDArray[Any]
Align = Literal["start", "end"]


def _logits(logits: ArrayLike) -> Array:
    array = _check.numeric("logits", logits)
    if not array.ndim:
        _check.fail("logits must have at least 1 dimension (..., m): 0")
    real = _check.is_float(array.dtype)
    return array.astype(array.dtype.newbyteorder("=") if real else float, copy=False)


def _in_float32(normalize: Callable[[ArrayLike], Array]) -> Callable[[ArrayLike], Array]:
    """Let half precision be computed in float32, where sums have room, and round the weights back."""

    @functools.wraps(normalize)
    def rounded(logits: ArrayLike) -> Array:
        z = _logits(logits)
        if not _check.is_half(z.dtype):
            return normalize(z)
        return _check.rounded(normalize(z.astype(np.float32)), z.dtype)

    return rounded


def _quiet() -> np.errstate:
    """Let go what is not finite: a NaN or +inf that is seen makes the row NaN, and what lies too far below gets 0."""
    return np.errstate(all="ignore")


@_in_float32
def softmax(logits: ArrayLike) -> Array:
    """Turn logits into weights with ``exp(z_j) / sum_k exp(z_k)``.

    Parameters
    ----------
    logits : array (..., m)
        Scores, -inf where a key is not seen.

    Returns
    -------
    array (..., m)
        Positive where seen, but for what is too small to be held; a row that sees nothing is all 0.

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
    z = _logits(logits)
    with _quiet():
        exponentials = np.exp(z - _largest(z))
        total = exponentials.sum(-1, keepdims=True)  # at least exp(0) = 1, or 0 where nothing is seen
        share: Array = exponentials / np.maximum(total, 1)
    share[z == -np.inf] = 0  # what is not seen, in a row with a NaN too
    return share


def log_sum_exp(logits: Array) -> Array:
    """Return the logarithm of the sum that `softmax` divides by (...): -inf for a row that sees nothing."""
    with _quiet():
        largest = _largest(logits)
        lse: Array = np.log(np.exp(logits - largest).sum(-1)) + largest[..., 0]
    return lse


def _largest(z: Array) -> Array:
    """Return the largest logit of each row (..., 1), and a finite number for a row that sees nothing."""
    largest: Array = z.max(axis=-1, keepdims=True, initial=np.finfo(z.dtype).min)
    return largest


def _sorted(z: Array) -> tuple[Array, Array, Array]:
    """Return logits in falling order with the row's largest as 0, their ranks 1..m, and whether the row is blind."""
    with _quiet():
        largest = np.max(z, axis=-1, keepdims=True, initial=-np.inf)
        shifted = z - np.where(np.isneginf(largest), 0, largest)
    falling = -np.sort(-shifted, axis=-1)
    return falling, np.arange(1, z.shape[-1] + 1), np.isneginf(largest)


@_in_float32
def sparsemax(logits: ArrayLike) -> Array:
    """Turn logits into the nearest point of the simplex, ``max(z_j - t, 0)`` with t such that the row sums to 1.

    Parameters
    ----------
    logits : array (..., m)
        Scores, -inf where a key is not seen.

    Returns
    -------
    array (..., m)
        Rows sum to 1, many weights are exactly 0; a row that sees nothing is all 0.

    References
    ----------
    Martins and Astudillo 2016, "From Softmax to Sparsemax", algorithm 1.

    Examples
    --------
    >>> from regard import weights
    >>> weights.sparsemax([1.0, 0.5, -1.0])
    array([0.75, 0.25, 0.  ])
    """
    z = _logits(logits)
    falling, rank, blind = _sorted(z)
    with _quiet():
        total = np.cumsum(np.where(np.isneginf(falling), 0, falling), axis=-1, dtype=np.float64)
        inside = 1 + rank * falling > total
        return _spread(z, _last(inside, (total - 1) / rank), blind, 1)


@_in_float32
def entmax15(logits: ArrayLike) -> Array:
    """Turn logits into 1.5-entmax weights, ``max(z_j / 2 - t, 0)^2`` with t such that the row sums to 1.

    Parameters
    ----------
    logits : array (..., m)
        Scores, -inf where a key is not seen.

    Returns
    -------
    array (..., m)
        Rows sum to 1, small weights are exactly 0; a row that sees nothing is all 0.

    References
    ----------
    Peters, Niculae and Martins 2019, "Sparse Sequence-to-Sequence Models", algorithm 2.

    Examples
    --------
    >>> from regard import weights
    >>> weights.entmax15([3.0, 0.0])
    array([1., 0.])
    """
    with _quiet():
        z = _logits(logits) / 2
    falling, rank, blind = _sorted(z)
    with _quiet():
        finite = np.where(np.isneginf(falling), 0, falling)
        mean = np.cumsum(finite, axis=-1, dtype=np.float64) / rank
        spread = np.cumsum(finite**2, axis=-1, dtype=np.float64) - rank * mean**2
        threshold = mean - np.sqrt(np.maximum((1 - spread) / rank, 0))
        return _spread(z, _last((threshold <= falling) & ~np.isneginf(falling), threshold), blind, 2)


def _last(inside: Array, candidates: Array) -> Array:
    """Pick from each row the candidate of the last rank that is inside."""
    if not inside.shape[-1]:
        return np.zeros((*inside.shape[:-1], 1), candidates.dtype)
    index = np.maximum(inside.sum(-1, keepdims=True) - 1, 0)
    return np.take_along_axis(candidates, index, axis=-1)


def _spread(z: Array, threshold: Array, blind: Array, power: int) -> Array:
    """Return max(z - threshold, 0) ** power with the row's largest as 0; NaN rows stay NaN."""
    largest = np.max(z, axis=-1, keepdims=True, initial=-np.inf)
    above = np.maximum(z - np.where(blind, 0, largest) - threshold, 0) ** power
    lost = np.isnan(largest) | np.isposinf(largest)
    return np.where(np.isneginf(z), 0, np.where(lost, np.nan, above)).astype(z.dtype)


@_in_float32
def hard(logits: ArrayLike) -> Array:
    """Turn logits into weight 1 for the largest, the first of equal ones, and 0 for all others.

    Parameters
    ----------
    logits : array (..., m)
        Scores, -inf where a key is not seen.

    Returns
    -------
    array (..., m)
        One 1 in each row; a row that sees nothing is all 0; a row with a NaN or inf is NaN where it sees.

    References
    ----------
    Xu et al. 2015, "Show, Attend and Tell", section 4.1 (the most probable place instead of a drawn one).

    Examples
    --------
    >>> from regard import weights
    >>> weights.hard([1.0, 5.0, 5.0])
    array([0., 1., 0.])
    """
    z = _logits(logits)
    if not z.size:
        return np.zeros_like(z)
    one = np.arange(z.shape[-1]) == np.argmax(z, axis=-1)[..., None]
    lost = np.isnan(z).any(-1, keepdims=True) | np.isposinf(z).any(-1, keepdims=True)
    return np.where(np.isneginf(z), 0, np.where(lost, np.nan, one)).astype(z.dtype)


@dataclass(frozen=True, repr=False)
class local_m:
    """Weigh by softmax inside a window that moves with the query: keys i - width to i + width.

    Parameters
    ----------
    width : int
        Keys seen on either side of the aligned place (D in the paper).
    align : {"start", "end"}
        Query i stands at key i ("start") or at key i + m - n ("end").

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
    align: Align = "start"

    def __repr__(self) -> str:
        return _check.written(self)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "width", _check.whole("width", self.width)
        )  # Python's own: NumPy's wrap around
        _check.choice("align", self.align, ("start", "end"))


@dataclass(frozen=True, eq=False, repr=False)
class local_p:
    """Weigh by softmax inside a window around a predicted place p, times ``exp(-(j - p)^2 / (2 (width / 2)^2))``.

    The Gaussian comes after the softmax and is not normalised again, so rows sum to less than 1.

    Parameters
    ----------
    positions : array broadcasting to (..., n)
        The place p of each query, a real number from 0 to m: see `predict_positions`.
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
        return _check.written(self)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", _check.floating("positions", self.positions))
        object.__setattr__(self, "width", _check.number("width", self.width, positive=True))

    def distance(self, positions: Array, m: int) -> Array:
        """Return j - p for places p (...) and keys j: (..., m)."""
        distance: Array = np.arange(m) - positions[..., None]
        return distance

    def gauss(self, distance: Array) -> Array:
        """Return the factor after the softmax for distances j - p."""
        return np.exp(-2 * (distance / self.width) ** 2)


def predict_positions(queries: ArrayLike, weight: ArrayLike, vector: ArrayLike, m: int) -> Array:
    """Predict where each query looks, ``m * sigmoid(v . tanh(q W))``.

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
        Places from 0 to m, for `local_p`.

    References
    ----------
    Luong, Pham and Manning 2015, eq. 9.

    Examples
    --------
    >>> from regard import weights
    >>> weights.predict_positions([[0.0]], [[1.0]], [1.0], 10)
    array([5.])
    """
    array, projection = _check.numeric("queries", queries), _check.parameter("weight", weight, 2, "(d, h)")
    array = array.astype(_check.dtypes(array)[0], copy=False)  # half precision counts places up to 2,048 only
    if not array.ndim or array.shape[-1] != len(projection):
        rule = f"queries must have shape (..., n, {len(projection)}). Got shape {array.shape} instead."
        _check.fail(
            rule, hint=_check.turned("weight", projection.shape, (*array.shape[-1:], len(projection)))
        )
    output = _check.parameter("vector", vector, 1, "(h,)")
    _check.hidden("weight", projection, len(output))
    sigmoid = (1 + np.tanh(np.tanh(array @ projection) @ output / 2)) / 2
    places: Array = _check.whole("m", m) * sigmoid
    return places


NAMED: dict[str, Callable[[ArrayLike], Array]] = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "hard": hard,
}
NormalizeLike: TypeAlias = str | local_m | local_p


def as_normalize(normalize: NormalizeLike) -> NormalizeLike:
    """Check what is given for ``normalize=``."""
    known = isinstance(normalize, local_m | local_p) or (isinstance(normalize, str) and normalize in NAMED)
    if not known:
        if isinstance(normalize, type):
            _check.fail(f"normalize must be made first: weights.{normalize.__name__}(...)", kind=TypeError)
        functions: list[object] = list(NAMED.values())
        if callable(normalize) and normalize in functions:
            name = list(NAMED)[functions.index(normalize)]
            _check.fail(f"normalize must be a name: {name!r}. Got the function instead.", kind=TypeError)
        hint = "or regard.weights.local_m(width), regard.weights.local_p(positions, width)"
        _check.one_of("normalize", normalize, NAMED, hint)
    return normalize


class Sink:
    """A learned logit for each head that every query of the head sees, and whose value is 0."""

    def __init__(self, given: ArrayLike, layout: Layout, dtype: np.dtype[Any]) -> None:
        self.given = _check.floating("sink", given)
        hint = "one for each head of (batch, heads, n, d) has shape (heads,)"
        _check.broadcast("sink", self.given.shape, layout.lead, "(...)", hint)
        logits = self.given.astype(np.float64)
        if wrong := logits[~(logits < np.inf)].tolist():
            _check.fail(f"sink must be finite, or -inf for no sink. Got {wrong[0]} instead.")
        largest = np.abs(logits[np.isfinite(logits)]).max(initial=0.0)
        _check.representable("sink", float(largest), dtype)
        self.logits = np.broadcast_to(_check.rounded(self.given, dtype), layout.lead)

    def join(self, statistic: Array, unit: float) -> Joined:
        """Add the sink to the sums of all rows.

        statistic (items, 2, n): the logit that the logits of each row are counted from, and the logarithm of their
        sum. Both are multiples of `unit`.
        """
        base, logsum = statistic[:, 0], statistic[:, 1].astype(np.float64) * unit
        base = np.where(np.isneginf(base), 0, base)
        with _quiet():
            above = self.logits.reshape(-1, 1).astype(np.float64) - base.astype(np.float64) * unit
            total = np.logaddexp(logsum, above)
            safe = np.where(np.isneginf(total), 0, total)
            joined = np.stack([base, (total / unit).astype(statistic.dtype)], axis=1)
            return Joined(np.exp(logsum - safe), np.exp(above - safe), joined)


@dataclass(frozen=True, eq=False)
class Joined:
    """What a sink makes of rows: the shares of keys and sink (items, n), and the statistic with it (items, 2, n)."""

    keys: Array
    sink: Array
    statistic: Array

"""Step 1: score functions, which measure how well each key matches each query.

A score is any function ``score(queries (..., n, d), keys (..., m, d')) -> (..., n, m)`` whose value for a pair
depends on that pair alone. The score functions of this module are small objects that hold their learned parameters as
plain arrays. Calling one checks queries and keys as `attend` does, and evaluates its definition (`_define`), a line or
two of NumPy. ::

    dot         q . k                            Luong 2015, 3.1
    scaled_dot  q . k, scaled by 1 / sqrt(d)     Vaswani 2017, eq. 1
    general     q W k                            Luong 2015, 3.1
    additive    v . tanh(q Wq + k Wk + b)        Bahdanau 2014, appendix A.1.2
    concat      v . tanh([q; k] W)               Luong 2015, 3.1
    cosine      sharpness * q . k / (|q| |k|)    Graves 2014, eq. 5 and 6
    location    (q W)_j                          Luong 2015, 3.1
    gaussian    -|q - k|^2 / (2 width^2)         kernel regression (Nadaraya 1964, Watson 1964)
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import Region
from regard._repr import constructor_text

__all__ = [
    "Score",
    "Differentiable",
    "additive",
    "concat",
    "cosine",
    "dot",
    "gaussian",
    "general",
    "location",
    "scaled_dot",
]

Array = NDArray[Any]


class Score:
    """Base class of the score functions of this package: callable, with the learned arrays as attributes.

    `learned` declares their names and axes, from which blocks, Dask's chunks and the identity of a checkpoint follow.
    ``...`` are leading dimensions, n and M positions of queries and keys; an array that begins with ``...`` broadcasts.
    `code` is the name of its pairs in the library (`source/core/interface.inc`); empty if the library lacks them.

    Examples
    --------
    >>> from regard import scores
    >>> isinstance(scores.dot(), scores.Score)
    True
    """

    learned: ClassVar[dict[str, str]] = {}
    code: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, axes in self.learned.items():
            object.__setattr__(self, name, _check.parameter(name, getattr(self, name), axes))

    def __call__(self, queries: ArrayLike, keys: ArrayLike) -> Array:
        """Score every query (..., n, d) against every key (..., m, d'): (..., n, m)."""
        arrays = _check.rows(queries=queries, keys=keys)
        self.check(arrays)
        _check.broadcast_shapes(
            "leading dimensions", *(array.shape[:-2] for array in arrays.values()), arrays=arrays
        )
        compute, _ = _check.dtypes(*arrays.values())
        scores = self._define(*(array.astype(compute, copy=False) for array in arrays.values()))
        return _check.rounded(scores, compute)  # parameters may have a wider dtype

    def _define(self, queries: Array, keys: Array) -> Array:
        """Score arrays of compatible shapes, in the dtype of the computation."""
        raise NotImplementedError

    def scale(self, d: int) -> float:
        """Return the default scale of attention.

        Parameters
        ----------
        d : int
            Size of queries and keys.

        Returns
        -------
        float
            1, unless the score has another.

        Examples
        --------
        >>> from regard import scores
        >>> scores.dot().scale(16), scores.scaled_dot().scale(16)
        (1.0, 0.25)
        """
        return 1.0

    def check(self, arrays: dict[str, Array]) -> None:
        """Raise unless the shapes of queries, keys and parameters are compatible."""
        left, right = (arrays[name].shape[-1] for name in ("queries", "keys"))
        if left != right:
            hint = "scores.general and scores.additive compare different sizes"
            rule = f"queries and keys must share their last dimension d: {left} and {right}"
            _check.fail(rule, arrays, hint)

    def restrict(self, region: Region) -> Score:
        """Return the score for a block of queries and keys."""
        restricted = copy(self)
        for name, array in self.parameters().items():
            object.__setattr__(restricted, name, region.of_axes(array, _check.axes(self.learned[name])))
        return restricted

    def parameters(self) -> dict[str, Array]:
        """Return the learned arrays by name, without those that are None."""
        return {name: getattr(self, name) for name in self.learned if getattr(self, name) is not None}

    def __repr__(self) -> str:
        return constructor_text(self)


@runtime_checkable
class Differentiable(Protocol):
    """Protocol of a user-defined score function with gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from regard import scores
    >>> class Distance:
    ...     def __call__(self, queries, keys):
    ...         return -abs(queries[..., :, None, 0] - keys[..., None, :, 0])
    ...     def vjp(self, queries, keys):
    ...         sign = np.sign(queries[..., :, None, 0] - keys[..., None, :, 0])
    ...         def pullback(dscores):
    ...             pairs = (dscores * sign)[..., None]
    ...             return -pairs.sum(-2), pairs.sum(-3)
    ...         return self(queries, keys), pullback
    >>> isinstance(Distance(), scores.Differentiable)
    True
    """

    def __call__(self, queries: Any, keys: Any, /) -> Any:
        """Score queries (..., n, d) against keys (..., m, d'): (..., n, m)."""
        ...

    def vjp(self, queries: Any, keys: Any, /) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        """Return scores and ``pullback(dscores) -> (dqueries, dkeys)`` or ``(dqueries, dkeys, {name: gradient})``."""
        ...


ScoreLike: TypeAlias = str | Score | Callable[[Any, Any], Any]


@dataclass(frozen=True, repr=False, eq=False)
class dot(Score):
    """Score by the dot product, ``q . k``.

    Returns
    -------
    Score
        Maps queries (..., n, d) and keys (..., m, d) to scores (..., n, m).

    References
    ----------
    Luong, Pham and Manning 2015, "Effective Approaches to Attention-based Neural Machine Translation", 3.1.

    Examples
    --------
    >>> from regard import scores
    >>> scores.dot()([[1.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]])
    array([[11.,  2.]])
    """

    code: ClassVar = "PRODUCTS"

    def _define(self, queries: Array, keys: Array) -> Array:
        scores: Array = queries @ keys.swapaxes(-1, -2)
        return scores


@dataclass(frozen=True, repr=False, eq=False)
class scaled_dot(dot):
    """Score by the dot product with a default scale of ``1 / sqrt(d)``.

    Calling it returns the unscaled dot product. Attention applies the scale, which ``scale=`` replaces.

    Returns
    -------
    Score
        Maps queries (..., n, d) and keys (..., m, d) to scores (..., n, m).

    References
    ----------
    Vaswani et al. 2017, "Attention Is All You Need", eq. 1.

    Examples
    --------
    >>> from regard import scores
    >>> scores.scaled_dot().scale(16)
    0.25
    """

    def scale(self, d: int) -> float:
        return 1 / d**0.5 if d else 1.0  # d = 0: every score is 0


@dataclass(frozen=True, repr=False, eq=False)
class cosine(Score):
    """Score by the cosine of the angle, ``sharpness * q . k / (|q| |k|)``: content-based addressing.

    Parameters
    ----------
    sharpness : float or array broadcasting to (..., n)
        Key strength; the larger, the more of the weight goes to the best match.

    Returns
    -------
    Score
        Maps queries (..., n, d) and keys (..., m, d) to scores (..., n, m). A zero vector scores 0.

    References
    ----------
    Graves, Wayne and Danihelka 2014, "Neural Turing Machines", eq. 5 and 6.

    Examples
    --------
    >>> from regard import scores
    >>> scores.cosine(sharpness=10)([[3.0, 4.0]], [[6.0, 8.0], [-4.0, 3.0]]).round(6)
    array([[10., -0.]])
    """

    sharpness: Any = 1.0
    learned: ClassVar[dict[str, str]] = {"sharpness": "(..., n)"}
    code: ClassVar = "PRODUCTS"

    def _define(self, queries: Array, keys: Array) -> Array:
        left, right = _unit(queries), _unit(keys)
        scores: Array = (self.sharpness[..., None] * left) @ right.swapaxes(-1, -2)
        return scores

    def check(self, arrays: dict[str, Array]) -> None:
        super().check(arrays)
        with _check.naming_shapes(arrays):
            _check.broadcast("sharpness", self.sharpness.shape, arrays["queries"].shape[:-1], "(..., n)")


def _unit(x: Array) -> Array:
    """Scale vectors to length 1, first by the largest entry, so that no square over- or underflows."""
    largest = np.max(np.abs(x), axis=-1, keepdims=True, initial=0)
    x = x / np.where(largest == 0, 1, largest)
    length = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    unit: Array = x / np.where(length == 0, 1, length)
    return unit


@dataclass(frozen=True, repr=False, eq=False)
class general(Score):
    """Score by a bilinear form, ``q W k``, which compares queries and keys of different sizes.

    Parameters
    ----------
    weight : array (d, d')
        The learned matrix between query size d and key size d'.

    Returns
    -------
    Score
        Maps queries (..., n, d) and keys (..., m, d') to scores (..., n, m).

    References
    ----------
    Luong, Pham and Manning 2015, 3.1.

    Examples
    --------
    >>> from regard import scores
    >>> scores.general([[0.0], [2.0]])([[5.0, 3.0]], [[1.0], [10.0]])
    array([[ 6., 60.]])
    """

    weight: Any
    learned: ClassVar[dict[str, str]] = {"weight": "(d, d')"}
    code: ClassVar = "PRODUCTS"

    def _define(self, queries: Array, keys: Array) -> Array:
        scores: Array = queries @ self.weight @ keys.swapaxes(-1, -2)
        return scores

    def check(self, arrays: dict[str, Array]) -> None:
        wanted = (arrays["queries"].shape[-1], arrays["keys"].shape[-1])
        if self.weight.shape != wanted:
            rule = f"weight must have shape (d, d') = {wanted}. Got shape {self.weight.shape} instead."
            _check.fail(rule, arrays, _check.transpose_hint("weight", self.weight.shape, wanted))


@dataclass(frozen=True, repr=False, eq=False)
class additive(Score):
    """Score by a perceptron with one hidden layer, ``v . tanh(q Wq + k Wk + b)``.

    Parameters
    ----------
    query_weight : array (d, h) or None
        Projection of the queries; None if they are already projected (d = h).
    key_weight : array (d', h) or None
        Projection of the keys; None if they are already projected (d' = h), as by `project_keys`.
    vector : array (h,)
        Output weights of the hidden layer.
    bias : array (h,), optional
        Bias of the hidden layer.

    Returns
    -------
    Score
        Maps queries (..., n, d) and keys (..., m, d') to scores (..., n, m).

    References
    ----------
    Bahdanau, Cho and Bengio 2014, "Neural Machine Translation by Jointly Learning to Align and Translate", A.1.2.

    Examples
    --------
    >>> from regard import scores
    >>> scores.additive(None, None, [2.0])([[1.0]], [[-1.0], [99.0]])
    array([[0., 2.]])
    """

    query_weight: Any
    key_weight: Any
    vector: Any
    bias: Any = None
    learned: ClassVar[dict[str, str]] = {
        "query_weight": "(d, h)",
        "key_weight": "(d', h)",
        "vector": "(h,)",
        "bias": "(h,)",
    }
    code: ClassVar = "PERCEPTRON"

    def __post_init__(self) -> None:
        object.__setattr__(self, "vector", _check.parameter("vector", self.vector, "(h,)"))
        for name in ("query_weight", "key_weight", "bias"):
            if getattr(self, name) is not None:
                array = _check.parameter(name, getattr(self, name), self.learned[name])
                object.__setattr__(self, name, array)
                _check.hidden(name, array, len(self.vector))

    def _define(self, queries: Array, keys: Array) -> Array:
        left = queries if self.query_weight is None else queries @ self.query_weight
        right = keys if self.key_weight is None else keys @ self.key_weight
        hidden = left[..., :, None, :] + right[..., None, :, :]  # (..., n, m, h)
        scores: Array = np.tanh(hidden if self.bias is None else hidden + self.bias) @ self.vector
        return scores

    def project_keys(self, keys: ArrayLike) -> tuple[Array, additive]:
        """Project the keys once, for a decoder that attends to them at every step.

        Parameters
        ----------
        keys : array (..., m, d')
            Keys that all steps share.

        Returns
        -------
        projected : array (..., m, h)
            ``k Wk + b``.
        score : additive
            The same score for projected keys.

        Examples
        --------
        >>> from regard import scores
        >>> score = scores.additive(None, [[2.0]], [1.0])
        >>> projected, score_projected = score.project_keys([[0.0], [0.5]])
        >>> bool((score([[1.0]], [[0.0], [0.5]]) == score_projected([[1.0]], projected)).all())
        True
        """
        array = _check.numeric("keys", keys)
        wanted = len(self.vector) if self.key_weight is None else len(self.key_weight)
        if array.ndim < 2 or array.shape[-1] != wanted:
            _check.fail(f"keys must have shape (..., m, {wanted}). Got shape {array.shape} instead.")
        projected = array if self.key_weight is None else array @ self.key_weight
        projected = projected if self.bias is None else projected + self.bias
        return _check.rounded(projected, _check.dtypes(array)[0]), additive(
            self.query_weight, None, self.vector
        )

    def check(self, arrays: dict[str, Array]) -> None:
        """Raise unless both projections map to the hidden size."""
        for name, weight in (("queries", self.query_weight), ("keys", self.key_weight)):
            size = arrays[name].shape[-1]
            wanted = len(self.vector) if weight is None else weight.shape[0]
            if size != wanted:
                by = (
                    "projected queries or keys: d = h"
                    if weight is None
                    else f"{name[:-1] if name == 'keys' else 'query'}_weight: its rows"
                )
                _check.fail(
                    f"the last dimension of {name} must be {wanted} ({by}). Got {size} instead.", arrays
                )


class concat(additive):
    """Score by a perceptron over the concatenation, ``v . tanh([q; k] W)``.

    It is the additive score with one stacked matrix: the first d rows of W project the query, the others the key.

    Parameters
    ----------
    weight : array (d + d', h)
        Projection of the concatenated query and key.
    vector : array (h,)
        Output weights of the hidden layer.

    Returns
    -------
    Score
        Maps queries (..., n, d) and keys (..., m, d') to scores (..., n, m).

    References
    ----------
    Luong, Pham and Manning 2015, 3.1.

    Examples
    --------
    >>> from regard import scores
    >>> scores.concat([[1.0], [1.0]], [2.0])([[1.0]], [[-1.0], [99.0]])
    array([[0., 2.]])
    """

    learned: ClassVar[dict[str, str]] = {"weight": "(d + d', h)", "vector": "(h,)"}

    def __init__(self, weight: ArrayLike, vector: ArrayLike) -> None:
        super().__init__(None, None, vector)
        array = _check.parameter("weight", weight, self.learned["weight"])
        _check.hidden("weight", array, len(self.vector))
        object.__setattr__(self, "weight", array)

    weight: Any

    def split(self, d: int) -> additive:
        """Return the same score as `additive`, with one matrix for queries and one for keys.

        Parameters
        ----------
        d : int
            Size of the queries.

        Returns
        -------
        additive
            The score with the first d rows of the weight for queries, and the others for keys.

        Examples
        --------
        >>> from regard import scores
        >>> scores.concat([[1.0], [2.0], [3.0]], [1.0]).split(1).key_weight
        array([[2.],
               [3.]])
        """
        return additive(self.weight[:d], self.weight[d:], self.vector)

    def _define(self, queries: Array, keys: Array) -> Array:
        return self.split(queries.shape[-1])._define(queries, keys)

    def project_keys(self, keys: ArrayLike) -> tuple[Array, additive]:
        array, largest = _check.numeric("keys", keys), self.weight.shape[0] - 1
        if array.ndim < 2 or not 0 < array.shape[-1] <= largest:
            _check.fail(f"keys must have shape (..., m, 1 to {largest}). Got shape {array.shape} instead.")
        return self.split(self.weight.shape[0] - array.shape[-1]).project_keys(array)

    def check(self, arrays: dict[str, Array]) -> None:
        sizes = arrays["queries"].shape[-1], arrays["keys"].shape[-1]
        if sum(sizes) != self.weight.shape[0]:
            _check.fail(
                f"weight must have d + d' = {sizes[0]} + {sizes[1]} rows. Got shape {self.weight.shape} instead.",
                arrays,
            )


@dataclass(frozen=True, repr=False, eq=False)
class location(Score):
    """Score by the position of the key alone, ``(q W)_j``, whatever its content.

    Parameters
    ----------
    weight : array (d, M)
        One column for each position; M is at least the number of keys.

    Returns
    -------
    Score
        Maps queries (..., n, d) and keys (..., m, any) to scores (..., n, m).

    References
    ----------
    Luong, Pham and Manning 2015, 3.1.

    Examples
    --------
    >>> from regard import scores
    >>> scores.location([[1.0, 2.0, 3.0]])([[10.0]], [[0.0], [0.0]])
    array([[10., 20.]])
    """

    weight: Any
    learned: ClassVar[dict[str, str]] = {"weight": "(d, M)"}
    code: ClassVar = "PRODUCTS"

    def _define(self, queries: Array, keys: Array) -> Array:
        batch_shape = np.broadcast_shapes(queries.shape[:-2], keys.shape[:-2])
        scores = queries @ self.weight[:, : keys.shape[-2]]
        return np.broadcast_to(scores, (*batch_shape, *scores.shape[-2:]))

    def check(self, arrays: dict[str, Array]) -> None:
        """Raise unless weight is (d, at least m)."""
        d, m = arrays["queries"].shape[-1], arrays["keys"].shape[-2]
        if self.weight.shape[0] != d or self.weight.shape[1] < m:
            rule = (
                f"weight must have shape (d, M) = ({d}, at least {m}). Got shape {self.weight.shape} instead."
            )
            turned = _check.transpose_hint("weight", self.weight.shape, (d, max(m, self.weight.shape[0])))
            _check.fail(rule, arrays, turned)


@dataclass(frozen=True, repr=False, eq=False)
class gaussian(Score):
    """Score by distance, ``-|q - k|^2 / (2 width^2)``: attention as kernel regression.

    Parameters
    ----------
    width : float
        Standard deviation of the kernel, in the units of queries and keys; greater than 0.

    Returns
    -------
    Score
        Maps queries (..., n, d) and keys (..., m, d) to scores (..., n, m).

    References
    ----------
    Nadaraya 1964, "On Estimating Regression"; Watson 1964, "Smooth Regression Analysis".

    Examples
    --------
    >>> from regard import scores
    >>> scores.gaussian(width=2.0)([[0.0, 0.0]], [[3.0, 4.0], [0.0, 2.0]])
    array([[-3.125, -0.5  ]])
    """

    width: Any = 1.0
    learned: ClassVar[dict[str, str]] = {"width": "()"}
    code: ClassVar = "DISTANCES"

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", np.asarray(_check.number("width", self.width, positive=True)))

    def check(self, arrays: dict[str, Array]) -> None:
        """Raise unless queries and keys share d and the dtype can represent the width."""
        super().check(arrays)
        compute, _ = _check.dtypes(*arrays.values())
        _check.representable("width", float(self.width), compute, positive=True)

    def _define(self, queries: Array, keys: Array) -> Array:
        difference = queries[..., :, None, :] - keys[..., None, :, :]  # (..., n, m, d)
        distance: Array = np.sum((difference / float(self.width)) ** 2, axis=-1)
        return distance * -0.5


NAMED: dict[str, type[Score]] = {  # scores without required parameters
    "scaled_dot": scaled_dot,
    "dot": dot,
    "cosine": cosine,
    "gaussian": gaussian,
}


def is_builtin(score: object) -> TypeGuard[Score]:
    """Return whether this is a score of this module; an instance of a derived class is a user-defined function."""
    return isinstance(score, Score) and type(score).__module__ == __name__


def as_score(score: ScoreLike) -> Score | Callable[[Any, Any], Any]:
    """Return the score object for a name, or the function itself."""
    if isinstance(score, str):
        if score not in NAMED:
            _check.one_of(
                "score",
                score,
                NAMED,
                "for scores with parameters pass an object, such as scores.general(weight)",
            )
        return NAMED[score]()
    if isinstance(score, type) and issubclass(score, Score):
        _check.fail(f"score must be an instance, not a class: scores.{score.__name__}(...)", kind=TypeError)
    if not callable(score) or type(score) is Score:
        _check.fail(
            f"score must be a name, a regard.scores object or a function. Got {type(score).__name__} instead.",
            kind=TypeError,
        )
    return score

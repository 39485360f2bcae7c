"""The common part of the regressor and the classifier: training rows as keys, fitting, and attention weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from copy import copy
from numbers import Integral
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from regard import _check
from regard_estimators import fitting
from regard_estimators.metrics import METRICS, Gaussian
from regard_estimators.readouts import readout_of

__all__ = ["AttentionEstimator", "Attended", "Standard"]

Array = NDArray[Any]
MOST_FEATURES = 20  # of a line by default: its attention has 250 values a row
PAIRS_AT_A_TIME = 1 << 22  # of queries and keys, whose weights `explain` computes at a time
MOST_DEVIATIONS = (
    1e50  # standard deviations: fourth powers of such numbers, in the gradient of a line, still are finite
)
LARGEST = np.finfo(np.float64).max
LEAST_WEIGHT = np.finfo(np.float64).tiny  # of a row, beside the largest; smaller numbers have fewer digits
LARGEST_PRIOR = 1e100  # of the prior


class Attended(NamedTuple):
    """The training rows to which each query attended most.

    `rows` (n, top): labels of training rows in the index of their frame, or their numbers if they came without one, the
    most attended first; `weights` (n, top): their attention weights; all weights of a query sum to 1.
    """

    rows: Array
    weights: Array


def exponents(x: Array) -> Array:
    """Return the powers of two above the largest number of each column of x (n, ...)."""
    return np.asarray(np.frexp(np.abs(x).max(axis=0))[1])


def scaled(x: Array, exponent: Array) -> Array:
    """Return x * 2^-exponent, which is exact; numbers that become too large become infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(x, -exponent))


class Standard(NamedTuple):
    """The standardisation of columns.

    `exponent` (d,): numbers are first multiplied by ``2^-exponent``, so that no sum or square overflows; `center`,
    `spread` (d,): means and standard deviations of the products; a spread of infinity makes a constant column 0.
    """

    exponent: Array
    center: Array
    spread: Array

    @classmethod
    def of(cls, x: Array, totals: Array, least: float = 0.0) -> Standard:
        """Standardise rows x (n, d) with weights (n,); a spread up to `least` times the mean is rounding."""
        exponent, shares = exponents(x), totals / totals.sum()
        x = scaled(x, exponent)
        center = shares @ x
        spread = np.sqrt(shares @ (x - center) ** 2)
        return cls(exponent, center, np.where(spread > least * np.abs(center), spread, np.inf))

    def __call__(self, x: Array) -> Array:
        """Return standardised rows; numbers that are too large become infinite."""
        x = np.clip(scaled(x, self.exponent), -LARGEST, LARGEST)
        with np.errstate(over="ignore"):
            return np.asarray((x - self.center) / self.spread)

    def inverse(self, z: Array) -> Array:
        """Undo the standardisation of rows; numbers that overflow become the largest number."""
        spread = np.where(np.isinf(self.spread), 0.0, self.spread)
        return np.clip(scaled(z * spread + self.center, -self.exponent), -LARGEST, LARGEST)


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def complete(**arrays: Any) -> list[Any]:
    """Return arrays that scikit-learn can read.

    Raises for a missing entry that NumPy would read as a number: a masked one, or a date that is NaT.
    """
    readable = list(itertools.starmap(_readable, arrays.items()))
    for name, array in zip(arrays, readable, strict=True):
        rows = np.flatnonzero(_missing(array))
        if len(rows):
            _check.fail(
                f"{name} must not have missing entries. Got one in row {rows[0]}.",
                hint="leave such rows out, or fill them in",
            )
    return readable


def _readable(name: str, array: Any) -> Any:
    if issparse(array):  # which scikit-learn refuses, in its words
        return array
    numbers = _check.plain(name, array, masked=True)
    return array if hasattr(array, "__array__") else numbers  # a table keeps the names of its columns


def _missing(array: Any) -> Any:
    """Return for each row whether an entry is masked or NaT."""
    if isinstance(array, list | tuple):
        return [_has_missing(row) for row in array]
    if isinstance(array, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(array)
    elif hasattr(array, "__array__") and (entries := np.asarray(array)).dtype.kind in "mMO":
        missing = np.isnat(entries) if entries.dtype.kind != "O" else np.vectorize(_has_missing, "?")(entries)
    else:
        return False
    return missing.reshape(len(np.atleast_1d(missing)), -1).any(axis=1)


def _has_missing(entry: Any) -> bool:
    """Return whether a Python object, or one that it contains, is masked or NaT."""
    if isinstance(entry, list | tuple):
        return any(map(_has_missing, entry))
    return isinstance(entry, np.ndarray | np.datetime64 | np.timedelta64) and bool(np.any(_missing(entry)))


class AttentionEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of `AttentionRegressor` and `AttentionClassifier`."""

    degree: int | None = 0
    _likelihood: fitting.Likelihood = staticmethod(fitting.of_log_loss)

    def _check_parameters(self) -> None:
        if not isinstance(self.metric, str) or self.metric not in METRICS:
            self._refuse("metric", f"one of {', '.join(map(repr, METRICS))}")
        if not (self.degree is None or (_is_integer(self.degree) and self.degree in (0, 1))):
            self._refuse("degree", "0, 1 or None")
        for name in ("max_iter", "batch_size"):
            _check.integer(name, getattr(self, name), least=1)
        _check.number("alpha", self.alpha, least=0, most=LARGEST_PRIOR)
        _check.number("tol", self.tol, least=0)
        if self.rank is not None:
            _check.integer("rank", self.rank, least=1, most=self.n_features_in_)
            if self.metric != "full":
                self._refuse("rank", "None unless metric is 'full'")

    def _refuse(self, name: str, rule: str) -> NoReturn:
        """Raise for an invalid parameter."""
        got = f"{getattr(self, name)!r:.60}"
        _check.fail(f"The {name!r} parameter of {type(self).__name__} must be {rule}. Got {got} instead.")

    def _refit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit a copy, and take over its attributes at the end: a failed or interrupted fit changes nothing."""
        fitted = copy(self)
        fitted._index = np.asarray(X.index) if hasattr(X, "index") and hasattr(X, "columns") else None
        X, y = complete(X=X, y=y)
        fitted._learn(X, y, sample_weight)
        self.__dict__ = fitted.__dict__
        return self

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Check the arguments of `fit`, and fit."""
        raise NotImplementedError

    def _validated(self, *arrays: Any, **options: Any) -> Any:
        """Return X, or X and y, as scikit-learn checks them; X may have numbers that are not finite."""
        with np.errstate(invalid="ignore"):  # of inf - inf, in a sum that tells whether y is finite
            return validate_data(self, *arrays, dtype=np.float64, ensure_all_finite=False, **options)

    def _weights_of(self, sample_weight: Any, count: int) -> Array:
        """Return the sample weights of so many rows, in a unit in which their sum is finite."""
        (sample_weight,) = complete(sample_weight=sample_weight)
        rows = np.empty((count, 1))
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        if not (np.isfinite(weights).all() and np.any(weights > 0)):
            _check.fail("sample_weight must be finite, and positive for at least one row. Got none.")
        return np.where(weights > 0, np.maximum(scaled(weights, exponents(weights)), LEAST_WEIGHT), 0.0)

    def _generator(self) -> np.random.Generator:
        """Return the generator of `random_state`."""
        try:
            return np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        except (ValueError, TypeError):
            self._refuse("random_state", "None, an integer from 0 to 2**32 - 1 or a numpy.random.RandomState")

    def _fit(self, X: Array, targets: Array, weights: Array) -> None:
        """Fit the model to rows X (n, d) with targets (n, e) and sample weights (n,)."""
        rng = self._generator()
        used = np.flatnonzero(weights > 0)
        totals, first = self._merge(X[used], targets[used], weights[used], used)
        prior = self._begin(totals, first)
        score = Gaussian(self.metric, X.shape[1], self.rank or X.shape[1])
        readout = readout_of(self._degree(X.shape[1]), X.shape[1], targets.shape[1])
        self._model = fitting.LocalModel(score, readout, prior)
        m = len(self.keys_)
        rows = np.sort(rng.permutation(m)[: self.batch_size]) if m > self.batch_size else np.arange(m)
        problem = fitting.LeaveOneOut(
            self._model,
            *(self.keys_, self.values_, self._log_weights, rows),
            lambda predictions: self._loss(predictions, self.values_[rows]),
        )
        if m > 1:
            options = {"alpha": float(self.alpha), "max_iter": self.max_iter, "tol": float(self.tol)}
            fitted = fitting.fit(problem, self._likelihood, **options)
        else:  # no other row predicts the only one
            fitted = fitting.Fitted(self._model.initial(0.0, self.keys_), 0.0, 1)
        self.parameters_, self.loss_ = fitted.parameters, fitted.loss
        self.n_iter_ = max(fitted.iterations, 1)

    def _degree(self, features: int) -> int:
        """Return the degree of the local polynomial; by default 1 where its cost, which grows with d^2, allows."""
        return int(features <= MOST_FEATURES) if self.degree is None else self.degree

    def _merge(
        self, X: Array, targets: Array, weights: Array, rows: NDArray[np.int64]
    ) -> tuple[Array, NDArray[np.int64]]:
        """Keep each distinct row once, with the mean of its targets; return the sum of its weights, and its index.

        The attention stays the same, and the leave-one-out loss predicts no row by a copy of it.
        """
        distinct, first, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
        inverse = inverse.ravel()
        totals = np.bincount(inverse, weights)
        self._rows, self._key_of_row, self._share = rows, inverse, weights / totals[inverse]
        self.values_ = np.column_stack([np.bincount(inverse, self._share * y) for y in targets.T])
        self._standard = Standard.of(distinct, totals, least=1e-12)
        self.keys_ = self._near(self._standard(distinct), "X", rows[first])
        self._log_weights = np.log(totals) - np.log(totals.sum())
        return totals, rows[first]

    def _begin(self, totals: Array, rows: NDArray[np.int64]) -> Array | None:
        """Prepare `values_`, of these rows with these weights; return the constant prediction."""
        raise NotImplementedError

    def _loss(self, predictions: Array, targets: Array) -> tuple[Array, Array]:
        """Return the loss (n,) of predictions (n, e), and its gradient."""
        raise NotImplementedError

    def _near(self, standardised: Array, name: str, rows: NDArray[np.int64]) -> Array:
        """Return standardised numbers (n, d) of these rows if they are small enough to compute with."""
        far = np.argwhere(np.abs(standardised) > MOST_DEVIATIONS)
        if len(far):
            _check.fail(
                f"{type(self).__name__} needs numbers within {MOST_DEVIATIONS:g} standard deviations "
                f"of the mean in training: "
                f"Input {name} has one farther away in row {rows[far[0, 0]]}, column {far[0, 1]}."
            )
        return standardised

    def _predict(self, X: Any) -> Array:
        """Return the predictions (n, e)."""
        queries = self._queries(X)
        return fitting.predict(
            self._model, self.parameters_, queries, self.keys_, self.values_, self._log_weights
        )

    def _queries(self, X: Any) -> Array:
        """Return checked and standardised rows."""
        check_is_fitted(self)
        (X,) = complete(X=X)
        rows = self._finite(self._validated(X, reset=False))
        return self._near(self._standard(rows), "X", np.arange(len(rows)))

    def _finite(self, X: Array, name: str = "X", column: str = "feature") -> Array:
        """Return X (n, d) if all its numbers are finite; otherwise say where the first is not."""
        wrong = np.argwhere(~np.isfinite(X))
        if len(wrong):
            row, feature = wrong[0]
            kind = "NaN" if np.isnan(X[row, feature]) else "infinity (inf)"
            _check.fail(
                f"{type(self).__name__} needs finite numbers: Input {name} contains {kind} in row {row}, {column} "
                f"{feature}, and in {len(np.unique(wrong[:, 0]))} of {len(X)} rows in total.",
                hint="an imputer in a pipeline, such as sklearn.impute.SimpleImputer(), fills in missing values",
            )
        return X

    @property
    def widths_(self) -> Array:
        """Widths of the Gaussian kernel (d,) in the unit of each feature; infinity for a constant one."""
        if self.metric == "full":
            raise AttributeError("widths_ needs metric 'scalar' or 'diagonal'")
        factors = np.exp(self._model.split(self.parameters_)[0])
        with np.errstate(over="ignore"):
            return np.ldexp(self._standard.spread / factors, self._standard.exponent)

    def explain(self, X: ArrayLike, top: int = 5) -> Attended:
        """Return the training rows that the prediction of each row attends to most.

        `X` (n, d): rows; `top`: training rows for each; fewer if there are not so many. Returns rows, as labels of the
        training frame if there was one, and weights, both (n, top).
        """
        top = _check.integer("top", top, least=1)
        queries = self._queries(X)
        top = min(top, len(self._rows))
        rows = np.empty((len(queries), top), np.int64)
        weights = np.empty((len(queries), top))
        for part, block in self._weights(queries):
            best = np.argpartition(-block, top - 1, axis=1)[:, :top]
            order = np.argsort(-np.take_along_axis(block, best, 1), axis=1, kind="stable")
            best = np.take_along_axis(best, order, 1)
            rows[part], weights[part] = self._rows[best], np.take_along_axis(block, best, 1)
        return Attended(rows if self._index is None else self._index[rows], weights)

    def _weights(self, queries: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the attention weights of all training rows for a block of queries at a time."""
        score = self._model.split(self.parameters_)[0]
        step = max(PAIRS_AT_A_TIME // len(self._rows), 1)
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            q, k, _ = self._model.score(score, queries[part], self.keys_)
            logits = q @ k.T + self._log_weights
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            yield part, weights[:, self._key_of_row] * self._share

"""The common part of the regressor and the classifier: training rows as keys, fitting, and attention weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.estimators import fitting
from regard.estimators._sklearn import BaseEstimator
from regard.estimators.metrics import METRICS, SCORES, score_of
from regard.estimators.readouts import readout_of

__all__ = ["AttentionEstimator", "Attended"]

Array = NDArray[Any]
MOST_FEATURES = 20  # of a line by default: its attention has 250 values a row
PAIRS = 1 << 22  # of queries and keys, whose weights `explain` computes at a time


class Attended(NamedTuple):
    """The training rows to which each query attended most.

    Parameters
    ----------
    rows : array of int (n, top)
        Indices of training rows, the most attended first.
    weights : array (n, top)
        Their attention weights; all weights of a query sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> Attended(np.array([[4, 2]]), np.array([[0.75, 0.25]])).rows
    array([[4, 2]])
    """

    rows: NDArray[np.int64]
    weights: Array


def moments(x: Array, totals: Array) -> tuple[Array, Array]:
    """Return the mean (d,) and the standard deviation (d,) of rows x (n, d) with weights; no square overflows."""
    shares = totals / totals.sum()
    center = shares @ x
    largest = np.abs(x - center).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    return center, largest * np.sqrt(shares @ ((x - center) / largest) ** 2)


class AttentionEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of `AttentionRegressor` and `AttentionClassifier`."""

    degree: int | None = 0
    _likelihood: fitting.Likelihood = staticmethod(fitting.of_log_loss)

    def _check_parameters(self) -> None:
        for name, allowed in (("score_function", SCORES), ("metric", METRICS)):
            if getattr(self, name) not in tuple(allowed):
                raise ValueError(
                    f"The {name!r} parameter of {type(self).__name__} must be one of "
                    f"{', '.join(map(repr, allowed))}. Got {getattr(self, name)!r} instead."
                )
        if self.degree not in (0, 1, None):
            raise ValueError(
                f"The 'degree' parameter of {type(self).__name__} must be 0, 1 or None. Got {self.degree!r} instead."
            )
        for name in ("heads", "max_iter", "batch_size"):
            _check.integer(name, getattr(self, name), least=1)
        for name in ("alpha", "tol"):
            _check.number(name, getattr(self, name), least=0)
        if self.rank is not None:
            _check.integer("rank", self.rank, least=1, most=self.n_features_in_)
            if self.metric != "full" or self.score_function == "general":
                raise ValueError(
                    f"The 'rank' parameter of {type(self).__name__} must be None unless metric is 'full' and "
                    f"score_function is 'gaussian' or 'cosine'. Got {self.rank!r} instead."
                )

    def _fit(self, X: Array, targets: Array, weights: Array) -> None:
        """Fit the heads to rows X (n, d) with targets (n, e) and sample weights (n,)."""
        from sklearn.utils import check_random_state

        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        used = np.flatnonzero(weights > 0)
        totals = self._merge(X[used], targets[used], weights[used], used)
        prior = self._begin(totals)
        score = score_of(self.score_function, self.metric, X.shape[1], self.rank)
        readout = readout_of(self._degree(X.shape[1]), X.shape[1], targets.shape[1])
        self._heads = fitting.Heads(score, readout, self.heads, prior)
        m = len(self.keys_)
        rows = np.sort(rng.permutation(m)[: self.batch_size]) if m > self.batch_size else np.arange(m)
        problem = fitting.LeaveOneOut(
            self._heads,
            *(self.keys_, self.values_, self._log_weights, rows),
            lambda predictions: self._loss(predictions, self.values_[rows]),
        )
        if m > 1:
            options = {"alpha": self.alpha, "max_iter": self.max_iter, "tol": self.tol}
            fitted = fitting.fit(problem, self._likelihood, rng=rng, **options)
        else:  # no other row predicts the only one
            fitted = fitting.Fitted(self._heads.initial(0.0, self.keys_, rng), 0.0, 1, True)
        self.parameters_, self.loss_ = fitted.parameters, fitted.loss
        self.n_iter_ = max(fitted.iterations, 1)

    def _degree(self, features: int) -> int:
        """Return the degree of the local polynomial; by default 1 where its cost, which grows with d^2, allows."""
        return int(features <= MOST_FEATURES) if self.degree is None else self.degree

    def _merge(self, X: Array, targets: Array, weights: Array, rows: NDArray[np.int64]) -> Array:
        """Keep each distinct row once, with the sum of its weights, which is returned, and the mean of its targets.

        The attention is the same; and a row is not predicted by a copy of itself in the leave-one-out loss.
        """
        distinct, inverse = np.unique(X, axis=0, return_inverse=True)
        inverse = inverse.ravel()
        totals = np.bincount(inverse, weights)
        self.values_ = np.column_stack([np.bincount(inverse, weights * y) / totals for y in targets.T])
        self.center_, scale = moments(distinct, totals)
        self.scale_ = np.where(scale > 1e-12 * np.abs(self.center_), scale, 1.0)
        self.keys_ = self._standardised(distinct)
        self._log_weights = np.log(totals / totals.sum())
        self._rows, self._key_of_row, self._share = rows, inverse, weights / totals[inverse]
        return np.asarray(totals)

    def _begin(self, totals: Array) -> Array | None:
        """Prepare `values_`, of rows with these weights; return the constant prediction of `Heads`."""
        raise NotImplementedError

    def _loss(self, predictions: Array, targets: Array) -> tuple[Array, Array]:
        """Return the loss (n,) of predictions (n, e), and its gradient."""
        raise NotImplementedError

    def _standardised(self, X: Array) -> Array:
        return np.asarray((X - self.center_) / self.scale_)

    def _predict(self, X: Any) -> Array:
        """Return the predictions (n, e)."""
        queries = self._queries(X)
        return fitting.predict(
            self._heads, self.parameters_, queries, self.keys_, self.values_, self._log_weights
        )

    def _queries(self, X: Any) -> Array:
        """Return checked and standardised rows."""
        from sklearn.utils.validation import check_is_fitted, validate_data

        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=False)
        return self._standardised(self._finite(rows))

    def _finite(self, X: Array) -> Array:
        """Return X (n, d) if all its numbers are finite; otherwise say where the first is not."""
        wrong = np.argwhere(~np.isfinite(X))
        if len(wrong):
            row, feature = wrong[0]
            kind = "NaN" if np.isnan(X[row, feature]) else "infinity (inf)"
            _check.fail(
                f"{type(self).__name__} needs finite numbers: Input X contains {kind} in row {row}, feature {feature}, "
                f"and in {len(np.unique(wrong[:, 0]))} of {len(X)} rows in total.",
                hint="an imputer in a pipeline, such as sklearn.impute.SimpleImputer(), fills in missing values",
            )
        return X

    def explain(self, X: ArrayLike, top: int = 5) -> Attended:
        """Return the training rows that the prediction of each row attends to most.

        Parameters
        ----------
        X : array (n, d)
            Rows.
        top : int
            Training rows for each; fewer if there are not so many.

        Returns
        -------
        Attended
            Rows and weights, both (n, top); of several heads, the mean of their weights.

        Raises
        ------
        ValueError, TypeError
            If `top` is not an integer of at least 1, or X is not as in training.

        Examples
        --------
        >>> from regard.estimators import AttentionRegressor
        >>> model = AttentionRegressor().fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
        >>> model.explain([[2.9]], top=1).rows
        array([[3]])
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
        return Attended(rows, weights)

    def _weights(self, queries: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the attention weights of all training rows for a block of queries at a time."""
        heads = self._heads.heads(self.parameters_)
        mixture = self._heads.mixture(self.parameters_)[: len(heads)]
        step = max(PAIRS // len(self._rows), 1)
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            block = sum(
                share * self._of_head(head.score, queries[part])
                for share, head in zip(mixture / mixture.sum(), heads, strict=True)
            )
            yield part, np.asarray(block)[:, self._key_of_row] * self._share

    def _of_head(self, parameters: Array, queries: Array) -> Array:
        q, k, _ = self._heads.score(parameters, queries, self.keys_)
        logits = q @ k.T + self._log_weights
        logits -= logits.max(axis=1, keepdims=True)
        weights = np.exp(logits)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

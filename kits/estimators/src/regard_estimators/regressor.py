"""Kernel regression with a learned kernel, for scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array

from regard import _check
from regard_estimators import fitting
from regard_estimators.base import AttentionEstimator, Standard, complete, exponents, scaled

__all__ = ["AttentionRegressor"]

Array = NDArray[Any]
LARGEST_PREDICTION = 1e100  # times the targets, of predictions whose squared errors can be added up
DEVIATIONS_BEYOND = 0.5  # standard deviations by which a line may leave the range of the targets


class AttentionRegressor(MultiOutputMixin, RegressorMixin, AttentionEstimator):  # type: ignore[misc]
    """Predict by attention to the training rows, with a learned score. ::

        prediction(x) = sum_j weights(x, x_j) y_j,    weights = softmax_j(score(x, x_j))

    With the Gaussian score this is the kernel regression of Nadaraya and Watson. Widths and other parameters of the
    score minimise the mean squared error of each training row predicted by all others.

    Parameters
    ----------
    metric : {"scalar", "diagonal", "full"}
        The structure of M in the score ``-|M x - M y|^2 / 2`` of standardised features: one width for all features,
        one for each, or a matrix.
    degree : {0, 1} or None
        Degree of the local polynomial: 0 predicts the weighted mean, 1 the value of a weighted linear regression,
        with a learned ridge, which is better at the borders and for smooth functions; its cost grows with d^2. For
        new rows the line is followed for two widths of a Gaussian, and leaves the range of the targets by half a
        standard deviation at most. None is 1 for up to 20 features, and 0 for more.
    rank : int, optional
        Rows of a "full" M; by default the number of features.
    alpha : float
        Strength of a normal prior that keeps the parameters of the score near one common width.
    max_iter : int
        Iterations of L-BFGS, at most.
    tol : float
        It stops where the loss falls by less than this share, or no component of the gradient is larger.
    batch_size : int
        Training rows whose error is computed in an iteration. Above it, so many are drawn once; all rows remain keys.
    random_state : int, RandomState or None
        For these draws.

    Attributes
    ----------
    keys_ : array (m, d)
        Distinct training rows, standardised.
    values_ : array (m, e)
        Their targets, standardised.
    parameters_ : array
        The learned parameters.
    loss_ : float
        The mean squared error of the leave-one-out predictions, as a share of the targets' variance.
    widths_ : array (d,)
        Widths of the kernel in the unit of each feature, with a metric that is not "full".
    n_iter_ : int
        Iterations of L-BFGS.
    n_features_in_ : int
        Features of a row.

    References
    ----------
    Nadaraya 1964, "On Estimating Regression"; Watson 1964, "Smooth Regression Analysis"; Fan 1992, "Design-adaptive
    Nonparametric Regression"; Weinberger and Tesauro 2007, "Metric Learning for Kernel Regression".

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> model = AttentionRegressor(degree=1).fit(x, np.sin(x.ravel()))
    >>> model.predict([[1.0]]).round(2), np.sin(1.0).round(2)
    (array([0.84]), np.float64(0.84))
    """

    _likelihood = staticmethod(fitting.of_squared_error)

    def __init__(
        self,
        *,
        metric: str = "diagonal",
        degree: int | None = None,
        rank: int | None = None,
        alpha: float = 10.0,
        max_iter: int = 100,
        tol: float = 1e-5,
        batch_size: int = 2000,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.degree = degree
        self.rank = rank
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> AttentionRegressor:
        """Learn the score from training rows.

        Parameters
        ----------
        X : array (n, d)
            Rows.
        y : array (n,) or (n, e)
            Targets.
        sample_weight : array (n,), optional
            Weights; a row of weight 2 counts as two rows, and one of weight 0 is left out.

        Returns
        -------
        AttentionRegressor
            Itself.

        Raises
        ------
        ValueError
            For an invalid parameter, or X, y or weights that scikit-learn refuses.

        Examples
        --------
        >>> AttentionRegressor().fit([[0.0], [1.0]], [1.0, 3.0]).predict([[9.0]]).shape
        (1,)
        """
        return self._refit(X, y, sample_weight)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> None:
        if issparse(y):
            _check.fail(
                "y must be a dense array. Got a sparse one instead.", hint="y.toarray()", kind=TypeError
            )
        rows, y = self._validated(X, y, multi_output=True, y_numeric=True)
        targets = np.asarray(y, np.float64)
        self._one_output = targets.ndim == 1
        targets = self._finite(targets.reshape(len(rows), -1), "y", "output")
        self._check_parameters()
        weights = self._weights_of(sample_weight, len(self._finite(rows)))
        self._exponent = exponents(targets)
        self._fit(rows, scaled(targets, self._exponent), weights)

    def _begin(self, totals: Array, rows: NDArray[np.int64]) -> None:
        """Standardise the targets, so that all outputs have equal influence on the loss."""
        self._targets = Standard.of(self.values_, totals)
        self.values_ = self._near(self._targets(self.values_), "y", rows)
        self._targets = self._targets._replace(exponent=self._targets.exponent + self._exponent)

    def _loss(self, predictions: Array, targets: Array) -> tuple[Array, Array]:
        """Return the mean squared error of each row, and its gradient."""
        difference = predictions - targets
        return np.mean(difference**2, axis=1), 2 / targets.shape[1] * difference

    def predict(self, X: ArrayLike) -> Array:
        """Predict the targets of rows.

        Parameters
        ----------
        X : array (n, d)
            Rows.

        Returns
        -------
        array (n,) or (n, e)
            In the shape of the targets of `fit`.

        Raises
        ------
        ValueError
            If X is not as in training.

        Examples
        --------
        >>> AttentionRegressor().fit([[0.0], [1.0]], [[1.0, 0.0], [3.0, 0.0]]).predict([[0.5]]).shape
        (1, 2)
        """
        prediction = self._predict(X)
        low, high = self.values_.min(axis=0) - DEVIATIONS_BEYOND, self.values_.max(axis=0) + DEVIATIONS_BEYOND
        prediction = self._targets.inverse(np.clip(prediction, low, high))
        return prediction.ravel() if self._one_output else prediction

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R^2, the share of the targets' variance that the predictions explain.

        Parameters
        ----------
        X : array (n, d)
            Rows.
        y : array (n,) or (n, e)
            Their targets.
        sample_weight : array (n,), optional
            Weights.

        Returns
        -------
        float
            1 at best; of several outputs, the mean.

        Raises
        ------
        ValueError
            If X is not as in training, or y or weights have missing entries or other numbers of rows.

        Examples
        --------
        >>> x = [[0.0], [1.0], [2.0]]
        >>> model = AttentionRegressor().fit(x, [1.0, 1.0, 1.0])
        >>> model.score(x, [0.0, 1.0, 2.0])                 # as good as the mean
        0.0
        """
        (y,) = complete(y=y)
        predicted = self.predict(X)
        with np.errstate(invalid="ignore"):  # of inf - inf, in a sum that tells whether y is finite
            targets = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        if len(targets) == len(predicted) and targets.size == predicted.size:
            targets = targets.reshape(predicted.shape)
        if targets.shape != predicted.shape:
            _check.fail(f"y must have shape {predicted.shape}. Got {targets.shape} instead.")
        weights, exponent = self._weights_of(sample_weight, len(predicted)), exponents(targets)
        near = np.clip(scaled(predicted, exponent), -LARGEST_PREDICTION, LARGEST_PREDICTION)
        return float(r2_score(scaled(targets, exponent), near, sample_weight=weights))

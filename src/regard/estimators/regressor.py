"""Kernel regression with a learned kernel, for scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.estimators import fitting
from regard.estimators._sklearn import MultiOutputMixin, RegressorMixin
from regard.estimators.base import AttentionEstimator, moments

__all__ = ["AttentionRegressor"]

Array = NDArray[Any]
BEYOND = 0.5  # standard deviations by which a line may leave the range of the targets


class AttentionRegressor(MultiOutputMixin, RegressorMixin, AttentionEstimator):  # type: ignore[misc]
    """Predict by attention to the training rows, with a learned score. ::

        prediction(x) = sum_j weights(x, x_j) y_j,    weights = softmax_j(score(x, x_j))

    With the Gaussian score this is the kernel regression of Nadaraya and Watson. Widths and other parameters of the
    score minimise the mean squared error of each training row predicted by all others.

    Parameters
    ----------
    score_function : {"gaussian", "general", "cosine"}
        ``-|M x - M y|^2 / 2``, ``x^T M y``, or ``t cos(M x, M y)``, of standardised features.
    metric : {"scalar", "diagonal", "full"}
        The structure of M: one width for all features, one for each, or a matrix.
    degree : {0, 1} or None
        Degree of the local polynomial: 0 predicts the weighted mean, 1 the value of a weighted linear regression,
        with a learned ridge, which is better at the borders and for smooth functions; its cost grows with d^2. For
        new rows the line is followed for two widths of a Gaussian, and leaves the range of the targets by half a
        standard deviation at most. None is 1 for up to 20 features, and 0 for more.
    heads : int
        Attentions with parameters of their own, whose predictions are averaged with learned weights.
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
        For these draws, and for the differences between heads.

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
        score_function: str = "gaussian",
        metric: str = "diagonal",
        degree: int | None = None,
        heads: int = 1,
        rank: int | None = None,
        alpha: float = 10.0,
        max_iter: int = 100,
        tol: float = 1e-5,
        batch_size: int = 2000,
        random_state: Any = None,
    ) -> None:
        self.score_function = score_function
        self.metric = metric
        self.degree = degree
        self.heads = heads
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
        from sklearn.utils.validation import _check_sample_weight, validate_data

        rows, y = validate_data(
            *(self, X, y), multi_output=True, y_numeric=True, dtype=np.float64, ensure_all_finite=False
        )
        self._finite(rows)
        targets = np.asarray(y, np.float64)
        self._check_parameters()
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weights > 0):
            raise ValueError("sample_weight must be positive for at least one row. Got none.")
        self._one_output = targets.ndim == 1
        self._fit(rows, targets.reshape(len(rows), -1), weights)
        return self

    def _begin(self, totals: Array) -> None:
        """Standardise the targets, so that the loss of each output counts alike."""
        self._mean, spread = moments(self.values_, totals)
        self._spread = np.where(spread > 0, spread, 1.0)
        self.values_ = (self.values_ - self._mean) / self._spread

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
        low, high = self.values_.min(axis=0) - BEYOND, self.values_.max(axis=0) + BEYOND
        prediction = np.clip(prediction, low, high) * self._spread + self._mean
        return np.asarray(prediction.ravel() if self._one_output else prediction)

"""Classification by attention to the training rows, for scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from regard import _check
from regard_estimators.base import AttentionEstimator, complete

__all__ = ["AttentionClassifier"]

Array = NDArray[Any]


class AttentionClassifier(ClassifierMixin, AttentionEstimator):  # type: ignore[misc]
    """Predict classes by attention to the training rows, with a learned score. ::

        p(c | x) = sum_j weights(x, x_j) [y_j = c],    weights = softmax_j(score(x, x_j))

    The parameters minimise the log loss of each training row predicted by all others. The shares of the classes take
    part in the mean with a learned weight of at least 0.001, so that no probability is 0.

    Parameters
    ----------
    metric : {"scalar", "diagonal", "full"}
        The structure of M in the score ``-|M x - M y|^2 / 2`` of standardised features: one width for all features,
        one for each, or a matrix.
    rank : int, optional
        Rows of a "full" M; by default the number of features.
    alpha : float
        Strength of a normal prior that keeps the parameters of the score near one common width.
    max_iter : int
        Iterations of L-BFGS, at most.
    tol : float
        It stops where the loss falls by less than this share, or no component of the gradient is larger.
    batch_size : int
        Training rows whose loss is computed in an iteration. Above it, so many are drawn once; all rows remain keys.
    random_state : int, RandomState or None
        For these draws.
    class_weight : dict, "balanced" or None
        Factors of the sample weights by class, as in scikit-learn; "balanced": all classes weigh the same in total.

    Attributes
    ----------
    classes_ : array (e,)
        The classes of rows with positive weight.
    keys_ : array (m, d)
        Distinct training rows, standardised.
    values_ : array (m, e)
        Their shares of the classes.
    parameters_ : array
        The learned parameters.
    loss_ : float
        The log loss of the leave-one-out predictions.
    widths_ : array (d,)
        Widths of the kernel in the unit of each feature, with a metric that is not "full".
    n_iter_ : int
        Iterations of L-BFGS.
    n_features_in_ : int
        Features of a row.

    References
    ----------
    Goldberger et al. 2004, "Neighbourhood Components Analysis".

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(12.0)[:, None]
    >>> model = AttentionClassifier().fit(x, np.where(x.ravel() < 6, "low", "high"))
    >>> model.predict([[2.0], [9.0]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        *,
        metric: str = "diagonal",
        rank: int | None = None,
        alpha: float = 10.0,
        max_iter: int = 100,
        tol: float = 1e-5,
        batch_size: int = 2000,
        random_state: Any = None,
        class_weight: dict[Any, float] | str | None = None,
    ) -> None:
        self.metric = metric
        self.rank = rank
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.random_state = random_state
        self.class_weight = class_weight

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> AttentionClassifier:
        """Learn the score from training rows.

        Parameters
        ----------
        X : array (n, d)
            Rows.
        y : array (n,)
            Classes: numbers or strings.
        sample_weight : array (n,), optional
            Weights; a row of weight 2 counts as two rows, and one of weight 0 is left out.

        Returns
        -------
        AttentionClassifier
            Itself.

        Raises
        ------
        ValueError
            For an invalid parameter, fewer than two classes, or X, y or weights that scikit-learn refuses.

        Examples
        --------
        >>> AttentionClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 1]).classes_
        array([0, 1])
        """
        return self._refit(X, y, sample_weight)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> None:
        rows, labels = self._validated(X, y)
        self._finite(rows)
        self._check_parameters()
        check_classification_targets(labels)
        weights = self._weights_of(sample_weight, len(rows)) * self._class_weights(labels)
        self.classes_ = np.unique(labels[weights > 0])
        if (count := len(self.classes_)) < 2:
            _check.fail(
                f"AttentionClassifier needs rows of at least 2 classes. Got {count} class with positive weight."
            )
        targets = (labels[:, None] == self.classes_).astype(np.float64)
        self._fit(rows, targets, weights)

    def _class_weights(self, labels: Array) -> Array:
        """Return the weight of each row's class (n,)."""
        factors = np.asarray(compute_sample_weight(self.class_weight, labels))
        if not (np.isfinite(factors).all() and (factors >= 0).all()):
            self._refuse("class_weight", "None, 'balanced' or finite factors that are not negative")
        return factors

    def _begin(self, totals: Array, rows: NDArray[np.int64]) -> Array:
        """Return the shares of the classes, which take part in the mean."""
        return np.asarray(np.average(self.values_, axis=0, weights=totals))

    def _loss(self, predictions: Array, targets: Array) -> tuple[Array, Array]:
        """Return the log loss of each row, whose target is a share of each class, and its gradient."""
        floor = np.maximum(predictions, np.finfo(np.float64).tiny)
        return -np.sum(targets * np.log(floor), axis=1), -targets / floor

    def predict_proba(self, X: ArrayLike) -> Array:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array (n, d)
            Rows.

        Returns
        -------
        array (n, e)
            In the order of `classes_`; each row sums to 1.

        Raises
        ------
        ValueError
            If X is not as in training.

        Examples
        --------
        >>> AttentionClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 1]).predict_proba([[1.5]]).sum().round(6)
        np.float64(1.0)
        """
        return self._predict(X)

    def predict(self, X: ArrayLike) -> Array:
        """Predict the most probable class of each row.

        Parameters
        ----------
        X : array (n, d)
            Rows.

        Returns
        -------
        array (n,)
            Classes.

        Raises
        ------
        ValueError
            If X is not as in training.

        Examples
        --------
        >>> AttentionClassifier().fit([[0.0], [1.0], [8.0]], [0, 0, 1]).predict([[0.5]])
        array([0])
        """
        best = self._predict(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy, the share of rows whose class is predicted.

        Parameters
        ----------
        X : array (n, d)
            Rows.
        y : array (n,)
            Their classes.
        sample_weight : array (n,), optional
            Weights.

        Returns
        -------
        float
            Between 0 and 1.

        Raises
        ------
        ValueError
            If X is not as in training, or y or weights have missing entries or other numbers of rows.

        Examples
        --------
        >>> model = AttentionClassifier().fit([[0.0], [1.0], [8.0]], [0, 0, 1])
        >>> model.score([[0.5], [0.6]], [0, 1])
        0.5
        """
        from sklearn.metrics import accuracy_score

        (y,) = complete(y=y)
        predicted = self.predict(X)
        weights = self._weights_of(sample_weight, len(predicted))
        return float(accuracy_score(y, predicted, sample_weight=weights))

"""Tables, targets and weights of other libraries: read as NumPy's, or a TypeError with the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from foreign import DoorLaws, each

from regard_estimators import AttentionClassifier, AttentionRegressor

X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], np.float32)
Y = np.array([1, 0, 1], np.float32)
FITTED = AttentionRegressor(max_iter=1).fit(X, Y)
CLASSES = AttentionClassifier(max_iter=1).fit(X, Y)

DOORS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "X": (lambda x: AttentionRegressor(max_iter=1).fit(x, Y).predict(X), X),
    "X: predict": (FITTED.predict, X),
    "X: explain": (lambda x: FITTED.explain(x).weights, X),
    "X: classes": (CLASSES.predict_proba, X),
    "y": (lambda y: AttentionRegressor(max_iter=1).fit(X, y).predict(X), Y),
    "y: score": (lambda y: FITTED.score(X, y), Y),
    "y: classes": (lambda y: CLASSES.score(X, y), Y),
    "sample_weight": (lambda w: FITTED.score(X, Y, sample_weight=w), Y),
}
door = each(DOORS)


class TestDoors(DoorLaws):
    """Each of them."""

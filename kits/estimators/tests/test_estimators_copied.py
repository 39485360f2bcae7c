"""Estimators can be pickled and copied, for processes and notebooks."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard_estimators as estimators

X = np.linspace(-1, 1, 12).reshape(3, 4)
LABELS = np.array([0, 1, 0])
every_copy = pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))]
)


@every_copy
@pytest.mark.parametrize("name", ["AttentionRegressor", "AttentionClassifier"])
def test_fitted_estimators_are_copied(name: str, copied: Callable[[Any], Any]) -> None:
    fitted = getattr(estimators, name)().fit(X, LABELS)
    assert copied(fitted).predict(X).tolist() == fitted.predict(X).tolist()

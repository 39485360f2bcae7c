"""Estimators and memories can be pickled and copied, for processes and notebooks; copies are independent."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard_estimators as estimators
from regard import scores

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


@every_copy
def test_a_copied_memory_recalls_the_same(copied: Callable[[Any], Any]) -> None:
    memory = estimators.AttentionMemory(score=scores.gaussian(2.0))
    memory.remove(memory.add(np.tile(X, (2, 1)), np.tile(X, (2, 1)))[:3])
    for expected, recalled in zip(memory.recall(X), copied(memory).recall(X), strict=True):
        np.testing.assert_array_equal(recalled, expected)


@every_copy
def test_copies_of_a_memory_grow_independently(copied: Callable[[Any], Any]) -> None:
    first = estimators.AttentionMemory()
    first.add(X, X)
    first.add(X[:1], X[:1])  # now there is room for more
    other = copied(first)
    other.add(X[:0], X[:0])
    other.add(X[1:2], X[1:2])
    first.add(X[2:3], X[2:3])
    assert other.keys[-1].tolist() == X[1].tolist()
    assert first.keys[-1].tolist() == X[2].tolist()

"""Tables, targets and weights of other libraries: read as NumPy's, or a TypeError with the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from foreign import KINDS, UNREADABLE, assert_of_pytorch, assert_read, assert_refused

from regard_estimators import AttentionClassifier, AttentionMemory, AttentionRegressor

X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], np.float32)
Y = np.array([1, 0, 1], np.float32)
FITTED = AttentionRegressor(max_iter=1).fit(X, Y)
CLASSES = AttentionClassifier(max_iter=1).fit(X, Y)

# By the name of the argument, before a colon: what reads it, and an argument that it accepts.
DOORS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "X": (lambda x: AttentionRegressor(max_iter=1).fit(x, Y).predict(X), X),
    "X: predict": (FITTED.predict, X),
    "X: explain": (lambda x: FITTED.explain(x).weights, X),
    "X: classes": (CLASSES.predict_proba, X),
    "y": (lambda y: AttentionRegressor(max_iter=1).fit(X, y).predict(X), Y),
    "y: score": (lambda y: FITTED.score(X, y), Y),
    "y: classes": (lambda y: CLASSES.score(X, y), Y),
    "sample_weight": (lambda w: FITTED.score(X, Y, sample_weight=w), Y),
    "keys": (lambda x: AttentionMemory().add(x, X), X),
    "queries": (lambda x: filled().recall(x).values, X),
}
doors = pytest.mark.parametrize("door", DOORS)


def filled() -> AttentionMemory:
    memory = AttentionMemory()
    memory.add(X, X)
    return memory


@pytest.mark.parametrize("kind", KINDS)
@doors
def test_an_array_of_another_library_is_read_as_one_of_numpy(door: str, kind: Callable[[Any], Any]) -> None:
    assert_read(*DOORS[door], kind)


@pytest.mark.parametrize("calls", UNREADABLE)
@doors
def test_a_tensor_that_numpy_cannot_read_is_an_error_with_the_way_out(door: str, calls: str) -> None:
    assert_refused(door.partition(":")[0], *DOORS[door], calls)


@pytest.mark.slow
@doors
def test_tensors_of_pytorch(door: str) -> None:
    assert_of_pytorch(*DOORS[door])

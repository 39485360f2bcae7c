"""AttentionMemory: add, remove, recall."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from regard_estimators import AttentionMemory


def test_a_recall_is_the_attention_to_what_is_stored() -> None:
    rng = np.random.default_rng(0)
    keys, values, queries = (rng.standard_normal(shape) for shape in ((30, 4), (30, 2), (5, 4)))
    memory = AttentionMemory(score=regard.scores.gaussian())
    for start in range(0, 30, 7):
        memory.add(keys[start : start + 7], values[start : start + 7])
    expected = regard.attend(queries, keys, values, score=regard.scores.gaussian())
    recalled = memory.recall(queries, top=3)
    np.testing.assert_allclose(recalled.values, expected.context, rtol=1e-12)
    np.testing.assert_array_equal(recalled.ids, np.argsort(-expected.weights, axis=1)[:, :3])
    np.testing.assert_allclose(recalled.weights, -np.sort(-expected.weights, axis=1)[:, :3], rtol=1e-12)


def test_what_is_removed_is_never_recalled_and_its_id_never_used_again() -> None:
    memory = AttentionMemory()
    memory.add(np.eye(3), np.eye(3))
    memory.remove([0, 2])
    assert memory.add([[5.0, 5, 5]], [[1.0, 1, 1]]).tolist() == [3]
    assert memory.ids.tolist() == [1, 3]
    assert set(memory.recall(np.eye(3)).ids.ravel().tolist()) == {1, 3}
    memory.remove([1, 3])
    assert len(memory) == 0
    assert memory.add(np.eye(3), np.eye(3)).tolist() == [4, 5, 6]


def test_what_was_added_is_a_copy() -> None:
    keys, values = np.ones((1, 2)), np.ones((1, 1))
    memory = AttentionMemory()
    memory.add(keys, values)
    keys[:] = values[:] = 7
    assert memory.recall([[1.0, 1.0]]).values.tolist() == [[1.0]]
    with pytest.raises(ValueError, match="read-only"):
        memory.keys[0, 0] = 5


def test_entries_are_stored_as_concatenation_would_join_them() -> None:
    """float32 and wider numbers in any order: neither rounded nor infinite."""
    parts = [np.array([[x]], dtype) for x, dtype in ((1, "f4"), (1e39, "f8"), (2**53 - 1, "i8"), (0.1, "f4"))]
    for order in ([0], [0, 3], [0, 1, 2, 3], [3, 2, 0], [1, 0], [2, 3]):
        memory = AttentionMemory(score="gaussian")
        for index in order:
            memory.add(parts[index], parts[index])
        expected = np.concatenate([parts[index] for index in order])
        for stored in (memory.keys, memory.values):
            assert stored.dtype == (float if expected.dtype == int else expected.dtype)
            assert stored.tolist() == expected.tolist()
        assert np.isfinite(memory.recall([[1.0]]).values).all()


def test_invalid_arguments_change_nothing() -> None:
    memory = AttentionMemory()
    memory.add(np.eye(2), np.eye(2))
    for error, message, call in (
        (
            ValueError,
            "keys must have the size of the stored ones: 3 and 2",
            lambda: memory.add(np.eye(3), np.eye(3)),
        ),
        (
            ValueError,
            "there must be a value for each key: 2 keys and 1 values",
            lambda: memory.add(np.eye(2), [[1.0, 2.0]]),
        ),
        (
            ValueError,
            "values must hold finite numbers. Got nan in row 0",
            lambda: memory.add([[1.0, 2.0]], [[np.nan, 0.0]]),
        ),
        (
            ValueError,
            r"keys must be a matrix, a row for each. Got an array of shape \(2,\).",
            lambda: memory.add([1.0, 2.0], [1.0]),
        ),
        (KeyError, "there is no entry 9; 2 are stored", lambda: memory.remove([0, 9])),
        (ValueError, "the memory is empty", lambda: AttentionMemory().recall([[1.0]])),
    ):
        with pytest.raises(error, match=message):
            call()
    assert memory.ids.tolist() == [0, 1]

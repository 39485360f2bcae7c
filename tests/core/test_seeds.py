"""The two notebooks this package grew out of: every number that they print, to the digits they print.

Both draw their projections with NumPy's legacy generator, whose stream is fixed for ever. The second was run out of
order, so the projections it prints are not the ones behind its results; the draws below lead to those.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regard

Array = NDArray[Any]
WORDS = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])


def first_draws() -> tuple[Array, Array, Array]:
    """seed(42), then three draws of randint(3)."""
    stream = np.random.RandomState(42)
    wq, wk, wv = (stream.randint(3, size=(3, 3)) for _ in range(3))
    return wq, wk, wv


def second_draws() -> tuple[Array, Array, Array]:
    """seed(42), two draws of randint(10), seven of randint(3), and then the three that were used."""
    stream = np.random.RandomState(42)
    for high in (10,) * 2 + (3,) * 7:
        stream.randint(high, size=(3, 3))
    wq, wk, wv = (stream.randint(3, size=(3, 3)) for _ in range(3))
    return wq, wk, wv


def projected(weights: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """Queries, keys and values of the four words."""
    wq, wk, wv = weights
    return WORDS @ wq, WORDS @ wk, WORDS @ wv


FIRST_ATTENTION = [
    [0.98522025, 1.74174051, 0.75652026],
    [0.90965265, 1.40965265, 0.5],
    [0.99851226, 1.75849334, 0.75998108],
    [0.99560386, 1.90407309, 0.90846923],
]
FIRST_WEIGHTS = [
    [2.36089863e-01, 7.38987555e-03, 7.49130386e-01, 7.38987555e-03],
    [4.54826323e-01, 4.51736775e-02, 4.54826323e-01, 4.51736775e-02],
    [2.39275049e-01, 7.43870015e-04, 7.59237211e-01, 7.43870015e-04],
    [8.99501754e-02, 2.81554063e-03, 9.05653685e-01, 1.58059922e-03],
]
SECOND_ATTENTION = [
    [1.67601, 1.67601, 0.64798],
    [1.67601, 1.67601, 0.64798],
    [1.84696, 1.84696, 0.30608],
    [1.67601, 1.67601, 0.64798],
]


def significant(x: Any, digits: int) -> list[str]:
    """Numbers with so many significant digits."""
    return [f"{value:.{digits - 1}e}" for value in np.ravel(x)]


def decimals(x: Any, digits: int) -> list[str]:
    """Numbers with so many digits after the point."""
    return [f"{value:.{digits}f}" for value in np.ravel(x)]


def test_the_first_notebook_draws_these_projections() -> None:
    wq, wk, wv = first_draws()
    np.testing.assert_array_equal(wq, [[2, 0, 2], [2, 0, 0], [2, 1, 2]])
    np.testing.assert_array_equal(wk, [[2, 2, 2], [0, 2, 1], [0, 1, 1]])
    np.testing.assert_array_equal(wv, [[1, 1, 0], [0, 1, 1], [0, 0, 0]])
    q, k, v = projected((wq, wk, wv))
    np.testing.assert_array_equal(q, [[2, 0, 2], [2, 0, 0], [4, 0, 2], [2, 1, 2]])
    np.testing.assert_array_equal(k, [[2, 2, 2], [0, 2, 1], [2, 4, 3], [0, 1, 1]])
    np.testing.assert_array_equal(v, [[1, 1, 0], [0, 1, 1], [1, 2, 1], [0, 0, 0]])


def test_the_first_notebook_scores_weights_and_attention() -> None:
    attention = regard.attend(*projected(first_draws()))
    np.testing.assert_array_equal(
        attention.scores, [[8, 2, 10, 2], [4, 0, 4, 0], [12, 2, 14, 2], [10, 4, 14, 3]]
    )
    assert significant(attention.weights, 9) == significant(FIRST_WEIGHTS, 9)
    assert decimals(attention.context, 8) == decimals(FIRST_ATTENTION, 8)


def test_the_second_notebook_draws_these_projections() -> None:
    wq, wk, wv = second_draws()
    np.testing.assert_array_equal(wq, [[2, 0, 1], [0, 0, 1], [2, 0, 1]])
    np.testing.assert_array_equal(wk, [[0, 0, 0], [0, 2, 0], [0, 0, 2]])
    np.testing.assert_array_equal(wv, [[0, 0, 2], [2, 2, 0], [2, 2, 0]])


def test_the_second_notebook_for_its_first_word() -> None:
    q, k, v = projected(second_draws())
    attention = regard.attend(q[:1], k, v)
    np.testing.assert_array_equal(attention.scores, [[0, 0, 0, 2]])
    assert decimals(attention.weights, 5) == decimals([0.16199, 0.16199, 0.16199, 0.51402], 5)
    assert decimals(attention.context, 5) == decimals([1.67601, 1.67601, 0.64798], 5)


def test_the_second_notebook_for_all_words() -> None:
    assert decimals(regard.attend(*projected(second_draws())).context, 5) == decimals(SECOND_ATTENTION, 5)


@pytest.mark.parametrize(
    ("weights", "printed", "digits"), [(first_draws, FIRST_ATTENTION, 8), (second_draws, SECOND_ATTENTION, 5)]
)
def test_every_function_prints_the_same_numbers(weights: Any, printed: Any, digits: int) -> None:
    arrays = projected(weights())
    context, _ = regard.attention_vjp(*arrays)
    for output in (regard.attention(*arrays), context, regard.merge(regard.partial(*arrays)).context):
        assert decimals(output, digits) == decimals(printed, digits)

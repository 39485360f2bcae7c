"""Numbers that are not finite, or nearly: every picture, page and text has them or refuses them, without a warning."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import regard
from regard import mask, scores
from regard.show import figures, page, story, terminal
from regard.show.page.heads import group
from regard.show.page.long_attention import LongAttention
from regard.show.page.section import weight_faults

Array = NDArray[Any]
DTYPES = (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)
NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 3e38, 65504.0)
ONES = np.ones((3, 4))


def arrays() -> Iterator[Array]:
    """Arrays (3, 4) of each type with some of the numbers in them."""
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        array = np.full((3, 4), 0.25)
        array[0, :2] = array[2, 3] = number
        with np.errstate(all="ignore"):
            result = array.astype(dtype)
        yield result
    mixed = np.full((3, 4), 0.25)
    mixed[0] = np.inf, -np.inf, np.nan, 0
    yield from (mixed.astype(dtype) for dtype in DTYPES)


def tried(call: Callable[[], object]) -> None:
    """Call; an error states a rule."""
    text = "must"
    try:
        call()
    except ValueError as error:
        text = str(error)
    assert "must" in text or "needs at least one point" in text


def explained(queries: Array, keys: Array, values: Array, **options: Any) -> str:
    return str(regard.explain(queries=queries, keys=keys, values=values, **options))


@pytest.mark.slow
def test_pages_of_any_numbers() -> None:
    for array in arrays():
        page(array)
        page(array.tolist())
        for place in range(3):
            three = [array if i == place else ONES for i in range(3)]
            page(*three)
            page(*three, normalize="sparsemax")
            page(regard.attend(*three))
        page(LongAttention(array, ONES))
        page(LongAttention(ONES, array))


@pytest.mark.slow
def test_explanations_of_any_numbers() -> None:
    for array, place in itertools.product(arrays(), range(3)):
        three = [array if i == place else ONES for i in range(3)]
        explained(*three)
        explained(*three, score=scores.gaussian(2.0), softcap=2.0, mask=mask.causal())
        regard.explain(queries=three[0], keys=three[1], values=three[2]).in_browser()


@pytest.mark.slow
def test_texts_of_any_numbers() -> None:
    x = np.arange(12)
    for array in arrays():
        tried(lambda a=array: terminal.heatmap(a, color=True))
        terminal.table(array, shades=True, color=True)
        story.matrices([("x", array), ("y", array[0])])
        tried(lambda a=array: terminal.curves({"loss": (x, a)}))
        tried(lambda a=array: terminal.curves({"loss": (a, x)}))
        tried(lambda a=array: terminal.curves({"flat": ([0, 1], [a[0, 0], a[0, 0]])}))
        tried(lambda a=array: terminal.captioned(a[None], ["a"]))


@pytest.mark.slow
def test_figures_of_any_numbers() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    names, x = list("abcd"), np.arange(12)
    for array in arrays():
        tried(lambda a=array: figures.heatmap(a))
        figures.heatmap(array, signed=True)
        tried(lambda a=array: figures.heatmap(ONES, vmax=float(a[0, 0])))
        tried(lambda a=array: figures.curves([figures.Panel("loss", {"training": (x, a)})]))
        figures.by_length(names, {"BLEU": array[0], "other": array[1]}, np.arange(4))
        tried(lambda a=array: figures.by_length(names, {"BLEU": [1, 2, 3, 4]}, a[0]))
        tried(lambda a=array: figures.captioned(np.zeros((3, 4, 3)), a[None], ["a"]))
        tried(lambda a=array: figures.captioned(np.dstack([a, a, a]), ONES[None] / 12, ["a"]))
        plt.close("all")


def test_rows_of_infinities_are_faults_without_a_warning() -> None:
    assert weight_faults([[np.inf, -np.inf], [np.nan, 1], [1e308, 1e308]]) == [
        "1 weight is not a number, such as row 2, column 1: nan",
        "1 weight is infinite, such as row 1, column 1: inf",
        "1 weight is negative, such as row 1, column 2: -inf",
        "1 of 3 rows sums to neither 0 nor 1, such as row 3: inf",
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_of_a_large_page_are_rounded_from_every_type(dtype: Any) -> None:
    """A weight of 1 is 65,534 of 65,534 although float16 ends before."""
    import base64

    weights = np.zeros((1025, 1024), dtype)
    weights[:2, 0] = 1
    packed = group("large", weights)["weights"]
    assert packed["dtype"] == "uint16"
    numbers = np.frombuffer(base64.b64decode(packed["base64"]), "<u2").reshape(1025, 1024)
    assert numbers[:3, :2].tolist() == [[65534, 0], [65534, 0], [0, 0]]


def test_bfloat16_weights_are_drawn() -> None:
    weights = np.array([[0.5, 0.5]], ml_dtypes.bfloat16)
    assert terminal.heatmap(weights) == terminal.heatmap([[0.5, 0.5]])

"""Pages of numbers that are not finite, too large for float32, or too small: no script fails, all is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.context import Attention
from regard.seq2seq.translator import Translation
from regard.show import HtmlPage, page
from regard.show.page.alignment import aligned, alignment, sentence
from regard.show.page.dispatch import sections
from regard.show.page.long_attention import LongAttention

pytestmark = pytest.mark.slow

EXTREMES = {
    np.nan: "NaN",
    np.inf: "∞",
    -np.inf: "−∞",
    1e300: "1.00e300",
    1e39: "1.00e39",
    5e-324: "0",
    -1.0: "−1.000",
}
NAMES = list("abc")


def weights_with(number: float) -> Any:
    weights = np.full((3, 3), 0.25)
    weights[1, 1] = number
    return weights


def everything(number: float) -> HtmlPage:
    """A page with each view of weights that have this number in them, and of attention to it."""
    weights = weights_with(number)
    seen = [
        Attention(weights, weights, weights, weights, weights[:, 0]),
        [Attention(weights, weights, weights, weights, weights[:, 0])] * 2,
        LongAttention(np.tile(weights, (40, 1)), np.tile(weights, (40, 1))),
    ]
    pictured = Translation("x", ("x",) * 3, ("</s>",) * 3, 0.0, weights, grid=(1, 3))
    with np.errstate(all="ignore"):
        own = [section for one in seen for section in sections(one)]
        own += [
            alignment(aligned(weights, NAMES, NAMES)),
            alignment(sentence(pictured, picture=np.ones((4, 12)))),
        ]
        own += page(weights, weights, weights).sections
    return HtmlPage(own)


@pytest.mark.parametrize("number", EXTREMES, ids=str)
def test_every_view_shows_extreme_numbers(opened: Any, number: float) -> None:
    tab = opened(everything(number))
    for view in tab.locator("section:not(:has-text('120 × 120')) .weights-view").all():
        view.locator("[data-side=row]").nth(1).click()
        view.locator("[data-side=column]").nth(1).hover()
        assert view.locator("canvas").count()
        view.locator("[data-side=row]").nth(1).hover()
        assert EXTREMES[number] in view.locator(".readout").inner_text().replace("≈", "")
    for panel in tab.locator(".panel").all():
        panel.click()
    assert tab.locator(".colour-scale").first.inner_text().split()[-1] != "∞"


def test_the_largest_finite_weight_has_the_darkest_colour(opened: Any) -> None:
    """And an infinite one the same; a weight that is not a number has none."""
    tab = opened(page(np.array([[[0.5, np.inf], [np.nan, 0.25]]])))
    colours = tab.evaluate(
        """() => {
          const { width, height } = document.querySelector(".matrix canvas");
          const { data } = document.querySelector(".matrix canvas").getContext("2d").getImageData(0, 0, width, height);
          const pixel = (i, j) => 4 * (Math.floor((i / 2 + 0.1) * height) * width + Math.floor((j / 2 + 0.1) * width));
          return [[0, 0], [0, 1], [1, 0], [1, 1]].map(([i, j]) => Array.from(data.slice(pixel(i, j), pixel(i, j) + 3)));
        }"""
    )
    half, infinite, missing, quarter = map(sum, colours)
    assert infinite < half < quarter < missing


@pytest.mark.parametrize("number", [np.inf, 1e300, np.nan], ids=str)
def test_pictures_of_extreme_weights_are_exported(opened: Any, number: float) -> None:
    tab = opened(page(np.stack([weights_with(number)] * 2)[None]))
    for button in tab.get_by_role("button", name="Export").all():
        button.click()
        with tab.expect_download() as download:
            tab.get_by_role("menuitem", name="Picture as SVG").click()
        text = download.value.path().read_text(encoding="utf-8")
        assert "<svg" in text
        assert "NaN" not in text.replace(">NaN<", "")
        assert "Infinity" not in text


def test_large_weights_keep_their_size() -> None:
    group = sections([weights_with(1e300), weights_with(2.0)])[0].data["groups"][0]
    assert group["weights"]["dtype"] == "float64"
    assert sections(weights_with(np.inf))[0].data["groups"][0]["weights"]["dtype"] == "float32"
    assert (
        regard.show.page([weights_with(3e38)] * 2).sections[0].data["groups"][0]["weights"]["dtype"]
        == "float32"
    )


def test_weights_that_are_no_numbers_are_said_of_long_attention() -> None:
    keys = np.ones((9, 2))
    keys[4] = np.nan
    queries = np.ones((3, 2))
    whole = sections(LongAttention(queries, keys))[0]
    behind = sections(LongAttention(queries, keys, mask=regard.mask.causal("start")))[0]
    assert whole.warnings == ["3 of 3 queries have weights that are not a number"]
    assert behind.warnings == []


def test_views_on_one_page_keep_their_look(opened: Any) -> None:
    """The names of the rows of a table stand where they stand on a page without the pictures of heads."""
    steps = page(np.eye(3), np.eye(3), np.eye(3)).sections
    places = [
        opened(HtmlPage(shown)).locator(".mechanism tbody .label").first.bounding_box()
        for shown in (steps, [*steps, *sections(np.eye(3))])
    ]
    assert places[0] == places[1]

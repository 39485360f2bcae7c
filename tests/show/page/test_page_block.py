"""The whole block: its numbers at each place are NumPy's, with and without what stands around attention."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from regard.show import HtmlPage
from regard.show.page.chapters import story
from regard.show.page.examples import block

Rows = np.ndarray


def attention(queries: Rows, keys: Rows, values: Rows, *, causal: bool) -> Rows:
    logits = queries @ keys.T / np.sqrt(queries.shape[1])
    if causal:
        logits[np.triu_indices(len(logits), 1)] = -np.inf
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ values


class Block:
    """One block by its definition; `feed` and `residual` switch parts off."""

    def __init__(self, data: Any, *, residual: bool, feed: bool) -> None:
        self.of = {name: np.array(matrix, float) for name, matrix in data["matrices"].items()}
        self.residual, self.feed = residual, feed

    def attended(self, x: Rows, memory: Rows | None = None, *, causal: bool = False) -> Rows:
        read = x if memory is None else memory
        projected = x @ self.of["query_weight"], read @ self.of["key_weight"], read @ self.of["value_weight"]
        return self.residual * x + attention(*projected, causal=causal) @ self.of["output_weight"]

    def fed(self, x: Rows) -> Rows:
        if not self.feed:
            return x
        hidden = np.maximum(x @ self.of["hidden_weight"] + self.of["hidden_bias"], 0)
        return self.residual * x + hidden @ self.of["feed_weight"]


def expected(place: str, *, residual: bool, feed: bool) -> Rows:
    data = block().data
    source, target = (
        np.array(data[side]["words"], float) + np.array(data[side]["positions"])
        for side in ("source", "target")
    )
    whole = Block(data, residual=residual, feed=feed)
    decoded = whole.attended(target, causal=True)
    encoded = whole.fed(whole.attended(source))
    return {
        "encoder": encoded,
        "decoder": decoded,
        "source": whole.fed(whole.attended(decoded, encoded)),
        "language": whole.fed(whole.attended(source, causal=True)),
    }[place][0]


@pytest.mark.slow
def test_what_comes_out_at_each_place_is_that_of_numpy(opened: Any) -> None:
    section = block()
    tab = opened(HtmlPage([section]))
    outputs = set()
    for place, residual, feed in itertools.product(
        ("encoder", "decoder", "source", "language"), (True, False), (True, False)
    ):
        state = {"place": place, "residual": "on" if residual else "off", "feed": "on" if feed else "off"}
        computed = tab.evaluate("([data, state]) => regard.placed(data, state)", [dict(section.data), state])
        np.testing.assert_allclose(
            computed["last"], expected(place, residual=residual, feed=feed), rtol=1e-9, atol=1e-12
        )
        outputs.add((place, *np.round(computed["last"], 6)))
    assert len(outputs) >= 13  # nearly every switch changes what comes out


def test_the_example_means_what_its_texts_say() -> None:
    water, money, unclear, _ = expected("encoder", residual=True, feed=True)
    assert water > 2 * money
    assert abs(unclear) < 0.1
    assert expected("encoder", residual=True, feed=False)[2] == 2  # attention alone leaves the word unclear
    assert not expected("encoder", residual=False, feed=True).any()  # without add, the word is lost
    np.testing.assert_allclose(
        expected("language", residual=True, feed=True), [2, 2, 2, 1]
    )  # it sees itself alone
    first = expected("source", residual=True, feed=True)
    assert first[0] > 2 * first[1]  # the first word of the translation is about water


@pytest.mark.slow
def test_a_switch_changes_the_headline_in_the_window(opened: Any, accessible: Any) -> None:
    tab = opened(HtmlPage(story()), width=1280, height=800)
    tab.locator('.rail a[href="#block"]').click()
    part = tab.locator("#block")
    heading = part.locator(".sentence").first
    assert heading.inner_text() == "bank comes out as water 2.94, money 1, unclear 0.06, place 1."
    part.get_by_role("button", name="Feed-forward", exact=True).click()
    assert "unclear 2," in heading.inner_text()
    part.get_by_role("button", name="Add the word itself").click()
    assert "place 0." in heading.inner_text()
    assert 0 < heading.bounding_box()["y"] < 800
    for place in ("Decoder", "Source", "Language model", "Encoder"):
        part.get_by_role("radio", name=place).click()
        accessible(tab)


@pytest.mark.slow
def test_the_place_of_the_reader_lights_up_and_its_boxes_lead_to_their_chapters(opened: Any) -> None:
    tab = opened(HtmlPage(story()), width=1280, height=800)
    part = tab.locator("#block")
    for place, strip in (("Source", "Source"), ("Language model", "Decoder"), ("Encoder", "Encoder")):
        part.get_by_role("radio", name=place).click()
        assert part.locator(".strip.lit > text").first.text_content() == strip
    links = part.locator("svg a")
    names = ["queries", "heads", "shares", "queries", "heads", "heads", "queries", "heads", "why"]
    assert [link.get_attribute("href") for link in links.all()] == [f"#{name}" for name in names]
    for box in (2, 8):
        tab.locator('.rail a[href="#block"]').click()
        links.nth(box).click()
        tab.wait_for_function("name => location.hash.split('&')[0] === '#' + name", arg=names[box])
        assert -1 <= tab.locator(f"#{names[box]} h2").bounding_box()["y"] < 400
    alone = opened(HtmlPage(story(["block"])))
    assert alone.locator("svg a").count() == 0

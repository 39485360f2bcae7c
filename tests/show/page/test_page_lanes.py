"""The lanes of one query: all keys compete, and none that counts is out of sight."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from shown import row, texts

import regard
from regard.show import HtmlPage, page
from regard.show.page.chapters import story
from regard.show.page.examples import meanings, reordering
from regard.show.page.mechanism import mechanism

pytestmark = pytest.mark.slow

INSIDE = """element => {
    const box = element.getBoundingClientRect();
    return box.left >= 0 && box.right <= innerWidth + 1 && box.top >= 0 && box.bottom <= innerHeight + 1;
}"""


TOUCHING = """() => {
    const texts = [...document.querySelectorAll(".lanes text")];
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    const near = (a, b) => a.left < b.right + 3 && b.left < a.right + 3 && a.top < b.bottom && b.top < a.bottom;
    return boxes.flatMap(([text, box], i) =>
        boxes.slice(0, i).filter(([, other]) => near(box, other)).map(([other]) => [other, text]));
}"""


def many(n: int) -> tuple[HtmlPage, Any]:
    """A page of n words that attend to each other, and its numbers."""
    arrays = np.random.default_rng(n).normal(size=(3, n, 3)) * 2
    return page(*arrays), regard.attend(*arrays)


@pytest.mark.parametrize("width", [1280, 390])
def test_of_many_keys_the_best_are_shown_and_the_others_together(opened: Any, width: int) -> None:
    shown, attention = many(30)
    tab = opened(shown, width=width, height=800)
    for query in (0, 17):
        tab.get_by_role("combobox", name="Query", exact=True).select_option(index=query)
        weights = attention.weights[query]
        best = np.sort(np.argsort(-weights)[:5])
        assert tab.locator(".lanes .lane .name").all_text_contents() == [f"key {j + 1}" for j in best]
        rest = 100 * (1 - weights[best].sum())
        others = tab.locator(".lanes .lane.soft").text_content()
        assert others.startswith("25 others together")
        assert float(re.search(r"[\d.]+(?=\u00a0%)", others).group()) == pytest.approx(rest, abs=0.051)
        assert row(tab, "weight") == texts(weights)[0][best[0] : best[0] + 1] + [
            texts(weights)[0][j] for j in best[1:]
        ]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("language", ["en", "fr", "de"])
def test_numbers_of_a_lane_stand_apart(opened: Any, language: str, width: int) -> None:
    large = np.array([[11.0, -11.0], [2.0, 3.0], [-11.0, 11.0]])
    words = ["x1", "x2", "x3"]
    shown = page(large, large, large, mask=regard.mask.causal(), query_labels=words, language=language)
    tab = opened(shown, width=width, height=800)
    for word in words:
        tab.get_by_role("radio", name=word, exact=True).click()
        assert tab.locator(".lanes text").count() > 6
        assert tab.evaluate(TOUCHING) == []


@pytest.mark.parametrize("all_keys", [False, True])
def test_the_picked_key_is_never_out_of_sight(opened: Any, all_keys: bool) -> None:
    shown, attention = many(30)
    tab = opened(shown, width=1280, height=800)
    if all_keys:
        tab.get_by_role("button", name="Show all 30 keys").click()
    tab.locator(".drawer[data-part=matrices] summary").click()
    worst = int(attention.weights[3].argmin())
    tab.get_by_role("button", name=re.compile(f"^query 4 to key {worst + 1}:")).click()
    for name in (".lanes .picked .name", ".story th.picked"):
        part = tab.locator(name)
        assert part.text_content() == f"key {worst + 1}"
        part.evaluate(
            "part => part.scrollIntoView({ block: 'center', inline: 'nearest' })"
        ) if not all_keys else None
        box, frame = part.bounding_box(), tab.locator(".story").locator("..").bounding_box()
        assert box["x"] >= frame["x"] - 1
        assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1


def test_what_one_lane_gains_all_others_lose(opened: Any) -> None:
    tab = opened(HtmlPage([meanings()]), width=1280, height=800)
    handle = tab.get_by_role("slider", name="Score of the", exact=True)
    handle.focus()
    for _ in range(6):
        tab.keyboard.press("PageUp")  # from 0 to 6, as much as river
    scores = np.array([6.0, 6, -6]) / np.sqrt(2)
    expected = 100 * np.exp(scores) / np.exp(scores).sum()
    shares = [float(x[:-2]) for x in tab.locator(".lanes .share").all_text_contents()[:2]]
    np.testing.assert_allclose(shares, expected[:2], atol=0.05)
    tab.get_by_role("button", name="Undo").click()
    assert tab.locator(".lanes .share").first.text_content() == "1.4\u00a0%"


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1366, 768), (390, 844)])
def test_every_first_change_changes_the_headline_in_the_window(opened: Any, width: int, height: int) -> None:
    tab = opened(HtmlPage([meanings()]), width=width, height=height)
    for example in ("River bank, money bank", "A pronoun and its noun", "A set without order", "Four words"):
        tab.get_by_role("radio", name=example).click()
        headline = tab.locator(".sentence")
        before = headline.inner_text()
        tab.get_by_role("button", name="Do it").click()
        assert headline.inner_text() != before, example
        assert headline.evaluate(INSIDE), example


def test_the_first_change_renames_the_word_and_says_what_it_means(opened: Any) -> None:
    tab = opened(HtmlPage(story(["shares"])), width=1280, height=800)
    assert tab.locator(".sentence").inner_text().endswith("so bank is about water")
    tab.get_by_role("button", name="Do it").click()
    said = tab.locator(".sentence").inner_text()
    assert said.startswith("bank attends mostly to money (98.6")
    assert said.endswith("so bank is about money")
    assert "river" not in tab.locator(".lanes").text_content()


def test_another_query_works_its_own_best_key_out(opened: Any) -> None:
    tab = opened(HtmlPage([meanings()]))
    for query, best in (("the", "the"), ("bank", "river")):
        tab.get_by_role("radio", name=query, exact=True).click()
        assert tab.locator(".lanes .picked .name").text_content() == best
        assert tab.locator("tr.worked").first.inner_text().startswith(f"{best}:")


def test_nothing_scrolls_inside_of_the_page_but_wide_tables_sideways(opened: Any) -> None:
    tab = opened(many(30)[0], width=1280, height=800)
    tab.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    tab.locator(".inputs figure").first.wait_for()
    assert tab.evaluate(SCROLLING) == []


SCROLLING = """() => [...document.querySelectorAll('body *')].filter((part) => {
    const scrolls = ['auto', 'scroll'].includes(getComputedStyle(part).overflowY);
    return scrolls && part.scrollHeight > part.clientHeight + 1;
}).map((part) => part.outerHTML.slice(0, 100))"""


def test_bars_and_choices_are_seen_in_forced_colours(opened: Any) -> None:
    tab = opened(HtmlPage([meanings()]), forced_colors="active")
    style = "part => [getComputedStyle(part).backgroundColor, getComputedStyle(part).borderWidth]"
    accent = tab.locator(".story .bar").first.evaluate(style)[0]
    paper = tab.locator("body").evaluate(style)[0]
    assert accent != paper
    assert tab.locator(".story td.picked").first.evaluate(style)[0] != paper
    chosen, other = (
        tab.locator(f'.picker [aria-checked="{state}"]').first.evaluate(style)[1]
        for state in ("true", "false")
    )
    assert chosen != other


def test_a_decoder_and_what_was_recorded_have_no_scores_to_move(opened: Any) -> None:
    attention = regard.attend(*np.eye(3)[None].repeat(3, 0))
    tab = opened(HtmlPage([reordering(), *page(attention).sections]))
    assert tab.locator(".lanes").count() == 2
    assert tab.locator(".lanes [role=slider]").count() == 0


@pytest.mark.parametrize("n", [12, 13])
def test_more_than_twelve_queries_are_a_list(opened: Any, n: int) -> None:
    tab = opened(page(*np.random.default_rng(n).normal(size=(3, n, 3))))
    assert tab.locator(".picker [role=radio]").count() == (n if n <= 12 else 0)
    assert tab.get_by_role("combobox", name="Query", exact=True).count() == (n > 12)


@pytest.mark.parametrize("normalize", [regard.weights.sigmoid(0.0), regard.weights.relu()])
def test_weights_that_are_no_shares_are_said_without_per_cent(opened: Any, normalize: Any) -> None:
    queries, keys = np.array([[3.0], [0.5]]), np.array([[1.0], [2.0], [0.0]])
    attention = regard.attend(queries, keys, np.eye(3), normalize=normalize)
    assert attention.weights[0].sum() > 1.02
    tab = opened(page(attention))
    for query in (0, 1):  # the second row of the ReLU alone could be shares
        tab.get_by_role("radio", name=f"query {query + 1}").click()
        said = tab.locator(".sentence").inner_text() + tab.locator(".lanes").text_content()
        assert "%" not in said
        assert "share" not in said
        best = attention.weights[query].max()
        assert f"key 2 ({best:.3f}".rstrip("0").rstrip(".") in said
    top, bottom = np.array(tab.evaluate(BANDS)).T
    assert bottom.max() - top.min() <= 36  # however large the weights are


BANDS = r"""() => [...document.querySelectorAll('.lanes .band')].map((band) => {
    const numbers = band.getAttribute('d').split(/[^-\d.]+/).filter(Boolean).map(Number);
    return [numbers[7], numbers[9]];  // where it ends: above, below
})"""


def test_a_row_without_a_largest_weight_is_no_question(opened: Any) -> None:
    tab = opened(HtmlPage([meanings()]))
    tab.get_by_role("radio", name="the", exact=True).click()  # its query is (0, 0): all scores are 0
    tab.get_by_role("button", name="Exercise").click()
    assert tab.locator(".exercise h3").inner_text() == "Exercise: the query bank"


def test_a_wrong_guess_of_an_exercise_gets_a_hint_first(opened: Any) -> None:
    tab = opened(HtmlPage([mechanism(np.eye(2) * 3, np.eye(2), np.eye(2))]))
    tab.get_by_role("button", name="Exercise").click()
    for said in (
        "Not quite. Compute the dot product of query and key for each",
        "Not quite. Most goes to key 1",
    ):
        tab.get_by_role("radio", name="key 2", exact=True).click()
        tab.get_by_role("button", name="Check").click()
        assert tab.locator(".exercise .feedback").last.inner_text().startswith(said)

"""Geometry, several heads with word order, and a trained decoder: their numbers are those of NumPy, in every input."""

from __future__ import annotations

import base64
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard import nn, position
from regard.cli import main
from regard.mask import causal
from regard.scores import additive
from regard.seq2seq.networks.attended import DecoderAttention
from regard.show import HtmlPage, page
from regard.show.page.chapters import story
from regard.show.page.examples import directions, translator, word_order
from regard.show.page.geometry import geometry
from regard.show.page.mechanism import of_decoder
from regard.show.page.multihead import multihead

SEED = 4
DISHES = np.array([[2.5, -1.5], [2, 2], [-1, 2.5], [-2, -1.5]])


def weights_of(rng: np.random.Generator, width: int, heads: int, d: int, e: int, u: int) -> list[np.ndarray]:
    shapes = (width, heads * d), (width, heads * d), (width, heads * e), (heads * e, u)
    return [rng.normal(size=shape) for shape in shapes]


def steps() -> DecoderAttention:
    rng = np.random.default_rng(SEED)
    states, weight, keys, values, vector = (
        rng.normal(size=shape).astype(np.float32) for shape in ((3, 20), (20, 14), (4, 14), (4, 16), (14,))
    )
    return DecoderAttention(
        ("two", "black", "cats", "</s>"),
        ("deux", "chats", "noirs"),
        states,
        weight,
        keys,
        values,
        additive(None, None, vector),
    )


# Input


def test_words_in_a_plane_have_two_features() -> None:
    with pytest.raises(ValueError, match=r"must have two features\. Got shapes \(3, 3\) and \(3,\) instead"):
        geometry(np.ones((3, 3)), [1, 0, 0])
    with pytest.raises(ValueError, match=r"labels must name each word: 1 label for 2"):
        geometry(np.eye(2), [1, 0], word_labels=["a"])
    with pytest.raises(ValueError, match="finite numbers"):
        geometry([[math.nan, 0]], [1, 0])


def test_the_direction_and_the_length_of_a_query() -> None:
    data = geometry(np.eye(2), [-3, 4]).data
    np.testing.assert_allclose(data["query"], [math.degrees(math.atan2(4, -3)), 5])
    assert geometry(np.eye(2), [0, 0]).data["query"] == [0, 0]


def test_heads_that_do_not_fit_are_an_error() -> None:
    words, eye = np.eye(4), np.eye(4)
    with pytest.raises(ValueError, match="positions must be one of"):
        multihead(words, eye, eye, eye, eye, heads=2, positions="learned")
    with pytest.raises(ValueError, match=r"an even size d of each head\. Got 1 instead"):
        multihead(words, eye, eye, eye, eye, heads=4)
    with pytest.raises(ValueError, match="heads"):
        multihead(words, eye, eye, eye, eye, heads=3)
    with pytest.raises(ValueError, match=r"labels must name each value: 1 label for 2"):
        multihead(words, eye, eye, eye, eye, heads=2, values=["a"])


def test_a_page_of_decoder_steps_has_their_exact_numbers() -> None:
    own = steps()
    (section,) = page(own).sections
    assert section.data["query_labels"] == ["deux", "chats", "noirs"]
    assert section.data["packed"]["query_weight"]["shape"] == [20, 14]
    with pytest.raises(ValueError, match="row must be at most 2"):
        of_decoder(own, row=3)


def test_the_translator_of_the_page_has_true_sizes_and_reads_the_noun_before_the_adjective() -> None:
    data = translator().data
    arrays = {
        name: np.frombuffer(base64.b64decode(part["base64"]), part["dtype"]).reshape(part["shape"])
        for name, part in data["packed"].items()
    }
    n, m = len(data["query_labels"]), len(data["key_labels"])
    shapes = {"states": (n, 192), "queries": (n, 128), "keys": (m, 128), "values": (m, 256)}
    assert {name: array.shape for name, array in arrays.items()} == shapes
    assert data["options"]["query_weight"] is None  # the queries are given
    score = additive(None, None, data["options"]["vector"])
    weights = regard.attend(arrays["queries"], arrays["keys"], arrays["values"], score=score).weights
    read = dict(zip(data["query_labels"], weights.argmax(axis=1), strict=True))
    assert [data["key_labels"][read[word]] for word in ("fichier", "s\u00e9lectionn\u00e9")] == [
        "file",
        "selected",
    ]


# In a browser


@pytest.mark.slow
def test_the_geometry_is_the_attention_of_the_query(opened: Any) -> None:
    tab = opened(HtmlPage([directions()]))
    for angle, length in [(25, 1), (-170, 3.5), (90, 0), (33.3, 40)]:
        computed = tab.evaluate("regard.directions", {"query": [angle, length], "words": DISHES.tolist()})
        query = length * np.array([math.cos(math.radians(angle)), math.sin(math.radians(angle))])
        expected = regard.attend(query[None], DISHES, DISHES)
        for part in ("scores", "weights", "context"):
            np.testing.assert_allclose(computed[part], getattr(expected, part)[0], rtol=1e-9, atol=1e-12)
        products = length * np.linalg.norm(DISHES, axis=1) * np.array(computed["cosines"])
        np.testing.assert_allclose(computed["scores"], products, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "d", "e", "width"), [(2, 2, 2, 5), (3, 4, 1, 6), (1, 6, 3, 4)])
def test_the_heads_are_those_of_multi_head_attention(
    opened: Any, heads: int, d: int, e: int, width: int
) -> None:
    rng = np.random.default_rng(SEED)
    words, weights = rng.normal(size=(5, width)), weights_of(rng, width, heads, d, e, 3)
    section = multihead(words, *weights, heads=heads)
    tab = opened(HtmlPage([section]))
    order = rng.permutation(5)
    plain: dict[str, np.ndarray] = {}
    for positions in ("none", "sinusoidal", "rotary"):
        rotate = position.rotary_vjp if positions == "rotary" else None
        for name, own in (("first", words), ("permuted", words[order])):
            added = own + position.sinusoidal(5, width) if positions == "sinusoidal" else own
            expected, _ = nn.multi_head_attention(added, None, *weights, heads=heads, rotate=rotate)
            data = {**section.data, "words": own.tolist(), "positions": positions}
            computed = tab.evaluate("regard.multiHead", data)
            np.testing.assert_allclose(computed["output"], expected, rtol=1e-9, atol=1e-11)
            plain[name] = np.array(computed["output"])
        same = np.allclose(plain["permuted"], plain["first"][order], atol=1e-9)
        assert same == (positions == "none")


@pytest.mark.slow
def test_a_trained_decoder_computes_with_all_its_numbers(opened: Any) -> None:
    own = steps()
    tab = opened(page(own))
    exact = regard.attend(
        own.states.astype(float) @ own.query_weight.astype(float),
        own.keys.astype(float),
        own.values.astype(float),
        score=own.score,
    )
    shown = tab.locator("figure.card", has_text=re.compile("^Scores")).locator("tbody td").all_inner_texts()
    assert shown == [f"{x:.2f}".replace("-", "\u2212") for x in exact.scores.ravel()]
    context = (
        tab.locator("figure.card", has_text=re.compile("^Context")).locator("tbody td").all_inner_texts()
    )
    assert context == [f"{x:.2f}".replace("-", "\u2212") for x in exact.context[:, :6].ravel()]
    assert tab.locator(".story .stack", has_text="\u2026 10 more").count() > 0  # of 16 numbers, 6 are shown
    first = tab.locator(".sentence").inner_text()
    tab.get_by_role("button", name="Do it").click()
    assert tab.locator(".sentence").inner_text() != first
    assert tab.get_by_role("radio", name="chats").get_attribute("aria-checked") == "true"


@pytest.mark.slow
def test_the_page_of_a_student_has_a_trained_translator_and_stays_small(
    opened: Any, tmp_path: Path, accessible: Any
) -> None:
    assert main(["show", "--out", str(tmp_path / "all.html")]) == 0
    assert (tmp_path / "all.html").stat().st_size < 350_000
    tab = opened(HtmlPage([translator()]))
    assert tab.locator(".sentence").inner_text().startswith("fichier attends mostly to file")
    tab.get_by_role("button", name="Do it").click()
    assert "attends mostly to selected" in tab.locator(".sentence").inner_text()
    accessible(tab)


def query_of(tab: Any) -> list[float]:
    handle = tab.get_by_role("slider", name="Query", exact=True)
    angle, length = re.findall(r"[\u2212\d.]+", handle.get_attribute("aria-valuetext"))
    return [float(x.replace("\u2212", "-")) for x in (angle, length)]


@pytest.mark.slow
def test_the_query_is_turned_and_lengthened_with_keys_sliders_and_pointer(opened: Any) -> None:
    tab = opened(HtmlPage([directions()]))
    handle = tab.get_by_role("slider", name="Query", exact=True)
    assert query_of(tab) == [25, 1]
    handle.focus()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "ArrowUp"):
        tab.keyboard.press(key)
    assert query_of(tab) == [30, 1.2]
    tab.get_by_role("slider", name="Direction of the query").fill("-180")
    tab.get_by_role("slider", name="Length of the query").fill("2")
    handle.focus()
    tab.keyboard.press("ArrowRight")  # over the seam
    assert query_of(tab) == [175, 2]
    box, plane = handle.bounding_box(), tab.locator("svg.plane").bounding_box()
    center = plane["x"] + plane["width"] / 2, plane["y"] + plane["height"] / 2
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.mouse.down()
    tab.mouse.move(center[0], center[1] - plane["height"] / 4)
    assert query_of(tab)[0] == 90
    tab.mouse.move(center[0] + 2000, center[1])
    tab.mouse.up()
    assert query_of(tab) == [0, 4]  # no longer than the plane
    tab.get_by_role("button", name="Reset").click()
    assert query_of(tab) == [25, 1]


@pytest.mark.slow
def test_a_finger_turns_the_query_and_scrolls_elsewhere(opened: Any) -> None:
    tab = opened(HtmlPage([directions()]), width=360, height=740, has_touch=True, is_mobile=True)
    handle = tab.locator(".handle")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = tab.context.new_cdp_session(tab)
    for kind, point in (("touchStart", (x, y)), ("touchMove", (x, y - 30)), ("touchMove", (x, y - 60))):
        points = [{"x": point[0], "y": point[1]}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert query_of(tab)[0] > 45
    assert tab.locator("svg.plane").evaluate("svg => getComputedStyle(svg).touchAction") == "auto"


@pytest.mark.slow
def test_the_context_is_drawn_inside_the_outline_of_the_values(opened: Any) -> None:
    tab = opened(HtmlPage([directions()]))
    inside = """() => {
        const outline = document.querySelector(".hull");
        const point = document.querySelector("svg.plane").createSVGPoint();
        const context = document.querySelector(".context");
        [point.x, point.y] = ["cx", "cy"].map((name) => Number(context.getAttribute(name)));
        return outline.isPointInFill(point);
    }"""
    for angle in range(-180, 180, 45):
        tab.get_by_role("slider", name="Direction of the query").fill(str(angle))
        assert tab.evaluate(inside)
    tab.get_by_role("spinbutton", name="soup, sweet").fill("3")
    assert tab.evaluate(inside)


def overlap(box: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two labels lie over each other by more than the space between lines."""
    across = min(box["x"] + box["width"], other["x"] + other["width"]) - max(box["x"], other["x"])
    down = min(box["y"] + box["height"], other["y"] + other["height"]) - max(box["y"], other["y"])
    return across > 1 and down > 0.35 * box["height"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("width", [360, 1280])
def test_any_words_fit_the_plane(opened: Any, accessible: Any, words: int, width: int) -> None:
    points = np.random.default_rng(words).normal(size=(words, 2)) * 30
    points[-1] = 0
    labels = ["w" * 30, *"abcdefghijklmno"][:words]
    tab = opened(HtmlPage([geometry(points, [0, 0], word_labels=labels)]), width=width)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    frame = tab.locator("svg.plane").bounding_box()
    boxes = [text.bounding_box() for text in tab.locator("svg.plane text").all()]
    for number, box in enumerate(boxes):
        assert box["x"] >= frame["x"] - 1
        assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
        assert frame["y"] - 1 <= box["y"] <= frame["y"] + frame["height"]
        over = [other for other in boxes[:number] if overlap(box, other)]
        assert over == [] or words > 8
    if words in (1, 16):
        accessible(tab)


def card(tab: Any, title: str) -> Any:
    """The matrix of this title."""
    return tab.locator("figure.card", has=tab.locator("figcaption", has_text=re.compile(f"^{title}")))


@pytest.mark.slow
def test_the_example_of_the_heads_tells_who_bites_if_positions_are_on(opened: Any) -> None:
    tab = opened(HtmlPage(story(["heads"])), width=1280, height=800)
    status = tab.locator(".sentence").first

    def output() -> list[float]:
        row = card(tab, "Output").first.locator("tbody tr", has_text="bites")
        return [float(x) for x in row.locator("td").all_inner_texts()]

    expected, news = output()
    assert expected == news
    tab.get_by_role("button", name="Nothing").click()
    assert output() == [expected, news]
    assert status.inner_text().startswith("man bites dog: each word keeps its output")
    for kind in ("sinusoidal", "rotary"):
        tab.get_by_role("radio", name=kind).click()
        assert output()[1] > 4 * output()[0]  # man bites dog is news
        assert "the largest change of an output" in status.inner_text()
    for word in ("dog", "dog", "bites"):
        tab.get_by_role("button", name=f"Move {word} one place back").click()
        assert tab.evaluate("document.activeElement.ariaLabel") == f"Move {word} one place back"
    assert status.inner_text() == "dog bites man: the words are in their first order."
    assert output()[0] > 4 * output()[1]
    assert status.bounding_box()["y"] < 800


@pytest.mark.slow
def test_a_causal_mask_hides_what_comes_after_and_counts_the_pairs(opened: Any, accessible: Any) -> None:
    section = word_order()
    tab = opened(HtmlPage(story(["heads"])))
    pairs = tab.locator("output", has_text="pairs in each head")
    assert pairs.inner_text() == "3 words make 9 pairs in each head"
    tab.get_by_role("radio", name="causal").click()
    assert "No word sees what comes after it." in tab.locator(".sentence").first.inner_text()
    assert pairs.inner_text() == "3 words make 6 pairs in each head"
    for head in card(tab, "Head ").all():
        cells = np.array(head.locator("tbody button").all_inner_texts()).reshape(3, 3)
        assert ((cells == "\u2013") == np.triu(np.ones((3, 3), bool), 1)).all()
    tab.get_by_role("slider", name="Words").fill("2000")
    assert pairs.inner_text() == "2,000 words make 2,001,000 pairs in each head"
    tab.get_by_role("radio", name="none").nth(1).click()
    assert pairs.inner_text() == "2,000 words make 4,000,000 pairs in each head"
    heads = section.data["heads"]
    weights = [np.hstack([head[f"{name}_weight"] for head in heads]) for name in ("query", "key", "value")]
    words = np.array(section.data["words"], float)
    exact, _ = nn.multi_head_attention(
        words, None, *weights, np.array(section.data["output_weight"], float), heads=2, mask=causal()
    )
    computed = tab.evaluate("regard.multiHead", {**section.data, "mask": "causal"})
    np.testing.assert_allclose(computed["output"], exact, rtol=1e-9, atol=1e-12)
    tab.get_by_text("The words, and the matrices of the heads").click()
    accessible(tab)


@pytest.mark.slow
def test_changed_numbers_of_a_head_count_at_once(opened: Any) -> None:
    tab = opened(HtmlPage([word_order()]))
    tab.get_by_text("The words, and the matrices of the heads").click()
    tab.get_by_role("spinbutton", name="Query weights, verb, 1").first.fill("0")
    weights = card(tab, "Head 1").get_by_role("button", name=re.compile("^bites to"))
    assert weights.all_inner_texts() == ["0.33"] * 3
    tab.get_by_role("button", name="bites to man: 0.4856").click()
    assert (
        "bites \u2192 man: 2\u00b71 + 0\u00b7(\u22121) = 2" in tab.locator(".head-panel").nth(1).inner_text()
    )


@pytest.mark.slow
def test_a_question_leads_to_the_chapter_that_answers_it(opened: Any) -> None:
    tab = opened(HtmlPage(story()), height=800)
    for link, name in (
        ("directions", "queries"),
        ("Eight or more heads", "heads"),
        ("A trained translator", "real"),
    ):
        tab.get_by_text("What is different in a real model?").click()
        tab.get_by_role("link", name=link).click()
        assert -1 <= tab.locator(f"#{name} h2").bounding_box()["y"] < 800
        tab.get_by_text("What is different in a real model?").click()
    alone = opened(HtmlPage(story(["block"])))
    alone.get_by_text("What is different in a real model?").click()
    assert alone.get_by_role("link", name="directions").count() == 0

"""The mechanism in use: clicks, keys, drags and touches, and numbers that stay those of NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import regard
from regard import scores
from regard.show import HtmlPage, page
from regard.show.page.examples import drawn, reordering
from regard.show.page.mechanism import mechanism

pytestmark = pytest.mark.slow

WORDS = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
LEGACY = np.random.RandomState(42)
WEIGHTS = [LEGACY.randint(3, size=(3, 3)).astype(float) for _ in range(3)]


def written(x: float, digits: int) -> str:
    """A number as the page writes it."""
    if np.isneginf(x):
        return "\u2212\u221e"
    text = f"{x:.{0 if x == 0 else digits}f}"
    if x != 0 and float(text) == 0:
        text = re.sub(r"e([+-])0*", lambda match: "e" + match[1].replace("+", ""), f"{x:.2e}")
    return text.replace("-", "\u2212")


def texts(rows: Any, digits: int | None = None) -> list[list[str]]:
    """The numbers of a table as they are shown: whole ones without a point, if all are whole."""
    array = np.atleast_2d(np.asarray(rows, dtype=float))
    finite = array[np.isfinite(array)]
    own = (0 if np.all(finite == np.rint(finite)) else 4) if digits is None else digits
    return [[written(x, own) for x in row] for row in array]


def table(tab: Any, title: str, number: int = 0) -> list[list[str]]:
    """The numbers of a matrix on the page, by its title."""
    figure = tab.locator("figure.card", has=tab.locator("figcaption", has_text=re.compile(rf"^{title}"))).nth(
        number
    )
    return figure.locator("tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent))"
    )


def row(tab: Any, name: str) -> list[str]:
    """The numbers of the keys in a row of the story."""
    rows = tab.locator(
        "table.story tbody:not([hidden]) tr", has=tab.get_by_role("rowheader", name=name, exact=True)
    )
    return rows.last.locator("td[data-key]").evaluate_all(
        "cells => cells.map((cell) => cell.innerText.trim())"
    )


def agrees(tab: Any, attention: Any, picked: int = 0) -> None:
    """Every number of the page is that of an attention."""
    assert table(tab, "Scores") == texts(attention.scores)
    weights = [
        ["0" if w == 0 else "1" if w == 1 else written(w, 3) for w in line] for line in attention.weights
    ]
    assert table(tab, "Weights of") == weights
    assert table(tab, "Context") == texts(attention.context)
    assert row(tab, "score") == texts(attention.scores[picked])[0]
    assert row(tab, "weight") == texts(attention.weights[picked])[0]


def of_words(words: np.ndarray, weights: list[np.ndarray] = WEIGHTS, **options: Any) -> Any:
    return regard.attend(*(words @ weight for weight in weights), **options)


def number(tab: Any, name: str) -> Any:
    return tab.get_by_role("spinbutton", name=name, exact=True)


@pytest.fixture
def words(opened: Any) -> Any:
    return opened(HtmlPage([drawn(WORDS, 42)]))


def test_it_opens_with_the_numbers_of_the_tutorial(words: Any) -> None:
    agrees(words, of_words(WORDS))
    assert table(words, "Context")[0] == ["0.9852", "1.7417", "0.7565"]  # as the notebook prints them
    assert words.locator(".sentence").inner_text() == (
        "word 1 attends mostly to word 3 (74.9\u00a0%), then to word 1 (23.6\u00a0%)"
    )


@pytest.mark.parametrize("width", [320, 1280])
def test_no_page_is_wider_than_the_window(opened: Any, width: int) -> None:
    labels, title = ["q" * 60, "k" * 60], "t" * 150
    wide = mechanism(
        np.eye(2, 14), np.eye(2, 14), np.eye(2, 40), query_labels=labels, key_labels=labels, title=title
    )
    tab = opened(HtmlPage([drawn(np.eye(8), 42), wide], title=title), width=width)
    assert tab.evaluate("document.documentElement.scrollWidth") == width


def test_arrow_keys_change_a_number_and_move_between_numbers(words: Any) -> None:
    number(words, "Words, word 1, column 1").focus()
    for key in ("ArrowUp", "ArrowUp", "Shift+ArrowUp", "ArrowRight", "ArrowDown", "PageUp"):
        words.keyboard.press(key)
    changed = WORDS.copy()
    changed[0] = [2.2, 0.9, 0]
    agrees(words, of_words(changed))
    assert number(words, "Words, word 1, column 2").input_value() == "0.9"


def test_a_drag_changes_a_number_with_every_movement(words: Any) -> None:
    box = number(words, "Query weights, row 1, column 1").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    words.mouse.move(x, y)
    words.mouse.down()
    for distance, expected in ((30, 2.5), (-90, 0.5), (-150, -0.5)):
        words.mouse.move(x + distance, y)
        changed = [WEIGHTS[0].copy(), *WEIGHTS[1:]]
        changed[0][0, 0] = expected
        agrees(words, of_words(WORDS, changed))
    words.mouse.up()
    words.mouse.move(x + 300, y)
    agrees(words, of_words(WORDS, changed))


def test_a_finger_drags_a_number(opened: Any) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42)]), width=400, has_touch=True, is_mobile=True)
    cell = number(tab, "Words, word 2, column 2")
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = tab.context.new_cdp_session(tab)
    for kind, distance in (
        ("touchStart", 0),
        ("touchMove", 12),
        ("touchMove", 36),
        ("touchMove", 60),
        ("touchEnd", None),
    ):
        points = [] if distance is None else [{"x": x + distance, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    changed = WORDS.copy()
    changed[1, 1] = float(cell.input_value())
    assert changed[1, 1] > 1.4
    agrees(tab, of_words(changed))


def test_a_typed_number_counts_at_once_and_nonsense_does_not(words: Any) -> None:
    cell = number(words, "Value weights, row 3, column 3")
    cell.click()
    words.keyboard.type("-2,5")
    changed = [*WEIGHTS[:2], WEIGHTS[2].copy()]
    changed[2][2, 2] = -2.5
    agrees(words, of_words(WORDS, changed))
    words.keyboard.type("x")
    assert cell.get_attribute("aria-invalid") == "true"
    agrees(words, of_words(WORDS, changed))
    words.keyboard.press("Enter")
    assert cell.input_value() == "\u22122.5"
    assert cell.get_attribute("aria-invalid") is None
    words.keyboard.press("Escape")
    agrees(words, of_words(WORDS))


def test_reset_brings_everything_back(words: Any) -> None:
    number(words, "Words, word 1, column 1").fill("7")
    words.get_by_label("Mask").select_option("causal")
    words.get_by_label("Score", exact=True).select_option("cosine")
    words.get_by_role("button", name="Reset").click()
    agrees(words, of_words(WORDS))
    assert words.get_by_label("Mask").input_value() == "none"


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax", "entmax15", "hard"])
def test_options_are_chosen_by_hand(words: Any, normalize: str) -> None:
    words.get_by_label("Normalization").select_option(normalize)
    for score, own in (("dot", "dot"), ("cosine", "cosine"), ("gaussian", scores.gaussian(0.8))):
        words.get_by_label("Score", exact=True).select_option(score)
        if score == "gaussian":
            number(words, "Width").fill("0.8")
        words.get_by_label("Mask").select_option("window")
        number(words, "Keys before").fill("2")
        number(words, "Keys after").fill("0")
        agrees(words, of_words(WORDS, score=own, normalize=normalize, mask=regard.mask.window(2, 0)))
        words.get_by_label("Mask").select_option("causal")
        agrees(words, of_words(WORDS, score=own, normalize=normalize, mask=regard.mask.causal()))
        words.get_by_label("Mask").select_option("none")


def test_scale_and_softcap(words: Any) -> None:
    number(words, "Scale").fill("0.25")
    agrees(words, of_words(WORDS, scale=0.25))
    words.get_by_label("Softcap").check()
    number(words, "Bound of the logits").fill("1.5")
    agrees(words, of_words(WORDS, scale=0.25, softcap=1.5))
    capped = 1.5 * np.tanh(0.25 * of_words(WORDS).scores[0] / 1.5)
    assert row(words, "capped") == texts(capped)[0]
    words.get_by_role("button", name="Scale back to 1/\u221a3").click()
    agrees(words, of_words(WORDS, softcap=1.5))
    words.get_by_label("Softcap").uncheck()
    agrees(words, of_words(WORDS))


def test_the_perceptron_of_the_additive_score_can_be_changed(words: Any) -> None:
    words.get_by_label("Score", exact=True).select_option("additive")
    weights = [
        np.array([[float(x.replace("\u2212", "-")) for x in line] for line in values])
        for values in (
            words.get_by_role("spinbutton", name=re.compile(name)).evaluate_all(
                "(cells) => { const rows = {}; for (const cell of cells) (rows[cell.ariaLabel.split(',')[1]] ??= [])"
                ".push(cell.value); return Object.values(rows); }"
            )
            for name in ("^From the query", "^From the key", "^Output")
        )
    ]
    weights[2][0, 0] = 1.7
    number(words, "Output, row 1, column 1").fill("1.7")
    score = scores.additive(weights[0], weights[1], weights[2][0])
    agrees(words, of_words(WORDS, score=score))
    queries, keys = WORDS @ WEIGHTS[0], WORDS @ WEIGHTS[1]
    inner = np.tanh(queries[0] @ weights[0] + keys @ weights[1])
    assert [cell.split() for cell in row(words, "tanh")] == texts(inner, 4)


def test_a_query_is_picked_with_a_click_a_key_or_a_cell(words: Any) -> None:
    attention = of_words(WORDS)
    words.get_by_role("radio", name="word 2").click()
    agrees(words, attention, 1)
    words.keyboard.press("ArrowRight")
    agrees(words, attention, 2)
    words.get_by_role("button", name="word 4 to word 1: 0.0900").click()
    agrees(words, attention, 3)
    assert words.locator("table.story thead th.picked").inner_text() == "word 1"
    words.keyboard.press("ArrowUp")
    words.keyboard.press("Enter")
    agrees(words, attention, 2)


def test_the_theme_is_changed_by_hand(words: Any) -> None:
    paint = "['body', '.heat button'].map((name) => getComputedStyle(document.querySelector(name)).backgroundColor)"
    light = words.evaluate(paint)
    button = words.get_by_role("button", name="Dark")
    button.click()
    dark = words.evaluate(paint)
    assert button.get_attribute("aria-pressed") == "true"
    assert not set(light) & set(dark)
    button.click()
    assert words.evaluate(paint) == light


def test_steps_appear_one_after_the_other(words: Any) -> None:
    visible = words.locator("table.story tbody:visible h3")
    titles = ["Score", "Scale", "Mask", "Weights", "Weighted sum"]
    assert [text.split(" ", 1)[-1].split("\n")[-1] for text in visible.all_inner_texts()] == titles
    words.get_by_role("button", name="Step by step").click()
    for count in range(1, 6):
        assert visible.count() == count
        assert words.get_by_role("status").inner_text() == f"step {count} of 5: {titles[count - 1].lower()}"
        if count < 5:
            words.get_by_role("button", name="Next").click()
    words.get_by_role("button", name="Back").click()
    assert visible.count() == 4
    words.get_by_role("button", name="Show all steps").click()
    assert visible.count() == 5


def test_words_become_vectors_that_can_be_changed(words: Any) -> None:
    words.get_by_role("radio", name="Vectors").click()
    agrees(words, of_words(WORDS))
    number(words, "Queries, word 1, column 1").fill("0")
    queries, keys, values = (WORDS @ weight for weight in WEIGHTS)
    queries[0, 0] = 0
    agrees(words, regard.attend(queries, keys, values))
    words.get_by_role("radio", name="Words").click()
    agrees(words, of_words(WORDS))


def test_a_query_that_sees_nothing_gets_zeros(opened: Any) -> None:
    visible = np.array([[False, False], [True, False]])
    tab = opened(page(np.eye(2), np.eye(2), np.eye(2), mask=visible))
    agrees(tab, regard.attend(np.eye(2), np.eye(2), np.eye(2), mask=visible))
    assert "attends to nothing" in tab.locator(".sentence").inner_text()
    tab.get_by_role("radio", name="query 2").click()
    assert tab.locator(".sentence").inner_text() == "query 2 sees only key 1 (100.0\u00a0%)"


def test_a_decoder_goes_on_to_its_next_step(opened: Any) -> None:
    tab = opened(HtmlPage([reordering()]))
    sentences = []
    for _ in range(4):
        sentences.append(tab.locator(".sentence").inner_text().split(" (")[0])
        tab.get_by_role("button", name="Next step").click()
    assert sentences == [
        f"{a} attends mostly to {b}"
        for a, b in (("le", "the"), ("chat", "cat"), ("noir", "black"), ("le", "the"))
    ]


def test_a_change_of_the_first_state_changes_what_follows(opened: Any) -> None:
    tab = opened(HtmlPage([reordering()]))
    for column, value in enumerate(("-0.8", "-0.8", "0.8"), 1):
        number(tab, f"First state, row 1, column {column}").fill(value)
    best = [int(np.argmax([float(x) for x in line])) for line in table(tab, "Weights of")]
    assert best == [2, 1, 0]  # cat, then what follows cat, then what follows black


HOSTILE = [
    "<script>document.title='x'</script>",
    '"><img src=x onerror=1>',
    "$title ${1}",
    "\u05e9\u05dc\u05d5\u05dd",
    "👩‍👩‍👧",
    "e\u0301",
]


def test_labels_are_text(opened: Any) -> None:
    eye = np.eye(len(HOSTILE))
    tab = opened(page(eye, eye, eye, query_labels=HOSTILE, key_labels=HOSTILE, title=HOSTILE[0]))
    assert tab.get_by_role("radio").all_inner_texts() == HOSTILE
    assert tab.locator("table.story thead button").all_inner_texts() == HOSTILE
    assert tab.title() == HOSTILE[0]
    assert tab.locator("img, main script").count() == 0


def test_two_pages_of_one_notebook_do_not_disturb_each_other(browser: Any) -> None:
    frames = [HtmlPage([drawn(WORDS, seed)])._repr_html_() for seed in (42, 7)]
    tab = browser.new_page()
    tab.set_content("".join(frames))
    first, second = (tab.frame_locator("iframe").nth(i) for i in range(2))
    before = second.locator(".sentence").inner_text()
    first.get_by_label("Mask").select_option("causal")
    assert first.locator(".sentence").inner_text() == "word 1 sees only word 1 (100.0\u00a0%)"
    assert second.locator(".sentence").inner_text() == before
    tab.close()


def test_what_was_recorded_is_shown_as_it_is(opened: Any) -> None:
    rng = np.random.default_rng(2)
    attention = regard.attend(*rng.normal(size=(3, 4, 3)), mask=regard.mask.causal())
    tab = opened(page(attention))
    agrees(tab, attention)
    assert row(tab, "logit") == texts(attention.logits[0])[0]
    assert tab.locator(".sentence").inner_text() == "query 1 sees only key 1 (100.0\u00a0%)"
    assert tab.get_by_role("spinbutton").count() == 0


def test_more_numbers_than_can_be_read_become_colours(opened: Any) -> None:
    rng = np.random.default_rng(3)
    arrays = rng.normal(size=(3, 32, 16))
    tab = opened(HtmlPage([mechanism(*arrays)]))
    assert row(tab, "weight") == texts(regard.attend(*arrays).weights[0])[0]


def test_a_pointer_on_a_column_works_its_key_out(words: Any) -> None:
    words.locator("table.story tbody tr", has=words.get_by_role("rowheader", name="score")).locator("td").nth(
        1
    ).hover()
    assert words.locator("table.story thead th.picked").inner_text() == "word 2"
    assert "word 2: 2·0 + 0·2 + 2·1 = 2" in words.locator("tr.worked").all_inner_texts()

"""The mechanism in use: clicks, keys, drags and touches, and numbers that stay those of NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from shown import WEIGHTS, WORDS, agrees, number, of_words, row, table, texts

import regard
from regard import scores
from regard.show import HtmlPage, page
from regard.show.page.examples import directions, drawn, meanings, reordering, translator, word_order
from regard.show.page.mechanism import mechanism

pytestmark = pytest.mark.slow


@pytest.fixture
def words(opened: Any) -> Any:
    return opened(HtmlPage([drawn(WORDS, 42)]))


def test_it_opens_with_the_numbers_of_the_tutorial(words: Any) -> None:
    agrees(words, of_words(WORDS))
    assert table(words, "Context")[0] == ["0.99", "1.74", "0.76"]  # as the notebook prints them
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
    cell = number(words, "Query weights, row 1, column 1")
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
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
    said = words.get_by_text("\u201c-2,5x\u201d does not fit here: \u22122.5 stays.")
    assert said.is_visible()
    assert said.get_attribute("role") == "status"
    words.keyboard.press("Escape")
    agrees(words, of_words(WORDS))


def test_reset_brings_everything_back(words: Any) -> None:
    number(words, "Words, word 1, column 1").fill("7")
    words.get_by_label("Mask", exact=True).select_option("causal")
    words.get_by_label("Score", exact=True).select_option("cosine")
    words.get_by_role("button", name="Reset").click()
    agrees(words, of_words(WORDS))
    assert words.get_by_label("Mask", exact=True).input_value() == "none"


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax", "entmax15", "hard"])
def test_options_are_chosen_by_hand(words: Any, normalize: str) -> None:
    words.get_by_label("Normalization").select_option(normalize)
    for score, own in (("dot", "dot"), ("cosine", "cosine"), ("gaussian", scores.gaussian(0.8))):
        words.get_by_label("Score", exact=True).select_option(score)
        if score == "gaussian":
            number(words, "Width").fill("0.8")
        words.get_by_label("Mask", exact=True).select_option("window")
        number(words, "Keys before").fill("2")
        number(words, "Keys after").fill("0")
        agrees(words, of_words(WORDS, score=own, normalize=normalize, mask=regard.mask.window(2, 0)))
        words.get_by_label("Mask", exact=True).select_option("causal")
        agrees(words, of_words(WORDS, score=own, normalize=normalize, mask=regard.mask.causal()))
        words.get_by_label("Mask", exact=True).select_option("none")


def test_scale_and_softcap(words: Any) -> None:
    number(words, "Scale").fill("0.25")
    agrees(words, of_words(WORDS, scale=0.25))
    words.get_by_label("Softcap").check()
    number(words, "Bound of the logits").fill("1.5")
    agrees(words, of_words(WORDS, scale=0.25, softcap=1.5))
    capped = 1.5 * np.tanh(0.25 * of_words(WORDS).scores[0] / 1.5)
    assert row(words, "logit z") == texts(capped)[0]
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
    assert [cell.split() for cell in row(words, "tanh")] == texts(inner)


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


def test_the_walk_shows_one_step_at_a_time_and_tells_nothing_of_later_ones(words: Any) -> None:
    visible = words.locator("table.story tbody:visible h3")
    titles = ["1 Scores", "2 Weights", "3 Context"]
    assert [" ".join(text.split()) for text in visible.all_inner_texts()] == titles
    words.get_by_role("button", name="Step by step").click()
    for step, title in enumerate(titles, 1):
        assert [" ".join(text.split()) for text in visible.all_inner_texts()] == [title]
        assert words.get_by_role("status").inner_text() == f"step {step} of 3: {title[2:]}"
        assert words.locator("figure.card:visible figcaption", has_text="of all queries").count() == min(
            step, 2
        )
        told = "word 3" in words.locator(".sentence").inner_text()
        assert told == (step >= 2)
        assert words.locator(".lanes .share").all_text_contents()[2] == ("?" if step == 1 else "74.9\u00a0%")
        if step < 3:
            words.get_by_role("button", name="Next").click()
    words.get_by_role("button", name="Back").click()
    words.get_by_role("button", name="Show all steps").click()
    assert visible.count() == 3


BOX = """element => {
    const { top, bottom } = element.getBoundingClientRect();
    return [top, bottom, innerHeight];
}"""


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1440, 700), (900, 800), (390, 844)])
def test_the_step_at_work_and_its_button_are_in_the_window(opened: Any, width: int, height: int) -> None:
    tab = opened(HtmlPage([meanings(), reordering(), translator()]), width=width, height=height)
    for section in (0, 1, 2):
        tab.get_by_role("button", name="Step by step").nth(0).click()
        own = tab.locator("section").nth(section)
        for step in (1, 2, 3):
            for part in (own.locator(".story tbody:visible h3").first, own.locator(".stepper .primary")):
                top, bottom, window = part.evaluate(BOX)
                assert top >= 0
                assert bottom <= window + 1, (section, step)
            own.locator(".stepper .primary").click() if step < 3 else None
        own.get_by_role("button", name="Show all steps").click()
        own.locator(".start .primary").first.evaluate("button => button.hidden = true")


COVERED = """() => {
    const names = "figure.card, .lanes, .story, .intro, .plane-view > div, .controls, .sentence, .head-panel, h2";
    const seen = [...document.querySelectorAll(names)].filter((part) => part.checkVisibility());
    const faults = [];
    for (let y = 0; y + innerHeight <= document.documentElement.scrollHeight + 97; y += 97) {
        scrollTo(0, y);
        const boxes = seen.map((part) => [part, part.getBoundingClientRect()]).filter(([, box]) => box.height);
        for (const [a, p] of boxes) for (const [b, q] of boxes) {
            if (a === b || a.contains(b) || b.contains(a)) continue;
            const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
            const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
            if (across > 1 && down > 1) faults.push([y, a.className, b.className]);
        }
    }
    return faults;
}"""


@pytest.mark.parametrize(
    ("width", "height"), [(1280, 800), (1440, 900), (1920, 1080), (901, 600), (390, 844)]
)
@pytest.mark.parametrize("count", [4, 8])
def test_no_part_lies_over_another_at_any_scroll_position(
    opened: Any, width: int, height: int, count: int
) -> None:
    sections = [drawn(np.eye(count), 42), directions(), word_order(), reordering(), translator()]
    tab = opened(HtmlPage(sections), width=width, height=height)
    assert tab.evaluate(COVERED) == []


def test_the_column_of_sums_is_in_view_with_many_words(opened: Any) -> None:
    tab = opened(HtmlPage([drawn(np.eye(9), 42)]), width=1280, height=800)
    for part in tab.locator(".story td.sum:visible").all():
        box = part.bounding_box()
        assert box["x"] + box["width"] <= 1280


def test_a_term_explains_itself_on_hover_focus_and_tap(opened: Any) -> None:
    tab = opened(HtmlPage([meanings()]), width=400, has_touch=True)
    term, tip = tab.locator("button.term", has_text="softmax").first, tab.get_by_role("tooltip")
    term.tap()
    assert "positive shares that sum to 1" in tip.inner_text()
    tab.keyboard.press("Escape")
    assert not tip.is_visible()
    term.hover()
    assert tip.is_visible()
    tab.mouse.move(0, 0)
    term.blur()
    term.focus()
    assert term.get_attribute("aria-describedby") == tip.get_attribute("id")


def test_an_example_answers_what_its_text_says(opened: Any) -> None:
    tab = opened(HtmlPage([meanings()]))
    sentence = tab.locator(".sentence")
    assert sentence.inner_text().startswith("bank attends mostly to river (98.6")
    tab.get_by_role("button", name="Do it").click()
    assert row(tab, "weight × value")[1].split() == ["0", "1.97"]  # the topic is money
    tab.get_by_role("radio", name="A pronoun and its noun").click()
    assert sentence.inner_text().startswith("it attends mostly to animal")
    tab.get_by_role("button", name="Do it").click()
    assert sentence.inner_text().startswith("it attends mostly to street")
    tab.get_by_role("radio", name="A set without order").click()
    before = table(tab, "Context")
    tab.get_by_role("button", name="Do it").click()
    assert table(tab, "Context") == [before[i] for i in (3, 1, 0, 2)]


def test_a_scale_is_found_with_a_slider(words: Any) -> None:
    slider = words.get_by_role("slider", name="Scale, from")
    slider.fill("1")  # the scale 10
    agrees(words, of_words(WORDS, scale=10.0))
    slider.fill("-2")
    agrees(words, of_words(WORDS, scale=0.01))


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        ([5.0, 0, 0, 0], "attends mostly to key 1"),
        ([0.3, 0, 0.1, 0], "attends to several, most to key 1"),
        ([1.0, 1, 0, 0], "attends about equally to key 1"),
        ([3.0, 2.999, 0, 0], "attends about equally to key 1"),
        ([9.0, 0, 0, 0], "attends to key 1"),
        ([1.0, 1, 1, 1], "attends to all alike"),
    ],
)
def test_words_follow_the_size_and_the_margin_of_a_weight(
    opened: Any, logits: list[float], said: str
) -> None:
    tab = opened(page(np.ones((1, 1)), np.array(logits)[:, None], np.eye(4), scale=1.0))
    assert said in tab.locator(".sentence").inner_text()


INKS = """() => {
    const parts = [...document.querySelectorAll(".heat button, .story .bar, .story td.picked")];
    return parts.map((part) => [getComputedStyle(part).backgroundColor, getComputedStyle(part).printColorAdjust]);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_printed_page_has_its_colours_on_white_and_no_controls(opened: Any, theme: str) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42)]), theme=theme)
    tab.emulate_media(media="print", color_scheme=theme)
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert {adjust for _, adjust in tab.evaluate(INKS)} == {"exact"}
    dark = tab.get_by_role("button", name="word 1 to word 3").evaluate(
        "cell => getComputedStyle(cell).backgroundColor"
    )
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (int(part) / 255 for part in re.findall(r"\d+", dark))
    )
    assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) > 4.5  # the largest weight on paper
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for control in (
        "#theme",
        ".controls",
        ".picker",
        ".controls select",
        ".stepper",
        "[data-part=reset]",
        ".primary",
    ):
        assert not tab.locator(control).first.is_visible(), control


def test_numbers_on_paper_are_as_large_as_their_labels(opened: Any) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42), word_order()]))
    tab.emulate_media(media="print")
    sizes = """() => [...document.querySelectorAll('table')].filter((part) => part.checkVisibility()).map((table) =>
        ['th', 'td:not(.corner)'].map((name) => [...table.querySelectorAll(name)]
            .map((cell) => cell.querySelector('input') ?? cell).filter((part) => part.value ?? part.textContent)
            .map((part) => parseFloat(getComputedStyle(part).fontSize))))"""
    shown = tab.evaluate(sizes)
    assert sum(bool(labels and numbers) for labels, numbers in shown) > 5
    for labels, numbers in shown:
        assert max(labels, default=0) <= min(numbers, default=99) + 1e-6
    assert not tab.locator("[data-part=options]").first.is_visible()  # a heading without its controls


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
        tab.get_by_role("button", name="Next word").click()
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
    first.get_by_label("Mask", exact=True).select_option("causal")
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
    tab.get_by_role("button", name="Show all 32 keys").click()
    assert row(tab, "weight") == texts(regard.attend(*arrays).weights[0])[0]
    tab.get_by_role("button", name="Four digits").click()
    assert row(tab, "weight") == texts(regard.attend(*arrays).weights[0], 4)[0]


def test_a_pointer_on_a_column_works_its_key_out(words: Any) -> None:
    words.locator("table.story tbody tr", has=words.get_by_role("rowheader", name="score")).locator("td").nth(
        1
    ).hover()
    assert words.locator("table.story thead th.picked").inner_text() == "word 2"
    assert "word 2: 2·0 + 0·2 + 2·1 = 2" in words.locator("tr.worked").all_inner_texts()


@pytest.mark.parametrize("n", [33, 200])
def test_up_to_200_words_have_the_page_of_few(opened: Any, n: int) -> None:
    """A query is picked, numbers are changed, and the weights of all are a picture; all are those of attend."""
    rng = np.random.default_rng(n)
    queries, keys, values = rng.normal(size=(3, n, 4))
    names = [f"w{k}" for k in range(n)]
    tab = opened(page(queries, keys, values, query_labels=names, key_labels=names))
    picker = tab.get_by_role("combobox", name="Query")
    picker.select_option(index=n - 1)
    own = regard.attend(queries, keys, values)
    best = int(own.weights[-1].argmax())
    said = f"{names[-1]} attends .*{names[best]} \\({100 * own.weights[-1, best]:.1f}"
    assert re.match(said, tab.locator(".sentence").inner_text())
    assert row(tab, "weight") == [
        texts(own.weights[-1, [j]], 2)[0][0] for j in sorted({*np.argsort(-own.weights[-1])[:5].tolist()})
    ]
    inputs = tab.locator(".drawer[data-part=inputs]")
    assert tab.get_by_role("spinbutton", name="Queries, w0").count() == 0  # made when they are asked for
    inputs.locator("summary").click()
    number(tab, f"Queries, {names[-1]}, column 1").fill("5")
    queries[-1, 0] = 5
    own = regard.attend(queries, keys, values)
    best = int(own.weights[-1].argmax())
    assert f"{names[best]} ({100 * own.weights[-1, best]:.1f}" in tab.locator(".sentence").inner_text()
    tab.locator(".drawer[data-part=matrices] summary").click()
    tab.locator(".matrix canvas").focus()
    for _ in range(3):
        tab.keyboard.press("ArrowDown")
    assert f"{own.weights[3, 0]:.3f}" in tab.locator(".readout").inner_text()


def test_the_numbers_of_a_vector_have_equal_digits(opened: Any) -> None:
    tab = opened(page(np.array([[1.257, 2.257, 3.257]]), np.eye(3), np.eye(3)))
    assert "(1.26, 2.26, 3.26)" in tab.locator(".story").inner_text()


@pytest.mark.parametrize(
    ("typed", "x"),
    [("1/2", 0.5), ("\u22123 / 4", -0.75), ("1/0", None), ("1/2/3", None), ("", None), ("/2", None)],
)
def test_a_fraction_is_a_number(words: Any, typed: str, x: float | None) -> None:
    cell = number(words, "Words, word 1, column 1")
    cell.fill(typed)
    assert cell.get_attribute("aria-invalid") == ("true" if x is None else None)
    changed = WORDS.copy()
    changed[0, 0] = 1 if x is None else x
    agrees(words, of_words(changed))


def test_a_decoder_says_what_is_read_asked_and_written(opened: Any) -> None:
    tab = opened(HtmlPage([reordering()]))
    told = tab.locator(".told").inner_text()
    assert all(
        part in told for part in ("the black cat", "le, chat, noir", "annotation", "state", "next state")
    )
    assert {"the", "black", "cat"} <= {*tab.locator(".lanes .context text").all_text_contents()}

"""The exercise: what it asks, what it shows after a guess and not before, and that its answers are those of NumPy."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from shown import WORDS, number, of_words

import regard
from regard import scores
from regard.show import HtmlPage, page
from regard.show.page.examples import drawn, meanings

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(11)
QUERIES, KEYS, VALUES = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 2)), RNG.normal(size=(4, 3))
OPTIONS: dict[str, dict[str, Any]] = {
    "scaled": {},
    "causal, capped": {"mask": regard.mask.causal("end"), "softcap": 1.5, "score": "dot"},
    "sparsemax": {"normalize": "sparsemax", "scale": 2.0},
    "additive": {
        "score": scores.additive(RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3)), RNG.normal(size=3))
    },
    "gaussian": {"score": scores.gaussian(0.8), "normalize": "entmax15"},
}


def ask(tab: Any, question: str, **guesses: str) -> None:
    """Bring an exercise onto the page: "row;kind;index", and the guesses made so far."""
    parts = [question, guesses.get("key", ""), guesses.get("weights", ""), guesses.get("number", ""), ""]
    tab.evaluate(
        "(text) => new Promise((done) => { addEventListener('hashchange', () => setTimeout(done), { once: true });"
        " location.hash = regard.written({ exercise: text }); })",
        ";".join(parts),
    )


def written(x: float) -> str:
    """A number as the page shortens it."""
    text = f"{x:.2f}".rstrip("0").rstrip(".")
    return ("0" if text == "-0" else text).replace("-", "\u2212")


def feedback(tab: Any) -> str:
    return str(tab.locator(".feedback").last.inner_text())


def tens(weights: np.ndarray) -> list[int]:
    """Weights in ten per cent, which sum to 100: the largest remainders are rounded up."""
    shares = np.floor(10 * weights).astype(int)
    rest = np.argsort(shares - 10 * weights, kind="stable")[: 10 - shares.sum()]
    shares[rest] += 1
    return [int(10 * share) for share in shares]


@pytest.mark.parametrize("name", OPTIONS)
def test_answers_are_those_of_attend(opened: Any, name: str) -> None:
    """Every query with every kind of number: the true guesses are right, and others are not."""
    own = regard.attend(QUERIES, KEYS, VALUES, **OPTIONS[name])
    tab = opened(page(QUERIES, KEYS, VALUES, **OPTIONS[name]))
    generator = random.Random(7)
    for row, kind in [(row, kind) for row in range(3) for kind in ("score", "weight", "context")]:
        index = generator.randrange(3 if kind == "context" else 4)
        answer = {"score": own.scores, "weight": own.weights, "context": own.context}[kind][row, index]
        best = int(own.weights[row].argmax())
        shares = ",".join(map(str, tens(own.weights[row])))
        ask(tab, f"{row};{kind};{index}", key=str(best))
        assert feedback(tab).startswith("Right."), (row, kind)
        ask(tab, f"{row};{kind};{index}", key=str(best), weights=shares)
        assert feedback(tab).startswith("Right."), (row, kind)
        for off, verdict in ((0.0, "Right."), (0.004, "Right."), (0.7, "Not quite.")):
            guess = repr(float(answer + off))
            ask(tab, f"{row};{kind};{index}", key=str(best), weights=shares, number=guess)
            assert feedback(tab).startswith(verdict), (row, kind, off)
            if np.isfinite(own.logits[row, index if kind != "context" else 0]):
                shown = tab.locator(".answer-shown").inner_text()
                assert written(answer) in shown, (row, kind, shown)
        wrong = int(own.weights[row].argmin())
        if own.weights[row, wrong] < own.weights[row, best] - 0.01:
            ask(tab, f"{row};{kind};{index}", key=str(wrong))
            assert feedback(tab).startswith("Not quite.") or "hidden by the mask" in feedback(tab)


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (scores.cosine(2.5), "query and key, times 2.5, before"),
        (scores.cosine(), "query and key, before"),
        (scores.gaussian(0.8), "in widths of 0.8, before"),
    ],
)
def test_a_score_is_said_with_its_numbers(opened: Any, score: scores.Score, said: str) -> None:
    own = regard.attend(QUERIES, KEYS, VALUES, score=score)
    tab = opened(page(QUERIES, KEYS, VALUES, score=score))
    weights = ",".join(map(str, tens(own.weights[0])))
    ask(tab, "0;score;1", key=str(own.weights[0].argmax()), weights=weights)
    assert said in tab.locator("main").inner_text()


def test_nothing_is_told_before_its_guess(opened: Any) -> None:
    """The visible text has neither the weights, nor the asked number, until they are guessed."""
    tab = opened(HtmlPage([drawn(WORDS, 42)]))
    own = of_words(WORDS)
    for kind, answer in (
        ("score", own.scores[0, 2]),
        ("weight", own.weights[0, 2]),
        ("context", own.context[0, 2]),
    ):
        told = [written(answer), f"{answer:.3f}"] if kind != "score" else [f"= {written(answer)}"]
        for guesses in ({}, {"key": "2"}, {"key": "2", "weights": "20,0,80,0"}):
            ask(tab, f"0;{kind};2", **guesses)
            text = tab.locator("main").inner_text()
            assert not any(x in text for x in told), (kind, guesses)
            if len(guesses) < 2:
                assert "74.9" not in text
                assert "0.749" not in text
        for part in (".sentence", ".lanes", ".story thead [data-key]", ".matrices", ".stepper"):
            assert not tab.locator(f".account > {part}, {part}:not(.exercise *)").first.is_visible(), part


@pytest.mark.parametrize(
    ("kind", "guess", "said"),
    [
        ("score", lambda a: a.scores[0, 2] / np.sqrt(3), "That is the scaled score"),
        ("score", lambda a: -a.scores[0, 2], "The sign is wrong"),
        ("score", lambda a: a.scores[0, 0], "That is the score of word 1"),
        ("weight", lambda a: 100 * a.weights[0, 2], "in per cent"),
        ("weight", lambda a: a.weights[0, 0], "That is the weight of word 1"),
        ("weight", lambda a: np.exp(a.logits[0, 2]), "still to be divided by the sum"),
        ("weight", lambda a: a.logits[0, 2], "That is the logit"),
        ("context", lambda a: (WORDS @ VALUE_WEIGHTS)[:, 2].sum(), "without their weights"),
        ("context", lambda a: (WORDS @ VALUE_WEIGHTS)[:, 2].mean(), "plain mean"),
        ("context", lambda a: a.context[0, 1], "number 2 of the context"),
        ("context", lambda a: 77.0, "You are off by"),
    ],
)
def test_feedback_names_what_was_done_otherwise(opened: Any, kind: str, guess: Any, said: str) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42)]))
    ask(tab, f"0;{kind};2", key="2", weights="20,0,80,0", number=repr(float(guess(of_words(WORDS)))))
    assert said in feedback(tab)


WORD_NAMES = ["un", "deux", "trois", "quatre"]
LEGACY = np.random.RandomState(42)
VALUE_WEIGHTS = [LEGACY.randint(3, size=(3, 3)) for _ in range(3)][2]


def test_the_keyboard_alone_does_an_exercise_and_a_screen_reader_hears_it(
    opened: Any, accessible: Any
) -> None:
    tab = opened(HtmlPage([meanings()]))
    focused = "document.activeElement.textContent || document.activeElement.ariaLabel"
    tab.get_by_role("button", name="Exercise").focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate(focused) == "Exercise: the query bank"
    accessible(tab)
    tab.keyboard.press("Tab")  # End the exercise
    tab.keyboard.press("Tab")
    assert tab.evaluate(focused) == "the"
    tab.keyboard.press("ArrowRight")
    assert tab.get_by_role("radio", name="river", exact=True).get_attribute("aria-checked") == "true"
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    heard = tab.locator(".exercise > [role=status]")
    assert heard.text_content().startswith("Right.")
    assert tab.evaluate("document.activeElement.ariaLabel") == "the"  # the first slider
    accessible(tab)
    for _ in range(2):
        tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    for _ in range(3):
        tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert heard.text_content().startswith("Right.")
    assert tab.evaluate("document.activeElement.ariaLabel") == "Your number"
    tab.keyboard.type("1,97")
    tab.keyboard.press("Enter")
    assert heard.text_content().startswith("Right.")
    accessible(tab)
    tab.get_by_role("button", name="Another question").click()
    assert tab.evaluate(focused) == "Exercise: the query bank"  # other queries have ties


def test_a_lecturer_sets_a_question_and_passes_it_on(opened: Any, tmp_path: Any) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42)]))
    number(tab, "Words, word 1, column 1").fill("2")
    changed = WORDS.copy()
    changed[0, 0] = 2
    tab.get_by_role("button", name="Exercise").click()
    tab.get_by_role("radio", name="word 2").click()
    tab.get_by_role("button", name="Check").click()
    tab.get_by_text("Set the question").click()
    tab.get_by_role("combobox", name="Query").select_option("word 3")
    tab.get_by_role("combobox", name="Compute").select_option("a weight")
    tab.get_by_role("combobox", name="Of", exact=True).select_option("word 2")
    words = tab.get_by_role("textbox", name="Words")
    words.fill("a b c")
    tab.get_by_role("button", name="Rename").click()
    assert "4 words are needed, here are 3" in tab.locator(".settings").inner_text()
    words.fill(" ".join(WORD_NAMES))
    tab.get_by_role("button", name="Rename").click()
    tab.get_by_label("Text above it").fill("Task 1: \u00fcber & <b>bold</b>; 50%")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save a page").click()
    path = tmp_path / "task.html"
    download.value.save_as(path)
    student = tab.context.new_page()
    student.goto(path.as_uri())
    assert student.locator(".exercise h3").inner_text() == "Exercise: the query trois"
    assert student.locator(".exercise .note").inner_text() == "Task 1: \u00fcber & <b>bold</b>; 50%"
    own = of_words(changed)
    student.get_by_role("radio", name=WORD_NAMES[own.weights[2].argmax()]).click()
    student.get_by_role("button", name="Check").click()
    assert feedback(student).startswith("Right.")
    for slider, share in zip(
        student.locator(".exercise [type=range]").all(), tens(own.weights[2]), strict=True
    ):
        slider.fill(str(share))
    student.get_by_role("button", name="Check").click()
    assert "Compute the weight of \u201cdeux\u201d" in student.locator(".question:visible").last.inner_text()
    student.get_by_role("textbox", name="Your number").fill(f"{own.weights[2, 1]:.2f}")
    student.get_by_role("button", name="Check").click()
    assert feedback(student).startswith("Right.")
    student.get_by_role("button", name="End the exercise").click()
    assert student.locator(".sentence").is_visible()


def test_sliders_must_share_out_all_of_the_attention(opened: Any) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42)]))
    ask(tab, "0;weight;0", key="1")
    sliders, check = tab.locator(".exercise [type=range]"), tab.get_by_role("button", name="Check")
    sliders.nth(0).fill("30")
    assert "together 130 %: 30 too much" in tab.locator(".question:visible").last.inner_text()
    assert check.is_disabled()
    sliders.nth(2).fill("60")  # of the best key, which the answer named
    assert "10 left" in tab.locator(".question:visible").last.inner_text()
    sliders.nth(3).fill("10")
    assert check.is_enabled()


def test_undo_takes_back_numbers_and_leaves_the_exercise(opened: Any) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42)]))
    number(tab, "Words, word 1, column 1").fill("2")
    ask(tab, "0;weight;0", key="1")
    number(tab, "Words, word 1, column 1").fill("3")
    tab.get_by_role("button", name="Undo").click()
    assert tab.locator(".exercise").is_visible()
    assert "word 2" in tab.locator(".question").first.inner_text()


@pytest.mark.parametrize("width", [360, 1280])
def test_an_exercise_fits_the_window_and_prints_all_its_questions(opened: Any, width: int) -> None:
    tab = opened(HtmlPage([meanings()]), width=width, height=740)
    for guesses in ({}, {"key": "0"}, {"key": "0", "weights": "100,0,0"}):
        ask(tab, "2;context;1", **guesses)
        tab.locator("summary", has_text="Set the question").click()
        assert tab.evaluate("document.documentElement.scrollWidth") == width
    ask(tab, "2;context;1")
    tab.emulate_media(media="print")
    text = tab.locator(".exercise").inner_text()
    assert re.findall(r"^\d\.", text, flags=re.MULTILINE) == ["1.", "2.", "3."]
    assert not tab.get_by_role("button", name="Check").is_visible()


def test_a_query_that_sees_nothing_has_nothing_to_guess(opened: Any) -> None:
    visible = np.array([[False, False], [True, False]])
    tab = opened(page(np.eye(2), np.eye(2), np.eye(2), mask=visible))
    ask(tab, "0;weight;0")
    assert "nothing to guess" in tab.locator(".exercise").inner_text()

"""What a class needs: the exercise sheet, its solution, and ten questions whose answers are handed in as a link."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.show import HtmlPage
from regard.show.page.chapters import story
from regard.show.steps import LANGUAGES, texts

QUESTIONS = 10


def attended(tab: Any, number_of_set: int, k: int) -> Any:
    """The attention of a problem, from its queries, keys and values on the page."""
    parts = tab.evaluate(
        "([set, k]) => { const { queries, keys, values } = regard.problem(set, k).result;"
        " return [queries, keys, values]; }",
        [number_of_set, k],
    )
    return regard.attend(*map(np.array, parts))


@pytest.fixture
def page(opened: Any) -> Any:
    return opened(HtmlPage(story()), width=1280, height=800)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heads", "sheet", "quiz"])
def test_the_heading_of_an_address_is_below_the_rail_of_a_phone(opened: Any, name: str) -> None:
    tab = opened(HtmlPage(story()), width=390, height=844)
    tab.goto(f"{tab.url}#{name}")
    tab.wait_for_function(
        "name => { const box = (at) => document.querySelector(at).getBoundingClientRect();"
        " const { top } = box(`#${name} h2`);"
        " return scrollY > 0 && box('.rail').bottom <= top && top < innerHeight; }",
        arg=name,
    )


@pytest.mark.slow
def test_every_set_can_be_computed_by_hand_and_has_an_answer(page: Any) -> None:
    for number in (0, 1, 2, 17, 500, 999):
        for k in range(3):
            own = attended(page, number, k)
            assert np.isin(own.logits, [0, 1, 2, 3]).all()
            first, second = np.sort(own.weights[0])[::-1][:2]
            assert first > 2 * second


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sheet_has_three_tasks_and_its_solution_is_a_second_sheet(
    opened: Any, tmp_path: Path, language: str
) -> None:
    pdftotext = shutil.which("pdftotext")
    if pdftotext is None:
        pytest.skip("no pdftotext on the path: apt-get install poppler-utils")
    known = texts(language)
    tab = opened(HtmlPage(story(language=language), language=language), width=1280, height=800)
    tab.evaluate("() => { window.printed = 0; window.print = () => { window.printed += 1; }; }")
    for item, sheets in ((known["sheet"]["sheet"], 1), (known["sheet"]["both"], 2)):
        tab.get_by_role("button", name=known["page"]["print"]).first.click()
        tab.get_by_role("menuitem", name=item, exact=True).click()
        for paper in ("A4", "Letter"):
            tab.pdf(path=tmp_path / "sheet.pdf", format=paper)
            done = subprocess.run(
                [pdftotext, "-layout", tmp_path / "sheet.pdf", "-"], capture_output=True, text=True
            )
            printed = done.stdout.strip("\f\n").split("\f")
            assert len(printed) == sheets, paper
            for sheet in printed:
                assert re.findall(r"^ *(\d)\. ", sheet, flags=re.MULTILINE) == ["1", "2", "3"]
    assert tab.evaluate("window.printed") == 2
    own = attended(tab, 1, 0)
    solved = printed[1]
    for numbers in (own.scores[0], own.weights[0], own.context[0]):
        for x in numbers:
            text = f"{x:.0f}" if x == int(x) else f"{x:.2f}".rstrip("0")
            assert text.replace(".", known["numbers"]["marks"]["."]) in solved
    assert language == "en" or not re.search(r"\d[.]\d", "".join(printed))
    assert known["sheet"]["words"][0][int(own.weights.argmax())] in solved.split("2. ")[0]


def answers(tab: Any, number_of_set: int, *, off: float = 0.0, digits: int = 2) -> list[str]:
    """The answers to all questions as NumPy has them, of numbers with an error."""
    asked = tab.evaluate("regard.quiz")
    given = []
    for question in asked:
        if question["kind"] == "order":
            given.append("1" if off else "0")
            continue
        own = attended(tab, number_of_set, question["problem"])
        best = int(own.weights[0].argmax())
        table = {"score": own.scores, "weight": own.weights, "context": own.context}
        if question["kind"] == "key":
            given.append(str((best + (off > 0)) % 3))
        else:
            given.append(f"{table[question['kind']][0, question['index']] + off:.{digits}f}")
    return given


def hand_in(tab: Any, given: list[str], name: str) -> Any:
    """Answer as a student does, copy the link, and open it as the teacher does."""
    for question, answer, kind in zip(
        tab.locator(".quiz .question").all(), given, tab.evaluate("regard.quiz"), strict=True
    ):
        if kind["kind"] in ("key", "order"):
            question.get_by_role("radio").nth(int(answer)).click()
        else:
            question.get_by_role("textbox").fill(answer)
    tab.get_by_role("textbox", name="Your name").fill(name)
    tab.get_by_role("button", name="Copy the link to hand in").click()
    tab.evaluate("document.body.append(Object.assign(document.createElement('textarea'), { id: 'pasted' }))")
    tab.locator("#pasted").focus()
    tab.keyboard.press("Control+v")
    teacher = tab.context.new_page()
    teacher.goto(tab.locator("#pasted").input_value())
    return teacher


@pytest.mark.slow
def test_ten_answers_are_handed_in_as_a_link_that_shows_them_with_marks(page: Any) -> None:
    page.get_by_role("button", name="Print").first.click()
    page.get_by_role("menuitem", name="Ten questions for a class").click()
    page.wait_for_url(re.compile("#quiz"))
    assert page.locator(".quiz .question").count() == QUESTIONS
    assert not page.locator("#why").is_visible()
    page.get_by_role("button", name="Other numbers").click()
    right = answers(page, 2)
    teacher = hand_in(page, right, "Zo\u00eb & <b>")
    assert teacher.locator(".quiz .sentence").inner_text() == "Zo\u00eb & <b>: 10 of 10 are right"
    assert teacher.locator(".quiz .feedback.right").count() == QUESTIONS
    assert teacher.locator(".quiz").get_by_role("textbox").count() == 0
    for answer in right:
        assert answer in teacher.locator(".quiz").inner_text()


@pytest.mark.slow
def test_wrong_answers_are_marked_and_a_known_mistake_is_named(page: Any) -> None:
    page.goto(page.url + "#quiz")
    page.reload()
    wrong = answers(page, 1, off=0.3)
    own = attended(page, 1, 0)
    wrong[3] = f"{100 * own.weights[0, 0]:.2f}"
    wrong[4] = ""
    teacher = hand_in(page, wrong, "A")
    assert teacher.locator(".quiz .sentence").inner_text() == "A: 0 of 10 are right"
    assert "per cent" in teacher.locator(".quiz .question + .feedback, .quiz .feedback").nth(3).inner_text()
    assert (
        f"{own.context[0, 0]:.2f}".rstrip("0").rstrip(".")
        in teacher.locator(".quiz .feedback").nth(4).inner_text()
    )


@pytest.mark.slow
def test_numbers_rounded_to_two_digits_on_the_way_are_right(page: Any) -> None:
    """Exponentials and shares as they are written by hand."""
    for number in range(20):
        for k in range(3):
            own = attended(page, number, k)
            powers = np.round(np.exp(own.logits[0]), 2)
            shares = np.round(powers / powers.sum(), 2)
            values = np.array(
                page.evaluate("([set, k]) => regard.problem(set, k).result.values", [number, k])
            )
            np.testing.assert_allclose(shares @ values, own.context[0], atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sheet", "quiz"])
@pytest.mark.parametrize("width", [390, 1280])
def test_sheet_and_quiz_are_accessible_and_fit(opened: Any, accessible: Any, place: str, width: int) -> None:
    tab = opened(HtmlPage(story()), width=width, theme="dark" if width < 1000 else "light")
    tab.evaluate(f"location.hash = '{place}'")
    tab.locator(f"#{place}").wait_for()
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    accessible(tab)

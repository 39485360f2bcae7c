"""The chapters of the page: each is asked, shown, guessed and addressed in the same way."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.cli import main
from regard.show import HtmlPage
from regard.show.page.chapters import ALONE, CHAPTERS, story
from regard.show.page.parts import PARTS, asset
from regard.show.steps import LANGUAGES, texts

NAMES = [chapter.name for chapter in CHAPTERS]


def shape(value: Any) -> Any:
    """The names of texts, and the values that they fill in; a question is the name of its answer."""
    if isinstance(value, dict):
        return {name: len(part) if name == "questions" else shape(part) for name, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value]
    return sorted(re.findall(r"\{\w+\}", value)) if isinstance(value, str) else value


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_the_texts_of_english(language: str) -> None:
    """The same names, as many answers and questions, and the same values to fill in."""
    assert list(texts(language)["chapters"]) == [chapter.name for chapter in (*CHAPTERS, *ALONE)]
    for name, part in texts("en").items():
        if name not in ("scores", "logit", "normalize", "questions"):
            assert shape(texts(language)[name]) == shape(part), name


def leaves(part: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The strings of a text with where they stand; of answers, which their questions name, the order counts."""
    if isinstance(part, dict | list):
        listed = [*part.values()] if isinstance(part, dict) and path[-1:] == ("questions",) else part
        for name, inner in listed.items() if isinstance(listed, dict) else enumerate(listed):
            yield from leaves(inner, (*path, str(name)))
    elif isinstance(part, str):
        yield path, part


ENGLISH = {  # texts that are English in all languages: of a model of English
    ("letters", "asked"),
}


@pytest.mark.parametrize("language", sorted({*LANGUAGES} - {"en"}))
def test_no_sentence_of_a_language_is_english(language: str) -> None:
    other = dict(leaves(texts(language)))
    for path, text in leaves(texts("en")):
        words = re.findall(r"[a-z]{3,}", re.sub(r"\{\w+\}", "", text))
        if len(words) > 3 and path[-1] != "latex" and ENGLISH.isdisjoint({path, (path[0], path[-1])}):
            assert other[path] != text, path


@pytest.mark.parametrize("language", sorted({*LANGUAGES} - {"en"}))
def test_the_words_that_english_explains_are_explained(language: str) -> None:
    other = dict(leaves(texts(language)))
    for path, text in leaves(texts("en")):
        if path[-1] not in ("latex", "formula", "worked"):
            assert marks(other[path]) == marks(text), path


def marks(text: str) -> set[str]:
    """The entries of the words in brackets."""
    found = re.findall(r"\[([^\]]+)\](?:\(([\w -]+)\))?", text)
    return {(name or word).lower().removesuffix("s") for word, name in found}


def test_no_line_of_french_begins_with_a_mark() -> None:
    for path, text in leaves(texts("fr")):
        if text != dict(leaves(texts("en"))).get(path):
            assert not re.search("« | [;:?!%»]", text), path


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_marked_word_has_an_explanation_or_a_place(language: str) -> None:
    known = texts(language)
    places = {*known["terms"], *NAMES, *(part.name for part in PARTS)}
    for path, text in leaves(known):
        marked = (
            [] if path[-1] in ("latex", "formula") else re.findall(r"\[([^\]]+)\](?:\(([\w -]+)\))?", text)
        )
        for word, name in marked:
            assert {(name or word).lower(), (name or word).lower().removesuffix("s")} & places, (
                path,
                word,
                name,
            )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_of_a_language_is_written(language: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert main(["show", "--language", language, "--slides", "--out", str(path)]) == 0
    page = path.read_text("utf-8")
    assert f'<html lang="{language}">' in page
    assert texts(language)["chapters"]["why"]["title"] in page


def test_lengths_are_those_that_were_measured() -> None:
    results = Path(__file__).parents[3] / "benchmarks" / "results" / "length.json"
    assert json.loads(asset("length.json")) == json.loads(results.read_text("utf-8"))


def test_the_answer_of_the_first_chapter_is_that_of_the_measurement() -> None:
    bleu = {row["tokens"]: row["without"] for row in json.loads(asset("length.json"))["rows"]}
    predict = texts("en")["chapters"]["why"]["predict"]
    assert predict["choices"][predict["right"]] == "About a third as well"
    assert bleu["36-48"] / bleu["6-10"] == pytest.approx(1 / 3, abs=0.05)
    for tokens in ("6-10", "36-48"):
        assert f"{bleu[tokens]:.0f}" in predict["answer"]


def test_one_chapter_alone_is_a_page(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert main(["show", "--section", "heads", "--out", str(path)]) == 0
    (section,) = story(["heads"])
    assert section.title in path.read_text("utf-8")
    assert texts("en")["chapters"]["why"]["title"] not in HtmlPage([section]).text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_has_at_most_120_words_before_one_asks_for_more(name: str, language: str) -> None:
    told = texts(language)["chapters"][name]
    predict = told.get("predict", {"ask": "", "choices": []})
    said = [told["title"], *told["text"], predict["ask"], *predict["choices"], *told.get("questions", {})]
    assert len(" ".join(said).split()) <= 120


ASKED = re.findall(  # of docs/show.md: a question, the chapter that answers it, and its words
    r'^\| ([^|]+\?) \| `([\w-]+)`: "([^"]+)" \|',
    (Path(__file__).parents[3] / "docs" / "show.md").read_text("utf-8"),
    flags=re.MULTILINE,
)


@pytest.fixture
def page(opened: Any) -> Any:
    return opened(HtmlPage(story()), width=1280, height=800)


@pytest.mark.slow
def test_a_question_is_answered_where_it_arises_by_its_own_words(page: Any) -> None:
    assert len(ASKED) == 10
    for question, name, words in ASKED:
        assert words in " ".join(page.locator(f"#{name}").text_content().split()), question


@pytest.mark.slow
def test_the_rail_leads_to_each_chapter_and_says_where_one_is(page: Any) -> None:
    links = page.get_by_role("navigation", name="Chapters").get_by_role("link")
    assert links.count() == len(NAMES)
    for name in reversed(NAMES):
        page.locator(f'.rail a[href="#{name}"]').click()
        page.wait_for_function(
            "name => document.querySelector('.rail [aria-current=true]').hash === `#${name}`", arg=name
        )
        assert page.evaluate("document.activeElement.closest('section').id") == name
        assert page.locator(f"#{name} h2").bounding_box()["y"] < 400
        page.wait_for_url(re.compile(f"#{name}$"))


@pytest.mark.slow
def test_the_first_key_skips_to_the_chapters(page: Any) -> None:
    order = page.evaluate("[...document.querySelectorAll('a, button')].map((part) => part.className)")
    assert order.index("skip") < 10
    page.locator(".skip").focus()
    assert page.locator(".skip").is_visible()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('section').id") == NAMES[0]


@pytest.mark.slow
def test_an_address_has_a_chapter_and_a_state(page: Any) -> None:
    page.locator('.rail a[href="#why"]').click()
    page.get_by_role("slider", name="Length of the sentence").fill("20")
    page.wait_for_url(re.compile("#why&length=20&check="))
    other = page.context.new_page()
    other.goto(page.url)
    assert other.get_by_role("slider", name="Length of the sentence").input_value() == "20"
    other.evaluate("location.hash = 'heads'")  # to go elsewhere changes nothing
    other.wait_for_function("document.activeElement && location.hash.startsWith('#heads')")
    assert other.get_by_role("slider", name="Length of the sentence").input_value() == "20"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, told in texts("en")["chapters"].items() if "predict" in told]
)
def test_a_wrong_guess_gets_a_hint_and_a_second_try(opened: Any, name: str) -> None:
    predict = texts("en")["chapters"][name]["predict"]
    right, wrong = predict["right"], (predict["right"] + 1) % len(predict["choices"])
    tab = opened(HtmlPage(story([name])))
    for first, second, said in (
        (right, None, "Right. " + predict["answer"]),
        (wrong, right, "Right. " + predict["answer"]),
        (wrong, wrong, "It comes out otherwise. " + predict["answer"]),
    ):
        tab.reload()
        buttons, feedback = tab.locator(".prediction button"), tab.locator(".feedback")
        buttons.nth(first).click()
        if second is not None:
            assert feedback.inner_text() == "Not quite. " + predict["hint"]
            assert predict["answer"] not in tab.locator("body").inner_text()
            buttons.nth(second).click()
        assert feedback.inner_text() == said


@pytest.mark.slow
def test_a_printed_chapter_begins_a_sheet_and_can_be_printed_alone(page: Any) -> None:
    page.evaluate(
        "window.print = () => { window.left = document.querySelectorAll('.chapter.left-out').length; }"
    )
    page.get_by_role("button", name="Print").click()
    page.get_by_role("menuitem", name="Only this: Why?").click()
    assert page.evaluate("window.left") == len(NAMES) - 1
    assert page.locator(".chapter.left-out").count() == 0
    page.emulate_media(media="print")
    breaks = page.locator("section.chapter").evaluate_all(
        "all => all.map((x) => getComputedStyle(x).breakBefore)"
    )
    assert breaks[1:] == ["page"] * (len(NAMES) - 1)
    assert not page.locator(".rail").is_visible()
    assert page.locator("input:visible, select:visible").count() == 0
    borders = page.locator(".term").evaluate_all(
        "all => all.map((x) => getComputedStyle(x).borderBottomColor)"
    )
    assert set(borders) == {"rgba(0, 0, 0, 0)"}  # dots are bars on paper


@pytest.mark.slow
def test_slides_show_one_step_and_the_arrow_keys_go_on_and_back(opened: Any) -> None:
    tab = opened(HtmlPage(story(), slides=True), width=1280, height=720)
    shown = "[...document.querySelectorAll('section')].filter((x) => x.offsetHeight).map((x) => x.id)"
    place = tab.locator(".slide-number")
    seen = []
    first, last = (int(x) for x in place.inner_text().split(" / "))
    for number in range(first, last + 1):
        assert place.inner_text() == f"{number} / {last}"
        (name,) = tab.evaluate(shown)
        seen.append(name)
        text = tab.locator(f"#{name}").inner_text()
        fits = tab.evaluate("document.documentElement.scrollHeight <= innerHeight")
        assert fits or tab.locator(f"#{name} > .drawer:visible > div").count()  # a view of its own scrolls
        assert len(text) > 50
        tab.keyboard.press("ArrowRight")
    assert list(dict.fromkeys(seen)) == NAMES
    assert place.inner_text() == f"{last} / {last}"
    for _ in range(2 * last):
        tab.keyboard.press("ArrowLeft")
    assert tab.evaluate(shown) == NAMES[:1]
    tab.locator(f'.rail a[href="#{NAMES[-1]}"]').click()
    assert tab.evaluate(shown) == NAMES[-1:]


@pytest.mark.slow
def test_slides_show_the_three_steps_one_after_the_other_and_answer_the_guess(opened: Any) -> None:
    tab = opened(HtmlPage(story(["shares"]), slides=True), width=1600, height=900)
    lanes, told = tab.locator(".lanes"), []
    for _ in range(6):
        told.append(lanes.text_content() + tab.locator(".chapter-body > .told").inner_text())
        tab.keyboard.press("ArrowRight")
    whole, scores, weights, context, guess, answer = told
    assert "1.97" in whole
    assert "98.6" in whole
    assert "98.6" not in scores
    assert "6" in scores
    assert "98.6" in weights
    assert "1.97" not in weights
    assert "1.97" in context
    predict = texts("en")["chapters"]["shares"]["predict"]
    assert predict["ask"] in guess
    assert predict["answer"] not in guess
    assert predict["answer"] in answer


@pytest.mark.slow
@pytest.mark.parametrize("name", ["why", "shares"])
def test_a_chapter_has_no_more_than_120_words(opened: Any, name: str) -> None:
    tab = opened(HtmlPage(story([name])), width=1280, height=800)
    prose = "[...document.querySelectorAll('.chapter :is(h2, p:not(.hidden-text))')].filter((x) => x.checkVisibility())"
    assert len(tab.evaluate(f"{prose}.map((x) => x.innerText).join(' ').split(/\\s+/)")) <= 120


@pytest.mark.slow
def test_a_table_that_goes_on_has_its_head_on_each_sheet(opened: Any, tmp_path: Path) -> None:
    pdftotext = shutil.which("pdftotext")
    if pdftotext is None:
        pytest.skip("no pdftotext on the path: apt-get install poppler-utils")
    tab = opened(HtmlPage(story(["shares"])))
    tab.locator(".drawer[data-part=steps] summary").click()
    tab.locator(".drawer[data-part=steps] thead th:visible").last.wait_for()
    tab.pdf(path=tmp_path / "page.pdf", format="A5")
    done = subprocess.run([pdftotext, "-layout", tmp_path / "page.pdf", "-"], capture_output=True, text=True)
    sheets = [
        sheet
        for sheet in done.stdout.split("\f")
        if re.search(r"^(key|exp|weight|value|logit) ", sheet, re.M)
    ]
    assert len(sheets) > 1
    for sheet in sheets:
        assert re.search(r"key +the +river +bank", sheet), sheet

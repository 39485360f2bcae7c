"""The last chapter: a translator to the words that it predicts, and a language model that computes in the page."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.show import HtmlPage
from regard.show.page.chapters import story
from regard.show.page.language_model import parameters, predicted
from regard.show.page.mechanism import of_decoder
from regard.show.page.models import letters, translation
from regard.show.page.parts import asset
from regard.show.steps import texts

Array = NDArray[Any]


@pytest.fixture
def model(opened: Any) -> Any:
    return opened(HtmlPage([letters()]), width=1280, height=800)


COMPUTED = """text => {
    const data = JSON.parse(document.getElementById("data").textContent);
    return regard.languageModel(data[0].data).predict(text);
}"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("C", "C"),
        ("Click the ", "Click the "),
        ("Op\u00e9en \U0001f600Z\tfile", "Open file"),
        ("To insert a table,\n" * 6, ("To insert a table,\n" * 6)[-96:]),
        ("x" * 40 + "\u00df" * 9 + "y" * 90, "x" * 6 + "y" * 90),
    ],
)
def test_the_language_model_of_the_page_computes_what_numpy_does(model: Any, text: str, read: str) -> None:
    answer, expected = model.evaluate(COMPUTED, text), predicted(letters().data, text)
    assert "".join(answer["read"]) == expected.read == read
    np.testing.assert_allclose(answer["logits"], expected.logits, atol=1e-9)
    np.testing.assert_allclose(answer["weights"], expected.weights, atol=1e-12)


def written(picture: Path) -> list[str]:
    """The texts of a picture but its title, which may take several lines."""
    shown = re.findall(r"<text[^>]*>([^<]+)</text>", picture.read_text("utf-8"))
    return [unescape(text).replace("\u00a0", " ") for text in shown]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "more"), [("en", []), ("fr", []), ("de", ["--text", "\u00d6ffne <a & b>, then cl"])]
)
def test_the_picture_of_the_command_line_is_the_one_that_the_page_exports(
    opened: Any, tmp_path: Path, language: str, more: list[str]
) -> None:
    command = ["show", "--section", "language-model", "--language", language, *more, "--out"]
    path = tmp_path / "command.svg"
    assert main([*command, str(path)]) == 0
    tab = opened(HtmlPage(story(["language-model"], language, *more[1:]), language=language))
    tab.locator("button.export:visible").first.click()
    with tab.expect_download() as download:
        tab.get_by_role("menuitem", name="SVG").click()
    title, *exported = written(download.value.path())
    shown = written(path)
    assert title == "".join((more or [texts("en")["letters"]["beginning"]])[-1:])
    assert sorted(text for text in shown if text in exported) == sorted(exported)
    left_out = ["\u00d6", "<", "&", ">"] if more else []
    assert [text for text in shown if text not in exported] == [
        "ffne a b, then cl" if more else title.strip(),
        *([texts(language)["letters"]["unknown"].replace("{letters}", " ".join(left_out))] if more else []),
    ]


def test_the_model_is_small_and_says_where_its_text_is_from() -> None:
    assert len(asset("letters.json")) < 120_000
    data = letters().data
    assert sum(array.size for array in parameters(data).values()) == 80_360
    assert "LibreOffice" in data["source"]
    assert "Mozilla Public License 2.0" in data["licence"]
    assert data["made"].startswith("python benchmarks/letters.py --steps")
    assert abs(data["loss"][1] - data["loss"][0]) < 0.02  # 8 bits cost little


def shown_shares(tab: Any, place: str) -> list[float]:
    texts = tab.locator(f"{place} .share .percent").all_inner_texts()
    return [0.0 if "\u2248" in text else float(text.removesuffix("\u00a0%")) for text in texts]


@pytest.mark.slow
def test_a_beginning_is_typed_and_the_model_goes_on(model: Any, accessible: Any) -> None:
    data = letters().data
    field = model.get_by_role("textbox", name="Your beginning")
    field.fill("Opéen the ")
    assert "left out: é" in model.locator("body").inner_text()
    assert "".join(model.locator(".letter").all_inner_texts()) == "Open\u2423the\u2423"
    _, logits, weights = predicted(data, "Open the ")
    for temperature in (1.0, 2.0, 0.5):
        model.get_by_role("slider", name="Temperature").fill(str(temperature))
        shares = np.exp(logits / temperature) / np.exp(logits / temperature).sum()
        best = -np.sort(-shares)[:5]
        np.testing.assert_allclose(shown_shares(model, ".letters-parts")[:5], 100 * best, atol=0.051)
    model.get_by_role("radio", name="L2 H3").click()
    tints = model.locator(".letter").evaluate_all("all => all.map((cell) => cell.ariaLabel)")
    seen = [
        float(text.split(": ")[1].removesuffix("\u00a0%")) if "\u2248" not in text else 0 for text in tints
    ]
    np.testing.assert_allclose(seen, 100 * weights[1, 2, -1], atol=0.051)
    model.locator(".letter").nth(1).focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        model.keyboard.press(key)
    assert model.evaluate("document.activeElement.textContent") == "n"
    assert model.locator(".letter").nth(4).get_attribute("aria-label").endswith(": comes later")
    assert "n attends" in model.locator(".sentence").inner_text()
    model.get_by_role("slider", name="Temperature").fill("0")
    model.get_by_role("button", name="Next letter").click()
    assert field.input_value() == "Opéen the " + data["letters"][int(logits.argmax())]
    accessible(model)
    field.fill("é")
    model.get_by_role("button", name="Next letter").click()
    assert field.input_value() == "é"
    assert model.locator(".letter").count() == 0


@pytest.mark.slow
def test_it_writes_on_and_the_address_keeps_the_text(model: Any) -> None:
    field = model.get_by_role("textbox", name="Your beginning")
    model.get_by_role("slider", name="Temperature").fill("0")
    model.get_by_role("button", name="Write on").click()
    model.wait_for_function(
        "() => document.querySelector('.beginning').value.length === 'Click the '.length + 40"
    )
    model.get_by_role("button", name="Write on").wait_for()
    written = field.input_value()
    kept = "text => decodeURIComponent(location.hash.replaceAll('~', '%')).includes(`text=${text}&`)"
    model.wait_for_function(kept, arg=written)
    other = model.context.new_page()
    other.goto(model.url)
    assert other.get_by_role("textbox", name="Your beginning").input_value() == written


def test_the_recorded_translator_looks_at_the_noun_and_predicts_what_it_writes() -> None:
    """The answer of the chapter's question, and the parts that follow from each other."""
    picture, numbers = (json.loads(asset("translator.json"))[part] for part in ("picture", "numbers"))
    weights = unpacked(picture["weights"])
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
    noun, adjective = picture["target"].index("fichier"), picture["target"].index("sélectionné")
    assert picture["source"][weights[noun].argmax()] == "file"
    assert picture["source"][weights[adjective].argmax()] == "selected"
    predict = texts("en")["chapters"]["real"]["predict"]
    assert predict["answer"].startswith(f"{100 * weights[noun].max():.1f} % of its weight is on file.")
    assert "Ouvrir le" in predict["ask"]
    assert picture["target"][:noun] == ["Ouvrir", "le"]
    for written, step in zip(picture["target"], picture["predicted"], strict=True):
        shares = [share for _, share in step]
        assert step[0][0] == written
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) < 1
    assert (numbers["query_labels"], numbers["key_labels"]) == (picture["target"], picture["source"])
    context = weights @ unpacked(numbers["packed"]["values"])
    (of_context,) = (part for part in picture["vectors"] if part["name"] == "context")
    np.testing.assert_allclose(of_context["first"], context[:, :2], rtol=1e-3, atol=1e-4)


def unpacked(array: dict[str, Any]) -> Array:
    return np.frombuffer(base64.b64decode(array["base64"]), array["dtype"]).reshape(array["shape"])


@pytest.mark.slow
@pytest.mark.parametrize("style", ["conditional", "bahdanau", "luong"])
def test_a_model_of_one_s_own_is_opened_to_the_words_that_it_predicts(opened: Any, style: str) -> None:
    network = {"embedding": 8, "encoder": 4, "decoder": 8, "attention": 5, "style": style}
    own = Seq2Seq(network=network, epochs=30).fit(
        ["one two", "two", "one"] * 4, ["deux un", "deux", "un"] * 4
    )
    (best,) = own.align(["one two"], ["deux un"])
    tab = opened(HtmlPage([translation(own.decoder_steps(best), row=1)]))
    assert tab.locator(".goes-back").inner_text() == "un goes back in. The next step predicts </s>, the end."
    tab.get_by_role("button", name="Next word").click()  # the first again
    assert (
        tab.locator(".goes-back").inner_text() == "deux goes back in: the next step reads it, and writes un."
    )
    looked, listed = (tab.locator(".shares").nth(k) for k in (0, 1))
    assert looked.locator(".label, .term").all_inner_texts() == ["one", "two", "</s>"]
    np.testing.assert_allclose(
        shown_shares(tab, ".step-card >> nth=0 >> .shares"), 100 * best.alignment[0], atol=0.06
    )
    steps = own.alternatives(best)
    assert listed.locator(".label, .term").all_inner_texts()[:4] == [each.token for each in steps[0]][:4]
    assert listed.locator(".chosen .label").inner_text() == "deux"
    assert tab.locator(".strip").count() == 4
    says = {"conditional": "between two steps", "bahdanau": "before the step", "luong": "The new state"}
    assert says[style] in tab.locator(".step-card").first.inner_text()


@pytest.mark.slow
def test_a_head_of_a_transformer_is_shown_with_its_matrices(opened: Any, accessible: Any) -> None:
    network = {"model_size": 16, "heads": 2, "feedforward_size": 16, "encoder_layers": 1, "decoder_layers": 2}
    own = Seq2Seq(family="transformer", network=network, epochs=5)
    own.fit(["one two", "two", "one"] * 4, ["deux un", "deux", "un"] * 4)
    (best,) = own.align(["one two"], ["deux un"])
    steps = own.decoder_steps(best, layer=2, head=2)
    tab = opened(HtmlPage([translation(steps), of_decoder(steps)]))
    assert "One head of one layer" in tab.locator(".step-card").first.inner_text()
    body = tab.locator("body").inner_text()
    assert "q = x WQ" in body.replace("\n", "")
    assert "annotation" not in body
    for title, matrix in (
        ("Queries", steps.queries),
        ("Keys", steps.keys),
        ("Values", steps.values),
        ("Query weights", steps.query_weight),
        ("Key weights", steps.key_weight),
        ("Value weights", steps.value_weight),
    ):
        card = tab.locator("figure.card", has=tab.locator("figcaption", has_text=re.compile(f"^{title} ")))
        assert "\u00d7".join(f"{size}" for size in matrix.shape) in card.inner_text().replace(" ", "")
        cells = [
            float(x.replace("\u2212", "-").replace("\u22480", "0"))
            for x in card.locator("td span").all_inner_texts()
        ]
        np.testing.assert_allclose(
            cells, matrix[: len(cells) // 8 if len(matrix) > 3 else None].ravel(), atol=1e-2
        )
    accessible(tab)


def test_steps_without_predictions_are_an_error() -> None:
    own = Seq2Seq(network={"embedding": 8, "encoder": 4, "decoder": 8, "attention": 5}, epochs=1).fit(
        ["a"], ["b"]
    )
    steps = own.decoder_steps(own.align(["a"], ["b"])[0])
    with pytest.raises(ValueError, match="steps must have readouts and predictions"):
        translation(replace(steps, predicted=()))


@pytest.mark.slow
def test_the_last_chapter_goes_from_word_to_word_in_few_words(opened: Any, accessible: Any) -> None:
    tab = opened(HtmlPage(story(["real"])), width=1280, height=800)
    assert len(" ".join(tab.locator(".told > p").all_inner_texts()).split()) <= 120
    assert tab.locator(".sentence").first.inner_text().startswith("fichier attends mostly to file")
    tab.get_by_role("button", name="Next word").first.click()
    assert (
        tab.locator(".sentence")
        .first.inner_text()
        .startswith("s\u00e9lectionn\u00e9 attends mostly to selected")
    )
    accessible(tab)
    tab.get_by_role("button", name="At file").click()  # what the answer is about is shown
    assert tab.locator(".sentence").first.inner_text().startswith("fichier attends mostly to file")


@pytest.mark.slow
def test_the_language_model_is_a_page_of_its_own_and_answers_the_question(
    opened: Any, tmp_path: Path
) -> None:
    assert main(["show", "--section", "language-model", "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").stat().st_size < 350_000
    assert "language-model" not in [section.data["name"] for section in story()]
    tab = opened(HtmlPage(story(["language-model"])), width=1280, height=800)
    assert len(" ".join(tab.locator(".told > p").all_inner_texts()).split()) <= 120
    tab.get_by_role("button", name="A blank").click()
    logits = predicted(letters().data, texts("en")["letters"]["asked"]).logits
    shares = np.exp(logits / 0.5) / np.exp(logits / 0.5).sum()
    assert letters().data["letters"][shares.argmax()] == " "
    assert f"a blank {100 * shares.max():.0f} % at temperature 0.5" in tab.locator(".feedback").inner_text()
    assert shown_shares(tab, ".letters-parts")[0] == pytest.approx(100 * shares.max(), abs=0.051)

"""The chapters of the page as pictures: their numbers are those of attend, and their text is text in each language."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_words import english_words, words

import regard
from regard.cli import main
from regard.show.page import page
from regard.show.page.chapters import ALONE, CHAPTERS, story
from regard.show.page.examples import WORDS as FOUR
from regard.show.page.examples import drawn as drawn_words
from regard.show.page.mechanism import of_decoder
from regard.show.steps import LANGUAGES, texts

pytest.importorskip("matplotlib")

from matplotlib.patches import Rectangle

from regard.show.figures._sections import PICTURES, drawn

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def parts(name: str, language: str = "en") -> list[Any]:
    """The picture of a chapter and those of its drawers."""
    ((chapter),) = story([name], language)
    return list(chapter.parts)


def words_of(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(match=lambda part: hasattr(part, "get_text"))]


def lengths(ax: Any) -> list[float]:
    return [bar.get_width() for bar in ax.patches if isinstance(bar, Rectangle)]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [chapter.name for chapter in (*CHAPTERS, *ALONE)])
def test_each_picture_of_a_chapter_is_written_as_svg_with_text(
    name: str, language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--section", name, "--language", language, "--out", "x.svg"]) == 0
    paths = capsys.readouterr().out.split()
    assert paths == ["x.svg", *(f"x-{k}.svg" for k in range(2, len(parts(name)) + 1))]
    known = texts(language)
    expected = {
        "why": [
            {
                *known["why"]["curves"].values(),
                known["why"]["axis"],
                known["why"]["vector"],
                *known["why"]["sentence"].split()[:8],
            }
        ],
        "shares": [
            {
                *known["examples"]["bank"]["words"],
                *known["examples"]["bank"]["topics"],
                known["lanes"]["share"],
            }
        ],
        "queries": [{known["learning"]["axis"]}, {*known["examples"]["geometry"]["features"]}],
        "heads": [{*known["examples"]["heads"]["words"], *known["examples"]["heads"]["heads"]}],
        "block": [
            {*known["block"]["strips"].values(), *known["block"]["boxes"].values(), known["block"]["next"]},
            {*known["examples"]["decoder"]["source"], known["lanes"]["score"]},
        ],
        "real": [
            {"fichier", known["translation"]["looks"], known["translation"]["predicts"]},
            {"Open", "selected"},
        ],
        "language-model": [
            {
                "Click the",
                "\u2423 10",
                f"{known['letters']['head']} {known['letters']['place'].format(layer=2, i=3)}",
                known["letters"]["comes"],
            }
        ],
    }[name]
    for path, those in zip(paths, expected, strict=True):
        seen = re.findall(r"<text[^>]*>([^<]*)</text>", Path(path).read_text("utf-8"))
        assert those <= {unescape(text) for text in seen}


def test_lengths_are_the_measured_ones() -> None:
    (section,) = parts("why")
    with_attention, without = (line.get_ydata() for line in drawn(section).axes[1].lines)
    np.testing.assert_array_equal(with_attention, [row["attention"] for row in section.data["rows"]])
    np.testing.assert_array_equal(without, [row["without"] for row in section.data["rows"]])


def test_lanes_of_a_chapter_are_those_of_its_words() -> None:
    words = np.array([[0, 0, 0], [2, 0, 0], [1, 1, 2]], float)
    query, key, value = (
        words @ np.array(w)
        for w in ([[0, 0], [0, 0], [1.5, 1.5]], [[1, 0], [0, 1], [-1, -1]], [[1, 0], [0, 1], [0, 0]])
    )
    power = np.exp(query[2] @ key.T / np.sqrt(2))
    (section,) = parts("shares")
    bars = np.array(lengths(drawn(section)))
    np.testing.assert_allclose(bars[:3] / bars[:3].sum(), power / power.sum(), rtol=1e-12)
    context = power / power.sum() @ value
    np.testing.assert_allclose(bars[3:] / bars[3], context / context[0], rtol=1e-9)


def test_the_first_step_of_the_decoder_made_by_hand() -> None:
    """Each unit of the perceptron belongs to a word, and its state is high at the first."""
    eye, state = np.eye(3), np.array([0.8, -0.8, -0.8])
    score = 2.5 * np.tanh(-1.5 * state + 2 * eye).sum(axis=1)
    bars = np.array(lengths(drawn(parts("block")[1])))[:3]
    np.testing.assert_allclose(bars / bars[0], np.exp(score - score[0]), rtol=1e-12)


def test_without_positions_both_heads_of_a_verb_are_undecided_and_with_them_not() -> None:
    (section,) = parts("heads")
    images = [ax.images[0].get_array() for ax in drawn(section).axes if ax.images][:4]
    none, rotary = np.array(images[:2]), np.array(images[2:])
    assert none[0, 1, 0] == pytest.approx(none[0, 1, 2])
    assert none[1, 1, 0] == pytest.approx(none[1, 1, 2])
    assert rotary[0, 1].argmax() == 0  # dog, who bites
    assert rotary[1, 1].argmax() == 2  # man, who is bitten
    np.testing.assert_allclose(none.sum(axis=-1), 1)


def test_the_plane_has_the_share_of_each_dish() -> None:
    section = parts("queries")[1]
    words, angle = np.array(section.data["words"]), np.radians(25)
    power = np.exp(words @ [np.cos(angle), np.sin(angle)] / np.sqrt(2))
    said = words_of(drawn(section).figure)
    for label, share in zip(section.data["labels"], power / power.sum(), strict=True):
        assert f"{label} {100 * share:.1f} %" in said


@pytest.fixture(scope="module")
def model() -> regard.seq2seq.Seq2Seq:
    return regard.seq2seq.Seq2Seq(epochs=30).fit(["a b", "b"] * 4, ["b a", "b"] * 4)


def test_a_step_of_a_decoder_of_one_s_own(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model.save("m.safetensors")
    command = ["show", "m.safetensors", "--text", "a b"]
    assert main([*command, "--token", "2", "--out", "step.svg"]) == 0
    assert capsys.readouterr().out == "step.svg\n"
    seen = [
        unescape(text)
        for text in re.findall(r"<text[^>]*>([^<]*)</text>", Path("step.svg").read_text("utf-8"))
    ]
    (best,) = model.translate(["a b"])
    steps = model.decoder_steps(best)
    for token, share in zip(best.source, steps.attend().weights[1], strict=True):
        assert seen[seen.index(token) + 1] == f"{100 * share:.1f} %"
    for token, share in steps.predicted[1]:
        assert f"{100 * share:.1f} %" in seen[seen.index(token, seen.index("It predicts")) :]
    assert main([*command, "--importance", "--out", "step.svg"]) == 2
    assert "--importance makes a page" in capsys.readouterr().err


def test_a_translation_of_one_s_own_is_a_heat_map(model: Any) -> None:
    model.save("m.safetensors")
    assert main(["show", "m.safetensors", "--text", "a b", "--out", "weights.svg"]) == 0
    (best,) = model.translate(["a b"])
    seen = re.findall(r"<text[^>]*>([^<]*)</text>", Path("weights.svg").read_text("utf-8"))
    assert {*best.tokens, *best.source, best.text} <= {unescape(text) for text in seen}
    ax = drawn(page(best).sections[0])
    np.testing.assert_allclose(ax.images[0].get_array(), best.alignment, rtol=1e-6)


def test_a_decoder_s_lanes_are_its_weights(model: Any) -> None:
    (best,) = model.translate(["a b"])
    steps = model.decoder_steps(best)
    section = of_decoder(steps, row=1, with_weight=False)
    bars = np.array(lengths(drawn(section)))[: len(steps.keys)]
    np.testing.assert_allclose(bars / bars.sum(), steps.attend().weights[1], rtol=1e-5)


def test_words_alone_are_drawn_too() -> None:
    section = drawn_words(FOUR, 42)
    bars = np.array(lengths(drawn(section)))[:4]
    arrays = (np.array(section.data[name]) for name in ("queries", "keys", "values"))
    np.testing.assert_allclose(bars / bars.sum(), regard.attend(*arrays).weights[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--section", "language-model", "--text", "\u00df\u00df"],
            "a letter that the language model knows. Got 'ßß' instead; hint",
        ),
        (["--section", "heads", "--text", "a"], "--text and --section exclude each other"),
        (["--section", "language-model", "--text", "a", "m.safetensors"], "FILES and --section exclude"),
        (["--section", "language-model", "--text", "a", "--token", "2"], "--token and --section exclude"),
        (
            ["--section", "language-model", "--text", "a", "--importance"],
            "--importance and --section exclude",
        ),
        (["--section", "why", "--section", "heads"], "give one --section, and no --slides"),
        (["--section", "why", "--slides"], "give one --section, and no --slides"),
        (["--section", "why", "--query", "1"], "--query and --section exclude each other"),
        (["--section", "why", "the cat"], "FILES and --section exclude each other"),
    ],
)
def test_what_has_no_picture_is_refused(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *arguments, "--out", "x.svg"]) == 2
    assert error in capsys.readouterr().err
    assert not Path("x.svg").exists()


def test_every_part_of_the_story_has_a_picture() -> None:
    views = {part.view for chapter in (*CHAPTERS, *ALONE) for part in parts(chapter.name)}
    assert views <= set(PICTURES)


def written_in(command: list[str], language: str) -> list[str]:
    """The texts of the pictures that a command writes in a language."""
    assert main(["show", *command, "--language", language, "--out", f"{language}.svg"]) == 0
    files = [path.read_text("utf-8") for path in Path().glob(f"{language}*.svg")]
    return [unescape(text) for file in files for text in re.findall(r"<text[^>]*>([^<]*)</text>", file)]


COMMANDS = [["--section", chapter.name] for chapter in CHAPTERS]
COMMANDS += [["m.safetensors", "--text", "a b", *more] for more in ([], ["--token", "1"])]
COMMANDS += [["--words", "1 0; 0 1.5", "--query", "1"], ["--weights", "w.npy"], ["--weights", "large.npy"]]


@pytest.mark.parametrize("language", sorted({*LANGUAGES} - {"en"}))
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_picture_has_the_numbers_and_words_of_its_language(
    model: Any, command: list[str], language: str
) -> None:
    model.save("m.safetensors")
    np.save("w.npy", [[0.125, 0.875]])
    np.save("large.npy", np.full((1200, 1200), 1 / 1200))
    english, seen = written_in(command, "en"), written_in(command, language)
    assert [text for text in seen if re.search(r"\d[.]\d|\d %", text)] == []
    assert any(re.search(r"\d[.]\d", text) for text in english) == any(
        re.search(r"\d,\d", text) for text in seen
    )
    foreign = english_words(language)
    assert {text: found for text in seen if (found := words(text) & foreign)} == {}

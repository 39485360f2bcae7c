"""Alignments in a page: the numbers are the weights, tokens stay text, and every hypothesis has its own."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from regard.seq2seq.sources.text.vocabulary import JOIN, SPECIAL, START
from regard.seq2seq.translator import Translation
from regard.show import page
from regard.show.figures.overlay import captioned
from regard.show.page.alignment import aligned, alignment, sentence

HOSTILE = ["<script>alert(1)</script>", '"q"', "it's", "$x", "a & b", "<!--"]
SCRIPTS = ["שלום", "مرحبا", "日本語", "e\u0301a\u0308", "👩‍👩‍👧", "ไทย"]


def weights(n: int, m: int, seed: int = 0) -> np.ndarray:
    """Attention weights that differ from each other in the digits that are shown."""
    logits = np.random.default_rng(seed).normal(0, 2, (n, m))
    share = np.exp(logits)
    return (share / share.sum(axis=1, keepdims=True)).astype(np.float32)


def translation(tokens: list[str], source: list[str], seed: int = 0, score: float = -0.5) -> Translation:
    return Translation(
        " ".join(tokens), tuple(tokens), tuple(source), score, weights(len(tokens), len(source), seed)
    )


def unpacked(array: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(array["base64"]), array["dtype"]).reshape(array["shape"])


def shown(number: float, digits: int = 3) -> str:
    return f"{number:.{digits}f}"


# ------------------------------------------------------------------------------------------------ the description


def test_each_hypothesis_has_its_own_weights() -> None:
    source = ["one", "two", "</s>"]
    several = [translation(["un", "deux"], source, 1), translation(["deux"], source, 2, -0.75)]
    (described,) = alignment(sentence(several)).data["sentences"]
    assert [one["score"] for one in described["hypotheses"]] == [-0.5, -0.75]
    for one, of in zip(described["hypotheses"], several, strict=True):
        np.testing.assert_array_equal(unpacked(one["weights"]), of.alignment)


def test_tokens_lose_the_marks_of_joined_tokens_and_retrieved_targets_are_named() -> None:
    pair = Translation(
        "ab", ("a" + JOIN, "b"), ("x", "</s>"), 0.0, weights(2, 2), retrieved=(SPECIAL[START], "y" + JOIN)
    )
    pair = Translation(**(vars(pair) | {"retrieved_weights": weights(2, 2, 1), "starts": (2,)}))
    described = sentence(pair)
    assert described["source"] == ["x", "</s>", "retrieved:", "y"]
    assert described["hypotheses"][0]["tokens"] == ["a", "b"]
    assert unpacked(described["hypotheses"][0]["weights"]).shape == (2, 4)


def test_a_model_without_attention_has_a_page_without_weights() -> None:
    described = sentence(Translation("le", ("le",), ("the", "</s>"), 0.0, None))
    assert "weights" not in described["hypotheses"][0]


def test_translations_of_one_source_are_hypotheses_and_of_several_sources_sentences() -> None:
    several = [translation(["a"], ["x", "y"]), translation(["b"], ["x", "y"]), translation(["c"], ["z"])]
    (section,) = page(several).sections
    assert [len(one["hypotheses"]) for one in section.data["sentences"]] == [2, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: alignment(), "alignment needs at least one sentence. Got none instead."),
        (lambda: sentence([]), "a sentence needs at least one hypothesis. Got none instead."),
        (
            lambda: sentence([translation(["a"], ["x"]), translation(["a"], ["y"])]),
            "hypotheses must share a source. Got several instead.",
        ),
        (lambda: aligned(weights(2, 2), ["a"], ["b", "c"]), "labels must name each row: 1 label for 2"),
        (lambda: aligned(weights(1, 2), ["a"], ["b"]), "labels must name each column: 1 label for 2"),
        (lambda: aligned([1.0], ["a"], ["b"]), r"weights must be \(n, m\). Got shape \(1,\) instead."),
        (
            lambda: aligned(weights(1, 2), ["a"], ["b", "c"], links=[(2, 0)]),
            "links must be between 2 and 1 tokens, from 0. Got 2-0 instead.",
        ),
        (
            lambda: sentence(translation(["a"], ["x"]), links=[(0, -1)]),
            "links must be between 1 and 1 tokens, from 0. Got 0--1 instead.",
        ),
    ],
)
def test_what_does_not_fit_is_an_error_with_both_numbers(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_numbers_that_are_no_weights_come_with_a_warning() -> None:
    described = aligned([[0.5, 0.25], [-0.5, 1.5]], ["a", "b"], ["x", "y"])
    (negative, unequal) = described["hypotheses"][0]["warnings"]
    assert "1 weight is negative" in negative
    assert "1 of 2 rows sums to neither 0 nor 1" in unequal


@pytest.mark.parametrize("shape", [(5, 7), (640, 1000), (2000, 3), (1, 1)])
def test_a_picture_keeps_its_colours_and_has_no_more_pixels_than_are_seen(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    picture = np.broadcast_to(rng.integers(0, 256, 3, np.uint8), (*shape, 3))
    pair = Translation("a", ("a",), ("1",), 0.0, weights(1, 1), grid=(1, 1))
    pixels = unpacked(sentence(pair, picture=picture)["picture"])
    assert max(pixels.shape) <= 640
    assert (pixels == picture[0, 0]).all()


# ------------------------------------------------------------------------------------------------------ in a browser


@pytest.mark.slow
def test_a_token_shows_its_weights_in_numbers_by_click_hover_and_key(opened: Any) -> None:
    source, target = [*HOSTILE, "</s>"], SCRIPTS
    one = translation(target, source)
    tab = opened(page([one, translation(target[:3], source, 5, -1.25)]))
    rows, columns = tab.locator(".token[data-side=row]"), tab.locator(".token[data-side=column]")
    assert rows.locator(".label").all_text_contents() == target
    assert columns.locator(".label").all_text_contents() == source
    rows.nth(2).click()
    assert columns.locator(".value").all_text_contents() == [shown(w) for w in one.alignment[2]]
    columns.nth(4).hover()
    assert rows.locator(".value").all_text_contents() == [shown(w) for w in one.alignment[:, 4]]
    tab.mouse.move(0, 0)  # what was clicked is kept
    assert columns.locator(".value").all_text_contents() == [shown(w) for w in one.alignment[2]]
    rows.nth(2).click()
    assert set(columns.locator(".value").all_text_contents()) == {""}
    columns.first.focus()
    tab.keyboard.press("ArrowDown")
    assert rows.locator(".value").all_text_contents() == [shown(w) for w in one.alignment[:, 1]]
    tab.keyboard.press("ArrowRight")
    assert columns.locator(".value").all_text_contents() == [shown(w) for w in one.alignment[1]]
    best = one.alignment[1].argmax()
    assert source[best] in tab.locator(".readout").inner_text()
    assert shown(one.alignment[1, best]) in tab.locator(".readout").inner_text()
    tab.locator(".hypothesis").nth(1).click()
    assert tab.locator(".token[data-side=row]").count() == 3
    assert tab.locator("script").count() == 2


@pytest.mark.slow
def test_the_colours_of_the_tokens_are_those_of_the_theme(opened: Any) -> None:
    tab = opened(page([translation(["un", "deux"], ["one", "two", "</s>"])]))
    tab.locator(".token[data-side=row]").first.click()
    colours = "tokens => tokens.map((token) => token.style.background)"
    light = tab.locator(".token[data-side=column]").evaluate_all(colours)
    tab.locator("#theme").click()
    dark = tab.locator(".token[data-side=column]").evaluate_all(colours)
    assert not {*light} & {*dark}
    tab.locator("#theme").click()
    assert tab.locator(".token[data-side=column]").evaluate_all(colours) == light


@pytest.mark.slow
def test_a_cell_of_the_matrix_shows_its_number_under_the_pointer_and_by_the_arrow_keys(opened: Any) -> None:
    example = translation(["un", "deux", "trois"], ["one", "two", "three", "</s>"])
    tab = opened(page([alignment(sentence(example, links=[(1, 2), (3, 0)]))]))
    canvas, line = tab.locator(".matrix canvas"), tab.locator(".readout")
    box = canvas.bounding_box()
    for row, column in ((0, 0), (2, 1), (1, 3)):
        tab.mouse.move(
            box["x"] + box["width"] * (column + 0.5) / 4, box["y"] + box["height"] * (row + 0.5) / 3
        )
        assert shown(example.alignment[row, column]) in line.inner_text()
        assert ("given link" in line.inner_text()) is ((row, column) == (2, 1))
    tab.mouse.move(0, 0)
    tab.keyboard.press("Tab")  # focus that is visible
    canvas.focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    assert line.inner_text().startswith("deux → two " + shown(example.alignment[1, 1]))
    best = example.alignment.argmax(axis=1)
    hits = sum(best[j] == i for i, j in [(1, 2), (3, 0)])
    assert f"{hits} of 2 lead to the token" in tab.locator(".legend").inner_text()


PIXELS = """(step) => {  // every so many rows and columns
    const large = document.querySelector(".large");
    const { data, width, height } = large.getContext("2d").getImageData(0, 0, large.width, large.height);
    const pixels = [];
    for (let y = 0; y < height; y += step) {
        for (let x = 0; x < width; x += step) {
            const at = 4 * (y * width + x);
            pixels.push(...data.subarray(at, at + 3));
        }
    }
    return [width, height, pixels];
}"""


@pytest.mark.slow
@pytest.mark.parametrize("grid", [(2, 3), (4, 4), (1, 1), (5, 1)])
def test_the_smoothed_weights_over_a_picture_are_those_of_the_figure(
    opened: Any, grid: tuple[int, int]
) -> None:
    """The figure interpolates with SciPy's PchipInterpolator, the page with its own curve."""
    rng = np.random.default_rng(1)
    cells = grid[0] * grid[1]
    picture = rng.random((300, 320, 3)).astype(np.float32)
    pair = Translation("a b", ("a", "b"), ("",) * cells, 0.0, weights(2, cells), grid=grid)
    tab = opened(page([alignment(sentence(pair, picture=picture))]))
    assert tab.locator(".panel").first.inner_text() == "the picture"
    tab.locator(".panel").nth(2).click()
    step = 7
    width, height, drawn = tab.evaluate(PIXELS, step)
    pixels = np.array(drawn).reshape(-(-height // step), -(-width // step), 3)
    figure = captioned(picture, pair.alignment, pair.tokens, grid=grid)
    image = np.asarray(figure.axes[2].images[0].get_array())
    at = [
        np.arange(0, size, step) * own // size
        for size, own in ((height, image.shape[0]), (width, image.shape[1]))
    ]
    difference = np.abs(pixels - image[np.ix_(*at)])
    assert difference.mean() < 2  # of 255: pixels are placed a little differently


def described(name: str, text: str, picture: np.ndarray) -> dict[str, Any]:
    tokens = tuple(text.split())
    pair = Translation(text, tokens, ("",) * 4, -0.5, weights(len(tokens), 4), grid=(2, 2))
    return sentence(pair, picture=picture, name=name)


@pytest.mark.slow
def test_captions_have_the_names_of_their_files_and_the_untouched_picture_first(opened: Any) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, 480, 480, 3), np.uint8)
    section = alignment(described("cat.png", "a cat", pictures[0]), described("no.png", "", pictures[1]))
    assert section.title == "Captions"
    tab = opened(page(section))
    assert tab.locator(".source").inner_text() == "cat.png"
    choice = tab.get_by_label("Picture", exact=True)
    assert choice.locator("option").all_text_contents() == ["1  cat.png  a cat", "2  no.png"]
    _, _, drawn = tab.evaluate(PIXELS, 1)
    assert (np.array(drawn).reshape(pictures[0].shape) == pictures[0]).all()
    tab.locator(".panel", has_text="cat").click()
    assert "coloured by the weights of token 2: cat" in tab.locator(".large").get_attribute("aria-label")
    choice.select_option(index=1)
    assert tab.locator(".source").inner_text() == "no.png"
    assert tab.locator(".readout").inner_text() == "(no caption)"
    _, _, drawn = tab.evaluate(PIXELS, 1)
    assert (np.array(drawn).reshape(pictures[1].shape) == pictures[1]).all()


OVERLAPS = """labels => {
    const boxes = labels.map((label) => label.getBoundingClientRect()).filter((box) => box.height);
    return boxes.slice(1).filter((box, i) => box.top < boxes[i].top + 10).length;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, 40, 90, 400])
def test_the_matrix_has_labels_however_long_the_sentence(opened: Any, count: int) -> None:
    tokens = [f"w{i}" for i in range(count)]
    tab = opened(page([translation(tokens, tokens)]), width=1280, height=800)
    labels = tab.locator(".row-labels .label:visible")
    assert labels.count() >= min(count, 20)
    assert labels.evaluate_all(OVERLAPS) == 0
    assert tab.locator(".source").inner_text() == "Source " + " ".join(tokens)
    assert "mean log-probability" in tab.locator("p.soft:visible").inner_text()


@pytest.mark.slow
def test_a_matrix_is_placed_the_same_however_often(opened: Any) -> None:
    tokens = [f"word {i}" for i in range(30)]
    tab = opened(page([translation(tokens, tokens)]), width=800)
    canvas = tab.locator("div.matrix canvas")
    placed = [canvas.evaluate("(canvas) => canvas.style.cssText")]
    for _ in range(3):
        tab.evaluate("dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))")
        placed.append(canvas.evaluate("(canvas) => canvas.style.cssText"))
    assert len(set(placed)) == 1


def test_the_source_in_one_piece_joins_its_subwords() -> None:
    pair = translation(["x"], ["un" + JOIN, "known", "word", "</s>"])
    assert sentence(pair)["text"] == "unknown word"


@pytest.mark.slow
def test_two_notebook_outputs_do_not_disturb_each_other(browser: Any) -> None:
    one, two = translation(["un"], ["one", "</s>"], 1), translation(["deux"], ["two", "</s>"], 2)
    tab = browser.new_page()
    tab.set_content(f"<div>{one._repr_html_()}</div><div>{two._repr_html_()}</div>")
    for number, example in enumerate((one, two)):
        frame = tab.frame_locator("iframe").nth(number)
        frame.locator(".token[data-side=row]").first.click()
        values = frame.locator(".token[data-side=column] .value").all_text_contents()
        assert values == [shown(w) for w in example.alignment[0]]
    tab.close()


def test_no_page_has_marks_of_joined_tokens() -> None:
    """A mark may stand before a token or after it; the line of the source is joined as a translation is."""
    tokens = [f"({JOIN}", "the", "cat", f"{JOIN}'", f"{JOIN}s", f"{JOIN})", "</s>"]
    document = page(translation(tokens, tokens))
    (one,) = document.sections[0].data["sentences"]
    assert one["text"] == "(the cat's)"
    assert one["source"] == one["hypotheses"][0]["tokens"] == ["(", "the", "cat", "'", "s", ")", "</s>"]
    others = (
        page(np.eye(7), query_labels=tokens, key_labels=tokens),
        page(*[np.eye(7)] * 3, query_labels=tokens),
    )
    assert not any(JOIN in shown.html + shown.text for shown in (document, *others))

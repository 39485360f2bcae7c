"""Importance beside weights: checked, counted as `regard.attribution` counts, and shown in every part of a view."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
import pytest
from errors import error

import regard
from regard import attribution
from regard._recorded import RecordedCall
from regard.seq2seq.networks.transformer.heads import Heads
from regard.seq2seq.translator import Translation
from regard.show import page
from regard.show.page.alignment import aligned, alignment, sentence
from regard.show.page.long_attention import LongAttention

SOURCE = ("the", "black", "cat", "</s>")
TARGET = ("le", "chat", "noir")
WEIGHTS = np.array([[0.5, 0.1, 0.3, 0.1], [0.2, 0.2, 0.4, 0.2], [0.0, 0.1, 0.1, 0.8]])
NEEDED = np.array([[4.0, 0.0, 1.0, 0.0], [0.5, 3.0, 1.5, 0.0], [-1.0, 2.0, 0.0, 0.0]])
# By hand, without </s>: of "le" shares 5/9, 1/9, 3/9 of the attention and 4/5, 0, 1/5 of the loss, and so on.
DIFFERENCE = np.array(
    [[5 / 9 - 0.8, 1 / 9, 3 / 9 - 0.2], [0.25 - 0.1, 0.25 - 0.6, 0.5 - 0.3], [0.0, 0.5 - 1.0, 0.5]]
)


def translation(weights: Any = WEIGHTS, **more: Any) -> Translation:
    return Translation("le chat noir", TARGET, SOURCE, -0.2, np.asarray(weights), **more)


def unpacked(array: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(array["base64"]), array["dtype"]).reshape(array["shape"])


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers with equal ones among them, and some that are not known."""
    numbers = rng.integers(-1, 4, shape).astype(float)
    numbers[rng.random(shape) < 0.2] = np.nan
    return numbers


# ------------------------------------------------------------------------------------------------ the description


@pytest.mark.parametrize("shared", [True, False])
def test_hits_are_those_of_attribution(shared: bool) -> None:
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, (2, 3, 6, 5)) / 8
    needed = drawn(rng, *weights.shape[2 if shared else 0 :])
    (group,) = page(weights, importance=needed).sections[0].data["groups"]
    (part,) = group["importance"]
    for layer, head in np.ndindex(2, 3):
        alone = needed if shared else needed[layer, head]
        agreed = attribution.agreement(weights[layer, head], alone, samples=1)
        counted = [part[name][layer][head] for name in ("hits", "rows", "chance")]
        of_rows = [agreed.top.value * agreed.rows, agreed.rows, agreed.top.chance * agreed.rows]
        assert counted == pytest.approx(of_rows)
        assert group["measures"]["agreement"][layer][head] == pytest.approx(agreed.top.value)


def test_a_row_with_fewer_than_two_known_inputs_is_not_counted() -> None:
    (described,) = aligned(
        [[1.0, 0.0], [0.5, 0.5]], ["a", "b"], ["x", "y"], importance=[[1, np.nan], [1, 0]]
    )["hypotheses"]
    (part,) = described["importance"]
    assert (part["hits"], part["rows"], part["chance"]) == (0.5, 1, 0.5)


def test_the_end_of_a_source_and_what_was_retrieved_are_not_compared() -> None:
    memory = {"retrieved": ("<s>", "un"), "retrieved_weights": np.full((3, 2), 0.5), "starts": (4,)}
    for read in (translation(), translation(**memory)):
        (described,) = sentence(read, importance=NEEDED)["hypotheses"]
        (part,) = described["importance"]
        numbers = unpacked(part["numbers"])
        assert numbers.shape == read.full_alignment()[0].shape
        np.testing.assert_array_equal(numbers[:, :3], NEEDED[:, :3])
        assert np.isnan(numbers[:, 3:]).all()
        assert part["rows"] == 3


def test_heads_of_a_model_lie_beside_what_its_translation_needs() -> None:
    source, other = np.tile(WEIGHTS, (2, 2, 1, 1)), np.full((2, 2, 3, 3), 1 / 3)
    heads = Heads(SOURCE, ("<s>", "le", "chat"), TARGET, np.full((2, 2, 4, 4), 0.25), other, source)
    groups = page(heads, importance={"erasure": NEEDED}).sections[0].data["groups"]
    assert [[part["name"] for part in group["importance"]] for group in groups] == [[], [], ["erasure"]]
    assert groups[2]["importance"][0]["hits"] == [[1.5, 1.5], [1.5, 1.5]]  # noir attends to two words equally


def test_kept_values_show_what_each_key_contributes() -> None:
    """Of grouped heads, too: query heads 0 and 1 read the values of head 0."""
    rng = np.random.default_rng(0)
    queries, keys, values = rng.normal(size=(1, 4, 3, 2)), *rng.normal(size=(2, 1, 2, 5, 2))
    calls = [RecordedCall(queries=queries, keys=keys, values=values, name=name, error=3e-8) for name in "ab"]
    (group,) = page(calls).sections[0].data["groups"]
    (part,) = group["importance"]
    expected = calls[0].weights[0] * np.linalg.norm(values[0].repeat(2, axis=0), axis=-1)[:, None]
    assert part["name"] == "contribution"
    np.testing.assert_allclose(unpacked(part["numbers"])[1], expected, rtol=1e-6)
    assert group["layers"] == ["a, error 3e-08", "b, error 3e-08"]
    alone = page([calls[0], RecordedCall(queries=queries, keys=keys)])
    assert [len(group["importance"]) for group in alone.sections[0].data["groups"]] == [1, 0]


def test_several_kinds_and_several_hypotheses() -> None:
    both = {"contribution": np.abs(NEEDED), "erasure": NEEDED}
    (section,) = page([translation(), translation()], importance=[both, None]).sections
    names = [
        [part["name"] for part in each["importance"]] for each in section.data["sentences"][0]["hypotheses"]
    ]
    assert names == [["contribution", "erasure"], []]


def test_an_attention_lies_beside_importance_as_heads() -> None:
    attention = regard.attend(np.eye(3), np.eye(3), np.eye(3))
    assert page(attention).sections[0].view == "mechanism"
    assert page(attention, importance=np.eye(3)).sections[0].data["groups"][0]["importance"][0]["hits"] == [
        [3.0]
    ]


@pytest.mark.parametrize(
    ("kind", "shown", "importance", "message"),
    [
        (ValueError, WEIGHTS, NEEDED.T, "importance must be (3, 4) as weights are. Got (4, 3) instead."),
        (
            ValueError,
            WEIGHTS[None, None],
            NEEDED[None],
            "importance must be (3, 4) or (1, 1, 3, 4) as weights are. Got (1, 3, 4) instead.",
        ),
        (
            ValueError,
            translation(),
            NEEDED[:, :3],
            "importance must be (3, 4) as weights are. Got (3, 3) instead.",
        ),
        (
            ValueError,
            WEIGHTS,
            np.where(NEEDED > 3, np.inf, NEEDED),
            "importance must be finite, or NaN for an input that was not erased.",
        ),
        (
            ValueError,
            [translation()],
            [NEEDED, NEEDED],
            "importance must be a list of 1, as hypotheses are. Got 2 instead.",
        ),
        (
            TypeError,
            LongAttention(np.eye(3), np.eye(3)),
            np.eye(3),
            "importance goes with an array of weights, an Attention, a Translation or Heads. "
            "Got LongAttention instead.",
        ),
    ],
)
def test_what_does_not_fit_is_an_error(kind: Any, shown: Any, importance: Any, message: str) -> None:
    assert error(kind, page, shown, importance=importance) == message


def test_queries_keys_and_values_have_no_importance() -> None:
    message = error(ValueError, page, *[np.eye(3)] * 3, importance=np.eye(3))
    assert message == "importance and keys and values exclude each other.\n  hint: give one"


# ------------------------------------------------------------------------------------------------------ in a browser


def shown(number: float) -> str:
    if number == 0:
        return "0"
    return f"{number:.3f}".replace("-", "\u2212")


def picked(tab: Any, name: str) -> None:
    tab.get_by_role("radio", name=name, exact=True).click()


def row_values(tab: Any, row: int) -> list[str]:
    tab.locator(".token[data-side=row]").nth(row).hover()
    values: list[str] = tab.locator(".token[data-side=column] .value").all_text_contents()
    tab.mouse.move(0, 0)
    return values


@pytest.mark.slow
def test_a_switch_shows_weights_erasure_and_their_difference_everywhere(opened: Any) -> None:
    tab = opened(page(translation(), importance={"erasure": NEEDED}))
    said = "For this sentence the most attended word is the most needed one for 1.5 of 3 words"
    assert tab.locator(".agreement").inner_text() == f"{said}; by chance it would be for 1."
    assert row_values(tab, 1) == [shown(w) for w in WEIGHTS[1]]
    picked(tab, "erasure")
    assert "log-probability" in tab.locator(".layers").inner_text()
    assert row_values(tab, 2) == ["\u22121.000", "2.000", "0", "\u2013"]
    assert tab.locator(".colour-scale").inner_text().split() == ["\u22124.000", "4.000", "not", "known"]
    tab.keyboard.press("Tab")
    tab.get_by_role("radio", name="erasure", exact=True).focus()
    tab.keyboard.press("ArrowRight")  # as in every group of choices
    for row, expected in enumerate(DIFFERENCE):
        assert row_values(tab, row) == [*map(shown, expected.round(12)), "\u2013"]
    tab.locator(".matrix canvas").focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    line = " ".join(tab.locator(".readout").inner_text().split())
    assert line == "chat \u2192 black \u22120.350 weights 0.200 erasure 3.000"
    tab.get_by_role("button", name="Export the weights \u2212 erasure").click()
    with tab.expect_download() as download:
        tab.get_by_role("menuitem", name="Numbers as CSV").click()
    assert download.value.suggested_filename == "attention-le-chat-noir-weights-erasure.csv"
    rows = download.value.path().read_text("utf-8-sig").splitlines()
    numbers = np.array([row.split(",")[1:] for row in rows[1:]], float)
    np.testing.assert_allclose(
        numbers, np.pad(DIFFERENCE, ((0, 0), (0, 1)), constant_values=np.nan), atol=1e-6
    )
    tab.get_by_role("button", name="Export the lines").click()
    with tab.expect_download() as download:
        tab.get_by_role("menuitem", name="Picture as SVG").click()
    picture = download.value.path().read_text("utf-8")
    assert "le chat noir: weights \u2212 erasure" in picture
    colours = set(re.findall(r'stroke="rgb\((\d+), ?\d+, ?(\d+)\)"|stroke="rgb\((\d+) \d+ (\d+)\)"', picture))
    reds = {int(a or c) > int(b or d) for a, b, c, d in colours}
    assert reds == {True, False}  # orange and blue
    link = tab.evaluate("regard.written()")
    again = opened(page(translation(), importance={"erasure": NEEDED}))
    again.evaluate("link => { location.hash = link; }", link)
    again.get_by_role("radio", name="weights \u2212 erasure", checked=True).wait_for()


@pytest.mark.slow
def test_the_layer_stays_from_head_to_head_and_heads_are_sorted_by_agreement(opened: Any) -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(4), size=(2, 2, 3))
    needed = rng.normal(size=weights.shape)
    tab = opened(page(weights, importance=needed))
    before = tab.locator(".small-head canvas").last.evaluate("canvas => canvas.toDataURL()")
    picked(tab, "importance")
    assert tab.locator(".small-head canvas").last.evaluate("canvas => canvas.toDataURL()") != before
    tab.locator(".small-head").nth(3).click()
    assert row_values(tab, 1) == [shown(x) for x in needed[1, 1, 1]]
    tops = (weights.argmax(-1) == needed.argmax(-1)).sum(-1)
    said = tab.locator(".agreement").inner_text()
    assert said.startswith(
        f"For this head the most attended key is the most important one for {tops[1, 1]} of 3 "
    )
    tab.get_by_role("button", name="Agreement").click()
    sorted_by = tab.locator("td[data-measure=agreement]").all_text_contents()
    assert [float(text) for text in sorted_by] == pytest.approx(
        sorted(tops.ravel() / 3, reverse=True), abs=6e-4
    )


@pytest.mark.slow
def test_cells_of_a_picture_that_mattered_and_were_not_attended_to_are_blue(opened: Any) -> None:
    caption = Translation("a", ("a",), ("",) * 2, -0.5, np.array([[0.9, 0.1]]), grid=(1, 2))
    beside = {"erasure": np.array([[0.0, 2.0]])}
    tab = opened(page(alignment(sentence(caption, picture=np.full((40, 80), 0.5), importance=beside))))
    assert (
        "most attended cell is the most needed one for 0 of 1 words" in tab.locator(".agreement").inner_text()
    )
    picked(tab, "weights \u2212 erasure")
    tab.locator(".panel").last.click()
    ends = tab.evaluate("""() => {
        const large = document.querySelector(".large");
        const { data } = large.getContext("2d").getImageData(0, 9, large.width, 1);
        return [data.slice(0, 4), data.slice(-4)].map((pixel) => Array.from(pixel));
    }""")
    (orange, blue) = ends
    assert orange[0] > orange[2]
    assert blue[2] > blue[0]
    assert "row 1, column 1 0.900 row 1, column 2 \u22120.900" in " ".join(
        tab.locator(".readout").inner_text().split()
    )


PLACES = """() => {
    const [box, canvas] = [".matrix", ".matrix canvas"].map((of) => document.querySelector(of).getBoundingClientRect());
    const label = [...document.querySelectorAll(".row-labels .label")].at(-1).getBoundingClientRect();
    const part = document.querySelector(".matrix");
    const scrolls = [part.scrollWidth - part.clientWidth, part.scrollHeight - part.clientHeight];
    return { beyond: Math.max(canvas.bottom, label.bottom) - box.bottom, scrolls };
}"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m", "width"), [(14, 10, 1280), (14, 10, 390), (60, 8, 1280), (300, 300, 1280)]
)
def test_a_matrix_begins_with_all_of_its_rows(opened: Any, n: int, m: int, width: int) -> None:
    """And shows its cells enlarged, by a button or a key, where the arrow keys scroll to the chosen cell."""
    labels = [[f"{side}{i}" for i in range(count)] for side, count in (("row", n), ("column", m))]
    tab = opened(page(alignment(aligned(np.full((n, m), 1 / m), *labels))), width=width, height=800)
    places = tab.evaluate(PLACES)
    assert places["beyond"] <= 1
    assert places["scrolls"] == [0, 0]
    if n == 14:
        assert tab.locator(".row-labels .label").count() == 14
        assert tab.locator(".column-labels .label").count() == 10
        return
    tab.get_by_role("button", name="Enlarge").click()
    assert tab.evaluate(PLACES)["scrolls"][1] > 0
    canvas = tab.locator(".matrix canvas")
    canvas.focus()
    for _ in range(40):
        tab.keyboard.press("ArrowDown")
    assert tab.locator(".matrix").evaluate("box => box.scrollTop") > 0
    tab.keyboard.press("-")
    assert tab.evaluate(PLACES)["scrolls"] == [0, 0]


@pytest.mark.slow
def test_thin_lines_of_many_rows_stay_visible(opened: Any) -> None:
    """A single weight in a matrix that has less than a pixel for each cell."""
    weights = np.zeros((1500, 1500), np.float32)
    weights[1000, 500] = 1
    canvas = opened(page(weights), width=1000, height=800).locator(".matrix canvas")
    darkest = canvas.evaluate("""canvas => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let least = 255;
        for (let k = 0; k < data.length; k += 4) least = Math.min(least, data[k]);
        return least;
    }""")
    assert darkest < 60


@pytest.mark.slow
def test_chosen_labels_are_underlined_on_both_sides_and_no_wider(opened: Any) -> None:
    tab = opened(page(translation()))
    labels = tab.locator(".row-labels .label, .column-labels .label, .token .label")
    widths = labels.evaluate_all("labels => labels.map((label) => label.scrollWidth)")
    box = tab.locator(".matrix canvas").bounding_box()
    tab.mouse.click(box["x"] + 5, box["y"] + 5)  # le, the
    lines = labels.evaluate_all("labels => labels.map((label) => getComputedStyle(label).textDecorationLine)")
    texts = labels.all_text_contents()
    marked = [text for text, line in zip(texts, lines, strict=True) if line == "underline"]
    assert sorted(marked) == ["le", "le", "the", "the"]
    assert labels.evaluate_all("labels => labels.map((label) => label.scrollWidth)") == widths


@pytest.mark.slow
def test_forced_colours_keep_the_scale_the_tints_and_what_is_chosen(opened: Any) -> None:
    tab = opened(page(WEIGHTS[None, None], importance=NEEDED), forced_colors="active")
    tab.locator(".token[data-side=row]").first.click()
    style = (
        "(part) => { const own = getComputedStyle(part); return [own.backgroundImage, own.outlineStyle]; }"
    )
    assert tab.locator(".colour-bar").evaluate(style)[0].startswith("linear-gradient")
    tinted = tab.locator(".token[data-side=column]").evaluate_all(
        "parts => parts.map((part) => getComputedStyle(part).backgroundColor)"
    )
    assert len(set(tinted)) > 1
    chosen = [
        ".layers [aria-checked=true]",
        ".small-head[aria-pressed=true]",
        "tr[data-chosen]",
        ".token[data-chosen]",
    ]
    assert [tab.locator(part).first.evaluate(style)[1] for part in chosen] == ["solid"] * 4
    assert tab.locator(".layers [aria-checked=false]").first.evaluate(style)[1] == "none"

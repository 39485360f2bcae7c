"""What a mask hides is hatched in every view that knows the mask, and nothing else is, a weight of 0 least of all."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

import regard
from regard import mask
from regard._recorded import RecordedCall, joined
from regard.seq2seq.networks.transformer.heads import Heads
from regard.show import HtmlPage, page
from regard.show.page.heads import group, heads
from regard.show.page.long_attention import LongAttention
from regard.show.page.multihead import multihead

N = 6
MASKS: dict[str, Any] = {
    "causal": mask.causal(),
    "window": mask.window(1, 1, align="start"),
    "padding": mask.lengths(4),
    "array": np.random.default_rng(0).random((N, N)) < 0.5,
    "of each head": np.random.default_rng(1).random((2, N, N)) < 0.5,
}


def inputs(*lead: int, n: int = N) -> tuple[np.ndarray, ...]:
    return tuple(np.random.default_rng(0).normal(size=(3, *lead, n, 4)).astype(np.float32))


def read(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["base64"]), packed["dtype"]).reshape(packed["shape"])


def hidden(described: dict[str, Any]) -> np.ndarray:
    """Which weights (L, h, n, m) of a group are marked as hidden."""
    array = read(described["weights"])
    if described["step"] > 1:
        return array > described["step"]
    return (array == 0) & np.signbit(array)


def first_group(shown: Any) -> dict[str, Any]:
    (section,) = page(shown).sections
    described: dict[str, Any] = section.data["groups"][0]
    return described


@pytest.mark.parametrize("name", MASKS)
def test_a_page_knows_the_mask_of_an_attention_a_record_and_a_call(name: str) -> None:
    q, k, v = inputs(2)
    attention = regard.attend(q, k, v, mask=MASKS[name])
    expected = np.isneginf(attention.logits)
    with regard.record() as recorded:
        regard.attention(q, k, v, mask=MASKS[name])
    call = RecordedCall(queries=q, keys=k, values=v, mask=mask.as_mask(MASKS[name]))
    for shown in (attention, recorded, call, np.ma.array(attention.weights, mask=expected)):
        described = first_group(shown)
        np.testing.assert_array_equal(hidden(described)[0], expected)
        np.testing.assert_array_equal(read(described["weights"])[0], attention.weights)


def test_weights_alone_have_no_mask_not_even_by_a_negative_zero() -> None:
    weights = np.array([[1.0, -0.0], [0.5, 0.5]])
    assert not hidden(first_group(weights)).any()
    with regard.record(keep="weights") as recorded:
        regard.attention(*inputs(2), mask=mask.causal())
    assert not hidden(first_group(recorded)).any()


def test_what_lies_under_a_mask_is_not_shown() -> None:
    described = first_group(np.ma.array([[[7.0, 1.0]]], mask=[[[True, False]]]))
    assert read(described["weights"]).tolist() == [[[[0.0, 1.0]]]]
    assert not described["warnings"]


def test_many_weights_keep_their_mask_in_steps_and_a_block_is_hidden_if_all_of_it_is() -> None:
    weights, later = np.tri(256, dtype=np.float32), ~np.tri(256, dtype=bool)
    for count, block in ((17, 1), (65, 2)):
        shape = (1, count, 256, 256)
        masked = np.ma.array(np.broadcast_to(weights, shape), mask=np.broadcast_to(later, shape))
        described = group("g", masked)
        side = 256 // block
        whole = later.reshape(side, block, side, block).all(axis=(1, 3))
        assert described["step"] > 1
        np.testing.assert_array_equal(hidden(described)[0, -1], whole)
        numbers = np.where(whole, 0, read(described["weights"])[0, -1] / described["step"])
        np.testing.assert_allclose(numbers, weights.reshape(side, block, side, block).max(axis=(1, 3)))


@pytest.mark.parametrize("name", ["causal", "window", "padding"])
def test_long_attention_hides_the_blocks_of_which_nothing_is_visible(name: str) -> None:
    q, k, v = inputs(n=50)
    dense = np.isneginf(regard.attend(q, k, v, mask=MASKS[name]).logits)
    long = LongAttention(q, k, mask=MASKS[name])
    for side in (50, 25, 7):
        size = -(-50 // side)
        starts = np.arange(0, 50, size)
        expected = np.logical_and.reduceat(np.logical_and.reduceat(dense, starts, 0), starts, 1)
        np.testing.assert_array_equal(long.summary(0, side).masked, expected)
    described = first_group(long)
    np.testing.assert_array_equal(hidden(described)[0, 0], dense)
    np.testing.assert_array_equal(np.isnan(read(described["importance"][0]["numbers"]))[0, 0], dense)


def test_the_decoder_of_a_transformer_sees_nothing_later() -> None:
    weights = np.full((1, 1, 3, 3), 1 / 3)
    of = Heads(tuple("abc"), tuple("xyz"), tuple("uvw"), weights, np.tri(3)[None, None], weights)
    encoder, decoder, source = page(of).sections[0].data["groups"]
    np.testing.assert_array_equal(hidden(decoder)[0, 0], ~np.tri(3, dtype=bool))
    assert not hidden(encoder).any()
    assert not hidden(source).any()


def test_the_steps_of_a_generation_see_the_keys_that_there_were() -> None:
    q, k, v = inputs(n=4)
    first = {"values": v[:3], "mask": mask.causal("end"), "name": "layer"}
    calls = [RecordedCall(queries=q[:3], keys=k[:3], **first)]
    calls.append(RecordedCall(queries=q[3:], keys=k, values=v, name="layer", step=2))
    ((_, weights),) = joined(calls)
    np.testing.assert_array_equal(np.ma.getmaskarray(weights), ~np.tri(4, dtype=bool))
    expected = regard.attend(q, k, v, mask=mask.causal()).weights
    np.testing.assert_allclose(np.ma.getdata(weights), expected, rtol=1e-6)


def test_a_hidden_pair_has_no_importance_and_a_row_with_one_key_no_choice() -> None:
    weights = np.array([[1.0, 0, 0], [0.4, 0.6, 0], [0.2, 0.3, 0.5]])
    masked = np.ma.array(weights, mask=~np.tri(3, dtype=bool))
    described = group("g", masked, importance={"needed": np.array([[1.0, 0, 0], [3, 1, 0], [0, 1, 2]])})
    (needed,) = described["importance"]
    np.testing.assert_array_equal(np.isnan(read(needed["numbers"])), masked.mask)
    assert (needed["hits"], needed["rows"]) == ([[1.0]], [[2]])  # of the second and third row, the third
    assert needed["chance"][0][0] == pytest.approx(1 / 2 + 1 / 3)


# ------------------------------------------------------------------------------------------------------ in a browser

CLEAR = """(canvas, n) => {  // whether the middle of each of n x n cells is transparent
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    const at = (k, size) => Math.floor((k + 0.35) * size / n);
    const opacity = (i, j) => data[4 * (at(i, canvas.height) * canvas.width + at(j, canvas.width)) + 3];
    return Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => opacity(i, j) === 0));
}"""
HATCHED = "part => getComputedStyle(part).backgroundImage.startsWith('repeating-linear-gradient')"
LEGEND = "hidden by the mask"


@pytest.mark.slow
@pytest.mark.parametrize("look", ["light", "dark", "forced", "print"])
def test_canvases_are_clear_above_a_hatch_where_a_key_is_hidden(opened: Any, look: str) -> None:
    attention = regard.attend(*inputs(2), mask=MASKS["of each head"])
    options = {"theme": "dark"} if look == "dark" else {"forced_colors": "active"} if look == "forced" else {}
    tab = opened(page(attention), **options)
    if look == "print":
        tab.emulate_media(media="print")
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    for head, of in enumerate(np.isneginf(attention.logits)):
        small = tab.locator(".small-head canvas").nth(head)
        assert small.evaluate(CLEAR, N) == of.tolist()
        assert small.evaluate(HATCHED)
        small.click()
        large = tab.locator(".matrix canvas")
        assert large.evaluate(CLEAR, N) == of.tolist()
        assert large.evaluate(HATCHED)
    assert LEGEND in tab.locator(".colour-scale").inner_text()
    assert tab.locator(".colour-scale .hatched").evaluate(HATCHED)


@pytest.mark.slow
def test_a_readout_a_token_and_a_table_tell_a_hidden_key_from_a_weight_of_zero(
    opened: Any, accessible: Any
) -> None:
    weights = np.ma.array([[[1.0, 0, 0], [0, 1, 0], [0.5, 0, 0.5]]], mask=~np.tri(3, dtype=bool)[None])
    tab = opened(page(weights, query_labels=list("abc"), key_labels=list("xyz")))
    tab.locator(".token[data-side=row]").nth(1).click()
    keys = tab.locator(".token[data-side=column]")
    assert keys.locator(".value").all_text_contents() == ["0", "1", "\u2013"]
    assert [key.evaluate(HATCHED) for key in keys.all()] == [False, False, True]
    accessible(tab)
    tab.locator(".token[data-side=row]").nth(1).click()
    tab.mouse.move(0, 0)
    assert not any(key.evaluate(HATCHED) for key in keys.all())
    tab.get_by_role("button", name="Export the weights").click()
    with tab.expect_download() as download:
        tab.get_by_role("menuitem", name="Numbers as CSV").click()
    lines = download.value.path().read_text("utf-8-sig").splitlines()
    assert [line.split(",")[1:] for line in lines[1:]] == [
        ["1", "0", "0"],
        ["0", "1", "0"],
        ["0.5", "0", "0.5"],
    ]


@pytest.mark.slow
def test_weights_without_a_mask_have_neither_hatch_nor_legend(opened: Any) -> None:
    tab = opened(page(np.eye(3)[None]))
    assert tab.locator(".hatched").count() == 0
    assert tab.locator(".hatch-key").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 30, 150])  # with numbers, as rectangles, as one picture
def test_an_exported_picture_has_the_hatch_and_what_it_means(opened: Any, n: int) -> None:
    q, k, v = inputs(1, n=n)
    for masked in (mask.causal(), None):
        tab = opened(page(regard.attend(q, k, v, mask=masked)))
        for name in ("Export the weights", "Export all heads"):
            tab.get_by_role("button", name=name).click()
            with tab.expect_download() as download:
                tab.get_by_role("menuitem", name="Picture as SVG").click()
            text = download.value.path().read_text("utf-8")
            assert ('fill="url(#hatch)"' in text) == (masked is not None)
            assert (f">{LEGEND}</text>" in text) == (masked is not None)
            assert text.count('<pattern id="hatch"') == (masked is not None)


@pytest.mark.slow
def test_heat_maps_of_a_mechanism_and_the_letters_to_come_are_hatched(opened: Any) -> None:
    eye = np.eye(4)
    tab = opened(
        HtmlPage(
            [
                page(*inputs(n=4), mask=mask.causal()).sections[0],
                multihead(inputs(n=4)[0], eye, eye, eye, eye, heads=2),
            ]
        )
    )
    cells = tab.locator("section.mechanism .heat button")
    expected = (~np.tri(4, dtype=bool)).ravel().tolist()
    assert [cell.evaluate(HATCHED) for cell in cells.all()] == expected
    keys = tab.locator(".hatch-key")
    assert [key.is_visible() for key in keys.all()] == [True, False, False]
    assert keys.first.inner_text() == LEGEND
    tab.locator(".multihead .mask").get_by_role("radio").last.click()
    cells = tab.locator(".multihead .heat button")
    assert [cell.evaluate(HATCHED) for cell in cells.all()] == 2 * expected
    assert [key.is_visible() for key in tab.locator(".hatch-key").all()] == [True] * 3


@pytest.mark.slow
def test_letters_that_come_later_are_hatched(opened: Any) -> None:
    from regard.show.page.models import letters

    tab = opened(HtmlPage([letters()]))
    assert not tab.locator(".hatch-key").is_visible()
    tab.locator(".letter").nth(2).click()
    assert [letter.evaluate(HATCHED) for letter in tab.locator(".letter").all()] == [False] * 3 + [True] * 7
    assert tab.locator(".hatch-key").inner_text() == "comes later"


# ------------------------------------------------------------------------------------------- what is seen of many words

PLACED = """() => {
    const [box, canvas] = [".matrix", ".matrix canvas"].map((of) => document.querySelector(of).getBoundingClientRect());
    const seen = (label) => {
        const place = label.getBoundingClientRect();
        return place.left >= box.left - 1 && place.top >= box.top - 1 && place.left < box.right;
    };
    const labels = (side) =>
        [...document.querySelectorAll(`.${side}-labels .label`)].filter(seen).map((label) => label.textContent);
    return { rows: labels("row"), columns: labels("column"), size: [canvas.width, canvas.height] };
}"""


@pytest.mark.slow
def test_two_thousand_words_are_seen_whole_and_by_a_click_as_cells_with_words(opened: Any) -> None:
    n, (row, column) = 2000, (1234, 567)
    weights = np.full((n, n), 1e-5, np.float32)
    weights[row, column] = 0.42
    words = [f"w{k}" for k in range(n)]
    tab = opened(page([heads([group("g", weights, words, words)])]), width=1280, height=800)
    canvas, line = tab.locator(".matrix canvas"), tab.locator(".readout")
    box = canvas.bounding_box()
    assert max(box["width"], box["height"]) < 800  # all of it
    place = {"x": box["width"] * (column + 0.5) / n, "y": box["height"] * (row + 0.5) / n}
    canvas.click(position=place)
    tab.get_by_role("button", name="Enlarge").click()
    tab.wait_for_timeout(100)
    placed = tab.evaluate(PLACED)
    for side, middle in (("rows", row), ("columns", column)):
        numbers = [int(word[1:]) for word in placed[side]]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))  # each has its word
        assert 8 <= len(numbers) <= 40
        assert min(abs(number - middle) for number in numbers) <= 4  # a pixel of the whole has some words
    assert max(placed["size"]) <= 1000  # not of all cells
    tab.keyboard.press("Tab")
    canvas.focus()
    number = int(line.inner_text().split(" \u2192 ")[0][1:])
    for key, count in (("ArrowDown", row - number), ("ArrowUp", number - row)):
        for _ in range(max(0, count)):
            tab.keyboard.press(key)
    reached = int(line.inner_text().split(" \u2192 w")[1].split()[0])
    for key, count in (("ArrowRight", column - reached), ("ArrowLeft", reached - column)):
        for _ in range(max(0, count)):
            tab.keyboard.press(key)
    assert line.inner_text().startswith(f"w{row} \u2192 w{column} 0.42")
    tab.wait_for_timeout(100)
    placed = tab.evaluate(PLACED)
    assert f"w{row}" in placed["rows"]
    assert f"w{column}" in placed["columns"]
    chosen = tab.locator(".row-labels [data-chosen], .column-labels [data-chosen]").all_text_contents()
    assert sorted(chosen) == sorted([f"w{row}", f"w{column}"])
    ends = "box => box.scrollTo(box.scrollWidth, box.scrollHeight)"
    tab.locator(".matrix").evaluate(ends)
    tab.wait_for_timeout(100)
    placed = tab.evaluate(PLACED)
    assert (placed["rows"][-1], placed["columns"][-1]) == (words[-1], words[-1])
    box = canvas.bounding_box()  # ends where its cells end
    tab.mouse.move(box["x"] + box["width"] - 40, box["y"] + box["height"] - 1)
    assert line.inner_text().startswith(f"{words[-1]} \u2192 {words[-2]} ")

"""Heads in a page: their measures, their order, and the numbers of the large one."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pytest

import regard
from regard.context import Attention
from regard.seq2seq.networks.transformer.heads import Heads
from regard.show import HtmlPage, page
from regard.show.page.heads import Layer, group, heads, measures, of_layers, of_recorded
from regard.show.page.long_attention import LongAttention


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    share = np.exp(np.random.default_rng(seed).normal(0, 2, shape))
    return (share / share.sum(axis=-1, keepdims=True)).astype(np.float32)


# ----------------------------------------------------------------------------------------------------- measures


def test_measures_by_hand() -> None:
    result = measures([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    assert result.entropy.tolist() == [0.5]  # 1 bit and 0 bits
    assert result.distance.tolist() == [(0.5 * 1 + 1.0) / 2]
    assert result.diagonal.tolist() == [0.25]
    assert result.first.tolist() == [0.25]


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (1, 1), (2, 2, 4, 4)])
def test_measures_are_the_sums_of_their_definition(shape: tuple[int, ...]) -> None:
    array = weights(*shape)
    result = measures(array)
    for index in np.ndindex(shape[:-2]):
        head = array[index].astype(float)
        n, m = head.shape
        entropy = -math.fsum(w * math.log2(w) for w in head.flat if w > 0) / n
        distance = math.fsum(head[i, j] * abs(i - j) for i in range(n) for j in range(m)) / n
        assert result.entropy[index] == pytest.approx(entropy)
        assert result.distance[index] == pytest.approx(distance)
        assert result.diagonal[index] == pytest.approx(math.fsum(np.diagonal(head)) / n)
        assert result.first[index] == pytest.approx(math.fsum(head[:, 0]) / n)


@pytest.mark.slow
def test_equal_weights_of_very_many_keys_are_measured_in_parts() -> None:
    m = (1 << 21) + 1
    result = measures(np.full((2, m), 1 / m, np.float32))
    distance = (m * (m - 1) / 2 + (m - 1) * (m - 2) / 2 + 1) / 2 / m  # from 0 to all others, and from 1
    assert [float(x) for x in result] == pytest.approx([math.log2(m), distance, 1 / m, 1 / m], rel=1e-6)


def test_a_row_without_weight_has_no_influence() -> None:
    one = weights(3, 4)
    empty = np.concatenate([one, np.zeros((1, 4), np.float32)])
    np.testing.assert_allclose(measures(empty), measures(one))


# --------------------------------------------------------------------------------------------------- description


def test_heads_of_a_model_are_three_groups() -> None:
    of = Heads(("x", "</s>"), ("<s>",), ("a",), weights(1, 2, 2, 2), weights(3, 2, 1, 1), weights(3, 2, 1, 2))
    (section,) = page(of).sections
    assert [(g["name"], g["rows"], g["columns"]) for g in section.data["groups"]] == [
        ("encoder", ["x", "</s>"], ["x", "</s>"]),
        ("decoder", ["a"], ["<s>"]),
        ("source", ["a"], ["x", "</s>"]),
    ]
    kinds = [group["about"].split(":")[0] for group in section.data["groups"]]
    assert kinds == ["Self-attention", "Masked self-attention", "Cross-attention"]


def test_recorded_attentions_of_the_same_shape_are_layers() -> None:
    rng = np.random.default_rng(0)
    with regard.record() as recorded:
        for name in ("one", "two"):
            with regard.named_scope(name):
                regard.attention(*rng.normal(0, 1, (3, 2, 4, 8)))
        regard.attention(rng.normal(0, 1, (3, 8)), *rng.normal(0, 1, (2, 5, 8)))
    groups = of_recorded(recorded).data["groups"]
    assert [(g["name"], g["layers"], g["weights"]["shape"]) for g in groups] == [
        ("4 × 4", ["one", "two"], [2, 2, 4, 4]),
        ("3 × 5", ["3"], [1, 1, 3, 5]),
    ]


def test_recorded_attentions_without_weights_are_left_out() -> None:
    with regard.record(keep="context") as recorded:
        regard.attention(np.eye(2), np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match="heads need at least one group"):
        of_recorded(recorded)


def test_many_weights_are_rounded_and_more_are_reduced_to_the_largest_of_blocks() -> None:
    """Up to 2^20 weights are exact; up to 2^22 fit into a page."""
    one = weights(256, 256)
    exact, rounded, reduced = (group("g", np.broadcast_to(one, (heads, 256, 256))) for heads in (16, 17, 65))
    assert [(g["step"], g["blocks"], g["weights"]["dtype"]) for g in (exact, rounded, reduced)] == [
        (1, [1, 1], "float32"),
        (65534, [1, 1], "uint16"),
        (65534, [2, 2], "uint16"),
    ]
    assert reduced["weights"]["shape"] == [1, 65, 128, 128]
    assert reduced["measures"]["entropy"][0][64] == pytest.approx(float(measures(one).entropy))


def test_blocks_that_make_too_many_weights_to_be_exact_are_rounded() -> None:
    """Of 774 x 5,419 weights, blocks of 2 x 2 leave 387 x 2,710, as sides are rounded up: more than 2^20."""
    found = group("g", np.full((774, 5419), np.float32(0.25)))
    number = np.frombuffer(base64.b64decode(found["weights"]["base64"]), found["weights"]["dtype"])[0]
    assert found["weights"]["shape"][-2:] == [387, 2710]
    assert number / found["step"] == pytest.approx(0.25, abs=1e-5)


@pytest.mark.parametrize("shape", [(0, 1, 2, 2), (1, 2, 0), (3,), (1, 2, 1, 2, 2)])
def test_weights_of_another_shape_are_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"weights must be \(layers, heads, n, m\), and not empty"):
        group("g", np.zeros(shape))


def test_an_attention_with_heads_is_shown_by_heads() -> None:
    attention = regard.attend(*np.ones((3, 2, 3, 4)))
    assert isinstance(attention, Attention)
    assert page(attention).sections[0].view == "heads"


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0, 1e300])
def test_numbers_that_are_no_weights_are_shown_with_a_warning(wrong: float) -> None:
    array = weights(1, 1, 3, 3).astype(float)
    array[0, 0, 1, 1] = wrong
    (described,) = page(array).sections[0].data["groups"]
    assert described["warnings"]


@pytest.mark.parametrize("dtype", ["bool", "int64", "float16", "float32", "float64", ">f4"])
def test_weights_of_any_real_type_are_shown(dtype: str) -> None:
    (described,) = page(np.eye(3).astype(dtype)).sections[0].data["groups"]
    assert described["measures"]["diagonal"] == [[1.0]]
    assert not described["warnings"]


def test_a_page_records_nothing() -> None:
    rng = np.random.default_rng(0)
    with regard.record() as recorded:
        page(*rng.normal(size=(3, 2, 9, 4)))
        LongAttention(*rng.normal(size=(2, 9, 4)))
    assert recorded == []


# --------------------------------------------------------------------------------------------------- in a browser


@pytest.mark.slow
def test_heads_are_sorted_by_each_measure_and_chosen_by_click_and_key(opened: Any) -> None:
    array = weights(2, 3, 5, 5)
    tokens = ["<b>", "שלום", "日本", "a", "b"]
    tab = opened(
        page([heads([group("encoder", array, tokens, tokens), group("other", weights(1, 1, 2, 2))])])
    )
    for number, name in enumerate(("entropy", "distance", "diagonal", "first")):
        tab.locator("thead button").nth(number + 1).click()
        expected = sorted(getattr(measures(array), name).ravel().tolist(), reverse=True)
        digits = 2 if number < 2 else 3
        values = tab.locator(f"td[data-measure={name}]").all_text_contents()
        assert values == [f"{value:.{digits}f}" for value in expected]
        assert tab.locator(".small-head small").all_text_contents() == values
    tab.locator("thead button").first.click()
    tab.locator(".small-head").nth(4).click()  # layer 2, head 2
    tab.locator(".token[data-side=row]").nth(1).click()
    values = tab.locator(".token[data-side=column] .value").all_text_contents()
    assert values == [f"{w:.3f}" for w in array[1, 1, 1]]
    assert tab.locator(".token[data-side=column] .label").all_text_contents() == tokens
    tab.locator(".small-head").first.focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator("h3").inner_text().endswith("layer 1, head 2")
    values = tab.locator(".token[data-side=column] .value").all_text_contents()
    assert values == [f"{w:.3f}" for w in array[0, 1, 1]]  # of the token that was clicked
    tab.locator(".choices button").nth(1).click()
    assert tab.locator(".small-head").count() == 1
    assert tab.locator(".head-large dd").count() == 4


@pytest.mark.slow
def test_three_hundred_tokens_open_and_a_head_changes(opened: Any) -> None:
    array = weights(2, 2, 300, 300)
    tab = opened(page(array))
    tab.locator(".small-head").nth(3).click()
    tab.locator(".token[data-side=row]").nth(7).click()
    shown = tab.locator(".token[data-side=column] .value").all_text_contents()
    assert len(shown) == 300
    np.testing.assert_allclose(
        [float(value.replace("\u2248", "")) for value in shown], array[1, 1, 7], atol=0.0005001
    )


@pytest.mark.slow
def test_measures_have_units_and_explanations(opened: Any) -> None:
    tab = opened(page(weights(2, 2, 4, 4)))
    headings = tab.locator(".head-table thead button").all_text_contents()
    assert headings == ["Head", "Entropy (bits)", "Distance (tokens)", "Diagonal", "First token"]
    for name in ("L is the layer, H the head", "0 bits if one token has all of it", "how many tokens away"):
        assert name in tab.locator(".meaning").inner_text()
    assert tab.locator(".small-head").first.inner_text() == "L1 H1"


@pytest.mark.slow
def test_a_printed_head_has_all_its_tokens(opened: Any) -> None:
    tab = opened(page(weights(1, 1, 70, 70)), width=1280, height=800)
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    height = tab.locator(".between canvas").evaluate("canvas => canvas.offsetHeight")
    box = tab.locator(".pairs").evaluate("box => [box.clientHeight, box.scrollHeight]")
    assert height == 70 * 28
    assert box[0] == box[1] >= height
    across = tab.locator(".matrix canvas").evaluate("canvas => canvas.getBoundingClientRect().width")
    assert across < 718  # between the margins of A4


LINES = """async () => {
    const path = Path2D;
    let count = 0;
    window.Path2D = class extends path {
        constructor(d) { super(d); count += d.split("C").length - 1; }
    };
    document.querySelector(".pairs").style.maxHeight = "none";  // all tokens are in view
    document.querySelector(".weights-view").style.paddingBottom = `${Math.random()}px`;
    for (let k = 0; k < 3; k++) await new Promise(requestAnimationFrame);
    count = 0;
    document.getElementById("theme").click();
    for (let k = 0; k < 3; k++) await new Promise(requestAnimationFrame);
    window.Path2D = path;
    return count;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["even", "nearly even", "peaked"])
def test_no_more_lines_are_drawn_than_an_eye_can_tell(opened: Any, kind: str) -> None:
    n, rng = 100, np.random.default_rng(0)
    shares = {"even": np.ones((n, n)), "nearly even": rng.uniform(0.9, 1, (n, n)), "peaked": np.eye(n)}[kind]
    tab = opened(page(shares / shares.sum(-1, keepdims=True)))
    readout = tab.locator(".readout")
    count = tab.evaluate(LINES)
    if kind == "peaked":
        assert count == n
        assert "lines" not in readout.inner_text()
        return
    assert 2500 <= count <= 3000
    assert f"{count:,} of 10,000 lines are drawn" in readout.inner_text()
    for side in ("row", "column"):
        token = tab.locator(f"button.token[data-side={side}]").nth(17)
        token.click()
        assert tab.evaluate(LINES) == count + n  # those of a token are complete
        token.click()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 800, 1200])
def test_long_names_of_layers_keep_every_column_and_their_end(opened: Any, width: int) -> None:
    names = [f"transformer.encoder.layer.{k}.attention.self" for k in (11, 12)]
    layers = (Layer(name, np.full((8, 4, 4), 0.25)) for name in names)
    tab = opened(HtmlPage([of_layers(layers, None, None)]), width=width)
    table = tab.locator(".head-table")
    assert table.evaluate("box => box.scrollWidth <= box.clientWidth") or width < 500  # there it scrolls
    places = [tab.get_by_role("button", name=name).bounding_box() for name in ("Share", "Dark")]
    assert abs(places[0]["y"] - places[1]["y"]) < 10
    heads = tab.locator(".small-head")
    for head in heads.all():
        assert head.evaluate("x => x.scrollWidth <= x.clientWidth + 1")
    assert heads.first.inner_text().replace("\n", " ").endswith("n.self H1")
    assert names[0] in heads.first.get_attribute("aria-label")

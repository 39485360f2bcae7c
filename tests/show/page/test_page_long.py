"""Long attention in a page: summaries equal those of the dense weights, in linear memory."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from regard import mask, scores
from regard.show import page
from regard.show.page.long_attention import LongAttention, long_section

RNG = np.random.default_rng(0)

OPTIONS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "none": lambda n, m: {},
    "causal": lambda n, m: {"mask": mask.causal(align="end")},
    "window": lambda n, m: {"mask": mask.window(5, 3, align="start")},
    "lengths": lambda n, m: {"mask": mask.lengths(m // 2, n // 2)},  # rows without a visible key
    "scale-softcap": lambda n, m: {"scale": 0.7, "softcap": 2.0},
    "bias": lambda n, m: {"bias": np.linspace(-2, 2, m)},
    "gaussian": lambda n, m: {"score": scores.gaussian(1.5)},
    "additive": lambda n, m: {
        "score": scores.additive(RNG.normal(size=(8, 4)), RNG.normal(size=(8, 4)), RNG.normal(size=4))
    },
}
SHAPES = [((), 37, 53), ((2,), 40, 40), ((2, 3), 1, 9), ((), 9, 1)]


def inputs(lead: tuple[int, ...], n: int, m: int, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.normal(0, 1.5, (*lead, length, 8)).astype(dtype) for length in (n, m)]


def blocks(length: int, side: int) -> list[slice]:
    size = -(-length // side)
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("lead_n_m", SHAPES, ids=str)
def test_summaries_equal_those_of_the_dense_weights(option: str, lead_n_m: Any) -> None:
    lead, n, m = lead_n_m
    queries, keys = inputs(lead, n, m)
    options = OPTIONS[option](n, m)
    long = LongAttention(queries, keys, **options)
    dense = regard.attend(queries, keys, keys, **options).weights.reshape(-1, n, m).astype(float)
    for head, weights in enumerate(dense):
        for side in (1, 4, 7, 512):
            summary = long.summary(head, side)
            parts = [[weights[rows, columns] for columns in blocks(m, side)] for rows in blocks(n, side)]
            maximum = [[part.max() for part in row] for row in parts]
            mean = [[part.mean() for part in row] for row in parts]
            np.testing.assert_allclose(summary.maximum, maximum, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(summary.mean, mean, rtol=1e-4, atol=1e-6)


def test_a_summary_of_several_tiles_equals_that_of_the_dense_weights() -> None:
    queries, keys = inputs((), 300, 2100)
    summary = LongAttention(queries, keys, mask=regard.mask.causal("end")).summary(0, 512)
    dense = regard.attend(queries, keys, keys, mask=regard.mask.causal("end")).weights.reshape(300, 420, 5)
    np.testing.assert_allclose(summary.maximum, dense.max(axis=-1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(summary.mean, dense.mean(axis=-1), rtol=1e-4, atol=1e-6)


def test_the_mean_of_all_means_is_one_over_the_keys() -> None:
    long = LongAttention(*inputs((), 64, 128))
    assert long.summary(0, 8).mean.mean() == pytest.approx(1 / 128)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((np.ones(3), np.ones((2, 3))), "queries must have at least 2 dimensions: 1"),
        ((np.ones((2, 3)), np.ones(3)), "keys must have at least 2 dimensions: 1"),
        ((np.ones((0, 3)), np.ones((2, 3))), "a picture needs at least one query and one key"),
        ((np.ones((2, 3)), np.ones((2, 4))), "queries and keys must share their last dimension d: 3 and 4"),
    ],
)
def test_wrong_arrays_are_an_error(arrays: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LongAttention(*arrays)


def test_labels_that_do_not_fit_are_an_error_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="labels must name each key: 2 labels for 70"):
        long_section(LongAttention(*inputs((), 50, 70)), None, ["a", "b"])


def test_a_page_of_more_weights_than_are_computed_at_once_has_summaries() -> None:
    queries, keys = inputs((), 2049, 2048)
    (section,) = page(queries, keys, keys).sections
    assert section.view == "heads"
    assert section.data["groups"][0]["blocks"] == [5, 4]
    with pytest.raises(ValueError, match='a page of more than 4,194,304 weights needs normalize="softmax"'):
        page(queries, keys, keys, normalize="sparsemax")


def test_heads_share_the_room_of_a_page() -> None:
    """Two numbers of each block, 2^20 at most."""
    (group,) = long_section(LongAttention(*inputs((8,), 257, 400))).data["groups"]
    (mean,) = group["importance"]
    numbers = np.frombuffer(base64.b64decode(mean["numbers"]["base64"]), np.float32)
    assert 2 * numbers.size <= 1 << 20
    assert mean["numbers"]["shape"] == group["weights"]["shape"] == [1, 8, 129, 200]
    assert group["blocks"] == [2, 2]
    assert [group["rows"][k] for k in (0, 127, 128)] == ["1 … 2", "255 … 256", "257"]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak resident size is read from /proc")
def test_twenty_thousand_tokens_take_linear_memory() -> None:
    """The weights alone would be 1.6 GB. A thread has a tile of weights and its temporary arrays."""
    code = """
        import numpy as np
        from regard.show import page
        from regard.show.page.long_attention import LongAttention

        def peak():
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

        rng = np.random.default_rng(0)
        page(LongAttention(*rng.normal(size=(2, 600, 8)).astype(np.float32))).html
        q, k = rng.normal(size=(2, 20_000, 8)).astype(np.float32)
        with open("/proc/self/clear_refs", "w") as marks:
            marks.write("5")
        before = peak()
        size = len(page(q, k, k).html)
        print(size, (peak() - before) * 1024)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    size, grown = map(int, done.stdout.split())
    assert size < 4_000_000
    assert grown < 100 << 20


# ------------------------------------------------------------------------------------------------------ in a browser


NUMBER = re.compile(r"\d\.\d+")


def numbers_of(line: Any) -> list[str]:
    """The numbers of a readout, whose names have none with a point."""
    return NUMBER.findall(line.inner_text())


def assert_rounded(shown: list[str], expected: Any) -> None:
    """Each number is rounded to the digits that it is shown with, at least three."""
    assert len(shown) == len(expected)
    for text, number in zip(shown, expected, strict=True):
        digits = len(text.partition(".")[2])
        assert digits >= 3
        assert float(text) == pytest.approx(number, abs=0.51 * 10.0**-digits)


@pytest.fixture
def summarized(opened: Any) -> tuple[Any, np.ndarray]:
    """A page of two heads in blocks of 2 x 2, and the largest weight of each block (2, 300, 350)."""
    queries, keys = inputs((2,), 600, 700)
    names = [f"q{i}" for i in range(600)], ["<b>"] + [f"k{i}" for i in range(699)]
    tab = opened(page(long_section(LongAttention(queries, keys), *names)))
    dense = regard.attend(queries, keys, keys).weights.reshape(2, 300, 2, 350, 2)
    return tab, dense


@pytest.mark.slow
def test_a_block_has_its_largest_and_its_mean_weight(summarized: Any) -> None:
    tab, dense = summarized
    canvas, line = tab.locator(".matrix canvas"), tab.locator(".readout")
    box = canvas.bounding_box()
    tab.mouse.move(box["x"] + 0.5, box["y"] + 0.5)
    assert line.inner_text().startswith("q0 … q1 → <b> … k0 ")
    assert_rounded(numbers_of(line), [dense[0, 0, :, 0].max(), dense[0, 0, :, 0].mean()])
    assert "Each cell is the largest weight of 2 × 2." in tab.locator(".note").inner_text()
    tab.locator(".small-head").nth(1).click()
    tab.get_by_role("radio", name="mean").click()
    tab.keyboard.press("Tab")
    canvas.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "Enter"):
        tab.keyboard.press(key)
    assert line.inner_text().startswith("q2 … q3 → k3 … k4 ")
    assert_rounded(numbers_of(line), [dense[1, 1, :, 2].mean(), dense[1, 1, :, 2].max()])


@pytest.mark.slow
def test_a_picked_row_has_its_largest_blocks(summarized: Any) -> None:
    tab, dense = summarized
    tab.locator(".token[data-side=row]").nth(7).click()
    best = sorted(dense[0, 7].max(axis=(0, 2)), reverse=True)[:5]
    assert_rounded(numbers_of(tab.locator(".readout")), best)


@pytest.mark.slow
def test_blocks_are_enlarged_and_their_colours_stand_for_decades(summarized: Any) -> None:
    tab, dense = summarized
    box, canvas, scale = (tab.locator(part) for part in (".matrix", ".matrix canvas", ".colour-scale"))
    overflow = "box => box.scrollWidth > box.clientWidth && box.scrollHeight > box.clientHeight"
    assert not box.evaluate(overflow)
    canvas.focus()
    tab.keyboard.press("+")
    assert box.evaluate(overflow)
    tab.keyboard.press("-")
    low, high = map(float, scale.inner_text().split())
    assert high == pytest.approx(dense[0].max(), abs=1e-3)
    assert low == pytest.approx(high / 1e4, abs=1e-3)
    before = [
        part.evaluate("canvas => canvas.toDataURL()")
        for part in (canvas, tab.locator(".small-head canvas").first)
    ]
    tab.get_by_role("radio", name="linear").click()
    assert scale.inner_text().split()[0] == "0"
    after = [
        part.evaluate("canvas => canvas.toDataURL()")
        for part in (canvas, tab.locator(".small-head canvas").first)
    ]
    assert before[0] != after[0]
    assert before[1] != after[1]

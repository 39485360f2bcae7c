"""Long attention in a page: summaries equal those of the dense weights, in linear memory."""

from __future__ import annotations

import base64
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
    assert section.view == "long"
    with pytest.raises(ValueError, match='a page of more than 4,194,304 weights needs normalize="softmax"'):
        page(queries, keys, keys, normalize="sparsemax")


def test_heads_share_the_room_of_a_page() -> None:
    """Two numbers of each block, 2^20 at most."""
    data = long_section(LongAttention(*inputs((8,), 257, 400))).data
    numbers = np.frombuffer(base64.b64decode(data["mean"]["base64"]), np.float32)
    assert 2 * numbers.size <= 1 << 20
    assert data["mean"]["shape"] == [8, 129, 200]
    assert data["blocks"] == [2, 2]


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


@pytest.mark.slow
def test_the_page_shows_the_summaries_and_zooms_by_keys(opened: Any) -> None:
    queries, keys = inputs((2,), 600, 700)
    section = long_section(
        LongAttention(queries, keys), [f"q{i}" for i in range(600)], ["<b>"] + [f"k{i}" for i in range(699)]
    )
    dense = regard.attend(queries, keys, keys).weights
    tab = opened(page(section))
    canvas, line = tab.locator(".long-canvas"), tab.locator(".readout")
    box = canvas.bounding_box()
    tab.mouse.move(box["x"] + 1.5, box["y"] + 1.5)
    text = line.inner_text()
    assert "queries 1–2 q0 … q1" in text
    assert "keys 1–2 <b> … k0" in text
    assert f"largest {dense[0, :2, :2].max():.4f}" in text
    assert f"mean {dense[0, :2, :2].mean():.4f}" in text
    tab.locator("select").select_option("head 2")
    assert f"largest {dense[1, :2, :2].max():.4f}" in line.inner_text()
    canvas.focus()
    for key in ("+", "+", "ArrowLeft", "ArrowUp", "Enter"):
        tab.keyboard.press(key)
    position = [int(length * (0.5 - 0.025)) for length in (600, 700)]
    rows, columns = (slice(k // 2 * 2, k // 2 * 2 + 2) for k in position)
    assert f"largest {dense[1, rows, columns].max():.4f}" in line.inner_text()
    blocks_of_row = dense[1, rows].max(axis=0).reshape(-1, 2).max(axis=1)
    best = sorted(blocks_of_row, reverse=True)[:6]
    assert tab.locator(".long-best b").all_text_contents() == [f"{weight:.4f}" for weight in best]
    rows, columns = (tab.locator(f".ticks.{side} span").all_text_contents() for side in ("rows", "columns"))
    # A quarter of each side is in view, from 3/8 - 1/40 of it.
    assert [rows[0], rows[-1]] == ["211", "360"]
    assert [columns[0], columns[-1]] == ["246", "420"]
    tab.keyboard.press("0")
    tab.locator("button", has_text="mean").click()
    tab.locator("button", has_text="linear").click()
    assert tab.locator("button[aria-checked=true]").all_text_contents() == ["mean", "linear"]

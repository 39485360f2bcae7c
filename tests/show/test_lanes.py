"""The lanes of one query as a picture: its numbers are those of attend, and its text is text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.cli import main

pytest.importorskip("matplotlib")

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from regard.show.figures._lanes import lanes

RNG = np.random.default_rng(4)


def widths(ax: Axes) -> list[float]:
    return [bar.get_width() for bar in ax.patches if isinstance(bar, Rectangle)]


def attention(m: int) -> regard.Attention:
    return regard.attend(RNG.normal(size=(2, 3)), RNG.normal(size=(m, 3)), RNG.normal(size=(m, 2)))


def test_each_key_has_its_score_exponential_and_share() -> None:
    own = attention(4)
    ax = lanes(own, 1, "q", list("abcd"))
    texts = [text.get_text() for text in ax.texts]
    for j, key in enumerate("abcd"):
        assert {key, f"{own.scores[1, j]:.2f}", f"{100 * own.weights[1, j]:.1f} %"} <= set(texts)
    bars = np.array(widths(ax)[:4])
    np.testing.assert_allclose(bars / bars.sum(), own.weights[1], rtol=1e-12)
    sizes = np.array(widths(ax)[4:])
    np.testing.assert_allclose(sizes / sizes.max(), np.abs(own.context[1]) / np.abs(own.context[1]).max())


def test_of_many_keys_the_best_five_and_the_others_together() -> None:
    own = attention(30)
    texts = [text.get_text() for text in lanes(own, 0, "q", [f"k{j}" for j in range(30)]).texts]
    best = np.argsort(-own.weights[0])[:5]
    assert [text for text in texts if re.fullmatch(r"k\d+", text)] == [f"k{j}" for j in sorted(best)]
    rest = 100 * np.delete(own.weights[0], best).sum()
    assert texts[texts.index("25 others together") + 2] == f"{rest:.1f} %"


def test_a_query_that_sees_nothing_has_lanes_without_bars() -> None:
    x = np.eye(2)
    ax = lanes(regard.attend(x, x, x, mask=np.zeros((2, 2), bool)), 0, "q", ["a", "b"])
    assert widths(ax) == [0] * 4


def test_a_masked_key_is_told_from_a_weight_of_zero() -> None:
    x = np.eye(2)
    texts = lanes(regard.attend(x, x, x, mask=regard.mask.causal()), 0, "q", ["a", "b"]).texts
    assert [text.get_text() for text in texts][2:6:3] == ["100.0 %", "0 (mask)"]


def test_several_heads_are_refused() -> None:
    x = np.zeros((2, 3, 4))
    with pytest.raises(ValueError, match="lanes are those of one head"):
        lanes(regard.attend(x, x, x), 0, "q", list("abc"))


def test_the_command_line_draws_them_as_svg_with_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", "the cat sat", "--query", "3", "--out", "lanes.svg"]) == 0
    found = re.findall(r"<text[^>]*>([^<]*)</text>", Path("lanes.svg").read_text("utf-8"))
    assert {"the", "cat", "sat", "score", "share", "context of sat"} <= set(found)
    for arguments, fault in (
        (["the cat sat", "--query", "4", "--out", "x.svg"], "--query must be at most 3. Got 4"),
        (["the cat sat", "--query", "1", "--out", "x.html"], "--out must end in .png, .svg or .pdf"),
        (
            ["--weights", "w.npy", "--query", "1", "--out", "x.svg"],
            "--weights and --query exclude each other",
        ),
    ):
        assert main(["show", *arguments]) == 2
        assert fault in capsys.readouterr().err

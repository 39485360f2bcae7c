"""The page of variants: its table is complete, and its calls compute what their formulas say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

pytest.importorskip("matplotlib", reason="the pictures need the extra cli")

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = runpy.run_path(str(DOCS / "variant_pictures.py"))
VARIANTS = {variant.name: variant for _, variant in PICTURES["variants"]()}
SEARCHED = (
    *("self", "cross", "causal", "multi-head", "grouped", "additive", "dot", "general", "concat", "location"),
    *("cosine", "gaussian", "soft", "hard", "local", "sparse", "linear", "delta", "sinks", "window"),
)


@pytest.mark.parametrize("word", SEARCHED)
def test_each_kind_of_attention_can_be_searched(word: str) -> None:
    assert any(word in name.lower() for name in VARIANTS)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_call_of_a_variant_runs(name: str) -> None:
    """Those of softmax and the like give shares; no row shows a key that is NaN."""
    weights = VARIANTS[name].weights()
    assert weights.shape[-1] == 6
    assert np.isfinite(weights).all()
    if "linear." not in VARIANTS[name].call:
        assert weights.min() >= 0
        assert name in ("sigmoid", "ReLU") or (weights.sum(-1) <= 1 + 1e-12).all()


def test_variants_differ() -> None:
    """Only those that are the same by their formulas have the same weights."""
    each = {name: np.round(variant.weights(), 9).tobytes() for name, variant in VARIANTS.items()}
    same = [{name for name in each if each[name] == one} for one in set(each.values())]
    assert sorted(sorted(names) for names in same if len(names) > 1) == [
        ["additive (Bahdanau)", "concat"],
        ["cross (encoder-decoder)", "scaled dot product", "soft (deterministic)"],
    ]


def test_formulas_by_hand() -> None:
    """In NumPy, from the formulas of the page."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 0.7, (6, 8)), rng.normal(0, 0.7, (4, 8))
    of_self, i, j = x @ x.T / np.sqrt(8), np.arange(6)[:, None], np.arange(6)
    distance = ((x[:, None] - x) ** 2).sum(-1)

    def masked(visible: Any) -> Any:
        return softmax(np.where(visible, of_self, -np.inf), -1)

    expected = {
        "self (intra-attention)": softmax(of_self, -1),
        "causal (masked, autoregressive)": masked(j <= i),
        "dot product (Luong)": softmax(y @ x.T, -1),
        "Gaussian (kernel regression)": softmax(-distance / 8, -1),
        "hard": np.eye(6)[(y @ x.T).argmax(-1)],
        "local, monotonic (local-m)": masked(abs(j - i) <= 1),
        "sigmoid": 1 / (1 + 6 * np.exp(-y @ x.T / np.sqrt(8))),
        "ReLU": np.maximum(y @ x.T / np.sqrt(8), 0) / 6,
        "attention sinks": np.exp(of_self) / (np.e + np.exp(of_self).sum(-1, keepdims=True)),
        "sliding window": masked((i - 2 < j) & (j <= i)),
        "first tokens and a window (StreamingLLM)": masked((j <= i) & ((j < 1) | (i - 2 < j))),
        "chunked (Llama 4), packed texts": masked((j <= i) & (j // 3 == i // 3)),
        "prefix language model": masked((j <= i) | (j < 3)),
        "linear biases (ALiBi)": softmax(of_self - abs(i - j), -1),
        "gated linear attention; retention with a constant gate": np.tril(of_self)
        * 0.5 ** np.maximum(i - j, 0),
    }
    for name, weights in expected.items():
        np.testing.assert_allclose(VARIANTS[name].weights()[0], weights, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("name", "gate"), [("delta rule (fast weights)", 1), ("gated delta rule", 0.5)])
def test_the_delta_rules_by_hand(name: str, gate: float) -> None:
    """One position after the other, as the formula says, with keys and queries of length 1."""
    rng, state = np.random.default_rng(3), np.zeros((8, 6))
    unit = [row / np.linalg.norm(row) for row in rng.normal(0, 0.7, (6, 8))]
    rows = []
    for k, v in zip(unit, np.eye(6), strict=True):
        state = gate * state + 0.9 * np.outer(k, v - gate * k @ state)
        rows.append(k @ state)
    delta = VARIANTS[name].weights()[0]
    np.testing.assert_allclose(delta / delta[0, 0], np.array(rows) / rows[0][0], atol=1e-12)


@pytest.mark.slow
def test_the_site_has_a_picture_of_each(tmp_path: Path) -> None:
    text = PICTURES["with_pictures"]((DOCS / "variants.md").read_text(encoding="utf-8"))
    PICTURES["draw"](tmp_path / "variants")
    files = {path.name for path in (tmp_path / "variants").iterdir()}
    assert len(files) == len(VARIANTS) > 20
    assert {file for file in files if f'{PICTURES["FOLDER"]}/{file}"' in text} == files

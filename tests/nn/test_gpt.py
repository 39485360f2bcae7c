"""A small GPT of public parts alone, decoded with a cache, prompts of different length and beams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regard
from regard import nn, position

Array = NDArray[Any]
WORDS, WIDTH, HEADS, KEY_HEADS, SIZE, HIDDEN, LAYERS, WINDOW = 13, 16, 4, 2, 6, 24, 2, 4
SCALING = position.yarn(4.0, 64)


def draw(seed: int = 0) -> dict[str, Any]:
    """Parameters: embeddings, and for each layer gains, projections, sinks and a SwiGLU."""
    rng = np.random.default_rng(seed)

    def layer() -> dict[str, Array]:
        shapes = {
            "attention_gain": (WIDTH,),
            "query": (WIDTH, HEADS * SIZE),
            "key": (WIDTH, KEY_HEADS * SIZE),
            "value": (WIDTH, KEY_HEADS * SIZE),
            "output": (HEADS * SIZE, WIDTH),
            "sink": (HEADS,),
            "hidden_gain": (WIDTH,),
            "gate": (WIDTH, HIDDEN),
            "up": (WIDTH, HIDDEN),
            "down": (HIDDEN, WIDTH),
        }
        return {name: rng.standard_normal(shape) * 0.4 for name, shape in shapes.items()}

    return {"table": rng.standard_normal((WORDS, WIDTH)), "layers": [layer() for _ in range(LAYERS)]}


def hidden(x: Array, layer: dict[str, Array]) -> Array:
    """The second half of a layer: RMSNorm and SwiGLU."""
    normal = nn.rms_norm(x, layer["hidden_gain"])[0]
    gate = nn.silu(nn.linear(normal, layer["gate"])[0])[0]
    return np.asarray(x + nn.linear(gate * nn.linear(normal, layer["up"])[0], layer["down"])[0])


def at_once(model: dict[str, Any], words: list[int]) -> Array:
    """The logits after each word of one sequence, by one causal attention for each layer: (n, WORDS)."""
    x = nn.embed(model["table"], np.array(words))[0]
    for layer in model["layers"]:
        normal = nn.rms_norm(x, layer["attention_gain"])[0]
        weights = (layer[name] for name in ("query", "key", "value", "output"))
        options: dict[str, Any] = {"heads": HEADS, "key_heads": KEY_HEADS, "sink": layer["sink"]}
        y, _ = nn.multi_head_attention(
            normal,
            None,
            *weights,
            rotate=lambda heads: position.rotary_vjp(heads, scaling=SCALING),
            mask=regard.mask.window(WINDOW - 1, 0),
            **options,
        )
        x = hidden(x + y, layer)
    return np.asarray(x @ model["table"].T)


def step(
    model: dict[str, Any], caches: list[regard.KVCache], words: Array, lengths: list[int] | None
) -> Array:
    """The logits after the last of the new words (B, t) of each sequence: (B, WORDS)."""
    t = words.shape[1]
    before = caches[0].lengths
    first = (
        before if lengths is None else before + np.array(lengths) - t
    )  # padding is before the first position
    positions = (first[:, None] + np.arange(t))[:, None]  # (B, 1, t): for all heads
    x = nn.embed(model["table"], words)[0]
    for layer, cache in zip(model["layers"], caches, strict=True):
        normal = nn.rms_norm(x, layer["attention_gain"])[0]
        q, k, v = (
            nn.split_heads(nn.linear(normal, layer[name])[0], heads)[0]
            for name, heads in (("query", HEADS), ("key", KEY_HEADS), ("value", KEY_HEADS))
        )
        q, k = (position.rotary(heads, positions, scaling=SCALING) for heads in (q, k))
        cache.append(k, v, lengths=lengths)
        context = regard.attention(q, cache.keys, cache.values, mask=cache.mask, sink=layer["sink"])
        x = hidden(x + nn.linear(nn.merge_heads(context)[0], layer["output"])[0], layer)
    return np.asarray(x[:, -1] @ model["table"].T)


@pytest.mark.slow
@pytest.mark.parametrize("ring", [False, True])
def test_decoding_with_beams_equals_the_causal_attention_at_once(ring: bool) -> None:
    """Two prompts of different length, three hypotheses each that are dropped and split, ten steps."""
    model, beam = draw(), 3
    prompts = [[1, 5, 2, 7, 3, 3, 9], [4, 11]]
    t = max(map(len, prompts))
    options: dict[str, Any] = {"capacity": WINDOW - 1 + t if ring else 40, "window": WINDOW - 1}
    caches = [regard.KVCache((2, KEY_HEADS), SIZE, dtype=float, **options) for _ in range(LAYERS)]
    words = np.array([[0] * (t - len(prompt)) + prompt for prompt in prompts])
    logits = step(model, caches, words, [len(prompt) for prompt in prompts])
    for cache in caches:
        cache.reorder(np.repeat(np.arange(2), beam))
    logits = np.repeat(logits, beam, axis=0)
    texts = [list(prompt) for prompt in prompts for _ in range(beam)]
    totals = np.tile([0.0, -np.inf, -np.inf], 2)  # at first all hypotheses of a prompt are the same
    crossed = 0
    for _ in range(10):
        expected = np.stack([at_once(model, text)[-1] for text in texts])
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-10)
        scores = totals[:, None] + logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        best = np.argsort(-scores.reshape(2, beam * WORDS), axis=1, kind="stable")[:, :beam]
        parents = (best // WORDS + np.array([[0], [beam]])).reshape(-1)
        new = (best % WORDS).reshape(-1)
        crossed += int((parents != np.arange(2 * beam)).any())
        totals = scores[parents, new]
        texts = [[*texts[parent], int(word)] for parent, word in zip(parents, new, strict=True)]
        for cache in caches:
            cache.reorder(parents)
        logits = step(model, caches, new[:, None], None)
    assert crossed >= 3  # hypotheses were dropped and split
    assert caches[0].lengths.tolist() == [17] * beam + [12] * beam
    assert len({tuple(text) for text in texts}) == 2 * beam


def test_the_sinks_and_the_window_change_the_output() -> None:
    """The test above would fail without them."""
    model, text = draw(), [1, 5, 2, 7, 3, 3, 9]
    without = draw()
    for layer in without["layers"]:
        layer["sink"][:] = -np.inf
    assert abs(at_once(model, text)[-1] - at_once(without, text)[-1]).max() > 1e-3
    earlier = [text[0] + 1, *text[1:]]  # two layers with windows of four reach seven positions
    np.testing.assert_array_equal(
        at_once(model, [*text, 0])[-1], at_once(model, [earlier[0], *text[1:], 0])[-1]
    )

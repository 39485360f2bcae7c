"""ONNX's operators of attention in terms of this package: names and conventions, nothing else.

Notable: a float mask is a bias; a rank-3 mask is (heads, n, m); causal and window count from the number of keys before
this block of queries; the fourth output is taken from the result of `attend`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import regard

Array = NDArray[Any]
FLOAT64 = 11  # the number of float64 in ONNX's enumeration


def split_heads(x: Array, heads: int) -> Array:
    """(batch, length, heads * size) -> (batch, heads, length, size)"""
    batch, length, hidden = x.shape
    return np.swapaxes(x.reshape(batch, length, heads, hidden // heads), 1, 2)


def join_heads(x: Array) -> Array:
    """(batch, heads, length, size) -> (batch, length, heads * size)"""
    batch, heads, length, size = x.shape
    return np.swapaxes(x, 1, 2).reshape(batch, length, heads * size)


def padded(attn_mask: Array, m: int) -> Array:
    """A mask may be shorter than the keys; the other keys are masked."""
    missing = [(0, 0)] * (attn_mask.ndim - 1) + [(0, m - attn_mask.shape[-1])]
    return np.pad(attn_mask, missing, constant_values=False if attn_mask.dtype == bool else -np.inf)


def visible(n: int, m: int, before: Array, attributes: dict[str, Any]) -> list[Array]:
    """The masks by position, (batch or 1, 1, n, m); `before` (batch or 1,) is the number of keys before the queries."""
    positions = before[:, None, None, None] + np.arange(n)[:, None]
    j = np.arange(m)
    masks = []
    if attributes.get("is_causal"):
        masks.append(j <= positions)
    left, right = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    if left >= 0:
        masks.append(positions - left <= j)
    if right >= 0:
        masks.append(j <= positions + right)
    return masks


def position_mask(n: int, m: int, inputs: dict[str, Array], attributes: dict[str, Any]) -> Any:
    """The mask by positions: objects where one alignment fits the entire batch, else an array; None for no limit."""
    causal = attributes.get("is_causal", 0)
    left, right = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    if "past_key" not in inputs and "nonpad_kv_seqlen" not in inputs:
        window = regard.mask.window(left if left >= 0 else None, right if right >= 0 else None, align="start")
        return window & regard.mask.causal(align="start") if causal else window
    before = (
        np.array([inputs["past_key"].shape[2]]) if "past_key" in inputs else inputs["nonpad_kv_seqlen"] - n
    )
    masks = visible(n, m, before, attributes)
    return np.logical_and.reduce(masks) if masks else None


def all_masks(n: int, m: int, inputs: dict[str, Array], attributes: dict[str, Any]) -> Any:
    """Position, padding and a bool attn_mask, combined."""
    mask = position_mask(n, m, inputs, attributes)
    extra = []
    if "nonpad_kv_seqlen" in inputs:
        extra.append(regard.mask.lengths(inputs["nonpad_kv_seqlen"][:, None]))
    if "attn_mask" in inputs and inputs["attn_mask"].dtype == bool:
        extra.append(padded(inputs["attn_mask"], m))
    for other in extra:
        mask = other if mask is None else combined(mask, other, n, m)
    return mask


def combined(a: Any, b: Any, n: int, m: int) -> Any:
    """Both: two objects compose, anything else as arrays."""
    if isinstance(a, np.ndarray) == isinstance(b, np.ndarray) and not isinstance(a, np.ndarray):
        return a & b
    a, b = (x if isinstance(x, np.ndarray) else x.dense(n, m) for x in (a, b))
    return a & b


def attention(inputs: dict[str, Array], attributes: dict[str, Any]) -> dict[str, Array]:
    """All four outputs of the Attention operator."""
    q, k, v = inputs["Q"], inputs["K"], inputs["V"]
    dtype, flat = q.dtype, q.ndim == 3
    if flat:
        q = split_heads(q, attributes["q_num_heads"])
        k, v = (split_heads(x, attributes["kv_num_heads"]) for x in (k, v))
    if "past_key" in inputs:
        k = np.concatenate((inputs["past_key"], k), axis=2)
        v = np.concatenate((inputs["past_value"], v), axis=2)
    present = k, v
    if attributes.get("softmax_precision") == FLOAT64:
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
    n, m = q.shape[-2], k.shape[-2]
    options: dict[str, Any] = {"scale": attributes.get("scale"), "softcap": attributes.get("softcap") or None}
    unmasked = dict(options)
    options["mask"] = all_masks(n, m, inputs, attributes)
    if "attn_mask" in inputs and inputs["attn_mask"].dtype != bool:
        options["bias"] = padded(inputs["attn_mask"], m)
    context = regard.attention(q, k, v, **options).astype(dtype)
    result = {
        "Y": join_heads(context) if flat else context,
        "present_key": present[0],
        "present_value": present[1],
    }
    result["qk_matmul_output"] = inspected(q, k, v, unmasked, options, attributes).astype(dtype)
    definition = regard.attend(q, k, v, **options).context.astype(dtype)
    result["Y by attend"] = join_heads(definition) if flat else definition
    return result


def inspected(
    q: Array,
    k: Array,
    v: Array,
    unmasked: dict[str, Any],
    options: dict[str, Any],
    attributes: dict[str, Any],
) -> Array:
    """The fourth output: 0 scaled scores, 1 after softcap, 2 with bias and mask, 3 weights."""
    mode = attributes.get("qk_matmul_output_mode", 0)
    if mode == 0:
        return regard.attend(q, k, v, **unmasked | {"softcap": None}).logits
    if mode == 1:
        return regard.attend(q, k, v, **unmasked).logits
    result = regard.attend(q, k, v, **options)
    return result.logits if mode == 2 else result.weights


def rotary_embedding(inputs: dict[str, Array], attributes: dict[str, Any]) -> Array:
    """The RotaryEmbedding operator.

    Its cosines and sines are any numbers, so a pair may grow as well as turn: pair p is turned by `rotary` by the angle
    of (cos, sin), and multiplied by their length.
    """
    x, cos, sin = inputs["input"], inputs["cos_cache"], inputs["sin_cache"]
    flat = x.ndim == 3
    if flat:
        x = split_heads(x, attributes["num_heads"])
    if "position_ids" in inputs:
        cos, sin = cos[inputs["position_ids"]], sin[inputs["position_ids"]]
    angle, length = np.arctan2(sin, cos)[:, None], np.hypot(cos, sin)[:, None]  # (batch, 1, n, pairs)
    dims = attributes.get("rotary_embedding_dim") or x.shape[-1]
    interleaved = bool(attributes.get("interleaved", 0))
    result = x.copy()
    for p in range(dims // 2):
        pair = [2 * p, 2 * p + 1] if interleaved else [p, p + dims // 2]
        turned = regard.position.rotary(x[..., pair], angle[..., p], interleaved=interleaved)
        result[..., pair] = length[..., p, None] * turned
    return join_heads(result) if flat else result


def linear_attention(inputs: dict[str, Array], attributes: dict[str, Any]) -> dict[str, Array]:
    """Both outputs of the LinearAttention operator, whose state has the dtype of the one before."""
    dtype, (heads, key_heads) = inputs["query"].dtype, (attributes[f"{x}_num_heads"] for x in ("q", "kv"))
    q = split_heads(inputs["query"], heads)
    k, v = (split_heads(inputs[name], key_heads) for name in ("key", "value"))
    options: dict[str, Any] = {"rule": attributes.get("update_rule", b"gated_delta").decode()}
    if "decay" in inputs:
        options["decay"] = split_heads(inputs["decay"], key_heads)
    if "beta" in inputs:
        options["beta"] = inputs["beta"].swapaxes(1, 2)
    before, scale = inputs.get("past_state"), attributes.get("scale") or None
    context, state = regard.linear.attention(q, k, v, **options, state=before, scale=scale)
    return {
        "output": join_heads(context),
        "present_state": state.astype(dtype if before is None else before.dtype),
    }


def flex_attention(inputs: dict[str, Array], attributes: dict[str, Any]) -> Array:
    """The FlexAttention operator, whose graphs change scores and weights.

    A graph that adds to the scores or masks them is a bias, any other a score function; one of the weights is applied
    to those of `attend`.
    """
    q, k, v = (inputs[name] for name in "QKV")
    scale = attributes.get("scale", q.shape[-1] ** -0.5)
    shape = (*q.shape[:2], q.shape[2], k.shape[2])
    options: dict[str, Any] = {"scale": scale}
    if "score_mod" in attributes:
        change = modifier(attributes["score_mod"])
        zeros, ones = np.zeros(shape, np.float32), np.ones(shape, np.float32)
        if np.array_equal(change(ones), change(zeros) + 1):
            options["bias"] = change(zeros)
        else:
            options = {"score": lambda queries, keys: change(scale * (queries @ keys.swapaxes(-1, -2)))}
    if "prob_mod" not in attributes:
        return regard.attention(q, k, v, **options)
    weights: Array = modifier(attributes["prob_mod"])(regard.attend(q, k, v, **options).weights) @ v
    return weights


def modifier(graph: Any) -> Any:
    """A function that evaluates a graph of one input and one output."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(helper.make_model(graph))
    return lambda x: evaluator.run(None, {graph.input[0].name: x})[0]

"""Calls of attention in models of other libraries, without any of these libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from errors import error

import regard
from regard._recorded import RecordedCall, RecordedCalls, expected_context, joined
from regard.show import page
from regard.show.page.long_attention import LongAttention
from regard.show.page.section import TokenLabels

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("n", [5, 700])
def test_the_context_of_blocks_of_queries_is_that_of_all(n: int) -> None:
    """Every option is restricted to the queries that are compared."""
    queries, keys, values = normal(2, 4, n, 3), normal(2, 2, 9, 3), normal(2, 2, 9, 2)
    mask = regard.mask.window(300, 400, align="start") & RNG.choice([True, False], (2, 1, n, 9))
    options = {"mask": mask, "bias": normal(4, n, 9), "scale": 0.3, "softcap": 2.0, "sink": normal(4)}
    call = RecordedCall(queries=queries, keys=keys, values=values, **options)
    expected = regard.attend(queries, keys, values, **options)
    np.testing.assert_allclose(call.weights, expected.weights, atol=1e-6)
    np.testing.assert_allclose(call.attention.context, expected.context, atol=1e-6)
    blocks = list(expected_context(call, values))
    assert [blocks[0][0].start, blocks[-1][0].stop] == [0, n]
    assert sum(rows.stop - rows.start for rows, _ in blocks) == min(n, 128)
    for rows, context in blocks:
        np.testing.assert_allclose(context, expected.context[..., rows, :], atol=1e-6)


def steps(keys: Any, *lengths: int, window: int = 100) -> list[RecordedCall]:
    """The calls of a generation whose passes read so many tokens; a cache keeps the last keys."""
    calls, end = [], 0
    for step, n in enumerate(lengths, 1):
        start, end = end, end + n
        kept = keys[:, max(0, start - window + 1) : end]
        mask = regard.mask.window(window - 1, 0, align="end")
        calls.append(
            RecordedCall(queries=keys[:, start:end], keys=kept, mask=mask, name="a", step=step, error=0.1 * n)
        )
    return calls


@pytest.mark.parametrize("window", [100, 4])
def test_the_steps_of_a_generation_are_joined(window: int) -> None:
    keys = normal(2, 9, 3)
    ((label, weights),) = joined(steps(keys, 4, 1, 3, 1, window=window))
    expected = regard.attend(keys, keys, keys, mask=regard.mask.window(window - 1, 0)).weights
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    assert label == "a, 4 steps, error 4e-01"


def test_passes_over_other_tokens_are_not_joined() -> None:
    first, other = steps(normal(2, 9, 3), 9), normal(2, 9, 3)
    again = RecordedCall(queries=other, keys=other, name="a", step=2)
    assert [label for label, _ in joined([*first, again])] == ["a, error 9e-01", "a (pass 2), error nan"]
    assert len(joined([*first, *first])) == 2


def test_calls_are_listed_and_shown() -> None:
    x = normal(1, 2, 5, 3)
    calls = RecordedCalls(
        [
            RecordedCall(queries=x, keys=x, name="layer", error=3e-8, dtype="float16"),
            RecordedCall(queries=x, keys=x, dropout=0.1),
        ]
    )
    calls.unseen["attn"] = "compiled"
    assert repr(calls) == (
        "2 calls of attention:\n"
        "  layer: (1, 2, 5, 3), 5 keys, error 3e-08 in float16\n"
        "  attention: (1, 2, 5, 3), 5 keys, dropout 0.1, not compared\n"
        "1 module called attention recorded nothing: attn (compiled)"
    )
    assert repr(page(calls)) == "HtmlPage('Attention': heads)"
    assert repr(page(calls[0], tokens=["a", "b", "c", "d", "e"])) == "HtmlPage('Attention': heads)"
    assert "layer, error 3e-08 in float16" in str(calls._repr_html_())
    assert RecordedCalls()._repr_html_() is None


@pytest.mark.slow
def test_a_large_call_is_summarized() -> None:
    x = normal(1, 1, 2100, 2)
    small, large = (
        RecordedCall(queries=x[..., :4, :], keys=x[..., :4, :]),
        RecordedCall(queries=x, keys=x, name="large", error=0.0),
    )
    shown = page([small, large, large])
    assert [section.view for section in shown.sections] == ["heads"] * 3
    assert shown.sections[1].title == "large, error 0e+00"


def test_summaries_have_the_sink() -> None:
    queries, keys, sink = normal(2, 6, 3), normal(2, 7, 3), np.array([0.0, 2.0], np.float32)
    weights = regard.attend(queries, keys, keys, sink=sink).weights
    for head in (0, 1):
        summary = LongAttention(queries, keys, sink=sink).summary(head, 7)
        np.testing.assert_allclose(summary.maximum, weights[head], atol=1e-6)


def test_tokens_name_the_sides_that_are_as_long() -> None:
    weights = np.full((2, 3), 1 / 3)
    group = page(weights, tokens=[["a", "b"], ["x", "y", "z"]]).sections[0].data["groups"][0]
    assert (group["rows"], group["columns"]) == (["a", "b"], ["x", "y", "z"])
    assert (
        error(ValueError, page, weights, tokens=["a", "b"])
        == "tokens must name each query and each key: 2 for 3"
    )
    assert error(ValueError, TokenLabels, [["a"], ["b"]]) == (
        "lists of tokens must differ in length. Got 1, 1 instead.\n"
        "  hint: show some calls with query_labels= and key_labels="
    )
    rule = "tokens must be a list of strings, or several lists of them."
    assert error(TypeError, TokenLabels, "ab") == error(TypeError, TokenLabels, []) == rule
    assert error(ValueError, page, weights, tokens=["a"], key_labels=["b"]).startswith(
        "tokens and query_labels and"
    )

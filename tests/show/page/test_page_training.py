"""Learning in the page: gradients are those of `attention_vjp`, and what is said of the scale is what happens."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import regard
from regard.show import HtmlPage
from regard.show.page import descent
from regard.show.page.chapters import story
from regard.show.page.examples import learning

Arrays = dict[str, np.ndarray]
SEED = 7
STEPS = 40


@pytest.fixture
def tab(opened: Any) -> Any:
    return opened(HtmlPage([learning()]))


def learned(sentence: dict[str, Any], weights: Arrays, scale: float) -> tuple[float, np.ndarray, np.ndarray]:
    """The loss of a sentence, and the gradients of query and key weights."""
    words, row = np.array(sentence["words"], float), sentence["row"]
    query, key, value = (weights[f"{name}_weight"] for name in ("query", "key", "value"))
    context, pullback = regard.attention_vjp(
        words[row : row + 1] @ query, words @ key, words @ value, scale=scale
    )
    error = context - np.array(sentence["target"], float)
    gradients = pullback(error)
    return (
        float((error**2).sum() / 2),
        words[row : row + 1].T @ gradients.queries,
        words.T @ gradients.keys,
    )


def as_arrays(stage: dict[str, Any]) -> Arrays:
    return {name: np.array(stage[name], float) for name in ("query_weight", "key_weight", "value_weight")}


@pytest.mark.slow
@pytest.mark.parametrize(("m", "width", "d", "e"), [(3, 3, 2, 2), (5, 4, 8, 3), (1, 2, 1, 1)])
def test_the_gradients_are_those_of_attention_vjp(tab: Any, m: int, width: int, d: int, e: int) -> None:
    rng = np.random.default_rng(SEED)
    weights = {
        f"{name}_weight": rng.normal(size=(width, size))
        for name, size in (("query", d), ("key", d), ("value", e))
    }
    sentence = {
        "words": rng.normal(size=(m, width)).tolist(),
        "row": m - 1,
        "target": rng.normal(size=e).tolist(),
    }
    for scale in (1.0, 1 / math.sqrt(d)):
        loss, query, key = learned(sentence, weights, scale)
        arguments = [sentence, {name: array.tolist() for name, array in weights.items()}, scale]
        computed = tab.evaluate("([a, b, c]) => regard.learn(a, b, c)", arguments)
        np.testing.assert_allclose(computed["loss"], loss, rtol=1e-9)
        np.testing.assert_allclose(computed["query_weight"], query, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(computed["key_weight"], key, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["2", "64"])
@pytest.mark.parametrize("scale", ["root", "none"])
def test_each_step_goes_down_the_mean_gradient(tab: Any, size: str, scale: str) -> None:
    data = dict(learning().data)
    state = {"start": 3, "size": size, "scale": scale, "step": 4}
    stages = tab.evaluate("([data, state]) => regard.trained(data, state)", [data, state])
    factor = 1 / math.sqrt(int(size)) if scale == "root" else 1.0
    for before, after in itertools.pairwise(stages):
        losses, queries, keys = zip(
            *(learned(sentence, as_arrays(before), factor) for sentence in data["sentences"]), strict=True
        )
        assert before["loss"] == pytest.approx(np.mean(losses), rel=1e-9)
        for name, gradients in (("query_weight", queries), ("key_weight", keys)):
            expected = as_arrays(before)[name] - 0.5 * np.mean(gradients, axis=0)
            np.testing.assert_allclose(after[name], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "scale"), [(2, "root"), (64, "root"), (64, "none")])
def test_the_losses_of_the_figure_are_those_of_the_page(tab: Any, size: int, scale: str) -> None:
    data = dict(learning().data)
    state = {"start": descent.RULES["start"], "size": str(size), "scale": scale, "step": STEPS}
    stages = tab.evaluate("([data, state]) => regard.trained(data, state)", [data, state])
    found = descent.losses(data, size, size**-0.5 if scale == "root" else 1.0)
    np.testing.assert_allclose(found, [stage["loss"] for stage in stages], rtol=1e-6)


@pytest.mark.slow
def test_without_the_scale_three_of_four_starts_with_64_numbers_stand_still(tab: Any) -> None:
    """So the chapter says. With the scale nearly all learn, whatever their size."""
    ends = """([data, size, scale, step]) => Array.from({ length: 100 }, (_, k) =>
        regard.trained(data, { start: k + 1, size, scale, step }).at(-1).loss)"""
    still = {
        (size, scale): np.mean(
            np.array(tab.evaluate(ends, [dict(learning().data), size, scale, STEPS])) > 0.3
        )
        for size, scale in (("2", "root"), ("64", "root"), ("64", "none"))
    }
    assert still["2", "root"] <= 0.05
    assert still["64", "root"] <= 0.05
    assert still["64", "none"] == pytest.approx(0.75, abs=0.1)


@pytest.mark.slow
def test_numbers_at_the_start_are_normal(tab: Any) -> None:
    first = "data => regard.trained(data, { start: 5, size: '4000', scale: 'root', step: 0 })[0].query_weight"
    numbers = np.array(tab.evaluate(first, dict(learning().data))).ravel()
    assert numbers.mean() == pytest.approx(0, abs=0.02)
    assert numbers.std() == pytest.approx(0.5, abs=0.02)
    assert np.mean(np.abs(numbers) < 0.5) == pytest.approx(0.6827, abs=0.02)


@pytest.mark.slow
def test_steps_are_taken_undone_and_kept_in_the_address(opened: Any, accessible: Any) -> None:
    tab = opened(HtmlPage(story(["queries"])), width=1280, height=800)
    heading = tab.locator(".sentence").first
    first = heading.inner_text()
    assert first.startswith("Step 0, loss 0.46:")
    tab.get_by_role("button", name="One step").click()
    assert heading.inner_text().startswith("Step 1,")
    tab.get_by_role("button", name="Run").click()
    assert heading.inner_text().startswith(f"Step {STEPS}, loss \u22480: bank gives 97")
    assert heading.bounding_box()["y"] < 800
    tab.wait_for_url(lambda address: "step=40" in address)
    other = tab.context.new_page()
    other.goto(tab.url)
    assert other.locator(".sentence").first.inner_text() == heading.inner_text()
    tab.get_by_text("The three matrices").click()
    accessible(tab)
    tab.get_by_role("button", name="Undo").click()
    assert heading.inner_text().startswith("Step 1,")
    tab.get_by_role("button", name="Reset").click()
    assert heading.inner_text() == first


@pytest.mark.slow
def test_the_guess_about_the_scale_is_shown(opened: Any) -> None:
    tab = opened(HtmlPage(story(["queries"])))
    tab.get_by_role("button", name="Mostly not at all").click()
    assert tab.get_by_role("radio", name="64").get_attribute("aria-checked") == "true"
    assert (
        "loss 0.50: bank gives 100.0\u00a0% to river, \u22480\u00a0% to money"
        in tab.locator(".sentence").first.inner_text()
    )
    tab.get_by_role("radio", name="1 / \u221ad").click()
    assert "Step 0," in tab.locator(".sentence").first.inner_text()
    tab.get_by_role("button", name="Run").click()
    assert "loss \u22480: bank gives 95" in tab.locator(".sentence").first.inner_text()

"""The mechanism: its numbers are those of NumPy, whatever a reader chooses or changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import regard
from regard import mask, scores, weights
from regard.show import page
from regard.show.page.examples import reordering
from regard.show.page.mechanism import mechanism
from regard.show.page.section import Section

RNG = np.random.default_rng(5)
QUERIES, KEYS, VALUES = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=(5, 2))
SCORES: dict[str, Any] = {
    "dot": "dot",
    "scaled_dot": "scaled_dot",
    "cosine": scores.cosine(3.0),
    "gaussian": scores.gaussian(0.7),
    "general": scores.general(RNG.normal(size=(3, 3))),
    "location": scores.location(RNG.normal(size=(3, 6))),
    "additive": scores.additive(RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2)), RNG.normal(size=2)),
    "biased": scores.additive(
        RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2)), RNG.normal(size=2), RNG.normal(size=2)
    ),
    "projected": scores.additive(None, None, RNG.normal(size=3)),
    "concat": scores.concat(RNG.normal(size=(6, 4)), RNG.normal(size=4)),
}
MASKS: dict[str, Any] = {
    "none": None,
    "causal at the start": mask.causal("start"),
    "causal at the end": mask.causal("end"),
    "window": mask.window(1, 0, "start"),
    "open window": mask.window(None, 1, "end"),
    "rows that see nothing": mask.window(0, 0, "end") & ~mask.window(0, 0, "start") & mask.causal("start"),
    "array": RNG.random((4, 5)) < 0.5,
    "row": np.array([True, False, True, True, False]),
}
PARTS = ("scores", "logits", "weights", "context")


def numbers(rows: Any) -> np.ndarray:
    """What came back from the browser, where infinity is none."""
    return np.array(rows, dtype=np.float64)


def recomputed(tab: Any, sections: list[Section]) -> list[dict[str, np.ndarray]]:
    """What the page's own functions make of the data of sections."""
    code = """all => all.map((data) => {
        const own = { ...data.options, queries: data.queries, keys: data.keys, values: data.values };
        const found = data.decoder ? regard.decode({ ...own, decoder: data.decoder }) : regard.compute(own);
        return Object.fromEntries(%s.map((part) => [part, found[part]]));
    })"""
    parts = [*PARTS, "states"] if "decoder" in sections[0].data else list(PARTS)
    found = tab.evaluate(code % parts, [dict(section.data) for section in sections])
    return [{part: numbers(rows) for part, rows in one.items()} for one in found]


def same(found: dict[str, np.ndarray], expected: regard.Attention) -> None:
    for part in PARTS:
        np.testing.assert_allclose(found[part], getattr(expected, part), rtol=1e-10, atol=1e-12, err_msg=part)


@pytest.fixture(scope="module")
def tab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page whose functions are called without its view."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    page(QUERIES, KEYS, VALUES).save(path)
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(path.as_uri())
    yield tab
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("score", SCORES)
def test_the_page_computes_what_attend_computes(tab: Any, score: str) -> None:
    """Each score with every mask, normalisation, scale and softcap."""
    choices = list(product(MASKS.values(), weights.NAMED, (None, 0.7), (None, 1.5)))
    options = [
        {"score": SCORES[score], "mask": visible, "normalize": step, "scale": scale, "softcap": softcap}
        for visible, step, scale, softcap in choices
    ]
    sections = [mechanism(QUERIES, KEYS, VALUES, **own) for own in options]
    for found, own in zip(recomputed(tab, sections), options, strict=True):
        same(found, regard.attend(QUERIES, KEYS, VALUES, **own))


@pytest.mark.slow
@pytest.mark.parametrize("normalize", weights.NAMED)
def test_large_equal_and_zero_numbers_are_those_of_attend(tab: Any, normalize: str) -> None:
    """Exponentials that would overflow, ties, zero vectors, and scores that do overflow."""
    arrays = [
        (np.array([[1e5, -1e5]]), np.array([[1.0, 0], [1, 0], [-1, 1]]), np.eye(3)),
        (np.zeros((2, 2)), np.zeros((3, 2)), np.arange(6.0).reshape(3, 2)),
        (np.array([[1e200, 1e200]]), np.array([[1e200, 0], [0, 1], [-1e200, 0]]), np.eye(3)),
        (np.array([[1e-200, 0]]), np.array([[1e-200, 0], [0, 1e200]]), np.eye(2)),
        (np.array([[2.0]]), np.array([[3.0]]), np.array([[4.0]])),
    ]
    for name in ("dot", "scaled_dot", "cosine", "gaussian"):
        sections = [mechanism(*own, score=name, normalize=normalize) for own in arrays]
        for found, own in zip(recomputed(tab, sections), arrays, strict=True):
            same(found, regard.attend(*own, score=name, normalize=normalize))


@pytest.mark.slow
def test_a_decoder_is_the_recurrence_of_its_contexts(tab: Any) -> None:
    section = reordering()
    (found,) = recomputed(tab, [section])
    data, options = section.data, section.data["options"]
    score = scores.additive(options["query_weight"], options["key_weight"], options["vector"])
    states, attended = [np.array(data["queries"][0])], []
    for _ in range(3):
        step = regard.attend(states[-1][None], data["keys"], data["keys"], score=score)
        attended.append(step.weights[0])
        states.append(
            np.tanh(
                states[-1] @ np.array(data["decoder"]["state_weight"])
                + step.context[0] @ np.array(data["decoder"]["context_weight"])
            )
        )
    np.testing.assert_allclose(found["states"], states, rtol=1e-12)
    np.testing.assert_allclose(found["weights"], attended, rtol=1e-12)
    assert np.argmax(found["weights"], axis=1).tolist() == [0, 2, 1]  # le chat noir: the cat black
    assert found["weights"].max(axis=1).min() > 0.75

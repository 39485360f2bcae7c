"""The mechanism: its numbers are those of NumPy, whatever a reader chooses or changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import regard
from regard import mask, scores, weights
from regard.show import page
from regard.show.page.examples import reordering
from regard.show.page.mechanism import decoder, mechanism, with_words
from regard.show.page.section import Section, weight_faults
from regard.show.steps import TEXTS

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
    "causal from a key on": mask.causal(align=1),
    "window": mask.window(1, 0, "start"),
    "open window": mask.window(None, 1, "end"),
    "rows that see nothing": mask.window(0, 0, "end") & ~mask.window(0, 0, "start") & mask.causal("start"),
    "array": RNG.random((4, 5)) < 0.5,
    "row": np.array([True, False, True, True, False]),
}
PARTS = ("scores", "logits", "weights", "context")


def numbers(rows: Any) -> np.ndarray:
    """Numbers from the browser, whose infinities are null."""
    return np.array(rows, dtype=np.float64)


def recomputed(tab: Any, sections: list[Section]) -> list[dict[str, np.ndarray]]:
    """The results of the page's own functions for the data of sections."""
    code = """all => all.map((data) => {
        const own = { ...data.options, queries: data.queries, keys: data.keys, values: data.values };
        const result = data.decoder ? regard.decode({ ...own, decoder: data.decoder }) : regard.compute(own);
        return Object.fromEntries(%s.map((part) => [part, result[part]]));
    })"""
    parts = [*PARTS, "states"] if "decoder" in sections[0].data else list(PARTS)
    results = tab.evaluate(code % parts, [dict(section.data) for section in sections])
    return [{part: numbers(rows) for part, rows in one.items()} for one in results]


def same(computed: dict[str, np.ndarray], expected: regard.Attention) -> None:
    for part in PARTS:
        np.testing.assert_allclose(
            computed[part], getattr(expected, part), rtol=1e-10, atol=1e-12, err_msg=part
        )


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
    for computed, own in zip(recomputed(tab, sections), options, strict=True):
        same(computed, regard.attend(QUERIES, KEYS, VALUES, **own))


WORKED = {  # of the query (1, 2) and the key (3, -4), by hand; the weight of general and location is [[2, 0], [1, 1]]
    "dot": "1·3 + 2·(−4) = −5",
    "scaled_dot": "1·3 + 2·(−4) = −5",
    "cosine": "2 · −5 / (2.2361 · 5) = −0.8944",
    "gaussian": "−40 / (2 · 2²) = −5",
    "general": "4·3 + 2·(−4) = 4",
    "location": "1·2 + 2·1 = 4",
    "additive": "1·0.9951 + 0·(−0.9993) = 0.9951",
}


@pytest.mark.slow
def test_every_score_has_a_worked_line_that_gives_it(tab: Any) -> None:
    """The tables of the page, of its texts and of the package have the same scores; a new one has a line here."""
    drawn = {"query_weight": [[0, 0], [0, 0]], "key_weight": [[1, 0], [0, 1]], "vector": [1, 0], "bias": None}
    options = {"width": 2, "sharpness": 2, "weight": [[2, 0], [1, 1]], **drawn}
    pair = {"queries": [[1, 2]], "keys": [[3, -4]], "values": [[1]]}
    code = """([score, own]) => regard.workedScore(
        { ...own, score }, own.queries[0], own.keys[0], regard.compute({ ...own, score }).scores[0][0], 0)"""
    tab.evaluate("regard.digits = 4")
    lines = {score: tab.evaluate(code, [score, pair | options]) for score in TEXTS["scores"]}
    assert lines == WORKED


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
        for computed, own in zip(recomputed(tab, sections), arrays, strict=True):
            same(computed, regard.attend(*own, score=name, normalize=normalize))


@pytest.mark.slow
def test_a_decoder_is_the_recurrence_of_its_contexts(tab: Any) -> None:
    section = reordering()
    (computed,) = recomputed(tab, [section])
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
    np.testing.assert_allclose(computed["states"], states, rtol=1e-12)
    np.testing.assert_allclose(computed["weights"], attended, rtol=1e-12)
    assert np.argmax(computed["weights"], axis=1).tolist() == [0, 2, 1]  # le chat noir: the cat black
    assert computed["weights"].max(axis=1).min() > 0.75


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (
            (np.eye(2), np.eye(2), np.eye(2)),
            {"query_labels": ["a"]},
            "labels must name each query: 1 label for 2",
        ),
        (
            (np.eye(2), np.eye(2), np.eye(2)),
            {"key_labels": "ab"},
            "labels must be a sequence of strings. Got one string",
        ),
        ((np.eye(2), np.eye(3), np.eye(2)), {}, "keys and values must share their length m: 3 and 2"),
        (([],), {}, "there is nothing to show: the list is empty"),
        (
            (np.eye(2), np.eye(2)),
            {},
            "page takes queries, keys and values, or an Attention, a Translation, ",
        ),
        (
            (np.eye(2), np.eye(2), np.eye(2)),
            {"softcap": 0},
            "softcap must be greater than 0. Got 0.0 instead.",
        ),
        ((np.eye(2), np.eye(2), np.eye(2)), {"normalize": "softmin"}, "normalize must be one of 'softmax'"),
        ((np.eye(2), np.ones((3, 2)), np.eye(3)), {"mask": mask.causal()}, 'causal needs align="start" or'),
    ],
)
def test_what_cannot_be_shown_is_an_error(arguments: Any, options: dict[str, Any], error: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        page(*arguments, **options)
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("weights", "faults"),
    [
        ([[0.25, 0.75], [0, 0]], []),
        (np.full((2, 3000), 1 / 3000, np.float16), []),
        ([[0.5, 0.25], [0, 1]], ["1 of 2 rows sums to neither 0 nor 1, such as row 1: 0.75"]),
        ([[1.5, -0.5], [0, 1]], ["1 weight is negative, such as row 1, column 2: -0.5"]),
        (
            [[[np.nan, 1.0]], [[1.0, np.nan]]],
            ["2 weights are not a number, such as head 1, row 1, column 1: nan"],
        ),
        (
            [[-1.0, -1.0]] * 2,
            [
                "4 weights are negative, such as row 1, column 1: -1",
                "2 of 2 rows sum to neither 0 nor 1, such as row 1: -2",
            ],
        ),
    ],
)
def test_faults_of_weights_are_described(weights: Any, faults: list[str]) -> None:
    assert weight_faults(weights) == faults


@pytest.mark.slow
def test_numbers_that_are_no_weights_are_shown_with_a_warning(opened: Any) -> None:
    attention = regard.attend(np.eye(2), np.eye(2), np.eye(2))
    wrong = dataclasses.replace(attention, weights=np.array([[0.5, 0.25], [np.nan, -1]]))
    tab = opened(page(wrong))
    assert tab.locator(".warning:visible").all_inner_texts() == weight_faults(wrong.weights)
    assert tab.locator("section").count() == 1


def test_a_notebook_shows_an_attention_and_what_was_recorded() -> None:
    with regard.record() as recorded:
        attention = regard.attend(QUERIES, KEYS, VALUES)
    for shown in (attention, recorded):
        assert shown._repr_html_().startswith("<iframe")
    with regard.record(keep="lse") as recorded:
        regard.attend(QUERIES, KEYS, VALUES)
    for nothing in (recorded, recorded[0], regard.attend(QUERIES[:0], KEYS, VALUES)):
        assert nothing._repr_html_() is None
    with regard.record(keep="weights") as recorded:
        regard.attend(QUERIES, KEYS, VALUES)
    assert recorded[0]._repr_html_().startswith("<iframe")


def test_a_page_records_nothing() -> None:
    with regard.record() as recorded:
        page(QUERIES, KEYS, VALUES)
    assert recorded == []


def test_other_attentions_than_a_page_computes_are_shown_as_they_are() -> None:
    near = weights.local_p(np.full(4, 2.0), width=2.0)

    def distance(queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        return -np.abs(queries[:, None, 0] - keys[None, :, 0])

    for options in ({"normalize": near}, {"score": distance}, {"score": scores.cosine([1.0, 2, 3, 4])}):
        (section,) = page(QUERIES, KEYS, VALUES, **options).sections
        expected = regard.attend(QUERIES, KEYS, VALUES, **options)
        np.testing.assert_array_equal(section.data["given"]["weights"], expected.weights)


def test_words_must_lead_to_the_queries_keys_and_values_of_the_section() -> None:
    eye, section = np.eye(2), mechanism(np.eye(2), np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match="words @ key_weight must be the keys of the section"):
        with_words(section, eye, eye, 2 * eye, eye)


def test_the_matrices_of_a_decoder_must_fit_its_states() -> None:
    eye, score = np.eye(2), scores.additive(np.eye(2), np.eye(2), [1, 1])
    with pytest.raises(ValueError, match=r"context_weight must have shape \(2, 2\)\. Got \(3, 2\) instead\."):
        decoder(eye, [1, 0], score, eye, np.ones((3, 2)), steps=2)
    with pytest.raises(ValueError, match=r"labels must name each step: 3 labels for 2"):
        decoder(eye, [1, 0], score, eye, eye, steps=2, target=["a", "b", "c"])

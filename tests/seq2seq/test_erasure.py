"""What target tokens lose without each source token, against scoring sources that were changed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import attribution
from regard.seq2seq import Ensemble, Images, Seq2Seq, Vectors
from regard.seq2seq.translator import Translator

SMALL = {"embedding": 8, "encoder": 8, "decoder": 16, "attention": 8}
SOURCES = ["a b c", "b c", "c a a", "b", "a c b b"]
TARGETS = [text.upper() for text in SOURCES]


def trained(**options: Any) -> Seq2Seq:
    return Seq2Seq(network=SMALL, epochs=5, seed=3, **options).fit(SOURCES, TARGETS)


@pytest.fixture(scope="module")
def model() -> Seq2Seq:
    return trained()


def by_hand(model: Translator, words: list[str], target: str, erase: Any) -> np.ndarray:
    """The same by texts: `erase` returns the words without the one at a place."""
    (complete,) = model.align([" ".join(words)], [target])
    without = model.align([" ".join(erase(words, j)) for j in range(len(words))], [target] * len(words))
    count = len(complete.tokens)
    losses = [complete.log_probabilities[:count] - each.log_probabilities[:count] for each in without]
    return np.array(losses).T


@pytest.mark.parametrize("words", ["a b c", "b", "c c a b"])
def test_a_source_is_scored_without_each_token(model: Seq2Seq, words: str) -> None:
    (translation,) = model.align([words], ["A B"])
    source = words.split()
    unknown = by_hand(model, source, "A B", lambda x, j: [*x[:j], "never-seen", *x[j + 1 :]])
    left_out = by_hand(model, source, "A B", lambda x, j: [*x[:j], *x[j + 1 :]])
    for losses, expected in (
        (model.erasure(translation), unknown),
        (model.erasure(translation, by="unknown"), unknown),
        (model.erasure(translation, by="deletion"), left_out),
    ):
        assert losses.shape == translation.alignment.shape
        np.testing.assert_allclose(losses[:, :-1], expected, atol=1e-5)
        assert not losses[:, -1].any()


def test_an_ensemble_loses_what_its_mean_loses(model: Seq2Seq) -> None:
    ensemble = Ensemble([model, trained()])
    (translation,) = ensemble.align(["a b c"], ["A B C"])
    np.testing.assert_allclose(ensemble.erasure(translation), model.erasure(translation), atol=1e-5)


def test_an_unknown_token_costs_nothing(model: Seq2Seq) -> None:
    (translation,) = model.align(["a x b"], ["A B"])
    np.testing.assert_allclose(model.erasure(translation)[:, 1], 0, atol=1e-6)


def test_vectors_become_their_mean() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(m, 2)).astype(np.float32) for m in (3, 2, 4, 1)]
    model = Seq2Seq(source=Vectors(2), target="tokens", network=SMALL, epochs=3)
    model.fit(rows, ["A B", "B", "A", "B B"])
    (translation,) = model.align(rows[:1], ["A B"])
    losses = model.erasure(translation, rows[0])
    for j in range(3):
        changed = rows[0].copy()
        changed[j] = rows[0].mean(axis=0)
        (without,) = model.align([changed], ["A B"])
        expected = (translation.log_probabilities - without.log_probabilities)[:2]
        np.testing.assert_allclose(losses[:, j], expected, atol=1e-4)
    assert model.erasure(translation, rows[0], by="deletion").shape == (2, 3)
    (alone,) = model.align(rows[3:], ["B"])
    with pytest.raises(ValueError, match=r"by must be one of 'mean'"):
        model.erasure(alone, rows[3], by="deletion")


def test_cells_of_a_picture_become_their_mean() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (4, 8, 12)).astype(np.uint8)
    model = Seq2Seq(source=Images(8, 12), target="tokens", network=SMALL, epochs=3)
    model.fit(list(pictures), ["A", "B", "A B", "B A"])
    (caption,) = model.align(pictures[:1], ["A B"])
    losses = model.erasure(caption, pictures[0])
    assert caption.grid == (2, 3)
    cells = pictures[0].reshape(2, 4, 3, 4).swapaxes(1, 2)  # rows and columns of cells of 4 x 4
    mean = cells.mean(axis=(0, 1))
    for i, j in np.ndindex(2, 3):
        changed = pictures[0].astype(np.float32) / 255
        changed[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] = mean / 255
        (without,) = model.align([changed], ["A B"])
        expected = (caption.log_probabilities - without.log_probabilities)[:2]
        np.testing.assert_allclose(losses.reshape(2, 2, 3)[:, i, j], expected, atol=1e-4)
    with pytest.raises(ValueError, match=r"by must be one of 'mean'"):
        model.erasure(caption, pictures[0], by="deletion")


def test_outputs_lose_what_is_most_important_for_each(model: Seq2Seq) -> None:
    """Of two tokens each share erases the first, and keeps it alone: both losses are entries of the erasure."""
    (translation,) = model.align(["a b"], ["A B"])
    losses = model.erasure(translation)[:, :2]
    result = model.faithfulness(translation, np.array([[2.0, 1.0, 9.0], [1.0, 2.0, 9.0]]))
    np.testing.assert_allclose(result.comprehensiveness, losses.diagonal(), atol=1e-6)
    np.testing.assert_allclose(result.sufficiency, losses[[0, 1], [1, 0]], atol=1e-6)
    with pytest.raises(ValueError, match=r"importance must be \(2, 3\)\. Got shape \(2, 1\) instead"):
        model.faithfulness(translation, np.ones((2, 1)))
    with pytest.raises(
        ValueError, match=r"importance must be \(2, 2\) as outputs are\. Got \(3, 2\) instead"
    ):
        model.faithfulness(translation, np.ones((3, 3)))


def test_text_has_no_mean(model: Seq2Seq) -> None:
    (translation,) = model.align(["a"], ["A"])
    with pytest.raises(ValueError, match=r"by must be one of 'unknown', 'deletion'\. Got 'mean' instead"):
        model.erasure(translation, by="mean")


@pytest.mark.slow
def test_importance_finds_the_token_that_each_output_is_a_copy_of() -> None:
    """The planted answer: an output is its source in reverse, letter by letter."""
    rng = np.random.default_rng(1)
    sources = ["".join(rng.choice(list("abcdefgh"), rng.integers(3, 7), replace=False)) for _ in range(600)]
    model = Seq2Seq(source="characters", target="tokens", epochs=40, network={"encoder": 32, "decoder": 64})
    model.fit(sources, [" ".join(reversed(text)) for text in sources])
    asked = ["".join(rng.permutation(list("abcdefgh"))[:5]) for _ in range(60)]
    right = [each for each in model.translate(asked) if each.tokens == (*reversed(each.source[:-1]),)]
    assert len(right) > 40
    importance = [model.erasure(each)[:, :-1] for each in right]
    planted = [np.eye(5)[::-1] for _ in right]
    assert attribution.agreement(importance, planted).top.value > 0.99

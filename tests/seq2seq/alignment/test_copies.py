"""Unknown target words: the source words that they copy, by hand, by exhaustive search, and in every search."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.seq2seq.alignment.links import copies
from regard.seq2seq.ensemble import Ensemble
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.base import Stepper
from regard.seq2seq.sources import Text
from regard.seq2seq.sources.text.tokenizers import Words
from regard.seq2seq.sources.text.vocabulary import END, LONGEST_TOKEN, UNKNOWN, Vocabulary
from regard.seq2seq.storage.model_file import Model
from regard.seq2seq.translator import Translation, Translator

Array = NDArray[Any]

# ------------------------------------------------------------------------------------------------------ by hand


@pytest.mark.parametrize(
    ("weights", "unknown", "chosen"),
    [
        # Both attend to the full stop most; the names are at 1 and 3.
        ([[0.1, 0.2, 0.0, 0.1, 0.6], [0.0, 0.1, 0.0, 0.2, 0.7]], [0, 1, 0, 1, 0], [1, 3]),
        # The first prefers position 0 a little, the second far more: 0.3 * 0.5 > e * 0.4 * 0.1.
        ([[0.4, 0.3], [0.5, 0.1]], [1, 1], [1, 0]),
        # 0.2 * 0.2 is twice 0.1 * 0.2: too little to change the order of names, enough for other words.
        ([[0.1, 0.2, 0.7], [0.2, 0.2, 0.6]], [1, 1, 0], [0, 1]),
        ([[0.1, 0.2], [0.2, 0.2]], [0, 0], [1, 0]),
        ([[0.2, 0.2, 0.2, 0.4]] * 3, [1, 1, 1, 0], [0, 1, 2]),
        # One name for two words: that of the larger weight copies it, the other one its most attended token.
        ([[0.3, 0.6, 0.1], [0.5, 0.4, 0.1]], [1, 0, 0], [1, 0]),
        # No unknown source word: each once, the likeliest assignment.
        ([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1]], [0, 0, 0], [0, 1]),
        # More words than the source has: what is left copies where its weight is largest.
        ([[0.9], [0.8], [0.7]], [0], [0, 0, 0]),
        ([[0.2, 0.8], [0.7, 0.3], [0.4, 0.6]], [0, 1], [1, 0, 1]),
        # Weights of 0, outside a window: the name all the same.
        ([[1.0, 0.0, 0.0]], [0, 0, 1], [2]),
        ([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [0, 1, 1], [1, 2]),
        ([], [1, 0], []),
    ],
)
def test_unknown_words_are_copied_first_and_once(
    weights: list[list[float]], unknown: list[int], chosen: list[int]
) -> None:
    positions = copies(np.array(weights).reshape(len(weights), len(unknown)), np.array(unknown, bool))
    assert positions == chosen


@pytest.mark.slow
@given(
    st.integers(1, 4).flatmap(
        lambda m: st.tuples(
            st.lists(st.lists(st.floats(0.01, 1), min_size=m, max_size=m), min_size=1, max_size=4),
            st.lists(st.booleans(), min_size=m, max_size=m),
        )
    )
)
def test_the_assignment_is_the_most_probable(case: tuple[list[list[float]], list[bool]]) -> None:
    weights, unknown = np.array(case[0]), np.array(case[1])
    n, m = weights.shape
    chosen = copies(weights, unknown)
    assert len(set(chosen)) == min(n, m)
    assert unknown[list(set(chosen))].sum() == min(n, unknown.sum())  # all that can be copied are

    names = np.flatnonzero(unknown).tolist()
    count = min(n, len(names))

    def likely(pairs: list[tuple[int, int]]) -> float:
        moved = sum(abs((i + 0.5) / n - (names.index(j) + 0.5) / len(names)) for i, j in pairs)
        return float(np.sum([np.log(weights[i, j]) for i, j in pairs])) - count / 2 * moved * (count > 1)

    own = [(i, j) for i, j in enumerate(chosen) if unknown[j]]
    if count and n <= m:
        every = (
            list(zip(rows, columns, strict=True))
            for rows in permutations(range(n), count)
            for columns in permutations(names, count)
        )
        assert likely(own) == pytest.approx(max(map(likely, every)))


# ---------------------------------------------------------------------------------------------- in every search

VOCABULARY = Words(Vocabulary(["<pad>", "<s>", "</s>", "<unk>", "voit", "."]))
SOURCE = Words(Vocabulary(["<pad>", "<s>", "</s>", "<unk>", "sees", "."]))
PREDICTED = [UNKNOWN, 4, UNKNOWN, 5, END]
# Over "Bu sees Ka . </s>": the names have small weights, and the second one its largest at the first step.
WEIGHTS_BY_STEP = [
    [0.1, 0.2, 0.2, 0.5, 0.0],
    [0.0, 1.0, 0.0, 0.0, 0.0],
    [0.0, 0.1, 0.3, 0.6, 0.0],
    [0.0, 0.0, 0.0, 1.0, 0.0],
    [0.0, 0.0, 0.0, 0.0, 1.0],
]


class Recited(Stepper):
    """A network that always predicts the same tokens and attends to the same positions."""

    def __init__(self) -> None:
        self.step = 0

    def stepper(self, source: Array, lengths: Array, width: int = 1) -> Recited:
        return Recited()

    def __call__(self, words: Array) -> tuple[Array, Array]:
        logits = np.full((*words.shape, len(VOCABULARY)), -9.0)
        logits[..., PREDICTED[min(self.step, 4)]] = 9.0
        weights = np.array(WEIGHTS_BY_STEP[min(self.step, 4)])
        self.step += 1
        return logits, np.broadcast_to(weights, (*words.shape, 5))

    def select(self, parents: Array) -> None:
        """All hypotheses are the same."""

    def keep(self, sentences: Array) -> None:
        """All sentences are the same."""


class Reciter(Translator):
    """A translator with such a network."""

    @property
    def model(self) -> Model[Any]:
        return Model(Recited(), Text.of(SOURCE), VOCABULARY)

    @property
    def attention(self) -> bool:
        return True


PATHS: dict[str, Callable[[Translator, str], Translation]] = {
    "greedy": lambda model, line: model.translate([line], beam=1)[0],
    "beam": lambda model, line: model.translate([line])[0],
    "n-best": lambda model, line: model.candidates([line], beam=3, n_best=2)[0][0],
    "sample": lambda model, line: model.sample([line], temperature=0.1)[0][0],
    "ensemble": lambda model, line: Ensemble([model, model]).translate([line])[0],
}


@pytest.mark.parametrize("path", PATHS)
def test_every_search_copies_names(path: str) -> None:
    translation = PATHS[path](Reciter(), "Bu sees Ka .")
    assert translation.text == "Bu voit Ka ."
    assert translation.ids == (UNKNOWN, 4, UNKNOWN, 5)  # as they were predicted
    assert translation.alignment is not None
    np.testing.assert_allclose(translation.alignment, WEIGHTS_BY_STEP[:4])  # unchanged


@pytest.mark.parametrize("length", [LONGEST_TOKEN, LONGEST_TOKEN + 1])
def test_a_very_long_name_is_not_copied(length: int) -> None:
    name = "K" * length
    (translation,) = Reciter().translate([f"Bu sees {name} ."])
    assert translation.text == f"Bu voit {name if length == LONGEST_TOKEN else '<unk>'} ."


def test_a_given_translation_is_unchanged() -> None:
    (translation,) = Reciter().align(["Bu sees Ka ."], ["Ka voit Bu ."])
    assert translation.text == "Ka voit Bu ."


# ------------------------------------------------------------------------------------------------ invented names

FRAMES = [
    ("I see {} and {} .", "je vois {} et {} ."),
    ("{} gives {} a book .", "{} donne un livre à {} ."),
    ("where are {} and {} ?", "où sont {} et {} ?"),
    ("{} knows that {} is here .", "{} sait que {} est ici ."),
]


def invented(count: int, seed: int) -> list[tuple[str, str]]:
    """Frames with two names each that come nowhere else."""
    rng = np.random.default_rng(seed)
    names = sorted(
        {
            "".join(
                rng.choice(list("bdfgklmnprstvz")) + rng.choice(list("aeiou")) for _ in range(4)
            ).capitalize()
            for _ in range(3 * count)
        }
    )
    drawn = rng.permutation(names)[: 2 * count].reshape(count, 2)
    return [
        tuple(side.format(*pair) for side in FRAMES[i % len(FRAMES)])  # type: ignore[misc]
        for i, pair in enumerate(drawn.tolist())
    ]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_unknown_names_are_copied(family: str) -> None:
    pairs, unseen = invented(240, 1), invented(40, 2)
    size = (
        {"model_size": 64, "heads": 2, "feedforward_size": 64, "encoder_layers": 2, "decoder_layers": 2}
        if family == "transformer"
        else {}
    )
    model = Seq2Seq(family=family, min_count=3, network=size, epochs=16, learning_rate=0.005)
    model.fit([source for source, _ in pairs], [target for _, target in pairs])
    translations = model.translate([source for source, _ in unseen])
    for one, (source, target) in zip(translations, unseen, strict=True):
        assert sorted(one.text.split()) == sorted(target.split()), (
            source
        )  # every name once, nothing else copied
    assert sum(one.text == target for one, (_, target) in zip(translations, unseen, strict=True)) >= 36

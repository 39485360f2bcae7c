"""Unknown target words: the source words that they copy, by hand, by exhaustive search, and in every search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from regard.seq2seq.sources import Text, Vectors
from regard.seq2seq.sources.text.tokenizers import Words
from regard.seq2seq.sources.text.vocabulary import END, LONGEST_TOKEN, UNKNOWN, Vocabulary
from regard.seq2seq.storage.model_file import Model
from regard.seq2seq.translator import Translation, Translator

Array = NDArray[Any]

# ------------------------------------------------------------------------------------------------------ by hand


@pytest.mark.parametrize(
    ("weights", "unknown", "chosen"),
    [
        # Both attend to the full stop most; the names are at 1 and 3. What the model knows is never copied.
        ([[0.1, 0.2, 0.0, 0.1, 0.6], [0.0, 0.1, 0.0, 0.2, 0.7]], [0, 1, 0, 1, 0], [1, 3]),
        # The first prefers position 0 a little, the second far more: 0.3 * 0.5 > e * 0.4 * 0.1.
        ([[0.4, 0.3], [0.5, 0.1]], [1, 1], [1, 0]),
        # 0.2 * 0.2 is twice 0.1 * 0.2: too little to change the order of names, enough for other words.
        ([[0.1, 0.2, 0.7], [0.2, 0.2, 0.6]], [1, 1, 0], [0, 1]),
        ([[0.2, 0.2, 0.2, 0.4]] * 3, [1, 1, 1, 0], [0, 1, 2]),
        # One word for two names: that of the larger weight.
        ([[0.3, 0.6, 0.1, 0.0]], [1, 0, 1, 1], [0]),
        # Without attention: in order.
        ([[1.0, 1.0, 1.0, 1.0]] * 2, [0, 1, 1, 0], [1, 2]),
        # Weights of 0, outside a window: the name all the same.
        ([[1.0, 0.0, 0.0]], [0, 0, 1], [2]),
        ([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [0, 1, 1], [1, 2]),
    ],
)
def test_unknown_words_are_copied_once(
    weights: list[list[float]], unknown: list[int], chosen: list[int]
) -> None:
    positions = copies(np.array(weights).reshape(len(weights), len(unknown)), np.array(unknown, bool))
    assert positions == chosen


@pytest.mark.slow
@given(
    st.integers(1, 3).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.floats(0.01, 1), min_size=4, max_size=4), min_size=n, max_size=n),
            st.lists(st.booleans(), min_size=4, max_size=4).filter(lambda unknown: sum(unknown) >= n),
        )
    )
)
def test_the_assignment_is_the_most_probable(case: tuple[list[list[float]], list[bool]]) -> None:
    weights, unknown = np.array(case[0]), np.array(case[1])
    n, names = len(weights), np.flatnonzero(unknown).tolist()
    chosen = copies(weights, unknown)
    assert len(set(chosen)) == n
    assert unknown[chosen].all()

    def likely(columns: Sequence[int]) -> float:
        moved = sum(abs((i + 0.5) / n - (names.index(j) + 0.5) / len(names)) for i, j in enumerate(columns))
        return float(np.sum(np.log(weights[range(n), columns]))) - n / 2 * moved * (n > 1)

    assert likely(chosen) == pytest.approx(max(map(likely, permutations(names, n))))


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
        logits[..., 4] = 0.0  # the next best
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


PATHS: dict[str, Callable[..., Translation]] = {
    "greedy": lambda model, line, **options: model.translate([line], beam=1, **options)[0],
    "beam": lambda model, line, **options: model.translate([line], **options)[0],
    "n-best": lambda model, line, **options: model.candidates([line], beam=3, n_best=2, **options)[0][0],
    "sample": lambda model, line, **options: model.sample([line], temperature=0.1, **options)[0][0],
    "ensemble": lambda model, line, **options: Ensemble([model, model]).translate([line], **options)[0],
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


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("line", "unknown_words", "texts"),
    [
        ("sees sees sees .", "copy", {"voit voit voit ."}),
        ("sees sees Ka .", "copy", {"Ka voit voit .", "voit voit Ka ."}),  # equally probable
        ("Bu sees Ka .", "next", {"voit voit voit ."}),
    ],
)
def test_a_known_word_is_never_copied(path: str, line: str, unknown_words: str, texts: set[str]) -> None:
    """The next best token comes in place of an unknown one."""
    translation = PATHS[path](Reciter(), line, unknown_words=unknown_words)
    assert translation.text in texts


@pytest.mark.parametrize("unknown_words", ["copy", "next"])
def test_a_source_of_arrays_has_no_words_to_copy(unknown_words: str) -> None:
    frames = [[[1.0, 2.0], [3.0, 4.0]]] * 2
    model = Seq2Seq(source=Vectors(2), epochs=1, min_count=2).fit(frames, ["on off", "on"])
    model.network.parameters["output_bias"][UNKNOWN] = 100
    options: Any = {"unknown_words": unknown_words}
    found = [*model.candidates(frames, **options), *model.sample(frames, count=3, **options)]
    for one in (one for several in found for one in several):
        assert {*one.tokens} == {"on"}
        assert UNKNOWN not in one.ids


def test_a_choice_of_unknown_words_is_checked() -> None:
    with pytest.raises(ValueError, match=r"unknown_words must be .*copy.*next"):
        Reciter().translate(["Bu"], unknown_words="skip")  # type: ignore[arg-type]


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

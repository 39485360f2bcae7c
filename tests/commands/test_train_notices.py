"""Pairs that look like a dictionary, or like single words, are noticed before they are learned."""

from __future__ import annotations

import itertools

import pytest

from regard.commands.train.notices import notices
from regard.seq2seq import Seq2Seq

WORDS = ["".join(word) for word in itertools.product("abcd", repeat=3)]


def found(pairs: list[tuple[str, str]], way: str = "", **options: str) -> list[str]:
    """The warnings of pairs for a model of words, unless another type of tokens is given."""
    model = Seq2Seq(**options)  # type: ignore[arg-type]
    source, target = model.reader, model.target_reader
    return list(notices([(source.load(x), target.load(y)) for x, y in pairs], model, lambda: way))


SOUNDS = [(word, " ".join(word.upper())) for word in WORDS]
SPELLED = [(word, word[::-1]) for word in WORDS]
SENTENCES = [(f"{word} and {word}", f"{word} et {word}") for word in WORDS]
AS_SOUNDS = {"source": "characters", "target": "tokens"}


def test_numbers_and_comments_of_a_dictionary() -> None:
    way = "--task tables reads it as a table"
    (numbered,) = found([*SOUNDS, ("abc(2)", "A B")], way, **AS_SOUNDS)
    assert "'abc(2)'" in numbered
    assert numbered.endswith(f"; {way}")
    for line in ((";;;", "a comment"), ("#", "a comment"), ("abcd", "A B # note")):
        (comment,) = found([*SOUNDS, line], way, **AS_SOUNDS)
        assert "1 of 65 pairs" in comment
        assert comment.endswith(f"; {way}")


def test_single_words_that_are_not_spelled() -> None:
    (words,) = found(SPELLED)
    assert words.endswith("--source characters --target characters")
    (sounds,) = found(SOUNDS)
    assert sounds.endswith("--source characters --target tokens")
    assert found(SOUNDS, "a way") == [f"{sounds}; a way"]
    (variants,) = found([*SOUNDS, *((word, f"{target} X") for word, target in SOUNDS[:30])])
    assert variants == sounds


@pytest.mark.parametrize(
    ("pairs", "options"),
    [
        (SOUNDS, AS_SOUNDS),
        (SPELLED, {"source": "characters", "target": "characters"}),
        (SPELLED, {"source": "subwords", "target": "subwords"}),
        (SENTENCES, {}),
        (SPELLED[:19], {}),  # too few to say anything
        (SENTENCES + SPELLED[:5], {}),
        ([("yes", "oui"), ("no", "non")] * 40, {}),
        ([("f(2)", "four"), ("# title", "# titre"), ("number 4", "le numéro # 4"), *SENTENCES], {}),
    ],
)
def test_other_pairs_are_learned_in_silence(pairs: list[tuple[str, str]], options: dict[str, str]) -> None:
    assert found(pairs, **options) == []

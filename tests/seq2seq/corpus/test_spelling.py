"""Spelling families: inflections are together, in any order of the words; and parts of a list that share none."""

from __future__ import annotations

import itertools
import unicodedata

import numpy as np
import pytest

from regard.seq2seq.corpus.spelling import families
from regard.seq2seq.corpus.splits import by_family, hold_out, split_validation
from regard.seq2seq.sources import Text


@pytest.mark.parametrize(
    "words",
    [
        "walk walks walked walking walker walkers walk's",
        "carry carries carried",
        "nationalities nationality",
        "Haus Hauses Häuser",
        "книга книги книгу книгой",
        "épée épées",
        "kissa kissan kissalla",
        "cafe café CAFÉS",
    ],
)
def test_inflections_are_one_family(words: str) -> None:
    assert len(families(words.split())) == 1


@pytest.mark.parametrize(
    "words", ["cat dog", "mouse mice", "walk walkingstick", "cat cats", "ab abc abcd", "a b"]
)
def test_others_are_not(words: str) -> None:
    assert len(families(words.split())) == len(words.split())


def test_families_by_hand() -> None:
    words = [
        "nation",
        "national",
        "nationals",
        "nationalities",
        "nationality",
        "native",
        "natives",
        "star",
        "start",
    ]
    # "nation" is the first, whose beginning is "nati": up to ten letters are of it; "nationality" opens the next
    assert families(words) == [
        ["nation", "national", "nationals", "native", "natives"],
        ["nationalities", "nationality"],
        ["star", "start"],
    ]


def defined(words: list[str]) -> list[list[str]]:
    """The definition, word by word: a word is of the first open family of which it can be."""
    plain = {
        word: "".join(
            x for x in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(x)
        )
        for word in words
    }
    found: list[list[str]] = []
    for word in sorted(set(words), key=lambda word: (plain[word], word)):
        for family in found:
            first, own = plain[family[0]], plain[word]
            stem = first[: max(4, len(first) - 3)]
            if len(first) >= 4 and own.startswith(stem) and len(own) <= len(first) + 4:
                family.append(word)
                break
        else:
            found.append([word])
    return found


@pytest.mark.parametrize("seed", range(20))
def test_families_are_those_of_the_definition_in_any_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    words = [
        "".join(random.choice([*"abÄé"], random.integers(1, 12), p=[0.7, 0.1, 0.1, 0.1])) for _ in range(200)
    ]
    found = families(words)
    assert found == defined(words) == families(random.permutation(words).tolist())
    assert sorted(itertools.chain.from_iterable(found)) == sorted(set(words))


# -------------------------------------------------------------------------------------------------------- splits


def pairs(words: list[str]) -> list[tuple[str, str]]:
    return [(word, target) for word in words for target in ("A", "B")]


def stems(count: int) -> list[str]:
    """Unrelated stems of four letters."""
    return ["".join("abcdefghij"[number // 10**place % 10] for place in range(4)) for number in range(count)]


@pytest.mark.parametrize(("count", "most", "expected"), [(30, 500, 10), (100, 500, 20), (100, 12, 12)])
def test_no_family_is_in_both_parts(count: int, most: int, expected: int) -> None:
    """Stems with four endings: a tenth, at most ten, or else a twentieth, at most `most`."""
    words = [stem + ending for stem in stems(count) for ending in ("", "s", "ed", "ing")]
    train, held = hold_out(pairs(words), most=most, groups=by_family)
    assert {*train, *held} == {*pairs(words)}
    assert not {word[:4] for word, _ in train} & {word[:4] for word, _ in held}
    # A family of four fits as long as four more may be held out.
    assert expected - 4 < len({word for word, _ in held}) <= expected


def test_a_family_that_is_too_large_is_passed_over() -> None:
    words = ["".join(("aaaa", *ending)) for ending in itertools.product("bc", repeat=4)] + stems(40)
    _, held = hold_out(pairs(words), groups=by_family)
    assert len(held) == 2 * 5  # a tenth of 56 words, each of two pairs
    assert not any(word.startswith("aaaa") and len(word) > 4 for word, _ in held)


def test_fewer_than_twenty_families_are_not_split() -> None:
    words = [stem + ending for stem in stems(19) for ending in ("", "s")]
    train, held = hold_out(pairs(words), groups=by_family)
    assert train == held == pairs(words)


def test_links_of_the_training_pairs_stay_with_them() -> None:
    words = [stem + ending for stem in stems(40) for ending in ("", "s")]
    train, held, links = split_validation(pairs(words), list(range(160)), groups=by_family)
    assert links is not None
    assert len(train) + len(held) == 160
    assert [pairs(words)[link] for link in links] == train


def test_families_of_what_a_source_has_read() -> None:
    text = Text("characters")
    read = [text.load(word) for word in ("walks", "cat", "walk")]
    assert [[str(one) for one in family] for family in by_family(read)] == [["cat"], ["walk", "walks"]]

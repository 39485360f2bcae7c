"""The aligner of letters and sounds, and of other pairs from left to right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.seq2seq.alignment import monotonic
from regard.seq2seq.alignment.monotonic import MAX_FERTILITY, Aligner, align_pairs, alignable
from regard.seq2seq.sources.text.vocabulary import UNKNOWN

SIZES = (7, 8)
SOURCE, TARGET = (
    st.lists(st.integers(UNKNOWN, 6), min_size=1, max_size=4),
    st.lists(st.integers(UNKNOWN, 7), max_size=6),
)
PAIRS = st.lists(st.tuples(SOURCE, TARGET).filter(lambda pair: alignable(*pair)), min_size=1, max_size=5)


def cuts(m: int, n: int) -> Iterator[tuple[int, ...]]:
    """Yield how many target tokens m source tokens may give."""
    if not m:
        if not n:
            yield ()
        return
    for k in range(min(MAX_FERTILITY, n) + 1):
        yield from ((k, *rest) for rest in cuts(m - 1, n - k))


def likelihood(aligner: Aligner, pair: tuple[Sequence[int], Sequence[int]], cut: Sequence[int]) -> float:
    position, likely = 0, 1.0
    for token, k in zip(pair[0], cut, strict=True):
        likely *= float(aligner.fertilities[token, k])
        for produced in pair[1][position : position + k]:
            likely *= float(aligner.tokens[token, produced])
        position += k
    return likely


def drawn(seed: int) -> Aligner:
    rng = np.random.default_rng(seed)
    return Aligner(
        rng.dirichlet(np.ones(SIZES[1]), SIZES[0]).astype(np.float32),
        rng.dirichlet(np.ones(MAX_FERTILITY + 1), SIZES[0]).astype(np.float32),
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(PAIRS, st.integers(0, 2**16))
def test_targets_have_the_most_probable_segmentation(pairs: list[Any], seed: int) -> None:
    aligner = drawn(seed)
    for pair, cut in zip(pairs, aligner.cut(pairs), strict=True):
        best = max(likelihood(aligner, pair, other) for other in cuts(len(pair[0]), len(pair[1])))
        assert likelihood(aligner, pair, cut) == pytest.approx(best, rel=1e-5)


@pytest.mark.slow
@settings(max_examples=40)
@given(PAIRS, st.integers(0, 2**16))
def test_each_round_counts_all_segmentations_by_their_probability(pairs: list[Any], seed: int) -> None:
    aligner = drawn(seed)
    tokens, counts = np.zeros(SIZES), np.zeros((SIZES[0], MAX_FERTILITY + 1))
    for some in monotonic._batches(pairs):
        aligner._expect(some, tokens, counts)
    expected_tokens, expected_counts = np.zeros(SIZES), np.zeros((SIZES[0], MAX_FERTILITY + 1))
    for source, target in pairs:
        each = {cut: likelihood(aligner, (source, target), cut) for cut in cuts(len(source), len(target))}
        for cut, likely in each.items():
            share, position = likely / sum(each.values()), 0
            for token, k in zip(source, cut, strict=True):
                expected_counts[token, k] += share
                for produced in target[position : position + k]:
                    expected_tokens[token, produced] += share
                position += k
    np.testing.assert_allclose(tokens, expected_tokens, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(counts[UNKNOWN:], expected_counts[UNKNOWN:], rtol=1e-5, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=20)
@given(PAIRS, st.integers(1, 6))
def test_every_round_increases_the_likelihood(pairs: list[Any], rounds: int) -> None:
    def total(number: int) -> float:
        learned = Aligner.learn(pairs, SIZES, rounds=number)
        return sum(
            math.log(sum(likelihood(learned, pair, cut) for cut in cuts(len(pair[0]), len(pair[1]))))
            for pair in pairs
        )

    assert total(rounds + 1) >= total(rounds) - 1e-4


def test_letters_are_distinguished() -> None:
    """c yields K, h after it nothing, x two sounds; only all words together determine this."""
    words = {
        "cat": "KAT",
        "echo": "EKO",
        "act": "AKT",
        "tax": "TAKS",
        "hat": "HAT",
        "coax": "KOKS",
        "ache": "AK",
    }
    encode = {letter: number for number, letter in enumerate(sorted({*"".join(words)}), 4)}
    sounds = {sound: number for number, sound in enumerate(sorted({*"".join(words.values())}), 4)}
    pairs = [([encode[c] for c in word], [sounds[s] for s in spelling]) for word, spelling in words.items()]
    segmentations = Aligner.learn(pairs, (4 + len(encode), 4 + len(sounds))).cut(pairs)
    assert dict(zip(words, segmentations, strict=True))["tax"] == (1, 1, 2)
    assert dict(zip(words, segmentations, strict=True))["echo"] == (1, 1, 0, 1)


def test_unseen_tokens_have_the_probabilities_of_others() -> None:
    """Every token gives one. Of more than 6,000 pairs every second is drawn; the others have tokens of their own."""
    rng = np.random.default_rng(5)
    rows = [(rng.integers(4, 154, 2) + 150 * (i % 2)).tolist() for i in range(6100)]
    pairs = [(row, [4 + token % 7 for token in row]) for row in rows]
    segmentations = Aligner.learn(pairs, (304, 11), rounds=3).cut(pairs[1::50])
    assert sum(cut == (1, 1) for cut in segmentations) > 0.9 * len(segmentations)


@pytest.mark.slow
@pytest.mark.parametrize("much", [1, MAX_FERTILITY])
def test_many_tokens_are_segmented_without_underflow(much: int) -> None:
    pairs = [([4] * 300, [5] * (300 * much)), ([4] * 300, [])]
    learned = Aligner.learn(pairs, (5, 6))
    assert np.isfinite(learned.tokens).all()
    assert [sum(cut) for cut in learned.cut(pairs)] == [300 * much, 0]


def test_pairs_of_all_lengths_in_some_batches() -> None:
    """A batch has 1,024 pairs, or fewer where they are long."""
    rng = np.random.default_rng(3)
    lengths = [(m, n) for m in range(1, 9) for n in range(3 * m)] + [(14, 42)]
    pairs = [(rng.integers(4, 7, m).tolist(), rng.integers(4, 8, n).tolist()) for m, n in lengths]
    aligner = drawn(1)
    alone = [aligner.cut([pair])[0] for pair in pairs]
    assert aligner.cut(pairs + pairs[-1:] * 1024) == alone + alone[-1:] * 1024


# ---------------------------------------------------------------------------------------------------- graphones


def test_letters_are_linked_with_their_sounds() -> None:
    words = {
        "cat": "KAT",
        "tax": "TAKS",
        "hat": "HAT",
        "coax": "KOKS",
        "ache": "AK",
        "echo": "EKO",
        "a": "XXXX",
    }
    links = align_pairs([*words.items(), ("", "")])
    assert links[1] == {(0, 0), (1, 1), (2, 2), (2, 3)}
    assert links[5] == {(0, 0), (1, 1), (3, 2)}
    assert links[6] == links[7] == frozenset()  # too long, and empty
    assert align_pairs([]) == []
    assert align_pairs([("ab", ["x", "yy"])]) == [{(0, 0), (1, 1)}]

"""Loops and unknown tokens: by the definition, against exhaustive search, and in a search of every network."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_search import RandomNetwork, V

from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.decoding.hypothesis import Hypothesis
from regard.seq2seq.decoding.restrictions import Restricted, Restrictions, blocked, repetitions
from regard.seq2seq.decoding.sampling import sample
from regard.seq2seq.decoding.search import FIRST
from regard.seq2seq.export.folder import copied as copied_file
from regard.seq2seq.sources.text.vocabulary import END, START, UNKNOWN

Words = tuple[int, ...]


def most_in_a_row(tokens: Sequence[int]) -> int:
    """How often a group of known tokens comes in a row, by the definition: every group at every place."""
    counts = [1]
    for start, end in itertools.combinations(range(len(tokens) + 1), 2):
        group, count = tokens[start:end], 1
        while UNKNOWN not in group and tokens[start + count * len(group) : end + count * len(group)] == group:
            count += 1
        counts.append(count)
    return max(counts)


TOKENS = st.lists(st.sampled_from([UNKNOWN, 4, 5, 6]), max_size=14)


@given(TOKENS)
def test_repetitions_by_the_definition(tokens: list[int]) -> None:
    assert repetitions(np.array(tokens, int)) == most_in_a_row(tokens)
    with copied_file("text") as text:
        assert text.repetitions(tokens) == most_in_a_row(tokens)


@given(st.lists(TOKENS, min_size=1, max_size=4))
def test_repetitions_of_several_texts_end_with_each(texts: list[list[int]]) -> None:
    joined = np.concatenate([[START, *tokens, END] for tokens in texts])
    assert repetitions(joined) == max(map(most_in_a_row, texts))


@given(TOKENS, st.integers(1, 4), st.integers(0, 3))
def test_what_is_blocked_would_be_one_too_many(tokens: list[int], most: int, copies: int) -> None:
    never = blocked(tokens, most, copies)
    assert (END in never) == (not tokens)
    assert (UNKNOWN in never) == (tokens.count(UNKNOWN) >= copies)
    if most_in_a_row(tokens) <= most:
        assert {*never} & {4, 5, 6} == {x for x in (4, 5, 6) if most_in_a_row([*tokens, x]) > most}
    with copied_file("text") as text:
        assert text.blocked(tokens, most, copies) == [0, 1, *never]
        assert text.blocked(tokens, None, len(tokens) + 1) == [0, 1]


# ------------------------------------------------------------------------------------------------------ in a search


def texts(*rows: Words) -> tuple[Any, Any]:
    """Sources with END, and padding."""
    lengths = np.array([len(row) + 1 for row in rows])
    source = np.zeros((lengths.max(), len(rows)), np.int64)
    for i, row in enumerate(rows):
        source[: len(row) + 1, i] = (*row, END)
    return source, lengths


# Sources without, with one and with three unknown tokens, and one that repeats a token four times.
SOURCE, LENGTHS = texts((4, 5, 6), (7, UNKNOWN, 8), (UNKNOWN, 9, UNKNOWN, UNKNOWN), (5, 5, 5, 5), (UNKNOWN,))
CASES = [*itertools.product((None, 1, 2), (False, True), (False, True))]


def may_follow(row: Any, tokens: Words, token: int, options: tuple[int | None, bool, bool]) -> bool:
    """Whether a token may follow others, by the definition."""
    most, as_source, copies = options
    if token == UNKNOWN:
        return copies and int((row == UNKNOWN).sum()) > tokens.count(UNKNOWN)
    if most is None:
        return True
    if token == END:
        return bool(tokens)
    return most_in_a_row([*tokens, token]) <= max(most, most_in_a_row(row.tolist()) if as_source else 1)


def check(
    network: RandomNetwork, hypothesis: Hypothesis, i: int, options: tuple[int | None, bool, bool]
) -> None:
    """Each token may follow those before it, with the log-probability of the network, which nothing changes."""
    row = SOURCE[: LENGTHS[i], i]
    tokens = (*hypothesis.tokens, END)[: len(hypothesis.log_probabilities)]
    for t, (token, log) in enumerate(zip(tokens, hypothesis.log_probabilities, strict=True)):
        logs, _ = network.after(row, tokens[:t])
        assert may_follow(row, tokens[:t], token, options)
        assert log == pytest.approx(logs[token])


@pytest.mark.parametrize("options", CASES)
def test_greedy_search_takes_the_best_token_that_may_follow(options: tuple[int | None, bool, bool]) -> None:
    for seed, end in itertools.product(range(3), (-9.0, 0.5, 9.0)):
        network = RandomNetwork(seed, end=end)
        found = beam(Restricted(network, Restrictions(*options)), SOURCE, LENGTHS, width=1)
        for i, (best,) in enumerate(found):
            row, tokens = SOURCE[: LENGTHS[i], i], Words()
            for _ in best.log_probabilities:
                logs, _ = network.after(row, tokens)
                allowed = [token for token in range(FIRST, V) if may_follow(row, tokens, token, options)]
                tokens = (*tokens, max(allowed, key=logs.__getitem__))
            assert tokens == (*best.tokens, END)[: len(best.log_probabilities)]
            check(network, best, i, options)


@pytest.mark.parametrize("options", CASES)
def test_every_hypothesis_of_a_beam_and_every_sample_may_be(options: tuple[int | None, bool, bool]) -> None:
    for seed, end in itertools.product(range(3), (-9.0, 9.0)):
        network = RandomNetwork(seed, end=end)
        restricted = Restricted(network, Restrictions(*options))
        several = beam(restricted, SOURCE, LENGTHS, width=4, n_best=4)
        drawn = sample(restricted, SOURCE, LENGTHS, rng=seed, count=3)
        for i, hypotheses in enumerate(map(list.__add__, several, drawn)):
            for one in hypotheses:
                check(network, one, i, options)


def test_a_sample_of_which_nothing_may_be_ends() -> None:
    """One word may not follow itself, and an empty output is not allowed."""
    network = RandomNetwork(0, words=UNKNOWN + 1)  # END and unknown tokens alone
    (drawn,) = sample(Restricted(network, Restrictions(1)), *texts((4,)), rng=1)
    assert drawn[0].tokens == ()

"""Outputs without loops: of a group that comes in a row, by the definition, and in a search of every network."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_search import THREE, WORDS, RandomNetwork, V, plain_network

from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.decoding.repetition import (
    WithoutLoops,
    beam_without_loops,
    blocked,
    has_loops,
    repetitions,
)
from regard.seq2seq.export.files import copied
from regard.seq2seq.sources.text.vocabulary import END, UNKNOWN


def most_in_a_row(tokens: Sequence[int]) -> int:
    """How often a group comes in a row, by the definition: every group at every place."""
    counts = [1]
    for start, end in itertools.combinations(range(len(tokens) + 1), 2):
        group, count = tokens[start:end], 1
        while tokens[start + count * len(group) : end + count * len(group)] == group:
            count += 1
        counts.append(count)
    return max(counts)


TOKENS = st.lists(st.sampled_from([4, 5, 6]), max_size=14)


@given(TOKENS)
def test_repetitions_by_the_definition(tokens: list[int]) -> None:
    assert repetitions(tokens) == most_in_a_row(tokens)


@given(TOKENS, st.integers(1, 4))
def test_what_is_blocked_would_be_one_repetition_too_many(tokens: list[int], most: int) -> None:
    never = blocked(tokens, most)
    assert (END in never) == (not tokens)
    assert UNKNOWN in never
    if most_in_a_row(tokens) <= most:
        assert {x for x in (4, 5, 6) if x in never} == {
            x for x in (4, 5, 6) if most_in_a_row([*tokens, x]) > most
        }
    assert has_loops(tokens, most) == (not tokens or most_in_a_row(tokens) > most)
    with copied("text") as text:
        assert text.blocked(tokens, most) == [0, 1, *never]
        assert text.blocked(tokens, None) == [0, 1]


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("end", [-9.0, 9.0])
def test_a_search_without_loops(width: int, end: float) -> None:
    """Where END is improbable all outputs loop, and where it is probable all are empty."""
    source, lengths = THREE
    for seed, most in itertools.product(range(4), (1, 2)):
        network = RandomNetwork(seed, end=end)
        options = {"width": width, "n_best": width}
        usual = beam(network, source, lengths, **options)
        found = beam_without_loops(network, source, lengths, most=most, **options)
        assert all(len(several) <= width for several in found)
        for plain, several in zip(usual, found, strict=True):
            assert not has_loops(several[0].tokens, most)
            assert set(several[0].tokens) <= {*WORDS} - {UNKNOWN}
            if not has_loops(plain[0].tokens, most):
                assert several[0] is not None
                assert several[0].tokens == plain[0].tokens


def test_probabilities_are_those_of_the_network() -> None:
    source, lengths = THREE
    network = RandomNetwork(3, end=-9.0)
    for (best,), (i, length) in zip(
        beam_without_loops(network, source, lengths, most=2, width=1), enumerate(lengths), strict=True
    ):
        words: tuple[int, ...] = ()
        for token, log in zip((*best.tokens, END), best.log_probabilities, strict=False):
            assert log == pytest.approx(network.after(source[:length, i], words)[0][token])
            words = (*words, token)


@pytest.mark.parametrize("style", ["bahdanau", "conditional"])
def test_the_library_and_numpy_find_the_same(style: str) -> None:
    """Greedy search without loops by steps is the same where the library's own search found no loop."""
    network = plain_network(style, 5)
    rng = np.random.default_rng(0)
    source = np.vstack([rng.integers(4, 20, (5, 8)), np.full(8, END)])
    lengths = np.full(8, 6)
    for most in (1, 2, 3):
        by_both = beam_without_loops(network, source, lengths, most=most, width=1)
        by_steps = beam(WithoutLoops(network, most), source, lengths, width=1)
        for (one,), (two,) in zip(by_both, by_steps, strict=True):
            assert one.tokens == two.tokens
            assert not has_loops(one.tokens, most)
    assert V < 20

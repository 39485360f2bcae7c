"""The n-grams of sequences in sorted suffixes, compared with a search through all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.seq2seq.corpus.packing import Rows
from regard.seq2seq.sources.text.vocabulary import END, START
from regard_lexicon.extras.suffixes import LONGEST, Suffixes, joined

ROWS = st.lists(
    st.lists(st.sampled_from([3, 4, 5, 300, 70_000]), max_size=9).map(tuple), min_size=1, max_size=8
)


def have(rows: list[tuple[int, ...]], gram: tuple[int, ...]) -> list[int]:
    """The numbers of the rows that have an n-gram."""
    full = [(START, *row, END) for row in rows]
    size = len(gram)
    return [i for i, row in enumerate(full) if any(row[k : k + size] == gram for k in range(len(row)))]


@given(ROWS, ROWS)
def test_an_n_gram_has_the_sequences_that_have_it(
    rows: list[tuple[int, ...]], others: list[tuple[int, ...]]
) -> None:
    suffixes = Suffixes.of(joined(Rows.of(rows).tokens))
    text = joined(Rows.of(others).tokens)
    ends = np.flatnonzero(text == END)
    for length, (first, stop) in enumerate(suffixes.find(text), 1):
        counts = suffixes.sequences(first, stop, length)
        numbers, owners = suffixes.entries_of(first, stop, np.full(len(text), length))
        for place in range(len(text)):
            if place + length <= ends[np.searchsorted(ends, place)] + 1:
                expected = have(rows, tuple(text[place : place + length].tolist()))
                assert sorted(owners[numbers == place].tolist()) == expected
                assert counts[place] == len(expected)


@given(ROWS)
def test_each_place_counts_the_sequences_with_its_n_gram(rows: list[tuple[int, ...]]) -> None:
    text = joined(Rows.of(rows).tokens)
    suffixes = Suffixes.of(text)
    ends, starts = np.flatnonzero(text == END), np.flatnonzero(text == START)
    for length, (counts, first) in enumerate(suffixes.by_place(), 1):
        for place in range(len(text)):
            row = int(np.searchsorted(ends, place))
            if place + length <= ends[row] + 1:
                gram = text[place : place + length].tolist()
                assert counts[place] == len(have(rows, tuple(gram)))
                before = range(int(starts[row]), place)
                assert first[place] == all(text[k : k + length].tolist() != gram for k in before)


@pytest.mark.parametrize("data", [b"\0", b"\xff" * 12])
def test_damaged(data: bytes) -> None:
    with pytest.raises(ValueError, match="order must be"):
        Suffixes.restore(joined(Rows.of([(4,)]).tokens), data)


def test_restored() -> None:
    text = joined(Rows.of([(4, 5, 4, 5), (5, 4)]).tokens)
    entries = Suffixes.of(text).entries
    assert Suffixes.restore(text, entries.astype("<u4").tobytes()).entries.tolist() == entries.tolist()
    assert LONGEST == 6  # fits in the three bits below a place

"""Word alignments: by hand, by plain loops, and in round trips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.seq2seq.alignment.links import (
    Gold,
    links,
    merge,
    of_tokens,
    of_words,
    parse,
    read_gold,
    spell,
    word_numbers,
)
from regard.seq2seq.alignment.symmetrize import METHODS, posterior_product, symmetrize
from regard.seq2seq.sources.text.tokenizers import detokenize, tokenize

Links = frozenset[tuple[int, int]]
LINKS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=16)

# -------------------------------------------------------------------------------------------------------- links

WEIGHTS = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.5, 0.5, 0.0]])


def test_a_word_is_linked_with_the_most_attended_one() -> None:
    assert links(WEIGHTS) == {(0, 0), (1, 2), (0, 3)}  # the second attends to the end
    assert links(WEIGHTS, end=False) == {(0, 0), (2, 1), (1, 2), (0, 3)}
    assert links(WEIGHTS, threshold=0.45) == {(0, 0), (0, 3)}
    assert links(WEIGHTS, threshold=0.5) == {(0, 0)}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 1), (0, 0)])
def test_empty_sides_have_no_links(shape: tuple[int, int]) -> None:
    assert links(np.ones(shape)) == frozenset()


def test_a_row_of_zeros_has_no_link() -> None:
    assert links(np.zeros((2, 3))) == frozenset()


# -------------------------------------------------------------------------------------------------------- words


def test_words_of_tokens_are_separated_by_spaces() -> None:
    tokens = tokenize("Cliquez sur l'icône (deux fois).")
    assert word_numbers(tokens, detokenize) == [0, 1, 2, 2, 3, 3, 4, 4, 4]
    assert word_numbers([], detokenize) == []
    # Any blank but a no-break space separates words, as in the tokenizer and in other programs.
    text = "a\u3000b\u2003c d\u00a0: \u202fe"
    assert word_numbers(list(text), "".join) == [0, -1, 1, -1, 2, -1, 3, 3, 3, -1, 4, 4]
    assert word_numbers(tokenize(text), detokenize) == [0, 1, 2, 3, 3, 4, 4]
    assert word_numbers(list(" a  b"), "".join) == [-1, 0, -1, -1, 1]


@pytest.mark.slow
@given(st.lists(st.text("ab.(' ", min_size=1), max_size=6))
def test_the_numbers_of_words_are_those_of_the_text(parts: list[str]) -> None:
    text = " ".join(" ".join(parts).split())
    tokens = tokenize(text)
    numbers = word_numbers(tokens, detokenize)
    words: list[list[str]] = [[] for _ in text.split()]
    for token, number in zip(tokens, numbers, strict=True):
        words[number].append(token)
    assert [detokenize(word) for word in words] == text.split()


def test_words_are_linked_where_their_tokens_are() -> None:
    assert of_words({(0, 0), (1, 1), (3, 2), (2, 3)}, [0, 0, -1, 1], [0, 1, 1, 1]) == {(0, 0), (0, 1), (1, 1)}


@pytest.mark.slow
@given(
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3))),
    st.lists(st.integers(-1, 3), max_size=8),
    st.lists(st.integers(-1, 3), max_size=8),
)
def test_links_of_tokens_are_those_of_their_words(
    word_links: set[tuple[int, int]], source: list[int], target: list[int]
) -> None:
    tokens = of_tokens(word_links, source, target)
    assert tokens == {
        (i, j) for i, a in enumerate(source) for j, b in enumerate(target) if (a, b) in word_links
    }
    assert of_words(tokens, source, target) == {(a, b) for a, b in word_links if a in source and b in target}


def test_weights_of_words_are_sums_and_means() -> None:
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.0, 1.0, 0.0, 0.0]])
    merged = merge(weights, [0, 0, 1], [0, 0, 1])  # the fourth column is the end's
    np.testing.assert_allclose(merged, [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(merge(weights, [0, -1, 1], [0, -1, 1]), [[0.1, 0.3, 0.4], [0.0, 0.0, 0.0]])
    assert merge(np.zeros((0, 3)), [0, 1], []).shape == (0, 3)


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=5), st.lists(st.integers(0, 2), min_size=1, max_size=5)
)
def test_rows_that_sum_to_one_still_do(source: list[int], target: list[int]) -> None:
    source, target = ([sorted(set(side)).index(word) for word in side] for side in (source, target))
    weights = np.random.default_rng(0).dirichlet(np.ones(len(source) + 1), len(target))
    np.testing.assert_allclose(merge(weights, source, target).sum(axis=1), 1)


# ------------------------------------------------------------------------------------------------ Pharaoh's format


@pytest.mark.slow
@given(LINKS)
def test_written_links_can_be_read(word_links: Links) -> None:
    assert parse(spell(word_links)) == (word_links, word_links)


def test_sure_and_possible_links() -> None:
    gold = Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 2), (3, 1)}))
    for line in ("0-0 1?2 3p1", " 3p1\t0-0  1p2 \n", "0-0:S 1-2:P 3-1:P"):
        assert parse(line) == gold
    assert parse("") == (frozenset(), frozenset())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("0-0 1_1", "a link must be like 0-0 or 0?0. Got '1_1' instead."),
        ("0-0-0", "a link must be like 0-0 or 0?0. Got '0-0-0' instead."),
        ("-1-0", "a link must be like 0-0 or 0?0. Got '-1-0' instead."),
        ("٣-0", "a link must be like 0-0 or 0?0. Got '٣-0' instead."),
        ("9" * 50 + "-0", f"a link must be like 0-0 or 0?0. Got '{'9' * 40}' instead."),
    ],
)
def test_an_invalid_link_is_an_error(line: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        parse(line)
    assert str(caught.value) == text
    path = tmp_path / "gold"
    path.write_text(f"0-0\n\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError) as caught:
        read_gold(path)
    assert str(caught.value) == f"{path}, line 3: {text}"


def test_a_file_of_links(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_bytes(b"\xef\xbb\xbf0-0 1?1\r\n\r\n1-0")
    assert [(spell(gold.sure), spell(gold.possible)) for gold in read_gold(path)] == [
        ("0-0", "0-0 1-1"),
        ("", ""),
        ("1-0", "1-0"),
    ]


# ---------------------------------------------------------------------------------------------------- symmetrize

# By hand. The intersection is 0-0 and 2-2. 1-1 touches 0-0, and both of its words are free: it comes first. Then
# 1-2, which touches 2-2, has no free word any more. 2-3 touches 2-2, and target 3 is free. 4-4 touches nothing; its
# two words are free. 5-4 comes too late for target 4.
FORWARD = parse("0-0 2-2 1-1 4-4").sure
BACKWARD = parse("0-0 2-2 1-2 5-4 2-3").sure
BY_HAND = {
    "intersection": "0-0 2-2",
    "grow-diag-final-and": "0-0 1-1 2-2 2-3 4-4",
}


@pytest.mark.parametrize("method", METHODS)
def test_symmetrized_by_hand(method: str) -> None:
    assert spell(symmetrize(FORWARD, BACKWARD, method)) == BY_HAND[method]


def test_growing_continues_from_added_links() -> None:
    # From 0-0 one after the other, against the order in which links are visited.
    chain = parse("3-3 2-4 1-5 0-6").sure
    assert symmetrize(chain, parse("3-3").sure) == chain
    assert symmetrize({(0, 3), (1, 2), (2, 1), (3, 0)}, {(0, 3)}) == {
        (0, 3),
        (1, 2),
        (2, 1),
        (3, 0),
    }


def plain(forward: Links, backward: Links) -> Links:
    """As the papers' figure has it: loops over a matrix, again and again."""
    n = 8
    taken = np.zeros((n, n), bool)
    union = np.zeros((n, n), bool)
    for link in forward | backward:
        union[link] = True
        taken[link] = link in forward and link in backward

    def free(i: int, j: int) -> tuple[bool, bool]:
        return not taken[i].any(), not taken[:, j].any()

    changed = True
    while changed:
        changed = False
        for j in range(n):
            for i in range(n):
                for dj, di in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                    a, b = i + di, j + dj
                    inside = 0 <= a < n and 0 <= b < n
                    if taken[i, j] and inside and union[a, b] and not taken[a, b] and any(free(a, b)):
                        taken[a, b] = changed = True
    for direction in (forward, backward):
        for b in range(n):
            for a in range(n):
                if (a, b) in direction and all(free(a, b)):
                    taken[a, b] = True
    return frozenset((int(a), int(b)) for a, b in np.argwhere(taken))


def test_a_posterior_product_by_hand() -> None:
    forward = np.array(
        [[0.9, 0.05, 0.05], [0.2, 0.1, 0.7], [0.04, 0.46, 0.5]]
    )  # three target words, two source words
    backward = np.array([[0.4, 0.3, 0.2, 0.1], [0.0, 0.1, 0.5, 0.4]])
    expected = [[0.6, 0.0], [0.06**0.5, 0.1], [0.008**0.5, 0.23**0.5]]
    np.testing.assert_allclose(posterior_product(forward, backward), expected)


def test_a_product_of_weights_that_do_not_fit_is_rejected() -> None:
    with pytest.raises(ValueError) as caught:
        posterior_product(np.ones((2, 4)), np.ones((2, 3)))
    assert str(caught.value) == (
        "forward and backward must have shapes (n, m + 1) and (m, n + 1). Got (2, 4) and (2, 3) instead."
    )


@pytest.mark.slow
@given(LINKS, LINKS)
def test_growing_is_that_of_plain_loops(forward: Links, backward: Links) -> None:
    assert symmetrize(forward, backward) == plain(forward, backward)


@pytest.mark.slow
@given(LINKS, LINKS)
def test_each_method_lies_between_intersection_and_union(forward: Links, backward: Links) -> None:
    assert symmetrize(forward, backward, "intersection") == forward & backward
    assert forward & backward <= symmetrize(forward, backward) <= forward | backward
    assert all(symmetrize(forward, forward, method) == forward for method in METHODS)


def test_an_unknown_method_is_an_error() -> None:
    with pytest.raises(ValueError) as caught:
        symmetrize(set(), set(), "grow")
    assert (
        str(caught.value).split("\n")[0]
        == f"method must be one of {', '.join(map(repr, METHODS))}. Got 'grow' instead."
    )

"""Measures: numbers computed by hand, a naive recursion for distances, and laws that every measure keeps."""

from __future__ import annotations

import itertools
import math
import sys
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.seq2seq.evaluation import metrics as measure

LETTERS = st.text(alphabet="abc", max_size=9)
LINES = st.lists(st.text(alphabet="ab ", max_size=8), min_size=1, max_size=6)


def naive(first: str, second: str) -> int:
    """The definition: the best of the three last edits."""

    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        replaced = distance(i - 1, j - 1) + (first[i - 1] != second[j - 1])
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, replaced)

    return distance(len(first), len(second))


# edit distance


@pytest.mark.slow
@given(LETTERS, LETTERS)
def test_the_distance_is_that_of_its_definition(first: str, second: str) -> None:
    assert measure.edit_distance(first, second) == naive(first, second)


@given(st.text(alphabet="ab", max_size=80), st.text(alphabet="ab", max_size=80))
def test_words_longer_than_a_machine_word_make_no_difference(first: str, second: str) -> None:
    assert measure.edit_distance(first, second) == naive(first, second)


@given(LETTERS, LETTERS, LETTERS)
def test_the_distance_is_a_metric(first: str, second: str, third: str) -> None:
    distance = measure.edit_distance
    assert (distance(first, second) == 0) == (first == second)
    assert distance(first, second) == distance(second, first)
    assert distance(first, third) <= distance(first, second) + distance(second, third)
    assert abs(len(first) - len(second)) <= distance(first, second) <= max(len(first), len(second))


@pytest.mark.parametrize(
    ("first", "second", "edits"),
    [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("intention", "execution", 5), ("ab", "ba", 2)],
)
def test_distances_from_textbooks(first: str, second: str, edits: int) -> None:
    assert measure.edit_distance(first, second) == edits


# error rates and exact match


def test_the_rate_sums_edits_and_lengths_before_it_divides() -> None:
    # 1 of 1 wrong, 0 of 3: a mean of the lines would be 1/2
    assert measure.error_rate(["b", "a a a"], ["a", "a a a"]) == 1 / 4


def test_the_reference_with_the_fewest_edits_counts_and_the_longest_of_those() -> None:
    assert measure.error_rate(["a b"], [["a c c", "a b c d", "a b c"]]) == 1 / 3
    assert measure.error_rate(["a b"], [["a", "a b c"]]) == 1 / 3  # one edit from either
    assert measure.error_rate(["x"], [["", "y"]]) == 1.0


def test_a_rate_may_exceed_one_and_divides_by_one_where_nothing_is_right() -> None:
    assert measure.error_rate(["a b c"], ["d"]) == 3.0
    assert measure.error_rate(["a b"], [""]) == 2.0
    assert measure.error_rate([""], [""]) == 0.0


def test_characters_are_tokens_by_option() -> None:
    assert measure.error_rate(["chat"], ["chats"], cut=list) == 1 / 5


def test_exact_lines_equal_one_reference() -> None:
    assert measure.exact(["a  b ", "a b", "ab"], ["a b", ["b", "a b"], "a b"]) == 2 / 3


@pytest.mark.slow
@given(LINES)
def test_correct_lines_have_no_errors(lines: list[str]) -> None:
    assert measure.exact(lines, lines) == 1
    assert measure.error_rate(lines, lines) == 0


@pytest.mark.slow
@given(LINES, st.randoms())
def test_order_of_lines_and_of_references_makes_no_difference(lines: list[str], random: object) -> None:
    references = [[line[::-1], "a b", line.replace("a", "")] for line in lines]
    order = list(range(len(lines)))
    random.shuffle(order)  # type: ignore[attr-defined]
    turned = [references[i][::-1] for i in order]
    for function in (measure.error_rate, measure.exact):
        assert function(lines, references) == function([lines[i] for i in order], turned)


@pytest.mark.slow
@given(LINES)
def test_another_reference_never_increases_the_errors(lines: list[str]) -> None:
    one, two = [line[::-1] for line in lines], [[line[::-1], line.replace("a", "b")] for line in lines]
    assert measure.exact(lines, two) >= measure.exact(lines, one)


# BLEU and chrF


def test_bleu_of_papineni_s_clipped_counts() -> None:
    # 4 of 5, 3 of 4, 2 of 3, 1 of 2 runs, equally long: (4/5 * 3/4 * 2/3 * 1/2) ** (1/4)
    score, signature = measure.bleu(["a b c d e"], ["a b c d f"])
    assert score == pytest.approx(100 * 0.2**0.25)
    assert signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    # too short by half: the brevity penalty exp(1 - 8 / 4)
    assert measure.bleu(["a b c d"], ["a b c d a b c d"]).score == pytest.approx(100 * np.exp(-1))


def test_lines_may_have_different_numbers_of_references() -> None:
    lines = ["a b c d e", "v w x y z"]
    assert measure.bleu(lines, [["no", "a b c d e"], "v w x y z"]).score == pytest.approx(100)
    assert measure.chrf(lines, [["no", "a b c d e"], "v w x y z"]).score == pytest.approx(100)
    assert measure.bleu(lines, [["no", "a b c d e"], "v w x y z"]).signature.startswith("nrefs:var|")


def test_bleu_is_undefined_where_no_reference_has_four_words() -> None:
    assert np.isnan(measure.bleu(["a b c"], ["a b c"]).score)
    assert np.isnan(measure.bleu(["a b c d e"], [["a b c", "a"]]).score)
    assert measure.bleu(["a b c."], ["a b c."]).score == pytest.approx(
        100
    )  # a full stop is a word of its own
    assert (
        measure.bleu(["a b c", "x"], ["a b c", ["x", "v w x y"]]).score == 0
    )  # no line has four, but one should


def test_bleu_of_chinese_needs_another_tokenizer() -> None:
    assert np.isnan(measure.bleu(["我们看猫"], ["我们看猫吧"]).score)  # one word
    assert measure.bleu(["我们看猫"], ["我们看猫吧"], tokenize="zh").score == pytest.approx(
        100 * np.exp(-1 / 4)
    )
    with pytest.raises(ValueError) as caught:
        measure.bleu(["a"], ["a"], tokenize="flores")
    assert str(caught.value).startswith("tokenize must be one of '13a', 'zh', 'char', 'none', 'intl'. Got ")


def test_without_sacrebleu_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    for function in (measure.bleu, measure.chrf):
        with pytest.raises(ImportError) as caught:
            function(["a"], ["a"])
        assert str(caught.value) == 'BLEU and chrF need sacrebleu: pip install "regard[cli]"'
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    assert any(need.startswith("sacrebleu") for need in project["project"]["optional-dependencies"]["cli"])


@pytest.mark.parametrize(
    ("hypotheses", "references", "error"),
    [
        (
            ["a"],
            ["a", "b"],
            "references must be as many as hypotheses, at least one. Got 2 for 1 hypotheses instead.",
        ),
        ([], [], "references must be as many as hypotheses, at least one. Got 0 for 0 hypotheses instead."),
        (
            ["a", "b"],
            ["a", []],
            "references must hold at least one line for each hypothesis. Got none for number 2.",
        ),
        ("a", ["a"], "hypotheses must be a sequence of lines. Got 'a' instead."),
        (["a"], "a", "references must be a sequence of lines. Got 'a' instead."),
    ],
)
def test_invalid_comparisons(hypotheses: list[str], references: list[str], error: str) -> None:
    for function in (measure.bleu, measure.chrf, measure.exact, measure.error_rate):
        with pytest.raises((ValueError, TypeError)) as caught:
            function(hypotheses, references)
        assert str(caught.value) == error


# links


def test_links_of_an_example_by_hand() -> None:
    # A has 4 links, S 3, P 5; A & S has 2, A & P 3: 1 - (2 + 3) / (4 + 3)
    predicted = [{(0, 0), (1, 1)}, {(0, 1), (2, 2)}]
    sure = [{(0, 0), (1, 1)}, {(1, 1)}]
    possible = [{(0, 0), (1, 1)}, {(1, 1), (0, 1), (0, 0)}]
    score = measure.alignment_error_rate(predicted, sure, possible)
    assert score == pytest.approx((1 - 5 / 7, 3 / 4, 2 / 3))


PAIRS = st.lists(
    st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6), min_size=4, max_size=4
)


@pytest.mark.slow
@given(PAIRS, PAIRS, PAIRS)
def test_links_between_all_sure_and_all_possible_ones_have_no_error(
    sure: list[frozenset[tuple[int, int]]],
    others: list[frozenset[tuple[int, int]]],
    more: list[frozenset[tuple[int, int]]],
) -> None:
    possible = [s | o for s, o in zip(sure, others, strict=True)]
    between = [s | (o & m) for s, o, m in zip(sure, others, more, strict=True)]
    assert measure.alignment_error_rate(between, sure, possible) == (0, 1, 1)
    assert measure.alignment_error_rate(between, sure, others) == (0, 1, 1)  # sure ones are possible anyway
    score = measure.alignment_error_rate(more, sure, possible)
    assert 0 <= score.error_rate <= 1
    assert score == measure.alignment_error_rate(more[::-1], sure[::-1], possible[::-1])


@pytest.mark.slow
@given(PAIRS, PAIRS)
def test_with_sure_links_alone_it_is_one_minus_the_f_score(
    predicted: list[frozenset[tuple[int, int]]], sure: list[frozenset[tuple[int, int]]]
) -> None:
    rate, precision, recall = measure.alignment_error_rate(predicted, sure, sure)
    if any(predicted) and any(sure) and precision + recall:
        assert rate == pytest.approx(1 - 2 * precision * recall / (precision + recall))


def test_no_links_at_all() -> None:
    assert measure.alignment_error_rate([set()], [set()], [set()]) == (0, 1, 1)
    assert measure.alignment_error_rate([set()], [{(0, 0)}], [set()]) == (1, 1, 0)
    with pytest.raises(ValueError) as caught:
        measure.alignment_error_rate([set()], [], [set()])
    assert (
        str(caught.value)
        == "predicted, sure and possible must have as many sentence pairs. Got 1, 0 and 1 instead."
    )


# by length


@pytest.mark.slow
@given(st.lists(st.integers(0, 300), max_size=200), st.integers(1, 12), st.integers(1, 30))
def test_every_sentence_is_in_one_group_whose_bounds_hold(lengths: list[int], most: int, least: int) -> None:
    groups = measure.groups(lengths, most=most, least=least)
    assert sorted(index for _, _, members in groups for index in members) == list(range(len(lengths)))
    assert all(shortest <= lengths[i] <= longest for shortest, longest, members in groups for i in members)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(groups))
    assert all(len(members) >= min(least, len(lengths)) for _, _, members in groups)
    assert len(groups) <= most + 1 + len(lengths) // 100  # what is longer than 99 of 100


def test_steps_are_round_and_a_small_end_is_joined() -> None:
    lengths = [i for i in range(1, 51) for _ in range(20)]
    assert [group[:2] for group in measure.groups(lengths)] == [(i, i + 4) for i in range(1, 50, 5)]
    ends = [group[:2] for group in measure.groups([*lengths, 51, 52])]
    assert ends[-2:] == [(41, 45), (46, 52)]
    assert measure.groups([]) == []
    assert measure.groups([3]) == [(3, 3, [0])]


def test_a_row_has_the_measures_of_its_own_sentences() -> None:
    lines, right = ["a"] * 30 + ["b b"] * 20, ["a"] * 20 + ["b"] * 10 + ["b b"] * 20
    lengths = [1] * 30 + [2] * 20
    rows = measure.by_length(lengths, lines, right, {"exact": measure.exact, "errors": measure.error_rate})
    assert rows == [
        (1, 1, 30, {"exact": 2 / 3, "errors": 1 / 3}),
        (2, 2, 20, {"exact": 1.0, "errors": 0.0}),
    ]
    with pytest.raises(ValueError) as caught:
        measure.by_length([1], ["a", "b"], ["a", "b"], {})
    assert str(caught.value) == "lengths must be as many as hypotheses, 2. Got 1 instead."


class Counted(str):
    """A token that counts how often it is looked up."""

    lookups = 0

    def __hash__(self) -> int:
        Counted.lookups += 1
        return super().__hash__()


@pytest.mark.parametrize("length", [10, 1000])
def test_the_cost_of_an_edit_distance_grows_with_the_sum_of_the_lengths(length: int) -> None:
    first, second = ([Counted(i % 39) for i in range(start, start + length)] for start in (0, 7))
    Counted.lookups = 0
    assert measure.edit_distance(first, second) <= 14  # seven tokens fewer in front, seven more behind
    assert Counted.lookups <= 3 * length


@pytest.mark.parametrize(
    ("source", "reference", "message"),
    [
        ("may 3", "2020-05-03", "errors"),
        ("one two", "un deux", "errors"),
        ("read", "R IY D", "errors"),
        ("transcription", "T R AE N S", "errors"),
        ("the cat sat there", "le chat y est", "bleu"),
    ],
)
def test_bleu_is_for_sentences(source: str, reference: str, message: str) -> None:
    assert measure.headline([source] * 2 + ["q q q q"], [reference] * 2 + ["q q q q"]) == message


# ----------------------------------------------------------------------------------------------------- baselines


@pytest.mark.parametrize(
    ("baseline", "model", "near"),
    [
        ({"exact": 0.467, "errors": 0.3}, {"exact": 0.13, "errors": 0.5}, True),
        ({"bleu": 26.0, "exact": 0.0}, {"bleu": 50.0, "exact": 0.3}, True),
        ({"bleu": 24.0, "exact": 0.0}, {"bleu": 50.0, "exact": 0.3}, False),
        ({"errors": 0.2, "exact": 0.0}, {"errors": 0.1, "exact": 0.5}, True),
        ({"errors": 0.3, "exact": 0.0}, {"errors": 0.1, "exact": 0.5}, False),
        ({"errors": 1.2, "exact": 0.0}, {"errors": 1.1, "exact": 0.0}, False),
        ({"bleu": None, "exact": 0.1}, {"bleu": None, "exact": 0.1}, True),
        ({"bleu": math.nan, "exact": 0.0}, {"bleu": math.nan, "exact": 0.0}, False),
    ],
)
def test_a_baseline_that_is_not_far_below(
    baseline: dict[str, float | None], model: dict[str, float | None], near: bool
) -> None:
    assert measure.is_near(baseline, model) is near


@pytest.mark.parametrize("lines", [["one two", "three"], ["one", "two", "a b"]])
def test_the_unit_of_a_token_type_does_not_depend_on_the_lines(lines: list[str]) -> None:
    assert measure.unit(lines, "characters")[0] == "characters"
    assert measure.unit(lines, "tokens")[0] == "tokens"
    assert measure.unit(lines, "words")[0] == measure.unit(lines)[0]

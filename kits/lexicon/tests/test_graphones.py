"""Graphones: aligner, n-grams and reranking against their definitions, and models that rerank by them."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from regard.seq2seq.alignment import monotonic as em_aligner
from regard.seq2seq.alignment.monotonic import MAX_FERTILITY, Aligner, alignable
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources.text.vocabulary import END, START, UNKNOWN
from regard.seq2seq.storage.model_file import write_model
from regard_lexicon.extras.graphones import model as module
from regard_lexicon.extras.graphones.kneser_ney import KneserNey
from regard_lexicon.extras.graphones.model import DEFAULT_WEIGHT, MAX_ORDER, Graphones

# ---------------------------------------------------------------------------------------------------- runs

ROWS = st.lists(st.lists(st.integers(UNKNOWN, 6), max_size=6), min_size=1, max_size=8)


class Slow:
    """Interpolated, modified Kneser-Ney by the formulas, one probability at a time."""

    def __init__(self, rows: Sequence[Sequence[int]], size: int, order: int) -> None:
        self.size, self.order = size, order
        came: Counter[tuple[int, ...]] = Counter()
        companies: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        for row in rows:
            full = (START, *row, END)
            for end in range(1, len(full) + 1):
                for start in range(end):
                    came[full[start:end]] += 1
                    companies[full[start + 1 : end]].add(full[start])
        self.counts = {
            run: times if len(run) == order or run[0] == START else len(companies[run])
            for run, times in came.items()
            if len(run) <= order and run != (START,)
        }
        self.off = [self.discounts(length) for length in range(1, order + 1)]

    def discounts(self, length: int) -> list[float]:
        n = [sum(c == k for run, c in self.counts.items() if len(run) == length) for k in range(5)]
        off = [0.0]
        for k in (1, 2, 3):
            exact = k - (k + 1) * n[k + 1] / n[k] * n[1] / (n[1] + 2 * n[2]) if n[k] and n[1] else 0
            off.append(exact if 0 < exact < k else 0.5)
        return off

    def __call__(self, before: tuple[int, ...], token: int) -> float:
        shorter = self(before[1:], token) if before else 1 / (self.size - 2)
        after = {
            run[-1]: c for run, c in self.counts.items() if len(run) == len(before) + 1 and run[:-1] == before
        }
        if not after:
            return shorter
        off = self.off[len(before)]
        own = after.get(token, 0)
        left = sum(off[min(c, 3)] for c in after.values())
        return (own - off[min(own, 3)] + left * shorter) / sum(after.values())

    def log_probability(self, row: Sequence[int]) -> float:
        full = (START, *row, END)
        return sum(
            math.log(self(full[max(0, end - self.order + 1) : end], full[end])) for end in range(1, len(full))
        )


@pytest.mark.slow
@settings(max_examples=60)
@given(ROWS, ROWS, st.integers(1, 5))
def test_n_gram_probabilities_are_those_of_kneser_and_ney(
    training: list[list[int]], queries: list[list[int]], order: int
) -> None:
    slow = Slow(training, 8, order)
    log_probabilities = KneserNey.learn(training, 8, order).log_probabilities(queries)
    np.testing.assert_allclose(log_probabilities, [slow.log_probability(row) for row in queries], rtol=1e-10)


@pytest.mark.parametrize("order", [2, 8])  # eight units are more than a pair has
def test_learning_reports_progress(order: int) -> None:
    reports: list[tuple[str, int, int]] = []
    Graphones.learn(order, [((4, 5), (5,))], SIZES, lambda *report: reports.append(report))
    steps = em_aligner.ROUNDS + 1 + order
    assert {(name, total) for name, _, total in reports} == {("learning graphones", steps)}
    assert sum(more for _, more, _ in reports) == steps
    assert all(more > 0 for _, more, _ in reports)
    assert len(reports) > em_aligner.ROUNDS


def test_a_row_by_hand() -> None:
    """Counts 2 of S4 and 45, 3 of 5E, 1 of S6 and 65: discounts 1/3, 3/2, and the 1/2 of too few; p(5) = 0.392."""
    runs = KneserNey.learn([[4, 5], [4, 5], [6, 5]], size=7, order=2)
    four, five, end = 0.4 / 5 + 0.46 / 5, 1.5 / 5 + 0.46 / 5, 0.4 / 5 + 0.46 / 5
    expected = (0.5 / 3 + 11 / 18 * four) * (0.25 + 0.75 * five) * (2.5 / 3 + 0.5 / 3 * end)
    assert np.exp(runs.log_probabilities([[4, 5]])) == pytest.approx([expected], rel=1e-12)


@settings(max_examples=30)
@given(ROWS, st.integers(1, 5))
def test_probabilities_of_next_units_sum_to_1(training: list[list[int]], order: int) -> None:
    runs = KneserNey.learn(training, 8, order)
    for level in runs.levels:
        shares = np.bincount(level.keys // 8, level.own, minlength=len(level.backoff))
        np.testing.assert_allclose(shares + level.backoff, 1, rtol=1e-12)
        assert (level.own >= 0).all()
        assert (level.backoff > 0).all()  # unseen n-grams have a positive probability
    assert runs.log_probabilities([]).shape == (0,)


# ---------------------------------------------------------------------------------------------------- aligner

SIZES = (7, 8)
SOURCE, TARGET = (
    st.lists(st.integers(UNKNOWN, 6), min_size=1, max_size=4),
    st.lists(st.integers(UNKNOWN, 7), max_size=6),
)
PAIRS = st.lists(st.tuples(SOURCE, TARGET).filter(lambda pair: alignable(*pair)), min_size=1, max_size=5)


def units(aligner: Aligner, pair: tuple[Sequence[int], Sequence[int]]) -> list[tuple[int, ...]]:
    (cut,), position, result = aligner.cut([pair]), 0, []
    for token, k in zip(pair[0], cut, strict=True):
        result.append((token, *pair[1][position : position + k]))
        position += k
    return result


@pytest.mark.slow
@settings(max_examples=40)
@given(PAIRS, st.lists(st.tuples(SOURCE, TARGET), min_size=1, max_size=6), st.integers(1, 4))
def test_a_pair_has_the_probability_of_its_units(pairs: list[Any], queries: list[Any], order: int) -> None:
    graphones = Graphones.learn(order, pairs, SIZES)
    each = [units(graphones.aligner, pair) for pair in pairs]
    known = sorted({unit for row in each for unit in row})
    assert [tuple(unit) for unit in graphones.units] == known
    slow = Slow([[known.index(unit) + 4 for unit in row] for row in each], len(known) + 4, order)
    for pair, log_probability in zip(queries, graphones.log_probabilities(queries), strict=True):
        if alignable(*pair):
            row = [
                known.index(unit) + 4 if unit in known else UNKNOWN for unit in units(graphones.aligner, pair)
            ]
        else:
            row = [UNKNOWN] * len(pair[1])
        assert log_probability == pytest.approx(slow.log_probability(row), rel=1e-9)


def test_impossible_pairs_are_left_out_and_rejected_if_none_remains() -> None:
    graphones = Graphones.learn(2, [((4,), (5,)), ((4,), (5, 5, 5, 5))], SIZES)
    assert graphones.units == [(4, 5)]
    with pytest.raises(ValueError, match="at most 3 target tokens for each source token"):
        Graphones.learn(2, [((4,), (5, 5, 5, 5))], SIZES)


def test_too_many_tokens_are_rejected() -> None:
    message = r"product of both vocabularies must be at most 4,194,304\. They are 3,000 x 3,000 here"
    with pytest.raises(ValueError, match=message):
        Graphones.learn(2, [((4,), (5,))], (3000, 3000))
    with pytest.raises(ValueError, match=message):
        Graphones.restore({"order": 2, "weight": 1}, GOOD.data(SIZES), (3000, 3000))


def test_units_of_the_largest_vocabularies_have_keys_of_their_own() -> None:
    size = em_aligner.MAX_CELLS // 5
    several = [(4, size - 1, size - 1, size - 1), (4, size - 1, size - 1), (4,), (3, size - 1, 0, 0)]
    keys = [module._key(unit, size) for unit in several]
    assert max(keys) < 2**63
    assert [module._unit(key, size) for key in keys] == several


def hypothesis(words: tuple[int, ...], logs: Sequence[float], scoring: Scoring) -> Hypothesis:
    return Hypothesis(words, scoring(sum(logs), len(logs)), np.array(logs), np.zeros((len(words), 0)))


def test_ranked_by_both() -> None:
    graphones, scoring = (
        Graphones.learn(3, [((5, 6), (6, 7)), ((6, 5), (7, 6)), ((5,), (6,))], SIZES),
        Scoring(),
    )
    hypotheses = [
        hypothesis((7, 7), [-0.1, -0.1, -0.1], scoring),
        hypothesis((6, 6), [-0.2, -0.3, -0.1], scoring),
    ]
    (first, second), nothing = graphones.rerank([(5, 5), (5,)], [hypotheses, []], scoring, 2)
    assert nothing == []
    assert (first.tokens, second.tokens) == ((6, 6), (7, 7))
    for one, log in ((first, -0.6), (second, -0.3)):
        expected = log + DEFAULT_WEIGHT * graphones.log_probabilities([((5, 5), one.tokens)])[0]
        assert one.score == pytest.approx(expected, rel=1e-12)
    assert len(graphones.rerank([(5, 5)], [hypotheses], scoring, 1)[0]) == 1


def test_a_weight_of_0_uses_the_network_alone() -> None:
    graphones, scoring = Graphones.learn(3, [((5, 6), (6, 7)), ((5,), (6,))], SIZES), Scoring()
    # The mean of the second is better, its sum is not: with weight 0 the hypotheses keep their order.
    hypotheses = [hypothesis((7, 7), [-0.2, -0.2, -0.2], scoring), hypothesis((6,), [-0.25, -0.25], scoring)]
    graphones.weight = 0.0
    assert graphones.rerank([(5, 5)], [hypotheses], scoring, 2) == [hypotheses]
    assert graphones.rerank([(5, 5)], [hypotheses], scoring, 1) == [hypotheses[:1]]


class Counted(Graphones):
    """Joint sequences with given probabilities of the targets."""

    def __init__(self, logs: dict[tuple[int, ...], float]) -> None:
        aligner = Aligner(np.ones((1, 1)), np.ones((1, MAX_FERTILITY + 1)))
        super().__init__(1, aligner, [], KneserNey(4, []))
        self.logs = logs

    def log_probabilities(self, pairs: Any) -> Any:
        return np.array([self.logs[tuple(target)] for _, target in pairs])


GOOD_ONE, BAD_ONE = (6, 7), (7, 7)


@pytest.mark.parametrize(
    ("network", "counts", "weight"),
    [
        ((-1.0, -2.0), (-9.0, -8.0), DEFAULT_WEIGHT),  # right with up to 0.9: the usual one
        ((-1.0, -1.25), (-9.0, -8.0), 0.2),  # right as long as 0.25 is more than the weight
        ((-1.0, -0.75), (-8.0, -9.0), DEFAULT_WEIGHT),  # right from 0.3 on
        ((-3.0, -1.9), (-8.0, -9.0), 1.2),  # from 1.2 on: 1.1 is a tie, and the network's first stays first
        ((-1.0, -1.01), (-9.0, -8.0), 0.0),  # counts are wrong, and the network is hardly sure
        ((-9.0, -1.0), (-8.0, -9.0), DEFAULT_WEIGHT),  # never right
    ],
)
def test_the_weight_minimises_the_edits(
    network: tuple[float, float], counts: tuple[float, float], weight: float
) -> None:
    scoring = Scoring(length_penalty=0)
    logs = dict(zip((GOOD_ONE, BAD_ONE), counts, strict=True))
    hypotheses = [hypothesis(w, [x], scoring) for w, x in zip((GOOD_ONE, BAD_ONE), network, strict=True)]
    hypotheses.sort(key=lambda one: -one.score)
    graphones = Counted(logs)
    graphones.fit_weight([(5, 5)], [hypotheses], [[(4, 4), GOOD_ONE]], scoring)
    assert graphones.weight == weight


def test_a_model_fits_its_weight_to_validation_pairs_that_it_has_not_learned(tmp_path: Path) -> None:
    sources, targets = list(KNOWN), list(KNOWN.values())
    options: dict[str, Any] = {
        "source": "characters",
        "target": "tokens",
        "epochs": 3,
        "extras": {"graphones": 3},
    }
    assert fitted_to(options, (sources, targets)) == DEFAULT_WEIGHT  # the counts are exact for these
    # From here on the best translations without the counts are right.
    model = Seq2Seq(**options).fit(sources, targets, valid=(["wal", "tal"], ["W AO K", "T"]))
    graphones = model.model.reranker
    assert graphones is not None
    graphones.weight = 0.0
    alone = [one.text for one in model.translate(["walt", "xal"])]
    graphones.weight = 2.0
    both = [one.text for one in model.translate(["walt", "xal"])]
    assert alone != both
    valid = ["walt", "xal"], alone
    assert fitted_to(options, valid) < 2
    model.save(tmp_path / "m")
    reranker = Seq2Seq.load(tmp_path / "m").model.reranker
    assert reranker is not None
    assert reranker.weight == 2


def fitted_to(options: dict[str, Any], valid: tuple[list[str], list[str]]) -> float:
    """The weight after training with these validation pairs."""
    graphones = Seq2Seq(**options).fit(list(KNOWN), list(KNOWN.values()), valid=valid).model.reranker
    assert graphones is not None
    return graphones.weight


@pytest.mark.parametrize("order", [1, MAX_ORDER])
def test_restored(order: int) -> None:
    graphones = Graphones.learn(order, [((5, 6), (6, 7)), ((6, 5), (7, 6)), ((5,), ())], SIZES)
    again = Graphones.restore(json.loads(json.dumps(graphones.describe())), graphones.data(SIZES), SIZES)
    pairs = [((5, 6, 5), (6, 7, 7)), ((6,), (7,)), ((4,), (4,))]
    assert again.log_probabilities(pairs).tolist() == graphones.log_probabilities(pairs).tolist()
    assert (again.order, again.units) == (order, graphones.units)
    assert again.data(SIZES) == graphones.data(SIZES)
    assert Graphones.restore({"order": order, "weight": 0}, graphones.data(SIZES), SIZES).weight == 0


GOOD = Graphones.learn(2, [((5, 6), (6, 7))], SIZES)
GOOD_LAST, GOOD_CHILDREN = (GOOD.data(SIZES)[name] for name in ("last", "children"))


@in_one_test(
    ("config", "message"),
    [
        ({"order": 0}, "order must be at least 1. Got 0"),
        ({"order": 13}, "order must be at most 12"),
        ({"order": True}, "order must be an integer"),
        ({"more": 1}, "its settings must be order, weight. Got"),
        ({"weight": -0.1}, "weight must be at least 0"),
        ({"weight": 2.1}, "weight must be at most 2"),
        ({"weight": math.nan}, "weight must be finite"),
        ({"weight": "1"}, "weight must be a number"),
    ],
)
def test_invalid_settings_are_rejected(config: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Graphones.restore({"order": 2, "weight": 1} | config, GOOD.data(SIZES), SIZES)


@in_one_test(
    ("change", "message"),
    [
        ({"more": b""}, "its data must be backoff, children, fertilities, last, own, tokens, units, values"),
        ({"tokens": b"\0"}, "tokens must be 7 x 8 numbers of 4 bytes. Got 1 bytes"),
        ({"tokens": bytes(4 * 56)}, "tokens must be greater than 0. Got 0.0"),
        ({"fertilities": b"\xff" * 112}, "fertilities must be greater than 0. Got nan"),
        ({"units": b"\5\6"}, "units are cut off"),
        ({"units": b"\7\6\2\7\2"}, "units must be a token of the source"),
        ({"units": b"\5\6\6\6\6\2"}, "units must be a token of the source"),
        ({"units": b"\2\5\2"}, "units must be a token of the source"),
        ({"units": b"\6\7\2\5\6\2"}, "units must be sorted"),
        ({"last": b"\4"}, "n-grams and their shares must be as many"),
        ({"backoff": b""}, "n-grams and their shares must be as many"),
        ({"values": b"\0"}, "values must be 0 numbers of 8 bytes. Got 1 bytes"),
        ({"values": np.array([np.nan] * 9).tobytes()}, "values must be at least 0. Got nan"),
        ({"values": np.ones(1).tobytes()}, "own must be at most 0"),
        ({"last": GOOD_LAST[:-1] + b"\x09"}, "last must be at most 5. Got 9"),
        ({"last": GOOD_LAST[1::-1] + GOOD_LAST[2:]}, "n-grams must be sorted"),
        ({"children": GOOD_CHILDREN[:-1] + b"\7"}, "n-grams are cut off"),
        ({"children": bytes(len(GOOD_CHILDREN))}, "n-grams are cut off"),
    ],
)
def test_invalid_graphones_are_rejected(change: dict[str, bytes], message: str) -> None:
    Graphones.restore({"order": 2, "weight": 1}, GOOD.data(SIZES), SIZES)
    with pytest.raises(ValueError, match=message):
        Graphones.restore({"order": 2, "weight": 1}, GOOD.data(SIZES) | change, SIZES)


# ---------------------------------------------------------------------------------------------------- in a model

KNOWN = {
    "walk": "W AO K",
    "talk": "T AO K",
    "walked": "W AO K T",
    "talks": "T AO K S",
    "chalk": "CH AO K",
    "x": "K S",
}


def learned(**options: Any) -> Seq2Seq:
    chosen: dict[str, Any] = {
        "source": "characters",
        "target": "tokens",
        "epochs": 40,
        "extras": {"graphones": 4},
    } | options
    return Seq2Seq(**chosen).fit(list(KNOWN), list(KNOWN.values()))


@pytest.fixture(scope="module")
def speaker() -> Seq2Seq:
    return learned()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"extras": {"translation_memory": 2, "graphones": 4}}, {"family": "transformer", "epochs": 5}],
)
def test_translations_are_ranked_by_both(options: dict[str, Any], tmp_path: Path) -> None:
    model = learned(**options)
    graphones = model.model.reranker
    assert graphones is not None
    sources = ["walks", "chalked", "talk", "walkx", ""]
    candidates = model.candidates(sources, beam=4)
    others = {name: extra for name, extra in model.model.extras.items() if extra is not graphones}
    write_model(tmp_path / "alone", model.model._replace(extras=others))
    alone = Seq2Seq.load(tmp_path / "alone").candidates(sources, beam=4)
    for source, several, before in zip(sources[:-1], candidates, alone, strict=False):
        row = model.model.source.tokenizer.encode(list(source))
        number = {token: i for i, token in enumerate(model.model.target.tokens)}
        scores = {}
        for one in before:
            (more,) = graphones.log_probabilities([(row, [number[token] for token in one.tokens])])
            scores[one.tokens] = one.score * (len(one.tokens) + 1) + DEFAULT_WEIGHT * more
        assert [one.tokens for one in several] == sorted(scores, key=lambda tokens: -scores[tokens])
        np.testing.assert_allclose(
            [one.score for one in several], sorted(scores.values(), reverse=True), rtol=1e-5
        )
    assert candidates[-1][0].tokens == ()


def test_greedy_search_uses_the_network_alone(speaker: Seq2Seq) -> None:
    greedy = speaker.translate(["walks"], beam=1)[0]
    assert greedy.score == pytest.approx(greedy.log_probability / (len(greedy.tokens) + 1), rel=1e-5)

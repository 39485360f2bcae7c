"""Joint sequences: spelling, runs and ranking against their definitions, and models that rank by them."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.cli import main
from regard.seq2seq.data.packing import packed, unpacked
from regard.seq2seq.data.vocabulary import END, START, UNKNOWN
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.ensemble import Ensemble
from regard.seq2seq.evaluation.metrics import edit_distance
from regard.seq2seq.extras.graphones import em_aligner as spelling_module
from regard.seq2seq.extras.graphones import model as module
from regard.seq2seq.extras.graphones.em_aligner import MOST, Spelling, follows
from regard.seq2seq.extras.graphones.kneser_ney import Runs
from regard.seq2seq.extras.graphones.model import LONGEST, WEIGHT, WEIGHTS, Joint
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.storage.safetensors import opened

# ---------------------------------------------------------------------------------------------------- rows


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(END + 1, 299).map(int)), min_size=1), st.sampled_from([300, 70_000]))
def test_rows_are_unpacked_as_they_were_packed(rows: list[list[int]], size: int) -> None:
    assert unpacked("rows", packed(rows, size), size) == [tuple(row) for row in rows]


# ---------------------------------------------------------------------------------------------------- runs

ROWS = st.lists(st.lists(st.integers(UNKNOWN, 6), max_size=6), min_size=1, max_size=8)


class Slow:
    """Interpolated, modified Kneser-Ney as the formulas say, one probability at a time."""

    def __init__(self, rows: Sequence[Sequence[int]], size: int, order: int) -> None:
        self.size, self.order = size, order
        came: Counter[tuple[int, ...]] = Counter()
        companies: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        for row in rows:
            whole = (START, *row, END)
            for end in range(1, len(whole) + 1):
                for begin in range(end):
                    came[whole[begin:end]] += 1
                    companies[whole[begin + 1 : end]].add(whole[begin])
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
        whole = (START, *row, END)
        return sum(
            math.log(self(whole[max(0, end - self.order + 1) : end], whole[end]))
            for end in range(1, len(whole))
        )


@pytest.mark.slow
@settings(max_examples=60)
@given(ROWS, ROWS, st.integers(1, 5))
def test_runs_are_as_likely_as_kneser_and_ney_say(
    seen: list[list[int]], asked: list[list[int]], order: int
) -> None:
    slow = Slow(seen, 8, order)
    found = Runs(seen, 8, order).log_probabilities(asked)
    np.testing.assert_allclose(found, [slow.log_probability(row) for row in asked], rtol=1e-10)


def test_a_row_by_hand() -> None:
    """Counts 2 of S4 and 45, 3 of 5E, 1 of S6 and 65: discounts 1/3, 3/2, and the 1/2 of too few; p(5) = 0.392."""
    runs = Runs([[4, 5], [4, 5], [6, 5]], size=7, order=2)
    four, five, end = 0.4 / 5 + 0.46 / 5, 1.5 / 5 + 0.46 / 5, 0.4 / 5 + 0.46 / 5
    expected = (0.5 / 3 + 11 / 18 * four) * (0.25 + 0.75 * five) * (2.5 / 3 + 0.5 / 3 * end)
    assert np.exp(runs.log_probabilities([[4, 5]])) == pytest.approx([expected], rel=1e-12)


@settings(max_examples=30)
@given(ROWS, st.integers(1, 5))
def test_what_may_come_next_has_probability_one(seen: list[list[int]], order: int) -> None:
    runs = Runs(seen, 8, order)
    for level in runs.levels:
        shares = np.bincount(level.keys // 8, level.own, minlength=len(level.left))
        np.testing.assert_allclose(shares + level.left, 1, rtol=1e-12)
        assert (level.own >= 0).all()
        assert (level.left > 0).all()  # whatever never came keeps a chance
    assert runs.log_probabilities([]).shape == (0,)


# ---------------------------------------------------------------------------------------------------- spelling

SIZES = (7, 8)
SOURCE, TARGET = (
    st.lists(st.integers(UNKNOWN, 6), min_size=1, max_size=4),
    st.lists(st.integers(UNKNOWN, 7), max_size=6),
)
PAIRS = st.lists(st.tuples(SOURCE, TARGET).filter(lambda pair: follows(*pair)), min_size=1, max_size=5)


def cuts(m: int, n: int) -> Iterator[tuple[int, ...]]:
    """Yield how many target tokens m source tokens may give."""
    if not m:
        if not n:
            yield ()
        return
    for k in range(min(MOST, n) + 1):
        yield from ((k, *rest) for rest in cuts(m - 1, n - k))


def likelihood(spelling: Spelling, pair: tuple[Sequence[int], Sequence[int]], cut: Sequence[int]) -> float:
    place, likely = 0, 1.0
    for token, k in zip(pair[0], cut, strict=True):
        likely *= float(spelling.counts[token, k])
        for given_ in pair[1][place : place + k]:
            likely *= float(spelling.tokens[token, given_])
        place += k
    return likely


def drawn(seed: int) -> Spelling:
    rng = np.random.default_rng(seed)
    return Spelling(
        rng.dirichlet(np.ones(SIZES[1]), SIZES[0]).astype(np.float32),
        rng.dirichlet(np.ones(MOST + 1), SIZES[0]).astype(np.float32),
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(PAIRS, st.integers(0, 2**16))
def test_targets_are_cut_as_is_likeliest(pairs: list[Any], seed: int) -> None:
    spelling = drawn(seed)
    for pair, cut in zip(pairs, spelling.given(pairs), strict=True):
        best = max(likelihood(spelling, pair, other) for other in cuts(len(pair[0]), len(pair[1])))
        assert likelihood(spelling, pair, cut) == pytest.approx(best, rel=1e-5)


@pytest.mark.slow
@settings(max_examples=40)
@given(PAIRS, st.integers(0, 2**16))
def test_each_round_counts_what_all_cuts_give_as_far_as_they_are_likely(pairs: list[Any], seed: int) -> None:
    spelling = drawn(seed)
    tokens, counts = np.zeros(SIZES), np.zeros((SIZES[0], MOST + 1))
    for some in spelling_module._side_by_side(pairs):
        spelling._expect(some, tokens, counts)
    expected_tokens, expected_counts = np.zeros(SIZES), np.zeros((SIZES[0], MOST + 1))
    for source, target in pairs:
        each = {cut: likelihood(spelling, (source, target), cut) for cut in cuts(len(source), len(target))}
        for cut, likely in each.items():
            share, place = likely / sum(each.values()), 0
            for token, k in zip(source, cut, strict=True):
                expected_counts[token, k] += share
                for given_ in target[place : place + k]:
                    expected_tokens[token, given_] += share
                place += k
    np.testing.assert_allclose(tokens, expected_tokens, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(counts[UNKNOWN:], expected_counts[UNKNOWN:], rtol=1e-5, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=20)
@given(PAIRS, st.integers(1, 6))
def test_every_round_makes_the_pairs_likelier(pairs: list[Any], rounds: int) -> None:
    def total(number: int) -> float:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spelling_module, "_ROUNDS", number)
            learned = Spelling.learn(pairs, SIZES)
        return sum(
            math.log(sum(likelihood(learned, pair, cut) for cut in cuts(len(pair[0]), len(pair[1]))))
            for pair in pairs
        )

    assert total(rounds + 1) >= total(rounds) - 1e-4


def test_letters_are_told_from_each_other() -> None:
    """c says K, h nothing behind it, x two sounds; only all words together say so."""
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
    pairs = [([encode[c] for c in word], [sounds[s] for s in said]) for word, said in words.items()]
    found = Spelling.learn(pairs, (4 + len(encode), 4 + len(sounds))).given(pairs)
    assert dict(zip(words, found, strict=True))["tax"] == (1, 1, 2)
    assert dict(zip(words, found, strict=True))["echo"] == (1, 1, 0, 1)


def test_tokens_that_were_not_learned_from_give_what_others_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token gives one; most of them are in none of the pairs that are drawn."""
    rng = np.random.default_rng(5)
    rows = [rng.integers(4, 304, 4).tolist() for _ in range(400)]
    pairs = [(row, [4 + token % 7 for token in row]) for row in rows]
    monkeypatch.setattr(spelling_module, "_ENOUGH", 20)
    monkeypatch.setattr(spelling_module, "_FOR_EACH", 0)
    found = Spelling.learn(pairs, (304, 11)).given(pairs)
    assert sum(cut == (1, 1, 1, 1) for cut in found) > 0.9 * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("much", [1, MOST])
def test_many_tokens_are_cut_without_underflow(much: int) -> None:
    pairs = [([4] * 300, [5] * (300 * much)), ([4] * 300, [])]
    learned = Spelling.learn(pairs, (5, 6))
    assert np.isfinite(learned.tokens).all()
    assert [sum(cut) for cut in learned.given(pairs)] == [300 * much, 0]


def test_pairs_of_all_lengths_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    pairs = [
        (rng.integers(4, 7, m).tolist(), rng.integers(4, 8, n).tolist())
        for m in range(1, 9)
        for n in range(3 * m)
    ]
    spelling = drawn(1)
    together = spelling.given(pairs)
    assert together == [spelling.given([pair])[0] for pair in pairs]
    monkeypatch.setattr(spelling_module, "_PLACES", 50)
    assert together == spelling.given(pairs)


# ---------------------------------------------------------------------------------------------------- joint


def units(spelling: Spelling, pair: tuple[Sequence[int], Sequence[int]]) -> list[tuple[int, ...]]:
    (cut,), place, found = spelling.given([pair]), 0, []
    for token, k in zip(pair[0], cut, strict=True):
        found.append((token, *pair[1][place : place + k]))
        place += k
    return found


@pytest.mark.slow
@settings(max_examples=40)
@given(PAIRS, st.lists(st.tuples(SOURCE, TARGET), min_size=1, max_size=6), st.integers(1, 4))
def test_a_pair_is_as_likely_as_its_row_of_units(pairs: list[Any], asked: list[Any], order: int) -> None:
    joint = Joint.learn(order, pairs, SIZES)
    each = [units(joint.spelling, pair) for pair in pairs]
    known = sorted({unit for row in each for unit in row})
    assert [tuple(unit) for unit in joint.units] == known
    assert [[known[number - 4] for number in row] for row in joint.rows] == each
    slow = Slow([[known.index(unit) + 4 for unit in row] for row in each], len(known) + 4, order)
    for pair, found in zip(asked, joint.log_probabilities(asked), strict=True):
        if follows(*pair):
            row = [
                known.index(unit) + 4 if unit in known else UNKNOWN for unit in units(joint.spelling, pair)
            ]
        else:
            row = [UNKNOWN] * len(pair[1])
        assert found == pytest.approx(slow.log_probability(row), rel=1e-9)


def test_what_can_not_follow_is_left_out_and_refused_if_nothing_is_left() -> None:
    joint = Joint.learn(2, [((4,), (5,)), ((4,), (5, 5, 5, 5))], SIZES)
    assert joint.rows == [(4,)]
    with pytest.raises(ValueError, match="every target has more than 3 tokens for each of its source"):
        Joint.learn(2, [((4,), (5, 5, 5, 5))], SIZES)


def test_too_many_tokens_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"multiplied, are more than 4,194,304\. They are 3,000 x 3,000 here"
    ):
        Joint.learn(2, [((4,), (5,))], (3000, 3000))


def test_files_of_too_many_tokens_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PLACES", 55)
    with pytest.raises(ValueError, match="multiplied, are more than 55"):
        Joint.restore({"order": 2}, GOOD.data(SIZES), SIZES)


def test_units_of_the_largest_vocabularies_have_keys_of_their_own() -> None:
    size = module.MOST_PLACES // 5
    several = [(4, size - 1, size - 1, size - 1), (4, size - 1, size - 1), (4,), (3, size - 1, 0, 0)]
    keys = [module._key(unit, size) for unit in several]
    assert max(keys) < 2**63
    assert [module._unit(key, size) for key in keys] == several


def hypothesis(words: tuple[int, ...], logs: Sequence[float], scoring: Scoring) -> Hypothesis:
    return Hypothesis(words, scoring(sum(logs), len(logs)), np.array(logs), np.zeros((len(words), 0)))


def test_ranked_by_both() -> None:
    joint, scoring = Joint.learn(3, [((5, 6), (6, 7)), ((6, 5), (7, 6)), ((5,), (6,))], SIZES), Scoring()
    found = [hypothesis((7, 7), [-0.1, -0.1, -0.1], scoring), hypothesis((6, 6), [-0.2, -0.3, -0.1], scoring)]
    (first, second), nothing = joint.ranked([(5, 5), (5,)], [found, []], scoring, 2)
    assert nothing == []
    assert (first.words, second.words) == ((6, 6), (7, 7))
    for one, log in ((first, -0.6), (second, -0.3)):
        expected = log + WEIGHT * joint.log_probabilities([((5, 5), one.words)])[0]
        assert one.score == pytest.approx(expected, rel=1e-12)
    assert len(joint.ranked([(5, 5)], [found], scoring, 1)[0]) == 1


def test_a_weight_of_0_is_the_network_alone() -> None:
    joint, scoring = Joint.learn(3, [((5, 6), (6, 7)), ((5,), (6,))], SIZES), Scoring()
    # The mean of the second is better, its sum is not: with weight 0 what was found stays as it was ranked.
    found = [hypothesis((7, 7), [-0.2, -0.2, -0.2], scoring), hypothesis((6,), [-0.25, -0.25], scoring)]
    joint.weight = 0.0
    assert joint.ranked([(5, 5)], [found], scoring, 2) == [found]
    assert joint.ranked([(5, 5)], [found], scoring, 1) == [found[:1]]


class Counted(Joint):
    """Joint sequences that find targets as likely as they are told."""

    def __init__(self, logs: dict[tuple[int, ...], float]) -> None:
        super().__init__(1, Spelling(np.ones((1, 1)), np.ones((1, MOST + 1))), [], [])
        self.logs = logs

    def log_probabilities(self, pairs: Any) -> Any:
        return np.array([self.logs[tuple(target)] for _, target in pairs])


GOOD_ONE, BAD_ONE = (6, 7), (7, 7)


@pytest.mark.parametrize(
    ("network", "counts", "weight"),
    [
        ((-1.0, -2.0), (-9.0, -8.0), WEIGHT),  # right with up to 0.9: the usual one
        ((-1.0, -1.25), (-9.0, -8.0), 0.2),  # right as long as 0.25 is more than the weight
        ((-1.0, -0.75), (-8.0, -9.0), WEIGHT),  # right from 0.3 on
        ((-3.0, -1.9), (-8.0, -9.0), 1.2),  # from 1.2 on: 1.1 is a tie, and the network's first stays first
        ((-1.0, -1.01), (-9.0, -8.0), 0.0),  # counts are wrong, and the network is hardly sure
        ((-9.0, -1.0), (-8.0, -9.0), WEIGHT),  # never right
    ],
)
def test_the_weight_is_that_of_the_fewest_edits(
    network: tuple[float, float], counts: tuple[float, float], weight: float
) -> None:
    scoring = Scoring(length_penalty=0)
    logs = dict(zip((GOOD_ONE, BAD_ONE), counts, strict=True))
    found = [hypothesis(w, [x], scoring) for w, x in zip((GOOD_ONE, BAD_ONE), network, strict=True)]
    found.sort(key=lambda one: -one.score)
    joint = Counted(logs)
    joint.fit_weight([(5, 5)], [found], [[(6, 6), GOOD_ONE]], scoring)
    assert joint.weight == weight


def test_no_weight_makes_fewer_edits_on_what_it_was_fitted_to() -> None:
    rng, scoring = np.random.default_rng(3), Scoring(length_penalty=0)
    targets = [tuple(rng.integers(4, 8, 3).tolist()) for _ in range(9)]
    joint = Counted({target: float(rng.normal()) for target in targets})
    several = [[targets[i] for i in rng.choice(9, 3, replace=False)] for _ in range(40)]
    found = [
        sorted((hypothesis(t, [rng.normal()], scoring) for t in each), key=lambda one: -one.score)
        for each in several
    ]
    right = [[targets[rng.integers(9)]] for _ in several]
    sources = [(5, 5)] * 40

    def edits(weight: float) -> int:
        joint.weight = weight
        best = (each[0].words for each in joint.ranked(sources, found, scoring, 1))
        return sum(edit_distance(words, target) for words, (target,) in zip(best, right, strict=True))

    joint.fit_weight(sources, found, right, scoring)
    fitted = joint.weight
    assert edits(fitted) == min(map(edits, WEIGHTS))


def test_a_model_fits_its_weight_to_validation_pairs_that_it_has_not_learned(tmp_path: Path) -> None:
    sources, targets = list(KNOWN), list(KNOWN.values())
    options: dict[str, Any] = {"source": "characters", "target": "tokens", "epochs": 3, "joint": 3}
    assert fitted_to(options, (sources, targets)) == WEIGHT  # counts know these by heart
    # What is right now is what the network finds without the counts.
    model = Seq2Seq(**options).fit(sources, targets, valid=(["wal", "tal"], ["W AO K", "T"]))
    joint = model.model.joint
    assert joint is not None
    joint.weight = 0.0
    alone = [one.text for one in model.translate(["walt", "xal"])]
    joint.weight = 2.0
    both = [one.text for one in model.translate(["walt", "xal"])]
    assert alone != both
    valid = ["walt", "xal"], alone
    assert fitted_to(options, valid) < 2
    model.save(tmp_path / "m")
    kept = Seq2Seq.load(tmp_path / "m").model.joint
    assert kept is not None
    assert kept.weight == 2


def fitted_to(options: dict[str, Any], valid: tuple[list[str], list[str]]) -> float:
    """The weight after training with these validation pairs."""
    joint = Seq2Seq(**options).fit(list(KNOWN), list(KNOWN.values()), valid=valid).model.joint
    assert joint is not None
    return joint.weight


@pytest.mark.parametrize("order", [1, LONGEST])
def test_restored(order: int) -> None:
    joint = Joint.learn(order, [((5, 6), (6, 7)), ((6, 5), (7, 6)), ((5,), ())], SIZES)
    again = Joint.restore(json.loads(json.dumps(joint.describe())), joint.data(SIZES), SIZES)
    asked = [((5, 6, 5), (6, 7, 7)), ((6,), (7,)), ((4,), (4,))]
    assert again.log_probabilities(asked).tolist() == joint.log_probabilities(asked).tolist()
    assert (again.order, list(again.units), list(again.rows)) == (order, list(joint.units), list(joint.rows))
    assert Joint.restore({"order": order}, joint.data(SIZES), SIZES).weight == WEIGHT  # an older file
    assert Joint.restore({"order": order, "weight": 0}, joint.data(SIZES), SIZES).weight == 0


GOOD = Joint.learn(2, [((5, 6), (6, 7))], SIZES)


@pytest.mark.parametrize(
    ("settings_", "change", "message"),
    [
        ({"order": 0}, {}, "order must be a whole number from 1 to 12"),
        ({"order": 13}, {}, "order must be"),
        ({"order": True}, {}, "order must be"),
        ({"order": 2, "more": 1}, {}, "order must be"),
        ({"weight": 1.0}, {}, "order must be"),
        *(
            ({"order": 2, "weight": weight}, {}, "weight must be a number from 0 to 2")
            for weight in (-0.1, 2.1, math.nan, True, "1", None)
        ),
        ({"order": 2}, {"more": b""}, "units, rows, tokens and counts"),
        ({"order": 2}, {"tokens": b"\0"}, "tokens must be 7 x 8 numbers of 4 bytes"),
        ({"order": 2}, {"tokens": bytes(4 * 56)}, "tokens must be above 0"),
        ({"order": 2}, {"counts": b"\xff" * 112}, "counts must be above 0"),
        ({"order": 2}, {"units": b"\5\6"}, "units are cut off"),
        ({"order": 2}, {"units": b"\7\6\2\7\2"}, "units must be a token of the source"),
        ({"order": 2}, {"units": b"\5\6\6\6\6\2"}, "units must be a token of the source"),
        ({"order": 2}, {"units": b"\2\5\2"}, "units must be a token of the source"),
        ({"order": 2}, {"units": b"\6\7\2\5\6\2"}, "units must be in rising order"),
        ({"order": 2}, {"rows": b"\4\6\2"}, "rows must be numbers from 2 to 5"),
        ({"order": 2}, {"rows": b"\4\3\2"}, "rows must be numbers of units, from 4 on"),
        ({"order": 2}, {"rows": b"\4\2\2"}, "rows must be numbers of units, from 4 on"),
    ],
)
def test_what_is_no_joint_is_refused(
    settings_: dict[str, Any], change: dict[str, bytes], message: str
) -> None:
    Joint.restore({"order": 2}, GOOD.data(SIZES), SIZES)
    with pytest.raises(ValueError, match=message):
        Joint.restore(settings_, GOOD.data(SIZES) | change, SIZES)


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
    chosen: dict[str, Any] = {"source": "characters", "target": "tokens", "epochs": 40, "joint": 4} | options
    return Seq2Seq(**chosen).fit(list(KNOWN), list(KNOWN.values()))


@pytest.fixture(scope="module")
def speaker() -> Seq2Seq:
    return learned()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"memory": 2}, {"family": "transformer", "epochs": 5}])
def test_translations_are_ranked_by_both(options: dict[str, Any]) -> None:
    model = learned(**options)
    joint = model.model.joint
    assert joint is not None
    asked = ["walks", "chalked", "talk", "walkx", ""]
    found = model.candidates(asked, beam=4)
    model._model = model.model._replace(joint=None)
    alone = model.candidates(asked, beam=4)
    for source, several, before in zip(asked[:-1], found, alone, strict=False):
        row = model.model.source.encode(list(source))
        number = {token: i for i, token in enumerate(model.model.target.tokens)}
        scores = {}
        for one in before:
            (more,) = joint.log_probabilities([(row, [number[token] for token in one.tokens])])
            scores[one.tokens] = one.score * (len(one.tokens) + 1) + WEIGHT * more
        assert [one.tokens for one in several] == sorted(scores, key=lambda tokens: -scores[tokens])
        np.testing.assert_allclose(
            [one.score for one in several], sorted(scores.values(), reverse=True), rtol=1e-5
        )
    assert found[-1][0].tokens == ()


def test_fewer_than_were_found(speaker: Seq2Seq) -> None:
    asked = ["walks", "chalked"]
    best = [several[0].tokens for several in speaker.candidates(asked, beam=5)]
    assert [one.tokens for one in speaker.translate(asked, beam=5)] == best


def test_greedy_is_the_network_alone(speaker: Seq2Seq) -> None:
    greedy = speaker.translate(["walks"], beam=1)[0]
    assert greedy.score == pytest.approx(greedy.log_probability / (len(greedy.tokens) + 1), rel=1e-5)


def test_saved_and_loaded(speaker: Seq2Seq, tmp_path: Path) -> None:
    speaker.save(tmp_path / "model")
    with opened(tmp_path / "model", "model file") as file:
        assert (file.metadata["version"], json.loads(file.metadata["joint"])) == (
            "1",
            {"order": 4, "weight": WEIGHT},
        )
    loaded = Seq2Seq.load(tmp_path / "model")
    assert loaded.joint == 4
    asked = ["walks", "chalked"]
    assert [(one.text, one.score) for one in loaded.translate(asked)] == [
        (one.text, one.score) for one in speaker.translate(asked)
    ]


@pytest.mark.slow
def test_together(speaker: Seq2Seq) -> None:
    other = learned(seed=2)
    assert Ensemble([speaker, other]).translate(["walks"])[0].text == "W AO K S"
    for others in (3, 0):
        with pytest.raises(ValueError, match="models must count joint sequences of the same length, or none"):
            Ensemble([speaker, learned(joint=others)])


def test_a_training_of_another_joint_is_another_training(tmp_path: Path) -> None:
    pairs = list(KNOWN.items())
    made = [Seq2Seq(source="characters", target="tokens", joint=n).begin(pairs, pairs) for n in (0, 3, 4, 3)]
    marks = [tuple(training.fingerprint().items()) for training in made]
    assert len({*marks}) == 3
    assert marks[1] == marks[3]


def test_wrong_input_is_told_before_anything_is_counted(
    speaker: Seq2Seq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Runs", None)
    fresh = Seq2Seq(source="characters", target="tokens", joint=3, epochs=1).fit(
        list(KNOWN), list(KNOWN.values())
    )
    assert fresh.translate([]) == []
    with pytest.raises(ValueError, match="at most 1000 are allowed"):
        fresh.translate(["x" * 1001])


def test_refused(speaker: Seq2Seq) -> None:
    with pytest.raises(ValueError, match="coverage_penalty must be 0"):
        speaker.translate(["walk"], scoring=Scoring(coverage_penalty=0.2))
    with pytest.raises(ValueError, match=r"joint must be at most 12\. Got 13 instead\."):
        Seq2Seq(joint=13)
    with pytest.raises(ValueError, match="joint must be at least 0"):
        Seq2Seq(joint=-1)


@pytest.mark.slow
def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "out"
    pairs.write_text("".join(f"{word}\t{said}\n" for word, said in KNOWN.items()), encoding="utf-8")
    asked = [
        "train",
        str(pairs),
        "--source",
        "characters",
        "--target",
        "tokens",
        "--epochs",
        "2",
        "--out",
        str(out),
    ]
    assert main([*asked, "--joint", "3"]) == 0
    assert Seq2Seq.load(out / "model.safetensors").joint == 3
    capsys.readouterr()
    words = tmp_path / "words.txt"
    words.write_text("walks\n", encoding="utf-8")
    assert main(["translate", str(out), str(words), "--n-best", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main([*asked, "--fresh", "--joint", "99"]) == 2
    assert "joint must be at most 12" in capsys.readouterr().err

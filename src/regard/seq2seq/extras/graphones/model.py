"""Joint n-grams of source and target tokens (graphones), which rerank the translations of a network.

Where a target follows its source from left to right, as sounds follow letters, each source token gives a few target
tokens (`em_aligner`). A source token with what it gives is a unit (a graphone), a pair is a sequence of units, and an
n-gram model of units (`kneser_ney`) gives the probability of a pair: the joint-sequence model of Bisani and Ney 2008,
"Joint-sequence models for grapheme-to-phoneme conversion", with one source token a unit.

It counts what a network only has an impression of, and knows nothing of what is similar or far away. So both err
elsewhere, and of the translations that a beam finds those are better that both find likely: they are ranked by ::

    log P(target | source) + weight log P(source, target)

The source is the same for all of them, so that the second is as good as a probability of the target. The weight is
fitted to validation pairs: it is the one of `WEIGHTS` that leaves the fewest edits between the best translations and
what is right (Och 2003, "Minimum Error Rate Training in Statistical Machine Translation"). It may be 0: then the
network ranks alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.data.packing import Row, packed, unpacked
from regard.seq2seq.data.vocabulary import SPECIAL, UNKNOWN
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.evaluation.metrics import edit_distance
from regard.seq2seq.extras.graphones.em_aligner import MOST, Spelling, follows
from regard.seq2seq.extras.graphones.kneser_ney import Runs

__all__ = ["LONGEST", "MOST_PLACES", "WEIGHT", "WEIGHTS", "Joint"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

WEIGHT = 0.8  # where there is nothing to fit it to
WEIGHTS = tuple(k / 10 for k in range(21))
LONGEST = 12  # units in a row
MOST_PLACES = 1 << 22  # source tokens times target tokens: what may give what is a table
_FIRST = len(SPECIAL)  # the first unit's number


class Joint:
    """Pairs as rows of units, and how likely other pairs are.

    Parameters
    ----------
    order : int
        How many units in a row are counted, at most.
    spelling : Spelling
        What source tokens give.
    units : sequence of sequence of int
        Each a source token and what it gives, in rising order.
    rows : sequence of sequence of int
        Pairs; the first unit has the number 4.
    weight : float
        How much they count beside the network.

    Examples
    --------
    >>> joint = Joint.learn(3, [((5, 6), (8, 9)), ((6, 5), (9, 8)), ((5,), (8,))], (7, 10))
    >>> joint.units
    [(5, 8), (6, 9)]
    >>> right, wrong = joint.log_probabilities([((5, 5), (8, 8)), ((5, 5), (8, 9))])
    >>> bool(right > wrong)
    True
    """

    def __init__(
        self,
        order: int,
        spelling: Spelling,
        units: Sequence[Row],
        rows: Sequence[Row],
        weight: float = WEIGHT,
    ) -> None:
        self.order, self.spelling, self.units, self.rows = order, spelling, units, rows
        self.weight = weight
        self._size = spelling.tokens.shape[1]
        self._keys = np.array([_key(unit, self._size) for unit in units], np.int64)

    @classmethod
    def learn(cls, order: int, pairs: Sequence[tuple[Row, Row]], sizes: tuple[int, int]) -> Self:
        """Cut pairs into units; those whose target can't follow the source are left out.

        Parameters
        ----------
        order : int
            How many units in a row are counted.
        pairs : sequence of (source, target)
            Numbers of their tokens.
        sizes : (int, int)
            How many tokens the sides know.

        Returns
        -------
        Joint
            Of these pairs.

        Raises
        ------
        ValueError
            If none is left, or the sides know too many tokens.
        """
        _check_places(sizes)
        pairs = [pair for pair in pairs if pair[0] and follows(*pair)]
        if not pairs:
            raise ValueError(
                f"joint must be 0 where every target has more than {MOST} tokens for each of its source"
            )
        spelling = Spelling.learn(pairs, sizes)
        keys, numbers = np.unique(_unit_keys(pairs, spelling.given(pairs), sizes[1]), return_inverse=True)
        units = [_unit(key, sizes[1]) for key in keys.tolist()]
        return cls(order, spelling, units, _split(numbers + _FIRST, pairs))

    def log_probabilities(self, pairs: Sequence[tuple[Row, Row]]) -> Array:
        """Return the natural logarithms of how likely pairs are.

        Parameters
        ----------
        pairs : sequence of (source, target)
            Numbers of their tokens.

        Returns
        -------
        array (len(pairs),)
            A target that can't follow its source is as unlikely as a row of unknown units, one for each of its tokens.
        """
        rows: list[Row] = [(UNKNOWN,) * len(target) for _, target in pairs]
        whole = [number for number, pair in enumerate(pairs) if follows(*pair)]
        some = [pairs[number] for number in whole]
        keys = _unit_keys(some, self.spelling.given(some), self._size)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        numbers = np.where(self._keys[places] == keys, places + _FIRST, UNKNOWN)
        for number, row in zip(whole, _split(numbers, some), strict=True):
            rows[number] = row
        return self._runs.log_probabilities(rows)

    def ranked(
        self, sources: Sequence[Row], found: Sequence[Sequence[Hypothesis]], scoring: Scoring, n_best: int
    ) -> list[list[Hypothesis]]:
        """Rank what was found for sources by how likely both are.

        Parameters
        ----------
        sources : sequence of sequence of int
            Their own tokens' numbers.
        found : sequence of sequence of Hypothesis
            For each what the network has found.
        scoring : Scoring
            What it was ranked by there.
        n_best : int
            How many are wanted.

        Returns
        -------
        list of list of Hypothesis
            For each the best, with new scores. With weight 0 they stay as they are.
        """
        logs = self._logs(sources, found) if self.weight else [[] for _ in found]
        pairs = zip(found, logs, strict=True)
        return [_ranked(several, more, self.weight, scoring)[:n_best] for several, more in pairs]

    def _logs(self, sources: Sequence[Row], found: Sequence[Sequence[Hypothesis]]) -> list[list[float]]:
        """Return the logarithms of how likely each source is with each of what was found for it."""
        pairs = [(row, one.words) for row, several in zip(sources, found, strict=True) for one in several]
        logs = iter(self.log_probabilities(pairs).tolist())
        return [list(islice(logs, len(several))) for several in found]

    def fit_weight(
        self,
        sources: Sequence[Row],
        found: Sequence[Sequence[Hypothesis]],
        right: Sequence[Sequence[Row]],
        scoring: Scoring,
    ) -> None:
        """Choose the weight of `WEIGHTS` with the fewest edits; of equal ones that nearest to `WEIGHT`.

        Parameters
        ----------
        sources, found, scoring
            As for `ranked`.
        right : sequence of sequence of sequence of int
            For each source its right targets; of several, the nearest counts.
        """
        logs = self._logs(sources, found)
        edits = [
            {one.words: min(edit_distance(one.words, target) for target in targets) for one in several}
            for several, targets in zip(found, right, strict=True)
        ]

        def errors(weight: float) -> int:
            ranked = (_ranked(*both, weight, scoring) for both in zip(found, logs, strict=True))
            return sum(known[several[0].words] for known, several in zip(edits, ranked, strict=True))

        self.weight = min(WEIGHTS, key=lambda weight: (errors(weight), abs(weight - WEIGHT)))

    @cached_property
    def _runs(self) -> Runs:
        return Runs(self.rows, len(self.units) + _FIRST, self.order)

    def data(self, sizes: tuple[int, int]) -> dict[str, bytes]:
        """Return what it knows as bytes.

        Parameters
        ----------
        sizes : (int, int)
            How many tokens the source knows, and the target.

        Returns
        -------
        dict of str to bytes
            "units" and "rows" as `packed` packs them, "tokens" and "counts" of the aligner as float32.
        """
        return {
            "units": packed(self.units, max(sizes)),
            "rows": packed(self.rows, len(self.units) + _FIRST),
            "tokens": self.spelling.tokens.astype("<f4").tobytes(),
            "counts": self.spelling.counts.astype("<f4").tobytes(),
        }

    def describe(self) -> dict[str, float]:
        """Return the settings, for JSON.

        Returns
        -------
        dict of str to number
            ``{"order": ..., "weight": ...}``.
        """
        return {"order": self.order, "weight": self.weight}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes], sizes: tuple[int, int]) -> Self:
        """Make the same of what `describe` and `data` have returned, or a stranger.

        Parameters
        ----------
        settings : mapping
            From `describe`.
        data : mapping of str to bytes
            From `data`.
        sizes : (int, int)
            How many tokens the sides know.

        Returns
        -------
        Joint
            The same.

        Raises
        ------
        ValueError
            If they don't fit each other.
        """
        order, weight = settings.get("order"), settings.get("weight", WEIGHT)  # older files have none
        if settings.keys() - {"weight"} != {"order"} or type(order) is not int or not 0 < order <= LONGEST:
            raise ValueError(f"order must be a whole number from 1 to {LONGEST}")
        if type(weight) not in (int, float) or not 0 <= weight <= WEIGHTS[-1]:
            raise ValueError(f"weight must be a number from 0 to {WEIGHTS[-1]:g}")
        if data.keys() != {"units", "rows", "tokens", "counts"}:
            raise ValueError("it must have units, rows, tokens and counts")
        _check_places(sizes)
        spelling = Spelling(
            _table("tokens", data["tokens"], sizes), _table("counts", data["counts"], (sizes[0], MOST + 1))
        )
        units = unpacked("units", data["units"], max(sizes))
        if not all(_is_unit(unit, sizes) for unit in units):
            raise ValueError(f"units must be a token of the source and at most {MOST} of the target")
        rows = unpacked("rows", data["rows"], len(units) + _FIRST)
        if not all(row and min(row) >= _FIRST for row in rows):
            raise ValueError(f"rows must be numbers of units, from {_FIRST} on")
        joint = cls(order, spelling, units, rows, float(weight))
        if not (np.diff(joint._keys) > 0).all():
            raise ValueError("units must be in rising order")
        return joint


def _check_places(sizes: tuple[int, int]) -> None:
    if sizes[0] * sizes[1] > MOST_PLACES:
        raise ValueError(
            f"joint must be 0 where the tokens of source and target, multiplied, are more than {MOST_PLACES:,}. They "
            f"are {sizes[0]:,} x {sizes[1]:,} here."
        )


def _table(name: str, data: bytes, shape: tuple[int, int]) -> Array:
    if len(data) != 4 * shape[0] * shape[1]:
        raise ValueError(f"{name} must be {shape[0]} x {shape[1]} numbers of 4 bytes")
    table = np.frombuffer(data, "<f4").reshape(shape)
    if not ((table > 0) & (table <= 1)).all():
        raise ValueError(f"{name} must be above 0, and at most 1")
    return table.astype(np.float32)


def _is_unit(unit: Row, sizes: tuple[int, int]) -> bool:
    given = unit[1:]
    return (
        bool(unit) and unit[0] < sizes[0] and len(given) <= MOST and all(token < sizes[1] for token in given)
    )


def _key(unit: Row, size: int) -> int:
    """Return a unit as one number: its source token, then what it gives, in digits from 1 on."""
    key, *given = unit
    for token in (*given, *[-1] * (MOST - len(given))):
        key = key * (size + 1) + token + 1
    return key


def _unit(key: int, size: int) -> tuple[int, ...]:
    """Return the unit of a key."""
    unit: list[int] = []
    for _ in range(MOST):
        key, digit = divmod(key, size + 1)
        unit += [digit - 1] * (digit > 0)
    return (key, *reversed(unit))


def _unit_keys(pairs: Sequence[tuple[Row, Row]], given: Sequence[Row], size: int) -> Ids:
    """Return the keys of all pairs' units, one pair behind the other."""
    keys = np.fromiter(chain.from_iterable(source for source, _ in pairs), np.int64)
    targets = np.fromiter(chain.from_iterable(target for _, target in pairs), np.int64)
    counts = np.fromiter(chain.from_iterable(given), np.int64)
    first = np.cumsum(counts) - counts
    targets = np.append(targets, [0] * MOST)  # behind the last
    for step in range(MOST):
        keys = keys * (size + 1) + np.where(step < counts, targets[first + step] + 1, 0)
    return keys


def _split(numbers: Ids, pairs: Sequence[tuple[Row, Row]]) -> list[Row]:
    """Return a row for each pair."""
    ends = np.cumsum([len(source) for source, _ in pairs], dtype=np.int64)
    flat, begins = numbers.tolist(), [0, *ends.tolist()]
    return [tuple(flat[begin:end]) for begin, end in zip(begins, ends.tolist(), strict=False)]


def _ranked(
    several: Sequence[Hypothesis], logs: Sequence[float], weight: float, scoring: Scoring
) -> list[Hypothesis]:
    """Rank by the network's logarithms and, so many times, the others; as they are with weight 0."""
    if not weight:
        return list(several)
    scores = [_log_probability(one, scoring) + weight * log for one, log in zip(several, logs, strict=True)]
    scored = (replace(one, score=score) for one, score in zip(several, scores, strict=True))
    return sorted(scored, key=lambda one: -one.score)


def _log_probability(one: Hypothesis, scoring: Scoring) -> float:
    """Return the log-probability that a score was made of."""
    return float(one.score * scoring.divisor(len(one.log_probabilities)))

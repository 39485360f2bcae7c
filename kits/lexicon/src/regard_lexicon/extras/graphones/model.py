"""Graphones: joint n-grams of source and target tokens, which rerank the translations of a network.

Where a target follows its source from left to right, as sounds follow letters, each source token yields a few target
tokens (`em_aligner`). A source token with what it yields is a unit (a graphone), a pair is a sequence of units, and an
n-gram model of units (`kneser_ney`) gives the probability of a pair: the joint-sequence model of Bisani and Ney 2008,
"Joint-sequence models for grapheme-to-phoneme conversion", with one source token in each unit.

The n-gram model knows exact counts, and the network generalises. Their errors differ, so translations that both find
probable are better. The translations of a beam are ranked by ::

    log P(target | source) + weight log P(source, target)

The source is the same for all of them, so the joint probability ranks them as the conditional one would. The weight is
fitted to validation pairs: it is the one of `WEIGHTS` whose best translations have the smallest edit distance to the
references (Och 2003, "Minimum Error Rate Training in Statistical Machine Translation"). It may be 0: then the network
ranks alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.alignment.monotonic import MAX_FERTILITY, ROUNDS, Aligner, alignable, check_sizes
from regard.seq2seq.corpus.packing import Row, packed, unpacked
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.evaluation.metrics import edit_distance
from regard.seq2seq.extras.base import Progress, Reranker
from regard.seq2seq.sources.text.vocabulary import SPECIAL, UNKNOWN
from regard_lexicon.extras.graphones.kneser_ney import KneserNey

__all__ = ["DEFAULT_WEIGHT", "MAX_ORDER", "WEIGHTS", "Graphones"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

DEFAULT_WEIGHT = 0.8  # without validation pairs to fit it to
WEIGHTS = tuple(k / 10 for k in range(21))
MAX_ORDER = 12
_FIRST = len(SPECIAL)  # the id of the first unit
_PARTS = {"units", "tokens", "fertilities", "last", "children", "own", "backoff", "values"}


class Graphones(Reranker):
    """An n-gram model of units, each a source token with the target tokens that it yields.

    `order`: the number of units in the longest n-grams; `aligner`: cuts pairs into units; `units`: each a source
    token and the target tokens that it yields; sorted; `ngrams`: the n-gram model of units, whose ids start at 4;
    `weight`: of log P(source, target).
    """

    largest = MAX_ORDER

    def __init__(
        self,
        order: int,
        aligner: Aligner,
        units: Sequence[Row],
        ngrams: KneserNey,
        weight: float = DEFAULT_WEIGHT,
    ) -> None:
        self.order, self.aligner, self.units, self.ngrams = order, aligner, units, ngrams
        self.weight = weight
        self._size = aligner.tokens.shape[1]
        self._keys = np.array([_key(unit, self._size) for unit in units], np.int64)

    @property
    def option(self) -> int:
        """The order of the n-grams."""
        return self.order

    @classmethod
    def learn(
        cls,
        option: int,
        pairs: Sequence[tuple[Row, Row]],
        sizes: tuple[int, int],
        progress: Progress | None = None,
    ) -> Self:
        """Cut pairs into units; those whose target is too long for its source are left out.

        `option`: the order of the n-grams; `pairs`: ids of their tokens; `sizes`: the numbers of tokens in the
        vocabularies of source and target; `progress`: called after each round of the aligner, after cutting, and
        after each length of n-grams.
        """
        check_sizes(sizes)
        pairs = [pair for pair in pairs if pair[0] and alignable(*pair)]
        if not pairs:
            _check.fail(
                f"graphones need pairs with at most {MAX_FERTILITY} target tokens for each source token. None has."
            )
        steps = ROUNDS + 1 + option

        def report(more: int = 1) -> None:
            if progress is not None:
                progress("learning graphones", more, steps)

        aligner = Aligner.learn(pairs, sizes, report)
        keys, numbers = np.unique(_unit_keys(pairs, aligner.cut(pairs), sizes[1]), return_inverse=True)
        report()
        units = [_unit(key, sizes[1]) for key in keys.tolist()]
        sequences = _split(numbers + _FIRST, pairs)
        ngrams = KneserNey.learn(sequences, len(units) + _FIRST, option, report)
        if shorter := option - len(ngrams.levels):  # no sequence is as long
            report(shorter)
        return cls(option, aligner, units, ngrams)

    def log_probabilities(self, pairs: Sequence[tuple[Row, Row]]) -> Array:
        """Return the natural logarithms of the probabilities of pairs.

        `pairs`: ids of their tokens. Returns array (len(pairs),): a target that is too long for its source is as
        improbable as a sequence of unknown units, one for each of its tokens.
        """
        sequences: list[Row] = [(UNKNOWN,) * len(target) for _, target in pairs]
        numbers = [number for number, pair in enumerate(pairs) if alignable(*pair)]
        aligned = [pairs[number] for number in numbers]
        keys = _unit_keys(aligned, self.aligner.cut(aligned), self._size)
        units = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        ids = np.where(self._keys[units] == keys, units + _FIRST, UNKNOWN)
        for number, sequence in zip(numbers, _split(ids, aligned), strict=True):
            sequences[number] = sequence
        return self.ngrams.log_probabilities(sequences)

    def rerank(
        self,
        sources: Sequence[Row],
        hypotheses: Sequence[Sequence[Hypothesis]],
        scoring: Scoring,
        n_best: int,
    ) -> list[list[Hypothesis]]:
        """Rank hypotheses by the log-probabilities of the network and of the n-grams.

        `sources`: ids of their own tokens; `hypotheses`: those of each source; `scoring`: that of the search;
        `n_best`: the largest number of hypotheses returned for each source.
        """
        logs = self._logs(sources, hypotheses) if self.weight else [[] for _ in hypotheses]
        return [_ranked(*both, self.weight, scoring)[:n_best] for both in zip(hypotheses, logs, strict=True)]

    def _logs(self, sources: Sequence[Row], hypotheses: Sequence[Sequence[Hypothesis]]) -> list[list[float]]:
        """Return the log-probability of each source with each of its hypotheses."""
        pairs = [
            (row, hypothesis.tokens)
            for row, several in zip(sources, hypotheses, strict=True)
            for hypothesis in several
        ]
        logs = iter(self.log_probabilities(pairs).tolist())
        return [list(islice(logs, len(several))) for several in hypotheses]

    def fit_weight(
        self,
        sources: Sequence[Row],
        hypotheses: Sequence[Sequence[Hypothesis]],
        references: Sequence[Sequence[Row]],
        scoring: Scoring,
    ) -> None:
        """Choose the weight of `WEIGHTS` with the fewest edits; of equal ones the nearest to `DEFAULT_WEIGHT`.

        `sources`, `hypotheses`, `scoring`: as for `rerank`; `references`: the correct targets of each source; of
        several, the nearest counts.
        """
        logs = self._logs(sources, hypotheses)
        edits = [
            {
                hypothesis.tokens: min(edit_distance(hypothesis.tokens, target) for target in targets)
                for hypothesis in several
            }
            for several, targets in zip(hypotheses, references, strict=True)
        ]

        def errors(weight: float) -> int:
            ranked = (_ranked(*both, weight, scoring) for both in zip(hypotheses, logs, strict=True))
            return sum(known[several[0].tokens] for known, several in zip(edits, ranked, strict=True))

        self.weight = min(WEIGHTS, key=lambda weight: (errors(weight), abs(weight - DEFAULT_WEIGHT)))

    def data(self, sizes: tuple[int, int]) -> dict[str, bytes]:
        """Return "units", packed, the aligner's "tokens" and "fertilities" as float32, and the n-grams."""
        return {
            **self.ngrams.data(),
            "units": packed(self.units, max(sizes)),
            "tokens": self.aligner.tokens.astype("<f4").tobytes(),
            "fertilities": self.aligner.fertilities.astype("<f4").tobytes(),
        }

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON: ``{"order": ..., "weight": ...}``."""
        return {"order": self.order, "weight": self.weight}

    def shared(self) -> object:
        """Return the order: the models of an ensemble rerank by the n-grams of the first."""
        return self.order

    @classmethod
    def restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes], sizes: tuple[int, int]) -> Self:
        """Return the graphones of `describe` and `data`, which may be untrusted; raise if invalid."""
        _check.keys("its settings", settings, ("order", "weight"))
        order = _check.integer("order", settings["order"], 1, MAX_ORDER)
        weight = _check.number("weight", settings["weight"], least=0, most=WEIGHTS[-1])
        _check.keys("its data", data, sorted(_PARTS))
        check_sizes(sizes)
        aligner = Aligner(
            _table("tokens", data["tokens"], sizes),
            _table("fertilities", data["fertilities"], (sizes[0], MAX_FERTILITY + 1)),
        )
        units = list(unpacked("units", data["units"], max(sizes)))
        if not all(_is_unit(unit, sizes) for unit in units):
            _check.fail(f"units must be a token of the source and at most {MAX_FERTILITY} of the target")
        ngrams = KneserNey.restore(data, len(units) + _FIRST)
        graphones = cls(order, aligner, units, ngrams, weight)
        if not (np.diff(graphones._keys) > 0).all():
            _check.fail("units must be sorted")
        return graphones


def _table(name: str, data: bytes, shape: tuple[int, int]) -> Array:
    table = _check.from_bytes(name, data, "<f4", shape)
    _check.within(name, table, most=1, positive=True)
    return table.astype(np.float32)


def _is_unit(unit: Row, sizes: tuple[int, int]) -> bool:
    target = unit[1:]
    known = bool(unit) and unit[0] < sizes[0] and all(token < sizes[1] for token in target)
    return known and len(target) <= MAX_FERTILITY


def _key(unit: Row, size: int) -> int:
    """Return a unit as one number: its source token, then the target tokens, in digits from 1 on."""
    key, *target = unit
    for token in (*target, *[-1] * (MAX_FERTILITY - len(target))):
        key = key * (size + 1) + token + 1
    return key


def _unit(key: int, size: int) -> tuple[int, ...]:
    """Return the unit of a key."""
    unit: list[int] = []
    for _ in range(MAX_FERTILITY):
        key, digit = divmod(key, size + 1)
        unit += [digit - 1] * (digit > 0)
    return (key, *reversed(unit))


def _unit_keys(pairs: Sequence[tuple[Row, Row]], cuts: Sequence[Row], size: int) -> Ids:
    """Return the keys of all pairs' units, one pair after another."""
    keys = np.fromiter(chain.from_iterable(source for source, _ in pairs), np.int64)
    targets = np.fromiter(chain.from_iterable(target for _, target in pairs), np.int64)
    fertilities = np.fromiter(chain.from_iterable(cuts), np.int64)
    first = np.cumsum(fertilities) - fertilities
    targets = np.append(targets, [0] * MAX_FERTILITY)  # after the last
    for step in range(MAX_FERTILITY):
        keys = keys * (size + 1) + np.where(step < fertilities, targets[first + step] + 1, 0)
    return keys


def _split(numbers: Ids, pairs: Sequence[tuple[Row, Row]]) -> list[Row]:
    """Return the ids of each pair."""
    ends = np.cumsum([len(source) for source, _ in pairs], dtype=np.int64)
    flat, begins = numbers.tolist(), [0, *ends.tolist()]
    return [tuple(flat[begin:end]) for begin, end in zip(begins, ends.tolist(), strict=False)]


def _ranked(
    several: Sequence[Hypothesis], logs: Sequence[float], weight: float, scoring: Scoring
) -> list[Hypothesis]:
    """Return hypotheses sorted by the sum of log-probabilities; as they are with weight 0."""
    if not weight:
        return list(several)
    scores = [
        _log_probability(hypothesis, scoring) + weight * log
        for hypothesis, log in zip(several, logs, strict=True)
    ]
    scored = (replace(hypothesis, score=score) for hypothesis, score in zip(several, scores, strict=True))
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)


def _log_probability(hypothesis: Hypothesis, scoring: Scoring) -> float:
    """Return the log-probability of a score."""
    return float(hypothesis.score * scoring.divisor(len(hypothesis.log_probabilities)))

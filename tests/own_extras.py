"""Two extras of the tests' own, which the folder own_extras-1.0.dist-info adds as an installed distribution would.

`similar=N` appends the targets of the N training pairs that share most tokens with a source; `lengths=N` reranks by the
difference of the lengths of both sides, as if it were N tokens at most.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from regard import _check
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.evaluation.metrics import edit_distance
from regard.seq2seq.extras.base import Progress, Reranker, SourceAugmenter
from regard.seq2seq.sources.text.vocabulary import END, START

Row = Sequence[int]


class Similar(SourceAugmenter):
    """Appends the targets of similar training pairs, never that of the same source."""

    def __init__(self, count: int, pairs: Sequence[tuple[Row, Row]]) -> None:
        self.count, self.pairs = count, [(tuple(source), tuple(target)) for source, target in pairs]

    @property
    def option(self) -> int:
        return self.count

    @classmethod
    def learn(
        cls,
        option: int,
        pairs: Sequence[tuple[Row, Row]],
        sizes: tuple[int, int],
        progress: Progress | None = None,
    ) -> Self:
        return cls(option, [(source, target) for source, target in pairs])

    def extend(self, sources: Sequence[Row], size: int) -> list[list[int]]:
        rows = []
        for source in map(tuple, sources):
            others = [pair for pair in self.pairs if pair[0] != source]
            others.sort(key=lambda pair: -len({*pair[0]} & {*source}) / (len(pair[0]) or 1))
            more = [
                token for _, target in others[: self.count] for token in (START, *(size + t for t in target))
            ]
            rows.append([*source, END, *more])
        return rows

    def describe(self) -> dict[str, Any]:
        return {"count": self.count}

    def data(self, sizes: tuple[int, int]) -> dict[str, bytes]:
        return {"pairs": json.dumps(self.pairs).encode()}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes], sizes: tuple[int, int]) -> Self:
        _check.keys("its data", data, ("pairs",))
        return cls(_check.integer("count", settings.get("count"), 1), json.loads(data["pairs"]))

    def shared(self) -> object:
        return self.count, self.pairs


class Lengths(Reranker):
    """Prefers hypotheses that are as long as their source."""

    largest = 12

    def __init__(self, option: int, weight: float = 1.0) -> None:
        self._option, self.weight = option, weight

    @property
    def option(self) -> int:
        return self._option

    @classmethod
    def learn(
        cls,
        option: int,
        pairs: Sequence[tuple[Row, Row]],
        sizes: tuple[int, int],
        progress: Progress | None = None,
    ) -> Self:
        return cls(option)

    def _ranked(
        self, source: Row, several: Sequence[Hypothesis], weight: float, scoring: Scoring
    ) -> list[Hypothesis]:
        if not weight:
            return list(several)

        def score(one: Hypothesis) -> float:
            log = one.score * scoring.divisor(len(one.log_probabilities))
            return float(log - weight * min(abs(len(one.tokens) - len(source)), self._option))

        return sorted((replace(one, score=score(one)) for one in several), key=lambda one: -one.score)

    def rerank(
        self,
        sources: Sequence[Row],
        hypotheses: Sequence[Sequence[Hypothesis]],
        scoring: Scoring,
        n_best: int,
    ) -> list[list[Hypothesis]]:
        both = zip(sources, hypotheses, strict=True)
        return [self._ranked(source, several, self.weight, scoring)[:n_best] for source, several in both]

    def fit_weight(
        self,
        sources: Sequence[Row],
        hypotheses: Sequence[Sequence[Hypothesis]],
        references: Sequence[Sequence[Row]],
        scoring: Scoring,
    ) -> None:
        def errors(weight: float) -> int:
            best = (self._ranked(*both, weight, scoring)[0] for both in zip(sources, hypotheses, strict=True))
            pairs = zip(best, references, strict=True)
            return sum(min(edit_distance(one.tokens, right) for right in several) for one, several in pairs)

        self.weight = min((1.0, 0.5, 0.0), key=errors)

    def describe(self) -> dict[str, Any]:
        return {"option": self._option, "weight": self.weight}

    def data(self, sizes: tuple[int, int]) -> dict[str, bytes]:
        return {}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes], sizes: tuple[int, int]) -> Self:
        _check.keys("its settings", settings, ("option", "weight"))
        return cls(_check.integer("option", settings["option"], 1), float(settings["weight"]))

    def shared(self) -> object:
        return self._option

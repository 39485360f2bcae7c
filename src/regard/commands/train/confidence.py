"""The calibration of a trained model on held-out lines, and how far its probabilities hold.

The error rates of a card do not depend on the calibration, which changes no answer. What is reported about the
probabilities is cross-fitted: the probability of each line is that of a calibration that was fitted to the held-out
lines of other families alone. The model gets the one that is fitted to all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.commands.tasks.data import Data
from regard.seq2seq.corpus.pairs import Pair, by_source
from regard.seq2seq.corpus.splits import by_family
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.decoding.calibration import FEWEST, Calibration, calibration_error
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources import Example
from regard.seq2seq.sources.example import equally_spaced
from regard.seq2seq.translator import Checked

__all__ = ["Confidence", "calibrate", "describe"]

_FOLDS = 5
_PRECISION = 0.98
_WORTH_KEEPING = 0.05  # of the answers


class Confidence(NamedTuple):
    """Sources of the test with their answers, and their cross-fitted probabilities; none if there are too few."""

    judged: list[Checked]
    probabilities: list[float]

    @property
    def right(self) -> list[bool]:
        """Whether each answer is right."""
        return [answer.right for answer in self.judged]

    def measures(self) -> dict[str, float]:
        """Return the calibration error, and the largest share of answers of which 98 % are right."""
        error = calibration_error(self.probabilities, self.right)
        return {"calibration_error": error, "kept_with_98_percent_right": self.precise()[0]}

    def precise(self) -> tuple[float, float]:
        """Return the largest share of the most probable answers of which 98 % are right, and its least probability."""
        order = np.argsort(self.probabilities, kind="stable")[::-1]
        precise = np.cumsum(np.array(self.right)[order]) >= _PRECISION * np.arange(1, len(order) + 1)
        kept = int(np.flatnonzero(precise)[-1]) + 1 if precise.any() else 0
        return kept / len(order), self.probabilities[order[kept - 1]] if kept else 1.0


def calibrate(
    model: Seq2Seq, test: Sequence[Pair], valid: Sequence[Pair], data: Data, most: int | None
) -> Confidence:
    """Calibrate a model on the pairs of test and validation that were not learned from; return the answers to the test.

    At most so many sources of each are translated, or all (None).
    """
    of_test, has_learned = by_source(test), data.has_learned
    others = {
        s: targets for s, targets in by_source(valid).items() if s not in of_test and not has_learned(s)
    }
    of_test, others = _spread(of_test, most), _spread(others, most)
    pairs = [
        (source, target)
        for each in (of_test, others)
        for source, targets in each.items()
        for target in targets
    ]
    judged = model.compare_with_references([source for source, _ in pairs], [target for _, target in pairs])
    # A fold is a fifth of the test: None for what was learned from, and -1 for validation.
    folds = [None if has_learned(source) else fold for source, fold in _folds(of_test).items()]
    every: list[int | None] = [*folds, *[-1] * len(others)]
    model.calibration = _fitted(judged, every, leave_out=None)
    crossed = {fold: _fitted(judged, every, leave_out=fold) for fold in range(_FOLDS)}
    chosen = [crossed[number if number is not None else 0] for number in folds]
    probabilities = [
        calibration(answer.logs)
        for calibration, answer in zip(chosen, judged, strict=False)
        if calibration is not None
    ]
    return Confidence(judged[: len(folds)], probabilities if len(probabilities) == len(folds) else [])


def _spread(items: dict[Example, list[Any]], most: int | None) -> dict[Example, list[Any]]:
    """Return at most so many items at equal distances."""
    return {key: items[key] for key in equally_spaced([*items], most or len(items))}


def _folds(sources: Iterable[Example]) -> dict[Example, int]:
    """Return the fold of each source: that of its family, unless it is an array."""
    sources = [*sources]
    arrays = any(isinstance(source.content, np.ndarray) for source in sources)
    families = [[source] for source in sources] if arrays else by_family(sources)
    of_family = {source: number % _FOLDS for number, family in enumerate(families) for source in family}
    return {source: of_family[source] for source in sources}


def _fitted(
    judged: Sequence[Checked], folds: Sequence[int | None], leave_out: int | None
) -> Calibration | None:
    """Return the calibration of all answers but those of a fold, and those that were learned from."""
    chosen = [
        answer for answer, fold in zip(judged, folds, strict=True) if fold is not None and fold != leave_out
    ]
    if len(chosen) < FEWEST:
        return None
    return Calibration.fit([answer.logs for answer in chosen], [answer.right for answer in chosen], BEAM)


def describe(calibration: Calibration, confidence: Confidence, verb: str) -> str:
    """Describe how far the probabilities of a model hold, and what a threshold of a verb is good for, if it has one."""
    line = f"probabilities are calibrated on {calibration.answers} held-out sources"
    if not confidence.probabilities:
        return line
    line += f": calibration error {100 * confidence.measures()['calibration_error']:.1f} %"
    kept, least = confidence.precise()
    if not verb or kept < _WORTH_KEEPING:
        return line
    share, threshold = f"{100 * kept:.0f} % of the answers", math.floor(100 * least) / 100
    return f"{line}; regard {verb} --threshold {threshold:g} keeps {share}, of which 98 % are right"

"""Calibrated probabilities: how often an answer of a search is right, from the log-probabilities of its hypotheses.

The log-probabilities are in the order of the search (`regard.seq2seq.translator.Translator.ranked_logs`).

The probability that a network gives an answer is biased by the training, the beam and the reranker. A logistic
regression (Platt 1999), fitted to held-out sources whose right answers are known, corrects it from two numbers::

    share        the probability of the answer over that of all hypotheses
    mass         the probability of all hypotheses
    probability  sigmoid(intercept + share_slope * logit(share) + mass_slope * logit(mass))

Neither slope is negative, so the probability grows with both. Platt 1999, "Probabilistic Outputs for Support Vector
Machines and Comparisons to Regularized Likelihood Methods", with its targets for few examples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check

__all__ = ["FEWEST", "Calibration", "calibration_error"]

Array = NDArray[Any]

FEWEST = 20  # answers of which to learn a calibration
_LARGEST = 10.0  # of the log-odds: beyond, they are no better known
_RIDGE = 1e-3  # on the slopes, which are not determined where all answers have the same shares
_BINS = 10
_UNUSUAL = 0.01  # share of the answers that have a lower log-probability than usual
_MOST = 1e9  # of a number in a file


class Calibration(NamedTuple):
    """Map the log-probabilities of a search's hypotheses to the probability that its best answer is right.

    `intercept`, `share_slope`, `mass_slope`: coefficients of the log-odds; `beam`: the beam size of the search;
    `answers`: the number of answers that it was fitted to; `usual`: the log-probability that 99 of 100 of these exceed.
    """

    intercept: float
    share_slope: float
    mass_slope: float
    beam: int
    answers: int
    usual: float

    def __call__(self, logs: Sequence[float]) -> float:
        """Return the probability of an answer, given its log-probability and those of the next hypotheses."""
        share, mass = _log_odds(logs[: self.beam])
        odds = self.intercept + self.share_slope * share + self.mass_slope * mass
        return 1 / (1 + math.exp(-max(min(odds, 30.0), -30.0)))

    def doubt(self, log: float) -> dict[str, float] | None:
        """Return the probability of an answer, and that of 99 of 100 held out, if the answer's is lower."""
        return {"probability": math.exp(log), "least": math.exp(self.usual)} if log < self.usual else None

    @classmethod
    def fit(cls, hypotheses: Sequence[Sequence[float]], right: Sequence[bool], beam: int) -> Calibration:
        """Fit the numbers to answers, each with the log-probabilities of its hypotheses and whether it is right."""
        from scipy.optimize import minimize

        odds = np.array([(1.0, *_log_odds(logs[:beam])) for logs in hypotheses])
        positive = np.array(right, bool)
        count = positive.sum()
        targets = np.where(positive, (count + 1) / (count + 2), 1 / (len(positive) - count + 2))

        def loss(weights: Array) -> tuple[float, Array]:
            logits, ridge = odds @ weights, _RIDGE * weights * (0, 1, 1)
            losses = np.logaddexp(0, logits) - targets * logits
            gradient = odds.T @ (0.5 * (1 + np.tanh(logits / 2)) - targets)
            return float(losses.sum() + ridge @ weights / 2), gradient + ridge

        bounds = [(None, None), (0, None), (0, None)]
        fitted = minimize(loss, np.zeros(3), jac=True, bounds=bounds, method="L-BFGS-B").x
        intercept, share_slope, mass_slope = map(float, fitted)
        usual = float(np.quantile([logs[0] for logs in hypotheses], _UNUSUAL, method="lower"))
        return cls(intercept, share_slope, mass_slope, beam, len(positive), usual)

    @classmethod
    def restore(cls, values: Any) -> Calibration:
        """Return the calibration of `_asdict`, which may be untrusted; raise ValueError if it is invalid."""
        if not isinstance(values, dict) or values.keys() != {*cls._fields}:
            _check.fail(f"it must have {', '.join(cls._fields)}")
        for name in cls._fields:
            kinds = (int,) if name in ("beam", "answers") else (int, float)
            if type(values[name]) not in kinds or not abs(values[name]) <= _MOST:
                _check.fail(f"its {name} must be a number of at most {_MOST:g}")
        if min(values[name] for name in cls._fields[1:3]) < 0 or min(values["beam"], values["answers"]) < 1:
            _check.fail("its slopes must not be negative, and its beam and answers at least 1")
        return cls(**values)


def _log_odds(logs: Sequence[float]) -> tuple[float, float]:
    """Return the log-odds of the first hypothesis among all, and of all."""
    top = max(*logs, -1e300)
    first, *others = (math.exp(log - top) for log in logs)
    rest = sum(others)
    total = (first + rest) * math.exp(top)
    return _log_ratio(first, rest), _log_ratio(total, 1 - total)


def _log_ratio(numerator: float, denominator: float) -> float:
    """Return the logarithm of a ratio, within limits."""
    least = math.exp(-2 * _LARGEST)
    return max(min(math.log(max(numerator, least) / max(denominator, least)), _LARGEST), -_LARGEST)


def calibration_error(probabilities: Sequence[float], right: Sequence[bool]) -> float:
    """Return the expected calibration error: the mean difference of probability and share in ten bins of equal size.

    Naeini, Cooper and Hauskrecht 2015, "Obtaining Well Calibrated Probabilities Using Bayesian Binning".
    """
    order = np.argsort(probabilities, kind="stable")
    difference = (np.asarray(probabilities) - np.asarray(right, float))[order]
    return float(sum(abs(part.sum()) for part in np.array_split(difference, _BINS)) / len(order))

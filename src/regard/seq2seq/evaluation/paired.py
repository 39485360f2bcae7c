"""Is the difference between two systems due to chance? The paired bootstrap, as sacrebleu computes it.

In each of many samples of the lines, drawn with replacement, all systems are measured. (Koehn 2004, "Statistical
Significance Tests for Machine Translation Evaluation".) Equal scores have p = 1, for which sacrebleu says 0.001.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.evaluation.metrics import Reference, sacrebleu_metric, streams

__all__ = ["Paired", "of_rates", "of_sacrebleu"]

SAMPLES, SEED = 1000, 12345  # sacrebleu's


class Paired(NamedTuple):
    """A measure of one system over the samples; `p`: of the difference from the first system, which has none.

    `interval`: half the 95 % interval.
    """

    mean: float
    interval: float
    p: float | None = None


def of_sacrebleu(
    systems: Sequence[Sequence[str]], references: Sequence[Reference], name: str, **options: Any
) -> list[Paired]:
    """Compare systems by "bleu" or "chrf"."""
    from sacrebleu.significance import PairedTest

    named: list[Any] = [(str(number), list(lines)) for number, lines in enumerate(systems)]
    metric = {name: sacrebleu_metric(name, **options)}
    _, scores = PairedTest(named, metric, streams(systems[0], references), "bs", SAMPLES)()
    (results,) = (rows for title, rows in scores.items() if title != "System")
    first, *others = results
    rates = [None, *(1.0 if x.score == first.score else x.p_value for x in others)]  # type: ignore[union-attr]
    return [Paired(float(x.mean), float(x.ci), p) for x, p in zip(results, rates, strict=True)]  # type: ignore[union-attr, arg-type]


def of_rates(systems: Sequence[Sequence[tuple[float, float]]]) -> list[Paired]:
    """Compare systems by rates: each line has a numerator and a denominator, which are summed over the lines."""
    rng, counts = np.random.default_rng(SEED), [np.array(system, float) for system in systems]
    lines = len(counts[0])
    drawn = (rng.choice(lines, lines) for _ in range(SAMPLES))
    sums = np.array([[each[some].sum(0) for each in counts] for some in drawn])  # (samples, systems, 2)
    samples = list(_rate(sums).T)
    means = [(float(x.mean()), _interval(x)) for x in samples]
    first, *others = (_rate(each.sum(0)) for each in counts)
    tested = [_p(abs(x - samples[0]), abs(rate - first)) for x, rate in zip(samples[1:], others, strict=True)]
    return [Paired(*mean, p) for mean, p in zip(means, [None, *tested], strict=True)]


def _rate(sums: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))


def _interval(samples: NDArray[Any]) -> float:
    ordered, left = np.sort(samples), len(samples) // 40
    return float(ordered[-left - 1] - ordered[left]) / 2


def _p(differences: NDArray[Any], observed: NDArray[Any]) -> float:
    """Return how often a difference that is centred on 0 exceeds the observed one."""
    if observed == 0:
        return 1.0
    return float(((differences - differences.mean() > observed).sum() + 1) / (len(differences) + 1))

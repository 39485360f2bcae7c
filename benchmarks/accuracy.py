"""Measure the largest error of contexts against exact arithmetic, for regard and its peers, on one thread.

    python benchmarks/accuracy.py [--json FILE]

An error is relative to `eps * sum_j weight_j |value_j|`, with the spacing eps of the numbers: 1 is a unit in the last
place of a context whose values don't cancel. "Exact" is the formula in twice the digits. The largest of many errors
depends on chance, so each figure is the median of several draws.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers import LIBRARIES, Case, Data, four, plain_weights
from record import add_option, keep, save

Array = NDArray[Any]


class Steep(Data):
    """Queries eight times as large, so that weights are steep and rounding of scores matters most."""

    @functools.cached_property
    def inputs(self) -> tuple[Array, Array, Array]:
        """Return queries (..., n, d), keys (..., m, d), values (..., m, e)."""
        queries, keys, values = super().inputs
        return 8 * queries, keys, values


class Alike(Data):
    """All values are equal, so that all rounding errors of a sum have one sign."""

    @functools.cached_property
    def inputs(self) -> tuple[Array, Array, Array]:
        """Return queries (..., n, d), keys (..., m, d), values (..., m, e)."""
        queries, keys, values = super().inputs
        return queries, keys, np.full_like(values, 0.7)


DRAWS = 9
SQUARE: dict[str, Any] = {"n": 1024, "m": 1024, "d": 64, "lead": (1, 2)}
CASES = (
    (Case("dense, normal numbers", **SQUARE), Data),
    (Case("causal", **SQUARE, mask="causal"), Data),
    (Case("queries eight times as large", **SQUARE), Steep),
    (Case("16 queries, 100,000 keys", n=16, m=100_000, d=64, lead=(1, 2)), Data),
    (Case("the same, equal values", n=16, m=100_000, d=64, lead=(1, 2)), Alike),
)


def exact(data: Data) -> tuple[Array, Array]:
    """Return the context (1, heads, n, e) in float64, and the unit of its errors."""
    q, k, v = (four(x).astype(np.float64) for x in data.inputs)
    weights = plain_weights(q, k, None, data.visible)
    return weights @ v, float(np.finfo(data.case.dtype).eps) * (weights @ abs(v))


def errors(data: Data) -> dict[str, float]:
    """Return the largest error of each library that has the operation, in units."""
    context, unit = exact(data)
    largest = {}
    for library in LIBRARIES:
        contestant = library(1)
        turn = contestant.turn(data.case, data) if contestant.version else None
        if turn is not None and contestant.name != "with SciPy":
            computed = four(np.asarray(turn.read(turn.call()))).astype(np.float64)
            largest[contestant.name] = float((abs(computed - context) / unit).max())
    return largest


def main() -> None:
    """Print a line for each case, and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_option(parser)
    args = parser.parse_args()
    for case, make in CASES:
        draws = [errors(make(case, np.random.default_rng(seed))) for seed in range(DRAWS)]
        medians = {name: statistics.median(draw[name] for draw in draws) for name in draws[0]}
        print(f"{case.label:38}", "  ".join(f"{name} {x:.2f}" for name, x in medians.items()), flush=True)
        keep(case=case.label, **medians)
    save(args.json)


if __name__ == "__main__":
    main()

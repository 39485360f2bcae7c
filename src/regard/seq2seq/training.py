"""Training: batches, the recipe, and the loop over them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._threads import one_blas_thread
from regard.nn import Adam
from regard.seq2seq.network import Dropout, Network
from regard.seq2seq.parameters import Parameters
from regard.seq2seq.text import PAD

__all__ = ["Diverged", "Numbered", "Recipe", "Step", "batches", "train"]

Ids = NDArray[np.int64]
Numbered = tuple[list[int], list[int]]  # source with END; target from START to END

_WORTH_HALVING = 32  # sentences in a batch
_EVEN_IN_LONG_EPOCHS = 1000  # steps after which the model is validated at the latest


class Diverged(ArithmeticError):
    """The loss is no longer a number."""


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Parameters
    ----------
    epochs : int
        How often every pair is seen.
    batch : int
        Sentences in a step.
    rate : float
        Adam's largest rate; it rises to it over `warm_up` steps and falls to 0 at the end.
    warm_up : int
        Steps.
    smoothing : float
        Label smoothing.
    dropout : Dropout
        Rates.
    minutes : float, optional
        Stop after this time; the rate reaches 0 then.
    """

    epochs: int = 9
    batch: int = 64
    rate: float = 5e-3
    warm_up: int = 150
    smoothing: float = 0.1
    dropout: Dropout = field(default_factory=Dropout)
    minutes: float | None = None

    @classmethod
    def for_pairs(
        cls, count: int, *, epochs: int | None = None, minutes: float | None = None, rate: float | None = None
    ) -> Recipe:
        """Return the recipe for so many pairs: few pairs need small batches and many epochs.

        Parameters
        ----------
        count : int
            Sentence pairs.
        epochs : int, optional
            Other than the recipe's.
        minutes : float, optional
            A limit.
        rate : float, optional
            Other than the recipe's.

        Returns
        -------
        Recipe
            For `train`.

        Examples
        --------
        >>> Recipe.for_pairs(20_000).epochs, Recipe.for_pairs(500).batch
        (9, 16)
        """
        batch = 64 if count >= 5000 else 32 if count >= 1000 else 16
        steps = max(count // batch, 1)
        if epochs is None:
            epochs = max(cls.epochs, min(200, 1500 // steps))
        warm_up = max(min(150, steps * epochs // 10), 1)
        return cls(epochs, batch, rate or cls.rate, warm_up, minutes=minutes)

    def rate_at(self, step: int, steps: int, passed: float) -> float:
        """Return Adam's rate at a step counted from 1, when a share `passed` of the time limit is over."""
        left = min((steps - step + 1) / max(steps - self.warm_up, 1), 1 - passed)
        return self.rate * max(min(step / self.warm_up, left), 0.0)


class Step(NamedTuple):
    """What one step of training came to.

    Parameters
    ----------
    number, total : int
        Which step it was, counted from 1, and of how many (by the pace so far, where time is limited).
    loss : float
        Mean loss for each word of the batch.
    epoch : int
        Which epoch it belongs to, counted from 1.
    validation : float or None
        Loss for each word of the validation pairs, after the last step of an epoch (and every 1,000 steps).
    best : bool
        Whether that is the lowest so far: the moment to save the model.
    """

    number: int
    total: int
    loss: float
    epoch: int
    validation: float | None = None
    best: bool = False


def batches(pairs: Sequence[Numbered], size: int, rng: np.random.Generator) -> list[tuple[Ids, Ids]]:
    """Put pairs with sources of one length together, in random order; so no source needs padding.

    Parameters
    ----------
    pairs : sequence of (source, target)
        Lists of word numbers.
    size : int
        The most pairs in a batch.
    rng : numpy.random.Generator
        Where chance comes from.

    Returns
    -------
    list of (source (T, B), target (n, B))
        Targets are filled up with PAD.

    Examples
    --------
    >>> (source, target), = batches([([5, 2], [1, 7, 2]), ([6, 2], [1, 2])], 64, np.random.default_rng(0))
    >>> sorted(target.T.tolist())
    [[1, 2, 0], [1, 7, 2]]
    """
    shuffled = rng.permutation(len(pairs)).tolist()
    by_length = sorted(shuffled, key=lambda i: (len(pairs[i][0]), len(pairs[i][1])))
    groups: list[list[int]] = []
    for i in by_length:
        if not groups or len(groups[-1]) == size or len(pairs[groups[-1][0]][0]) != len(pairs[i][0]):
            groups.append([])
        groups[-1].append(i)
    order = rng.permutation(len(groups)).tolist()
    return [_arrays([pairs[i] for i in groups[g]]) for g in order]


def _arrays(group: list[Numbered]) -> tuple[Ids, Ids]:
    source = np.array([pair[0] for pair in group], np.int64).T.copy()  # (T, B)
    target = np.full((max(len(pair[1]) for pair in group), len(group)), PAD, np.int64)  # (n, B)
    for column, (_, words) in enumerate(group):
        target[: len(words), column] = words
    return source, target


def train(
    network: Network,
    pairs: Sequence[Numbered],
    valid: Sequence[Numbered],
    recipe: Recipe,
    rng: np.random.Generator,
) -> Iterator[Step]:
    """Train a network, step by step; at the end it has the parameters of the lowest validation loss.

    Parameters
    ----------
    network : Network
        With drawn parameters; trained in place.
    pairs : sequence of (source, target)
        To learn from.
    valid : sequence of (source, target)
        To judge by.
    recipe : Recipe
        How.
    rng : numpy.random.Generator
        Order of the batches and dropout.

    Yields
    ------
    Step
        After each step, when the network is in a consistent state.

    Raises
    ------
    Diverged
        If the loss or a gradient is not finite; the network has the best parameters then.

    Examples
    --------
    >>> from regard.seq2seq.network import Network, Sizes
    >>> network, rng = Network(Sizes(5, 5, 2, 2, 2, 2)), np.random.default_rng(0)
    >>> network.draw(rng, np.ones(5))
    >>> pairs = [([4, 2], [1, 4, 2])]
    >>> [step.best for step in train(network, pairs, pairs, Recipe(epochs=2, warm_up=1), rng)]
    [True, True]
    """
    with one_blas_thread() as alone, ThreadPoolExecutor(1, "regard") as other:
        yield from _train(
            network, pairs, valid, recipe, rng, _Halves(network, recipe, other if alone else None)
        )


def _train(
    network: Network,
    pairs: Sequence[Numbered],
    valid: Sequence[Numbered],
    recipe: Recipe,
    rng: np.random.Generator,
    halves: _Halves,
) -> Iterator[Step]:
    flat = network.parameters.flat
    best = _Best(flat)
    adam = Adam(flat)
    per_epoch = len(batches(pairs, recipe.batch, np.random.default_rng(0)))
    total, start = recipe.epochs * per_epoch, time.monotonic()
    number, passed = 0, 0.0
    for epoch in range(1, recipe.epochs + 1):
        for place, batch in enumerate(batches(pairs, recipe.batch, rng), 1):
            number += 1
            if recipe.minutes is not None:
                passed = min((time.monotonic() - start) / (60 * recipe.minutes), 1.0)
            loss, gradient = halves(batch, rng)
            length = adam.step(gradient, recipe.rate_at(number, total, passed))
            if not np.isfinite(loss + length):
                best.restore()
                raise Diverged(f"the loss is not finite any more: {loss} at step {number}")
            expected = min(total, max(round(number / passed), number)) if passed else total
            told = Step(number, expected, loss, epoch)
            if place == per_epoch or place % _EVEN_IN_LONG_EPOCHS == 0 or passed == 1:
                validation = mean_loss(network, valid)
                told = told._replace(validation=validation, best=best.offer(validation))
            yield told
            if passed == 1:
                break
        if passed == 1:
            break
    best.restore()


class _Halves:
    """The gradient of a batch, as the sum over its two halves: each has a thread where BLAS keeps to one.

    The halves are the same with one thread or two, so the result is, to the bit.
    """

    def __init__(self, network: Network, recipe: Recipe, other: Executor | None) -> None:
        self.network, self.recipe, self.other = network, recipe, other
        shapes, flat = network.sizes.shapes(), network.parameters.flat
        self.gradients = [Parameters(shapes, np.zeros_like(flat)) for _ in range(2)]

    def __call__(self, batch: tuple[Ids, Ids], rng: np.random.Generator) -> tuple[float, NDArray[Any]]:
        """Return the loss for each word and its gradient, which the next call writes over."""
        source, target = batch
        words = int((target[1:] != PAD).sum())
        count = 2 if source.shape[1] >= _WORTH_HALVING else 1
        parts = [
            (
                source[:, half::count],
                target[:, half::count],
                np.random.default_rng(rng.integers(2**63)),
                words,
            )
            for half in range(count)
        ]
        if count == 1 or self.other is None:
            losses = [self._half(half, *part) for half, part in enumerate(parts)]
        else:
            waiting = self.other.submit(self._half, 1, *parts[1])
            losses = [self._half(0, *parts[0]), waiting.result()]
        total = self.gradients[0].flat
        if count == 2:
            total += self.gradients[1].flat
        return sum(losses), total

    def _half(self, half: int, source: Ids, target: Ids, rng: np.random.Generator, words: int) -> float:
        """Write a half's gradient, and return its share of the loss."""
        share = int((target[1:] != PAD).sum()) / words
        with np.errstate(all="ignore"):  # a loss that is no number is told, not warned about
            loss, pullback = self.network.loss(
                source, target, dropout=self.recipe.dropout, rng=rng, smoothing=self.recipe.smoothing
            )
            for name, part in pullback(share).items():
                self.gradients[half][name][...] = part
        return loss * share


def mean_loss(network: Network, pairs: Sequence[Numbered]) -> float:
    """Return the mean loss for each word, without dropout and smoothing.

    Parameters
    ----------
    network : Network
        A trained one.
    pairs : sequence of (source, target)
        To judge by.

    Returns
    -------
    float
        Natural logarithm; exp of it is the perplexity.

    Examples
    --------
    >>> from regard.seq2seq.network import Network, Sizes
    >>> mean_loss(Network(Sizes(5, 4, 2, 2, 2, 2)), [([4, 2], [1, 3, 2])]) == float(np.log(np.float32(4)))
    True
    """
    total, words = 0.0, 0
    for source, target in batches(pairs, 64, np.random.default_rng(0)):
        count = int((target[1:] != PAD).sum())
        with np.errstate(all="ignore"):
            total += network.loss(source, target)[0] * count
        words += count
    return total / words


class _Best:
    """The parameters with the lowest validation loss."""

    def __init__(self, flat: NDArray[Any]) -> None:
        self.flat, self.kept, self.loss = flat, flat.copy(), float("inf")

    def offer(self, loss: float) -> bool:
        """Keep the parameters if they are better than all before."""
        if not loss < self.loss:  # NaN is not
            return False
        self.loss = loss
        self.kept[...] = self.flat
        return True

    def restore(self) -> None:
        """Put the best parameters back."""
        self.flat[...] = self.kept

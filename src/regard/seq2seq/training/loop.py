"""The training loop. Training can stop after any step and resume from there, bit for bit."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._threads import TwoThreadMap, one_blas_thread, two_threads
from regard._version import __version__
from regard.nn import Adam
from regard.seq2seq.corpus.batching import Batch, Corpus, batches
from regard.seq2seq.networks.base import LossOptions, Network
from regard.seq2seq.networks.options import renamed
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.storage.checkpoint_file import State
from regard.seq2seq.training.config import ResolvedConfig

__all__ = ["Diverged", "TrainingStep", "Training", "mean_loss"]

Array = NDArray[Any]

_ENDLESS = sys.maxsize  # steps, where only the time limit ends a training
_WORTH_HALVING = 16  # sentences in a batch
_EVEN_IN_LONG_EPOCHS = 1000  # the most steps between two validations
_PAIRS, _MOST_CHANGES = "pairs", 3  # a part of the fingerprint; changed parts that an error lists
_EPOCHS = "training epochs"
_ORDER, _DROPOUT, _SAMPLE, _AUGMENTATION = range(4)  # uses of random numbers: each has a seed of its own


class Diverged(ArithmeticError):
    """The loss is not finite; the model has its best parameters so far."""


class TrainingStep(NamedTuple):
    """The result of one step of training.

    Parameters
    ----------
    number, total : int
        The step, counted from 1, and the number of steps (an estimate where time is limited).
    loss : float
        Mean loss of the target tokens of the batch.
    epoch : int
        The epoch, counted from 1.
    pairs, tokens : int
        Pairs of the batch, and their target tokens.
    learning_rate : float
        Adam's learning rate of this step.
    seconds : float
        Duration of the training so far, without pauses between runs.
    validation : float or None
        Loss for each token of the validation pairs, after the last step, that of an epoch, and every 1,000 steps.
    best : bool
        Whether the model has new best parameters, and should be saved: its loss is the lowest so far, or
        ``keep="last"``.
    """

    number: int
    total: int
    loss: float
    epoch: int
    pairs: int
    tokens: int
    learning_rate: float
    seconds: float
    validation: float | None = None
    best: bool = False


class Training:
    """Train a network: iterate over the steps.

    Between two steps `network` has the current parameters. `best` are those that are kept; the network has them at the
    end, and after an error. A checkpoint must agree with the other options of the model in `options`.
    `prepared` seconds were needed before the first step; they are a part of the time limit.
    """

    def __init__(
        self,
        network: Network,
        pairs: Corpus,
        valid: Corpus,
        config: ResolvedConfig,
        options: Mapping[str, object] | None = None,
        prepared: float = 0.0,
    ) -> None:
        self.network, self.pairs, self.valid, self.config = network, pairs, valid, config
        network.config.input.check_augmentation(shift=config.shift, noise=config.noise)
        self.options = dict(options or {})
        self.flat = network.parameters.flat
        self.adam = Adam(self.flat, clip=config.clip_norm)
        self.mean = self.flat.copy() if config.ema_decay else None
        self.best = self.flat.copy()
        self.current: Array | None = None  # the current parameters, while the network has the best
        self.best_loss, self.waited = float("inf"), 0
        self.validated_step = 0  # the last validation
        self.prepared = prepared  # seconds, which count as training
        self.step, self.seconds, self.begun = 0, prepared, time.monotonic()
        self.per_epoch = len(batches(pairs, config.batch_tokens, self._rng(_SAMPLE)))
        epochs = None if config.epochs is None else config.epochs * self.per_epoch
        self.total = config.steps or epochs or _ENDLESS

    def _rng(self, *numbers: int) -> np.random.Generator:
        """Return the random generator for one use, which depends on no earlier one, so that no state must be saved."""
        return np.random.default_rng([self.config.seed, *numbers])

    def state(self) -> State:
        """Return the state to resume from; its arrays are those of the training, not copies."""
        arrays = {"parameters": self.flat if self.current is None else self.current, "best": self.best}
        arrays |= {"adam_mean": self.adam.mean, "adam_square": self.adam.square}
        if self.mean is not None:
            arrays["mean"] = self.mean
        return State(self.step, self.seconds, self.best_loss, self.waited, self.fingerprint(), arrays)

    def resume_from(self, state: State) -> None:
        """Resume from a state of a training of the same network with the same pairs and options."""
        if changed := _changed(self._today(state.fingerprint), self.fingerprint()):
            _check.fail(f"the checkpoint is of another training: {changed}")
        arrays = self.state().arrays
        shapes, needed = ({name: a.shape for name, a in part.items()} for part in (state.arrays, arrays))
        if shapes != needed:
            _check.fail("the checkpoint doesn't have the arrays of this training")
        if state.step > self.total:
            _check.fail(f"the checkpoint is at step {state.step}, the training has {self.total}")
        if (state.arrays["adam_square"] < 0).any():
            _check.fail("the checkpoint's adam_square must not be negative: it is a mean of squares")
        for name, array in arrays.items():
            array[...] = state.arrays[name]
        self.step, self.seconds = state.step, state.seconds
        self.best_loss, self.waited = state.best_loss, state.waited
        # A step may be validated again: a training whose time is over needs one validation.
        in_epoch = self.step % self.per_epoch
        self.validated_step = self.step - (in_epoch % _EVEN_IN_LONG_EPOCHS if in_epoch else 0)
        self.adam.steps = state.step

    def fingerprint(self) -> dict[str, str]:
        """Return network, pairs and options as text, part by part, without the time limit, which may change."""
        network, training = asdict(self.network.config), asdict(self.config)
        del training["minutes"]
        parts = {"version": __version__, "network": type(self.network.config).__name__, **self.options}
        parts |= {_PAIRS: _hash(self.pairs, self.valid)}
        parts |= {f"network {name}": value for name, value in network.items()}
        parts |= {f"training {name}": value for name, value in training.items()}
        return {name: str(value) for name, value in parts.items()}

    def _today(self, fingerprint: Mapping[str, str]) -> dict[str, str]:
        """Return a fingerprint by the present names of options."""
        configs = {"network": self.network.config, "training": self.config}
        names = {
            f"{part} {first}": f"{part} {name}"
            for part, config in configs.items()
            for first, name in renamed(config).items()
        }
        return {names.get(name, name): value for name, value in fingerprint.items()}

    def __iter__(self) -> Iterator[TrainingStep]:
        """Train until the end; yield after each step, when the training is in a consistent state."""
        with one_blas_thread() as alone, two_threads() as threads:
            halves = _TwoThreadGradients(self.network, self.config, TwoThreadMap(threads if alone else None))
            self.begun = time.monotonic() - self.seconds
            if self.current is not None:
                self.flat[...], self.current = self.current, None
            while self.step < self.total and not self._is_over():
                yield from self._epoch(halves)
        self.use_best()

    def use_best(self) -> None:
        """Give the network the best parameters so far; iterating again restores the current ones."""
        if self.current is None:
            self.current = self.flat.copy()
        self.flat[...] = self.best

    def _update_seconds(self) -> None:
        """Update the duration, time between two steps included."""
        self.seconds = time.monotonic() - self.begun

    def _elapsed_share(self) -> float:
        """Return the elapsed share of the time limit, between 0 and 1."""
        if self.config.minutes is None:
            return 0.0
        return min(self.seconds / (60 * self.config.minutes), 1.0)

    def _out_of_time(self) -> bool:
        return self._elapsed_share() == 1

    def finished_early(self) -> bool:
        """Return whether all epochs are done before the time limit."""
        return self.config.minutes is not None and self.step >= self.total and not self._out_of_time()

    def _is_over(self) -> bool:
        """Return whether patience or time is over; after the time limit, the last step must have been validated."""
        return self.out_of_patience() or (self._out_of_time() and self.validated_step == self.step > 0)

    def out_of_patience(self) -> bool:
        """Return whether the last `patience` validations had no lower loss."""
        return self.config.patience is not None and self.waited >= self.config.patience

    def _epoch(self, halves: _TwoThreadGradients) -> Iterator[TrainingStep]:
        """Take the remaining steps of the epoch."""
        epoch, done = divmod(self.step, self.per_epoch)
        # The number of batches depends on the lengths alone, not on the order.
        order = batches(self.pairs, self.config.batch_tokens, self._rng(_ORDER, epoch))
        for i in range(done, self.per_epoch):
            step = self._step(halves, self._augmented(self.pairs.batch(order[i])))
            last = self._out_of_time() or i + 1 == self.per_epoch or self.step == self.total
            if last or (i + 1) % _EVEN_IN_LONG_EPOCHS == 0:
                step = self._validated(step)
            yield step
            self._update_seconds()
            if self.step == self.total or self._is_over():
                return

    def _augmented(self, batch: Batch) -> Batch:
        """Return a batch as this step reads it."""
        how = {"shift": self.config.shift, "noise": self.config.noise}
        if not any(how.values()):
            return batch
        rng = self._rng(_AUGMENTATION, self.step)
        augmented = self.network.config.input.augmented
        return batch._replace(source=augmented(batch.source, batch.lengths, **how, rng=rng))

    def _step(self, halves: _TwoThreadGradients, batch: Batch) -> TrainingStep:
        rate = self.config.rate_at(self.step + 1, self.total, self._elapsed_share())
        loss, gradient = halves(batch, [self._rng(_DROPOUT, self.step, half) for half in range(2)])
        length = self.adam.step(gradient, rate, halves.each)
        if not np.isfinite(loss + length):
            self.flat[...] = self.best
            raise Diverged(f"the loss is not finite any more: {loss} at step {self.step + 1}")
        self.step += 1
        if self.mean is not None:
            # A smaller decay at first, so that the initial parameters are soon forgotten.
            decay = min(self.config.ema_decay, self.step / (self.step + 10))
            self.mean += np.float32(1 - decay) * (self.flat - self.mean)
        epoch = (self.step - 1) // self.per_epoch + 1
        self._update_seconds()
        size = len(batch.lengths), batch.target_tokens()
        return TrainingStep(self.step, self._expected_total(), loss, epoch, *size, rate, self.seconds)

    def _expected_total(self) -> int:
        if self.config.minutes is None:
            return self.total
        remaining = max(60 * self.config.minutes - self.seconds, 0)
        paced = self.step + round(self.step * remaining / max(self.seconds - self.prepared, 1e-9))
        return min(self.total, paced)

    def _validated(self, step: TrainingStep) -> TrainingStep:
        self.validated_step = self.step
        with _replaced(self.flat, self.flat if self.mean is None else self.mean):
            validation = mean_loss(self.network, self.valid)
        better = validation < self.best_loss  # NaN is not
        self.waited = 0 if better else self.waited + 1
        best = better or (self.config.keep == "last" and bool(np.isfinite(validation)))
        if best:
            self.best[...] = self.flat if self.mean is None else self.mean
        if better:  # last, as Ctrl-C may come in between
            self.best_loss = validation
        self._update_seconds()
        return step._replace(validation=validation, best=best, seconds=self.seconds)

    def best_parameters(self) -> AbstractContextManager[None]:
        """Give the network the best parameters so far, for as long as a ``with`` block lasts."""
        return _replaced(self.flat, self.best)


@contextmanager
def _replaced(array: Array, values: Array) -> Iterator[None]:
    """Replace the values of an array during a ``with`` block."""
    before = array.copy()
    array[...] = values
    try:
        yield
    finally:
        array[...] = before


class _TwoThreadGradients:
    """The gradient of a batch, as the sum over its two halves: each has a thread where BLAS keeps to one.

    The halves are the same with one thread or two, so the result is equal to the bit.
    """

    def __init__(self, network: Network, config: ResolvedConfig, each: TwoThreadMap) -> None:
        self.network, self.options, self.each = network, LossOptions.of(config), each
        self.gradient = Parameters(network.config.shapes(), np.zeros_like(network.parameters.flat))

    def __call__(self, batch: Batch, rngs: list[np.random.Generator]) -> tuple[float, Array]:
        """Return the loss for each target token and its gradient, which the next call overwrites."""
        tokens = batch.target_tokens()
        count = 2 if batch.source.shape[1] >= _WORTH_HALVING else 1
        parts = [(batch.part(slice(half, None, count)), rngs[half], tokens) for half in range(count)]
        halves = self.each(self._half, parts)
        gradients = [gradient for _, gradient in halves]
        self.each(
            lambda names: self._sum_up(names, gradients), (list(self.gradient)[half::2] for half in range(2))
        )
        return sum(loss for loss, _ in halves), self.gradient.flat

    def _sum_up(self, names: list[str], gradients: list[dict[str, Array]]) -> None:
        for name in names:
            second = gradients[1][name] if len(gradients) == 2 else 0
            np.add(gradients[0][name], second, out=self.gradient[name])

    def _half(self, part: tuple[Batch, np.random.Generator, int]) -> tuple[float, dict[str, Array]]:
        """Return a half's share of the loss, and its gradient."""
        batch, rng, tokens = part
        share = batch.target_tokens() / tokens
        with np.errstate(all="ignore"):  # a loss that is not finite raises Diverged
            loss, pullback = self.network.loss(batch, self.options, rng)
            return loss * share, pullback(share)


def _hash(*corpora: Corpus) -> str:
    digest = hashlib.sha256()
    for corpus in corpora:
        for array in (corpus.source, corpus.source_lengths, corpus.target, corpus.target_lengths):
            digest.update(np.ascontiguousarray(array).data)
        digest.update(repr(sorted((i, sorted(links)) for i, links in corpus.links.items())).encode())
    return digest.hexdigest()


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Describe how a training differs from an earlier one; return an empty string if it does not.

    Options that decide about the pairs come before them in a fingerprint, and options that follow from both come last.
    """
    names = [name for name in now if before.get(name) != now[name]]
    if "None" in (
        before.get(_EPOCHS),
        now.get(_EPOCHS),
    ):  # one of the two has a time limit instead, which may change
        names = [name for name in names if name != _EPOCHS]
    if _PAIRS in names:
        names = names[: max(1, names.index(_PAIRS))]
    changes = [
        f"{name} was {before.get(name, 'not known')}, and is {now[name]}" for name in names[:_MOST_CHANGES]
    ]
    return (
        "the pairs, or which of their tokens are known, have changed"
        if names == [_PAIRS]
        else "; ".join(changes)
    )


def mean_loss(network: Network, corpus: Corpus) -> float:
    """Return the mean loss for each target token, without dropout and smoothing; exp of it is the perplexity."""
    total, tokens = 0.0, 0
    for numbers in batches(corpus, 1024, np.random.default_rng(0)):
        batch = corpus.batch(numbers)
        with np.errstate(all="ignore"):
            total += network.loss(batch)[0] * batch.target_tokens()
        tokens += batch.target_tokens()
    return total / tokens

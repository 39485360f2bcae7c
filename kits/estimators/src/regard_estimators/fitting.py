"""Parameters from the leave-one-out loss, by L-BFGS with exact gradients through the attention.

Each training row is predicted by all others: its own key is masked. Memory grows with the rows, not with their pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import attention, attention_vjp, mask
from regard_estimators.metrics import Gaussian
from regard_estimators.readouts import Constant, Linear

__all__ = ["Fitted", "Head", "MetricHeads", "LeaveOneOut", "fit"]

Array = NDArray[Any]
# the predictions of rows -> the loss of each, and its gradient
Loss = Callable[[Array], tuple[Array, Array]]
FIRST_LOG_FACTORS = np.log(2.0) * np.arange(-3.0, 5.0)  # log-factors that are tried first
LEAST_LOSS = 1e-8  # keeps the logarithm of the loss finite where the targets are a function of the rows
LEAST_PRIOR = 1e-3  # of a class probability: no class has probability 0


@dataclass(frozen=True)
class Head:
    """The parameters of one head: of its score, and of its readout."""

    score: Array
    readout: Array


@dataclass(frozen=True)
class MetricHeads:
    """Several attentions over the same rows, and the mean of their predictions with learned weights.

    `score`: the score function; `readout`: the function from contexts to predictions; `count`: number of attentions;
    `prior` (e,): a constant prediction that takes part in the mean, as for class probabilities.
    """

    score: Gaussian
    readout: Constant | Linear
    count: int = 1
    prior: Array | None = None

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.count * (self.score.size + self.readout.size) + self._mixed

    @property
    def _mixed(self) -> int:
        return self.count + (self.prior is not None)

    def heads(self, parameters: Array) -> list[Head]:
        """Return the parameters of each head."""
        rows = parameters[: self.size - self._mixed].reshape(self.count, -1)
        return [Head(row[: self.score.size], row[self.score.size :]) for row in rows]

    def mixture(self, parameters: Array) -> Array:
        """Return the weights of the heads' predictions, followed by the weight of the prior."""
        logits = parameters[self.size - self._mixed :]
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        if self.prior is None:
            return np.asarray(weights)
        return np.asarray(weights * (1 - LEAST_PRIOR) + LEAST_PRIOR * (np.arange(self._mixed) == self.count))

    def mixture_pullback(self, parameters: Array, dweights: Array) -> Array:
        """Return the gradient of the logits of `mixture`."""
        share = 1.0 if self.prior is None else 1 - LEAST_PRIOR
        logits = parameters[self.size - self._mixed :]
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        return np.asarray(share * weights * (dweights - weights @ dweights))

    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Return the least and the largest value of each parameter."""
        head = [*self.score.bounds(), *[(-20.0, 10.0)] * self.readout.size]
        return [*head * self.count, *[(-10.0, 10.0)] * self._mixed]

    def precision(self, log_factor: float) -> Array:
        """Return the precision of the prior of each parameter; the weights of the mean have none."""
        head = np.concatenate([self.score.precision(log_factor), self.readout.precision()])
        return np.concatenate([np.tile(head, self.count), np.zeros(self._mixed)])

    def initial(self, log_factor: float, x: Array, rng: np.random.Generator) -> Array:
        """Return parameters to begin with; heads differ in width and at random, so that training can separate them."""
        spread = (np.arange(self.count) - (self.count - 1) / 2) * np.log(2.0)
        heads = [
            np.concatenate(
                [self.score.initial(log_factor + more, x), self.readout.initial(log_factor + more)]
            )
            for more in spread
        ]
        if self.count > 1:
            heads = [head + 0.01 * rng.standard_normal(len(head)) for head in heads]
        logits = np.zeros(self._mixed)
        if self.prior is not None:
            logits[-1] = -3.0
        return np.concatenate([*heads, logits])


def log_weighted(keys: Array, log_weights: Array) -> Array:
    """Append the logarithms of the rows' weights to keys (m, r): a row of weight 2 counts as two rows."""
    return np.column_stack([keys, log_weights])


def with_one(queries: Array) -> Array:
    """Append the factor of the number that `log_weighted` appends."""
    return np.column_stack([queries, np.ones(len(queries))])


@dataclass(frozen=True)
class LeaveOneOut:
    """The mean loss of training rows, each predicted by all others.

    `heads`: what is fitted; `x` (m, d): distinct training rows, standardised; `y` (m, e): their targets;
    `log_weights` (m,): logarithms of the rows' weights; `rows` (n,): the rows whose loss is computed; `loss`:
    predictions (n, e) to the losses (n,) of these rows and their gradients (n, e).
    """

    heads: MetricHeads
    x: Array
    y: Array
    log_weights: Array
    rows: NDArray[np.int64]
    loss: Loss

    def value(self, parameters: Array) -> float:
        """Return the loss."""
        passes = [self._of_head(head) for head in self.heads.heads(parameters)]
        mixture = self.heads.mixture(parameters)
        return float(self._shares() @ self.loss(self._mixed(mixture, self._parts(passes)))[0])

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """Return the loss and its gradient."""
        passes = [self._of_head(head) for head in self.heads.heads(parameters)]
        mixture, parts, shares = self.heads.mixture(parameters), self._parts(passes), self._shares()
        losses, gradients = self.loss(self._mixed(mixture, parts))
        dprediction = shares[:, None] * gradients
        dmixture = np.array([np.vdot(dprediction, part) for part in parts])
        of_heads = [pull(share * dprediction) for share, (_, pull) in zip(mixture, passes, strict=False)]
        return float(shares @ losses), np.concatenate(
            [*of_heads, self.heads.mixture_pullback(parameters, dmixture)]
        )

    def _shares(self) -> Array:
        """Return the weights of the rows (n,) in the mean."""
        log_weights = self.log_weights[self.rows]
        shares = np.exp(log_weights - log_weights.max())
        return np.asarray(shares / shares.sum())

    def _parts(self, passes: list[tuple[Array, Callable[[Array], Array]]]) -> list[Array]:
        """Return the predictions (n, e) of the heads, and at last the prior's."""
        parts = [predicted for predicted, _ in passes]
        if self.heads.prior is not None:
            parts.append(np.broadcast_to(self.heads.prior, parts[0].shape))
        return parts

    def _mixed(self, mixture: Array, parts: list[Array]) -> Array:
        return np.asarray(sum(share * part for share, part in zip(mixture, parts, strict=True)))

    def _of_head(self, head: Head) -> tuple[Array, Callable[[Array], Array]]:
        """Return the predictions of one head, and the function from their gradient to that of its parameters."""
        queries, keys, of_score = self.heads.score(head.score, self.x[self.rows], self.x)
        others = ~mask.documents(self.rows, np.arange(len(self.x)))
        values = self.heads.readout.values(self.x, self.y)
        context, of_context = attention_vjp(
            with_one(queries),
            log_weighted(keys, self.log_weights),
            values,
            scale=1.0,
            mask=others,
            wanted=("queries", "keys"),
        )
        prediction, of_prediction = self.heads.readout(head.readout, context, self.x[self.rows])

        def pullback(dprediction: Array) -> Array:
            of_readout, dcontext = of_prediction(dprediction)
            gradients = of_context(dcontext)
            of_head = of_score(gradients.queries[:, :-1], gradients.keys[:, :-1])
            return np.concatenate([of_head, of_readout])

        return prediction, pullback


@dataclass(frozen=True)
class Fitted:
    """The result of `fit`: parameters, the loss, and iterations of L-BFGS."""

    parameters: Array
    loss: float
    iterations: int


Likelihood = Callable[[float], tuple[float, float]]


def of_log_loss(loss: float) -> tuple[float, float]:
    """Return the negative log-likelihood of a row, which is the log loss itself, and its derivative."""
    return loss, 1.0


def of_squared_error(loss: float) -> tuple[float, float]:
    """Return the negative log-likelihood of a row with normal errors, whose variance is the loss, and its derivative.

    So the influence of a prior does not depend on the share of the variance that can be explained.
    """
    return 0.5 * float(np.log(loss + LEAST_LOSS)), 0.5 / (loss + LEAST_LOSS)


@dataclass(frozen=True)
class Penalised:
    """A likelihood, and a normal prior about the start: ``precision / 2 (parameters - start)^2``."""

    problem: LeaveOneOut
    likelihood: Likelihood
    start: Array
    precision: Array

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """Return the objective and its gradient."""
        loss, gradient = self.problem(parameters)
        value, slope = self.likelihood(loss)
        pull = self.precision * (parameters - self.start)
        return value + 0.5 * float(pull @ (parameters - self.start)), slope * gradient + pull


def fit(
    problem: LeaveOneOut,
    likelihood: Likelihood,
    *,
    alpha: float,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
) -> Fitted:
    """Minimise a leave-one-out loss: a search over common widths, then L-BFGS from the best.

    `problem`: the loss; `likelihood`: `of_log_loss` or `of_squared_error`; `alpha`: strength of the prior of the
    parameters of the score, which is normal about the best common width; `max_iter`: iterations of L-BFGS, at most;
    `tol`: it stops where the loss falls by less than this share, or no component of the gradient is larger; `rng`:
    for the differences between heads.
    """
    from scipy.optimize import minimize

    offset = -0.5 * np.log(problem.x.shape[1])  # distances grow with the root of the features
    starts = {
        offset + width: problem.heads.initial(offset + width, problem.x, rng) for width in FIRST_LOG_FACTORS
    }
    with np.errstate(over="ignore"):
        width = min(starts, key=lambda width: problem.value(starts[width]))
        start = starts[width]
        result = minimize(
            Penalised(problem, likelihood, start, alpha / len(problem.x) * problem.heads.precision(width)),
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=problem.heads.bounds(),
            options={"maxiter": max_iter, "gtol": tol, "ftol": tol},
        )
    return Fitted(result.x, problem.value(result.x), int(result.nit))


def contexts(heads: MetricHeads, head: Head, queries: Array, x: Array, y: Array, log_weights: Array) -> Array:
    """Return the predictions (n, e) of one head for new rows (n, d), with all training rows visible."""
    q, k, _ = heads.score(head.score, queries, x)
    context = attention(with_one(q), log_weighted(k, log_weights), heads.readout.values(x, y), scale=1.0)
    widths = partial(heads.score.widths, head.score)
    return heads.readout.predict(head.readout, context, queries, widths)


def predict(
    heads: MetricHeads, parameters: Array, queries: Array, x: Array, y: Array, log_weights: Array
) -> Array:
    """Return the predictions (n, e) of all heads together."""
    mixture = heads.mixture(parameters)
    total = sum(
        share * contexts(heads, head, queries, x, y, log_weights)
        for share, head in zip(mixture, heads.heads(parameters), strict=False)
    )
    return np.asarray(total if heads.prior is None else total + mixture[-1] * heads.prior)

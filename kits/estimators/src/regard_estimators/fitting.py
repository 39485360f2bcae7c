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

__all__ = ["Fitted", "LeaveOneOut", "LocalModel", "fit", "predict"]

Array = NDArray[Any]
# the predictions of rows -> the loss of each, and its gradient
Loss = Callable[[Array], tuple[Array, Array]]
FIRST_LOG_FACTORS = np.log(2.0) * np.arange(-3.0, 5.0)  # log-factors that are tried first
LEAST_LOSS = 1e-8  # keeps the logarithm of the loss finite where the targets are a function of the rows
LEAST_PRIOR = 1e-3  # of a class probability: no class has probability 0


@dataclass(frozen=True)
class LocalModel:
    """An attention over the training rows, and the mean of its prediction and a constant one with learned weights.

    `score`: the score function; `readout`: the function from contexts to predictions; `prior` (e,): the constant
    prediction, as for class probabilities; without one the attention predicts alone.
    """

    score: Gaussian
    readout: Constant | Linear
    prior: Array | None = None

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.score.size + self.readout.size + self._mixed

    @property
    def _mixed(self) -> int:
        """Number of parameters of the weights."""
        return 0 if self.prior is None else 2

    def split(self, parameters: Array) -> list[Array]:
        """Return the parameters of the score, of the readout, and of the weights."""
        return np.split(parameters, [self.score.size, self.size - self._mixed])

    def mix(self, logits: Array, attended: Array) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
        """Return predictions (n, e), and the function from their gradient to those of the attended ones and the logits.

        The weights are the softmax of the logits, and that of the prior is at least `LEAST_PRIOR`.
        """
        prior = self.prior
        if prior is None:
            return attended, lambda dy: (dy, logits)
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        of_attention, of_prior = weights * (1 - LEAST_PRIOR) + [0, LEAST_PRIOR]

        def pullback(dy: Array) -> tuple[Array, Array]:
            dweights = np.array([np.vdot(dy, attended), np.sum(dy @ prior)])
            return of_attention * dy, (1 - LEAST_PRIOR) * weights * (dweights - weights @ dweights)

        return of_attention * attended + of_prior * prior, pullback

    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Return the least and the largest value of each parameter."""
        return [
            *self.score.bounds(),
            *[(-20.0, 10.0)] * self.readout.size,
            *[(-10.0, 10.0)] * self._mixed,
        ]

    def precision(self, log_factor: float) -> Array:
        """Return the precision of the prior of each parameter; the weights of the mean have none."""
        parts = self.score.precision(log_factor), self.readout.precision(), np.zeros(self._mixed)
        return np.concatenate(parts)

    def initial(self, log_factor: float, x: Array) -> Array:
        """Return parameters to begin with."""
        logits = np.array([0.0, -3.0])[: self._mixed]
        return np.concatenate([self.score.initial(log_factor, x), self.readout.initial(log_factor), logits])


def log_weighted(keys: Array, log_weights: Array) -> Array:
    """Append the logarithms of the rows' weights to keys (m, r): a row of weight 2 counts as two rows."""
    return np.column_stack([keys, log_weights])


def with_one(queries: Array) -> Array:
    """Append the factor of the number that `log_weighted` appends."""
    return np.column_stack([queries, np.ones(len(queries))])


@dataclass(frozen=True)
class LeaveOneOut:
    """The mean loss of training rows, each predicted by all others.

    `model`: what is fitted; `x` (m, d): distinct training rows, standardised; `y` (m, e): their targets;
    `log_weights` (m,): logarithms of the rows' weights; `rows` (n,): the rows whose loss is computed; `loss`:
    predictions (n, e) to the losses (n,) of these rows and their gradients (n, e).
    """

    model: LocalModel
    x: Array
    y: Array
    log_weights: Array
    rows: NDArray[np.int64]
    loss: Loss

    def value(self, parameters: Array) -> float:
        """Return the loss."""
        return float(self._shares() @ self.loss(self._predicted(parameters)[0])[0])

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """Return the loss and its gradient."""
        predictions, pullback = self._predicted(parameters)
        shares, (losses, gradients) = self._shares(), self.loss(predictions)
        return float(shares @ losses), pullback(shares[:, None] * gradients)

    def _shares(self) -> Array:
        """Return the weights of the rows (n,) in the mean."""
        log_weights = self.log_weights[self.rows]
        shares = np.exp(log_weights - log_weights.max())
        return np.asarray(shares / shares.sum())

    def _predicted(self, parameters: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Return the predictions, and the function from their gradient to that of the parameters."""
        model, x = self.model, self.x
        score, readout, logits = model.split(parameters)
        queries, keys, of_score = model.score(score, x[self.rows], x)
        context, of_context = attention_vjp(
            with_one(queries),
            log_weighted(keys, self.log_weights),
            model.readout.values(x, self.y),
            scale=1.0,
            mask=~mask.documents(self.rows, np.arange(len(x))),
            wanted=("queries", "keys"),
        )
        attended, of_attended = model.readout(readout, context, x[self.rows])
        predictions, of_predictions = model.mix(logits, attended)

        def pullback(dy: Array) -> Array:
            dattended, dlogits = of_predictions(dy)
            dreadout, dcontext = of_attended(dattended)
            gradients = of_context(dcontext)
            dscore = of_score(gradients.queries[:, :-1], gradients.keys[:, :-1])
            return np.concatenate([dscore, dreadout, dlogits])

        return predictions, pullback


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
) -> Fitted:
    """Minimise a leave-one-out loss: a search over common widths, then L-BFGS from the best.

    `problem`: the loss; `likelihood`: `of_log_loss` or `of_squared_error`; `alpha`: strength of the prior of the
    parameters of the score, which is normal about the best common width; `max_iter`: iterations of L-BFGS, at most;
    `tol`: it stops where the loss falls by less than this share, or no component of the gradient is larger.
    """
    from scipy.optimize import minimize

    offset = -0.5 * np.log(problem.x.shape[1])  # distances grow with the root of the features
    starts = {offset + width: problem.model.initial(offset + width, problem.x) for width in FIRST_LOG_FACTORS}
    with np.errstate(over="ignore"):
        width = min(starts, key=lambda width: problem.value(starts[width]))
        start = starts[width]
        result = minimize(
            Penalised(problem, likelihood, start, alpha / len(problem.x) * problem.model.precision(width)),
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=problem.model.bounds(),
            options={"maxiter": max_iter, "gtol": tol, "ftol": tol},
        )
    return Fitted(result.x, problem.value(result.x), int(result.nit))


def predict(
    model: LocalModel, parameters: Array, queries: Array, x: Array, y: Array, log_weights: Array
) -> Array:
    """Return the predictions (n, e) for new rows (n, d), with all training rows visible."""
    score, readout, logits = model.split(parameters)
    q, k, _ = model.score(score, queries, x)
    context = attention(with_one(q), log_weighted(k, log_weights), model.readout.values(x, y), scale=1.0)
    attended = model.readout.predict(readout, context, queries, partial(model.score.widths, score))
    return model.mix(logits, attended)[0]

"""Several models that translate together.

Models that were trained with different seeds make different errors. The mean of their probabilities of the next token
is right more often than any of them (Sutskever, Vinyals and Le 2014, section 3.6; Luong, Pham and Manning 2015, section
4). A search uses nothing of a network but its `Stepper`, and the steppers of several networks form one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.corpus.batching import Ids
from regard.seq2seq.networks.base import Predictor, Stepper
from regard.seq2seq.networks.top_tokens import exponential_sums
from regard.seq2seq.storage.model_file import Model
from regard.seq2seq.translator import Translator

__all__ = ["Ensemble", "EnsembleNetwork"]

Array = NDArray[Any]

_NEAR = 1 << 15  # numbers that stay in the cache for several passes
_RARE = -70.0  # logarithm of a probability; float32 ends at -87 without a loss
_HINT = "train them on the same pairs with the same token types, with different seeds"


class Ensemble(Translator):
    """Several models that translate together, by the mean of their probabilities of each token.

    The reranker is that of the first model.

    Parameters
    ----------
    models : sequence of Translator
        Of any families and sizes, with the same vocabularies on both sides.

    Raises
    ------
    ValueError, TypeError
        If their vocabularies or extras differ.

    References
    ----------
    Sutskever, Vinyals and Le 2014, "Sequence to Sequence Learning with Neural Networks", section 3.6.

    Examples
    --------
    >>> from regard.seq2seq import Seq2Seq
    >>> pairs = ["one", "two", "one two"], ["un", "deux", "un deux"]
    >>> together = Ensemble([Seq2Seq(epochs=40, seed=seed).fit(*pairs) for seed in (1, 2)])
    >>> together.translate(["one two"])[0].text
    'un deux'
    """

    def __init__(self, models: Sequence[Translator]) -> None:
        _check_models(models)
        self.models = tuple(models)
        self._attention = any(model.attention for model in models)
        self._model = models[0].model._replace(
            network=EnsembleNetwork([model.network for model in models]),
            calibration=None,  # the first model's is fitted to its own probabilities
        )

    @property
    def model(self) -> Model[Predictor]:
        """All networks as one, with the tokenizers of both sides."""
        return self._model

    @property
    def attention(self) -> bool:
        """Whether any of the models has attention; the weights of the ensemble are the mean of theirs."""
        return self._attention


class EnsembleNetwork:
    """Networks with the same vocabularies that predict together, as one network for a search.

    `networks`: of any families.
    """

    def __init__(self, networks: Sequence[Predictor]) -> None:
        self.networks = tuple(networks)

    def stepper(self, source: Ids, lengths: Ids, width: int = 1) -> Stepper:
        """Begin a search for sources (T, B) of these lengths (B,)."""
        return _EnsembleStepper([network.stepper(source, lengths, width) for network in self.networks])


class _EnsembleStepper(Stepper):
    """The steppers of all networks side by side."""

    def __init__(self, each: Sequence[Stepper]) -> None:
        self.each = each
        self.has_posterior = all(stepper.has_posterior for stepper in each)

    def __call__(self, tokens: Ids) -> tuple[Array, Array]:
        """Take a step after tokens (B, k): logarithms of mean probabilities (B, k, V), mean weights (B, k, T)."""
        predicted = [stepper(tokens) for stepper in self.each]
        logs = _mean_of_probabilities([logits for logits, _ in predicted])
        return logs, _mean_weights([weights for _, weights in predicted])

    def select(self, parents: Ids) -> None:
        """Continue with these hypotheses (B, k') of each sentence."""
        for stepper in self.each:
            stepper.select(parents)

    def keep(self, sentences: Ids) -> None:
        """Continue with these sentences (B',) only."""
        for stepper in self.each:
            stepper.keep(sentences)

    def posterior(self, tokens: Ids) -> Array:
        """Return the mean posterior attention (B, k, T) of the last step, given the tokens (B, k) that followed it."""
        return _mean_weights([stepper.posterior(tokens) for stepper in self.each])


def _mean_weights(each: Sequence[Array]) -> Array:
    """Return the mean (B, k, T) of the weights of networks with attention; (B, k, 0) without any."""
    attending = [weights for weights in each if weights.shape[-1]]
    mean: Array = np.mean(attending, axis=0) if attending else each[0]
    return mean


def _mean_of_probabilities(logits: Sequence[Array]) -> Array:
    """Return the logarithm (..., V) of the mean softmax; NaN stays NaN."""
    each = [rows.reshape(-1, rows.shape[-1]) for rows in logits]
    with np.errstate(all="ignore"):  # the search checks for NaN
        totals = [_log_of_sums(rows) for rows in each]
        mean = np.empty_like(each[0])
        few = max(1, _NEAR // mean.shape[1])
        for start in range(0, len(mean), few):
            part = slice(start, start + few)
            mean[part] = _log_of_mean(
                [rows[part] - total[part] for rows, total in zip(each, totals, strict=True)]
            )
    return mean.reshape(logits[0].shape)


def _log_of_sums(logits: Array) -> Array:
    """Return the logarithms (N, 1) of the sums of exponentials."""
    sums = exponential_sums(logits)
    return np.log(sums[:, 1:]) + sums[:, :1]


def _log_of_mean(logs: Sequence[Array]) -> Array:
    """Return the logarithm of the mean of the exponentials."""
    mean: Array = np.log(sum(map(np.exp, logs)) / len(logs))
    rare = mean < _RARE
    if rare.any():  # the sum of exponentials would be subnormal, or 0
        low = np.stack([log[rare] for log in logs])
        most = np.maximum(low.max(axis=0), np.finfo(low.dtype).min)  # impossible for all
        mean[rare] = most + np.log(np.exp(low - most).sum(axis=0) / len(logs))
    return mean


def _check_models(models: Any) -> None:
    """Check that these models can form an ensemble."""
    if not isinstance(models, Sequence) or not all(isinstance(model, Translator) for model in models):
        got = type(models).__name__
        if isinstance(models, Sequence):
            got = f"a sequence with {next(m for m in models if not isinstance(m, Translator))!r:.60}"
        _check.fail(f"models must be a sequence of translators. Got {got} instead.", kind=TypeError)
    if not models:
        _check.fail("models must be at least one. Got none instead.")
    first = models[0].model
    for number, model in enumerate(models[1:], 2):
        for what, expected, other in _requirements(first, model.model):
            if expected != other:
                _check.fail(f"models must {what}. Model {number} differs from model 1.", hint=_HINT)


def _requirements(first: Model[Predictor], other: Model[Predictor]) -> list[tuple[str, object, object]]:
    """Return for each requirement its text and the values of both models, which must be equal."""
    targets, others = ((model.target.describe(), model.target.data()) for model in (first, other))
    return [
        ("read sources in the same way", first.source, other.source),
        ("know the same tokens of the target", targets, others),
        *(
            (f"have the same {name}, or none", _shared_part(first, name), _shared_part(other, name))
            for name in {**first.extras, **other.extras}
        ),
    ]


def _shared_part(model: Model[Predictor], name: str) -> object:
    """Return the part of an extra that the models of an ensemble must share, None without it."""
    return model.extras[name].shared() if name in model.extras else None

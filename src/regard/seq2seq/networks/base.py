"""The interfaces of networks: for training (`Network`) and for a search (`Predictor`, `Stepper`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.corpus.batching import Batch, Ids
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.top_tokens import TopTokens, top_tokens
from regard.seq2seq.sources.text.vocabulary import END

__all__ = ["LossOptions", "Network", "Predictor", "Stepper"]

Array = NDArray[Any]


class Stepper(ABC):
    """The decoder steps of a search: k hypotheses of each of B sentences, one token at a time.

    A subclass implements a step and the selection of hypotheses; the other methods have defaults.
    """

    has_posterior: bool = False  #: whether `posterior` is implemented

    @abstractmethod
    def __call__(self, tokens: Ids) -> tuple[Array, Array]:
        """Take a step after tokens (B, k): logits (B, k, V); weights (B, k, T), or (B, k, 0) without attention."""

    @abstractmethod
    def select(self, parents: Ids) -> None:
        """Continue with these hypotheses (B, k') of each sentence."""

    @abstractmethod
    def keep(self, sentences: Ids) -> None:
        """Continue with these sentences (B',) only."""

    def top(self, tokens: Ids, count: int, first: int) -> tuple[TopTokens, Array]:
        """Take a step, and return the `count` largest logits from token `first` on, of B k rows; weights (B, k, T)."""
        logits, weights = self(tokens)
        return top_tokens(logits.reshape(tokens.size, -1), count, first), weights

    def forbid(self, logits: Array) -> None:
        """Set the logits (B, k, V) of the last step to -inf for tokens that must not follow: PAD and START."""
        logits[..., :END] = -np.inf

    def posterior(self, tokens: Ids) -> Array:
        """Return the posterior attention (B, k, T) of the last step, given the tokens (B, k) that followed it."""
        raise NotImplementedError("this network has no posterior attention")


class LossOptions(NamedTuple):
    """The options of a loss, with the names that they have in `TrainingConfig`.

    `dropout`: the dropout rate; `label_smoothing`: label smoothing; `guided_alignment`: the weight of the cross-entropy
    between the batch's links and the attention weights; `rdrop`: the weight of the divergence between two predictions
    with different dropout.
    """

    dropout: float = 0.0
    label_smoothing: float = 0.0
    guided_alignment: float = 0.0
    rdrop: float = 0.0

    @classmethod
    def of(cls, config: Any) -> LossOptions:
        """Return the options of a resolved configuration of training."""
        return cls(*(getattr(config, name) for name in cls._fields))


class Predictor(Protocol):
    """The interface of a network, or of an ensemble, to a search."""

    def stepper(self, source: Ids, lengths: Ids, width: int = 1) -> Stepper:
        """Begin a search.

        `source` (T, B): source sentences, each with END, padded with PAD; `lengths` (B,): tokens of each; `width`:
        hypotheses of each sentence.
        """


class Network(Predictor, Protocol):
    """A network: its configuration, parameters, loss and stepper."""

    parameters: Parameters

    @property
    def config(self) -> Any:
        """The configuration, of one of the families."""

    def initialize(self, rng: np.random.Generator, target_counts: Array) -> None:
        """Draw the initial parameters; `target_counts` (V,) is the frequency of each target token."""

    def loss(
        self,
        batch: Batch,
        options: LossOptions = LossOptions(),
        rng: np.random.Generator | None = None,
    ) -> tuple[float, Callable[[float], dict[str, Array]]]:
        """Predict each token of the targets from the tokens before it.

        `batch`: sentence pairs; `rng`: random numbers for dropout and for the sampled softmax of a large vocabulary;
        without it, there is no dropout and the softmax is complete. Returns `pullback`: ``pullback(dloss) -> gradients
        by parameter name``; to be called at most once.
        """

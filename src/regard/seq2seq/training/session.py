"""The training of a model from its pairs to the end: what `Seq2Seq.fit` and ``regard train`` share."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Protocol

from regard.seq2seq.corpus.packing import Row
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.networks.base import Network
from regard.seq2seq.storage.model_file import Model
from regard.seq2seq.training.checkpoint import (
    checkpoint_path,
    finish,
    read_checkpoint,
    resume,
    steps_with_checkpoints,
)
from regard.seq2seq.training.loop import Training, TrainingStep
from regard.seq2seq.training.preparation import GivenLinks, Specification, prepare

__all__ = ["begin", "remaining_steps", "take_steps"]

_FITTED = 1000  # validation sources, at most, that the weight of a reranker is fitted to


class Learner(Specification, Protocol):
    """The model that learns: a `regard.seq2seq.Seq2Seq`."""

    _model: Model[Network] | None
    _unseen: list[tuple[Row, Row]]

    @property
    def model(self) -> Model[Network]:
        """The network and the tokenizers."""

    def _find(self, sources: Sequence[Row], width: int, scoring: Scoring) -> list[list[Hypothesis]]: ...


def begin(
    learner: Learner,
    pairs: Sequence[tuple[Any, Any]],
    valid: Sequence[tuple[Any, Any]] | None = None,
    *,
    links: GivenLinks = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> Training:
    """Learn the vocabularies and the extras, initialise the network, and return the training before its first step.

    `pairs`, `valid`, `links`: as for `Seq2Seq.fit`; links are sets, or, where `valid` is given, a function of the
    source, the target's tokenizer and the pairs; `progress`: called with what the extras do ("appending tokens to
    sources"), the number of steps or sources since the last call, and the number of all.
    """
    training, learner._model, learner._unseen = prepare(learner, pairs, valid, links, progress)
    return training


def take_steps(
    learner: Learner,
    training: Training,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    keep: bool = False,
) -> Generator[TrainingStep, None, None]:
    """Take the steps of a training that has begun, from its checkpoint if there is one.

    `keep`: whether the checkpoint stays at the end: resuming from it ends at once, with the same model.
    """
    path = None if checkpoint is None else checkpoint_path(checkpoint)
    if path is not None and path.exists():
        resume(training, read_checkpoint(path), path)
    yield from remaining_steps(learner, training, path, keep=keep)


def remaining_steps(
    learner: Learner, training: Training, path: Path | None, *, keep: bool
) -> Generator[TrainingStep, None, None]:
    """Take the remaining steps, and write checkpoints if there is a path for them."""
    yield from steps_with_checkpoints(training, path)
    _fit_reranker(learner)
    finish(training, path, keep=keep)


def _fit_reranker(learner: Learner) -> None:
    """Fit the weight of a reranker to validation pairs, if there are any that were not learned from."""
    reranker, references = learner.model.reranker, dict[Row, list[Row]]()
    for source, target in learner._unseen:
        references.setdefault(source, []).append(target)
    sources = list(references)[:: -(-len(references) // _FITTED) or 1]
    if reranker is not None and sources:
        scoring = Scoring()
        hypotheses = learner._find(sources, BEAM, scoring)
        reranker.fit_weight(sources, hypotheses, [references[source] for source in sources], scoring)

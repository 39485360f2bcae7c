"""The interface of tasks: what is learned from which files, and what counts as right."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from regard.commands.summary import Measures
from regard.commands.tasks.app import App
from regard.commands.tasks.data import Data
from regard.commands.tasks.items import Column, Items
from regard.commands.train.confidence import Confidence
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.evaluation.held_out import HeldOut
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.training.config import TrainingConfig
from regard.seq2seq.translator import Translator

__all__ = ["Task"]


class Task(ABC):
    """A task of ``regard train``, made of its arguments; class methods answer ``regard evaluate`` and ``export``.

    Another task is a subclass, perhaps of `regard.commands.tasks.pairs.Pairs`, that an entry point of the group
    "regard.tasks" names.
    """

    name: ClassVar[str]  #: for ``--task`` and in the card of a model
    description: ClassVar[str]  #: for the help
    verb: ClassVar[str] = ""  #: the verb whose ``--threshold`` drops improbable answers, if there is one
    most_calibrated: ClassVar[int | None] = 500  #: sources of test, and of validation, for a calibration
    copies: ClassVar[bool] = True  #: whether the source itself may be a good answer
    into_pairs: ClassVar[str] = ""  #: the command that makes pairs of its files

    # Most methods have an answer that is right for most tasks.

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args

    @classmethod  # noqa: B027
    def add_arguments(cls, group: Any) -> None:
        """Add the options of this task to ``regard train``."""

    def check(self) -> None:  # noqa: B027
        """Raise for options that do not go together."""

    def defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of `regard.seq2seq.Seq2Seq`: those that are given, and defaults for the others.

        `training` has the given options of training.
        """
        return {**given, "training": TrainingConfig(**given["training"])}

    def forecast(self, model: Seq2Seq) -> str:
        """Return what is known about the time that a training takes, before it begins; or nothing."""
        return ""

    @abstractmethod
    def read(self, model: Seq2Seq) -> Data:
        """Read the files, as `model` reads both sides of a pair."""

    def identity(self, data: Data) -> Mapping[str, str]:
        """Return what must be the same for a finished training to count as done, besides model, pairs and links."""
        return {}

    def notices(self, model: Seq2Seq, data: Data) -> Iterator[str]:
        """Yield what is worth knowing before the first step."""
        yield from ()

    @abstractmethod
    def measures(self, model: Seq2Seq, data: Data) -> Measures:
        """Return what is measured after each epoch."""

    @abstractmethod
    def measure(
        self, models: Sequence[Seq2Seq], test: Sequence[Pair], data: Data, confidences: Sequence[Confidence]
    ) -> list[dict[str, Any]]:
        """Print the measures of each model at the end, and return those that its card has."""

    def card(self, model: Seq2Seq, data: Data, measured: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the file of a model says about it, in values of JSON."""
        return {}

    def held_out(self, test: Sequence[Pair], data: Data) -> HeldOut | None:
        """Return sources with digests of right answers, by which ``regard export`` measures what leaves."""
        return None

    def stated(self) -> dict[str, str]:
        """Return the values of the card that options state: the same command corrects them after the training."""
        return {}

    @classmethod
    def recognise(cls, path: Path) -> str:
        """Return what a file is, such as "a table of measurements", if this task reads it; else nothing."""
        return ""

    @classmethod
    def answers(cls, model: Translator, path: Path) -> dict[str, list[str]] | None:
        """Return the sources of a file of tests with all their right answers; None for a file of pairs."""
        return None

    @classmethod  # noqa: B027
    def add_export_arguments(cls, group: Any) -> None:
        """Add the options of this task to ``regard export``."""

    @classmethod
    def app(cls, model: Seq2Seq, args: argparse.Namespace) -> App:
        """Return what an exported folder has besides the model; raise for options that are wrong."""
        return App()

    @classmethod
    @abstractmethod
    def columns(cls, test: Items, tokenize: str) -> dict[str, Column]:
        """Return the measures of ``regard evaluate``; `tokenize` is the tokenizer of BLEU."""

    @classmethod
    @abstractmethod
    def headline(cls, test: Items) -> str:
        """Return the name of the measure that is drawn, and compared by length."""

    @classmethod
    @abstractmethod
    def definitions(cls, test: Items) -> list[str]:
        """Return what the columns are."""

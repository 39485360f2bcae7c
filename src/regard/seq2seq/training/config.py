"""The options of training: a field has the name, the default, the check and the description of an option.

The options of ``regard train``, the table of the guide and the identity of a training are made of these fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal, NamedTuple

from regard import _check

__all__ = ["OPTIONS", "Option", "ResolvedConfig", "TrainingConfig"]


class Option(NamedTuple):
    """The description of a field of `TrainingConfig`, and the check of its values."""

    description: str
    default: str  # in words where the pairs or the network decide
    value: str  # in the help: N for an integer, X for a number
    check: Callable[[str, Any], Any]  # of a name and a value, which it returns as Python's own number


def _field(metavar: str, check: Callable[..., Any], description: str, default: Any, shown: str) -> Any:
    return field(
        default=default, metadata={"option": Option(description, shown or str(default), metavar, check)}
    )


def _integer(description: str, default: int | None = None, shown: str = "", least: int = 1) -> Any:
    return _field("N", partial(_check.integer, least=least), description, default, shown)


def _positive(description: str, default: float | None = None, shown: str = "") -> Any:
    return _field("X", partial(_check.number, positive=True), description, default, shown)


def _number(
    description: str, default: float | None = None, shown: str = "", below: float | None = None
) -> Any:
    return _field("X", partial(_check.number, least=0, below=below), description, default, shown)


def _kept(name: str, value: str) -> str:
    _check.choice(name, value, ("best", "last"))
    return value


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Options of training, checked; None stands for a default that the pairs and the network decide.

    ``regard train --help`` and the guide to translation describe the fields, which have the same names there.

    Examples
    --------
    >>> TrainingConfig(dropout=0.3, patience=5).given()
    {'dropout': 0.3, 'patience': 5}
    >>> TrainingConfig(dropout=2.0)
    Traceback (most recent call last):
    ValueError: dropout must be less than 1. Got 2.0 instead.
    """

    epochs: int | None = _integer(
        "passes over the training pairs", None, "5 to 200, by the pairs; or as many as minutes allow"
    )
    minutes: float | None = _positive("time limit of the training", None, "none")
    steps: int | None = _integer("batches that are read, instead of epochs or minutes", None, "by the epochs")
    learning_rate: float | None = _positive(
        "largest learning rate of Adam, which falls from it to 0",
        None,
        "0.005; 0.001 for transformer or images",
    )
    batch_tokens: int | None = _integer("tokens of a side of a batch, padding included", None, "by the pairs")
    warm_up: int | None = _integer("steps of linear warm-up", None, "150, or a tenth of all")
    label_smoothing: float = _number("label smoothing (Szegedy et al. 2016)", 0.1, below=1)
    dropout: float | None = _number("largest dropout rate", None, "0.2; 0.1 for a transformer", below=1)
    ema_decay: float = _number(
        "decay of the running mean of the parameters that is validated and saved", 0, "0: none", below=1
    )
    clip_norm: float = _positive("largest norm of the gradient (clipping, Pascanu et al. 2013)", 1)
    patience: int | None = _integer("validations without a lower loss that end the training", None, "no end")
    guided_alignment: float | None = _number("weight of the loss of given links", None, "1 with --links")
    rdrop: float = _number("weight of R-Drop (Liang et al. 2021)", 0, "0: none")
    keep: Literal["best", "last"] = _field(
        "best|last",
        _kept,
        "keep the model of the lowest validation loss, or of the last validation",
        "best",
        "",
    )
    shift: int = _integer("most pixels by which training pictures are shifted", 0, least=0)
    noise: float = _number("standard deviation of noise in training pictures and vectors", 0, below=1)
    seed: int = _integer("random seed", 1, least=0)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:  # Python's own numbers: NumPy's wrap around
                object.__setattr__(self, each.name, each.metadata["option"].check(each.name, value))
        for name in ("epochs", "minutes"):
            if self.steps is not None and getattr(self, name) is not None:
                _check.fail(
                    f"steps must not be given with {name}. Got {self.steps} and {getattr(self, name)} instead."
                )
        if self.rdrop and self.dropout == 0:
            _check.fail(f"rdrop must be 0 without dropout: nothing differs then. Got {self.rdrop!r} instead.")

    def given(self) -> dict[str, Any]:
        """Return the fields that do not have their defaults."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


OPTIONS: dict[str, Option] = {each.name: each.metadata["option"] for each in fields(TrainingConfig)}


class ResolvedConfig(TrainingConfig):
    """Options of training whose defaults have been chosen; it has epochs, minutes or steps."""

    learning_rate: float
    batch_tokens: int
    warm_up: int
    dropout: float
    guided_alignment: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs is self.minutes is self.steps is None:
            _check.fail(
                "epochs must be given without minutes and steps: training needs an end. Got None instead."
            )

    def rate_at(self, step: int, steps: int, passed: float) -> float:
        """Return Adam's rate at a step counted from 1, when a share `passed` of the time limit is over."""
        left = min((steps - step + 1) / max(steps - self.warm_up, 1), 1 - passed)
        return self.learning_rate * max(min(step / self.warm_up, left), 0.0)

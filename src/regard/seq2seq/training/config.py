"""The options of training, of which the arguments of ``regard train`` and the identity of a training are made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from regard import _check
from regard.seq2seq.networks.options import check_fields, option, options_of

__all__ = ["OPTIONS", "ResolvedConfig", "TrainingConfig"]


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

    epochs: int | None = option(
        "passes over the training pairs",
        shown="5 to 200, by the pairs; or as many as minutes allow",
        example=3,
    )
    minutes: float | None = option(
        "time limit of the training", positive=True, example=0.5, refused=(float("inf"), "finite")
    )
    steps: int | None = option(
        "batches that are read, instead of epochs or minutes", shown="by the epochs", example=7
    )
    learning_rate: float | None = option(
        "largest learning rate of Adam, which falls from it to 0",
        shown="0.005; 0.001 for transformer or images",
        positive=True,
        example=0.25,
        refused=(0.0, "greater than 0"),
    )
    batch_tokens: int | None = option(
        "tokens of a side of a batch, padding included", shown="by the pairs", example=64
    )
    warm_up: int | None = option("steps of linear warm-up", shown="150, or a tenth of all", example=9)
    label_smoothing: float = option(
        "label smoothing (Szegedy et al. 2016)", 0.1, below=1, example=0.0, refused=(1.0, "less than 1")
    )
    dropout: float | None = option(
        "largest dropout rate",
        shown="0.2; 0.1 for a transformer",
        below=1,
        example=0.0,
        refused=(2.0, "less than 1"),
    )
    ema_decay: float = option(
        "decay of the running mean of the parameters that is validated and saved",
        0,
        "0: none",
        below=1,
        example=0.5,
        refused=("x", "a number"),
    )
    clip_norm: float = option(
        "largest norm of the gradient (clipping, Pascanu et al. 2013)",
        1,
        positive=True,
        example=2.0,
        refused=(-1.0, "greater than 0"),
    )
    patience: int | None = option(
        "validations without a lower loss that end the training", shown="no end", example=3
    )
    guided_alignment: float | None = option(
        "weight of the loss of given links", shown="1 with --links", example=0.0
    )
    rdrop: float = option("weight of R-Drop (Liang et al. 2021)", 0, "0: none", example=1.0)
    keep: Literal["best", "last"] = option(
        "keep the model of the lowest validation loss, or of the last validation",
        "best",
        choices=("best", "last"),
        example="last",
    )
    shift: int = option(
        "most pixels by which training pictures are shifted",
        0,
        least=0,
        example=1,
        refused=(True, "an integer"),
    )
    noise: float = option(
        "standard deviation of noise in training pictures and vectors",
        0,
        below=1,
        example=0.5,
        refused=(1.0, "less than 1"),
    )
    seed: int = option("random seed", 1, least=0, example=0, refused=(1.5, "an integer"))

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("epochs", "minutes"):
            if self.steps is not None and getattr(self, name) is not None:
                _check.fail(
                    f"steps must not be given with {name}. Got {self.steps} and {getattr(self, name)} instead."
                )
        if self.rdrop and self.dropout == 0:
            rule = "rdrop must be 0 without dropout, which makes its two predictions differ."
            _check.fail(f"{rule} Got {self.rdrop!r} instead.")

    def given(self) -> dict[str, Any]:
        """Return the fields that do not have their defaults."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


OPTIONS = options_of(TrainingConfig)


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
        remaining = min((steps - step + 1) / max(steps - self.warm_up, 1), 1 - passed)
        return self.learning_rate * max(min(step / self.warm_up, remaining), 0.0)

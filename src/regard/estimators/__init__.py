"""Attention as an estimator: training rows are the keys, their targets the values, and the score is learned.

`AttentionRegressor` and `AttentionClassifier` import scikit-learn when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.estimators.memory import AttentionMemory

if TYPE_CHECKING:
    from regard.estimators.classifier import AttentionClassifier
    from regard.estimators.regressor import AttentionRegressor

__all__ = ["AttentionClassifier", "AttentionMemory", "AttentionRegressor"]

_LAZY = {"AttentionClassifier": "classifier", "AttentionRegressor": "regressor"}


def __getattr__(name: str) -> Any:
    """Import an estimator, and with it scikit-learn, when it is first used."""
    if name in _LAZY:
        return getattr(import_module(f"regard.estimators.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the lazily imported names, too."""
    return sorted({*globals(), *_LAZY})

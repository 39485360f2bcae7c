"""scikit-learn's base classes; where it is not installed, stand-ins that raise an error when they are instantiated."""

from __future__ import annotations

from typing import Any

__all__ = ["BaseEstimator", "ClassifierMixin", "MultiOutputMixin", "RegressorMixin"]

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
except ImportError:

    class BaseEstimator:  # type: ignore[no-redef]
        """Stand-in, so that modules can be imported where scikit-learn is not installed."""

        def __new__(cls, *_: Any, **__: Any) -> Any:
            raise ImportError(f"{cls.__name__} needs scikit-learn: pip install 'regard[sklearn]'")

    class ClassifierMixin:  # type: ignore[no-redef]
        """Stand-in."""

    class MultiOutputMixin:  # type: ignore[no-redef]
        """Stand-in."""

    class RegressorMixin:  # type: ignore[no-redef]
        """Stand-in."""

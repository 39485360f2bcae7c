"""Step 2 of a network's attention, by the options that choose it."""

from __future__ import annotations

from typing import Any, Protocol

from regard import weights
from regard.seq2seq.networks.options import option
from regard.weights import NormalizeLike

__all__ = ["NORMALIZERS", "alpha_option", "normalize_option", "normalizer"]

NORMALIZERS = ("softmax", "sparsemax", "entmax", "sigmoid", "relu")


class _Chosen(Protocol):
    """The options of a configuration that choose step 2."""

    @property
    def normalize(self) -> str:
        """The name of a normalisation."""

    @property
    def alpha(self) -> float:
        """The alpha of an entmax."""


def normalize_option(*others: str) -> Any:
    """Return the field of the normalisation: one of `NORMALIZERS`, or of others that a family has."""
    return option(
        "how logits become weights", "softmax", choices=(*NORMALIZERS, *others), example="sparsemax"
    )


def alpha_option() -> Any:
    """Return the field of entmax's alpha."""
    return option(
        "alpha of entmax: 1 is softmax, 2 is sparsemax",
        1.5,
        least=1,
        example=1.25,
        refused=(0.5, "at least 1"),
    )


def normalizer(c: _Chosen) -> NormalizeLike:
    """Return ``normalize=`` of an attention."""
    if c.normalize == "entmax":
        return weights.entmax(c.alpha)
    return {"sigmoid": weights.sigmoid(), "relu": weights.relu()}.get(c.normalize, c.normalize)

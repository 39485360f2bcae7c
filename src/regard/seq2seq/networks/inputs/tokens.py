"""Tokens as a network's input: a table of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from regard import _check
from regard.nn import embed
from regard.seq2seq.networks.graph import Graph
from regard.seq2seq.networks.inputs.base import Array, Input, Named, Shapes
from regard.seq2seq.sources.base import Spec

__all__ = ["TokenInput", "embed_tokens"]


@dataclass(frozen=True)
class TokenInput(Input):
    """The input of a network that reads tokens.

    `size`: the size of the vocabulary.
    """

    size: int

    kind: ClassVar[str] = "tokens"

    @property
    def spec(self) -> Spec:
        """Tokens of the vocabulary."""
        return Spec(tokens=self.size)

    def shapes(self, width: int, blocks: int = 0) -> Shapes:
        """Return the shape of the table."""
        return {"source_embedding": (self.size, width)}

    def embed(
        self, p: Mapping[str, Array], source: Array, ends: Any, scale: float = 1.0
    ) -> tuple[Array, Callable[[Array], Named]]:
        """Look tokens up."""
        rows, back = embed_tokens(p["source_embedding"], source, scale)
        return rows, lambda drows: {"source_embedding": back(drows)}

    def export(self, g: Graph, source: str, lengths: str, scale: float = 1.0) -> str:
        """Append the node that looks tokens up."""
        return g.embedded("source_embedding", source, scale)

    def check_augmentation(self, *, shift: int, noise: float) -> None:
        """Raise for an augmentation, as tokens have none."""
        if noise:
            _check.fail(
                f"noise must be 0 for a source of tokens, to which numbers can't be added. Got {noise!r} instead."
            )
        super().check_augmentation(shift=shift, noise=noise)


def embed_tokens(table: Array, ids: Array, scale: float) -> tuple[Array, Callable[[Array], Array]]:
    """Return the rows (..., W) of a table (V, W), times a factor; the pullback gives the table's gradient."""
    rows, back = embed(table, ids)
    if scale == 1:
        return rows, lambda drows: back(drows)[0]
    factor = table.dtype.type(scale)
    rows *= factor
    return rows, lambda drows: back(drows * factor)[0]

"""Examples: inputs that a source has read."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

__all__ = ["Example", "equally_spaced"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Example:
    """An input that a source has read, as tokens or rows; examples with equal content are equal.

    `content` (m, F): tokens, or rows before they are standardised; `layout`: a key of how it was read: sources with
    equal keys read alike; `name`: the text, or the path of the file; empty for an array; `size`: the rows and columns
    of a picture in a file, before it was made to fit.
    """

    content: Any
    layout: Hashable
    name: str = ""
    size: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.content)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Example({self.identity!r})"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Example) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def identity(self) -> Hashable:
        """The text, however it is split; or the path, and a digest of the rows."""
        return (self.name, self._key()) if isinstance(self.content, np.ndarray) else self.name

    def _key(self) -> Hashable:
        if not isinstance(self.content, np.ndarray):
            return self.content  # type: ignore[no-any-return]
        digest = hashlib.sha256(np.ascontiguousarray(self.content).data).hexdigest()
        return self.content.shape, self.content.dtype.str, digest


def equally_spaced(items: Sequence[T], most: int) -> list[T]:
    """Return at most so many items, at equal distances."""
    count = min(len(items), most)
    return [items[i * len(items) // count] for i in range(count)]

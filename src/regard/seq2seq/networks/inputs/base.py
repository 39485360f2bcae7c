"""The interface of a network's input, which embeds tokens, vectors or images for the encoder.

Letters: B sources of T positions, N of them that are not padding, F numbers of a row, W width of an annotation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.corpus.batching import Ids
from regard.seq2seq.networks.graph import Graph
from regard.seq2seq.networks.padding import Padding
from regard.seq2seq.sources.base import Spec

__all__ = ["Input"]

Array = NDArray[Any]
Named = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]
Drop = Callable[[Array], tuple[Array, Callable[[Array], tuple[Array]]]]


class Input(ABC):
    """The input of a network: a frozen dataclass with the sizes of its sources."""

    kind: ClassVar[str]  #: in model files
    layered: ClassVar[bool] = True  #: whether layers of a recurrent network's encoder read it
    largest_rate: ClassVar[float] = float("inf")  #: of learning

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """The form of the sources that it reads."""

    @property
    def ordered(self) -> bool:
        """Whether the order of the positions has a meaning."""
        return self.spec.ordered

    @abstractmethod
    def shapes(self, width: int, blocks: int = 0) -> Shapes:
        """Return the shapes of the parameters by name; `blocks` are those of self-attention, where there are any."""

    def initialize(self, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
        """Return the initial values of a parameter; None for those of the network's own rule."""
        return None

    @abstractmethod
    def embed(
        self, p: Mapping[str, Array], source: Array, ends: Any, scale: float = 1.0
    ) -> tuple[Array, Callable[[Array], Named]]:
        """Map tokens (N,) or (T, B), or rows (N, F) or (T, B, F), to vectors (..., W).

        `ends` selects the last position of each source. `scale` is the factor of embeddings of tokens; rows of numbers
        are normalised. Images have no padding. The pullback is ``pullback(drows) -> gradients by parameter name``.
        """

    def annotate(
        self, p: Mapping[str, Array], source: Array, padding: Padding, drop: Drop
    ) -> tuple[Array, Callable[[Array], Named]]:
        """Annotate a padded source (T, B, F) without recurrent layers: (B, T, W), and the pullback."""
        rows, embed_back = self.embed(p, padding.unpad_ids(source), np.cumsum(padding.lengths) - 1)
        dropped, drop_back = drop(np.ascontiguousarray(padding.pad(rows).swapaxes(0, 1)))

        def pullback(dannotations: Array) -> Named:
            (dpadded,) = drop_back(np.ascontiguousarray(dannotations.swapaxes(0, 1)))
            drows = np.empty_like(rows)
            padding.unpad(dpadded.swapaxes(0, 1), drows)
            return embed_back(drows)

        return np.ascontiguousarray(dropped.swapaxes(0, 1)), pullback

    @abstractmethod
    def export(self, g: Graph, source: str, lengths: str, scale: float = 1.0) -> str:
        """Append the nodes of `embed`, or of `annotate` where there are parameters for it, to an ONNX graph.

        From sources (B, T) of ids or (B, T, F) of rows, and their lengths (B,), to vectors (B, T, W); those of padding
        are read by nobody.
        """

    def augmented(
        self, source: Array, lengths: Ids, *, shift: int, noise: float, rng: np.random.Generator
    ) -> Array:
        """Return a batch of sources (T, B, F) of lengths (B,) with noise and shifts; padding stays 0.

        Each image is shifted by -`shift` to `shift` pixels down and to the right, all equally probable. `noise` is the
        standard deviation of Gaussian noise: of the pixels of an image, clipped to 0 to 1, or of standardised vectors.
        """
        return source

    def check_augmentation(self, *, shift: int, noise: float) -> None:
        """Raise if this input cannot be shifted, or cannot have noise."""
        if shift:
            _check.fail(f"shift must be 0 for a source that is no picture. Got {shift} instead.")

"""Vectors as a source: a linear map with layer normalisation, and self-attention among the vectors of a set.

The last vector of a sequence is marked, as `</s>` marks the end of a sentence; a set has no last vector.

Letters: N vectors of a batch, B examples, T positions, F numbers of a vector, W width of an annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard import _check, mask
from regard.nn import layer_norm, linear
from regard.seq2seq.corpus.batching import Ids
from regard.seq2seq.networks.graph import Graph
from regard.seq2seq.networks.inputs.base import Array, Drop, Input, Named, Shapes
from regard.seq2seq.networks.padding import Padding
from regard.seq2seq.networks.parameters import check_sizes
from regard.seq2seq.networks.transformer.layers import (
    Back,
    MultiHeadAttention,
    attention_block,
    feed_forward_block,
    self_attention,
)
from regard.seq2seq.sources.base import Spec

__all__ = ["ORDERS", "VectorInput"]

ORDERS = ("sequence", "set")
_WIDEST = 1 << 20  # numbers of a vector: an untrusted file may ask for anything
_HEAD = 32  # numbers of a head, about


@dataclass(frozen=True)
class VectorInput(Input):
    """The input of a network that reads vectors instead of tokens.

    `size`: f, the numbers of a vector; `order`: whether the order of the vectors means anything.
    """

    size: int
    order: str = "sequence"

    kind: ClassVar[str] = "vectors"

    def __post_init__(self) -> None:
        check_sizes(self, {"size": 1}, {"size": _WIDEST})
        _check.choice("order", self.order, ORDERS)

    @property
    def spec(self) -> Spec:
        """Rows of `size` numbers."""
        return Spec(width=self.size, ordered=self.order == "sequence")

    def shapes(self, width: int, blocks: int = 0) -> Shapes:
        """Return the shapes of the linear map, its normalisation, and the mark of the end or the blocks of a set."""
        shapes: Shapes = {
            "vector_weight": (self.size, width),
            "vector_bias": (width,),
            "vector_gain": (width,),
            "vector_shift": (width,),
        }
        if self.ordered:
            return shapes | {"vector_end": (width,)}
        return shapes | _block_shapes(width, blocks) if blocks else shapes

    def initialize(self, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
        """Return the initial mark of the end, as large as the normalised vectors of the sequence."""
        end: Array | None = rng.normal(0, 1, shape) if name == "vector_end" else None
        return end

    def embed(
        self, p: Mapping[str, Array], source: Array, ends: Any, scale: float = 1.0
    ) -> tuple[Array, Callable[[Array], Named]]:
        """Map vectors to the width of a network, normalise each, and mark the last one of a sequence."""
        vectors = source.astype(p["vector_weight"].dtype, copy=False)
        mapped, linear_back = linear(vectors, p["vector_weight"], p["vector_bias"])
        rows, norm_back = layer_norm(mapped, p["vector_gain"], p["vector_shift"])
        if self.ordered:  # a decoder knows by it where to stop
            rows = rows.copy()
            rows[ends] += p["vector_end"]

        def pullback(drows: Array) -> Named:
            g: Named = {"vector_end": drows[ends].sum(axis=0)} if self.ordered else {}
            dmapped, g["vector_gain"], g["vector_shift"] = norm_back(drows)
            _, g["vector_weight"], g["vector_bias"] = linear_back(dmapped)
            return g

        return rows, pullback

    def annotate(
        self, p: Mapping[str, Array], source: Array, padding: Padding, drop: Drop
    ) -> tuple[Array, Callable[[Array], Named]]:
        """Annotate the vectors of sets: each attends to all others of its set.

        Lee et al. 2019, "Set Transformer", section 3.1, with the normalisation of Xiong et al. 2020.
        """
        x, embed_back = self.embed(p, padding.unpad_ids(source), None)  # (N, W)
        visible = mask.lengths(padding.lengths[:, None])
        heads = _heads(x.shape[1])
        backs: list[Back] = []
        for block in _blocks(p):
            attend = self_attention(MultiHeadAttention(padding, padding, heads, visible, "softmax"))
            x, self_back = attention_block(p, block + "self_", x, attend, drop)
            x, hidden_back = feed_forward_block(p, block + "hidden_", x, drop)
            backs += [self_back, hidden_back]
        rows, norm_back = layer_norm(x, p["set_gain"], p["set_shift"])

        def pullback(dannotations: Array) -> Named:
            g: Named = {}
            drows = np.empty_like(rows)
            padding.unpad(dannotations, drows)
            dx, g["set_gain"], g["set_shift"] = norm_back(drows)
            for back in reversed(backs):
                dx = back(dx, g)
            return g | embed_back(dx)

        annotations: Array = padding.pad(rows)
        return annotations, pullback

    def export(self, g: Graph, source: str, lengths: str, scale: float = 1.0) -> str:
        """Append the linear map and its normalisation, and the mark of the end or the blocks of a set."""
        rows = g.normalized(g.linear((source, "vector_weight"), bias="vector_bias"), "vector_")
        length = g.size(source, 1)
        if self.ordered:
            numbers = g.add(g.count(length), g.constant(1))
            ends = g.node("Equal", g.unsqueezed(numbers, 0), g.unsqueezed(lengths, 1))
            marks = g.unsqueezed(g.node("Cast", ends, to=1), 2)
            return g.add(rows, g.multiply(marks, g.parameter("vector_end")))
        visible = g.visible(lengths, length)
        for block in _blocks(g.p):
            rows = g.encoder_layer(block, rows, _heads(len(g.p["vector_gain"])), visible)
        return g.normalized(rows, "set_") if "set_gain" in g.p else rows

    def augmented(
        self, source: Array, lengths: Ids, *, shift: int, noise: float, rng: np.random.Generator
    ) -> Array:
        """Return vectors with noise."""
        if not noise:
            return source
        noisy: Array = source + np.float32(noise) * rng.standard_normal(source.shape, np.float32)
        noisy[np.arange(len(noisy))[:, None] >= lengths] = 0
        return noisy


def _block_shapes(width: int, blocks: int) -> Shapes:
    """Return the shapes of the parameters of the self-attention blocks of a set."""
    shapes: Shapes = {}
    for block in range(blocks):
        for part, hidden in (("self", 3 * width), ("hidden", 2 * width)):
            name = f"set_{block}_{part}_"
            shapes |= {name + "gain": (width,), name + "shift": (width,), name + "in": (width, hidden)}
            shapes[name + "out"] = (width if part == "self" else hidden, width)
        shapes |= {name + "in_bias": (hidden,), name + "out_bias": (width,)}
    return shapes | {"set_gain": (width,), "set_shift": (width,)}


def _blocks(p: Mapping[str, Array]) -> list[str]:
    """Return the prefix of the parameter names of each block of a set; none where a transformer reads it."""
    return [
        f"set_{i}_" for i in range(sum(name.startswith("set_") and name.endswith("self_in") for name in p))
    ]


def _heads(width: int) -> int:
    """Return the number of heads: the largest divisor of the width that leaves heads of 32 numbers or more."""
    return next(heads for heads in range(max(width // _HEAD, 1), 0, -1) if width % heads == 0)

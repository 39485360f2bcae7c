"""Vectors as a source: a linear map with layer normalisation, and self-attention among the vectors of a set.

The last vector of a sequence is marked, as `</s>` marks the end of a sentence; a set has no last vector.

Letters: N vectors of a batch, B examples, T positions, F numbers of a vector, W width of an annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard import _check, mask
from regard.nn import layer_norm, linear
from regard.seq2seq.networks.padding import Padding
from regard.seq2seq.networks.parameters import check_sizes
from regard.seq2seq.networks.transformer.layers import (
    Back,
    Drop,
    MultiHeadAttention,
    attention_block,
    feed_forward_block,
    self_attention,
)

__all__ = ["ORDERS", "VectorInput", "annotate_set", "embed_vectors", "mark_ends"]

Array = NDArray[Any]
Named = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]

ORDERS = ("sequence", "set")
_WIDEST = 1 << 20  # numbers of a vector: an untrusted file may ask for anything
_HEAD = 32  # numbers of a head, about


@dataclass(frozen=True)
class VectorInput:
    """The source of a network that reads vectors instead of tokens.

    Parameters
    ----------
    size : int
        F, the numbers of a vector.
    order : {"sequence", "set"}
        Whether the order of the vectors means anything.
    """

    size: int
    order: str = "sequence"

    kind: ClassVar = "vectors"

    def __post_init__(self) -> None:
        check_sizes(self, {"size": 1}, {"size": _WIDEST})
        _check.choice("order", self.order, ORDERS)

    @property
    def ordered(self) -> bool:
        """Whether the vectors are a sequence."""
        return self.order == "sequence"

    def shapes(self, width: int) -> Shapes:
        """Return the shapes of the parameters of the linear map, its normalisation, and the mark of the end."""
        shapes: Shapes = {
            "vector_weight": (self.size, width),
            "vector_bias": (width,),
            "vector_gain": (width,),
            "vector_shift": (width,),
        }
        return shapes | {"vector_end": (width,)} if self.ordered else shapes

    def block_shapes(self, width: int, blocks: int) -> Shapes:
        """Return the shapes of the parameters of the self-attention blocks of a set."""
        shapes: Shapes = {}
        for block in range(blocks):
            for part, hidden in (("self", 3 * width), ("hidden", 2 * width)):
                name = f"set_{block}_{part}_"
                shapes |= {name + "gain": (width,), name + "shift": (width,), name + "in": (width, hidden)}
                shapes[name + "out"] = (width if part == "self" else hidden, width)
            shapes |= {name + "in_bias": (hidden,), name + "out_bias": (width,)}
        return shapes | {"set_gain": (width,), "set_shift": (width,)}


def embed_vectors(p: Mapping[str, Array], vectors: Array) -> tuple[Array, Callable[[Array], Named]]:
    """Map vectors to the width of a network, and normalise each.

    Parameters
    ----------
    p : mapping of str to array
        The parameters.
    vectors : array (..., F)
        The vectors.

    Returns
    -------
    rows : array (..., W)
        What the encoder reads.
    pullback : function
        ``pullback(drows) -> gradients by parameter name``.
    """
    mapped, linear_back = linear(
        vectors.astype(p["vector_weight"].dtype, copy=False), p["vector_weight"], p["vector_bias"]
    )
    rows, norm_back = layer_norm(mapped, p["vector_gain"], p["vector_shift"])

    def pullback(drows: Array) -> Named:
        g: Named = {}
        dmapped, g["vector_gain"], g["vector_shift"] = norm_back(drows)
        _, g["vector_weight"], g["vector_bias"] = linear_back(dmapped)
        return g

    return rows, pullback


def mark_ends(p: Mapping[str, Array], rows: Array, ends: Any) -> tuple[Array, Callable[[Array], Named]]:
    """Add a learned vector to the last row of each sequence, by which a decoder knows where to stop.

    Parameters
    ----------
    p : mapping of str to array
        The parameters.
    rows : array (..., W)
        The rows of `embed_vectors`.
    ends : index of rows
        Selects the last one of each sequence, each once.

    Returns
    -------
    marked : array (..., W)
        A new array.
    pullback : function
        ``pullback(dmarked) -> gradients by parameter name``; the gradient of `rows` is `dmarked` itself.
    """
    marked = rows.copy()
    marked[ends] += p["vector_end"]
    return marked, lambda dmarked: {"vector_end": dmarked[ends].sum(axis=0)}


def annotate_set(
    p: Mapping[str, Array], vectors: Array, padding: Padding, drop: Drop
) -> tuple[Array, Callable[[Array], Named]]:
    """Annotate the vectors of sets: each attends to all others of its set, wherever they stand.

    Parameters
    ----------
    p : mapping of str to array
        The parameters.
    vectors : array (T, B, F)
        The vectors, padded.
    padding : Padding
        The positions of those that are not padding.
    drop : function
        Dropout, after each block.

    Returns
    -------
    annotations : array (B, T, W)
        Zeros as padding. Permuting the vectors of a set permutes its annotations, up to rounding.
    pullback : function
        ``pullback(dannotations) -> gradients by parameter name``.

    References
    ----------
    Lee et al. 2019, "Set Transformer", section 3.1, with the normalisation of Xiong et al. 2020.
    """
    x, embed_back = embed_vectors(p, vectors[padding.position, padding.sentence])  # (N, W)
    visible = mask.lengths(padding.lengths[:, None])
    heads = _heads(x.shape[1])
    backs: list[Back] = []
    for block in range(sum(name.startswith("set_") and name.endswith("self_in") for name in p)):
        attend = self_attention(MultiHeadAttention(padding, padding, heads, visible))
        x, self_back = attention_block(p, f"set_{block}_self_", x, attend, drop)
        x, hidden_back = feed_forward_block(p, f"set_{block}_hidden_", x, drop)
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

    return padding.pad(rows), pullback


def _heads(width: int) -> int:
    """Return the number of heads: the largest divisor of the width that leaves heads of 32 numbers or more."""
    return next(heads for heads in range(max(width // _HEAD, 1), 0, -1) if width % heads == 0)

"""The functions of the graph, which run on the workers: attention of a pair of chunks, merging, gradients, sums."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.sizeof import sizeof
from numpy.typing import NDArray

from regard import _check
from regard._attention import Gradients, Partial, merge, partial, partial_vjp
from regard._chunks import Options
from regard._einsum import einsum
from regard._layout import Layout, Region
from regard.kernels.pairs import sum_to

__all__: list[str] = []

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Shared:
    """The arguments that all tasks of an attention share, stored in the graph once."""

    options: Options
    layout: Layout


@dataclass(frozen=True)
class ChunkPair:
    """A pair of chunks: where it is, and whether the mask object shows all of it."""

    region: Region
    all_visible: bool


def _size_of_partial(part: Partial) -> int:
    """Return the bytes that a worker's memory limit counts."""
    return int(part.context.nbytes + part.lse.nbytes)


sizeof.register(Partial, _size_of_partial)


@contextmanager
def _naming(region: Region) -> Iterator[None]:
    """Name the chunks in an error."""
    try:
        yield
    except Exception as error:
        message = f"attention of {region} failed: {type(error).__name__}: {error}"
        raise RuntimeError(message) from error


def block(array: Any, name: str, index: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Return a block of a Dask array if it has the shape that the array's chunks state."""
    masked = np.ma.getmask(np.ma.asarray(array))
    if masked.any():
        raise RuntimeError(f"block {index} of {name} has {int(masked.sum())} masked numbers")
    if np.shape(array) != shape:
        rule = f"block {index} of {name} must have the shape of its chunk, {shape}."
        raise RuntimeError(f"{rule} Got {np.shape(array)} instead.")
    return np.asarray(array)


def _options(shared: Shared, pair: ChunkPair, mask: Array | None, bias: Array | None) -> dict[str, Any]:
    """Return the options of a pair of chunks; `mask` and `bias` are blocks of Dask arrays, if there are any."""
    options = shared.options.restrict(shared.layout, pair.region, all_visible=pair.all_visible)
    if mask is not None and not pair.all_visible:
        options["mask"] = mask
    if bias is not None:
        options["bias"] = bias
    return options


def partial_of(
    shared: Shared,
    pair: ChunkPair,
    queries: Array,
    keys: Array,
    values: Array,
    mask: Array | None = None,
    bias: Array | None = None,
) -> Partial:
    """Compute the attention of a pair of chunks."""
    with _naming(pair.region):
        return partial(queries, keys, values, **_options(shared, pair, mask, bias))


def gradients_of(
    shared: Shared,
    pair: ChunkPair,
    total: Partial,
    dcontext: Array,
    queries: Array,
    keys: Array,
    values: Array,
    mask: Array | None = None,
    bias: Array | None = None,
) -> Gradients:
    """Compute the gradients of a pair of chunks."""
    with _naming(pair.region):
        arrays = (_wide(queries), _wide(keys), _wide(values))
        return partial_vjp(*arrays, total, _wide(dcontext), **_options(shared, pair, mask, bias))


def _wide(array: Array) -> Array:
    """Return half precision as float32, so that sums of gradients are rounded once."""
    return array.astype(np.float32) if _check.is_half(array.dtype) else array


def merged(parts: list[Partial], sink: Array | None = None) -> Partial:
    """Merge parts of the keys."""
    return merge(*parts, sink=sink)


def nothing(shape: tuple[int, ...], dtype: np.dtype[Any], sink: Array | None = None) -> Partial:
    """Return the attention of queries that see no key."""
    return merge(Partial(np.zeros(shape, dtype), np.full(shape[:-1], -np.inf, dtype)), sink=sink)


def context_of(total: Partial, dtype: np.dtype[Any]) -> Array:
    """Return the context of a merged result."""
    return _check.rounded(total.context, dtype)


def sum_of(parts: list[Any], name: str, key: str | None = None) -> Array:
    """Add one array of several `Gradients`, or arrays that have been added before."""
    first, *others = (_picked(part, name, key) for part in parts)
    with np.errstate(all="ignore"):
        return np.asarray(sum(others, start=first))


def _picked(part: Any, name: str, key: str | None) -> Any:
    if not isinstance(part, Gradients):
        return part
    gradient = getattr(part, name)
    return gradient if key is None else gradient[key]


def finished(
    parts: list[Any], name: str, key: str | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """Return the complete gradient of a block in its dtype: 0 where no pair of chunks has contributed."""
    return _check.rounded(sum_of(parts, name, key), dtype) if parts else np.zeros(shape, dtype)


def sink_gradient(total: Partial, dcontext: Array, sink: Array) -> Array:
    """Return the gradient of a sink: minus its weight times dcontext . context, as its value is 0."""
    with np.errstate(all="ignore"):
        along = einsum("...te,...te->...t", _wide(dcontext), total.context, dtype=np.float64)
        logits = sink.astype(total.lse.dtype)[..., None].astype(np.float64)  # as `merge` rounds them
        weight = np.exp(logits - np.where(np.isneginf(total.lse), 0, total.lse))
        # A row without a visible key contributes nothing, whatever its dcontext.
        down = np.where((weight >= 1) | (weight == 0), 0, -weight * along).sum(-1)
        return np.asarray(sum_to(down, sink.shape))

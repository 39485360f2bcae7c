"""Attention to keys and values that are larger than memory: read in chunks, ahead of the kernel, and merged."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check, _files
from regard._attention import Partial, merge, partial
from regard._chunks import Options, visible_pairs
from regard._layout import Region, extent, slices
from regard._problem import Problem, prepare
from regard._safetensors import InvalidFile, opened, write
from regard._threads import Workers
from regard.kernels import KERNELS
from regard.mask import MaskLike
from regard.position import BiasLike, BiasObject
from regard.scores import Score, ScoreLike

__all__ = ["attention"]

Array = NDArray[Any]
CHUNK_BYTES = 1 << 25  # bytes of keys and values that are read at a time
PAGE_BYTES = 4096  # bytes, the smallest that systems have
CHECKPOINT_SECONDS = 30.0  # seconds between two checkpoints
# Modules whose objects are determined by their attributes.
COMPARED_MODULES = {"regard.mask", "regard.position", "regard.scores"}
FORMAT, VERSION = "regard.outofcore", "2"


@_check.hinted
def attention(
    queries: ArrayLike,
    keys: Any,
    values: Any,
    /,
    *,
    chunk: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: BiasLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: ArrayLike | None = None,
    kernel: str = "auto",
    threads: int | None = None,
) -> Array:
    """Compute attention to keys and values on a disk, of any size.

    A thread reads the next chunk while the kernel works on the present one. In memory are the queries, their context
    and two chunks; of a mapped file no copy is made. Chunks that the mask hides from all queries are not read.

    Parameters
    ----------
    queries : array (..., n, d)
        Queries, in memory.
    keys : array-like (..., m, d)
        Anything with a shape and a dtype from which ``keys[..., i:j, :]`` reads: ``np.memmap``, a dataset of HDF5
        (h5py), an array of zarr.
    values : array-like (..., m, e)
        Their values.
    chunk : int, optional
        Keys that are read at a time; by default 32 MiB of keys and values.
    checkpoint : str or path, optional
        File to which the merged result is written every 30 seconds and when an error or Ctrl-C ends the run. A run with
        the same arguments resumes from it; of keys and values only shape and dtype are compared. It is removed when the
        result is complete. A function or an object of your own, which can't be compared, can't be the score or mask.
    progress : function, optional
        Called as ``progress(keys so far, m)`` after each chunk, and at the end with m.
    score, mask, bias, scale, softcap, sink, kernel, threads
        As for `regard.attention`. Arrays of mask and bias may be ``np.memmap``, too.

    Returns
    -------
    array (..., n, e)
        In the dtype of the inputs, as from `regard.attention`.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments and a checkpoint of another computation, before anything is read.
    OSError
        If a chunk can't be read; the message says which.

    References
    ----------
    Rabe and Staats 2021, "Self-attention Does Not Need O(n^2) Memory".

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, regard
    >>> from regard import outofcore
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keys = np.memmap(f"{folder}/keys", np.float32, "w+", shape=(10_000, 16))
    ...     keys[...] = rng.normal(size=keys.shape)
    ...     context = outofcore.attention(keys[:5], keys, keys, chunk=1_000)
    ...     bool(np.allclose(context, regard.attention(keys[:5], keys, keys), atol=1e-6))
    True
    """
    for name, stored in (("keys", keys), ("values", values)):
        _check_readable(name, stored)
    _check.choice("kernel", kernel, KERNELS)
    if progress is not None and not callable(progress):
        _check.fail(f"progress must be a function. Got {type(progress).__name__} instead.", kind=TypeError)
    if threads is not None:
        _check.integer("threads", threads, least=1)
    of_keys, of_values = _without_numbers(keys), _without_numbers(values)
    p = prepare(queries, of_keys, of_values, score, mask, bias, scale, softcap, "softmax", sink)
    options = Options(p.score, p.mask, _array_or_object(bias), scale, softcap, kernel, threads)
    rows = _chunk_rows(p) if chunk is None else _check.integer("chunk", chunk, least=1)
    chunks = slices(p.layout.m, rows)
    run = _Run(p, options, keys, values, chunks)
    resumable = (
        None if checkpoint is None else _Checkpoint(checkpoint, _identity(p, options.bias, rows), chunks)
    )
    total = run.complete(resumable, progress)
    return _check.rounded(merge(total, sink=sink).context, p.result)


def _check_readable(name: str, stored: Any) -> None:
    try:
        readable = stored.shape, stored.dtype, stored.__getitem__
    except AttributeError:
        readable = None
    except Exception as error:  # of a closed file
        raise OSError(f"{name} can't be read: {type(error).__name__}: {error}") from error
    if readable is None or readable[0] is None:  # a dataset of h5py may have no shape
        hint = "np.memmap, a dataset of h5py, an array of zarr, or an array in memory"
        rule = f"{name} must have a shape, a dtype and slices. Got {type(stored).__name__} instead."
        _check.fail(rule, hint=hint, kind=TypeError)
    if isinstance(stored, np.ndarray):
        _check.as_array(name, stored)  # refuses masked arrays
    try:
        np.dtype(readable[1])
    except TypeError:
        rule = f"{name} must have a dtype of NumPy. Got {readable[1]} of {type(stored).__name__} instead."
        _check.fail(rule, hint=_check.as_numpy(name, stored), kind=TypeError)


def _without_numbers(stored: Any) -> Array:
    """Return an array of the same shape and dtype that takes no memory."""
    return np.broadcast_to(np.zeros((), stored.dtype), stored.shape)


def _array_or_object(bias: Any) -> Any:
    """Return a bias as an array, without reading it, unless it is an object."""
    return bias if isinstance(bias, BiasObject | None) else np.asanyarray(bias)


def _chunk_rows(p: Problem) -> int:
    """Return the default number of keys of a chunk."""
    each = sum(math.prod(array.shape[:-2]) * array.shape[-1] * array.itemsize for array in (p.keys, p.values))
    return max(1, CHUNK_BYTES // max(1, int(each)))


@dataclass
class _Run:
    """One attention, chunk by chunk."""

    p: Problem
    options: Options
    keys: Any
    values: Any
    chunks: list[slice]

    def complete(
        self, checkpoint: _Checkpoint | None, progress: Callable[[int, int], object] | None
    ) -> Partial:
        """Attend to all chunks, or to those that a checkpoint leaves."""
        total = self._nothing()
        if checkpoint is None:
            return self._rest(0, total, lambda done, total: None, progress)
        done, total = checkpoint.resume(total)
        with checkpoint.saving() as save:
            return self._rest(done, total, save, progress)

    def _rest(
        self,
        done: int,
        total: Partial,
        save: Callable[[int, Partial], None],
        progress: Callable[[int, int], object] | None,
    ) -> Partial:
        """Attend to the visible chunks after the first `done` keys, each of which is read ahead."""
        everything = [slice(0, self.p.layout.n)]
        pairs = visible_pairs(self.p.mask, self.p.layout, everything, self.chunks)
        todo = [(self.chunks[j], whole) for (_, j), whole in pairs.items() if self.chunks[j].start >= done]
        reported = 0
        with Workers(1) as reader:
            ahead = [reader.submit(self._load, columns) for columns, _ in todo[:1]]
            for number, (columns, whole) in enumerate(todo):
                loaded = ahead.pop().result()
                ahead = [reader.submit(self._load, after) for after, _ in todo[number + 1 : number + 2]]
                total = merge(total, self._partial(columns, whole, *loaded))
                save(columns.stop, total)
                if progress is not None:
                    progress(reported := columns.stop, self.p.layout.m)
        if progress is not None and reported < self.p.layout.m:  # the mask hides the last keys
            progress(self.p.layout.m, self.p.layout.m)
        return total

    def _nothing(self) -> Partial:
        """Return the attention to no key. float64, so that merging many chunks adds no rounding."""
        shape = (*self.p.layout.batch_shape, self.p.layout.n, self.p.values.shape[-1])
        return Partial(np.zeros(shape), np.full(shape[:-1], -np.inf))

    def _partial(self, columns: slice, whole: bool, keys: Array, values: Array) -> Partial:
        p = self.p
        batch = tuple(slice(0, size) for size in p.layout.batch_shape)
        region = Region(batch, slice(0, p.layout.n), columns)
        options = self.options.restrict(p.layout, region, all_visible=whole)
        return partial(p.queries, keys, values, **options)

    def _load(self, columns: slice) -> tuple[Array, Array]:
        """Read a chunk into memory."""
        return _chunk("keys", self.keys, columns), _chunk("values", self.values, columns)


def _chunk(name: str, stored: Any, columns: slice) -> Array:
    """Read a chunk into memory, and check it."""
    where = f"{name} {columns.start}:{columns.stop} can't be read"
    try:
        part = stored[..., columns, :]
        array = _in_memory(part)
    except Exception as error:
        raise OSError(f"{where}: {type(error).__name__}: {error}") from error
    shape = (*stored.shape[:-2], extent(columns), stored.shape[-1])
    if array.shape != shape:
        raise OSError(f"{where}: they have shape {array.shape} instead of {shape}")
    masked = np.ma.getmask(np.ma.asarray(part))  # rows that were never written have a fill value
    if masked.any():
        raise OSError(f"{where}: {int(masked.sum())} of their numbers are masked")
    return array


def _in_memory(part: Any) -> Array:
    """Read the pages of a file that is mapped to memory; otherwise slicing has read the chunk."""
    if isinstance(part, np.memmap):
        row, number = (max(1, abs(stride)) for stride in part.strides[-2:])
        np.array(
            part[..., :: max(1, PAGE_BYTES // row), :: max(1, PAGE_BYTES // number)]
        )  # a number of each page
    return np.asarray(part)


class _Checkpoint:
    """The file from which an interrupted run resumes."""

    def __init__(self, path: str | os.PathLike[str], identity: dict[str, str], chunks: list[slice]) -> None:
        self.path, self.identity, self.chunks = path, identity, chunks

    def resume(self, start: Partial) -> tuple[int, Partial]:
        """Return how many keys have been attended to, and the result so far."""
        path = _check.replaceable(self.path)
        if not os.access(path.parent, os.W_OK):  # found out now, not after hours
            rule = (
                f"checkpoint must be in a folder that can be written to. Got {os.fspath(self.path)} instead."
            )
            _check.fail(rule)
        if not path.exists():
            return 0, start
        with opened(self.path, "checkpoint of outofcore.attention") as container:
            container.expect_format(FORMAT, VERSION)
            container.expect("U8", {"context": (start.context.nbytes,), "lse": (start.lse.nbytes,)})
            self._check_same(container.metadata)
            done = container.metadata.get("done", "")
            if done not in {str(part.stop) for part in self.chunks}:
                raise InvalidFile(f"its number of keys is {done!r:.20}")
            context, lse = (np.frombuffer(container.bytes(name), np.float64) for name in ("context", "lse"))
        return int(done), Partial(context.reshape(start.context.shape), lse.reshape(start.lse.shape))

    def _check_same(self, metadata: Any) -> None:
        for name, expected in self.identity.items():
            if metadata.get(name) != expected:
                hint = "remove the file to begin anew, or name another one"
                rule = f"{os.fspath(self.path)} must be a checkpoint of the same computation."
                _check.fail(
                    f"{rule} Its {name} was {metadata.get(name)!s:.60}, and is {expected:.60}.", hint=hint
                )

    @contextmanager
    def saving(self) -> Iterator[Callable[[int, Partial], None]]:
        """Yield the function that takes each result so far; save the last one if an error ends the block."""
        latest: list[tuple[int, Partial]] = []
        written = monotonic()

        def save(done: int, total: Partial) -> None:
            nonlocal written
            latest[:] = [(done, total)]
            if monotonic() - written >= CHECKPOINT_SECONDS:
                self._write(done, total)
                written = monotonic()

        with _files.locked(self.path) as alone:
            if alone:
                _files.remove_partial(self.path)
            try:
                yield save
            except BaseException:
                if latest:
                    self._write(*latest[0])
                raise
            Path(self.path).unlink(missing_ok=True)

    def _write(self, done: int, total: Partial) -> None:
        arrays = {
            name: np.frombuffer(array.tobytes(), np.uint8)
            for name, array in (("context", total.context), ("lse", total.lse))
        }
        write(self.path, arrays, {"format": FORMAT, "version": VERSION, "done": str(done), **self.identity})


def _identity(p: Problem, bias: Any, chunk: int) -> dict[str, str]:
    """Return the fingerprint that a resumed run must match."""
    options = {
        "score": p.score,
        "mask": p.mask,
        "bias": bias,
        "sink": None if p.sink is None else p.sink.array,
        "scale": p.scale,
        "softcap": p.softcap,
    }
    return {
        "queries": _digest("queries", p.queries),
        "keys": f"{p.keys.shape} {p.keys.dtype}",
        "values": f"{p.values.shape} {p.values.dtype}",
        "chunk": str(chunk),
        **{name: _digest(name, value) for name, value in options.items()},
    }


def _digest(name: str, value: Any) -> str:
    """Return a hash of an array, a number, or an object of this package that holds them."""
    hashed = hashlib.sha256()
    _update(hashed, name, value)
    return hashed.hexdigest()[:16]


def _update(hashed: Any, name: str, value: Any) -> None:
    if isinstance(value, np.ndarray | np.generic):
        hashed.update(f"{value.dtype.name}{value.dtype.byteorder}{value.shape}".encode())
        for block in np.nditer(value, ["buffered", "external_loop", "zerosize_ok"], order="C"):
            hashed.update(np.asarray(block).tobytes())
    elif value is None or isinstance(value, str | int | float):
        hashed.update(f"{value!r},".encode())
    elif type(value).__module__ in COMPARED_MODULES:
        hashed.update(type(value).__qualname__.encode())
        for attribute, part in (value.parameters() if isinstance(value, Score) else vars(value)).items():
            hashed.update(attribute.encode())
            _update(hashed, name, part)
    else:
        kind = getattr(value, "__name__", type(value).__name__)
        rule = f"{name} must be an object of this package where there is a checkpoint. Got {kind} instead."
        _check.fail(
            rule,
            hint="a function or an object of your own can't be compared with that of the checkpoint",
            kind=TypeError,
        )

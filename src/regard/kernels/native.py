"""The native kernel: the same loop in vectors, in C++ (`source/kernel.cpp`), called through its C interface.

This file puts an attention into the structures of `source/problem.h`. What the library does not do (a step two other
than softmax, a score function, mask or bias object of the user's) it says in `refusal`, and the caller decides.
"""

from __future__ import annotations

import ctypes
import math
import os
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check, scores
from regard._layout import Items, Layout, apart, slices
from regard._problem import Problem
from regard.kernels import pairs as pairing
from regard.kernels.pairs import Distances, Named, Pairs, Perceptron, finite
from regard.mask import Step, window
from regard.position import ArrayBias, DistanceBias, readable

__all__: list[str] = []

Array = NDArray[Any]
Addresses = NDArray[np.int64]

LIBRARY = {"win32": "regard.dll", "darwin": "libregard.dylib"}.get(sys.platform, "libregard.so")
UNIT = math.log(2)  # of the logarithms in a statistic
WORTH = 1 << 23  # multiplications from which a second thread pays
LONG = 1 << 31  # multiplications from which a call may take a tenth of a second
SMALL = 1 << 24  # numbers of queries times numbers of values up to which no call is long
SLOW = 16  # multiplications that a number of a pair takes as long as where scores are no products
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3}
_OTHER = "the library belongs to another version"
LINE = 64  # bytes; where the rooms that it works in begin
KINDS = {"products": 0, "perceptron": 1, "distances": 2}
STEPS = {"band": 0, "keys": 1, "queries": 2, "documents": 3, "dense": 4, "both": 5, "not": 6}
NO_BIAS, ARRAY_BIAS, DISTANCE_BIAS = range(3)
FAR = 1 << 62  # further than any key
DEPTH = 32  # of the stack on which the library answers who sees whom
FILLED = 16  # rows of gradients are filled up to a multiple of this many numbers
PARTS = 4  # into which many queries are cut, so that threads can share one head
MANY = 128  # queries
CHUNK = 1024  # keys that the library sums up by themselves: pieces have whole ones
COPIED = 1 << 20  # bytes of keys and values that are converted at a time

DENSE = struct.Struct("=21q40xdq")  # `struct Dense`, and with what gradients need or are
DENSE_BACK = struct.Struct("=26qdq")
Int, Pointer, Double = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double


class CMatrices(ctypes.Structure):
    """A matrix for each item."""

    _fields_ = [("start", Int), ("step", Int), ("starts", Pointer), ("row", Int)]


class CNode(ctypes.Structure):
    """A step of the program that says who may see whom."""

    _fields_ = [
        ("kind", Int),
        ("low", Int),
        ("high", Int),
        ("left", Pointer),
        ("right", Pointer),
        ("row", Int),
        ("column", Int),
    ]


class CProblem(ctypes.Structure):
    """One attention: `struct Problem`."""

    _fields_ = [
        *((name, Int) for name in ("items", "n", "m", "d", "e", "groups")),
        ("group", Pointer),
        *((name, ctypes.c_int32) for name in ("compute", "queries_type", "keys_type", "values_type")),
        *((name, ctypes.c_int32) for name in ("score", "bias", "bias_type", "together")),
        *((name, CMatrices) for name in ("queries", "keys", "values")),
        ("scale", Double),
        ("softcap", Double),
        ("vector", Pointer),
        ("width", Double),
        ("program", Pointer),
        ("nodes", Int),
        ("bias_address", Pointer),
        ("bias_row", Int),
        ("bias_column", Int),
        ("context", Pointer),
        ("statistic", Pointer),
        ("parts", Int),
        ("serial", Int),
        ("dcontext", CMatrices),
        *((name, Pointer) for name in ("dqueries", "dkeys", "dvalues", "dbias")),
        ("dbias_row", Int),
        ("dbias_column", Int),
        ("dlearned", Pointer),
        ("threads", Int),
        ("stop", Pointer),
        *((name, Int) for name in ("from_key", "to_key")),
        ("taints", Pointer),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """Load the library and choose the instruction set; None where there is none that can be used."""
    # Importing pathlib would take longer than loading.
    path = os.path.join(os.path.dirname(__file__), LIBRARY)
    if not os.path.exists(path):
        return None
    try:
        loaded = _load(path)
    except (OSError, AttributeError) as error:  # AttributeError: a function is missing
        _failure.append(str(error) if isinstance(error, OSError) else _OTHER)
        return None
    known = _names(loaded)
    asked = os.environ.get("REGARD_INSTRUCTION_SET") or known[0]
    if not loaded.regard_choose(asked.encode()):
        _check.one_of("REGARD_INSTRUCTION_SET", asked, known)
    return loaded


_failure: list[str] = []  # why the library that is there can't be used


def _load(path: str) -> ctypes.CDLL:
    """Load a library of this version, and declare its functions."""
    if _is_cut_short(path):
        raise OSError(f"{path}: file too short")
    loaded = ctypes.CDLL(path)
    number, place = [Pointer, ctypes.c_int32], [Pointer]
    loaded.regard_instruction_sets.argtypes = [ctypes.c_char_p, Int]
    loaded.regard_choose.argtypes = [ctypes.c_char_p]
    loaded.regard_run.argtypes = [ctypes.POINTER(CProblem), ctypes.c_int32]
    loaded.regard_dense.argtypes = [ctypes.c_char_p]
    loaded.regard_exp2.argtypes = [Pointer, Pointer, Int, ctypes.c_int32]
    for name in ("norm", "predict", "recur"):
        getattr(loaded, f"regard_{name}").argtypes = number
    for name in _OF_ONE_PLACE:
        getattr(loaded, f"regard_{name}").argtypes = place
    for name in _NUMBERS:
        getattr(loaded, f"regard_{name}").restype = Int
    if (loaded.regard_problem_size(), loaded.regard_dense_size()) != (ctypes.sizeof(CProblem), DENSE.size):
        raise OSError(_OTHER)
    return loaded


# Functions that take the address of one structure, and those that return 64 bits.
_OF_ONE_PLACE = (
    *("drop", "unrectify", "cross_entropy", "adam", "add_rows", "tops", "multiply", "search"),
    *("recurrence_room", "search_room"),
)
_NUMBERS = (
    *("problem_size", "dense_size", "recurrence_size", "training_size", "product_size", "rows_size"),
    *("search_size", "recurrence_room", "search_room", "narrow", "words"),
)


def _is_cut_short(path: str) -> bool:
    """Whether an ELF file ends before its last table: using what is missing would end the process."""
    with open(path, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":  # only 64-bit, little-endian files are checked
            return False
        (start,), (size, count) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 58)
        length = file.seek(0, os.SEEK_END)
    return length < int(start) + int(size) * int(count)


def checked(
    size: str, *structures: type[ctypes.Structure], **numbers: int
) -> Callable[[], ctypes.CDLL | None]:
    """Return what gives the library if its functions say what structures take together, and these numbers."""

    @cache
    def give() -> ctypes.CDLL | None:
        loaded = library()
        if loaded is None:
            return None
        wanted = {size: sum(map(ctypes.sizeof, structures)), **numbers}
        return loaded if all(getattr(loaded, name)() == number for name, number in wanted.items()) else None

    return give


def room(size: int) -> Array:
    """Return bytes that begin where the library's rooms must."""
    whole = np.empty(size + LINE, np.uint8)
    start = -address(whole) % LINE
    return whole[start : start + size]


def address(x: Array, ours: bool = True) -> int:
    """Return where an array's first number lies; in a small step of training, NumPy's own ways to say it take long.

    Of an array that was broadcast it may not even be asked whether it is writeable, and if it is a user's it may look
    contiguous all the same. bfloat16 gives nobody a buffer.
    """
    flags = x.flags
    if (ours or flags.owndata) and x.size and x.itemsize != 2:
        if flags.c_contiguous and flags.writeable:
            lying: Any = x
            return ctypes.addressof(ctypes.c_char.from_buffer(lying))
        if flags.f_contiguous and flags.writeable:
            return address(x.T)
    found: int = x.__array_interface__["data"][0]
    return found


def aligned(x: Array) -> Array:
    """Return an array that lies as the library reads it: in C order, every number at a multiple of its size.

    `np.ascontiguousarray` returns an unaligned array as it is.
    """
    return np.require(x, requirements=["C", "A"])


def plain(x: Array | None) -> bool:
    """Whether an array is float32 and lies as the library reads it; no array is fine."""
    return x is None or bool(x.dtype == np.float32 and x.flags.c_contiguous and x.flags.aligned)


def trains(loaded: ctypes.CDLL | None, *arrays: Array | None) -> ctypes.CDLL | None:
    """Return the library if it trains with the instruction set at hand, and reads all arrays where they lie."""
    return loaded if loaded is not None and loaded.regard_trains() and all(map(plain, arrays)) else None


def _names(loaded: ctypes.CDLL) -> list[str]:
    names = ctypes.create_string_buffer(256)
    loaded.regard_instruction_sets(names, len(names))
    return names.value.decode().split()


def instruction_sets() -> list[str]:
    """Return the names of the instruction sets that this machine has, the best first; none without the library."""
    loaded = library()
    return [] if loaded is None else _names(loaded)


def missing() -> str:
    """Return why there is no native kernel, or nothing."""
    if library() is not None:
        return ""
    if _failure:
        return f"regard's native kernel can't be used ({_failure[0]})"
    return (
        "regard was installed without its native kernel (no C++ compiler was found, or it was switched off)"
    )


@cache
def warn_once() -> None:
    """Say once that everything will be slower than it could be."""
    warnings.warn(f"{missing()}; the NumPy kernel does its work, slower", RuntimeWarning, stacklevel=5)


def refusal(p: Problem) -> str:
    """Return why the native kernel does not do this attention, or nothing."""
    if not scores.is_builtin(p.score):
        return "a score function of the user's"
    if p.normalize != "softmax":
        return f"normalize={p.normalize!r}"
    if p.steps is None:
        return "a mask class of the user's"
    if _depth(p.steps) > DEPTH:
        return f"masks nested more than {DEPTH} deep"
    if not isinstance(p.bias, ArrayBias | DistanceBias | None):
        return "a bias class of the user's"
    if isinstance(p.bias, ArrayBias) and not _check.is_float(p.bias.items.array.dtype):
        return "a bias of whole numbers for all pairs"  # a copy of them as floats would be as large as all logits
    if not _bears(p):
        return "a scale or softcap so near the largest number"
    return ""


def _bears(p: Problem) -> bool:
    """Whether the dtype holds what the library multiplies by: logits count in base 2 there."""
    base, most = math.log2(math.e), float(np.finfo(p.compute).max)
    factors = [p.scale * base] if p.softcap is None else [p.scale / p.softcap, p.softcap * base]
    return all(abs(factor) <= most for factor in factors)


def _depth(steps: list[Step]) -> int:
    """Return how many answers wait at most for others."""
    waiting = deepest = 0
    for step in steps:
        waiting += {"both": -1, "not": 0}.get(step.kind, 1)
        deepest = max(deepest, waiting)
    return deepest


def thread_count(p: Problem, threads: int | None) -> int:
    """Return how many threads to use: as asked, or as many as there are processors where that pays."""
    if threads is not None:
        return threads
    work = p.layout.items * p.layout.n * p.layout.m * (p.queries.shape[-1] + p.values.shape[-1])
    return 1 if work < WORTH else _processors()


def _work(items: int, n: int, m: int, size: int, backward: bool) -> int:
    """Return about how many multiplications a call takes as long as; few queries wait for memory instead."""
    return items * max(n, 4) * m * (size + 32) * (4 if backward else 1)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _readable(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array whose rows the library can read: aligned, of this dtype, columns side by side."""
    return x if _fits(x, dtype) else np.array(x, dtype, order="C")


def _fits(x: Array, dtype: np.dtype[Any]) -> bool:
    """Return whether the library can read an array where it is."""
    row, column = x.strides[-2:]
    return bool(
        x.dtype == dtype
        and x.flags.aligned
        and (x.shape[-1] < 2 or column == x.itemsize)
        and (x.shape[-2] < 2 or row % 4 == 0)  # pairs of half precision are read as one
        and row % x.itemsize == 0
    )


def addresses(x: Items) -> Addresses:
    """Return where the matrix of each item starts."""
    start: int = x.array.__array_interface__["data"][0]
    places = np.full((), start, np.int64)
    for size, stride in zip(x.lead, x.array.strides, strict=False):
        places = places[..., None] + np.arange(size, dtype=np.int64) * stride
    return np.ascontiguousarray(places.reshape(-1)[x.source])


def interruptible(call: Callable[[int], int], work: float) -> int:
    """Call the library: ``call(stop)`` is given the address of what asks it to return early, or 0.

    `work` are multiplications. A call that may take a tenth of a second ends on Ctrl-C; a shorter one is not worth
    another thread.
    """
    if work < LONG:
        return call(0)
    from regard import _threads  # `import regard` need not load what threads take

    return _threads.interruptible(call)


@dataclass
class Call:
    """A problem in the library's form, and what keeps its memory alive."""

    p: Problem
    pairs: Pairs
    values: Items
    c: CProblem
    alive: list[Any]

    def pointer(self, array: Array) -> int:
        """Return the address of an array, and keep it."""
        self.alive.append(array)
        return address(array, False)

    def matrices(self, x: Items) -> CMatrices:
        """Return the matrices of all items."""
        start, row = self.pointer(x.array), x.array.strides[-2]
        if x.stored == 1:
            return CMatrices(start, 0, None, row)
        if x.own and x.step is not None:
            return CMatrices(start, x.step, None, row)
        return CMatrices(start, 0, self.pointer(addresses(x)), row)

    def run(self, backward: bool, threads: int | None) -> None:
        """Run the kernel."""
        _run(self.c, self.p, backward, threads)


def _run(c: CProblem, p: Problem, backward: bool, threads: int | None) -> None:
    """Run the kernel on a problem, or on a piece of it."""
    loaded = library()
    assert loaded is not None
    c.threads = thread_count(p, threads)

    def call(stop: int) -> int:
        c.stop = stop
        failed: int = loaded.regard_run(ctypes.byref(c), int(backward))
        return failed

    # Each number of a pair goes through tanh or a square, unless scores are products.
    each = SLOW if c.score != KINDS["products"] else 1
    if interruptible(call, _work(c.items, c.n, c.to_key - c.from_key, each * (c.d + c.e), backward)):
        raise MemoryError


def _read_type(x: Array, p: Problem, plain: bool) -> np.dtype[Any]:
    """Return the dtype in which the library reads an array: half precision as it is stored where it is `plain`."""
    half = plain and _check.is_half(x.dtype) and p.compute == np.float32
    return x.dtype.newbyteorder("=") if half else p.compute


def _plain(p: Problem) -> bool:
    return type(p.score) in (scores.dot, scores.scaled_dot)


def call(p: Problem) -> Call:
    """Put a problem into the library's form."""
    made = _without_keys(p, _readable(p.keys, _read_type(p.keys, p, _plain(p))))
    c, pairs = made.c, made.pairs
    made.values = Items(
        p.layout.per_key_head(_readable(p.values, _read_type(p.values, p, True))), p.layout.inner
    )
    c.keys_type, c.values_type = _type(pairs.right.dtype), _type(made.values.array.dtype)
    c.keys, c.values = made.matrices(pairs.right_items), made.matrices(made.values)
    groups = _groups(pairs.right_items, made.values)
    c.groups, c.group = len(groups) - 1, made.pointer(groups)
    return made


def _without_keys(p: Problem, keys: Array) -> Call:
    """Put all but the keys and values of a problem into the library's form."""
    queries = _readable(p.queries, _read_type(p.queries, p, _plain(p)))
    with np.errstate(all="ignore"):
        pairs = pairing.make(p, queries, keys)
    c = CProblem()
    made = Call(p, pairs, Items(p.layout.per_key_head(p.values), p.layout.inner), c, [])
    c.items, c.n, c.m = p.layout.items, p.layout.n, p.layout.m
    c.d, c.e = pairs.left.shape[-1], p.values.shape[-1]
    c.compute, c.queries_type = _type(p.compute), _type(pairs.left.dtype)
    c.queries = made.matrices(pairs.left_items)
    c.scale, c.softcap, c.to_key = p.scale, p.softcap or 0, p.layout.m
    _score(made)
    _mask(made)
    _bias(made)
    return made


class Pieces:
    """A problem whose keys or values have to be converted first: pieces of it, so that never all of them are copied.

    A piece has some items and some keys. The bits are those of a single call.
    """

    def __init__(self, p: Problem) -> None:
        self.p, self.made = p, _without_keys(p, p.keys)
        of_keys, of_values = _read_type(p.keys, p, _plain(p)), _read_type(p.values, p, True)
        pairs = self.made.pairs
        self.keys_fit = pairs.transform is None and _fits(p.keys, of_keys)
        self.values_fit = _fits(p.values, of_values)
        self.of_keys, self.of_values = of_keys, of_values
        c = self.made.c
        numbers = (0 if self.keys_fit else max(c.d, p.keys.shape[-1])) + (0 if self.values_fit else c.e)
        self.row = max(numbers, 1) * p.compute.itemsize  # bytes of a key that are copied

    @property
    def needed(self) -> bool:
        """Return whether more would be copied at once than a thread may."""
        small = self.row * self.p.layout.m * self.made.pairs.key_items.stored <= COPIED
        return not (small or (self.keys_fit and self.values_fit))

    def __iter__(self) -> Iterator[CProblem]:
        """Put each piece into the library's form; it has to run before the next one comes."""
        m, items = self.p.layout.m, self.p.layout.items
        together = max(COPIED // (self.row * min(m, CHUNK)), 1)  # items
        step = max(COPIED // (self.row * min(together, items)) // CHUNK, 1) * CHUNK  # keys
        for some in slices(items, together):
            for columns in slices(m, step):
                yield self._piece(some, columns)

    def _piece(self, items: slice, columns: slice) -> CProblem:
        made = self.made
        c = _of_items(made, items)
        pairs = made.pairs
        keys, starts = self._rows(pairs.key_items, items, columns, None if self.keys_fit else self._keys)
        values, of_values = self._rows(made.values, items, columns, None if self.values_fit else self._values)
        c.keys_type, c.values_type = _type(keys.dtype), _type(values.dtype)
        c.keys = CMatrices(0, 0, _address(starts), keys.strides[-2])
        c.values = CMatrices(0, 0, _address(of_values), values.strides[-2])
        ends = np.flatnonzero((np.diff(starts) != 0) | (np.diff(of_values) != 0)) + 1
        groups = np.concatenate([[0], ends, [len(starts)]]).astype(np.int64)
        c.groups, c.group = len(groups) - 1, _address(groups)
        c.from_key, c.to_key = columns.start, columns.stop
        self.alive = [keys, starts, values, of_values, groups]
        return c

    def _keys(self, keys: Array, columns: slice) -> Array:
        with np.errstate(all="ignore"):
            return self.made.pairs.of_keys(np.array(keys, self.of_keys, order="C"), columns)

    def _values(self, values: Array, columns: slice) -> Array:
        return np.array(values, self.of_values, order="C")

    @staticmethod
    def _rows(
        x: Items, items: slice, columns: slice, convert: Callable[[Array, slice], Array] | None
    ) -> tuple[Array, Addresses]:
        """Return these rows of what the items read, and where row 0 of each item's matrix would start."""
        if convert is None:
            return x.array, addresses(x)[items]
        stored, source = np.unique(x.source[items], return_inverse=True)
        found = convert(x.stored_rows(stored, columns), columns)
        found = np.ascontiguousarray(found).reshape(-1, *found.shape[-2:])
        step = 0 if len(found) == 1 else found.strides[0]
        start = _address(found) - columns.start * found.strides[-2]
        return found, start + source.astype(np.int64) * step


def _address(x: Array) -> int:
    return address(x, False)


def _of_items(made: Call, items: slice) -> CProblem:
    """Return a problem that has some of the items only."""
    c, p, first = CProblem.from_buffer_copy(made.c), made.p, items.start
    c.items = items.stop - first
    if not first:
        return c
    places, size = first * ctypes.sizeof(Int), p.compute.itemsize
    starts = c.queries.starts and c.queries.starts + places
    c.queries = CMatrices(c.queries.start + first * c.queries.step, c.queries.step, starts, c.queries.row)
    if c.nodes:
        program = (CNode * c.nodes).from_buffer_copy((CNode * c.nodes).from_address(c.program))
        for node in program:
            node.left, node.right = (node.left and node.left + places), (node.right and node.right + places)
        made.alive.append(program)
        c.program = ctypes.addressof(program)
    if c.bias:
        c.bias_address += places
    c.context += first * p.layout.n * c.e * size
    c.statistic += first * 2 * p.layout.n * size
    c.taints += first * p.layout.n * c.e
    return c


def _groups(keys: Items, values: Items) -> Addresses:
    """Return where the runs of items begin that read the same keys and values, and the number of items."""
    if keys.own or values.own:
        return np.arange(math.prod(keys.inner) + 1, dtype=np.int64)
    same = (np.diff(keys.source) == 0) & (np.diff(values.source) == 0)
    starts = np.flatnonzero(~same) + 1
    return np.concatenate([[0], starts, [len(keys.source)]]).astype(np.int64)


def _score(made: Call) -> None:
    pairs, c = made.pairs, made.c
    if isinstance(pairs, Perceptron):
        c.score, c.vector = KINDS["perceptron"], made.pointer(aligned(pairs.learned["vector"]))
    elif isinstance(pairs, Distances):
        c.score, c.width = KINDS["distances"], float(pairs.learned["width"])
    else:
        c.score = KINDS["products"]


def _mask(made: Call) -> None:
    c, steps = made.c, made.p.steps
    if not steps:
        return
    program = (CNode * len(steps))()
    for node, step in zip(program, steps, strict=True):
        node.kind = STEPS[step.kind]
        node.low, node.high = _ends(step)
        if step.counts is not None:
            node.left = made.pointer(step.counts)
        elif step.left is not None:
            node.left = made.pointer(addresses(step.left))
            made.alive.append(step.left)
            node.row, node.column = step.left.array.strides[-2:]
        if step.right is not None:
            node.right = made.pointer(addresses(step.right))
            made.alive.append(step.right)
    made.alive.append(program)
    c.program, c.nodes = ctypes.addressof(program), len(steps)


def _bias(made: Call) -> None:
    bias, p, c = made.p.bias, made.p, made.c
    if isinstance(bias, DistanceBias):
        with np.errstate(all="ignore"):  # as where the definition adds it
            table = bias.by_distance(p.layout.n, p.layout.m).astype(p.compute)
        starts = made.pointer(table) + bias.heads.astype(np.int64) * table.strides[0]
        c.bias, c.bias_type, c.bias_address = DISTANCE_BIAS, c.compute, made.pointer(starts)
    elif isinstance(bias, ArrayBias):
        items = bias.items
        if (array := readable(items.array, p.compute)) is not items.array:
            items = Items(array, p.layout.inner)
        made.alive.append(items)
        c.bias, c.bias_type = ARRAY_BIAS, TYPES[array.dtype.name]
        c.bias_address = made.pointer(addresses(items))
        c.bias_row, c.bias_column = array.strides[-2:]


def forward(p: Problem, threads: int | None = None) -> tuple[Array, Array]:
    """Compute context (items, n, e) and two numbers for each row (items, 2, n): the logit that its logits are counted
    from and the logarithm of their sum, both in base 2.
    """
    shape = (p.layout.items, p.layout.n, p.values.shape[-1])
    statistic = np.full((p.layout.items, 2, p.layout.n), -np.inf, p.compute)
    if not statistic.size or not p.layout.m:
        return np.zeros(shape, p.compute), statistic
    context = np.empty(shape, p.compute)
    pieces = Pieces(p)
    made = pieces.made if pieces.needed else call(p)
    made.c.context, made.c.statistic = made.pointer(context), made.pointer(statistic)
    if not pieces.needed:
        made.run(False, threads)
        return context, statistic
    made.c.taints = made.pointer(np.zeros(shape, np.uint8))
    for c in pieces:
        _run(c, p, False, threads)
    return context, statistic


# An attention by the scaled dot product, in the order of `struct Dense`: until the type, from the threads to the band,
# and the scale; and what the items' dimensions were.
Dense = tuple[tuple[int, ...], tuple[int, int, int, int], float, tuple[int, ...]]


def _dense(
    queries: Any, keys: Any, values: Any, band: window | None, scale: float | None, threads: int | None
) -> Dense | None:
    """Return an attention by the scaled dot product, in a band if there is one, or None where more is asked for.

    The short way for what is asked for most: it says no rather than what is wrong. A small attention, or one step of
    decoding, costs less than the checks and structures of the long way.
    """
    if not (_simple(queries) and _simple(keys) and _simple(values)):
        return None
    if not queries.dtype == keys.dtype == values.dtype or library() is None:
        return None
    lead, (n, d), (m, e) = queries.shape[:-2], queries.shape[-2:], values.shape[-2:]
    if keys.shape[-2:] != (m, d) or keys.shape[:-2] != values.shape[:-2]:
        return None
    group = 1 if keys.shape[:-2] == lead else _group(lead, keys.shape[:-2])
    q, k, v = _matrices(queries), _matrices(keys), _matrices(values)
    if not group or q is None or k is None or v is None:
        return None
    seen = (0, 0, 0) if band is None else _seen(band, Layout(lead, None, n, m))
    if seen is None:
        return None
    items = queries.size // (n * d)
    if threads is None:
        threads = 1 if items * n * m * (d + e) < WORTH else _processors()
    kind = -1 if queries.dtype.char == "l" else _type(queries.dtype)  # no type that the library reads
    inputs = (*q, *k, *v, items, n, m, d, e, group, kind)
    return inputs, (threads, *seen), 1 / d**0.5 if scale is None else scale, lead


def dense(
    queries: Any, keys: Any, values: Any, band: window | None, scale: float | None, threads: int | None
) -> Array | None:
    """Attend the short way, or return None."""
    found = _dense(queries, keys, values, band, scale, threads)
    if found is None:
        return None
    if queries.dtype.char == "l":
        if keys.nbytes + values.nbytes > COPIED:
            return None
        return dense(queries.astype(float), keys.astype(float), values.astype(float), band, scale, threads)
    inputs, options, scale, lead = found
    half, loaded = queries.itemsize == 2, library()
    context = np.empty((*lead, queries.shape[-2], values.shape[-1]), np.float32 if half else queries.dtype)
    given = *inputs, address(context), *options, scale
    if loaded is None:
        return None
    if queries.size * values.size < SMALL:  # never long: spare it the rest
        failed: int = loaded.regard_dense(DENSE.pack(*given, 0))
    else:
        items, n, m, d, e = inputs[9:14]
        failed = interruptible(
            lambda stop: int(loaded.regard_dense(DENSE.pack(*given, stop))), _work(items, n, m, d + e, False)
        )
    if failed:
        return None
    return _check.rounded(context, queries.dtype) if half else context


def dense_vjp(
    queries: Any, keys: Any, values: Any, band: window | None, scale: float | None, threads: int | None
) -> tuple[Array, Callable[[Any], tuple[Array, Array, Array] | None]] | None:
    """Attend the short way; returns the context, and what makes the gradients of queries, keys and values of its
    gradient. Both say no where that takes more.
    """
    found = _dense(queries, keys, values, band, scale, threads)
    if found is None or queries.dtype.char not in "fd" or queries.shape[-2] >= MANY:
        return None
    (n, d), (m, e), dtype = queries.shape[-2:], values.shape[-2:], queries.dtype
    inputs, options, scale, lead = found
    context = np.empty((*lead, n, e), dtype)
    statistic = np.empty((queries.size // (n * d), 2, n), dtype)

    def run(*gradients: int) -> int:
        loaded = library()
        assert loaded is not None
        places = *inputs, address(context), *options, address(statistic), *gradients, scale
        return interruptible(
            lambda stop: int(loaded.regard_dense(DENSE_BACK.pack(*places, stop))),
            _work(queries.size // (n * d), n, m, d + e, gradients[0] != 0),
        )

    if run(0, 0, 0, 0):
        return None
    given, alive = context.copy(), (queries, keys, values)  # the user's own, and what must stay where it is
    of_keys = keys.shape[:-1]  # now: the user may give arrays another shape
    shapes = queries.shape, (*of_keys, _filled(d)), (*of_keys, _filled(e))

    def gradients(dcontext: Any) -> tuple[Array, Array, Array] | None:
        if not (alive and _simple(dcontext) and dcontext.dtype == dtype and dcontext.shape == context.shape):
            return None
        dcontext = aligned(dcontext)
        dqueries, dkeys, dvalues = (np.zeros(shape, dtype) for shape in shapes)
        if run(address(dcontext, False), address(dqueries), address(dkeys), address(dvalues)):
            return None
        return dqueries, _cropped(dkeys, d), _cropped(dvalues, e)

    return given, gradients


def _seen(band: window, layout: Layout) -> tuple[int, int, int] | None:
    """Return 1 and the least and the largest j - i that are seen; None where a band is not all that the mask says."""
    try:
        band.bind(layout)
        steps = band.steps(layout)
    except ValueError:  # is told the long way, beside all shapes
        return None
    if steps is None or [step.kind for step in steps] != ["band"]:
        return None
    return 1, *_ends(steps[0])


def _ends(step: Step) -> tuple[int, int]:
    """Return the least and the largest j - i, for the library."""
    return (
        -FAR if step.low is None else max(step.low, -FAR),
        FAR if step.high is None else min(step.high, FAR),
    )


def _simple(x: Any) -> bool:
    """Whether this is an array of numbers that the library reads, and not none of them."""
    return (
        type(x) is np.ndarray
        and 2 <= x.ndim <= _check.DIMENSIONS
        and x.size > 0
        and (x.dtype.char in "fdl" or _check.is_half(x.dtype))
        and x.dtype.isnative
        and x.flags.aligned
    )


def _matrices(x: Array) -> tuple[int, int, int] | None:
    """Return where the matrices of all items lie, how far apart they are, and their rows; None where the library reads
    no such order.
    """
    size, columns = x.itemsize, x.shape[-1]
    if x.flags.c_contiguous and (size > 2 or columns % 2 == 0):
        row = columns * size
        return address(x, False), x.shape[-2] * row, row
    row, column = x.strides[-2:]
    if column != size or row % max(size, 4):  # pairs of half precision are read as one
        return None
    between = apart(x.shape[:-2], x.strides)
    return None if between is None else (x.ctypes.data, between, row)


def _group(lead: tuple[int, ...], of_keys: tuple[int, ...]) -> int:
    """Return how many query heads read one key head; 0 where they do not fit so simply."""
    if len(lead) != len(of_keys) or not lead or lead[:-1] != of_keys[:-1] or lead[-1] % of_keys[-1]:
        return 0
    return lead[-1] // of_keys[-1]


@cache
def _type(dtype: np.dtype[Any]) -> int:
    return TYPES[dtype.name]


def lse(statistic: Array) -> Array:
    """Return the log-sum-exp of each row (items, n)."""
    summed: Array = statistic.sum(1, dtype=np.float64) * UNIT
    return summed.astype(statistic.dtype)


def backward(
    p: Problem, context: Array, statistic: Array, dcontext: Array, threads: int | None = None
) -> tuple[Array, Array, Array, Named, Array | None]:
    """Compute all gradients but that of the bias, which gets its own."""
    # What is not finite has made weights NaN where it is seen, and must not reach anything else.
    queries, keys = (finite(x.astype(p.compute, copy=False)) for x in (p.queries, p.keys))
    with np.errstate(all="ignore"):
        pairs = pairing.make(p, queries, keys)
    if p.layout.items and p.layout.n and p.layout.m:
        dleft, dright, dvalues, learned = _run_backward(call(p), context, statistic, dcontext, threads)
    else:
        dleft, dright, dvalues = (np.zeros(x.shape, p.compute) for x in (pairs.left, pairs.right, p.values))
        learned = {name: np.zeros_like(x) for name, x in pairs.learned.items()}
    with np.errstate(all="ignore"):
        dqueries, dkeys, named = pairs.finish(dleft, dright, learned)
    return dqueries, dkeys, dvalues.reshape(p.values.shape), named, None


def _run_backward(
    made: Call, context: Array, statistic: Array, dcontext: Array, threads: int | None
) -> tuple[Array, Array, Array, Named]:
    p, c, pairs = made.p, made.c, made.pairs
    c.context, c.statistic = made.pointer(context), made.pointer(statistic)
    c.dcontext = made.matrices(Items(aligned(dcontext), (p.layout.items,)))
    c.parts = PARTS if p.layout.n >= MANY else 1  # of n alone: the sums' order must not depend on the batch
    collect_bias = _bias_gradient(made)
    c.together = int(not c.serial and c.groups >= PARTS)
    cut = (c.groups, 1 if c.together else c.parts)
    dleft = np.zeros((p.layout.items, p.layout.n, c.d), p.compute)
    dright, dvalues = (np.zeros((*cut, p.layout.m, _filled(size)), p.compute) for size in (c.d, c.e))
    dlearned = np.zeros((c.groups, c.parts, _filled(c.d) if "vector" in pairs.learned else 1), p.compute)
    c.dqueries, c.dkeys, c.dvalues, c.dlearned = (made.pointer(x) for x in (dleft, dright, dvalues, dlearned))
    made.run(True, threads)
    collect_bias()
    starts, every = _starts(c), np.arange(p.layout.items)
    with np.errstate(all="ignore"):
        found = {name: dlearned.sum((0, 1))[: x.size].reshape(x.shape) for name, x in pairs.learned.items()}
        return (
            _gathered(dleft, pairs.left_items, every).reshape(pairs.left.shape),
            _gathered(_whole(dright, c.d), pairs.right_items, starts).reshape(pairs.right.shape),
            _gathered(_whole(dvalues, c.e), made.values, starts),
            found,
        )


def _filled(count: int) -> int:
    """Return the length of a row of gradients in the library's form."""
    return -(-count // FILLED) * FILLED


def _cropped(x: Array, columns: int) -> Array:
    """Return rows without what they were filled up with."""
    return x if x.shape[-1] == columns else x[..., :columns].copy()


def _whole(parts: Array, columns: int) -> Array:
    """Return the sum of all parts, without what rows were filled up with."""
    whole = parts[:, 0] if parts.shape[1] == 1 else parts.sum(1)
    return whole[..., :columns]


def _gathered(found: Array, x: Items, items: Addresses) -> Array:
    """Return the gradient of the stored arrays (stored, a, b) from what these items found."""
    if x.own and len(items) == x.stored:
        return found
    source = x.source[items]
    if len(source) == x.stored and (source == np.arange(x.stored)).all():
        return found
    total = np.zeros((x.stored, *found.shape[1:]), found.dtype)
    x.add(total, items, found)
    return total


def _bias_gradient(made: Call) -> Callable[[], None]:
    """Say where the gradient of the bias goes; returns what is to be done after the run."""
    p, c, bias = made.p, made.c, made.p.bias
    items, n, m = p.layout.items, p.layout.n, p.layout.m
    if isinstance(bias, DistanceBias):
        table = np.zeros((items, c.parts, n + m - 1), p.compute)
        _address_bias(made, table)
        return lambda: bias.add_gradient_by_distance(n, m, table.sum(1))
    if not isinstance(bias, ArrayBias):
        return lambda: None
    total = bias.total_gradient()
    c.dbias_column = 0 if bias.once[1] else total.itemsize
    if bias.once[0]:  # all queries add to one row: a row for each part, added up afterwards
        rows = np.zeros((items, c.parts, total.shape[-1]), p.compute)
        _address_bias(made, rows)
        return lambda: bias.items.add(total[:, 0], slice(None), rows.sum(1))
    source = bias.items.source
    groups = np.searchsorted(_starts(c), np.arange(items), "right")
    if len(np.unique(source)) < len(np.unique(np.stack([source, groups]), axis=1).T):
        c.serial = 1  # threads share by queries, whose rows are their own
    starts = made.pointer(total) + np.repeat(source, c.parts) * total.strides[0]
    c.dbias, c.dbias_row = made.pointer(starts.astype(np.int64)), total.strides[1]
    return lambda: None


def _starts(c: CProblem) -> Addresses:
    """Return where each group begins."""
    return np.frombuffer((Int * c.groups).from_address(c.group), np.int64)


def _address_bias(made: Call, rows: Array) -> None:
    """Give every item and part a row of its own."""
    count = rows.shape[0] * rows.shape[1]
    starts = made.pointer(rows) + np.arange(count, dtype=np.int64) * rows.strides[1]
    made.c.dbias = made.pointer(starts)

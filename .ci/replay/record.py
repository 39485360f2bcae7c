"""A plugin of pytest that writes down calls of the library for replay.c: of each kind one, with all memory that it
uses, before and after the call.

    RECORD=FOLDER PYTHONPATH=.ci/replay python -m pytest -p record tests/kernels

Calls are of one kind if they have the same instruction set and function, and zeros in the same fields. A call with an
address of unknown memory, or with too much of it, is left out.
"""

import atexit
import ctypes
import os
import weakref
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from regard.kernels import fast_path, library

LARGEST = 1 << 16  # bytes of all memory of a call
WORD = np.dtype("<i8")
Range = tuple[int, int]  # the first address and the one after the last

loaded = library.load()
assert loaded, library.missing()
isa = library.instruction_sets()[0].encode()
FUNCTIONS = library.interface().functions
arrays: dict[int, weakref.ref[Any]] = {}
kinds: set[object] = set()
file = open(os.path.join(os.environ["RECORD"], str(os.getpid())), "wb", 0)  # noqa: SIM115
atexit.register(file.close)


def address(x: Any, ours: bool = True, original: Any = library.address) -> int:
    """Remember the array, or the one of which it is a view."""
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    arrays[id(owner)] = weakref.ref(owner)
    return original(x, ours)


def choose(function: Any, name: bytes) -> int:
    global isa
    if chosen := function(name):
        isa = name
    return chosen


def structure(argument: Any) -> list[Range]:
    """Return the memory of an argument: a packed structure, or one by reference, with its program."""
    if isinstance(argument, int):
        return []
    if isinstance(argument, bytes):
        start = ctypes.cast(argument, ctypes.c_void_p).value or 0
        return [(start, start + len(argument))]
    c = argument._obj
    start = ctypes.addressof(c)
    program = getattr(c, "program", None)
    nodes = (
        [(program, program + c.nodes * ctypes.sizeof(library.interface().structures["Node"]))]
        if program
        else []
    )
    return [(start, start + ctypes.sizeof(c)), *nodes]


def live() -> set[Range]:
    """Return the memory of all remembered arrays that still exist."""
    found = {key: array for key, reference in arrays.items() if (array := reference()) is not None}
    for key in arrays.keys() - found.keys():
        del arrays[key]
    return {np.lib.array_utils.byte_bounds(array) for array in found.values() if array.size}


def content(start: int, end: int) -> bytes:
    return ctypes.string_at(start, end - start)


def within(block: bytes, start: int, end: int) -> np.ndarray:
    """Return the places of a block's words that are between two addresses."""
    words = np.frombuffer(block, WORD, len(block) // 8)
    return np.flatnonzero((words >= start) & (words < end))


def reached(arguments: bytes, ranges: list[Range]) -> tuple[list[Range], list[list[int]]]:
    """Return the ranges to which addresses lead from the arguments, and those addresses: block, word, block, offset."""
    blocks, used, pointers = [arguments], [(0, 0)], []
    for number, block in enumerate(blocks):  # which grow
        for start, end in ranges:
            for place in within(block, start, end):
                if (start, end) not in used:
                    used.append((start, end))
                    blocks.append(content(start, end))
                offset = int.from_bytes(block[8 * place : 8 * place + 8], "little") - start
                pointers.append([number, place, used.index((start, end)), offset])
    low, high = min(start for start, _ in ranges), max(end for _, end in ranges)
    unknown = sum(len(within(block, low, high)) for block in blocks) - len(pointers)
    return ([] if unknown or sum(map(len, blocks)) > LARGEST else used[1:]), pointers


def call(function: Any, *arguments: Any) -> int:
    """Call a function of the library, and write down the first call of a kind."""
    memory = [structure(argument) for argument in arguments]
    structures = b"".join(content(*ranges[0]) for ranges in memory if ranges)
    kind = isa, function.__name__, (np.frombuffer(structures, WORD) != 0).tobytes()
    if kind in kinds:
        return function(*arguments)
    words = [ranges[0][0] if ranges else argument for argument, ranges in zip(arguments, memory, strict=True)]
    passed = np.array([*words, 0, 0, 0][:4], WORD).tobytes()
    used, pointers = reached(passed, list({*chain(*memory), *live()}))
    before = [content(*range_) for range_ in used]
    result = function(*arguments)
    if used:
        kinds.add(kind)
        after = [content(*range_) for range_ in used]
        file.write(function.__name__.encode().ljust(32, b"\0") + isa.ljust(32, b"\0"))
        file.write(np.array([result, 1 + len(used), len(pointers)], WORD).tobytes())
        write(0, passed, passed)
        for (start, _), old, new in zip(used, before, after, strict=True):
            write(start, old, new)
        file.write(np.array(pointers, WORD).tobytes())
    return result


def write(start: int, before: bytes, after: bytes) -> None:
    fill = bytes(-len(before) % 8)
    file.write(np.array([start, len(before)], WORD).tobytes() + before + fill + after + fill)


library.address = fast_path.address = address
loaded.regard_choose = partial(choose, loaded.regard_choose)
for name in FUNCTIONS:
    setattr(loaded, f"regard_{name}", partial(call, getattr(loaded, f"regard_{name}")))

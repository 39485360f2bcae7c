"""Kernels: the same function as the definition, by blocks. A kernel never borrows from the definition."""

from __future__ import annotations

from types import ModuleType

from regard import _check
from regard._problem import Problem
from regard.kernels import blocked, library, native

__all__: list[str] = []

KERNELS = ("auto", "native", "blocked")


def choose(kernel: str, p: Problem) -> ModuleType:
    """Return the kernel that does this attention: `blocked` or `native`. One asked for by name is never replaced."""
    _check.choice("kernel", kernel, KERNELS)
    if kernel == "blocked":
        return blocked
    reason = library.missing()
    if reason and kernel == "auto":
        library.warn_once()
    reason = reason or native.refusal(p)
    if not reason:
        return native
    if kernel == "native":
        _check.fail(
            f'kernel="native" can\'t do this: {reason}.', hint='kernel="auto" takes the NumPy kernel then'
        )
    return blocked

"""Kernels compute the function of `attend` by blocks; they import nothing from the module of `attend`.

They are called with NumPy's warnings off, since NaN and inf propagate.
"""

from __future__ import annotations

from types import ModuleType

from regard import _check
from regard._problem import Problem
from regard.kernels import blocked, library, native

__all__: list[str] = []

KERNELS = ("auto", "native", "blocked")


def choose(kernel: str, p: Problem) -> ModuleType:
    """Return the kernel for this attention: `blocked` or `native`; one that is given by name is not replaced."""
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

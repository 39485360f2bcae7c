"""The reprs of masks, scores, biases and normalisations: the call that makes them."""

from __future__ import annotations

from _thread import get_ident  # `threading` would load more
from collections.abc import Iterator

import numpy as np

__all__: list[str] = []

_SHOWN_NUMBERS = 16  # elements of an array that are printed
_PRINTING: set[tuple[int, int]] = set()  # objects and the threads that print them


def constructor_text(thing: object, **other: object) -> str:
    """Return an object's repr as a constructor call without defaults; `other` replaces attributes.

    A class of a user's may not store what its constructor takes, or may store the object in itself: ``Name(...)``.
    """
    name, key = type(thing).__name__, (id(thing), get_ident())
    if key in _PRINTING:
        return f"{name}(...)"
    _PRINTING.add(key)
    try:
        return f"{name}({', '.join(_argument_texts(thing, other))})"
    except Exception:
        return f"{name}(...)"
    finally:
        _PRINTING.discard(key)


def _argument_texts(thing: object, other: dict[str, object]) -> Iterator[str]:
    """Yield the arguments that are not defaults; raise if one is not stored."""
    from inspect import signature

    for name, parameter in signature(type(thing)).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise AttributeError(name)
        value = other[name] if name in other else _stored(thing, name)
        if parameter.default is parameter.empty:
            yield value_text(value)
        elif not (value is parameter.default or np.all(value == parameter.default)):
            yield f"{name}={value_text(value)}"


def _stored(thing: object, name: str) -> object:
    """Return an attribute of an object's own, not a method or a constant of its class."""
    from inspect import getattr_static, isdatadescriptor

    if name not in getattr(thing, "__dict__", ()) and not isdatadescriptor(getattr_static(type(thing), name)):
        raise AttributeError(name)
    return getattr(thing, name)


def value_text(value: object) -> str:
    """Return the repr of a number, a string or a small array, and dtype and shape of a large array."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return repr(value.tolist()) if value.size <= _SHOWN_NUMBERS else f"<{value.dtype} {value.shape}>"

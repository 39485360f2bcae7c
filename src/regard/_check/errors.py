"""The form of errors: the rule with the numbers that violate it, the shapes of all arrays in letters, and a hint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from numpy.typing import NDArray

__all__ = ["LETTERS", "choice", "exclude", "fail", "keys", "located", "mapping", "naming_shapes", "one_of"]

Array = NDArray[Any]
Name = TypeVar("Name", bound=str)
LETTERS = {"queries": "(..., n, d)", "keys": "(..., m, d)", "values": "(..., m, e)"}


def fail(
    rule: str, shapes: dict[str, Array] | None = None, hint: str = "", kind: type[Exception] = ValueError
) -> NoReturn:
    """Raise an error in the format of this package."""
    lines = [rule, *_shape_lines(shapes or {})]
    if hint:
        lines.append(f"  hint: {hint}")
    raise kind("\n".join(lines)) from None


def _shape_lines(shapes: dict[str, Array]) -> list[str]:
    return [f"  {name:<7} {array.shape!s:<16} is {LETTERS[name]}" for name, array in shapes.items()]


@dataclass
class naming_shapes:
    """Add the shapes of queries, keys and values to an error about an option of incompatible shape."""

    shapes: dict[str, Array]

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, ValueError | TypeError):
            rule, *rest = str(error).split("\n")
            raise type(error)("\n".join([rule, *_shape_lines(self.shapes), *rest])) from None


@contextmanager
def located(where: str) -> Iterator[None]:
    """Let the text of an error, or the file name of one of the system, begin with `where`."""
    try:
        yield
    except (ValueError, TypeError) as error:  # a subclass, such as UnicodeError, may need other arguments
        fail(f"{where}{error}", kind=TypeError if isinstance(error, TypeError) else ValueError)
    except OSError as error:
        if where and error.filename is not None:
            error.filename = f"{where}{error.filename}"
        raise


def one_of(name: str, value: object, choices: Iterable[str], hint: str = "") -> NoReturn:
    """Raise for an unknown name, with the most similar known one as the hint."""
    known = list(choices)
    near = nearest(str(value), known)
    hint = f"did you mean {near!r}?" if near else hint
    fail(f"{name} must be one of {', '.join(map(repr, known))}. Got {value!r:.60} instead.", hint=hint)


def exclude(first: str, second: str) -> NoReturn:
    """Raise for two options or arguments of which one can be given."""
    fail(f"{first} and {second} exclude each other.", hint="give one")


def nearest(name: str, known: list[str]) -> str:
    """Return the known name that is most similar to another one, or an empty string."""
    import difflib

    return next(iter(difflib.get_close_matches(name[:60], known, n=1)), "")


def choice(name: str, value: object, choices: Iterable[Name]) -> Name:
    """Return a name if it is one of the known ones."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        one_of(name, value, known)
    return value


def mapping(name: str, value: object) -> Mapping[str, Any]:
    """Return a mapping."""
    if not isinstance(value, Mapping):
        fail(f"{name} must be a mapping. Got {value!r:.60} instead.", kind=TypeError)
    return value


def keys(name: str, actual: Mapping[str, Any], names: Iterable[str]) -> None:
    """Check that a mapping has these keys and no other."""
    if actual.keys() != set(wanted := list(names)):
        got = ", ".join(map(str, actual)) or "none"
        fail(f"{name} must be {', '.join(wanted)}. Got {got:.60} instead.")

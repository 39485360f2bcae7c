"""Properties that are computed once, without a lock."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar, overload

__all__: list[str] = []

Result = TypeVar("Result")


class computed_once(cached_property[Result]):
    """A property that is computed at its first use.

    Until Python 3.12 `cached_property` has one lock for all objects: a process that is forked while another thread
    holds it would wait for ever (law 12).
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> computed_once[Result]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Result: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        result = instance.__dict__[self.attrname] = self.func(instance)
        return result

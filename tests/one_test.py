"""Tables whose rows are too small to be tests of their own: one test has them all as subtests."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def in_one_test(
    names: str | tuple[str, ...], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Take what `pytest.mark.parametrize` takes, but run all rows in one test, whose fixtures are set up once."""
    names = (names,) if isinstance(names, str) else names
    table = [dict(zip(names, row if len(names) > 1 else (row,), strict=True)) for row in rows]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        taken = {name: p for name, p in inspect.signature(test).parameters.items() if name not in names}
        inner = {"subtests"} & taken.keys()  # another table, or the test itself

        @functools.wraps(test)
        def run(*args: Any, subtests: pytest.Subtests, **fixtures: Any) -> None:
            for row in table:
                with subtests.test(**row):
                    test(*args, **fixtures, **row, **dict.fromkeys(inner, subtests))

        own = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
        signature = inspect.Signature([*({**taken, "subtests": own}).values()])
        run.__signature__ = signature  # type: ignore[attr-defined]
        return run

    return decorate

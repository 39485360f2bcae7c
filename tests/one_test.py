"""Tables whose rows are too small to be tests of their own: one test tries them all and names the one that fails."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def in_one_test(
    names: str | tuple[str, ...], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Take what `pytest.mark.parametrize` takes, but run all rows in one test.

    A test costs more than most rows do: it is collected by every worker, set up, reported and sent. The error of a row
    that fails gets a note with the row's arguments. Fixtures are set up once for all rows.
    """
    names = (names,) if isinstance(names, str) else names
    table = [dict(zip(names, row if len(names) > 1 else (row,), strict=True)) for row in rows]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            for number, row in enumerate(table):
                try:
                    test(*args, **fixtures, **row)
                except BaseException as error:
                    error.add_note(f"in row {number}: {row}")
                    raise

        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate

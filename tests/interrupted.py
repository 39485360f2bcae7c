"""Ctrl-C at every place of a call, one after the other, without a signal or a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import regard

_SOURCE = str(Path(regard.__file__).parent)


def interrupted_everywhere(
    call: Callable[[], object], every: int = 1, first: int = 1, within: tuple[str, ...] = (_SOURCE,)
) -> Iterator[int]:
    """Raise KeyboardInterrupt before a statement of this package; yield its number, until the call ends before it.

    The numbers are `first`, `first` + `every`, and so on. `within`: files or folders whose statements count.
    """
    number = first
    while _interrupted(call, number, within):
        yield number
        number += every


def _interrupted(call: Callable[[], object], at: int, within: tuple[str, ...]) -> bool:
    """Call a function until it is about to run its statement `at`; return whether it has come so far."""
    left = at

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(within):
            return None
        if event == "line":
            left -= 1
            if not left:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False

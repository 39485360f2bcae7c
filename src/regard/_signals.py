"""Signals that end the process: each leaves by an exception, so that whatever is open is closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__: list[str] = []

Handler = Callable[[int, FrameType | None], object]

# SIGHUP comes when a terminal is closed; Windows has none.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(KeyboardInterrupt):
    """A signal other than Ctrl-C's has asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def end(number: int, frame: FrameType | None) -> None:
    """Leave by `KeyboardInterrupt` for Ctrl-C, by `Ended` for any other signal."""
    if number == signal.SIGINT:
        signal.default_int_handler(number, frame)
    raise Ended(number)


def status_of(error: KeyboardInterrupt) -> int:
    """Return the exit status of a process that a signal has ended: 128 and the signal's number, as shells do."""
    return 128 + (error.number if isinstance(error, Ended) else signal.SIGINT)


@contextmanager
def handled(handler: Handler = end, *others: int) -> Iterator[None]:
    """Handle the ending signals, and others, while the ``with`` block lasts.

    Only the main thread may set handlers. A signal that somebody else handles or ignores (``nohup``) stays as it is.
    """
    numbers = (*ENDING, *others) if threading.current_thread() is threading.main_thread() else ()
    plain = (signal.SIG_DFL, signal.default_int_handler, end)
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: found for number, found in before.items() if found in plain}
    try:
        for number in before:
            signal.signal(number, handler)
        yield
    finally:
        for number, found in before.items():
            signal.signal(number, found)

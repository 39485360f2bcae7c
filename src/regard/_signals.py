"""Signals that end the process: each raises an exception, so that open files are closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__: list[str] = []

Handler = Callable[[int, FrameType | None], object]

# SIGHUP is sent when a terminal is closed; Windows does not have it.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


_REPETITIONS = 100  # of a clean-up, at most


class Ended(KeyboardInterrupt):
    """Raised by a signal other than that of Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def end(number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt` for Ctrl-C, `Ended` for any other signal."""
    if number == signal.SIGINT:
        signal.default_int_handler(number, frame)
    raise Ended(number)


def status_of(error: KeyboardInterrupt) -> int:
    """Return the exit status of a process that a signal has ended: 128 plus its number, as in shells."""
    return 128 + (error.number if isinstance(error, Ended) else signal.SIGINT)


@contextmanager
def handled(handler: Handler = end, *others: int) -> Iterator[None]:
    """Handle the ending signals, and others, in the ``with`` block.

    Only the main thread may set handlers. A signal with another handler, or ignored (``nohup``), is left alone.
    """
    numbers = (*ENDING, *others) if threading.current_thread() is threading.main_thread() else ()
    replaceable = (signal.SIG_DFL, signal.default_int_handler, end)
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: previous for number, previous in before.items() if previous in replaceable}

    def restore() -> None:
        for number, previous in before.items():
            signal.signal(number, previous)

    try:
        for number in before:
            signal.signal(number, handler)
        yield
    finally:
        complete(restore)


def complete(cleanup: Callable[[], object]) -> None:
    """Call a function that may be repeated until no signal handler ends it early; then raise their first exception.

    An error of its own is raised after some repetitions.
    """
    first: BaseException | None = None
    for _ in range(_REPETITIONS):
        try:
            cleanup()
            break
        except BaseException as error:
            first = error if first is None else first
    if first is not None:
        raise first

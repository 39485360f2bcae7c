"""Files that are there whole or not at all, and places that one process has for itself.

What is written goes to a partial file in the same folder, which replaces the older one when it is whole; links are
followed, and what is no file is never replaced. A process that is killed may leave its partial file behind.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from regard import _check

__all__: list[str] = []

_TRIES = 100  # to open a lock that somebody else is just removing


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to be written anew; at the end of the ``with`` block it takes the place of the older one."""
    target = _check.replaceable(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except OSError as error:
        if error.errno is None:  # of who writes, not of the system: it has said what is wrong
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        # Where nothing can be written, nothing can be removed, and that has been said.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def remove_partial(path: str | os.PathLike[str]) -> None:
    """Remove what killed processes have left of a file; nobody may be writing it."""
    target = _check.replaceable(path)
    for left in target.parent.glob(".*.partial"):
        name, _, number = left.name.removesuffix(".partial").rpartition(".")
        if name == f".{target.name}" and number.isdecimal():
            left.unlink(missing_ok=True)


@contextmanager
def alone(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Have a file's place for this process while the ``with`` block lasts; yield whether no other one has it.

    The system ends it with the process, however that ends. Where it can't say who has what, everybody has it.
    """
    target = _check.replaceable(path)
    place = target.with_name(f".{target.name}.lock")
    try:
        lock = _open_locked(place)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    if lock is None:
        yield False
        return
    try:
        yield True
    finally:
        if sys.platform == "win32":  # where no open file can be removed
            os.close(lock)
            with suppress(OSError):
                place.unlink()
        else:  # first removed, then given back: whoever opens it now makes a new one
            place.unlink(missing_ok=True)
            os.close(lock)


def _open_locked(place: Path) -> int | None:
    """Return a lock's open file, or None if another process has it."""
    for _ in range(_TRIES):
        lock = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
        if not _locks(lock):
            os.close(lock)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(place)):
                return lock
        os.close(lock)  # of a process that has removed it meanwhile
    return os.open(place, os.O_RDWR | os.O_CREAT, 0o666)  # a file system that can't say what is the same


if sys.platform == "win32":

    def _locks(file: int) -> bool:
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:

    def _locks(file: int) -> bool:
        try:
            import fcntl
        except ImportError:  # in a browser
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True

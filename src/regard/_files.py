"""Reading untrusted files, writing files atomically, and locking a path for one process.

What is read must be a regular file. What is written goes to a partial file in the same folder, which replaces the
older file once it is complete: links are followed, and only a regular file is replaced. Files that belong together
are replaced once all of them are complete. A partial file has a random name and must not exist before, so that an
attacker cannot prepare a link there. A killed process may leave its partial file behind.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from regard import _check

__all__: list[str] = []

_TRIES = 100  # to open a lock that another process is removing, or to find an unused random name
_RANDOM_BYTES = 6  # bytes in the name of a partial file
_PARTIAL = re.compile(
    rf"([0-9a-f]{{{2 * _RANDOM_BYTES}}}|[0-9]+)\.partial"
)  # or a process number, as earlier versions wrote
_RATIO = 200  # bytes that one byte of an archive of arrays may unpack to
_FREE = (
    1 << 24
)  # bytes that any archive may unpack to: few values that repeat, as in np.eye, are packed tightly
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def real(path: str | os.PathLike[str]) -> Path:
    """Return a path without symbolic links; a loop of links stays: opening it is an error."""
    return Path(os.path.realpath(path))


@contextmanager
def reading(path: str | os.PathLike[str], *, pipes: bool = False) -> Iterator[BinaryIO]:
    """Open a regular file for reading; with `pipes`, also a pipe that this process has inherited (/dev/fd/63)."""
    _check.no_null(path)
    with open(path, "rb", opener=_without_waiting) as file:
        mode = os.fstat(file.fileno()).st_mode
        inherited = pipes and stat.S_ISFIFO(mode) and _is_descriptor(path)
        if not stat.S_ISREG(mode) and not inherited:
            hint = "only standard input may be a pipe: -" if pipes else ""
            _check.fail(f"{os.fspath(path)} is not a regular file", hint=hint)
        if sys.platform != "win32" and inherited:  # Windows has no such paths, nor set_blocking before 3.12
            os.set_blocking(file.fileno(), True)
        with _named(path, keep=True):  # errors of reading have no file name
            yield file


def check_unpacked(
    name: str | os.PathLike[str],
    unpacked: int,
    packed: int,
    *,
    free: int = _FREE,
    hint: str = "np.savez packs less tightly than np.savez_compressed",
) -> None:
    """Raise for a file of `packed` bytes that unpacks to far more, and to more than `free` bytes."""
    if unpacked > free + _RATIO * packed:
        rule = f"{os.fspath(name)} unpacks to too much: {unpacked} bytes from {packed}"
        _check.fail(f"{rule}, more than {_RATIO} times as many", hint=hint)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting, even a pipe that has no writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _is_descriptor(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the name of an open file, as a shell gives it for <(command)."""
    return re.fullmatch(r"/dev/stdin|/(dev|proc/self)/fd/[0-9]+", os.fspath(path)) is not None


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a partial file for writing; at the end of the ``with`` block it replaces the older file."""
    with _named(path), _Draft(path) as draft:
        yield draft.file
        draft.complete()
        draft.replace()


def replace_together(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together: none is replaced before all partial files are complete."""
    with ExitStack() as stack:
        drafts = []
        for path, data in contents.items():
            with _named(path):
                drafts.append(stack.enter_context(_Draft(path)))
                drafts[-1].file.write(data)
                drafts[-1].complete()
        for path, draft in zip(contents, drafts, strict=True):
            with _named(path):
                draft.replace()


@contextmanager
def scratch() -> Iterator[Path]:
    """Create a folder for drafts, removed at the end; errors of the system name it, or a file in it."""
    folder = Path(tempfile.mkdtemp())
    try:
        with _named(folder, keep=True):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _named(path: str | os.PathLike[str], *, keep: bool = False) -> Iterator[None]:
    """Raise errors of the system with this path; with `keep`, only those that have no path of their own."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (keep and error.filename is not None):  # None: it has its own message
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


class _Draft:
    """A partial file, which replaces the older file once it is complete, and otherwise is removed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.target = _check.replaceable(path)
        self.partial, descriptor = _new_partial(self.target)
        self.file = os.fdopen(descriptor, "wb")

    def __enter__(self) -> Self:
        return self

    def complete(self) -> None:
        """Write everything to the disk, with the permissions of the older file."""
        self.file.flush()
        _keep_mode(self.target, self.partial, self.file.fileno())
        os.fsync(self.file.fileno())
        self.file.close()

    def replace(self) -> None:
        """Replace the older file."""
        os.replace(self.partial, self.target)

    def __exit__(self, *_: object) -> None:
        # Removal may fail for the same reason as writing; the first error is raised.
        with suppress(OSError):
            self.file.close()
        with suppress(OSError):
            self.partial.unlink(missing_ok=True)


def _new_partial(target: Path) -> tuple[Path, int]:
    """Create a partial file under a random name, and return it with its descriptor."""
    for _ in range(_TRIES):
        partial = target.with_name(f".{target.name}.{os.urandom(_RANDOM_BYTES).hex()}.partial")
        with suppress(FileExistsError):
            return partial, os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))


def _keep_mode(target: Path, partial: Path, descriptor: int) -> None:
    """Give a partial file the permissions of the file that it replaces, if there is one."""
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(target.stat().st_mode) & 0o777
        os.chmod(descriptor if os.chmod in os.supports_fd else partial, mode)


def remove_partial(path: str | os.PathLike[str]) -> None:
    """Remove the partial files of a path that killed processes have left; no process may be writing to it."""
    target = _check.replaceable(path)
    start = f".{target.name}."
    with suppress(FileNotFoundError):
        for name in os.listdir(target.parent):
            if name.startswith(start) and _PARTIAL.fullmatch(name, len(start)):
                target.with_name(name).unlink(missing_ok=True)


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Lock a path for this process during the ``with`` block; yield False if another process has locked it.

    The system releases the lock when the process ends, however that happens. File systems without locks grant it to
    every process.
    """
    target = _check.replaceable(path)
    lock_path = target.with_name(f".{target.name}.lock")
    try:
        lock = _open_locked(lock_path)
    except OSError as error:
        name = lock_path if error.errno == errno.ELOOP else path  # the lock itself is a link
        raise OSError(error.errno, error.strerror, os.fspath(name)) from None
    if lock is None:
        yield False
        return
    try:
        yield True
    finally:
        if sys.platform == "win32":  # an open file cannot be removed
            os.close(lock)
            with suppress(OSError):
                lock_path.unlink()
        else:  # removed before it is released, so that another process creates a new one
            lock_path.unlink(missing_ok=True)
            os.close(lock)


def _open_locked(lock_path: Path) -> int | None:
    """Return a lock's open file, or None if another process has it."""
    for _ in range(_TRIES):
        lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
        if not _try_lock(lock):
            os.close(lock)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(lock_path)):
                return lock
        os.close(lock)  # another process has removed it meanwhile
    # A file system that cannot compare open files.
    return os.open(lock_path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)


if sys.platform == "win32":

    def _try_lock(file: int) -> bool:
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:

    def _try_lock(file: int) -> bool:
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

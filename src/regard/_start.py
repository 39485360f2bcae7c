"""Ctrl-C while the command `regard` starts: it ends the process, instead of printing the traceback of an import.

Python imports the package before the command line can catch anything, and NumPy with it. So the package imports this
module first. Only the command itself is affected: `regard` and ``python -m regard``.
"""

# Importing signal itself takes time, in which Ctrl-C would print a traceback.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

__all__: list[str] = []

_SCRIPTS = {"regard", "regard.exe", "regard-script.py"}  # the last two are for Windows


def _is_command() -> bool:
    """Return whether this process is the command; of a module, ``sys.argv`` has the name only once it is found."""
    if sys.argv[:1] == ["-m"]:
        return sys.orig_argv[-len(sys.argv)] in ("regard", "-mregard")
    return os.path.basename(sys.argv[0] if sys.argv else "") in _SCRIPTS


starting = _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
if starting:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again, which a verb expects."""
    if starting:
        signal.signal(signal.SIGINT, signal.default_int_handler)

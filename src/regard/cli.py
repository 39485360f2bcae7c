"""The command `regard`: one verb a capability.

A verb is a module (or, named "module:object", an object in one) with two functions, `add_arguments(parser)` and
`run(args) -> int`. It is imported when it is called for, so that `regard --help` costs nothing.
"""

import argparse
import errno
import functools
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Any, NoReturn, TextIO

from regard import _signals, _suggest
from regard._characters import report
from regard._threads import one_blas_thread

__all__ = ["main"]

VERBS = {
    "explain": ("regard.show.explain", "tell the three steps of attention in numbers and words"),
    "train": ("regard.seq2seq.commands.train", "learn to translate from sentence pairs"),
    "translate": (
        "regard.seq2seq.commands.translate",
        "translate sentences, and show where the model looked",
    ),
    "align": ("regard.seq2seq.commands.align", "say which word of a given translation belongs to which"),
    "evaluate": ("regard.seq2seq.commands.evaluate", "measure models on pairs they have not seen"),
    "curve": ("regard.seq2seq.commands.curve", "draw learning curves from the log of a training"),
}


_NO_ROOM = (errno.ENOSPC, errno.EFBIG, *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else []))


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all errors of this command are."""

    def error(self, message: str) -> NoReturn:
        verb = self.prog.partition(" ")[2]
        self.exit(2, f"{_line(verb or None, 'error', _suggest.choice(message))}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write the help or an error; a failure to do so is not hidden, as argparse's own method does."""
        if message:
            (file or sys.stderr).write(message)

    def check_options(self, arguments: Sequence[str]) -> None:
        """Refuse unknown options before argparse takes their values for files."""
        known = self._option_string_actions
        wrong = _suggest.unknown(arguments, known)
        if wrong and not {"-h", "--help"} & set(arguments):
            hint = next(filter(None, (_suggest.option(given, known) for given in wrong)), "")
            hint = hint or "options come after the verb" * (self.prog == "regard" and len(arguments) > 1)
            self.error(f"unrecognized arguments: {' '.join(wrong)}" + f"; {hint}" * bool(hint))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb of the command line.

    Parameters
    ----------
    argv
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        0; 1 if a training's loss is not finite any more; 2 if the input is wrong or the output can't be written (one
        line on standard error says why) or arguments are missing (the help is shown there); 128 and its number if a
        signal ends it: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP; 141 if the reader of the output has gone.

    Examples
    --------
    >>> main(["explain", "--words", "1 0; 0 1", "--seed", "1"])  # doctest: +ELLIPSIS
    2 words, and weights drawn with seed 1
    ...
    0
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if sys.stdout is None or sys.stderr is None:  # closed from the start: nobody listens
        with (
            open(os.devnull, "w") as nobody,
            redirect_stdout(sys.stdout or nobody),
            redirect_stderr(sys.stderr or nobody),
        ):
            return main(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A file or a program gets UTF-8, as what is read must be, whatever the system prefers. A terminal that
            # can't show a sign shows "?" instead of stopping the work.
            as_it_is = stream.isatty() or "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if as_it_is else "utf-8", errors="replace")
    verb = next((word for word in arguments if not word.startswith("-")), None)
    status = _guarded(verb, functools.partial(_run, arguments, verb))
    return _guarded(verb, _flush) or status


def _run(arguments: list[str], verb: str | None) -> int:
    """Run the verb."""
    module, args = _parse(arguments, verb)
    with one_blas_thread(), _signals.handled(), warnings.catch_warnings():
        warnings.showwarning = functools.partial(_warn, verb, set())
        return int(module.run(args))


def _guarded(verb: str | None, action: Callable[[], int]) -> int:
    """Return an action's exit status, or that of how it failed, which is reported in one line."""
    try:
        return action()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt as error:
        return _signals.status_of(error)
    except BrokenPipeError:
        _drop(sys.stdout)
        return 141
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if isinstance(error, OSError) and error.filename is None and _is_of_output(error):
            error.filename = "standard output"
            _drop(sys.stdout)
        try:
            print(_line(verb, "error", _first_line(error)), file=sys.stderr)
        except OSError:
            _drop(sys.stderr)  # the status alone reports it then
        return 2


def _flush() -> int:
    """Write what is still in the buffers: whatever fails at the end of the process is not reported any more."""
    if not _works(sys.stderr):
        _drop(sys.stderr)
    sys.stdout.flush()
    return 0


def _is_of_output(error: OSError) -> bool:
    """Whether writing to standard output has failed: whatever else is written names its file in an error.

    Without a buffer (``python -u``) nothing is left that would fail again.
    """
    return error.errno in _NO_ROOM or not _works(sys.stdout)


def _works(stream: TextIO) -> bool:
    """Whether a stream's buffer can be written."""
    try:
        stream.flush()
    except OSError:
        return False
    return True


def _drop(stream: TextIO) -> None:
    """Throw away what is in a stream's buffer, which would fail once more when the process ends."""
    with suppress(OSError):  # a stream in memory has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _parse(arguments: list[str], verb: str | None) -> tuple[Any, argparse.Namespace]:
    """Parse the arguments with the one verb's module that is needed."""
    parser = _Parser(
        prog="regard",
        description="Attention for NumPy: see it, train with it, translate with it.",
        allow_abbrev=False,
    )
    # The package is there already: no import, and no word of the floor above.
    version = pkgutil.resolve_name("regard:__version__")
    parser.add_argument("--version", action="version", version=f"regard {version}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    module = chosen = None
    for name, (place, summary) in VERBS.items():
        sentence = f"{summary[0].upper()}{summary[1:]}."
        own = verbs.add_parser(name, help=summary, description=sentence, allow_abbrev=False)
        if name == verb:
            module, chosen = pkgutil.resolve_name(place), own
            module.add_arguments(own)
    if not arguments:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    if arguments[0].startswith("-"):
        parser.check_options(arguments if verb is None else arguments[: arguments.index(verb) + 1])
    if chosen is not None and verb is not None:
        chosen.check_options(arguments[arguments.index(verb) + 1 :])
    if chosen is None or arguments[0] != verb or "--" in arguments:  # behind it names may begin with a dash
        return module, parser.parse_args(arguments)
    return module, chosen.parse_intermixed_args(arguments[1:])


def _warn(verb: str | None, said: set[str], message: Warning | str, *_: object) -> None:
    """Print a warning as an error is printed, without the place in the program, and once."""
    line = _line(verb, "warning", _first_line(message))
    if line not in said:
        print(line, file=sys.stderr)
    said.add(line)


def _line(verb: str | None, kind: str, message: str) -> str:
    """Return an error or a warning as it is printed: a name, a file or an argument in it can't drive the terminal."""
    return report(f"{'regard' if verb is None else f'regard {verb}'}: {kind}: {message}")


def _first_line(message: object) -> str:
    if isinstance(message, OSError) and message.strerror and message.filename is not None:
        return f"{message.filename}: {message.strerror}"
    return (str(message).splitlines() or [type(message).__name__])[0]

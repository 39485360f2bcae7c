"""The command `regard`: one verb for each capability.

A verb is a module (or, named "module:object", an object in one) with two functions, `add_arguments(parser)` and
`run(args) -> int`; a third, `add_chosen(parser, arguments)`, adds the options that depend on what is given. It is
imported only when it is used, so that `regard --help` is fast. Other distributions add verbs by entry points of the
group "regard.verbs".
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

from regard import _signals, _start, _suggest
from regard._characters import one_line, report
from regard._lines import assumed
from regard._threads import one_blas_thread
from regard._version import __version__

__all__ = ["main"]

VERBS = {
    "explain": ("regard.commands.explain", "explain the three steps of attention with numbers"),
    "show": (
        "regard.commands.show",
        "show attention as a page of a browser, whose numbers can be changed",
    ),
    "train": (
        "regard.commands.train.run",
        "train a model to translate, or to describe images or vectors",
    ),
    "translate": (
        "regard.commands.translate",
        "translate sentences, and show the attention weights",
    ),
    "caption": ("regard.commands.caption", "describe images, and show where the model attended"),
    "align": ("regard.commands.align", "link the words of sentences and their translations"),
    "export": ("regard.commands.export", "write a model as ONNX files, for programs without regard"),
    "evaluate": ("regard.commands.evaluate.run", "measure models on test pairs"),
    "curve": ("regard.commands.curve", "draw the learning curves of a training log"),
}


# Marks an argument that is a value although it begins with a minus. No argument of a process has this character.
_VALUE = "\0"
_NO_SPACE = (errno.ENOSPC, errno.EFBIG, *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else []))


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, as the rest of the command line does."""

    def error(self, message: str) -> NoReturn:
        verb, message = self.prog.partition(" ")[2], message.replace(_VALUE, "")
        self.exit(2, f"{_line(verb or None, 'error', _suggest.choice(message))}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write the help or an error; raise if that fails, which argparse hides."""
        if message:
            (file or sys.stderr).write(message)

    def marked(self, arguments: Sequence[str]) -> list[str]:
        """Return the arguments with values that begin with a minus marked, until ``--``.

        argparse takes most of them for options, which of them depends on the version of Python.
        """
        known, missing, marked = self._option_string_actions, 0, list(arguments)
        for place, argument in enumerate(arguments):
            name, equals, _ = argument.partition("=")
            if argument == "--":
                break
            if name in known:
                missing = 0 if equals else _least(known[name].nargs)
                continue
            required = missing > 0 and not argument.startswith("--")
            if argument.startswith("-") and (required or not _suggest.is_option(argument)):
                marked[place] = _VALUE + argument
            missing -= 1
        return marked

    def read_marked(self) -> None:
        """Let each type of argument added so far remove the mark of a value before it reads it."""
        for read in {action.type for action in self._actions}:
            self.register("type", read, functools.partial(_unmarked, read or str))

    def check_options(self, arguments: Sequence[str]) -> None:
        """Reject unknown options before argparse takes their values for files."""
        known = self._option_string_actions
        unknown = _suggest.unknown(arguments, known)
        if unknown and not {"-h", "--help"} & set(arguments):
            renamed = self.get_default("renamed") or {}
            elsewhere = self.get_default("elsewhere")
            hints = (
                (elsewhere and elsewhere(each.partition("=")[0])) or _suggest.option(each, known, renamed)
                for each in unknown
            )
            hint = next(filter(None, hints), "")
            if file := next(filter(os.path.exists, unknown), ""):
                hint = f"./{file} is the file of this name"
            hint = hint or "options come after the verb" * (self.prog == "regard" and len(arguments) > 1)
            self.error(f"unrecognized arguments: {' '.join(unknown)}" + f"; {hint}" * bool(hint))


def _least(nargs: int | str | None) -> int:
    """Return how many values an option needs at least."""
    return nargs if isinstance(nargs, int) else 0 if nargs in ("?", "*") else 1


def _unmarked(read: Any, value: str) -> Any:
    """Read a value that may be marked."""
    return read(value.removeprefix(_VALUE))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb of the command line.

    `argv`: arguments without the program's name; by default those of the process. Returns 0; 1 if the loss of a
    training is no longer finite; 2 if the input is wrong or the output cannot be written (with a line for each error
    on standard error) or arguments are missing (with the help there); 128 plus the number of a signal that ends it:
    130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP; 141 if the reader of the output has gone.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if sys.stdout is None or sys.stderr is None:  # closed by the caller
        with (
            open(os.devnull, "w") as discarded,
            redirect_stdout(sys.stdout or discarded),
            redirect_stderr(sys.stderr or discarded),
        ):
            return main(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Files and pipes get UTF-8, as the input must be, whatever the locale. A terminal prints "?" for a
            # character that its encoding lacks, instead of an error.
            own_encoding = stream.isatty() or "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if own_encoding else "utf-8", errors="replace")
    verb = next((argument for argument in arguments if not argument.startswith("-")), None)
    status = _status(verb, functools.partial(_run, arguments, verb))
    return _status(verb, _flush) or status


def _run(arguments: list[str], verb: str | None) -> int:
    """Run the verb."""
    module, args = _parse(arguments, verb)
    _start.finish()
    encoding = assumed(getattr(args, "encoding", None))
    with one_blas_thread(), _signals.handled(), warnings.catch_warnings(), encoding:
        warnings.showwarning = functools.partial(_warn, verb, set())
        return int(module.run(args))


def _status(verb: str | None, action: Callable[[], int]) -> int:
    """Return the exit status of an action; report a failure in one line."""
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
            print(_line(verb, "error", one_line(error)), file=sys.stderr)
        except OSError:
            _drop(sys.stderr)  # only the exit status is left to report it
        return 2
    except RuntimeError as error:  # Python 3.11 wraps what is raised while a class is made, as in an import
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _signals.status_of(error.__cause__)
        raise


def _flush() -> int:
    """Flush the buffers, because a failure at the end of the process would not be reported."""
    if not _works(sys.stderr):
        _drop(sys.stderr)
    sys.stdout.flush()
    return 0


def _is_of_output(error: OSError) -> bool:
    """Return whether an error without a file name is of standard output.

    Without a buffer (``python -u``) a second flush would not fail, so the error number is checked first.
    """
    return error.errno in _NO_SPACE or not _works(sys.stdout)


def _works(stream: TextIO) -> bool:
    """Return whether the buffer of a stream can be written."""
    try:
        stream.flush()
    except OSError:
        return False
    return True


def _drop(stream: TextIO) -> None:
    """Discard the buffer of a stream, which would fail again at the end of the process."""
    with suppress(OSError):  # a stream in memory has no file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _parse(arguments: list[str], verb: str | None) -> tuple[Any, argparse.Namespace]:
    """Parse the arguments, and import the module of the verb."""
    parser = _Parser(
        prog="regard",
        description="Attention for NumPy: see it, train with it, translate with it.",
        allow_abbrev=False,
    )
    # The package is imported already; the name avoids an import of the floor above.
    parser.add_argument("--version", action="version", version=f"regard {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    module = chosen = None
    for name, (load, summary) in _verbs(verb).items():
        sentence = f"{summary[0].upper()}{summary[1:]}."
        subparser = verbs.add_parser(name, help=summary, description=sentence, allow_abbrev=False)
        if name == verb:
            module, chosen = load(), subparser
            module.add_arguments(subparser)
            getattr(module, "add_chosen", _nothing)(subparser, arguments)
            subparser.read_marked()
    if not arguments:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    if arguments[0].startswith("-"):
        parser.check_options(arguments if verb is None else arguments[: arguments.index(verb) + 1])
    if chosen is None or verb is None or arguments[0] != verb:
        return module, parser.parse_args(arguments)
    rest = chosen.marked(arguments[1:])
    chosen.check_options(rest)
    # File names after "--" may begin with a dash.
    return module, (chosen.parse_args if "--" in rest else chosen.parse_intermixed_args)(rest)


def _verbs(verb: str | None) -> dict[str, tuple[Callable[[], Any], str]]:
    """Return how verbs are imported, and what they do; of other distributions, too, unless one of regard is given."""
    verbs: dict[str, tuple[Callable[[], Any], str]] = {
        name: (functools.partial(pkgutil.resolve_name, target), summary)
        for name, (target, summary) in VERBS.items()
    }
    if verb in VERBS:
        return verbs
    from regard import _entry_points

    others = {
        name: (functools.partial(_entry_points.load, point), f"of {_entry_points.distribution(point)}")
        for name, point in _entry_points.added("regard.verbs").items()
        if name not in VERBS
    }
    return {**verbs, **others}


def _nothing(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Add no options: most verbs have the same whatever is given."""


def _warn(verb: str | None, printed: set[str], message: Warning | str, *_: object) -> None:
    """Print a warning in one line and only once, without its position in the program."""
    line = _line(verb, "warning", one_line(message))
    if line not in printed:
        print(line, file=sys.stderr)
    printed.add(line)


def _line(verb: str | None, level: str, message: str) -> str:
    """Return the line of an error or a warning, without control characters."""
    return report(f"{'regard' if verb is None else f'regard {verb}'}: {level}: {message}")

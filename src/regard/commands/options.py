"""Options of several verbs, and checks of options and files: requirements, exclusions, overwritten files."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from regard import _check, _files
from regard.commands import argument_types
from regard.seq2seq.decoding.beam import BEAM

__all__ = ["add_beam", "beam_sizes", "check_needs", "check_outputs", "check_standard_input", "first_given"]


def add_beam(parser: argparse.ArgumentParser, n_best: str) -> None:
    """Add ``--beam``, and ``--n-best`` with this help."""
    size = argument_types.integer(most=argument_types.BEAMS)
    beam = f"beam size (default {BEAM}, or --n-best if that is more; 1 is greedy search)"
    parser.add_argument("--beam", type=size, metavar="N", help=beam)
    parser.add_argument("--n-best", type=size, metavar="N", help=n_best)


def beam_sizes(args: argparse.Namespace) -> tuple[int, int]:
    """Return the beam size and the number of best hypotheses, by the options of `add_beam`."""
    if args.beam and args.n_best and args.n_best > args.beam:
        _check.fail(f"--n-best must be at most --beam = {args.beam}. Got {args.n_best} instead.")
    n_best = args.n_best or 1
    return args.beam or max(BEAM, n_best), n_best


def first_given(args: argparse.Namespace, options: Iterable[str]) -> str | None:
    """Return the first of these options that is on the command line: "--n-best", "MODEL" or "--alignment pharaoh"."""
    return next((option for option in options if _is_given(args, option)), None)


def _is_given(args: argparse.Namespace, option: str) -> bool:
    name, _, required = option.partition(" ")
    value = getattr(args, name.lstrip("-").replace("-", "_").lower())
    if required:
        return bool(value == required)
    return value is not None and value is not False and value != []


def check_needs(args: argparse.Namespace, rules: Iterable[tuple[str, str, str]]) -> None:
    """Check rules (option, the option that it needs, the reason or "")."""
    for option, needed, reason in rules:
        if _is_given(args, option) and not _is_given(args, needed):
            _check.fail(f"{option} needs {needed}" + (f": {reason}" if reason else ""))


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path]) -> None:
    """Check that each output, by its option, can be written, and that it overwrites no input and no other output."""
    used = {_files.real(path) for path in inputs}
    for option, path in outputs.items():
        if path is None:
            continue
        if not path.parent.is_dir():
            _check.fail(f"{path}: there is no folder {path.parent}")
        _check.replaceable(path)
        if _files.real(path) in used:
            _check.fail(f"{path} would be overwritten.", hint=f"give {option} a file of its own")
        used.add(_files.real(path))


def check_standard_input(paths: Iterable[Path | None]) -> None:
    """Check that at most one input is standard input."""
    if sum(str(path) == "-" for path in paths) > 1:
        _check.fail("only one file can be standard input")

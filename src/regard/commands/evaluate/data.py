"""The test set of `regard evaluate`: items with references, and gold links."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from regard import _check
from regard._lines import display_name, memoized, read_lines
from regard.commands.link_files import LinkFile
from regard.commands.tasks import naming_task, task_of, task_type
from regard.commands.tasks.base import Task
from regard.commands.tasks.items import Items
from regard.seq2seq.alignment.links import Gold
from regard.seq2seq.corpus.pairs import by_source, read_pairs
from regard.seq2seq.evaluation.metrics import Reference
from regard.seq2seq.translator import Translator
from regard.show.terminal.text import note

__all__ = ["chosen_task", "gold_file", "read_gold", "read_hypotheses", "read_test"]


def read_test(args: argparse.Namespace, models: Sequence[Translator]) -> Items:
    """Read the test set: references with their sources, pairs, or a file that the task of the models reads."""
    if models and not args.gold and not args.columns:
        answers = chosen_task(args, models).answers(models[0], args.test)
        if answers is not None:
            return Items(display_name(args.test), [*answers], [*answers.values()])
    return _read_lines(args)


def chosen_task(args: argparse.Namespace, models: Sequence[Translator]) -> type[Task]:
    """Return the task by which is measured: the given one, that of all models, or pairs."""
    if args.task:
        return task_type(args.task)
    tasks = {task_of(model) for model in models}
    return tasks.pop() if len(tasks) == 1 else task_type("pairs")


def _read_lines(args: argparse.Namespace) -> Items:
    """Read references with their sources, or pairs."""
    if args.hypotheses:
        files = [_lines(path) for path in args.references]
        _check_same_length([*args.references], files)
        sources = None if args.sources is None else _lines(args.sources)
        if sources is not None:
            _check_same_length([args.references[0], args.sources], [files[0], sources])
        return _merged(display_name(args.references[0]), sources, list(zip(*files, strict=True)), args)
    with naming_task(args.test):
        sources, targets = map(list, zip(*read_pairs(args.test, columns=args.columns), strict=True))
    return _merged(display_name(args.test), sources, targets, args)


def _merged(
    name: str, sources: list[str] | None, references: list[Reference], args: argparse.Namespace
) -> Items:
    """Return lines as the test set, those with the same source as one item if that is asked for."""
    merged = by_source(zip(sources or (), references, strict=False))
    if sources is not None and args.alternatives:
        several: list[Reference] = [
            [*chain.from_iterable([r] if isinstance(r, str) else r for r in each)] for each in merged.values()
        ]
        return Items(name, list(merged), several, lines=sources)
    if count := sum(len(set(each)) > 1 for each in merged.values()):
        note(f"sources with several targets: {count}; with --alternatives each of them counts as right")
    return Items(name, sources, references)


def read_hypotheses(args: argparse.Namespace, test: Items) -> list[list[str]]:
    """Read a line for each item of each file of hypotheses."""
    hypotheses = list(map(_lines, args.hypotheses))
    if args.alternatives:
        return [_of_items(path, lines, test) for path, lines in zip(args.hypotheses, hypotheses, strict=True)]
    _check_same_length([args.references[0], *args.hypotheses], [test.references, *hypotheses])
    return hypotheses


def _of_items(path: Path, lines: list[str], test: Items) -> list[str]:
    """Return a line for each item; there may be one for each line of the sources, which are equal for one item."""
    items, every = len(test.references), len(test.lines)
    if len(lines) == items:
        return lines
    if len(lines) != every:
        counts = f"{every} lines, like the sources, or {items}, one for each different source"
        _check.fail(f"{path} must have {counts}. It has {len(lines)}.")
    first: dict[str, str] = {}
    for number, (source, line) in enumerate(zip(test.lines, lines, strict=True), 1):
        if first.setdefault(source, line) != line:
            rule = f"{path}, line {number}: must be {first[source]!r:.60}, as before for the same source."
            _check.fail(f"{rule} Got {line!r:.60} instead.")
    return list(first.values())


def gold_file(args: argparse.Namespace) -> LinkFile:
    """Return the file of reference links."""
    return LinkFile(args.gold, args.gold_from, args.by or "words", "--gold-from")


def read_gold(file: LinkFile) -> list[Gold]:
    """Read reference links, of which there must be some."""
    gold = file.read()
    if not any(links.possible for links in gold):
        _check.fail(f"{file.path} has no links: there is nothing to compare with")
    return gold


def _lines(path: Path) -> list[str]:
    shared: Callable[[str], str] = memoized(str)  # equal lines share their memory
    return list(map(shared, chain.from_iterable(read_lines(path))))


def _check_same_length(paths: Sequence[Path], files: Sequence[Sequence[object]]) -> None:
    for path, lines in zip(paths, files, strict=True):
        if len(lines) != len(files[0]):
            _check.fail(f"{path} must have {len(files[0])} lines, like {paths[0]}. It has {len(lines)}.")
    if not files[0]:
        _check.fail(f"{paths[0]} is empty")

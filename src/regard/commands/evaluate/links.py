"""Measure files of word alignments against reference alignments, without a model: `regard evaluate --links`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from regard import _check, _files
from regard.commands.evaluate.data import gold_file, read_gold
from regard.commands.evaluate.report import percents, write_json
from regard.commands.labels import given_names, names_of
from regard.commands.link_files import LinkFile
from regard.commands.options import check_outputs, check_standard_input, first_given
from regard.seq2seq.alignment.links import Gold
from regard.seq2seq.evaluation.metrics import LinkScore, alignment_error_rate
from regard.show.terminal.text import align, clean

__all__ = ["run"]

# Arguments of models and of translations, which exclude --links.
_OTHERS = (
    *("MODEL", "TEST", "--ensemble", "--compare", "--beam", "--alternatives", "--posterior", "--by"),
    *(
        "--hypotheses",
        "--references",
        "--sources",
        "--measure",
        "--png",
        "--task",
        "--columns",
        "--unknown",
        "--faithfulness",
    ),
)


def run(args: argparse.Namespace) -> int:
    """Print the alignment error rate, precision and recall of each file."""
    _check_options(args)
    link_file = gold_file(args)
    gold, names = read_gold(link_file), _names(args)
    files = [LinkFile(path, args.links_from) for path in args.links]
    lines = [file.read() for file in files]
    for path, read in zip(args.links, lines, strict=True):
        if len(read) != len(gold):
            _check.fail(f"{path} must have {len(gold)} lines, like {args.gold}. It has {len(read)}.")
    for file, read in ((link_file, gold), *zip(files, lines, strict=True)):
        file.warn([links.possible for links in read])
    scores = [_score(read, gold) for read in lines]
    print(_report(args, gold, names, lines, scores), flush=True)
    if args.json:
        each = [{"name": name, "links": score._asdict()} for name, score in zip(names, scores, strict=True)]
        write_json(args.json, {"gold": clean(str(args.gold)), "items": len(gold), "files": each})
    return 0


def _check_options(args: argparse.Namespace) -> None:
    if not args.gold:
        _check.fail("--links needs --gold: the reference links")
    if option := first_given(args, _OTHERS):
        _check.fail(f"--links measures files of links: {option} goes with models or translations")
    check_standard_input([*args.links, args.gold])
    check_outputs({"--json": args.json}, [*args.links, args.gold])


def _names(args: argparse.Namespace) -> list[str]:
    if not args.names:
        if len({_files.real(path) for path in args.links}) < len(args.links):
            _check.fail("the files of --links must be different files")
        return names_of(args.links)
    return given_names(args.names, len(args.links))


def _score(lines: Sequence[Gold], gold: Sequence[Gold]) -> LinkScore:
    return alignment_error_rate(
        [links.possible for links in lines],
        [links.sure for links in gold],
        [links.possible for links in gold],
    )


def _report(
    args: argparse.Namespace,
    gold: Sequence[Gold],
    names: Sequence[str],
    files: Sequence[Sequence[Gold]],
    scores: Sequence[LinkScore],
) -> str:
    counts = [sum(len(links.possible) for links in lines) for lines in files]
    rows = [
        [name, f"{count:,}", *percents(score)]
        for name, count, score in zip(names, counts, scores, strict=True)
    ]
    pairs = "pair" if len(gold) == 1 else "pairs"
    table = align([["", "links", "AER %", "precision %", "recall %"], *rows])
    return f"{len(gold):,} {pairs} of {clean(str(args.gold))}\n\n{table}"

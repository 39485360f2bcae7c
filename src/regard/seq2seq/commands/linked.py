"""Measure files of word alignments against reference alignments, without a model: `regard evaluate --links`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from regard import _files
from regard.seq2seq.alignment.links import Gold
from regard.seq2seq.commands.labels import given_names, names_of
from regard.seq2seq.commands.link_files import LINKS_FROM, read_counted, warn_if_from_one
from regard.seq2seq.commands.options import check_outputs, check_standard_input, first_given
from regard.seq2seq.evaluation.metrics import LinkScore, alignment_error_rate
from regard.show.terminal.text import align, clean

__all__ = ["run"]

# Arguments of models and of translations, which exclude --links.
_OTHERS = (
    *("MODEL", "TEST", "--ensemble", "--compare", "--beam", "--alternatives", "--posterior", "--by"),
    *("--hypotheses", "--references", "--sources", "--measure", "--png"),
)


def run(args: argparse.Namespace) -> int:
    """Print the alignment error rate, precision and recall of each file."""
    _check_options(args)
    gold = read_counted(args.gold, args.gold_from, "--gold-from")
    if not any(links.possible for links in gold):
        raise ValueError(f"{args.gold} has no links: there is nothing to compare with")
    names = _names(args)
    files = [read_counted(path, args.links_from, LINKS_FROM) for path in args.links]
    for path, lines in zip(args.links, files, strict=True):
        if len(lines) != len(gold):
            raise ValueError(f"{path} must have {len(gold)} lines, like {args.gold}. It has {len(lines)}.")
    warn_if_from_one(args.gold, [links.possible for links in gold], args.gold_from, "--gold-from")
    for path, lines in zip(args.links, files, strict=True):
        warn_if_from_one(path, [links.possible for links in lines], args.links_from, LINKS_FROM)
    scores = [_score(lines, gold) for lines in files]
    print(_report(args, gold, names, files, scores), flush=True)
    if args.json:
        _write_json(args, gold, names, scores)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    if not args.gold:
        raise ValueError("--links needs --gold: the reference links")
    if option := first_given(args, _OTHERS):
        raise ValueError(f"--links measures files of links: {option} goes with models or translations")
    check_standard_input([*args.links, args.gold])
    check_outputs({"--json": args.json}, [*args.links, args.gold])


def _names(args: argparse.Namespace) -> list[str]:
    if not args.names:
        if len({_files.real(path) for path in args.links}) < len(args.links):
            raise ValueError("the files of --links must be different files")
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
        [name, f"{count:,}", *(f"{100 * rate:.1f}" for rate in score)]
        for name, count, score in zip(names, counts, scores, strict=True)
    ]
    pairs = "pair" if len(gold) == 1 else "pairs"
    table = align([["", "links", "AER %", "precision %", "recall %"], *rows])
    return f"{len(gold):,} {pairs} of {clean(str(args.gold))}\n\n{table}"


def _write_json(
    args: argparse.Namespace, gold: Sequence[Gold], names: Sequence[str], scores: Sequence[LinkScore]
) -> None:
    each = [{"name": name, "links": score._asdict()} for name, score in zip(names, scores, strict=True)]
    content = {"gold": clean(str(args.gold)), "items": len(gold), "files": each}
    with _files.replacing(args.json) as file:
        file.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())

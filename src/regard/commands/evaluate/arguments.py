"""The arguments of `regard evaluate`, and which of them go together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from regard import _check, _files
from regard.commands import argument_types
from regard.commands.columns import add_columns, check_one_file
from regard.commands.evaluate.faithfulness import MOST_ITEMS
from regard.commands.labels import given_names, names_of
from regard.commands.link_files import LINKS_FROM
from regard.commands.loading import add_by, add_ensemble, add_unknown
from regard.commands.options import check_needs, check_outputs, check_standard_input, first_given
from regard.commands.tasks import task_name
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import LONGEST_SENTENCE
from regard.show.figures.figure import check_picture

__all__ = ["add_arguments", "check_options", "model_names", "output_files"]

EXAMPLES = f"""\
Measures, for all lines and by the length of the source:
  BLEU, chrF     by sacrebleu, in percent
  exact %        lines that equal their reference
  errors %       tokens to insert, delete or replace, per 100 tokens of the references; tokens are separated by spaces,
                 or are characters where most references have no space
  AER %          alignment error rate against links in Pharaoh format (0-0 1-2 2?3, source first, ? for possible),
                 with precision and recall
Other tasks of regard train have measures of their own.
An item of more than {LONGEST_SENTENCE} tokens gets an error on standard error and counts as an empty answer; the others
are measured, and the exit status is 2 at the end.
"copying the source" measures the sources themselves as translations; it is printed if it comes near to a model.

examples:
  regard evaluate model test.tsv.gz
  regard evaluate with test.tsv --compare without --png by-length.png
  regard evaluate one test.tsv --ensemble two --ensemble three --compare one
  regard evaluate model test.tsv --faithfulness         does attention say what matters?
  regard evaluate model words.tsv --alternatives        several references, one a line
  regard evaluate --hypotheses mine.txt --references theirs.txt
  regard evaluate --links mine.txt theirs.txt --gold by-hand.txt
"""


# An option with several files, which may be repeated.
_FILES: dict[str, Any] = {"nargs": "+", "type": argument_types.path, "action": "extend"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard evaluate`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add(
        "model",
        nargs="?",
        type=argument_types.path,
        metavar="MODEL",
        help="a model file from regard train, or its folder",
    )
    add(
        "test",
        nargs="?",
        type=argument_types.path,
        metavar="TEST",
        help="source TAB target, one pair a line, gzip or not, - for standard input; or a CSV file (.csv)",
    )
    add_ensemble(parser)
    add_columns(parser)
    add(
        "--compare",
        **_FILES,
        default=[],
        metavar="MODEL",
        help="other models to compare on the same pairs; takes all names after it",
    )
    add(
        "--beam",
        type=argument_types.integer(most=argument_types.BEAMS),
        metavar="N",
        help=f"beam size (default {BEAM})",
    )
    add_unknown(parser)
    _add_items(parser)
    _add_references(parser)
    _add_output(parser)


def _add_items(parser: argparse.ArgumentParser) -> None:
    """Add the options of what an item is, and how it is measured."""
    add = parser.add_argument
    add(
        "--alternatives",
        action="store_true",
        help="merge lines with the same source into one item with several references, of which the best counts;"
        " --hypotheses: a line for each, or for each line of --sources",
    )
    add(
        "--task",
        type=task_name,
        metavar="NAME",
        help="the task by whose measures all is measured (default: that of the models, or pairs)",
    )
    add(
        "--faithfulness",
        action="store_true",
        help="compare attention with erasure: does it say which inputs each output token needs? Of at most"
        f" {MOST_ITEMS} items, each decoded as often as its source has tokens, and several times as often",
    )


def _add_references(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--gold",
        type=argument_types.path,
        metavar="FILE",
        help="reference word alignments of TEST, one line a pair, for AER",
    )
    add(
        "--gold-from",
        type=argument_types.integer(0, 1),
        choices=(0, 1),
        help="the number of the first word in --gold (default 0)",
    )
    add_by(parser, "what the numbers in --gold count")
    add(
        "--links",
        **_FILES,
        metavar="FILE",
        help="measure files of word alignments instead of models, with --gold",
    )
    add(
        LINKS_FROM,
        type=argument_types.integer(0, 1),
        choices=(0, 1),
        help="the number of the first word in --links (default 0)",
    )
    add("--posterior", action="store_true", help="link by the posterior of the alignment, as in regard align")
    add("--hypotheses", **_FILES, metavar="FILE", help="measure files of translations instead of models")
    add(
        "--references",
        **_FILES,
        metavar="FILE",
        help="references of --hypotheses; with several files, each item has several",
    )
    add(
        "--sources",
        type=argument_types.path,
        metavar="FILE",
        help="sources of --hypotheses, for measures by their length",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--names",
        nargs="+",
        type=argument_types.non_empty,
        action="extend",
        metavar="NAME",
        help="names of the models in tables and pictures",
    )
    add(
        "--measure",
        type=str.lower,
        metavar="NAME",
        help="measure to draw and to compare by length: bleu, chrf, exact or errors, or another of the task (default"
        " bleu; errors for words and short lines)",
    )
    add(
        "--paired-bs",
        action="store_true",
        help="compare the models, or --hypotheses, with the first by sacrebleu's paired bootstrap: 95 %% intervals of"
        " all measures, and p-values of the differences",
    )
    add(
        "--tokenize",
        choices=("13a", "zh", "char", "none", "intl"),
        default="13a",
        help="tokenizer of sacrebleu for BLEU (default 13a)",
    )
    add(
        "--png",
        type=argument_types.path,
        metavar="FILE",
        help="save a picture of the measure by length (.png, .svg, .pdf)",
    )
    add(
        "--json",
        type=argument_types.path,
        metavar="FILE",
        help="write all measures to FILE; rates as fractions instead of percent; null where BLEU is undefined",
    )


# Options of text without a model, and of models; then (option, the option that it needs, the reason).
_TEXT_OPTIONS = ("--references", "--sources")
_MODEL_OPTIONS = (
    *("MODEL", "--ensemble", "--compare", "--gold"),
    *("--columns", "--unknown", "--beam", "--faithfulness"),
)
_NEEDS = (
    ("--hypotheses", "--references", ""),
    ("--posterior", "--gold", "it is about links"),
    ("--gold-from", "--gold", "it is the number of the first word there"),
    ("--by", "--gold", "it is the unit of the numbers there"),
    (LINKS_FROM, "--links", ""),
)


def check_options(args: argparse.Namespace) -> None:
    """Check which arguments go together, which argparse cannot do."""
    if args.hypotheses:
        if option := first_given(args, _MODEL_OPTIONS):
            _check.exclude(option, "--hypotheses")
        if args.alternatives and not args.sources:
            _check.fail("--alternatives needs --sources: lines with the same source are one item")
    elif option := first_given(args, _TEXT_OPTIONS):
        _check.fail(f"{option} needs --hypotheses")
    elif args.test is None:
        hint = "--compare takes all names after it" if args.compare else ""
        _check.fail("give MODEL and TEST, or --hypotheses and --references", hint=hint)
    check_needs(args, _NEEDS)
    check_one_file(args.columns, [args.test], "TEST")
    if args.paired_bs and len(args.hypotheses or [args.model, *args.compare]) < 2:
        _check.fail(
            "--paired-bs compares at least two models, or two files of --hypotheses.", hint="--compare MODEL"
        )
    if args.gold and args.alternatives:
        _check.fail("--gold has links for each line of TEST, --alternatives merges lines.", hint="give one")
    _check_files(args)


def _check_files(args: argparse.Namespace) -> None:
    """Check the files that are read and written."""
    texts = args.test, args.gold, args.sources, *(args.hypotheses or ()), *(args.references or ())
    inputs = list(filter(None, texts))
    models = [path for path in (args.model, *args.ensemble, *args.compare) if path]
    if args.png:
        check_picture(args.png)
    check_outputs(output_files(args), [*inputs, *models, *map(model_file, models)])
    check_standard_input(inputs)


def output_files(args: argparse.Namespace) -> dict[str, Path | None]:
    """Return the files that are written, by their options."""
    return {"--json": args.json, "--png": args.png}


def model_names(args: argparse.Namespace) -> list[str]:
    """Return a short name for each model: from --names, or from the files."""
    paths = [(path,) for path in args.hypotheses or [args.model, *args.compare]]
    paths[0] += tuple(args.ensemble)
    if args.names:
        return given_names(args.names, len(paths))
    if len({tuple(_files.real(model_file(path)) for path in several) for several in paths}) < len(paths):
        _check.fail("the models to compare must be different files")
    distinct = list({path for several in paths for path in several})
    short = dict(zip(distinct, names_of(distinct), strict=True))
    return [" + ".join(map(short.__getitem__, several)) for several in paths]

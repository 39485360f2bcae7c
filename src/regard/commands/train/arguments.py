"""The arguments of `regard train`, and the models and files that they describe."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from regard import _check, _entry_points
from regard.commands import argument_types, tasks
from regard.commands.columns import add_columns
from regard.commands.options import first_given
from regard.commands.sources import add_source_options, make_source
from regard.commands.tasks import TASKS, task_name, task_names, task_type
from regard.commands.tasks.base import Task
from regard.commands.tasks.pairs import Pairs
from regard.seq2seq import extras
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.families import FAMILIES
from regard.seq2seq.networks.options import options_of
from regard.seq2seq.sources import SOURCES
from regard.seq2seq.sources.text.normalization import NORMALIZATIONS
from regard.seq2seq.sources.text.subwords import METHODS
from regard.seq2seq.sources.text.tokenizers import TOKEN_TYPES
from regard.seq2seq.storage.model_file import MODEL_FILE
from regard.seq2seq.training.config import OPTIONS

__all__ = [
    "OF_OTHER_SOURCES",
    "add_arguments",
    "add_chosen",
    "add_extras",
    "add_files",
    "add_network",
    "add_networks",
    "add_sizes",
    "add_task",
    "add_training",
    "check_options",
    "given_extras",
    "given_options",
    "make_models",
    "make_task",
    "model_paths",
]

EXAMPLES = """\
The best model so far is always saved, and a checkpoint every minute. Training can be stopped at any time with Ctrl-C;
the same command resumes it, with exactly the same result as without the stop. A finished model is trained anew only
with --fresh. Pairs that are too long are left out and counted. The output folder gets model.safetensors, log.jsonl,
the pictures curve.png and alignment-1.png, ..., and checkpoint.safetensors until training is done; with --compare,
also model-without-attention.safetensors with its own log and curve.

With --source images or vectors, the first column has names of files, relative to the folder of PAIRS. Images are
pictures, which are scaled to --size, or arrays of that size. Vectors are arrays, one vector a row. Arrays are in
.npy files, or in archives: FILE.npz:NAME.

examples:
  regard train pairs.tsv                                train, with some of the pairs held out
  regard train text.en text.fr --out runs/en-fr         two files, line by line
  regard train pairs.csv --columns en fr                a spreadsheet with a header
  regard train train.tsv.gz --valid valid.tsv.gz --test test.tsv.gz --out runs/mine
  regard train pairs.tsv --family transformer --source subwords --target subwords
  regard train pairs.tsv --network style=luong score=general cell=lstm layers=2
  regard train pairs.tsv --compare                      also train the same model without attention
  regard train pairs.tsv --links links.txt              with word alignments by regard align or by hand
  regard train captions.tsv --source images --size 64 64        names of pictures TAB captions
  regard train labels.tsv --source vectors --size 13            names of arrays with rows of 13 numbers TAB labels
  regard train boxes.tsv --source vectors --size 4 --order set --positions 2        rows of 4 numbers, then x and y
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard train`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES + _installed()
    parser.usage = "%(prog)s PAIRS [SECOND] [--valid FILE] [--test FILE] [--out PATH] [options]"
    add = parser.add_argument
    add(
        "pairs",
        nargs="+",
        type=argument_types.non_empty,
        metavar="PAIRS",
        help="source TAB target, one pair a line, UTF-8, plain or gzip, - for standard input; or a CSV file (.csv); or"
        " two files, one with the sources and one with the targets",
    )
    add_files(parser)
    add_task(parser)
    _add_model(parser.add_argument_group("the model"))
    add_source_options(parser.add_argument_group("sources that are no text").add_argument)
    training = parser.add_argument_group("training")
    add_training(training)
    Pairs.add_arguments(training)
    add_networks(parser)


def _installed() -> str:
    """Return the tasks and extras of installed distributions, for the help."""
    lines = [
        f"  {f'--{option} {name}':<30}{_entry_points.distribution(point)}\n"
        for option, group in (("task", tasks.GROUP), ("extras", extras.GROUP))
        for name, point in _entry_points.added(group).items()
    ]
    return "".join(["\ninstalled with other distributions:\n", *lines]) if lines else ""


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the options of files: pairs for validation and test, and the folder of the result."""
    add = parser.add_argument
    valid = "validation pairs, which choose the best model, in one file or two (default: a part of PAIRS)"
    add("--valid", nargs="+", action="extend", type=argument_types.non_empty, metavar="FILE", help=valid)
    test = "test pairs, on which the result is measured (default: the validation pairs)"
    add("--test", nargs="+", action="extend", type=argument_types.non_empty, metavar="FILE", help=test)
    add(
        "--out",
        type=argument_types.path,
        default=Path("model"),
        metavar="PATH",
        help="a folder, or a file that ends in .safetensors (default: model)",
    )
    add_columns(parser)
    add(
        "--skip-empty",
        action="store_true",
        help="leave out pairs with an empty side, which are an error otherwise",
    )
    add(
        "--fresh",
        action="store_true",
        help="train anew, and replace an existing checkpoint or finished model",
    )


def add_networks(parser: argparse.ArgumentParser) -> None:
    """Describe the options of networks, without adding arguments."""
    for name, family in FAMILIES.items():
        parser.add_argument_group(f"--network of --family {name}", _describe_network(family.config))


def add_task(parser: argparse.ArgumentParser) -> None:
    """Add the choice of a task."""
    built_in = "; ".join(f"{name}: {task_type(name).description}" for name in TASKS)
    parser.add_argument(
        "--task",
        type=task_name,
        metavar="NAME",
        help=f"what is learned from which files: {built_in} (default: by --source); or a task of another distribution,"
        " whose options regard train --task NAME --help has",
    )
    parser.set_defaults(elsewhere=option_of_task)  # for suggestions


def add_chosen(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Add the options of the task that these arguments choose, of another distribution."""
    after = zip(["", *arguments], arguments, strict=False)
    named = [
        x.removeprefix("--task=") for before, x in after if before == "--task" or x.startswith("--task=")
    ]
    for name in named[-1:]:
        if name not in TASKS and name in task_names():
            task_type(name).add_arguments(parser.add_argument_group(f"options of --task {name}"))


def option_of_task(option: str) -> str:
    """Return the task of another distribution that has an option, in words; empty if none has it."""
    for name in task_names():
        of_task = argparse.ArgumentParser(add_help=False)
        with suppress(ImportError):
            task_type(name).add_arguments(of_task)
        if name not in TASKS and option in of_task._option_string_actions:
            return f"{option} needs --task {name}"
    return ""


def make_task(args: argparse.Namespace) -> Task:
    """Return the task that the arguments choose, by default that of the source."""
    return task_type(args.task or SOURCES[args.source or "words"].task)(args)


def _add_model(group: Any) -> None:
    """Add the options of the model."""
    add = group.add_argument
    add_network(add)
    which = group.add_mutually_exclusive_group()
    which.add_argument("--no-attention", action="store_true", help="train a model without attention")
    which.add_argument("--compare", action="store_true", help="train two models, with and without attention")
    add_extras(add)
    others = [kind for kind in SOURCES if kind not in TOKEN_TYPES]
    files = f"; or {' or '.join(others)}, in files that the first column names"
    for side, choices, described in (("source", SOURCES, files), ("target", TOKEN_TYPES, "")):
        add(
            f"--{side}",
            choices=tuple(choices),
            help=f"type of tokens of the {side} (default words){described}",
        )
    _add_tokens(add)


def add_extras(add: Any) -> None:
    """Add the extras."""
    add(
        "--extras",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=N",
        help="parts next to the network, of installed distributions, each with its option",
    )


def given_extras(args: argparse.Namespace) -> dict[str, Any]:
    """Return the extras that are given, with their options."""
    return _options("extras", args.extras)


def add_network(add: Any) -> None:
    """Add the options of the network."""
    add("--family", choices=tuple(FAMILIES), help="kind of network (default recurrent)")
    add(
        "--network",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="options of the network, which are listed at the end for each family",
    )


def _describe_network(config: Any) -> str:
    """Return the options of a network with their values, descriptions and defaults."""
    lines = []
    for name, option in options_of(config).items():
        argument = f"{name}={option.value}"
        lines += [argument, " " * 22] if len(argument) > 20 else [f"{argument:<22}"]
        lines[-1] += f"{option.description} (default: {option.default})"
    sizes = ", ".join(config.scaled_sizes)
    return "\n".join(
        [*lines, f"Defaults of {sizes} are for 5,000 to 100,000 pairs, and depend on their number."]
    )


def _add_tokens(add: Any) -> None:
    """Add the options of the vocabularies, and of the longest pairs."""
    add(
        "--lower",
        action=argparse.BooleanOptionalAction,
        help="lowercase the source (default: only if its tokens are words)",
    )
    add(
        "--normalization",
        choices=NORMALIZATIONS,
        help="Unicode normalization of text (default NFC); NFD is that of the source, where the target has NFC",
    )
    add("--subwords", choices=METHODS, help="subword algorithm (default unigram)")
    add(
        "--vocabulary",
        type=argument_types.integer(5),
        metavar="N",
        help="largest vocabulary of either side (default 30,000 words, 8,000 subwords)",
    )
    add(
        "--min-count",
        type=argument_types.integer(),
        metavar="N",
        help="how often a token must come to be known (default 1; of words, 3 from 5,000 pairs on, where rarer ones are"
        " at most 5 %% of the target tokens)",
    )
    _add_longest(add)


def add_sizes(add: Any) -> None:
    """Add the options of a network, and of the longest pairs."""
    add_network(add)
    _add_longest(add)


def _add_longest(add: Any) -> None:
    """Add the options of the longest pairs."""
    add(
        "--max-tokens",
        type=argument_types.integer(),
        metavar="N",
        help="longest side of a training pair; longer pairs are left out (default 50)",
    )
    add(
        "--test-max-tokens",
        type=argument_types.integer(),
        metavar="N",
        help="longest side of a test pair; longer pairs are left out (default: --max-tokens)",
    )


def add_training(group: Any, *, without: Collection[str] = ()) -> None:
    """Add the options of training, which are the fields of `TrainingConfig`."""
    offered = {name: option for name, option in OPTIONS.items() if name not in without}
    first = {_argument(option.was): _argument(name) for name, option in offered.items() if option.was}
    group.set_defaults(renamed=first)  # for suggestions
    for name, option in offered.items():
        group.add_argument(
            _argument(name),
            type=partial(_checked, name),
            metavar=option.value,
            help=f"{option.description} (default: {option.default})",
        )


def _argument(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _checked(name: str, text: str) -> Any:
    """Convert an argument to the value of an option of training."""
    try:
        return OPTIONS[name].check(name, argument_types.value(text))
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix(f"{name} ")) from None


def _options(name: str, assignments: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE, where a value is a number, true, false or a word."""
    options: dict[str, Any] = {}
    for option in assignments:
        key, sign, value = option.partition("=")
        if not sign or not key:
            _check.fail(f"--{name}: must be NAME=VALUE. Got {option!r:.60} instead.")
        if key in options:
            _check.fail(f"--{name}: {key} must be given once. Got it twice instead.")
        options[key] = argument_types.value(value)
    return options


def check_options(args: argparse.Namespace, task: Task) -> None:
    """Check which options go together, which argparse cannot do."""
    if args.compare and _options("network", args.network).get("score") == "none":
        _check.fail("--compare needs a score: score=none has no attention to compare with")
    refused = {"links", "lower", "extras"} - SOURCES[args.source or "words"].accepts
    if option := first_given(args, [f"--{name}" for name in ("links", "lower", "extras") if name in refused]):
        _check.fail(f"{option} needs tokens in the source. --source {args.source} has none.")
    task.check()


OF_OTHER_SOURCES = ("guided_alignment", "shift", "noise")  # training options of links, pictures and vectors
_OF_ATTENTION = ("score", "attention")  # options of the network
_OF_TOKENS = ("target", "vocabulary", "min_count", "lower", "normalization", "subwords")


def make_models(args: argparse.Namespace, task: Task) -> list[Seq2Seq]:
    """Return the models to train for a task: one, or one with and one without attention."""
    models = [
        _model(args, attention, task)
        for attention in ([True, False] if args.compare else [not args.no_attention])
    ]
    if args.links and not models[0].attention:
        _check.fail("--links needs attention, whose weights learn them")
    return models


def _model(args: argparse.Namespace, attention: bool, task: Task) -> Seq2Seq:
    given: dict[str, Any] = {"attention": not args.no_attention, "extras": given_extras(args)}
    given |= {name: value for name in _OF_TOKENS if (value := getattr(args, name)) is not None}
    if (source := make_source(args)) is not None:
        given["source"] = source
    options = task.defaults(given_options(args, given))
    if args.compare and not attention:  # the same apart from attention
        network = {name: value for name, value in options["network"].items() if name not in _OF_ATTENTION}
        changed = {"network": network, "extras": extras.without_attention(options["extras"])}
        options = {**options, **changed, "attention": False}
    return Seq2Seq(**options)


def given_options(args: argparse.Namespace, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a model that are given: its own, and those of network and training."""
    given = {name: value for name in ("family", "max_tokens") if (value := getattr(args, name)) is not None}
    return given | {
        **options,
        "network": _options("network", args.network),
        "training": {n: x for n in OPTIONS if (x := getattr(args, n, None)) is not None},
    }


def model_paths(args: argparse.Namespace) -> list[Path]:
    """Return the files of the models."""
    path = args.out if args.out.suffix == ".safetensors" else args.out / MODEL_FILE
    if not args.compare:
        return [path]
    return [path, path.with_name(f"{path.stem}-without-attention{path.suffix}")]

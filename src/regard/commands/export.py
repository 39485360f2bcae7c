"""The verb `export`: write a model as ONNX files, which applications run without this package."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard import _check
from regard._lines import read_lines
from regard.commands import argument_types
from regard.commands.examples import loaded
from regard.commands.loading import add_model
from regard.commands.options import check_outputs
from regard.commands.tasks import TASKS, task_names, task_of, task_type
from regard.commands.tasks.app import App
from regard.commands.tasks.base import Task
from regard.seq2seq.corpus.pairs import by_source
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.evaluation import metrics
from regard.seq2seq.evaluation.held_out import right_sources, share_wrong
from regard.seq2seq.export.conversion import check_exportable, network_alone
from regard.seq2seq.export.folder import FILES, OF_ARRAYS, PAGE, VIEW, Draft, drafted
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.graph import require_onnx
from regard.seq2seq.sources.text.tokenizers import Tokenizer
from regard.seq2seq.sources.text.vocabulary import SPECIAL
from regard.seq2seq.translator import read_source
from regard.show.figures.figure import check_writable
from regard.show.page.document import view_files
from regard.show.progress import Progress
from regard.show.terminal.text import align

__all__ = ["add_arguments", "add_chosen", "run"]

_NO_TOKENS = ("?",)  # of an empty vocabulary: an unknown one
_COPYING = ("words", "tokens")  # of which many are unknown
_COPIED = (
    "unknown words are copied one by one, from where each attends most: regard may give them another order"
)
_DRAWN = 10  # sources, where none are given
_EXAMPLES = 10
_BEAM = f"beam {BEAM}"
_MOST_WORSE = 0.01  # of the words, which the files may leave wrong and the model does not
_UNMEASURED = "model.json has no error rate: the model has no held-out words, and --test no targets"
EXAMPLES = f"""\
FOLDER gets {", ".join(FILES)}: docs/onnx.md describes them. Before anything is written, the
files answer the held-out words of the model and all lines of --test (without both, {_DRAWN} lines of tokens of the
vocabulary) as the model does: the same answers by greedy search and by beam, with log-probabilities within 1e-4. The
error rates of the model with all its parts and of the files are printed, and those of the files are in model.json.
Files whose error rate is more than one point above that of the model need --force.

examples:
  regard export runs/mine --onnx app --test test.tsv
  regard export runs/mine --onnx app --test test.tsv --int8
  python app/decode.py hello
  regard export runs/mine --onnx app --page
"""


# The version that the page is tested with.
_PAGE_NEEDS = """\
the page needs onnxruntime-web next to it, and a server, as browsers don't load such files from a disk:
  npm pack onnxruntime-web@1.30.0
  tar -xzf onnxruntime-web-1.30.0.tgz --strip-components=2 -C {folder} \\
      package/dist/ort.wasm.bundle.min.mjs package/dist/ort-wasm-simd-threaded.wasm
  python -m http.server -d {folder}"""


class _Lines(NamedTuple):
    """Distinct sources, and the share of answers that are wrong and the error rate, as far as right ones are known.

    `sources`: texts; examples of a model that reads none.
    """

    name: str
    sources: list[Any]
    wrong: Callable[[Sequence[str]], float] | None = None
    errors: Callable[[Sequence[str]], float] | None = None


class _Measured(NamedTuple):
    """Some lines, and the answers of the model and of the files to them, by name; the last are of what leaves."""

    lines: _Lines
    model: dict[str, list[str]]
    files: dict[str, list[str]]

    @property
    def rates(self) -> dict[str, float]:
        """The shares of answers that are wrong."""
        assert self.lines.wrong is not None
        return {name: self.lines.wrong(answers) for name, answers in {**self.model, **self.files}.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard export`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add_model(parser)
    add("--onnx", type=argument_types.path, required=True, metavar="FOLDER", help="the folder of the files")
    test = (
        "further lines to compare on: source, or source TAB target (all targets of a source are right); a source that"
        " is no text is a file, relative to FILE; or what the task of the model reads"
    )
    add("--test", type=argument_types.path, metavar="FILE", help=test)
    argument_types.add_encoding(parser)
    add(
        "--page",
        action="store_true",
        help="write a page for browsers, too, which needs onnxruntime-web in FOLDER",
    )
    add("--int8", action="store_true", help="quantize the weights: a quarter of the size")
    add("--without-extras", action="store_true", help="export the network alone of a model with --extras")
    force = "replace files that exist in FOLDER, and write files that make more errors than the model"
    add("--force", action="store_true", help=force)


def add_chosen(parser: argparse.ArgumentParser, _: Sequence[str]) -> None:
    """Add the options of tasks of other distributions; which task the model is of is not known yet."""
    for name in task_names():
        if name not in TASKS:
            with suppress(ImportError):
                task_type(name).add_export_arguments(parser.add_argument_group(f"models of the task {name}"))


def run(args: argparse.Namespace) -> int:
    """Export a model and print what was compared."""
    require_onnx()
    _check_folder(args.onnx, (*FILES, *((*PAGE, *VIEW) if args.page else ())), force=args.force)
    model = Seq2Seq.load(args.model)
    check_exportable(model.model, without_extras=args.without_extras)
    app = _app(model, args)
    if model.model.source.reads_files:
        _check_arrays(model, args)
    every = _known_lines(model, args.test) or [_drawn(model.model.source.tokenizer)]
    _check_lines(model, every, force=args.force)
    sources = [*dict.fromkeys(chain.from_iterable(lines.sources for lines in every))]
    with ExitStack() as stack:
        with Progress(len(sources), "comparing") as progress:
            options = {"int8": args.int8, "card": model.card, "progress": progress.advance}
            draft = stack.enter_context(drafted(model.model, sources, **options))
        measured = [_measured(model, draft, lines) for lines in every if lines.wrong]
        for comparison in measured:
            _check_cost(comparison, force=args.force)
        examples = _examples(model, measured, app)
        if measured:
            kept = {"examples": examples} if examples else {}
            draft.add_to_card(exported=_leaving(measured[0], int8=args.int8), **kept)
        if args.page:
            draft.add_page(*view_files("alignment"))
        app.complete(draft, page=args.page)
        draft.place(args.onnx, examples)
        print(_report(args, model, draft, measured))
    return 0


def _app(model: Seq2Seq, args: argparse.Namespace) -> App:
    """Return what the task of the model adds, after a check that no option is of another task."""
    task = task_of(model)
    for name in task_names():
        if name not in (*TASKS, task.name):
            with suppress(ImportError):
                _check_other(task_type(name), task, args)
    app = task.app(model, args)
    _check_folder(args.onnx, (*app.files, *(app.page if args.page else ())), force=args.force)
    return app


def _check_other(other: type[Task], task: type[Task], args: argparse.Namespace) -> None:
    """Raise if an option of another task is given."""
    parser = argparse.ArgumentParser(add_help=False)
    other.add_export_arguments(parser)
    for action in parser._actions:
        if getattr(args, action.dest, action.default) != action.default:
            rule = f"{action.option_strings[0]} is for models of the task {other.name}"
            _check.fail(f"{rule}. {args.model} is of {task.name}.")


def _check_folder(folder: Path, names: Sequence[str], *, force: bool) -> None:
    """Check that a folder can get the files, before any work."""
    _check.folder(folder, "--onnx")
    known = [name for name in names if os.path.lexists(folder / name)]
    if known and not force:
        _check.fail(f"{folder} has {known[0]} already", hint="--force replaces it")
    check_outputs({name: folder / name for name in known}, [])
    if folder.exists():
        check_writable(folder)


def _check_arrays(model: Seq2Seq, args: argparse.Namespace) -> None:
    """Check what a model of pictures or other arrays needs, and what it can't have."""
    kind = model.model.source.kind
    if args.page:
        _check.fail(f"--page needs a model of text. {args.model} is a model of {kind}.")
    if args.test is None:
        _check.fail(
            f"--test is needed for a model of {kind}: the files are compared with the model on its examples."
        )
    _check_folder(args.onnx, OF_ARRAYS, force=args.force)


def _known_lines(model: Seq2Seq, test: Path | None) -> list[_Lines]:
    """Return the held-out words of the model, if there are any, and the lines of a file."""
    found = []
    if (held_out := model.held_out) is not None:
        found.append(_Lines("held-out words", [*held_out], partial(share_wrong, held_out)))
    if test is not None:
        found.append(_read(test, model))
    return found


def _check_lines(model: Seq2Seq, every: Sequence[_Lines], *, force: bool) -> None:
    """Check the lengths of sources, and that the cost of leaving out extras can be measured."""
    for lines in every:
        for number, source in enumerate(lines.sources, 1):
            read_source(model.model.source, source, f"source {number}: ")
    if model.model.extras and not any(lines.wrong for lines in every) and not force:
        rule = f"what leaving out {_extras(model)} costs is unknown: this model has no held-out words."
        _check.fail(rule, hint="--test with targets measures it, --force does without")


def _read(path: Path, model: Seq2Seq) -> _Lines:
    """Read sources, with or without targets, or a file that the task of the model reads."""
    if (answers := task_of(model).answers(model, path)) is not None:
        return _with_targets(path, answers, model)
    numbered = enumerate(chain.from_iterable(read_lines(path)), 1)
    rows = {number: line.split("\t") for number, line in numbered if line.strip()}
    counts = {len(cells) for cells in rows.values()}
    if not rows or counts - {1, 2} or len(counts) > 1:
        got = "none" if not rows else f"{' and '.join(map(str, sorted(counts)))} columns"
        _check.fail(f"{path} must have lines of one column, or of two. Got {got} instead.")
    columns = [*zip(*rows.values(), strict=True)]
    sources: Sequence[Any] = columns[0]
    if model.model.source.reads_files:
        where = [f"{path}, line {number}" for number in rows]
        sources = loaded(columns[0], model.model.source, str(path), where)
    if counts == {1}:
        return _Lines(str(path), [*dict.fromkeys(sources)])
    return _with_targets(path, by_source(zip(sources, columns[1], strict=True)), model)


def _with_targets(path: Path, targets: Mapping[Any, list[str]], model: Seq2Seq) -> _Lines:
    """Return sources with all their right targets."""
    right = [*targets.values()]
    _, cut = metrics.unit([references[0] for references in right], model.model.target.token_type)
    wrong, errors = (
        lambda texts: 1 - metrics.exact(texts, right),
        lambda texts: metrics.error_rate(texts, right, cut=cut),
    )
    return _Lines(str(path), [*targets], wrong, errors)


def _drawn(source: Tokenizer) -> _Lines:
    """Draw lines of tokens, frequent ones more often, of 1 to 10 tokens."""
    rng, tokens = np.random.default_rng(1), source.tokens[len(SPECIAL) :] or _NO_TOKENS
    ranks = rng.geometric(min(0.5, 8 / len(tokens)), (_DRAWN, _DRAWN)) % len(tokens)
    drawn = (source.detokenize([tokens[i] for i in row[: length + 1]]) for length, row in enumerate(ranks))
    return _Lines("", list(dict.fromkeys(line for line in drawn if source.tokenize(line))) or [*_NO_TOKENS])


def _measured(model: Seq2Seq, draft: Draft, lines: _Lines) -> _Measured:
    """Answer lines with the model with all its parts, with its network alone, and with the files."""
    models = {f"with {_extras(model)}, {_BEAM}": model} if model.model.extras else {}
    models |= {f"network, {_BEAM}": _alone(model)}
    answers = {
        name: [answer.text for answer in each.translate(lines.sources)] for name, each in models.items()
    }
    files = "files with int8" if draft.quantized else "files"
    leaving = {f"{files}, greedy": 1, f"{files}, {_BEAM}": BEAM}
    return _Measured(
        lines, answers, {name: draft.translated(lines.sources, beam) for name, beam in leaving.items()}
    )


def _examples(model: Seq2Seq, measured: Sequence[_Measured], app: App) -> list[str]:
    """Return examples of the held-out sources that the files answer right."""
    if model.held_out is None:
        return []
    answers = measured[0].files
    right = [right_sources(model.held_out, answers[name]) for name in answers]
    return app.examples([source for source in right[0] if source in right[-1]])[:_EXAMPLES]


def _check_cost(measured: _Measured, *, force: bool) -> None:
    """Raise for files that make more errors than the model with all its parts, both with a beam.

    One word more of few lines is no reason, and neither is one of a hundred.
    """
    rates, count = [*measured.rates.values()], len(measured.lines.sources)
    if not force and rates[-1] - rates[0] > max(_MOST_WORSE, 1.5 / count):
        told = (
            f"{_percent(rates[-1])} of {count:,} {measured.lines.name} wrong, the model {_percent(rates[0])}"
        )
        hint = "a model without extras, or without --int8, leaves as it is; --force writes these files"
        _check.fail(f"the files leave {told}: nothing was written.", hint=hint)


def _leaving(measured: _Measured, *, int8: bool) -> dict[str, Any]:
    """Return the error rates of what leaves, for the card."""
    greedy, beam = [*measured.rates.values()][-2:]
    lines = {"lines": measured.lines.name, "count": len(measured.lines.sources), "int8": int8}
    return lines | {"wrong": {"greedy": greedy, _BEAM: beam}}


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _report(args: argparse.Namespace, model: Seq2Seq, draft: Draft, every: Sequence[_Measured]) -> str:
    """Return what was compared, the error rates, and the sizes of the files."""
    count, compared = len(draft.examples), draft.comparison
    ties = f" ({compared.ties} other answers of equal probability)" if compared.ties else ""
    answers = f"{count:,} {model.model.source.unit or 'lines'}: the answers are those of the network{ties}"
    report = [f"{answers}, log-probabilities within {compared.largest:.1g}"]
    if args.int8:
        same = sum(map(str.__eq__, draft.answers, draft.quantized))
        report.append(f"int8: {same:,} of {count:,} answers are those of float32")
    report += [_table(measured) for measured in every] or [_UNMEASURED]
    whole = model.model
    if whole.alike and whole.target.token_type in _COPYING:
        report.append(_COPIED)
    if args.page:
        report.append(_PAGE_NEEDS.format(folder=args.onnx))
    total = sum(draft.sizes.values())
    sizes = [[str(args.onnx / name), f"{size / 1e6:.2f} MB"] for name, size in draft.sizes.items()]
    return "\n\n".join([*report, align([*sizes, ["", f"{total / 1e6:.2f} MB"]])])


def _table(measured: _Measured) -> str:
    """Return a table of error rates: the model with all its parts, its network alone, and the files."""
    lines, rates = measured.lines, measured.rates
    table = [[f"{len(lines.sources):,} {lines.name}", "wrong %", *(["errors %"] if lines.errors else [])]]
    for name, texts in {**measured.model, **measured.files}.items():
        errors = [f"{100 * lines.errors(texts):.2f}"] if lines.errors else []
        table.append([name, f"{100 * rates[name]:.2f}", *errors])
    return align(table)


def _alone(model: Seq2Seq) -> Seq2Seq:
    """Return a model without its extras."""
    whole = model.model
    alone = Seq2Seq(family=model.family, source=model.source, target=model.target)
    alone._model = whole._replace(network=network_alone(whole), extras={})
    return alone


def _extras(model: Seq2Seq) -> str:
    return " and ".join(name.replace("_", " ") for name in model.model.extras)

"""The verb `export`: write a model as ONNX files, which applications run without this package."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard import _check
from regard.seq2seq.commands.loading import add_model
from regard.seq2seq.corpus.pairs import read_lines
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.evaluation import metrics
from regard.seq2seq.export.files import FILES, PAGE, VIEW, Exported, export
from regard.seq2seq.export.graph import require_onnx
from regard.seq2seq.export.network import check_exportable, network_alone
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources.text.tokenizers import Tokenizer
from regard.seq2seq.sources.text.vocabulary import SPECIAL
from regard.seq2seq.translator import check_length
from regard.show import argument_types
from regard.show.page.document import view_files
from regard.show.progress import Progress
from regard.show.terminal.text import align

__all__ = ["add_arguments", "run"]

_NO_TOKENS = ("?",)  # of an empty vocabulary: an unknown one
_COPYING = ("words", "tokens")  # of which many are unknown
_COPIED = "unknown words are copied from where each attends most: two may copy the same, which regard assigns once each"
_DRAWN = 10  # sources, where none are given
EXAMPLES = f"""\
FOLDER gets {", ".join(FILES)}: docs/onnx.md describes them. Before anything is written, the
files answer all lines of --test (without it, {_DRAWN} lines of tokens of the vocabulary) as the model does: the same
answers by greedy search and by beam, with log-probabilities within 1e-4. With targets in --test, the error rates of the
model with all its parts and of the files are printed.

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
    """Distinct sources, and the correct targets of each; an empty list where the file has no targets."""

    sources: list[str]
    targets: list[list[str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard export`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add_model(parser)
    add("--onnx", type=argument_types.path, required=True, metavar="FOLDER", help="the folder of the files")
    test = "lines to compare on: source, or source TAB target (all targets of a source are right)"
    add("--test", type=argument_types.path, metavar="FILE", help=test)
    argument_types.add_encoding(parser)
    add(
        "--page",
        action="store_true",
        help="write a page for browsers, too, which needs onnxruntime-web in FOLDER",
    )
    add("--int8", action="store_true", help="quantize the weights: a quarter of the size")
    add("--without-extras", action="store_true", help="export the network alone of a model with --extras")
    add("--force", action="store_true", help="replace files that exist in FOLDER")


def run(args: argparse.Namespace) -> int:
    """Export a model and print what was compared."""
    require_onnx()
    _check_folder(args.onnx, (*FILES, *((*PAGE, *VIEW) if args.page else ())), force=args.force)
    model = Seq2Seq.load(args.model)
    check_exportable(model.model, without_extras=args.without_extras)
    lines = _drawn(model.model.source_tokenizer) if args.test is None else _read(args.test)
    for number, source in enumerate(lines.sources, 1):
        check_length(len(model.model.source_tokenizer.tokenize(source)), f"source {number}: ")
    view = view_files("alignment") if args.page else None
    with Progress(len(lines.sources), "comparing") as progress:
        done = export(
            model.model,
            args.onnx,
            lines.sources,
            int8=args.int8,
            view=view,
            card=model.card,
            progress=progress.advance,
        )
    print(_report(args, model, lines, done))
    return 0


def _check_folder(folder: Path, names: Sequence[str], *, force: bool) -> None:
    """Check that a folder can get the files, before any work."""
    if folder.exists() and not folder.is_dir():
        _check.fail(f"--onnx needs a folder, and {folder} is a file")
    known = [name for name in names if (folder / name).exists()]
    if known and not force:
        _check.fail(f"{folder} has {known[0]} already", hint="--force replaces it")


def _read(path: Path) -> _Lines:
    """Read sources, with or without targets."""
    cells = [line.split("\t") for line in chain.from_iterable(read_lines(path)) if line.strip()]
    counts = {len(parts) for parts in cells}
    if not cells or counts - {1, 2} or len(counts) > 1:
        got = "none" if not cells else f"{' and '.join(map(str, sorted(counts)))} columns"
        _check.fail(f"{path} must have lines of one column, or of two. Got {got} instead.")
    targets: dict[str, list[str]] = {}
    for source, *target in cells:
        targets.setdefault(source, []).extend(target)
    return _Lines(list(targets), list(targets.values()) if counts == {2} else [])


def _drawn(source: Tokenizer) -> _Lines:
    """Draw lines of tokens, frequent ones more often, of 1 to 10 tokens."""
    rng, own = np.random.default_rng(1), source.tokens[len(SPECIAL) :] or _NO_TOKENS
    ranks = rng.geometric(min(0.5, 8 / len(own)), (_DRAWN, _DRAWN)) % len(own)
    drawn = (source.detokenize([own[i] for i in row[: length + 1]]) for length, row in enumerate(ranks))
    return _Lines(list(dict.fromkeys(line for line in drawn if source.tokenize(line))) or [*_NO_TOKENS], [])


def _report(args: argparse.Namespace, model: Seq2Seq, lines: _Lines, done: Exported) -> str:
    """Return what was compared, the error rates, and the sizes of the files."""
    count, compared = len(lines.sources), done.comparison
    ties = f" ({compared.ties} other answers of equal probability)" if compared.ties else ""
    report = [
        f"{count:,} lines: the answers are those of the network{ties}, log-probabilities within {compared.largest:.1g}"
    ]
    if args.int8:
        same = sum(map(str.__eq__, done.answers, done.quantized))
        report.append(f"int8: {same:,} of {count:,} answers are those of float32")
    if lines.targets:
        report.append(_error_rates(model, lines, done))
    elif model.model.extras:
        report.append(f"what leaving out {_extras(model)} costs is measured with --test, if it has targets")
    whole = model.model
    if model.attention and whole.repetitions is None and whole.target.token_type in _COPYING:
        report.append(_COPIED)
    if args.page:
        report.append(_PAGE_NEEDS.format(folder=args.onnx))
    total = sum(done.sizes.values())
    sizes = [[str(args.onnx / name), f"{size / 1e6:.2f} MB"] for name, size in done.sizes.items()]
    return "\n\n".join([*report, align([*sizes, ["", f"{total / 1e6:.2f} MB"]])])


def _error_rates(model: Seq2Seq, lines: _Lines, done: Exported) -> str:
    """Return a table of error rates: the model with all its parts, its network alone, and the files."""
    rows = {f"network, beam {BEAM}": _alone(model).translate(lines.sources)}
    if model.model.extras:
        rows = {f"with {_extras(model)}, beam {BEAM}": model.translate(lines.sources)} | rows
    answers = {name: [one.text for one in translations] for name, translations in rows.items()}
    answers |= {"files, greedy": done.answers}
    answers |= {"files with int8, greedy": done.quantized} if done.quantized else {}
    unit, cut = metrics.unit([targets[0] for targets in lines.targets], model.model.target.token_type)
    table = [["", "exact %", f"errors % ({unit})"]]
    for name, texts in answers.items():
        exact, errors = metrics.exact(texts, lines.targets), metrics.error_rate(texts, lines.targets, cut=cut)
        table.append([name, f"{100 * exact:.2f}", f"{100 * errors:.2f}"])
    return align(table)


def _alone(model: Seq2Seq) -> Seq2Seq:
    """Return a model without its extras."""
    whole = model.model
    alone = Seq2Seq(family=model.family, source=model.source, target=model.target)
    alone._model = whole._replace(network=network_alone(whole), extras={})
    return alone


def _extras(model: Seq2Seq) -> str:
    return " and ".join(name.replace("_", " ") for name in model.model.extras)

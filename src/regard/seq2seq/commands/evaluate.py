"""The verb `evaluate`: measure models on test pairs."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from regard import _files
from regard.seq2seq.alignment.links import Gold, word_numbers
from regard.seq2seq.commands import drawing, linked
from regard.seq2seq.commands.columns import add_columns, check_one_file
from regard.seq2seq.commands.examples import example_path, loaded
from regard.seq2seq.commands.labels import given_names, names_of
from regard.seq2seq.commands.link_files import (
    LINKS_FROM,
    LineLinks,
    check_range,
    read_counted,
    warn_if_from_one,
)
from regard.seq2seq.commands.loading import Unseen, add_ensemble, load_all, word_links
from regard.seq2seq.commands.options import check_needs, check_outputs, check_standard_input, first_given
from regard.seq2seq.data.array_sources import ArraySource, Images, Loaded, Vectors
from regard.seq2seq.data.arrays import file_of
from regard.seq2seq.data.normalization import Normalization, normalize
from regard.seq2seq.data.parallel_text import memoized, read_lines, read_pairs
from regard.seq2seq.data.tokenizers import Sentence, Tokenizer
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.evaluation import metrics
from regard.seq2seq.evaluation.metrics import LengthRow, LinkScore, Reference, SacrebleuScore
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import Translator, check_length
from regard.show import argument_types, figures
from regard.show.figures.figure import check_picture, warned
from regard.show.progress import Progress
from regard.show.terminal import align, clean, display_width, fit, note

__all__ = ["add_arguments", "run"]

_BLOCK = 256  # sentences between two updates of the progress bar
_LONGEST_NAME = 32
EXAMPLES = """\
Measures, for all lines and by the length of the source:
  BLEU, chrF     by sacrebleu, in percent
  exact %        lines that equal their reference; where a line is a word, 100 minus this is the word error rate
  errors %       tokens to insert, delete or replace, per 100 tokens of the references; tokens are separated by spaces,
                 or are characters where most references have no space (phonemes: the phoneme error rate)
  AER %          alignment error rate against links in Pharaoh format (0-0 1-2 2?3, source first, ? for possible),
                 with precision and recall
"copying the source" measures the sources themselves as translations; it is printed if it comes near to a model.

examples:
  regard evaluate model test.tsv.gz
  regard evaluate with test.tsv --compare without --png by-length.png
  regard evaluate one test.tsv --ensemble two --ensemble three --compare one
  regard evaluate model words.tsv --alternatives        several references, one a line
  regard evaluate --hypotheses mine.txt --references theirs.txt
  regard evaluate --links mine.txt theirs.txt --gold by-hand.txt
"""


class _Column(NamedTuple):
    """A measure as a column of a table."""

    title: str
    factor: float
    measure: Callable[[Sequence[str], Sequence[Reference]], float | SacrebleuScore]

    def number(self, lines: Sequence[str], references: Sequence[Reference]) -> float:
        """Return the measure without its signature."""
        measured = self.measure(lines, references)
        return measured.score if isinstance(measured, SacrebleuScore) else measured

    def cell(self, number: float) -> str:
        """Return the cell of a number in a table."""
        return "-" if math.isnan(number) else f"{self.factor * number:.1f}"


class _Test(NamedTuple):
    """The test set: N items with one or several references each."""

    name: str
    sources: list[str] | None
    references: list[Reference]
    token_types: tuple[str | None, str | None] = (
        None,
        None,
    )  # of source and target, if there is a model
    examples: list[Loaded] | None = None  # the sources, where these are arrays

    @property
    def inputs(self) -> list[str] | list[Loaded]:
        """Return the inputs of the models."""
        return self.measured_side[1] if self.examples is None else self.examples

    @property
    def targets(self) -> list[str]:
        """Return one reference of each item."""
        return [reference if isinstance(reference, str) else reference[0] for reference in self.references]

    def normalized(self, form: Normalization) -> _Test:
        """Return the test set with references in the Unicode normalization of a model."""

        def of(reference: Reference) -> Reference:
            if isinstance(reference, str):
                return normalize(reference, form)
            return [normalize(one, form) for one in reference]

        return self if form == "none" else self._replace(references=list(map(of, self.references)))

    @property
    def measured_side(self) -> tuple[str, list[str]]:
        """Return the side whose lengths are reported, and its lines."""
        return ("reference", self.targets) if self.sources is None else ("source", self.sources)

    @property
    def length_unit(self) -> tuple[str, Callable[[str], list[str]]]:
        """Return the unit of lengths, and the function that cuts a line into units."""
        return metrics.unit(self.measured_side[1], self.token_types[self.sources is None])

    @property
    def error_unit(self) -> tuple[str, Callable[[str], list[str]]]:
        """Return the unit of errors, and the function that cuts a line into units."""
        return metrics.unit(self.targets, self.token_types[1])


class _Result(NamedTuple):
    """The measures of one model, or of one file of hypotheses."""

    name: str
    scores: dict[str, float]
    signatures: dict[str, str]
    rows: list[LengthRow]
    links: LinkScore | None


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
    add(
        "--alternatives",
        action="store_true",
        help="merge lines of TEST with the same source into one item with several references, of which the best counts",
    )
    _add_references(parser)
    _add_output(parser)


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
        type=int,
        choices=(0, 1),
        help="the number of the first word in --gold (default 0)",
    )
    add("--by", choices=("words", "tokens"), help="what the numbers in --gold count (default words)")
    add(
        "--links",
        **_FILES,
        metavar="FILE",
        help="measure files of word alignments instead of models, with --gold",
    )
    add(
        LINKS_FROM,
        type=int,
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
        choices=("bleu", "chrf", "exact", "errors"),
        help="measure to draw and to compare by length (default bleu; errors for words and short lines)",
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


def run(args: argparse.Namespace) -> int:
    """Translate, measure and print."""
    if args.links:
        return linked.run(args)
    _check_options(args)
    test = _read_test(args)
    gold = None if args.gold is None else _read_gold(args, len(test.references))
    names = _names(args)
    models: list[Translator] = []
    if not args.hypotheses:  # all models, before the first translates
        models = [load_all(args.model, args.ensemble, arrays=None), *map(Seq2Seq.load, args.compare)]
        test = _for_models(args, test, models)
    columns = _columns(test, args.tokenize)
    key = _headline(args.measure, columns, test)
    results = []
    for name, (lines, links, form) in zip(names, _outputs(args, models, test, gold, names), strict=True):
        results.append(_result(name, lines, links, columns, test.normalized(form)))
    copied = _copying(test, models, columns)
    print(_report(args, test, columns, key, results, copied), flush=True)
    if args.json:
        _write_json(args, test, results, copied)
    if args.png:
        with warned(args.png):
            _draw(args.png, columns[key], key, test, results)
    return 0


def _for_models(args: argparse.Namespace, test: _Test, models: Sequence[Translator]) -> _Test:
    """Return the test set with the token types of the models, or with its sources read as arrays."""
    source, target = models[0].model.source, models[0].model.target.token_type
    if len({_layout(model.model.source) for model in models}) > 1:
        raise ValueError("the models to compare must all read text, or arrays of the same size")
    if not isinstance(source, ArraySource):
        return test._replace(token_types=(source.token_type, target))
    if args.gold:
        raise ValueError(f"--gold has links between words: {args.model} reads {source.token_type}")
    paths = [example_path(str(args.test), name) for name in test.sources or []]
    check_outputs(_outputs_of(args), [Path(file_of(path)) for path in paths])
    examples = loaded(paths, source, [f"{test.name}, source {i}" for i in range(1, len(paths) + 1)])
    return test._replace(sources=None, token_types=(None, target), examples=examples)


def _layout(source: Tokenizer | ArraySource) -> tuple[Any, ...]:
    """Return the properties of a source in which the models to compare must agree."""
    if isinstance(source, Images):
        return (source,)
    return ("vectors", source.size, source.positions) if isinstance(source, Vectors) else ("text",)


# ----------------------------------------------------------------------------------------------- arguments and files


# Options of text without a model, and of models; then (option, the option that it needs, the reason).
_TEXT_OPTIONS = ("--references", "--sources")
_MODEL_OPTIONS = (
    *("MODEL", "--ensemble", "--compare", "--gold"),
    *("--columns", "--alternatives", "--beam"),
)
_NEEDS = (
    ("--hypotheses", "--references", ""),
    ("--posterior", "--gold", "it is about links"),
    ("--gold-from", "--gold", "it is the number of the first word there"),
    ("--by", "--gold", "it is the unit of the numbers there"),
    (LINKS_FROM, "--links", ""),
)


def _check_options(args: argparse.Namespace) -> None:
    """Check which arguments go together, which argparse cannot do."""
    if args.hypotheses:
        if option := first_given(args, _MODEL_OPTIONS):
            raise ValueError(f"give a model or --hypotheses, not both: {option} goes with a model")
    elif option := first_given(args, _TEXT_OPTIONS):
        raise ValueError(f"{option} goes with --hypotheses")
    elif args.test is None:
        hint = "; --compare takes all names after it" * bool(args.compare)
        raise ValueError(f"give MODEL and TEST, or --hypotheses and --references{hint}")
    check_needs(args, _NEEDS)
    check_one_file(args.columns, [args.test], "TEST")
    if args.gold and args.alternatives:
        raise ValueError("--gold has links for each line of TEST, --alternatives merges lines: give one")
    _check_files(args)


def _check_files(args: argparse.Namespace) -> None:
    """Check the files that are read and written."""
    texts = args.test, args.gold, args.sources, *(args.hypotheses or ()), *(args.references or ())
    inputs = list(filter(None, texts))
    models = [path for path in (args.model, *args.ensemble, *args.compare) if path]
    if args.png:
        check_picture(args.png)
    check_outputs(_outputs_of(args), [*inputs, *models, *map(model_file, models)])
    check_standard_input(inputs)


def _outputs_of(args: argparse.Namespace) -> dict[str, Path | None]:
    return {"--json": args.json, "--png": args.png}


def _read_test(args: argparse.Namespace) -> _Test:
    if args.hypotheses:
        files = [_lines(path) for path in args.references]
        _same_length([*args.references], files)
        sources = None if args.sources is None else _lines(args.sources)
        if sources is not None:
            _same_length([args.references[0], args.sources], [files[0], sources])
        return _Test(_display_name(args.references[0]), sources, list(zip(*files, strict=True)))
    pairs = [tuple(map(Sentence, pair)) for pair in read_pairs(args.test, columns=args.columns)]
    targets: dict[str, list[str]] = {}
    for source, target in pairs:
        targets.setdefault(source, []).append(target)
    if args.alternatives:
        return _Test(_display_name(args.test), list(targets), list(targets.values()))
    if several := sum(len(set(each)) > 1 for each in targets.values()):
        note(f"sources with several targets: {several}; with --alternatives each of them counts as right")
    return _Test(_display_name(args.test), [source for source, _ in pairs], [target for _, target in pairs])


def _display_name(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _lines(path: Path) -> list[str]:
    shared: Callable[[str], str] = memoized(str)  # equal lines share their memory
    return list(map(shared, chain.from_iterable(read_lines(path))))


def _same_length(paths: Sequence[Path], files: Sequence[Sequence[object]]) -> None:
    for path, lines in zip(paths, files, strict=True):
        if len(lines) != len(files[0]):
            raise ValueError(f"{path} must have {len(files[0])} lines, like {paths[0]}. It has {len(lines)}.")
    if not files[0]:
        raise ValueError(f"{paths[0]} is empty")


def _names(args: argparse.Namespace) -> list[str]:
    """Return a short name for each model: from --names, or from the files."""
    paths = [(path,) for path in args.hypotheses or [args.model, *args.compare]]
    paths[0] += tuple(args.ensemble)
    if args.names:
        return given_names(args.names, len(paths))
    if len({tuple(_files.real(model_file(path)) for path in several) for several in paths}) < len(paths):
        raise ValueError("the models to compare must be different files")
    distinct = list({path for several in paths for path in several})
    short = dict(zip(distinct, names_of(distinct), strict=True))
    return [" + ".join(map(short.__getitem__, several)) for several in paths]


def _shown_name(name: str) -> str:
    return fit(name, min(display_width(name), _LONGEST_NAME))


# ------------------------------------------------------------------------------------------------ measures


def _columns(test: _Test, tokenize: str) -> dict[str, _Column]:
    """Return the measures that can be computed."""
    _, cut = test.error_unit
    columns: dict[str, _Column] = {}
    if find_spec("sacrebleu") is None:
        note(drawing.missing_extras("sacrebleu"))
    else:
        columns["bleu"] = _Column("BLEU", 1, lambda h, r: metrics.bleu(h, r, tokenize=tokenize))
        columns["chrf"] = _Column("chrF", 1, metrics.chrf)
    columns["exact"] = _Column("exact %", 100, metrics.exact)
    columns["errors"] = _Column("errors %", 100, lambda h, r: metrics.error_rate(h, r, cut=cut))
    return columns


def _headline(requested: str | None, columns: dict[str, _Column], test: _Test) -> str:
    if requested is not None and requested not in columns:
        raise ImportError(f'--measure {requested} needs sacrebleu: pip install "regard[cli]"')
    best = metrics.headline(test.measured_side[1], test.targets)
    return requested or (best if best in columns else "errors")


def _copying(
    test: _Test, models: Sequence[Translator], columns: dict[str, _Column]
) -> dict[str, float] | None:
    """Measure the sources as translations, which is a baseline."""
    if test.sources is None:
        return None
    form: Normalization = models[0].model.target.normalization if models else "none"
    lines, references = [normalize(source, form) for source in test.sources], test.normalized(form).references
    return {key: column.number(lines, references) for key, column in columns.items()}


def _outputs(
    args: argparse.Namespace,
    models: Sequence[Translator],
    test: _Test,
    gold: list[Gold] | None,
    names: Sequence[str],
) -> Iterable[tuple[list[str], LinkScore | None, Normalization]]:
    """Yield the translations, the score of links, and the Unicode normalization of each model."""
    if args.hypotheses:
        hypotheses = list(map(_lines, args.hypotheses))
        _same_length([args.references[0], *args.hypotheses], [test.references, *hypotheses])
        yield from ((lines, None, "none") for lines in hypotheses)
        return
    if gold is not None and not all(model.attention for model in models):
        raise ValueError("--gold needs attention: one of the models was trained without")
    unseen = Unseen()
    for model in models:
        if test.examples is None:
            _check_lengths(test, "source", test.measured_side[1], model.model.source_tokenizer, unseen)
        if gold is not None:
            _check_lengths(test, "target", test.targets, model.model.target)
            _check_gold(args, model, test, gold)
            # Raises for a model without a posterior, before all pairs are translated.
            model.align(test.measured_side[1][:1], test.targets[:1], posterior=args.posterior)
    if gold is not None:
        warn_if_from_one(args.gold, [links.possible for links in gold], args.gold_from, "--gold-from")
    for name, model in zip(names, models, strict=True):
        lines = _translated(model, test, args.beam or BEAM, name)
        links = None
        if gold is not None:
            links = _link_score(model, test, gold, name, args)
        yield lines, links, model.model.target.normalization


def _check_lengths(
    test: _Test, side: str, lines: Sequence[str], tokenizer: Tokenizer, unseen: Unseen | None = None
) -> None:
    """Check the lengths of all lines before the first is translated; warn of symbols that the model has never seen."""
    for number, line in enumerate(lines, 1):
        tokens, location = tokenizer.cut(line), f"{test.name}, {side} {number}"
        check_length(len(tokens), f"{location}: ")
        if unseen is not None:
            unseen.check(tokenizer, tokens, location)


def _blocks(lines: Sequence[str], name: str) -> Iterator[list[int]]:
    """Yield the indices of lines in blocks of similar lengths, and print the progress."""
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
    with Progress(len(lines), name) as progress:
        for start in range(0, len(lines), _BLOCK):
            block = order[start : start + _BLOCK]
            yield block
            progress.advance(len(block))


def _translated(model: Translator, test: _Test, beam: int, name: str) -> list[str]:
    sources = test.inputs
    texts = [""] * len(sources)
    for block in _blocks(sources, f"translating ({name})"):
        for i, translation in zip(
            block, model.translate([sources[i] for i in block], beam=beam), strict=True
        ):
            texts[i] = translation.text
    return texts


def _result(
    name: str, lines: list[str], links: LinkScore | None, columns: dict[str, _Column], test: _Test
) -> _Result:
    """Measure all lines, and groups of similar lengths."""
    measured = {key: column.measure(lines, test.references) for key, column in columns.items()}
    signatures = {
        key: value.signature for key, value in measured.items() if isinstance(value, SacrebleuScore)
    }
    scores = {
        key: value.score if isinstance(value, SacrebleuScore) else value for key, value in measured.items()
    }
    _, sides = test.measured_side
    _, cut = test.length_unit
    measures = {key: column.number for key, column in columns.items()}
    rows = metrics.by_length([len(cut(line)) for line in sides], lines, test.references, measures)
    return _Result(name, scores, signatures, rows, links)


def _read_gold(args: argparse.Namespace, count: int) -> list[Gold]:
    gold = read_counted(args.gold, args.gold_from, "--gold-from")
    if len(gold) != count:
        raise ValueError(f"{args.gold} must have a line for each of the {count} pairs. It has {len(gold)}.")
    if not any(links.possible for links in gold):
        raise ValueError(f"{args.gold} has no links: there is nothing to compare with")
    return gold


def _check_gold(args: argparse.Namespace, model: Translator, test: _Test, gold: Sequence[Gold]) -> None:
    """Check that the reference links are between words of the pairs."""
    tokenizers = model.model.source_tokenizer, model.model.target
    for number, (links, *pair) in enumerate(zip(gold, test.measured_side[1], test.targets, strict=True), 1):
        if links.possible:
            source, target = (_link_units(t, side, args.by) for t, side in zip(tokenizers, pair, strict=True))
            line, first = LineLinks(number, links.possible), args.gold_from or 0
            by = args.by or "words"
            check_range(args.gold, line, (source, target), by, first=first, option="--gold-from")


def _link_units(tokenizer: Tokenizer, side: str, by: str | None) -> list[int]:
    """Return the number in --gold of each token of a side."""
    tokens = tokenizer.cut(side)
    return list(range(len(tokens))) if by == "tokens" else word_numbers(tokens, tokenizer.glue)


def _link_score(
    model: Translator, test: _Test, gold: Sequence[Gold], name: str, args: argparse.Namespace
) -> LinkScore:
    """Compare the links of a model, by forced decoding of the targets, with the reference links."""
    sources, targets = test.measured_side[1], test.targets
    predicted: list[frozenset[tuple[int, int]]] = [frozenset() for _ in sources]
    for block in _blocks(sources, f"aligning ({name})"):
        aligned = model.align(
            [sources[i] for i in block], [targets[i] for i in block], posterior=args.posterior
        )
        for i, translation in zip(block, aligned, strict=True):
            predicted[i] = word_links(model, translation, args.by or "words")
    return metrics.alignment_error_rate(predicted, [g.sure for g in gold], [g.possible for g in gold])


# ---------------------------------------------------------------------------------------------------- output


def _report(
    args: argparse.Namespace,
    test: _Test,
    columns: dict[str, _Column],
    key: str,
    results: Sequence[_Result],
    copied: dict[str, float] | None,
) -> str:
    """Return the report: tables and notes."""
    side, lines = test.measured_side
    search = "" if args.hypotheses else f", beam {args.beam or BEAM}"
    titles = [column.title for column in columns.values()]
    totals = [[column.cell(result.scores[k]) for k, column in columns.items()] for result in results]
    if args.gold:
        titles += ["AER %", "precision %", "recall %"]
        totals = [row + _percents(result.links) for row, result in zip(totals, results, strict=True)]
    names = [_shown_name(result.name) for result in results]
    if copied is not None and any(metrics.is_near(copied, result.scores) for result in results):
        names.append("copying the source")
        totals.append(
            [column.cell(copied[k]) for k, column in columns.items()] + ["-"] * (3 * bool(args.gold))
        )
    blocks = [
        f"{len(lines):,} {_items(test)} of {clean(test.name)}{search}",
        _table(["", *titles], [[name, *row] for name, row in zip(names, totals, strict=True)]),
        _by_length(columns, key, results, f"{test.length_unit[0]} in the {side}"),
        "\n".join(_notes(test, columns, results[0])),
    ]
    return "\n\n".join(blocks)


def _items(test: _Test) -> str:
    return "item" if len(test.references) == 1 else "items"


def _percents(links: LinkScore | None) -> list[str]:
    return [f"{100 * number:.1f}" for number in links or ()]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table: the first column left-aligned, numbers right-aligned."""
    width = max(display_width(row[0]) for row in [head, *rows])
    return align([[fit(row[0], max(width, 1)), *row[1:]] for row in [head, *rows]])


def _by_length(columns: dict[str, _Column], key: str, results: Sequence[_Result], along: str) -> str:
    """Return a table by length: all measures of one model, or one measure of several."""
    rows = results[0].rows
    if len(results) == 1:
        head = [column.title for column in columns.values()]
        cells = [[column.cell(row.scores[k]) for k, column in columns.items()] for row in rows]
        title = f"by {along}"
    else:
        head = [_shown_name(result.name) for result in results]
        cells = [
            [columns[key].cell(result.rows[i].scores[key]) for result in results] for i in range(len(rows))
        ]
        title = f"{columns[key].title} by {along}"
    table = [[_range(row), f"{row.sentences:,}", *line] for row, line in zip(rows, cells, strict=True)]
    return f"{title}\n{_table(['length', 'items', *head], table)}"


def _range(row: LengthRow) -> str:
    return f"{row.shortest}" if row.shortest == row.longest else f"{row.shortest}-{row.longest}"


def _notes(test: _Test, columns: dict[str, _Column], result: _Result) -> list[str]:
    """Return notes on how the numbers were computed."""
    unit, _ = test.error_unit
    tokens = "characters" if unit == "characters" else "tokens between blanks"
    definition = f"errors: edits for 100 {tokens} of the references; exact: lines without an error"
    signatures = [f"{columns[key].title}: {signature}" for key, signature in result.signatures.items()]
    rows = [result.scores, *(row.scores for row in result.rows)]
    undefined = ["BLEU: - where no reference has four words"] * any(
        math.isnan(row.get("bleu", 0.0)) for row in rows
    )
    return [definition, *undefined, *signatures]


def _draw(path: Path, column: _Column, key: str, test: _Test, results: Sequence[_Result]) -> None:
    rows = results[0].rows
    side, _ = test.measured_side
    figures.save(
        path,
        figures.by_length(
            [_range(row) for row in rows],
            {result.name: [column.factor * row.scores[key] for row in result.rows] for result in results},
            [row.sentences for row in rows],
            measure=column.title,
            along=f"{test.length_unit[0]} in the {side}",
        ),
    )


def _without_nan(scores: dict[str, float]) -> dict[str, float | None]:
    """Return scores for JSON, which has no NaN."""
    return {name: None if math.isnan(score) else score for name, score in scores.items()}


def _write_json(
    args: argparse.Namespace, test: _Test, results: Sequence[_Result], copied: dict[str, float] | None
) -> None:
    models: list[dict[str, Any]] = [
        {
            "name": result.name,
            **_without_nan(result.scores),
            **({} if result.links is None else {"links": result.links._asdict()}),
            "signatures": result.signatures,
            "by_length": [
                {
                    "shortest": row.shortest,
                    "longest": row.longest,
                    "items": row.sentences,
                    **_without_nan(row.scores),
                }
                for row in result.rows
            ],
        }
        for result in results
    ]
    side, _ = test.measured_side
    content = {
        "test": clean(test.name),
        "items": len(test.references),
        "beam": None if args.hypotheses else args.beam or BEAM,
        "length": f"{test.length_unit[0]} in the {side}",
        **({} if copied is None else {"copying": _without_nan(copied)}),
        "models": models,
    }
    with _files.replacing(args.json) as file:
        file.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())

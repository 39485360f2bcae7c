"""The verb `evaluate`: how good models are, on pairs they have not seen."""

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
from regard._check import replaceable
from regard.seq2seq.alignment.links import Gold, word_numbers
from regard.seq2seq.commands import drawing as pictures
from regard.seq2seq.commands import linked
from regard.seq2seq.commands.columns import add_columns, check_one_file
from regard.seq2seq.commands.labels import names_of
from regard.seq2seq.commands.link_files import LINKS_FROM, Line, check_range, read_counted, warn_of_one
from regard.seq2seq.commands.loading import Unseen, add_ensemble, found_links, load_all
from regard.seq2seq.data.normalization import Normalization, normalize
from regard.seq2seq.data.parallel_text import read_lines, read_pairs
from regard.seq2seq.data.tokenizers import Sentence, Tokenizer
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.evaluation import metrics as measure
from regard.seq2seq.evaluation.metrics import LinkScore, Reference, Row, Score
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import Translator, check_length
from regard.show import chart, numbers
from regard.show.canvas import check_picture, warned
from regard.show.progress import Progress
from regard.show.terminal import align, clean, display_width, fit, note

__all__ = ["add_arguments", "run"]

_TOGETHER = 256  # sentences between two signs of progress
_LONGEST_NAME = 32
EXAMPLES = """\
What is measured, on the whole and for sources of each length:
  BLEU, chrF     sacrebleu's, in percent
  exact %        lines that are right as a whole; where a line is a word, 100 minus this is the word error rate
  errors %       tokens to insert, delete or replace, for 100 tokens of the references; tokens stand between blanks, or
                 are characters where most references have no blank (phonemes: the phoneme error rate)
                 with the sources themselves as translations ("copying the source") where they are not far below
  AER %          alignment error rate against links in Pharaoh's format (0-0 1-2 2?3, source first, ? for possible);
                 precision and recall beside it

examples:
  regard evaluate model test.tsv.gz
  regard evaluate with test.tsv --compare without --png by-length.png
  regard evaluate one test.tsv --ensemble two --ensemble three --compare one
  regard evaluate model words.tsv --alternatives        several right answers, each on a line of its own
  regard evaluate --hypotheses mine.txt --references theirs.txt
  regard evaluate --links mine.txt theirs.txt --gold by-hand.txt
"""


class _Column(NamedTuple):
    """A measure, and how it is shown."""

    title: str
    factor: float
    measure: Callable[[Sequence[str], Sequence[Reference]], float | Score]

    def number(self, lines: Sequence[str], references: Sequence[Reference]) -> float:
        """The measure without its signature."""
        found = self.measure(lines, references)
        return found.score if isinstance(found, Score) else found

    def shown(self, number: float) -> str:
        """How a number stands in a table."""
        return "-" if math.isnan(number) else f"{self.factor * number:.1f}"


class _Test(NamedTuple):
    """What is right: N items with one reference or several each."""

    name: str
    sources: list[str] | None
    references: list[Reference]
    kinds: tuple[str | None, str | None] = (
        None,
        None,
    )  # what a token is on either side, where there is a model

    @property
    def right(self) -> list[str]:
        """One reference of each item."""
        return [reference if isinstance(reference, str) else reference[0] for reference in self.references]

    def formed(self, form: Normalization) -> _Test:
        """Return the same with references in the form of letters that a model writes."""

        def of(reference: Reference) -> Reference:
            if isinstance(reference, str):
                return normalize(reference, form)
            return [normalize(one, form) for one in reference]

        return self if form == "none" else self._replace(references=list(map(of, self.references)))

    @property
    def measured(self) -> tuple[str, list[str]]:
        """What the lengths are taken from."""
        return ("reference", self.right) if self.sources is None else ("source", self.sources)

    @property
    def length(self) -> tuple[str, Callable[[str], list[str]]]:
        """What lengths are counted in, and what cuts a line into it."""
        return measure.unit(self.measured[1], self.kinds[self.sources is None])

    @property
    def edited(self) -> tuple[str, Callable[[str], list[str]]]:
        """What errors are counted in, and what cuts a line into it."""
        return measure.unit(self.right, self.kinds[1])


class _Result(NamedTuple):
    """What one model, or one file of hypotheses, came to."""

    name: str
    scores: dict[str, float]
    signatures: dict[str, str]
    rows: list[Row]
    links: LinkScore | None


# Files after an option; where it is given twice, all of them count.
_FILES: dict[str, Any] = {"nargs": "+", "type": numbers.place, "action": "extend"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard evaluate`.

    Parameters
    ----------
    parser
        The verb's parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> parser.parse_args(["model.safetensors", "test.tsv", "--beam", "3"]).beam
    3
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add(
        "model",
        nargs="?",
        type=numbers.place,
        metavar="MODEL",
        help="a model file from regard train, or its folder",
    )
    add(
        "test",
        nargs="?",
        type=numbers.place,
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
        help="more models (all names that follow), on the same pairs",
    )
    add(
        "--beam",
        type=numbers.whole(most=numbers.BEAMS),
        metavar="N",
        help=f"hypotheses followed at a time (default {BEAM})",
    )
    add(
        "--alternatives",
        action="store_true",
        help="lines of TEST with the same source are one item with several right answers: the best counts",
    )
    _add_right(parser)
    _add_output(parser)


def _add_right(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--gold",
        type=numbers.place,
        metavar="FILE",
        help="links between the words of each line of TEST, for AER",
    )
    add(
        "--gold-from",
        type=int,
        choices=(0, 1),
        help="the number of the first word in --gold (default 0)",
    )
    add("--by", choices=("words", "tokens"), help="what is counted in --gold (default words)")
    add("--links", **_FILES, metavar="FILE", help="measure files of links instead of models, with --gold")
    add(
        LINKS_FROM,
        type=int,
        choices=(0, 1),
        help="the number of the first word in --links (default 0)",
    )
    add("--posterior", action="store_true", help="link by where each word was taken from, as in regard align")
    add("--hypotheses", **_FILES, metavar="FILE", help="measure lines of text instead of models")
    add("--references", **_FILES, metavar="FILE", help="what is right; several files: all are")
    add(
        "--sources",
        type=numbers.place,
        metavar="FILE",
        help="what the hypotheses were made from, for its lengths",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--names",
        nargs="+",
        type=numbers.name,
        action="extend",
        metavar="NAME",
        help="what the models are called in tables and pictures",
    )
    add(
        "--measure",
        choices=("bleu", "chrf", "exact", "errors"),
        help="what is drawn, and compared by length (default bleu; errors for words and what is short)",
    )
    add(
        "--tokenize",
        choices=("13a", "zh", "char", "none", "intl"),
        default="13a",
        help="how sacrebleu finds words for BLEU (default 13a)",
    )
    add("--png", type=numbers.place, metavar="FILE", help="draw the measure by length (.png, .svg, .pdf)")
    add(
        "--json",
        type=numbers.place,
        metavar="FILE",
        help="write all numbers there; error rates and shares from 0 to 1; null for BLEU where it says nothing",
    )


def run(args: argparse.Namespace) -> int:
    """Translate, measure and show.

    Parameters
    ----------
    args
        What the parser found.

    Returns
    -------
    int
        0.

    Raises
    ------
    ValueError, OSError
        If an argument or a file is not what it should be.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> run(parser.parse_args(["no-such-file", "neither"]))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'neither'
    """
    if args.links:
        return linked.run(args)
    _check(args)
    test = _read_test(args)
    gold = None if args.gold is None else _read_gold(args, len(test.references))
    names = _names(args)
    models: list[Translator] = []
    if not args.hypotheses:  # all of them, before minutes of work
        models = [load_all(args.model, args.ensemble), *map(Seq2Seq.load, args.compare)]
        first = models[0].model
        test = test._replace(kinds=(first.source.token_type, first.target.token_type))
    columns = _columns(test, args.tokenize)
    key = _headline(args.measure, columns, test)
    results = []
    for name, (lines, links, form) in zip(names, _systems(args, models, test, gold, names), strict=True):
        results.append(_measured(name, lines, links, columns, test.formed(form)))
    copied = _copied(test, models, columns)
    print(_told(args, test, columns, key, results, copied), flush=True)
    if args.json:
        _write_json(args, test, results, copied)
    if args.png:
        with warned(args.png):
            _draw(args.png, columns[key], key, test, results)
    return 0


# ---------------------------------------------------------------------------------------------------- what is given


def _check(args: argparse.Namespace) -> None:
    """Check what argparse can't: which arguments go together."""
    of_lines = {"--references": args.references, "--sources": args.sources}
    of_models = {
        "MODEL": args.model,
        "--ensemble": args.ensemble,
        "--compare": args.compare,
        "--gold": args.gold,
    }
    if args.hypotheses:
        of_models |= {"--columns": args.columns, "--alternatives": args.alternatives, "--beam": args.beam}
        wrong = [name for name, value in of_models.items() if value]
        if wrong:
            raise ValueError(f"give a model or --hypotheses, not both: {wrong[0]} goes with a model")
        if not args.references:
            raise ValueError("--hypotheses need --references")
    else:
        wrong = [f"{name} goes with --hypotheses" for name, value in of_lines.items() if value]
        if wrong or args.test is None:
            taken = "; --compare takes all names behind it" * bool(args.compare)
            raise ValueError(
                wrong[0] if wrong else f"give MODEL and TEST, or --hypotheses and --references{taken}"
            )
    check_one_file(args.columns, [args.test], "TEST")
    _check_links(args)
    for path in filter(None, (args.png, args.json)):
        if not path.parent.is_dir():  # said before the work, not after it
            raise ValueError(f"{path}: there is no folder {path.parent}")
        replaceable(path)
    if args.png:
        check_picture(args.png)
    _check_apart(args)
    if sum(str(path) == "-" for path in _read_files(args)) > 1:
        raise ValueError("only one file can be standard input")


def _check_links(args: argparse.Namespace) -> None:
    """Check the options that are about links."""
    if args.posterior and not args.gold:
        raise ValueError("--posterior needs --gold: it is about links")
    if args.gold_from is not None and not args.gold:
        raise ValueError("--gold-from needs --gold: it is how words are counted there")
    if args.by and not args.gold:
        raise ValueError("--by needs --gold: it is what is counted there")
    if args.links_from is not None:
        raise ValueError(f"{LINKS_FROM} needs --links")
    if args.gold and args.alternatives:
        raise ValueError(
            "--gold has links for each line of TEST, --alternatives puts lines together: give one"
        )


def _read_files(args: argparse.Namespace) -> list[Path]:
    """Return all files that are read, but not models."""
    given = [args.test, args.gold, args.sources, *(args.hypotheses or ()), *(args.references or ())]
    return [path for path in given if path]


def _check_apart(args: argparse.Namespace) -> None:
    """Refuse to write over what is read, or over what else is written."""
    models = [path for path in (args.model, *args.ensemble, *args.compare) if path]
    taken = {path.resolve() for path in (*_read_files(args), *models, *map(model_file, models))}
    for path in filter(None, (args.png, args.json)):
        if path.resolve() in taken:
            raise ValueError(f"{path} would be written over: give --json and --png files of their own")
        taken.add(path.resolve())


def _read_test(args: argparse.Namespace) -> _Test:
    if args.hypotheses:
        files = [_lines(path) for path in args.references]
        _same_length([*args.references], files)
        sources = None if args.sources is None else _lines(args.sources)
        if sources is not None:
            _same_length([args.references[0], args.sources], [files[0], sources])
        return _Test(_called(args.references[0]), sources, list(zip(*files, strict=True)))
    pairs = [tuple(map(Sentence, pair)) for pair in read_pairs(args.test, columns=args.columns)]
    together: dict[str, list[str]] = {}
    for source, target in pairs:
        together.setdefault(source, []).append(target)
    if args.alternatives:
        return _Test(_called(args.test), list(together), list(together.values()))
    if several := sum(len(set(targets)) > 1 for targets in together.values()):
        note(f"sources with several targets: {several}; with --alternatives each of them is right")
    return _Test(_called(args.test), [source for source, _ in pairs], [target for _, target in pairs])


def _called(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _lines(path: Path) -> list[str]:
    return list(chain.from_iterable(read_lines(path)))


def _same_length(paths: Sequence[Path], files: Sequence[Sequence[object]]) -> None:
    for path, lines in zip(paths, files, strict=True):
        if len(lines) != len(files[0]):
            raise ValueError(f"{path} must have {len(files[0])} lines, like {paths[0]}. It has {len(lines)}.")
    if not files[0]:
        raise ValueError(f"{paths[0]} is empty")


def _names(args: argparse.Namespace) -> list[str]:
    """Return a short name for each model: those given, or those of their files."""
    paths = [(path,) for path in args.hypotheses or [args.model, *args.compare]]
    paths[0] += tuple(args.ensemble)
    if args.names:
        if len(args.names) != len(paths):
            raise ValueError(
                f"--names must be as many as what is measured: {len(paths)}. Got {len(args.names)} instead."
            )
        if len(set(args.names)) != len(paths):
            raise ValueError("--names must give each model a name of its own")
        return [clean(name) for name in args.names]
    if len({tuple(model_file(path).resolve() for path in several) for several in paths}) < len(paths):
        raise ValueError("the models to compare must be different files")
    different = list({path for several in paths for path in several})
    called = dict(zip(different, names_of(different), strict=True))
    return [" + ".join(map(called.__getitem__, several)) for several in paths]


def _shown_name(name: str) -> str:
    return fit(name, min(display_width(name), _LONGEST_NAME))


# ------------------------------------------------------------------------------------------------ what is measured


def _columns(test: _Test, tokenize: str) -> dict[str, _Column]:
    """Return the measures that are possible here."""
    _, cut = test.edited
    found: dict[str, _Column] = {}
    if find_spec("sacrebleu") is None:
        note(pictures.missing("sacrebleu"))
    else:
        found["bleu"] = _Column("BLEU", 1, lambda h, r: measure.bleu(h, r, tokenize=tokenize))
        found["chrf"] = _Column("chrF", 1, measure.chrf)
    found["exact"] = _Column("exact %", 100, measure.exact)
    found["errors"] = _Column("errors %", 100, lambda h, r: measure.error_rate(h, r, cut=cut))
    return found


def _headline(asked: str | None, columns: dict[str, _Column], test: _Test) -> str:
    if asked is not None and asked not in columns:
        raise ImportError(f'--measure {asked} needs sacrebleu: pip install "regard[cli]"')
    best = measure.headline(test.measured[1], test.right)
    return asked or (best if best in columns else "errors")


def _copied(
    test: _Test, models: Sequence[Translator], columns: dict[str, _Column]
) -> dict[str, float] | None:
    """Measure the sources themselves as translations: a baseline that costs nothing."""
    if test.sources is None:
        return None
    form: Normalization = models[0].model.target.normalization if models else "none"
    lines, right = [normalize(source, form) for source in test.sources], test.formed(form).references
    return {key: column.number(lines, right) for key, column in columns.items()}


def _systems(
    args: argparse.Namespace,
    models: Sequence[Translator],
    test: _Test,
    gold: list[Gold] | None,
    names: Sequence[str],
) -> Iterable[tuple[list[str], LinkScore | None, Normalization]]:
    """Yield what each model wrote, how good its links are, and in which form of letters it writes."""
    if args.hypotheses:
        hypotheses = list(map(_lines, args.hypotheses))
        _same_length([args.references[0], *args.hypotheses], [test.references, *hypotheses])
        yield from ((lines, None, "none") for lines in hypotheses)
        return
    if gold is not None and not all(model.attention for model in models):
        raise ValueError("--gold needs attention: one of the models was trained without")
    unseen = Unseen()
    for model in models:
        _check_lengths(test, "source", test.measured[1], model.model.source, unseen)
        if gold is not None:
            _check_lengths(test, "target", test.right, model.model.target)
            _check_gold(args, model, test, gold)
            # Whether this model has a posterior at all is said by the first pair, before all are translated.
            model.align(test.measured[1][:1], test.right[:1], posterior=args.posterior)
    if gold is not None:
        warn_of_one(args.gold, [links.possible for links in gold], args.gold_from, "--gold-from")
    for name, model in zip(names, models, strict=True):
        lines = _translated(model, test, args.beam or BEAM, name)
        links = None
        if gold is not None:
            links = _link_score(model, test, gold, name, args)
        yield lines, links, model.model.target.normalization


def _check_lengths(
    test: _Test, side: str, lines: Sequence[str], text: Tokenizer, unseen: Unseen | None = None
) -> None:
    """Raise now what a model would raise about a block that nobody has counted; warn of symbols it doesn't know."""
    for number, line in enumerate(lines, 1):
        tokens, place = text.cut(line), f"{test.name}, {side} {number}"
        check_length(len(tokens), f"{place}: ")
        if unseen is not None:
            unseen.check(text, tokens, place)


def _blocks(lines: Sequence[str], name: str) -> Iterator[list[int]]:
    """Yield the places of a few hundred lines at a time, of similar lengths, and show how far the work has come."""
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
    with Progress(len(lines), name) as progress:
        for start in range(0, len(lines), _TOGETHER):
            block = order[start : start + _TOGETHER]
            yield block
            progress.advance(len(block))


def _translated(model: Translator, test: _Test, beam: int, name: str) -> list[str]:
    sources = test.measured[1]
    found = [""] * len(sources)
    for block in _blocks(sources, f"translating ({name})"):
        for i, translation in zip(
            block, model.translate([sources[i] for i in block], beam=beam), strict=True
        ):
            found[i] = translation.text
    return found


def _measured(
    name: str, lines: list[str], links: LinkScore | None, columns: dict[str, _Column], test: _Test
) -> _Result:
    """Measure the whole and its groups of one length."""
    whole = {key: column.measure(lines, test.references) for key, column in columns.items()}
    signatures = {key: found.signature for key, found in whole.items() if isinstance(found, Score)}
    scores = {key: found.score if isinstance(found, Score) else found for key, found in whole.items()}
    _, measured = test.measured
    _, cut = test.length
    measures = {key: column.number for key, column in columns.items()}
    rows = measure.by_length([len(cut(line)) for line in measured], lines, test.references, measures)
    return _Result(name, scores, signatures, rows, links)


def _read_gold(args: argparse.Namespace, count: int) -> list[Gold]:
    gold = read_counted(args.gold, args.gold_from, "--gold-from")
    if len(gold) != count:
        raise ValueError(f"{args.gold} must have a line for each of the {count} pairs. It has {len(gold)}.")
    if not any(links.possible for links in gold):
        raise ValueError(f"{args.gold} has no links: there is nothing to compare with")
    return gold


def _check_gold(args: argparse.Namespace, model: Translator, test: _Test, gold: Sequence[Gold]) -> None:
    """Check that the links of people are between words of the pairs."""
    texts = model.model.source, model.model.target
    for number, (links, *pair) in enumerate(zip(gold, test.measured[1], test.right, strict=True), 1):
        if links.possible:
            source, target = (_counted(text, side, args.by) for text, side in zip(texts, pair, strict=True))
            line, first = Line(number, links.possible), args.gold_from or 0
            by = args.by or "words"
            check_range(args.gold, line, (source, target), by, first=first, option="--gold-from")


def _counted(text: Tokenizer, side: str, by: str | None) -> list[int]:
    """Return for each token of a side what the links count it as."""
    tokens = text.cut(side)
    return list(range(len(tokens))) if by == "tokens" else word_numbers(tokens, text.glue)


def _link_score(
    model: Translator, test: _Test, gold: Sequence[Gold], name: str, args: argparse.Namespace
) -> LinkScore:
    """Compare where a model looks while it is told the targets."""
    sources, targets = test.measured[1], test.right
    found: list[frozenset[tuple[int, int]]] = [frozenset() for _ in sources]
    for block in _blocks(sources, f"aligning ({name})"):
        told = [sources[i] for i in block], [targets[i] for i in block]
        aligned = model.align(*told, posterior=args.posterior)
        for i, translation in zip(block, aligned, strict=True):
            found[i] = found_links(model, translation, args.by or "words")
    return measure.alignment_error_rate(found, [g.sure for g in gold], [g.possible for g in gold])


# ---------------------------------------------------------------------------------------------------- what is shown


def _told(
    args: argparse.Namespace,
    test: _Test,
    columns: dict[str, _Column],
    key: str,
    results: Sequence[_Result],
    copied: dict[str, float] | None,
) -> str:
    """Put everything into words and tables."""
    side, lines = test.measured
    how = "" if args.hypotheses else f", beam {args.beam or BEAM}"
    titles = [column.title for column in columns.values()]
    totals = [[column.shown(result.scores[k]) for k, column in columns.items()] for result in results]
    if args.gold:
        titles += ["AER %", "precision %", "recall %"]
        totals = [row + _percents(result.links) for row, result in zip(totals, results, strict=True)]
    names = [_shown_name(result.name) for result in results]
    if copied is not None and any(measure.is_near(copied, result.scores) for result in results):
        names.append("copying the source")
        totals.append(
            [column.shown(copied[k]) for k, column in columns.items()] + ["-"] * (3 * bool(args.gold))
        )
    blocks = [
        f"{len(lines):,} {_items(test)} of {clean(test.name)}{how}",
        _table(["", *titles], [[name, *row] for name, row in zip(names, totals, strict=True)]),
        _by_length(columns, key, results, f"{test.length[0]} in the {side}"),
        "\n".join(_notes(test, columns, results[0])),
    ]
    return "\n\n".join(blocks)


def _items(test: _Test) -> str:
    return "item" if len(test.references) == 1 else "items"


def _percents(links: LinkScore | None) -> list[str]:
    return [f"{100 * number:.1f}" for number in links or ()]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align columns: the first at its left end, numbers at their right ones."""
    width = max(display_width(row[0]) for row in [head, *rows])
    return align([[fit(row[0], max(width, 1)), *row[1:]] for row in [head, *rows]])


def _by_length(columns: dict[str, _Column], key: str, results: Sequence[_Result], along: str) -> str:
    """All measures of one model, or the headline of several, for sources of each length."""
    rows = results[0].rows
    if len(results) == 1:
        head = [column.title for column in columns.values()]
        cells = [[column.shown(row.scores[k]) for k, column in columns.items()] for row in rows]
        title = f"by {along}"
    else:
        head = [_shown_name(result.name) for result in results]
        cells = [
            [columns[key].shown(result.rows[i].scores[key]) for result in results] for i in range(len(rows))
        ]
        title = f"{columns[key].title} by {along}"
    table = [[_range(row), f"{row.sentences:,}", *line] for row, line in zip(rows, cells, strict=True)]
    return f"{title}\n{_table(['length', 'items', *head], table)}"


def _range(row: Row) -> str:
    return f"{row.shortest}" if row.shortest == row.longest else f"{row.shortest}-{row.longest}"


def _notes(test: _Test, columns: dict[str, _Column], result: _Result) -> list[str]:
    """Say how the numbers were computed, for whoever wants to compare."""
    unit, _ = test.edited
    tokens = "characters" if unit == "characters" else "tokens between blanks"
    told = f"errors: edits for 100 {tokens} of the references; exact: lines that are right as a whole"
    signed = [f"{columns[key].title}: {signature}" for key, signature in result.signatures.items()]
    rows = [result.scores, *(row.scores for row in result.rows)]
    blank = ["BLEU: - where no reference has four words"] * any(
        math.isnan(row.get("bleu", 0.0)) for row in rows
    )
    return [told, *blank, *signed]


def _draw(path: Path, column: _Column, key: str, test: _Test, results: Sequence[_Result]) -> None:
    rows = results[0].rows
    side, _ = test.measured
    chart.save_by_length(
        path,
        [_range(row) for row in rows],
        {result.name: [column.factor * row.scores[key] for row in result.rows] for result in results},
        [row.sentences for row in rows],
        measure=column.title,
        along=f"{test.length[0]} in the {side}",
    )


def _known(scores: dict[str, float]) -> dict[str, float | None]:
    """Return scores for JSON, which has no NaN."""
    return {name: None if math.isnan(score) else score for name, score in scores.items()}


def _write_json(
    args: argparse.Namespace, test: _Test, results: Sequence[_Result], copied: dict[str, float] | None
) -> None:
    models: list[dict[str, Any]] = [
        {
            "name": result.name,
            **_known(result.scores),
            **({} if result.links is None else {"links": result.links._asdict()}),
            "signatures": result.signatures,
            "by_length": [
                {
                    "shortest": row.shortest,
                    "longest": row.longest,
                    "items": row.sentences,
                    **_known(row.scores),
                }
                for row in result.rows
            ],
        }
        for result in results
    ]
    side, _ = test.measured
    told = {
        "test": clean(test.name),
        "items": len(test.references),
        "beam": None if args.hypotheses else args.beam or BEAM,
        "length": f"{test.length[0]} in the {side}",
        **({} if copied is None else {"copying": _known(copied)}),
        "models": models,
    }
    with _files.replacing(args.json) as file:
        file.write((json.dumps(told, indent=2, ensure_ascii=False) + "\n").encode())

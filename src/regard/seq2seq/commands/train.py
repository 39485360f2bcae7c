"""The verb `train`: train a model on pairs, measure it, and show its attention."""

from __future__ import annotations

import argparse
import hashlib
import json
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from regard import _check, _signals
from regard.seq2seq import extras
from regard.seq2seq.commands import drawing
from regard.seq2seq.commands.columns import add_columns, check_one_file
from regard.seq2seq.commands.examples import load_pairs
from regard.seq2seq.commands.link_files import (
    LINKS_FROM,
    LineLinks,
    PairLinks,
    SkippedPairs,
    read_links,
)
from regard.seq2seq.commands.options import check_needs, first_given
from regard.seq2seq.commands.pages import Collected
from regard.seq2seq.commands.run import Run, with_noun
from regard.seq2seq.data.array_sources import ArraySource, Images, Vectors
from regard.seq2seq.data.dataset import keep_tokens
from regard.seq2seq.data.normalization import NORMALIZATIONS
from regard.seq2seq.data.parallel_text import Pair, read_pairs, read_two
from regard.seq2seq.data.splits import split_validation
from regard.seq2seq.data.subwords import METHODS
from regard.seq2seq.data.tables import is_csv
from regard.seq2seq.data.tokenizers import TOKEN_TYPES
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.evaluation.metrics import is_near
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.families import FAMILIES
from regard.seq2seq.storage.model_file import MODEL_FILE
from regard.seq2seq.training.config import OPTIONS, TrainingConfig
from regard.seq2seq.training.log import entries
from regard.seq2seq.translator import LONGEST_SENTENCE, Translation
from regard.show import argument_types
from regard.show.figures.figure import warned
from regard.show.terminal.text import clean, note, report

__all__ = ["add_arguments", "run"]

ARRAY_SOURCES = ("images", "vectors")

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
  regard train words.tsv --source characters --target tokens      letters to phonemes
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
    parser.epilog = EXAMPLES
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
    _add_model(parser.add_argument_group("the model"))
    _add_arrays(parser.add_argument_group("sources that are images or vectors").add_argument)
    _add_training(parser.add_argument_group("training"))


def _add_model(group: Any) -> None:
    """Add the options of the model."""
    add = group.add_argument
    add("--family", choices=tuple(FAMILIES), default="recurrent", help="kind of network (default recurrent)")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--no-attention", action="store_true", help="train a model without attention")
    which.add_argument("--compare", action="store_true", help="train two models, with and without attention")
    add(
        "--network",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="options of the network: style, score, window, cell, layers, coverage, ... (an unknown name lists all)",
    )
    add(
        "--extras",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=N",
        help="translation_memory=N: append the targets of the N most similar training pairs to each source; "
        "graphones=N: rerank by joint n-grams of source and target tokens, at most 12-grams (letters to sounds: 8)",
    )
    arrays = "; or images or vectors, in files that the first column names"
    for side, more, described in (("source", ARRAY_SOURCES, arrays), ("target", (), "")):
        add(
            f"--{side}",
            choices=(*TOKEN_TYPES, *more),
            default="words",
            help=f"type of tokens of the {side} (default words){described}",
        )
    _add_cutting(add)


def _add_arrays(add: Any) -> None:
    """Add the options of sources that are arrays."""
    add(
        "--size",
        nargs="+",
        type=argument_types.integer(),
        metavar="N",
        help="of images: height and width in pixels, multiples of --cell; of vectors: how many numbers each has,"
        " without its position",
    )
    add(
        "--channels",
        type=argument_types.integer(),
        metavar="N",
        help="channels of the images: 1 for grey, 3 for colours (default 3)",
    )
    add(
        "--cell",
        type=argument_types.integer(),
        metavar="N",
        help="side in pixels of the square cells that are attended to, a power of 2 (default 4)",
    )
    add(
        "--order",
        choices=("sequence", "set"),
        help="whether the order of the vectors of an example matters (default sequence)",
    )
    add(
        "--positions",
        type=argument_types.integer(1, 3),
        metavar="N",
        help="coordinates of positions, which follow the numbers of each vector (default 0)",
    )


def _add_cutting(add: Any) -> None:
    """Add the options of the vocabularies, and of the longest pairs."""
    add(
        "--lower",
        action=argparse.BooleanOptionalAction,
        help="lowercase the source (default: only if its tokens are words)",
    )
    add(
        "--normalization",
        choices=NORMALIZATIONS,
        default="NFC",
        help="Unicode normalization of text (default NFC)",
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
        help="how often a token must come to be known (default 1; of words, 3 from 5,000 pairs on)",
    )
    add(
        "--max-tokens",
        type=argument_types.integer(),
        default=50,
        metavar="N",
        help="longest side of a training pair; longer pairs are left out (default 50)",
    )
    add(
        "--test-max-tokens",
        type=argument_types.integer(),
        metavar="N",
        help="longest side of a test pair; longer pairs are left out (default: --max-tokens)",
    )


def _add_training(group: Any) -> None:
    """Add the options of training, which are the fields of `TrainingConfig`, and those of guided alignment."""
    for name, option in OPTIONS.items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=partial(_checked, name),
            metavar=option.value,
            help=f"{option.description} (default: {option.default})",
        )
    _add_links(group.add_argument)


def _checked(name: str, text: str) -> Any:
    """Convert an argument to the value of an option of training."""
    try:
        return OPTIONS[name].check(name, argument_types.value(text))
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix(f"{name} ")) from None


def _add_links(add: Any) -> None:
    """Add the options of guided alignment."""
    add(
        "--links",
        type=argument_types.path,
        metavar="FILE",
        help="word alignments of the pairs, which attention learns (one line a pair, 0-0 1-2, as from regard align)",
    )
    add("--links-by", choices=("words", "tokens"), help="what the numbers in --links count (default words)")
    add(
        LINKS_FROM,
        "--gold-from",
        type=int,
        choices=(0, 1),
        help="the number of the first word in --links (default 0)",
    )


def _options(name: str, assignments: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE, where a value is a number, true, false or a word."""
    options: dict[str, Any] = {}
    for option in assignments:
        key, sign, value = option.partition("=")
        if not sign or not key:
            raise ValueError(f"--{name}: must be NAME=VALUE. Got {option!r:.60} instead.")
        if key in options:
            raise ValueError(f"--{name}: {key} must be given once. Got it twice instead.")
        options[key] = argument_types.value(value)
    return options


@dataclass(frozen=True)
class _Data:
    """The pairs for training, validation and test, and the links of the training pairs."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    links: PairLinks | None
    own_valid: bool  # whether --valid was given
    own_test: bool  # whether the test pairs are not the validation pairs

    @property
    def too_few(self) -> bool:
        """Whether there are too few pairs to hold some out."""
        return not self.own_valid and self.valid == self.train

    def counts(self, run: Run, test: int, longest: int) -> str:
        """Describe the numbers of pairs."""
        train, valid = with_noun(len(self.train), "training pair"), str(len(run.training.valid))
        valid += "" if self.own_valid else " others"
        if self.too_few:
            valid = "too few to hold any out, so the same"
        # Limits of length may differ between validation and test.
        same = not self.own_test and test == len(run.training.valid)
        tested = " and test" if same else f", {test} for test"
        where = _where_tokens_are(run.model)
        return (
            f"{train}, {len(run.training.pairs)} of them with at most {with_noun(longest, 'token')} {where};"
            f" {valid} for validation{tested}"
        )

    def describe_test(self, test: Sequence[Pair]) -> str:
        """Describe the test pairs: whether the model was trained on them or chosen by them."""
        count = len(test)
        if self.too_few and not self.own_test:
            own = "the training pair itself" if count == 1 else f"the {count} training pairs themselves"
            return f"{own}: there are too few to hold any out"
        trained_on = {(str(source), str(target)) for source, target in self.train}
        overlap = sum((str(source), str(target)) in trained_on for source, target in test)
        pairs = with_noun(count, "held-out pair")
        if overlap:
            pairs = f"{with_noun(count, 'pair')}, {overlap} of them learned from"
        return pairs if self.own_test else f"{pairs}{',' * bool(overlap)} that also chose the model"


def run(args: argparse.Namespace) -> int:
    """Train, measure and show."""
    _check_options(args)
    models = [_model(args, attention) for attention in _attentions(args)]
    if args.links and not models[0].attention:
        raise ValueError("--links needs attention, which learns them")
    runs = [
        Run(model, path, fresh=args.fresh) for model, path in zip(models, _model_paths(args), strict=True)
    ]
    for one in runs:
        _check_overwrites(one)
        one.check_checkpoint()
    finished = [one.finished_fingerprint() for one in runs if one.is_done() and not one.fresh]
    if None in finished:
        _refuse_done(runs)
    data = _read(args, models[0])
    fingerprints = [_fingerprint(model, data) for model in models]
    if finished:
        if [one.finished_fingerprint() for one in runs] != fingerprints:
            _refuse_done(runs)
        note(f"{runs[0].name} is done already; --fresh trains anew, another --out keeps this model")
        print(report(f"the model is in {runs[0].path}"))
        for one in runs:
            one.remove_leftovers()
        return 0
    return _train_and_show(args, data, runs, fingerprints)


def _check_options(args: argparse.Namespace) -> None:
    """Check which options go together, which argparse cannot do."""
    if args.compare and _options("network", args.network).get("score") == "none":
        raise ValueError("--compare needs a score: score=none has no attention to compare with")
    if isinstance(_source(args), ArraySource) and (option := first_given(args, _OF_TEXT)):
        raise ValueError(f"{option} needs tokens in the source. --source {args.source} has none.")
    check_needs(args, (("--links-by", "--links", ""), (LINKS_FROM, "--links", "")))
    if args.links and args.skip_empty and (args.columns or is_csv(args.pairs[0])):
        raise ValueError(
            "--links with --skip-empty needs pairs with TABs and no header: links are numbered by lines"
        )


_OF_TEXT = ("--links", "--lower", "--extras")
_OF_IMAGES, _OF_VECTORS = ("--channels", "--cell"), ("--order", "--positions")


def _source(args: argparse.Namespace) -> str | ArraySource:
    """Return the source of the model: a type of tokens, or a reader of arrays."""
    others = [
        *(_OF_IMAGES if args.source != "images" else ()),
        *(_OF_VECTORS if args.source != "vectors" else ()),
    ]
    if option := first_given(args, others if args.source in ARRAY_SOURCES else ("--size", *others)):
        raise ValueError(f"{option} needs {_NEEDED_BY[option]}")
    if args.source == "vectors":
        if args.size is None or len(args.size) != 1:
            raise ValueError("--source vectors needs --size N, the numbers of a vector without its position")
        return Vectors(args.size[0], order=args.order or "sequence", positions=args.positions or 0)
    if args.source == "images":
        if args.size is None or len(args.size) != 2:
            raise ValueError("--source images needs --size HEIGHT WIDTH")
        height, width = args.size
        return Images(height, width, channels=args.channels or 3, cell=args.cell or 4)
    return str(args.source)


_NEEDED_BY = {
    "--size": "--source images or vectors",
    **dict.fromkeys(_OF_IMAGES, "--source images"),
    **dict.fromkeys(_OF_VECTORS, "--source vectors"),
}


def _refuse_done(runs: Sequence[Run]) -> NoReturn:
    """Raise for a finished model of another or an unknown command."""
    path = next(one.path for one in runs if one.is_done())
    raise ValueError(f"--out: {path} is done; --fresh trains it anew, another --out keeps it")


def _fingerprint(model: Seq2Seq, data: _Data) -> str:
    """Return a hash of the options of a model, which are its public attributes, and of its pairs with their links."""
    options = {n: x for n, x in vars(model).items() if not n.startswith("_") and x not in (None, {})}
    options["training"] = model.training.given()
    links = [] if data.links is None else [data.links.by, *(sorted(line.links) for line in data.links.lines)]
    digest = hashlib.sha256(json.dumps(options, sort_keys=True, default=repr).encode())
    for part in (data.train, data.valid, links):
        for item in part:
            digest.update(repr(item).encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()


_OF_ATTENTION = ("score", "attention")  # options of the network


def _attentions(args: argparse.Namespace) -> list[bool]:
    """Return for each model to train whether it has attention."""
    return [True, False] if args.compare else [not args.no_attention]


def _model(args: argparse.Namespace, attention: bool) -> Seq2Seq:
    network, options = _options("network", args.network), _options("extras", args.extras)
    if args.compare and not attention:  # the same apart from attention
        network = {name: network[name] for name in network if name not in _OF_ATTENTION}
        options = extras.without_attention(options)
    return Seq2Seq(
        family=args.family,
        attention=attention,
        network=network,
        source=_source(args),
        target=args.target,
        vocabulary=args.vocabulary,
        min_count=args.min_count,
        lower=args.lower,
        normalization=args.normalization,
        subwords=args.subwords,
        extras=options,
        max_tokens=args.max_tokens,
        training=TrainingConfig(**{n: x for n in OPTIONS if (x := getattr(args, n)) is not None}),
    )


def _train_and_show(
    args: argparse.Namespace, data: _Data, runs: Sequence[Run], fingerprints: Sequence[str]
) -> int:
    longest = min(args.test_max_tokens or args.max_tokens, LONGEST_SENTENCE)
    for one in runs:
        one.begin(data.train, data.valid, data.links)
        one.sample = _short_pairs(one.model, data.valid, longest)
    test = _short_pairs(runs[0].model, data.test, longest, args)
    with _prepared(runs):
        note(data.counts(runs[0], len(test), args.max_tokens))
        if line := extras.hint(args.source, runs[0].model.extras):
            note(line)
        if line := drawing.missing_extras():
            note(line)
        drawing.can_draw()  # warns before the training
        path = runs[0].path
        try:
            for one in runs:
                if status := one.train():
                    return status
            _measure(runs, test, data)
            _show(runs[0], test)
        except KeyboardInterrupt as error:
            again = "the same command" + " without --fresh" * args.fresh
            note(f"interrupted; the model is in {path}, and {again} prints the rest")
            return _signals.status_of(error)
        # Last, so that a command that is stopped before can be resumed.
        for one, fingerprint in zip(runs, fingerprints, strict=True):
            one.log_end(fingerprint)
        for one in runs:
            one.remove_checkpoint()
    for line in filter(None, (one.short_warning() for one in runs)):
        note(line)
    print(report(f"the model is in {path}"))
    return 0


@contextmanager
def _prepared(runs: Sequence[Run]) -> Iterator[None]:
    """Create the folder, lock the files of these runs, and ensure that each has a checkpoint."""
    runs[0].path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for one in runs:
            stack.enter_context(one.locked())
            _check_overwrites(one)
            if one.is_done() and not one.fresh:  # by another process, in the meantime
                _refuse_done([one])
        for one in runs:
            one.resume()
        for one in runs:
            one.ensure_checkpoint()
        yield


def _read(args: argparse.Namespace, model: Seq2Seq) -> _Data:
    skipped = SkippedPairs()
    reads = model.source if isinstance(model.source, ArraySource) else None
    train = _pairs(args.pairs, "PAIRS", args, skipped, reads)
    lines: Sequence[LineLinks] | None = None
    if args.links:
        lines = read_links(args.links, skipped.lines, len(train), args.links_from)
    if args.valid:
        valid = _pairs(args.valid, "--valid", args, skipped, reads)
    else:
        train, valid, lines = split_validation(train, lines, model.fits)
    valid = list(map(keep_tokens, valid))
    test = list(map(keep_tokens, _pairs(args.test, "--test", args, skipped, reads))) if args.test else valid
    if skipped.count:
        note(f"{with_noun(skipped.count, 'pair')} left out: {skipped.first}")
    links = None
    if lines is not None:
        by = args.links_by or "words"
        links = PairLinks(args.links, lines, train, by, args.max_tokens, args.links_from)
    return _Data(train, valid, test, links, own_valid=args.valid is not None, own_test=test != valid)


def _pairs(
    files: Sequence[str],
    name: str,
    args: argparse.Namespace,
    skipped: SkippedPairs,
    reads: ArraySource | None,
) -> list[Pair]:
    """Read pairs from one file of pairs, or from a source and a target file; and the files that sources name."""
    if len(files) > 2:
        raise ValueError(
            f"{name}: must be one file of pairs, or a source and a target file. Got {len(files)} files instead."
        )
    check_one_file(args.columns, files, name)
    on_skipped = skipped.add if args.skip_empty else None
    lines = array("Q")
    if len(files) == 2:
        pairs: list[Pair] = list(read_two(*files, skipped=on_skipped, kept=lines.append))
    else:
        pairs = list(read_pairs(files[0], skipped=on_skipped, kept=lines.append, columns=args.columns))
    return pairs if reads is None else load_pairs(pairs, reads, files[0], lines)


def _short_pairs(
    model: Seq2Seq, pairs: Sequence[Pair], longest: int, args: argparse.Namespace | None = None
) -> list[Pair]:
    """Return the pairs that are short enough; with `args`, those of the test, raise if there are none."""
    tokenizers = model.model.source, model.model.target
    short = [
        pair
        for pair in pairs
        if all(
            0 < len(t.cut(side)) <= longest
            for t, side in zip(tokenizers, pair, strict=True)
            if not isinstance(t, ArraySource)
        )
    ]
    if not short and args is not None:
        name = (args.test or args.valid or args.pairs)[0]
        most = f"{with_noun(longest, 'token')} {_where_tokens_are(model)}"
        raise ValueError(f"{name}: no pair has at most {most}")
    return short


def _where_tokens_are(model: Seq2Seq) -> str:
    return "in the target" if isinstance(model.source, ArraySource) else "on both sides"


def _model_paths(args: argparse.Namespace) -> list[Path]:
    """Return the files of the models."""
    path = args.out if args.out.suffix == ".safetensors" else args.out / MODEL_FILE
    if not args.compare:
        return [path]
    return [path, path.with_name(f"{path.stem}-without-attention{path.suffix}")]


def _check_overwrites(one: Run) -> None:
    """Raise if files that no training has written would be overwritten."""
    model = one.path
    for folder in model.parents:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"--out: {folder} is a file, not a folder; nothing is overwritten")
    if model.exists():
        if not one.is_model():
            raise ValueError(f"--out: {model} exists and is not a model file; nothing is overwritten")
    elif not one.checkpoint.exists() and not _is_log(one.log):
        raise ValueError(f"--out: {one.log} exists and is not a log of a training; nothing is overwritten")
    for path in (one.checkpoint, one.log, one.page, *one.pictures):
        _check.replaceable(path)
    if not any(path.exists() for path in (model, one.checkpoint, one.log)):
        for path in (one.page, *one.pictures):
            if path.exists():
                raise ValueError(f"--out: {path} exists, and no model next to it; nothing is overwritten")


def _is_log(path: Path) -> bool:
    """Return whether a file is a log, empty, or missing."""
    if not path.is_file() or not path.stat().st_size:
        return True
    try:
        return sum(1 for _ in entries(path)) > 0
    except ValueError:
        return False


def _measure(runs: Sequence[Run], test: Sequence[Pair], data: _Data) -> None:
    """Print the measures of each trained model on the test pairs."""
    summaries = []
    for one in runs:
        summary = one.summary(test, [t.text for t in one.model.translate([source for source, _ in test])])
        summaries.append(summary)
        how = "with" if one.model.attention else "without"
        signature = f" ({summary.signature})" if summary.signature else ""
        print(f"{summary} {how} attention, on {data.describe_test(test)}, beam {BEAM}{signature}")
    if isinstance(runs[0].model.source, ArraySource):
        return  # there is nothing to copy
    copied = runs[0].summary(test, [str(source) for source, _ in test])
    if any(is_near(copied._asdict(), summary._asdict()) for summary in summaries):
        print(f"{copied} by copying the source")


def _show(run: Run, test: Sequence[Pair]) -> None:
    """Show three translations of test sentences with their attention weights."""
    examples = _examples(run.model, test)
    several = run.model.candidates([source for source, _ in examples])
    translations = [candidates[0] for candidates in several]
    for pair, translation, path in zip(examples, translations, run.pictures[1:], strict=False):
        print()
        for name, text in zip(
            ("source", "translation", "reference"), (pair[0], translation.text, pair[1]), strict=True
        ):
            print(f"{name + ':':<13}{clean(str(text))}")
        if translation.alignment is not None and translation.tokens:
            print(drawing.draw_alignment(translation))
            if drawing.can_draw() and _save(run.model, pair[0], translation, path):
                print(report(f"drawn in {path}"))
    if run.model.attention and examples:
        _save_page(run, [source for source, _ in examples], several)
    print()


def _save_page(run: Run, sources: Sequence[Any], several: Sequence[Sequence[Translation]]) -> None:
    """Save a page of the examples, each with all its hypotheses."""
    page, source = Collected(run.model), run.model.source
    with warned(run.page):
        for example, candidates in zip(sources, several, strict=True):
            picture = source.picture(example) if isinstance(source, Images) else None
            page.add(candidates, example if isinstance(source, ArraySource) else None, picture)
        page.page("Captions" if isinstance(source, Images) else "Alignments").save(run.page, force=True)
        print(report(f"shown in {run.page}: open it in a browser"))


def _save(model: Seq2Seq, source: Any, translation: Translation, path: Path) -> bool:
    """Save a picture of an alignment, or of the cells that a caption's words attend to; return whether it was saved."""
    if isinstance(model.source, Images):
        return drawing.save_captioned(model.source, source, translation, path)
    return drawing.save_alignment(translation, path)


def _examples(model: Seq2Seq, test: Sequence[Pair]) -> list[Pair]:
    """Return three pairs with different sources from all parts of the test, long ones if there are enough."""
    different = list({str(pair[0]): pair for pair in test}.values())
    side = model.model.source
    if isinstance(side, ArraySource):
        side = model.model.target  # of which all have some tokens
    long = [pair for pair in different if 6 <= len(side.cut(pair[side is model.model.target])) <= 40]
    pairs = long if len(long) >= 3 else different
    return [pairs[len(pairs) * part // 4] for part in (1, 2, 3)] if len(pairs) >= 3 else pairs

"""The verb `train`: from sentence pairs to a translator, with what it reached and where it looked."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from regard import _check, _signals
from regard.seq2seq.commands import drawing as pictures
from regard.seq2seq.commands.columns import add_columns, check_one_file
from regard.seq2seq.commands.link_files import LINKS_FROM, Given, Line, line_number, read_links
from regard.seq2seq.commands.run import Run, counted
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
from regard.seq2seq.storage.model_file import MODEL_FILE, read_model
from regard.seq2seq.training.log import read_log
from regard.seq2seq.translator import LONGEST_SENTENCE
from regard.show import numbers
from regard.show.terminal import clean, note, report

__all__ = ["add_arguments", "run"]

EXAMPLES = """\
The best model so far is always on the disk, and so is, every minute, all it takes to go on: stop when you like with
Ctrl-C, and give the same command again to go on, bit for bit as if it had never stopped. A model that is done is not
trained anew, unless --fresh says so. Pairs that are too long are left out and counted. Into the folder go
model.safetensors, log.jsonl, the pictures curve.png and alignment-1.png, ..., and checkpoint.safetensors until it is
done; with --compare, model-without-attention.safetensors and its own log and curve as well.

examples:
  regard train pairs.tsv                                learn, with some of the pairs kept aside
  regard train text.en text.fr --out runs/en-fr         two files, line by line
  regard train pairs.csv --columns en fr                a spreadsheet with a header
  regard train train.tsv.gz --valid valid.tsv.gz --test test.tsv.gz --out runs/mine
  regard train words.tsv --source characters --target tokens      letters to phonemes
  regard train pairs.tsv --family transformer --source subwords --target subwords
  regard train pairs.tsv --network style=luong score=general cell=lstm layers=2
  regard train pairs.tsv --compare                      the same without attention, too
  regard train pairs.tsv --links links.txt              with links that regard align, or people, have found
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard train`.

    Parameters
    ----------
    parser
        The verb's parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> parser.parse_args(["pairs.tsv"]).max_tokens
    50
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.usage = "%(prog)s PAIRS [SECOND] [--valid FILE] [--test FILE] [--out PLACE] [options]"
    add = parser.add_argument
    add(
        "pairs",
        nargs="+",
        type=numbers.name,
        metavar="PAIRS",
        help="source TAB target, one pair a line, UTF-8, packed with gzip or not, - for standard input; or a CSV file"
        " (.csv); or two files, one with the sources and one with the targets",
    )
    valid = "pairs to choose the best model by, in one file or two (default: a part of PAIRS)"
    add("--valid", nargs="+", action="extend", type=numbers.name, metavar="FILE", help=valid)
    test = "pairs to measure the result on (default: those of --valid)"
    add("--test", nargs="+", action="extend", type=numbers.name, metavar="FILE", help=test)
    add(
        "--out",
        type=numbers.place,
        default=Path("model"),
        metavar="PLACE",
        help="a folder, or a file that ends in .safetensors (default: model)",
    )
    add_columns(parser)
    add("--skip-empty", action="store_true", help="leave out pairs with an empty side instead of stopping")
    add(
        "--fresh",
        action="store_true",
        help="begin anew, whatever is there: a checkpoint, or a model that is done",
    )
    _add_model(parser.add_argument_group("the model"))
    _add_recipe(parser.add_argument_group("training"))


def _add_model(group: Any) -> None:
    """Describe what is trained."""
    add = group.add_argument
    add("--family", choices=tuple(FAMILIES), default="recurrent", help="kind of network (default recurrent)")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--no-attention", action="store_true", help="train the same model without attention")
    which.add_argument("--compare", action="store_true", help="train the same model without attention, too")
    add(
        "--network",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="options of the network: style, score, window, cell, layers, coverage, ... (an unknown one lists them)",
    )
    add(
        "--memory",
        type=numbers.whole(0),
        default=0,
        metavar="N",
        help="look up the N training pairs whose sources are most like the one at hand, and read their targets too",
    )
    add(
        "--joint",
        type=numbers.whole(0),
        default=0,
        metavar="N",
        help="count what up to N (at most 12) source tokens in a row became, and rank by it too (letters to sounds: 8)",
    )
    for side in ("source", "target"):
        add(
            f"--{side}",
            choices=TOKEN_TYPES,
            default="words",
            help=f"what a token of the {side} is (default words)",
        )
    _add_cutting(add)


def _add_cutting(add: Any) -> None:
    """Describe which tokens are known, and how many a pair may have."""
    add(
        "--lower",
        action=argparse.BooleanOptionalAction,
        help="whether the source's capitals are the same as small letters (default: in words)",
    )
    add("--normalization", choices=NORMALIZATIONS, default="NFC", help="of Unicode text (default NFC)")
    add("--subwords", choices=METHODS, help="how subwords are found (default unigram)")
    add(
        "--vocabulary",
        type=numbers.whole(5),
        metavar="N",
        help="the most tokens that either side knows (default 30,000 words, 8,000 subwords)",
    )
    add(
        "--min-count",
        type=numbers.whole(),
        metavar="N",
        help="how often a token must come to be known (default 1; of words, 3 from 5,000 pairs on)",
    )
    add(
        "--max-tokens",
        type=numbers.whole(),
        default=50,
        metavar="N",
        help="leave longer pairs out of training (default 50)",
    )
    add(
        "--test-max-tokens",
        type=numbers.whole(),
        metavar="N",
        help="leave longer pairs out of the test (default: as --max-tokens)",
    )


def _add_recipe(group: Any) -> None:
    """Describe how it is trained."""
    add = group.add_argument
    add(
        "--epochs",
        type=numbers.whole(),
        metavar="N",
        help="how often each pair is seen (default: as often as --minutes allow; without them 9 times, more often if"
        " there are few, 5 times from 100,000 on)",
    )
    add(
        "--minutes",
        type=numbers.positive,
        metavar="X",
        help="train for this time, or until --epochs are done if they are given",
    )
    add(
        "--rate",
        type=numbers.positive,
        metavar="X",
        help="Adam's largest rate (default 0.005; of a transformer 0.001)",
    )
    add(
        "--recipe",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="more about training: tokens, dropout, smoothing, average, patience, ... (an unknown one lists them)",
    )
    _add_links(add)
    add("--seed", type=numbers.whole(0), metavar="N", help="of all chance (default 1)")


def _add_links(add: Any) -> None:
    """Describe the links that attention learns."""
    add(
        "--links",
        type=numbers.place,
        metavar="FILE",
        help="which words of each pair belong together, as regard align writes it (0-0 1-2), for attention to learn",
    )
    add("--links-by", choices=("words", "tokens"), help="what is counted in --links (default words)")
    add(
        LINKS_FROM,
        "--gold-from",
        type=int,
        choices=(0, 1),
        help="the number of the first word in --links (default 0)",
    )


def _options(name: str, given: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE, where a value is a number, true, false or a word."""
    found: dict[str, Any] = {}
    for option in given:
        key, sign, value = option.partition("=")
        if not sign or not key:
            raise ValueError(f"--{name}: must be NAME=VALUE. Got {option!r:.60} instead.")
        if key in found:
            raise ValueError(f"--{name}: {key} must be given once. Got it twice instead.")
        found[key] = numbers.value(value)
    return found


@dataclass(frozen=True)
class _Data:
    """What is learned from, judged by, and measured on."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    links: Given | None
    own_valid: bool  # whether there is --valid
    own_test: bool  # whether the test pairs had no part in choosing the model

    @property
    def too_few(self) -> bool:
        """Whether none could be kept aside."""
        return not self.own_valid and self.valid == self.train

    def told(self, run: Run, test: int, longest: int) -> str:
        """Say how many pairs there are."""
        learned, judged = counted(len(self.train), "pair"), str(len(run.training.valid))
        judged += "" if self.own_valid else " others"
        if self.too_few:
            judged = "too few to keep any aside, so the same"
        # One of the two may have longer ones than the other.
        same = not self.own_test and test == len(run.training.valid)
        tested = " and to test on" if same else f", {test} to test on"
        return (
            f"{learned} to learn from, {len(run.training.pairs)} of them with at most {counted(longest, 'token')} on"
            f" both sides; {judged} to choose the best model by{tested}"
        )

    def tested_on(self, test: Sequence[Pair]) -> str:
        """Say what a result on the test pairs is worth."""
        count = len(test)
        if self.too_few and not self.own_test:
            own = "the training pair itself" if count == 1 else f"the {count} training pairs themselves"
            return f"{own}: there are too few to keep any aside"
        learned = {(str(source), str(target)) for source, target in self.train}
        seen = sum((str(source), str(target)) in learned for source, target in test)
        told = (
            f"{counted(count, 'pair')}, {seen} of them learned from"
            if seen
            else counted(count, "held-out pair")
        )
        if self.own_test:
            return told
        return f"{told}{',' * bool(seen)} that also chose the model"


def run(args: argparse.Namespace) -> int:
    """Train, measure and show.

    Parameters
    ----------
    args
        What the parser found.

    Returns
    -------
    int
        0; 1 if the loss stopped being a number; 128 and its number if a signal ends it (130 for Ctrl-C, 143 for
        SIGTERM, 129 for SIGHUP).

    Raises
    ------
    ValueError
        If a file is not what it should be: before anything is written.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> run(parser.parse_args(["no-such-file"]))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    if args.compare and _options("network", args.network).get("score") == "none":
        raise ValueError("--compare needs a score: score=none has no attention to compare with")
    if args.links_by and not args.links:
        raise ValueError("--links-by needs --links")
    if args.links and args.skip_empty and (args.columns or is_csv(args.pairs[0])):
        raise ValueError(
            "--links with --skip-empty needs pairs with TABs and no header: links are counted by lines"
        )
    if args.links_from is not None and not args.links:
        raise ValueError(f"{LINKS_FROM} needs --links")
    models = [_model(args, attention) for attention in _attentions(args)]
    if args.links and not models[0].attention:
        raise ValueError("--links needs attention: it is what learns them")
    runs = [Run(model, place, fresh=args.fresh) for model, place in zip(models, _places(args), strict=True)]
    for one in runs:
        _check_free(one)
        one.check_checkpoint()
    finished = [one.finished() for one in runs if one.is_done() and not one.fresh]
    if None in finished:
        _refuse_done(runs)
    data = _read(args, models[0])
    mark = _mark(args, data)
    if finished:
        if finished != [mark] * len(runs):
            _refuse_done(runs)
        note(f"{runs[0].name} is done already; --fresh trains anew, another --out keeps this model")
        print(report(f"the model is in {runs[0].place}"))
        return 0
    return _train_and_show(args, data, runs, mark)


def _refuse_done(runs: Sequence[Run]) -> NoReturn:
    """Raise for a model that is done, of another command or one that is not known."""
    place = next(one.place for one in runs if one.is_done())
    raise ValueError(f"--out: {place} is done; --fresh trains it anew, another --out keeps it")


_NOT_TRAINED = (
    "verb",
    "out",
    "fresh",
    "pairs",
    "valid",
    "test",
    "test_max_tokens",
    "links",
    "skip_empty",
    "columns",
)


def _mark(args: argparse.Namespace, data: _Data) -> str:
    """Return what a training is recognised by: a hash of its options and of what it learns from and is judged by."""
    options = {name: value for name, value in vars(args).items() if name not in _NOT_TRAINED}
    links = None if data.links is None else [line.links for line in data.links.lines]
    told = hashlib.sha256(repr(sorted(options.items())).encode())
    for part in (data.train, data.valid, None if links is None else list(map(sorted, links))):
        for item in () if part is None else part:
            told.update(repr(item).encode("utf-8", "surrogatepass"))
        told.update(b"\n")
    return told.hexdigest()


_OF_ATTENTION = ("score", "coverage", "attention", "window", "reach", "places")  # options of the network


def _attentions(args: argparse.Namespace) -> list[bool]:
    return [True, False] if args.compare else [not args.no_attention]


def _model(args: argparse.Namespace, attention: bool) -> Seq2Seq:
    network, memory = _options("network", args.network), args.memory
    if args.compare and not attention:  # the same as far as it can be
        network, memory = {name: network[name] for name in network if name not in _OF_ATTENTION}, 0
    return Seq2Seq(
        family=args.family,
        attention=attention,
        network=network,
        source=args.source,
        target=args.target,
        vocabulary=args.vocabulary,
        min_count=args.min_count,
        lower=args.lower,
        normalization=args.normalization,
        subwords=args.subwords,
        memory=memory,
        joint=args.joint,
        max_tokens=args.max_tokens,
        epochs=args.epochs,
        minutes=args.minutes,
        rate=args.rate,
        recipe=_options("recipe", args.recipe),
        seed=args.seed,
    )


def _train_and_show(args: argparse.Namespace, data: _Data, runs: Sequence[Run], mark: str) -> int:
    longest = min(args.test_max_tokens or args.max_tokens, LONGEST_SENTENCE)
    for one in runs:
        one.begin(data.train, data.valid, data.links)
        one.sample = _short(one.model, data.valid, longest)
    test = _short(runs[0].model, data.test, longest, args)
    with _prepared(runs):
        note(data.told(runs[0], len(test), args.max_tokens))
        if line := pictures.missing():
            note(line)
        pictures.can_draw()  # warns now, not after the training
        place = runs[0].place
        try:
            for one in runs:
                if status := one.train():
                    return status
            _measure(runs, test, data)
            _show(runs[0], test)
        except KeyboardInterrupt as error:
            again = "the same command" + " without --fresh" * args.fresh
            note(f"interrupted; the model is in {place}, and {again} says the rest")
            return _signals.status_of(error)
        for one in runs:  # not before: whatever had stopped this command, it would not have trained anew
            one.finish(mark)
    for line in filter(None, (one.short() for one in runs)):
        note(line)
    print(report(f"the model is in {place}"))
    return 0


@contextmanager
def _prepared(runs: Sequence[Run]) -> Iterator[None]:
    """Make room, now that the pairs are known to be fine, for these runs alone; each has a checkpoint then."""
    runs[0].place.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for one in runs:
            stack.enter_context(one.alone())
            _check_free(one)
            if one.is_done() and not one.fresh:  # by another process, meanwhile
                _refuse_done([one])
        for one in runs:
            one.go_on()
        for one in runs:
            one.keep()
        yield


def _read(args: argparse.Namespace, model: Seq2Seq) -> _Data:
    skipped: list[str] = []
    train = _pairs(args.pairs, "PAIRS", args, skipped)
    lines: Sequence[Line] | None = None
    if args.links:
        lines = read_links(args.links, set(map(line_number, skipped)), len(train), args.links_from)
    if args.valid:
        valid = _pairs(args.valid, "--valid", args, skipped)
    else:
        train, valid, lines = split_validation(train, lines, model.fits)
    valid = list(map(keep_tokens, valid))
    test = list(map(keep_tokens, _pairs(args.test, "--test", args, skipped))) if args.test else valid
    if skipped:
        note(f"{counted(len(skipped), 'pair')} left out: {skipped[0]}")
    links = None
    if lines is not None:
        by = args.links_by or "words"
        links = Given(args.links, lines, train, by, args.max_tokens, args.links_from)
    own_valid, own_test = args.valid is not None, args.test is not None
    return _Data(train, valid, test, links, own_valid=own_valid, own_test=own_test)


def _pairs(files: Sequence[str], name: str, args: argparse.Namespace, skipped: list[str]) -> list[Pair]:
    """Read one file of pairs, or two of sides."""
    if len(files) > 2:
        raise ValueError(
            f"{name}: must be one file of pairs or two of sides. Got {len(files)} files instead."
        )
    check_one_file(args.columns, files, name)
    told = skipped.append if args.skip_empty else None
    if len(files) == 2:
        return list(read_two(*files, skipped=told))
    return list(read_pairs(files[0], skipped=told, columns=args.columns))


def _short(
    model: Seq2Seq, pairs: Sequence[Pair], longest: int, args: argparse.Namespace | None = None
) -> list[Pair]:
    """Return the pairs that are short enough; for the test there must be some."""
    texts = model.model.source, model.model.target
    short = [
        pair
        for pair in pairs
        if all(0 < len(text.cut(side)) <= longest for text, side in zip(texts, pair, strict=True))
    ]
    if not short and args is not None:
        name = (args.test or args.valid or args.pairs)[0]
        raise ValueError(f"{name}: no pair has at most {counted(longest, 'token')} on both sides")
    return short


def _places(args: argparse.Namespace) -> list[Path]:
    """Return where the models go."""
    place = args.out if args.out.suffix == ".safetensors" else args.out / MODEL_FILE
    places = [place]
    if args.compare:
        places.append(place.with_name(f"{place.stem}-without-attention{place.suffix}"))
    return places


def _check_free(one: Run) -> None:
    """Refuse to write over what is no model, or one that is done."""
    place = one.place
    for folder in place.parents:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"--out: {folder} is a file, not a folder; nothing is overwritten")
    if place.exists():
        try:
            read_model(place)
        except ValueError:
            raise ValueError(f"--out: {place} exists and is no model file; nothing is overwritten") from None
    elif not one.checkpoint.exists() and not _is_log(one.log):
        raise ValueError(f"--out: {one.log} exists and is no log of a training; nothing is overwritten")
    for path in (one.checkpoint, one.log, *one.pictures):
        _check.replaceable(path)
    if not any(path.exists() for path in (place, one.checkpoint, one.log)):
        for path in one.pictures:
            if path.exists():
                raise ValueError(f"--out: {path} exists, and no model beside it; nothing is overwritten")


def _is_log(path: Path) -> bool:
    """Whether a file is a log, or there is none."""
    if not path.is_file() or not path.stat().st_size:
        return True
    try:
        return bool(read_log(path))
    except ValueError:
        return False


def _measure(runs: Sequence[Run], test: Sequence[Pair], data: _Data) -> None:
    """Print what each of the models that were trained has reached."""
    reached = []
    for one in runs:
        found = one.measured(test, [found.text for found in one.model.translate([pair[0] for pair in test])])
        reached.append(found)
        how = "with" if one.model.attention else "without"
        signed = f" ({found.signature})" if found.signature else ""
        print(f"{found} {how} attention, on {data.tested_on(test)}, beam {BEAM}{signed}")
    copied = runs[0].measured(test, [str(source) for source, _ in test])
    if any(is_near(copied._asdict(), found._asdict()) for found in reached):
        print(f"{copied} by copying the source")


def _show(run: Run, test: Sequence[Pair]) -> None:
    """Show three of the test sentences, and where the model looked."""
    chosen = _three(run.model, test)
    found = run.model.translate([source for source, _ in chosen])
    for pair, translation, path in zip(chosen, found, run.pictures[1:], strict=False):
        print()
        for name, text in zip(
            ("source", "translation", "reference"), (pair[0], translation.text, pair[1]), strict=True
        ):
            print(f"{name + ':':<13}{clean(str(text))}")
        if translation.alignment is not None and translation.tokens:
            print(pictures.draw(translation))
            if pictures.can_draw() and pictures.save(translation, path):
                print(report(f"drawn in {path}"))
    print()


def _three(model: Seq2Seq, test: Sequence[Pair]) -> list[Pair]:
    """Choose sentences of some length from the beginning, the middle and the end, different ones if there are."""
    different = list({str(pair[0]): pair for pair in test}.values())
    long = [pair for pair in different if 6 <= len(model.model.source.cut(pair[0])) <= 40]
    among = long if len(long) >= 3 else different
    return [among[len(among) * part // 4] for part in (1, 2, 3)] if len(among) >= 3 else among

"""The verb `train`: from sentence pairs to a translator, with what it reached and where it looked."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from regard.seq2seq.commands import pictures
from regard.seq2seq.files import read_model
from regard.seq2seq.model import Seq2Seq, hold_out
from regard.seq2seq.pairs import read_pairs
from regard.seq2seq.text import cut
from regard.seq2seq.training import Diverged, Step
from regard.show.progress import Progress
from regard.show.terminal import clean

__all__ = ["add_arguments", "run"]

Pair = tuple[str, str]

_SAMPLE = 200  # validation sentences that are translated after each epoch
_ALL_TOLD = 10  # epochs; with more of them, only improvements are told, and not each
EXAMPLES = """\
The best model so far is always on the disk: stop when you like with Ctrl-C. Pairs that are too long are left out and
counted. Training into the same place again replaces the model there after the first epoch.

examples:
  regard train pairs.tsv                                learn, with some of the pairs kept aside
  regard train train.tsv.gz --valid valid.tsv.gz --test test.tsv.gz --out runs/mine
  regard train pairs.tsv --compare                      the same without attention, too
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
    15
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add(
        "pairs",
        type=Path,
        metavar="PAIRS",
        help="source TAB target, one pair a line, UTF-8; may be packed with gzip",
    )
    add(
        "--valid",
        type=Path,
        metavar="FILE",
        help="pairs to choose the best model by (default: a part of PAIRS)",
    )
    add(
        "--test", type=Path, metavar="FILE", help="pairs to measure the result on (default: those of --valid)"
    )
    add(
        "--out",
        type=Path,
        default=Path("model"),
        metavar="PLACE",
        help="a folder, or a file that ends in .safetensors (default: model)",
    )
    _add_recipe(parser)


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    """Describe what is trained, and how."""
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--no-attention", action="store_true", help="train the same model without attention")
    which.add_argument("--compare", action="store_true", help="train the same model without attention, too")
    add(
        "--max-tokens",
        type=_whole,
        default=15,
        metavar="N",
        help="leave longer pairs out of training (default 15)",
    )
    add(
        "--test-max-tokens",
        type=_whole,
        default=12,
        metavar="N",
        help="leave longer pairs out of the test (default 12)",
    )
    add(
        "--epochs",
        type=_whole,
        metavar="N",
        help="how often each pair is seen (default 9; more if there are few)",
    )
    add("--minutes", type=_positive, metavar="X", help="train no longer than this")
    add("--rate", type=_positive, metavar="X", help="Adam's largest rate (default 0.005)")
    add("--seed", type=_seed, default=1, metavar="N", help="of all chance (default 1)")


def _whole(text: str, least: int = 1) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}. Got {text!r} instead.")
    return int(text)


def _seed(text: str) -> int:
    return _whole(text, least=0)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number greater than 0. Got {text!r} instead.")
    return number


@dataclass(frozen=True)
class _Data:
    """What is learned from, judged by, and measured on."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    usable: int  # of the pairs to learn from: those that are not too long
    own_test: bool  # whether the test pairs had no part in choosing the model

    def told(self, args: argparse.Namespace) -> str:
        """Say how many pairs there are."""
        learned, judged = counted(len(self.train), "pair"), str(len(self.valid))
        if self.valid is self.train:
            judged = "too few to keep any aside, so the same"
        return (
            f"{learned} to learn from, {self.usable} of them with at most {counted(args.max_tokens, 'token')} on"
            f" both sides; {judged} to choose the best model by, {len(self.test)} to test on"
        )

    def tested_on(self) -> str:
        """Say what a result on the test pairs is worth."""
        count = len(self.test)
        if self.own_test:
            return counted(count, "held-out sentence")
        if self.valid is not self.train:
            return f"{counted(count, 'held-out sentence')} that also chose the model"
        own = "the training sentence itself" if count == 1 else f"the {count} training sentences themselves"
        return f"{own}: there are too few to keep any aside"


def counted(count: int, thing: str) -> str:
    """Return a number with its noun.

    Parameters
    ----------
    count : int
        How many.
    thing : str
        What one of them is called.

    Returns
    -------
    str
        With a plural's "s" where it is one.

    Examples
    --------
    >>> counted(1, "pair"), counted(2, "pair")
    ('1 pair', '2 pairs')
    """
    return f"{count} {thing}{'' if count == 1 else 's'}"


def run(args: argparse.Namespace) -> int:
    """Train, measure and show.

    Parameters
    ----------
    args
        What the parser found.

    Returns
    -------
    int
        0; 1 if the loss stopped being a number; 130 if the user interrupts, or the process is asked to end.

    Raises
    ------
    ValueError
        If a file is not what it should be: before anything is written.

    Examples
    --------
    >>> run(argparse.Namespace(pairs=Path("no-such-file")))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    data = _read(args)
    runs = _runs(args)
    place = runs[0][1]
    place.parent.mkdir(parents=True, exist_ok=True)
    print(data.told(args), file=sys.stderr)
    if line := pictures.missing():
        print(line, file=sys.stderr)
    with _ended_like_interrupted():
        return _train_and_show(args, data, runs)


@contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """Let a request to end (SIGTERM) do what Ctrl-C does; only the main thread may ask for that."""
    alone = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if not alone or before is not signal.SIG_DFL:  # someone else has other plans for it
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _train_and_show(args: argparse.Namespace, data: _Data, runs: Sequence[tuple[bool, Path]]) -> int:
    results, place = [], runs[0][1]
    for attention, path in runs:
        training = _Training(args, data, path, attention=attention)
        status = training.run()
        if status:
            return status
        results.append((attention, training.model))
    try:
        _measure(results, data)
        _show(results[0][1], data.test, place)
    except KeyboardInterrupt:
        print(f"interrupted; the model is in {place}", file=sys.stderr)
        return 130
    print(f"the model is in {place}")
    return 0


def _read(args: argparse.Namespace) -> _Data:
    train = read_pairs(args.pairs)
    if args.valid:
        valid = read_pairs(args.valid)
    else:
        train, valid = hold_out(train, args.seed)
        valid = train if valid == train else valid
    test = read_pairs(args.test) if args.test else valid
    usable = _usable(train, args.max_tokens, args.pairs)
    _usable(valid, args.max_tokens, args.valid or args.pairs)
    test = _usable(test, args.test_max_tokens, args.test or args.valid or args.pairs)
    return _Data(train, valid, test, len(usable), own_test=args.test is not None)


def _usable(pairs: Sequence[Pair], longest: int, path: Path) -> list[Pair]:
    """Return the pairs that are short enough, if there are any."""
    if not (short := _short(pairs, longest)):
        raise ValueError(f"{path}: no pair has at most {counted(longest, 'token')} on both sides")
    return short


def _short(pairs: Sequence[Pair], longest: int) -> list[Pair]:
    return [pair for pair in pairs if all(0 < len(cut(side)) <= longest for side in pair)]


def _runs(args: argparse.Namespace) -> list[tuple[bool, Path]]:
    """Return what is trained (with attention or without) and where it goes, unless there is something else."""
    place = args.out if args.out.suffix == ".safetensors" else args.out / "model.safetensors"
    runs = [(not args.no_attention, place)]
    if args.compare:
        runs.append((False, place.with_name(f"{place.stem}-without-attention{place.suffix}")))
    for _, path in runs:
        _check_free(path)
    return runs


def _check_free(place: Path) -> None:
    """Refuse to write over what is no model."""
    for folder in place.parents:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"--out: {folder} is a file, not a folder; nothing is overwritten")
    if place.exists():
        try:
            read_model(place)
        except ValueError:
            raise ValueError(f"--out: {place} exists and is no model file; nothing is overwritten") from None


class _Training:
    """One model on its way from pairs to a file."""

    def __init__(self, args: argparse.Namespace, data: _Data, path: Path, *, attention: bool) -> None:
        self.data, self.path = data, path
        self.name = "training" if attention else "training without attention"
        self.sample = _short(data.valid, args.test_max_tokens)[:_SAMPLE]
        self.saved, self.last = "", 0  # the best epoch in words; the last epoch that was told
        self.model = Seq2Seq(
            attention=attention,
            epochs=args.epochs,
            minutes=args.minutes,
            max_tokens=args.max_tokens,
            rate=args.rate,
            seed=args.seed,
        )

    def run(self) -> int:
        """Train until the end, an interruption or a loss that is no number."""
        try:
            self._steps()
        except KeyboardInterrupt:
            kept = f"the best model, {self.saved}, is kept in {self.path}"
            self._stopped("interrupted", kept)
            return 130
        except Diverged as error:
            self._stopped(f"stopped: {error}", f"the last good model, {self.saved}, is kept in {self.path}")
            return 1
        return 0

    def _stopped(self, why: str, kept: str) -> None:
        print(f"{why}; {kept if self.saved else 'no model has been written'}", file=sys.stderr)

    def _steps(self) -> None:
        """Learn; every validation is told, every improvement saved."""
        with ExitStack() as stack:
            progress: Progress | None = None
            for step in self.model.steps(self.data.train, self.data.valid):
                if progress is None:
                    progress = stack.enter_context(Progress(step.total, self.name))
                progress.advance(loss=step.loss, total=step.total)
                if step.best:
                    self.model.save(self.path)
                    self.saved = f"that of epoch {step.epoch}"
                if self._is_news(step):
                    self.last = step.epoch
                    progress.say(self._told(step))
            if progress is not None and step.epoch > _ALL_TOLD:
                progress.say(f"the best model is {self.saved}")

    def _is_news(self, step: Step) -> bool:
        """Say whether a validation is told; of many epochs, those that are better, at growing distances."""
        if step.validation is None:
            return False
        if step.epoch <= _ALL_TOLD or step.number == step.total:
            return True
        return step.best and step.epoch >= 1.1 * self.last

    def _told(self, step: Step) -> str:
        told = f"epoch {step.epoch}: validation loss {step.validation:.3f}"
        bleu = _bleu(self.model, self.sample, beam=1) if self.sample else None
        if bleu is not None:
            told += f", BLEU {bleu[0]:.1f} (greedy, {counted(len(self.sample), 'sentence')})"
        return told + (", saved" if step.best else "")


def _bleu(model: Seq2Seq, pairs: Sequence[Pair], *, beam: int) -> tuple[float, str] | None:
    """Return BLEU in percent and its signature, or None without sacrebleu."""
    if find_spec("sacrebleu") is None:
        return None
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    found = [translation.text for translation in model.translate([pair[0] for pair in pairs], beam=beam)]
    score = metric.corpus_score(found, [[pair[1] for pair in pairs]]).score
    return score, str(metric.get_signature())


def _measure(results: Sequence[tuple[bool, Seq2Seq]], data: _Data) -> None:
    """Print BLEU, for each of the models that were trained."""
    for attention, model in results:
        bleu = _bleu(model, data.test, beam=5)
        if bleu is None:
            return
        how = "with" if attention else "without"
        print(f"BLEU {bleu[0]:.1f} {how} attention, on {data.tested_on()}, beam 5 ({bleu[1]})")


def _show(model: Seq2Seq, test: Sequence[Pair], place: Path) -> None:
    """Show three of the test sentences, and where the model looked."""
    chosen = _three(test)
    for number, (pair, translation) in enumerate(
        zip(chosen, model.translate([source for source, _ in chosen]), strict=True), 1
    ):
        print()
        for name, text in zip(
            ("source", "translation", "reference"), (pair[0], translation.text, pair[1]), strict=True
        ):
            print(f"{name + ':':<13}{clean(text)}")
        if translation.alignment is not None and translation.tokens:
            print(pictures.draw(translation))
            if find_spec("matplotlib") is not None:
                path = place.with_name(f"alignment-{number}.png")
                pictures.save(translation, path)
                print(f"drawn in {path}")
    print()


def _three(test: Sequence[Pair]) -> list[Pair]:
    """Choose sentences of some length from the beginning, the middle and the end."""
    long = [pair for pair in test if len(cut(pair[0])) >= 6]
    among = long if len(long) >= 3 else list(test)
    return [among[len(among) * part // 4] for part in (1, 2, 3)] if len(among) >= 3 else among

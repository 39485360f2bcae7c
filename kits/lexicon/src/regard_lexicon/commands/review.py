"""The verb `review`: entries of a pronunciation dictionary that models which have never seen their words doubt."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard import _check, _files, _signals
from regard._characters import as_cell
from regard.commands import argument_types
from regard.commands.options import check_outputs
from regard.commands.tasks.data import Data
from regard.commands.train.arguments import (
    OF_OTHER_SOURCES,
    add_extras,
    add_network,
    add_networks,
    add_training,
    given_extras,
    given_options,
)
from regard.commands.train.files import RunFiles
from regard.commands.train.identity import identity
from regard.commands.train.run import Run, prepared_runs
from regard.seq2seq.corpus.spelling import families
from regard.seq2seq.corpus.splits import by_family, hold_out
from regard.seq2seq.decoding.calibration import FEWEST
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.training.config import TrainingConfig
from regard.show.progress import Progress
from regard.show.terminal.text import clean, note, report
from regard_lexicon import Lexicon
from regard_lexicon.commands.dictionary import dictionary_pairs
from regard_lexicon.commands.lexicon import add_input, joined
from regard_lexicon.commands.task import PronunciationTask
from regard_lexicon.inflections import Irregular, irregular
from regard_lexicon.ipa import PHONES
from regard_lexicon.reading import places
from regard_lexicon.recipes import EXTRAS, expected_seconds, preset
from regard_lexicon.reviewing import Doubt, Entry, Judged, as_folds, doubts, worst_first

__all__ = ["add_arguments", "run"]

_TOGETHER = 2_000  # words that are judged together
_MOST_FOLDS = 100
# Of 99 planted errors in 4,505 entries, 73, 59, 24 were among the first 200 rows where 65, 74, 98 % were wrong.
_MOST_WRONG = 0.9
_AN_HOUR_AND_MORE = 90  # minutes; longer times are in hours
_COLUMNS = ("line", "word", "listed", "expected", "doubt", "probability", "inflections")

EXAMPLES = """\
The words are divided into folds, all words of a spelling family into the same one. For each fold a model learns the
words of the others, and judges those of the fold, which it has never seen. The table has a line for each entry whose
phones are less probable than others that are not listed, the most doubtful of each fold first: the line of the
dictionary, the word, the listed phones, the expected ones, how much more probable others are for each phone that
differs, the probability that the expected ones are right, and of an entry that differs from all of its own
inflections, how many these are: it comes earlier. Entries of a spelling family that the same change corrects stand
together.

Ctrl-C stops; the same command goes on. Models and results of the folds are in --work.

examples:
  regard review words.dict --out doubts.tsv
  regard review words.dict --out doubts.tsv --folds 10 --minutes 20
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard review`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "List the entries of a pronunciation dictionary that models doubt."
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("file", type=argument_types.path, metavar="FILE", help="a pronunciation dictionary")
    add_input(parser)
    add(
        "--out",
        type=argument_types.path,
        required=True,
        metavar="FILE.tsv",
        help="the table of doubtful entries",
    )
    add(
        "--folds",
        type=argument_types.integer(2, _MOST_FOLDS),
        default=5,
        metavar="N",
        help="parts of the words, and models (default 5)",
    )
    add(
        "--work",
        type=argument_types.path,
        metavar="FOLDER",
        help="of the folds (default: the name of --out, .folds)",
    )
    model = parser.add_argument_group("the model, where it is not that of regard train --task pronunciation")
    add_network(model.add_argument)
    add_extras(model.add_argument)
    add_training(parser.add_argument_group("training of each fold"), without=OF_OTHER_SOURCES)
    add_networks(parser)
    parser.set_defaults(max_tokens=None)


def run(args: argparse.Namespace) -> int:
    """Train a model for each fold, judge its words, and write the doubts."""
    check_outputs({"--out": args.out}, [args.file])
    lexicon = joined([args.file], format=args.source, skip_bad=args.skip_bad, phones=args.phones)
    folds = _folds(lexicon, args.folds)
    work = args.work or args.out.with_name(f"{args.out.name}.folds")
    paths = [work / f"fold-{number}.safetensors" for number in range(1, len(folds) + 1)]
    _check_work(work, paths)
    judged: list[Judged] = []
    try:
        for number, (words, path) in enumerate(zip(folds, paths, strict=True), 1):
            fold = Fold(args, lexicon, words, path, f"fold {number} of {len(folds)}")
            if number == 1:
                note(_expected_time(fold.run.model.training, fold.seconds, len(folds)))
            if status := fold.train():
                return status
            judged.append(fold.judge())
    except KeyboardInterrupt as error:
        note("interrupted; the same command goes on from there")
        return _signals.status_of(error)
    where = places(args.file, args.source, args.phones or PHONES[0])
    inflections, entries = irregular(lexicon), sum(map(len, lexicon.values()))
    rows = worst_first([part.doubts for part in judged], inflections, entries)
    with _files.replacing(args.out) as file:
        file.writelines(f"{line}\n".encode() for line in _table(rows, where, inflections))
    print(report(f"{len(rows):,} of {entries:,} entries are doubted, the worst first in {args.out}"))
    _note_wrong(sum(part.wrong for part in judged) / len(lexicon))
    return 0


def _note_wrong(share: float) -> None:
    """Report how many words the models pronounce otherwise; where they are most, the doubts say little."""
    line = f"the models pronounce {100 * share:.0f} % of the words otherwise than listed"
    if share > _MOST_WRONG:
        line += (
            ": they have learned too little for the order of the rows to say much, but of those with inflections;"
            " more --minutes or --steps helps"
        )
    note(line)


def _expected_time(training: TrainingConfig, seconds: float | None, folds: int) -> str:
    """Return how long the folds will be trained, each for so many seconds, before the first is."""
    if training.minutes is not None:
        each = _minutes(training.minutes)
        time = f": {_length(folds * training.minutes)}"
    else:
        each = f"{training.epochs:,} epochs" if training.steps is None else f"{training.steps:,} steps"
        time = "" if seconds is None else f": about {_length(folds * seconds / 60)} on two free cores"
    return (
        f"{folds} folds are trained for {each} each{time}, besides preparing and judging;"
        " --minutes sets those of each, and a stopped review goes on"
    )


def _length(minutes: float) -> str:
    """Describe a time in minutes or hours."""
    return _minutes(math.ceil(minutes)) if minutes < _AN_HOUR_AND_MORE else f"{minutes / 60:.1f} hours"


def _minutes(number: float) -> str:
    return f"{number:g} minute{'s' * (number != 1)}"


def _check_work(work: Path, paths: Sequence[Path]) -> None:
    """Check that the files of all folds can be written, before the first is trained."""
    _check.folder(work, "--work")
    for path in paths:
        RunFiles(path).check_overwrites()
        _check.replaceable(_result(path))


def _result(path: Path) -> Path:
    """Return the file of a fold's doubts."""
    return path.with_suffix(".json")


def _folds(lexicon: Lexicon, count: int) -> list[list[str]]:
    """Return the words of each fold."""
    known = families(lexicon)
    if len(known) < 2 * count:
        rule = f"--folds {count} needs {2 * count} families of words with the same beginning"
        _check.fail(f"{rule}. Got {len(known)} instead.")
    return as_folds(known, count)


class Fold:
    """A part of the words, and the model of the other words that judges them."""

    def __init__(
        self, args: argparse.Namespace, lexicon: Lexicon, words: list[str], path: Path, name: str
    ) -> None:
        self.lexicon, self.words = lexicon, {word: lexicon[word] for word in words}
        others = Lexicon.of_checked(entry for entry in lexicon.entries() if entry[0] not in self.words)
        options = preset(others, given_options(args, {"extras": {**EXTRAS, **given_extras(args)}}))
        self.seconds = expected_seconds(len(others), options)
        model = Seq2Seq(**options)
        self.run = Run(model, RunFiles(path))
        self.run.name = name
        train, valid = hold_out(dictionary_pairs(others, model), model.fits, groups=by_family)
        self.data = Data(train, valid, valid)
        self.measures = PronunciationTask(args).measures(model, self.data)
        self.identity = identity(model, self.data, {})
        self.result = _result(path)

    def train(self) -> int:
        """Train the model, or resume that; return the exit status of what has stopped it, or 0."""
        run = self.run
        run.files.check()
        if run.files.is_done():
            if run.files.finished_identity() != self.identity:
                rule = f"--work: {run.files.model} is of another dictionary or other options."
                _check.fail(rule, hint="give another folder, or remove this one")
            return 0
        note(f"{run.name}: learning other words, to judge {len(self.words):,}")
        run.begin(self.data, run.model.max_tokens, self.measures)
        with prepared_runs([run]):
            if status := run.train():
                return status
            run.files.log_end(run.training.step, self.identity)
            run.files.remove_checkpoint()
        return 0

    def judge(self) -> Judged:
        """Return the doubts of the model, which are kept for the next time."""
        if (known := self._known()) is not None:
            return known
        model = Seq2Seq.load(self.run.files.model)
        held_out = {str(source) for source, _ in self.data.valid} - {
            str(source) for source, _ in self.data.train
        }
        if len(held_out) >= FEWEST:
            model.calibrate(*zip(*self.data.valid, strict=True))
        found, wrong = list[Doubt](), 0
        with Progress(len(self.words), f"judging {self.run.name}") as progress:
            for part in _parts(self.words):
                judged = doubts(model, part)
                found, wrong = found + judged.doubts, wrong + judged.wrong
                progress.advance(len(part))
        with _files.replacing(self.result) as file:
            saved = {"identity": self.identity, "doubts": found, "wrong": wrong}
            file.write(json.dumps(saved).encode())
        return Judged(found, wrong)

    def _known(self) -> Judged | None:
        """Return the doubts of an earlier call, if there are any of this model."""
        try:
            saved = json.loads(self.result.read_bytes())
            if saved["identity"] != self.identity:
                return None
            rows = [Doubt(row[0], tuple(row[1]), tuple(row[2]), *row[3:]) for row in saved["doubts"]]
            return Judged(rows, int(saved["wrong"]))
        except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError):
            return None


def _parts(words: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield some words at a time."""
    items = iter(words.items())
    while part := dict(islice(items, _TOGETHER)):
        yield part


def _table(
    found: Sequence[Doubt], where: Mapping[Entry, str], inflections: Mapping[Entry, Irregular]
) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "\t".join(_COLUMNS)
    for doubt in found:
        entry = doubt.word, doubt.listed
        place = where.get(entry, "").removeprefix("line ")
        probability = "" if doubt.probability is None else f"{doubt.probability:.4f}"
        cells = (
            place,
            doubt.word,
            " ".join(doubt.listed),
            " ".join(doubt.expected),
            f"{doubt.doubt:.3f}" if doubt.expected else "",
            probability,
            str(inflections[entry].inflections) if entry in inflections else "",
        )
        yield "\t".join(as_cell(clean(cell)) for cell in cells)

"""The verb `distill`: train a small model on the answers of others, and on their distributions over tokens."""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from regard import _check, _files
from regard.commands import argument_types
from regard.commands.loading import load_all
from regard.commands.options import check_needs, check_standard_input, first_given
from regard.commands.train.arguments import (
    OF_DICTIONARIES,
    OF_OTHER_SOURCES,
    add_files,
    add_networks,
    add_preset,
    add_sizes,
    add_training,
    check_pairs,
    made,
    model_paths,
    pair_files,
)
from regard.commands.train.card import describe_rates, make_card, rates
from regard.commands.train.data import Data, identity, read, short_pairs, with_noun
from regard.commands.train.dictionary import tested_words
from regard.commands.train.files import RunFiles
from regard.commands.train.report import measure, measures_for
from regard.commands.train.run import train_all
from regard.seq2seq.corpus.pairs import read_lines
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.distillation import (
    TOP_K,
    Chosen,
    Labels,
    answerable,
    check_student,
    label,
    labels_identity,
    learnable,
)
from regard.seq2seq.ensemble import Ensemble
from regard.seq2seq.model import Seq2Seq, token_options
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import Translator
from regard.show.progress import Progress
from regard.show.terminal.text import clean, note

__all__ = ["add_arguments", "run"]

_FIXED = {  # what the other options of `regard train` are here
    **dict.fromkeys(("links", "links_by", "links_from")),
    "source": None,
    "compare": False,
    "no_attention": False,
}
_SHOWN = 3  # reasons for which sources are left out
_FORECAST_SECONDS = 5.0  # of labelling before the forecast
_ALONE = "regard train, with the same pairs and options, shows what the same network learns without teachers"
_MEASURED = (
    "; of 5,000 words of CMUdict it had 49 % of other words wrong, and a student 45 %; of 104,447 words a student was"
    " no better"
)
EXAMPLES = """\
The student reads and writes the tokens of the teachers, and needs nothing of them: no extras, no second network. Give
the pairs that the teachers were trained with: the same words are held out then. Sources that have pairs are not
answered, and neither are those that are held out.

The labels of the teachers are in labels.safetensors next to the model. After an interrupt, and for a student with
other options, the same command reads them from there.

examples:
  regard distill runs/en --pairs words.dict --preset pronunciation --sources more.txt --out runs/small
  regard distill runs/one runs/two --pairs pairs.tsv --sources more.txt --out runs/small
  regard distill runs/mine --sources lines.txt --n-best 4 --soft-weight 0 --out runs/small    answers alone
  regard distill runs/mine --pairs pairs.tsv --network encoder=64 decoder=96 --minutes 30 --out runs/small
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard distill`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.usage = "%(prog)s TEACHER [TEACHER ...] [--pairs PAIRS] [--sources FILE] [--out PATH] [options]"
    add = parser.add_argument
    teachers = "models from regard train, or their folders, with the same tokens: several are an ensemble"
    add("teachers", nargs="+", type=argument_types.path, metavar="TEACHER", help=teachers)
    pairs = "pairs whose targets are learned, too, as for regard train: in one file or two, or dictionaries"
    add("--pairs", nargs="+", default=[], type=argument_types.non_empty, metavar="PAIRS", help=pairs)
    sources = "sources without targets, one a line, which the teachers answer; - for standard input"
    add(
        "--sources",
        nargs="+",
        action="extend",
        default=[],
        type=argument_types.path,
        metavar="FILE",
        help=sources,
    )
    answers = "most answers to each source (default 1); each is learned as often as its share of N"
    add(
        "--n-best",
        type=argument_types.integer(most=argument_types.BEAMS),
        default=1,
        metavar="N",
        help=answers,
    )
    kept = f"tokens of a distribution that are kept (default {TOP_K})"
    add("--top-k", type=argument_types.integer(), default=TOP_K, metavar="N", help=kept)
    add_files(parser)
    add_preset(parser.add_argument_group("presets, and the dictionaries that they read"))
    add_sizes(parser.add_argument_group("the student").add_argument)
    add_training(parser.add_argument_group("training"), without=OF_OTHER_SOURCES)
    add_networks(parser)
    parser.set_defaults(**_FIXED)


def run(args: argparse.Namespace) -> int:
    """Label, train, measure and show."""
    _check_options(args)
    teacher = load_all(args.teachers[0], args.teachers[1:], arrays=None)
    hashes = [sha256(model_file(path).read_bytes()).hexdigest() for path in args.teachers]
    names = pair_files(args) if args.pairs else None
    lexicon = names.lexicon if names else None
    sources = list(chain.from_iterable(map(_read_sources, args.sources)))
    student = _student(args, teacher, {*(lexicon or ()), *sources})
    lessons = _Lessons(args, teacher, student, sources)
    read_data = partial(read, names, student, student.max_tokens) if names else _no_data
    return train_all(
        args,
        [student],
        model_paths(args),
        lambda: lessons.choose(read_data()),
        partial(_card, args, teacher, hashes),
        lessons.learn,
        lessons.identity,
    )


def _check_options(args: argparse.Namespace) -> None:
    """Check which options go together."""
    if not (args.pairs or args.sources):
        _check.fail("there is nothing to learn from.", hint="give --sources, --pairs, or both")
    check_standard_input([*map(Path, args.pairs), *args.sources])
    check_needs(args, ((option, "--preset", "") for option in OF_DICTIONARIES))
    check_pairs(args)
    for option in () if args.pairs else ("--valid", "--test", "--columns", "--skip-empty", *OF_DICTIONARIES):
        if first_given(args, [option]):
            _check.fail(f"{option} needs --pairs")
    (student,) = model_paths(args)
    if _files.real(student) in map(_files.real, map(model_file, args.teachers)):
        _check.fail(
            f"--out: {student} is a teacher, which a student must not replace.", hint="give another --out"
        )


def _no_data() -> Data:
    return Data([], [], [])


def _read_sources(path: Path) -> list[str]:
    """Read the sources of a file, without blank lines."""
    lines = list(chain.from_iterable(read_lines("-" if str(path) == "-" else path)))
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            rule = (
                f"{path}, line {number}: a line must be one source. It has {line.count(chr(9)) + 1} columns"
            )
            _check.fail(f"{rule} instead.", hint="--pairs reads sources with targets")
    return [text for line in lines if (text := line.strip())]


def _student(args: argparse.Namespace, teacher: Translator, words: Collection[str]) -> Seq2Seq:
    """Return the model to train: the tokens are those of the teachers, the rest is of the options."""
    if teacher.model.source.tokenizer is None:
        kind = teacher.model.source.kind
        _check.fail(f"{args.teachers[0]} is a model of {kind}: teachers must be models of text.")
    student = Seq2Seq(**made(args, token_options(teacher.model), words))
    check_student(teacher, student)
    return student


class _Lessons:
    """What the student of a command learns: pairs, and sources that the teachers answer."""

    def __init__(
        self, args: argparse.Namespace, teacher: Translator, student: Seq2Seq, texts: Sequence[str]
    ) -> None:
        self.args, self.teacher, self.student = args, teacher, student
        self.sources = [teacher.model.source.load(text) for text in texts]

    def choose(self, data: Data) -> Data:
        """Choose the pairs that the teachers know, and the sources that they can answer; report the others."""
        source, target = self.teacher.model.source, self.teacher.model.target
        most = self.student.max_tokens
        given = [(source.load(one), target.read(two)) for one, two in data.train]
        pairs = learnable(self.teacher, given, most)
        held_out = {source.load(pair[0]) for pair in (*data.valid, *data.test)} if not data.too_few else set()
        asked = [one for one in self.sources if one not in held_out]
        chosen = answerable(self.teacher, asked, most)
        _report("pair", pairs)
        _report("source", chosen)
        if asked != self.sources:
            note(
                f"{with_noun(len(self.sources) - len(asked), 'source')} left out: held out for validation or test"
            )
        if data.train and not pairs.kept:
            _check.fail(
                "--pairs: the teachers know the tokens of no pair.", hint="see --stress and --phone-map"
            )
        self.sources = chosen.kept
        return replace(data, train=pairs.kept)

    def identity(self, model: Seq2Seq, data: Data) -> str:
        """Return the identity of a training: that of its model and pairs, and of what teachers are asked."""
        return sha256(f"{identity(model, data)} {self._labels(data)}".encode()).hexdigest()

    def _labels(self, data: Data) -> str:
        options = self.args.n_best, self.args.top_k
        return labels_identity(self.teacher, data.train, self.sources, options)

    def learn(self, data: Data, files: RunFiles) -> Data:
        """Return the data with the labels of the teachers, which are read from a file if it has them."""
        files.model.parent.mkdir(parents=True, exist_ok=True)
        if data.train:
            note(_ALONE + _MEASURED * bool(self.args.preset))
        total = len(data.train) + len(self.sources)
        with files.locked(), Progress(total, "labelling") as progress:
            try:
                labels = self._label(data, files.labels, partial(_advance, progress, _Forecast(total)))
            except KeyboardInterrupt:
                progress.write("interrupted; the labels are not complete, and the same command begins anew")
                raise
        if data.train:
            return replace(data, labels=labels)
        labels, valid = labels.split()
        note("validation is on answers of the teachers: --pairs has none to hold out")
        return replace(data, labels=labels, valid=valid, test=valid, tested=str(self.args.sources[0]))

    def _label(self, data: Data, path: Path, progress: Callable[[int], object]) -> Labels:
        return label(
            self.teacher,
            data.train,
            self.sources,
            n_best=self.args.n_best,
            top_k=self.args.top_k,
            path=path,
            replace=self.args.fresh,
            hint="--fresh labels anew, another --out keeps them",
            progress=progress,
        )


class _Forecast:
    """Tells once how long labelling will take, as soon as its speed is known."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.since, self.told = total, 0, time.monotonic(), False

    def advance(self, more: int, now: float | None = None) -> str:
        """Return the line, or an empty text."""
        self.done += more
        seconds = (time.monotonic() if now is None else now) - self.since
        if self.told or seconds < _FORECAST_SECONDS or self.done >= self.total:
            return ""
        self.told = True
        minutes = math.ceil(seconds * self.total / self.done / 60)
        return f"labelling takes about {with_noun(minutes, 'minute')}, once: the student is trained after it"


def _advance(progress: Progress, forecast: _Forecast, more: int) -> None:
    """Advance the progress of labelling, and tell how long it will take."""
    if line := forecast.advance(more):
        progress.write(line)
    progress.advance(more)


def _report(what: str, chosen: Chosen[Any]) -> None:
    """Report how many are left out, with the most frequent reasons."""
    if chosen.left_out:
        note(f"{with_noun(len(chosen.left_out), what)} left out:")
        for reason, count in Counter(chosen.left_out.values()).most_common(_SHOWN):
            note(f"  {count:,}: {clean(reason)}")


def _card(
    args: argparse.Namespace,
    teacher: Translator,
    hashes: Sequence[str],
    data: Data,
    model: Seq2Seq,
    measured: dict[str, Any] | None,
) -> dict[str, Any]:
    """Print the measures of the teachers, and return the card of a student, with the hashes of their files."""
    models = teacher.models if isinstance(teacher, Ensemble) else (teacher,)
    cards = [one.model.card or {} for one in models]
    licences = dict.fromkeys(one["licence"] for one in cards if isinstance(one.get("licence"), str))
    made = {} if data.lexicon is None or measured is None else make_card(args, data, model, measured)
    return made | {
        "licence": args.licence or "; ".join(licences) or None,
        "teachers": [
            {
                "name": path.resolve().name,
                "sha256": digest,
                "licence": one.get("licence"),
            }
            for path, digest, one in zip(args.teachers, hashes, cards, strict=True)
        ],
        "held_out_teachers": _measured(teacher, model, data),
    }


def _measured(teacher: Translator, model: Seq2Seq, data: Data) -> dict[str, Any] | None:
    """Print the measures of the teachers; return their error rates, if they are of pronunciation."""
    if not data.train:
        return None  # the test is on their own answers
    if data.lexicon is None:
        test = short_pairs(model, data.test, model.max_tokens)
        answers = [one.text for one in teacher.translate([source for source, _ in test])]
        print(f"{measure(measures_for(model, data), model, test, answers)} of the teachers, beam {BEAM}")
        return None
    words = tested_words(data.test)
    found = rates([one.tokens for one in teacher.translate([*words])], [*words.values()])
    print(f"the teachers, beam {BEAM}: {describe_rates(found)}")
    return {"words": len(words), "beam": BEAM, **found}

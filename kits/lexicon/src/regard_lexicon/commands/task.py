"""The task `pronunciation`: letters to sounds, from pronunciation dictionaries."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from regard import _check
from regard._once import computed_once
from regard.commands.options import first_given
from regard.commands.summary import Measures, Summary
from regard.commands.tasks.base import Task
from regard.commands.tasks.data import Data, with_noun
from regard.commands.tasks.items import Column, Items
from regard.commands.train.confidence import Confidence
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.corpus.splits import SEED, Groups, by_family, hold_out, split_validation
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.evaluation import metrics
from regard.seq2seq.evaluation.held_out import HeldOut, as_held_out
from regard.seq2seq.evaluation.metrics import Reference
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources import SOURCES
from regard.seq2seq.sources.text.vocabulary import SPECIAL
from regard.seq2seq.translator import Translator
from regard_lexicon import Lexicon
from regard_lexicon.commands.app import PronouncerApp, add_export_arguments
from regard_lexicon.commands.dictionary import (
    dictionary_format,
    dictionary_pairs,
    read_dictionary,
    reads_dictionary,
    right_answers,
    tested_words,
)
from regard_lexicon.commands.lexicon import add_phones, add_reading
from regard_lexicon.commands.rates import by_threshold, describe_rates, rates, rates_by_length
from regard_lexicon.files import load
from regard_lexicon.ipa import PHONES
from regard_lexicon.recipes import expected_time, preset

__all__ = ["PronunciationTask"]

_MOST_TESTED = 2_000  # words that are held out for the test
_SPELLED = ("characters", "subwords")  # tokens that are letters, or made of them
_OF_PAIRS = ("--columns", "--skip-empty", "--links", *(f"--source {x}" for x in SOURCES if x not in _SPELLED))
_ENDS = ("--steps", "--minutes", "--epochs")
_GRAPHONES = (
    "if targets follow their sources from left to right, as sounds follow letters, --extras graphones=8 makes"
    " fewer errors, and cannot be exported"
)


class PronunciationTask(Task):
    """Words and their phones: measured are the words that are wrong, any variant being right, and their phones."""

    name = "pronunciation"
    description = "letters to sounds, from pronunciation dictionaries"
    verb = "pronounce"
    most_calibrated = None
    copies = False
    into_pairs = "regard lexicon --format tsv"

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        """Add the options of dictionaries: how they are read, what is held out, their licence."""
        add_phones(group)
        add_reading(group)
        licence = "the licence of the dictionary, for the card in the model file"
        group.add_argument("--licence", metavar="TEXT", help=licence)
        group.add_argument(
            "--split",
            choices=("families", "words"),
            help="what is held out together: words with the same beginning, as inflections have (default), or each"
            " alone",
        )

    def check(self) -> None:
        """Raise for options of pairs, and for words that are held out of given files."""
        if self.args.split and self.args.valid:
            _check.fail("--split is about words that are held out: --valid must not be given with it")
        if option := first_given(self.args, _OF_PAIRS):
            _check.fail(f"--task {self.name} reads pronunciation dictionaries: {option} must not be given")

    @computed_once
    def _read(self) -> Any:
        """A function that reads dictionaries as one, each once."""
        return cache(partial(read_dictionary, self.args))

    @property
    def lexicon(self) -> Lexicon:
        """The words of the training with their pronunciations."""
        lexicon: Lexicon = self._read(tuple(self.args.pairs))
        return lexicon

    def defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that are right for so many words, where none are given."""
        return preset(self.lexicon, given)

    def forecast(self, model: Seq2Seq) -> str:
        """Return how long the training takes, if its length is not given."""
        return "" if first_given(self.args, _ENDS) else self._expected_time(model)

    def _expected_time(self, model: Seq2Seq) -> str:
        return expected_time(self.lexicon, {**vars(model), "network": model.network_options})

    def read(self, model: Seq2Seq) -> Data:
        """Read the words; if no other files are given, hold some out for validation and others for the test."""
        args, groups = self.args, self._groups
        train = dictionary_pairs(self.lexicon, model)
        valid, test = (
            None if paths is None else dictionary_pairs(self._read(tuple(paths)), model)
            for paths in (args.valid, args.test)
        )
        if not self._given:
            train, test = hold_out(train, model.fits, most=_MOST_TESTED, groups=groups)
        if valid is None:
            train, valid, _ = split_validation(train, None, model.fits, groups)
        test = valid if test is None else test
        tested = (args.test or args.valid or args.pairs)[0]
        own_valid, own_test = args.valid is not None, test != valid
        self.files = [*map(_hashed, args.pairs)]  # as they were before the training
        return Data(train, valid, test, own_valid=own_valid, own_test=own_test, tested=tested)

    @property
    def _given(self) -> bool:
        """Whether there are files for validation or test."""
        return bool(self.args.valid or self.args.test)

    @property
    def _groups(self) -> Groups | None:
        """The groups of words that are held out together."""
        return None if self.args.split == "words" else by_family

    def notices(self, model: Seq2Seq, data: Data) -> Iterator[str]:
        """Yield the extra that makes fewer errors."""
        if model.reader.kind == "characters" and "graphones" not in model.extras:
            yield _GRAPHONES

    def measures(self, model: Seq2Seq, data: Data) -> Measures:
        """Return the error rates of words and phones."""
        return _Rates(False, True, *metrics.unit([str(target) for _, target in data.train], model.target))

    def measure(
        self, models: Sequence[Seq2Seq], test: Sequence[Pair], data: Data, confidences: Sequence[Confidence]
    ) -> list[dict[str, Any]]:
        """Print the error rates of each model on the words of the test, and return them."""
        words = tested_words(test)
        return [
            _print_rates(model, words, data, confidence)
            for model, confidence in zip(models, confidences, strict=True)
        ]

    def card(self, model: Seq2Seq, data: Data, measured: Mapping[str, Any]) -> dict[str, Any]:
        """Return the dictionaries, the split, letters, symbols and rules, and the error rates."""
        args, read, lexicon = self.args, model.model, self.lexicon
        parts = {"train": data.train, "valid": data.valid, "test": data.test}
        by = "file" if self._given else "word" if self._groups is None else "family"
        return {
            "files": self.files,
            "licence": args.licence,
            "date": datetime.now(UTC).date().isoformat(),
            "words": len(lexicon),
            "entries": sum(map(len, lexicon.values())),
            "split": {
                "by": by,
                "seed": None if self._given else SEED,
                **{part: len(tested_words(pairs)) for part, pairs in parts.items()},
            },
            "letters": [*read.source.tokenizer.tokens[len(SPECIAL) :]],
            "symbols": [*read.target.tokens[len(SPECIAL) :]],
            "rules": {
                "letters": read.source.tokenizer.describe(),
                "repetitions": model.repetitions,
                "phones": args.phones or PHONES[0],
                "stress": args.stress or "keep",
                "phone_map": args.phone_map and args.phone_map.name,
            },
            "held_out": dict(measured),
        }

    def held_out(self, test: Sequence[Pair], data: Data) -> HeldOut | None:
        """Return the words of the test; None if they were learned."""
        if data.too_few and not data.own_test:
            return None
        return as_held_out({word: map(" ".join, variants) for word, variants in tested_words(test).items()})

    def stated(self) -> dict[str, str]:
        """Return the licence, if it is given."""
        return {} if self.args.licence is None else {"licence": self.args.licence}

    @classmethod
    def recognise(cls, path: Path) -> str:
        """Return the format of a dictionary."""
        format = dictionary_format(path)
        return f"a dictionary in the format {format}" * bool(format)

    @classmethod
    def answers(cls, model: Translator, path: Path) -> dict[str, list[str]] | None:
        """Return the words of a dictionary with all their pronunciations."""
        return right_answers(model, path) if reads_dictionary(path) else None

    @classmethod
    def add_export_arguments(cls, group: Any) -> None:
        """Add the options of the exported dictionary, and of words for tests."""
        add_export_arguments(group)

    @classmethod
    def app(cls, model: Seq2Seq, args: argparse.Namespace) -> PronouncerApp:
        """Return the pronouncers, with the words of the dictionaries that are given."""
        return PronouncerApp(model, args)

    @classmethod
    def columns(cls, test: Items, tokenize: str) -> dict[str, Column]:
        """Return the error rates of words and phonemes."""
        return {"wer": Column.rate("WER %", _wrong), "per": Column.rate("PER %", metrics.error_lines)}

    @classmethod
    def headline(cls, test: Items) -> str:
        """Return the error rate of phonemes."""
        return "per"

    @classmethod
    def definitions(cls, test: Items) -> list[str]:
        """Return what the error rates are."""
        return ["WER: items without an exact answer; PER: edits for 100 phonemes of the references"]


def _wrong(answers: Sequence[str], references: Sequence[Reference]) -> list[tuple[int, int]]:
    """Return for each word whether its answer is wrong, and 1."""
    return [(count - right, count) for right, count in metrics.exact_lines(answers, references)]


def _hashed(path: str) -> dict[str, str]:
    """Return the name and the hash of a file."""
    return {"name": Path(path).name, "sha256": hashlib.sha256(load(path)).hexdigest()}


class _WordRates(Summary):
    """Error rates of words and phones."""

    def __str__(self) -> str:
        assert self.exact is not None
        assert self.errors is not None
        return f"WER {100 * (1 - self.exact):.1f} %, PER {100 * self.errors:.1f} %"


class _Rates(Measures):
    """Measures that are error rates of words and phones."""

    def summarize(
        self, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
    ) -> Summary:
        """Measure answers."""
        return _WordRates(*super().summarize(sources, translations, references))


def _print_rates(
    model: Seq2Seq, words: Mapping[str, Any], data: Data, confidence: Confidence
) -> dict[str, Any]:
    """Print and return the error rates of a model on the words of the test."""
    answers = [answer.candidates[0].tokens for answer in confidence.judged]
    measured = rates(answers, [*words.values()])
    measured["by_length"] = rates_by_length(answers, words)
    if confidence.probabilities:
        measured |= {
            **confidence.measures(),
            "by_probability": by_threshold(confidence, [*words.values()]),
        }
    how = "" if model.attention else "the model without attention, "
    print(f"{how}{_describe_words(data, words)}, beam {BEAM}: {describe_rates(measured)}")
    return {"words": len(words), "learned": _learned(data, words), "beam": BEAM, **measured}


def _learned(data: Data, words: Collection[str]) -> int:
    """Return how many words are training words."""
    known = {str(source) for source, _ in data.train}
    return sum(word in known for word in words)


def _describe_words(data: Data, words: Collection[str]) -> str:
    """Describe the words of the test: whether the model was trained on them or chosen by them."""
    learned = _learned(data, words)
    described = with_noun(len(words), "word" if learned else "held-out word")
    described += f", {learned} of them learned from" * bool(learned)
    return described if data.own_test else f"{described}, which also selected the epoch"

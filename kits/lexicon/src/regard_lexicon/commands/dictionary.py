"""Pronunciation dictionaries as the pairs of a training."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from regard import _check
from regard._lines import GZIP, read_lines
from regard.seq2seq.corpus.pairs import Pair, by_source
from regard.seq2seq.corpus.tables import is_csv
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources.text.tokenizers import unseen
from regard.seq2seq.translator import Translator
from regard.show.terminal.text import clean, note
from regard_lexicon import Lexicon, prepare, read
from regard_lexicon.arpabet import MAPS, phone_map
from regard_lexicon.commands.lexicon import joined, note_left_out, prepared
from regard_lexicon.files import load
from regard_lexicon.ipa import PHONES
from regard_lexicon.stress import STRESS

__all__ = [
    "as_trained",
    "dictionary_format",
    "dictionary_pairs",
    "read_dictionary",
    "reads_dictionary",
    "right_answers",
    "tested_words",
]

Phones = tuple[str, ...]

_SHOWN = 5  # phones that a model never writes
_FORMAT = "tsv"  # which has all words, phones and variants
_DIFFERENT, _EACH = (
    0.6,
    1.5,
)  # share of words that are different, uses of a phone: of sentences they are fewer


def read_dictionary(args: argparse.Namespace, paths: tuple[str, ...]) -> Lexicon:
    """Read dictionaries as one, with the phones that the options ask for; report what is left out."""
    lexicon = joined([*map(Path, paths)], skip_bad=args.skip_bad, phones=args.phones)
    result = prepared(lexicon, args, _FORMAT)
    note_left_out(result, "the training")
    return result.lexicon


def dictionary_format(path: Path) -> str:
    """Return the format of a dictionary; empty for another file, such as one of sentences."""
    try:
        lexicon = read(path, skip_bad=True)
    except (ValueError, OSError):
        return ""
    entries = [*lexicon.entries()]
    phones = sum(len(variant.phones) for _, variant in entries)
    repeated = len(lexicon) >= _DIFFERENT * len(entries) and phones >= _EACH * len(lexicon.phones())
    return lexicon.format if repeated and len(lexicon.skipped) < len(entries) else ""


def dictionary_pairs(lexicon: Lexicon, model: Seq2Seq) -> list[Pair]:
    """Return a pair for each variant of each word."""
    target = model.target_reader
    return [
        (model.reader.load(word, f"{word!r:.60}: "), target.load(" ".join(variant.phones), f"{word!r:.60}: "))
        for word, variant in lexicon.entries()
    ]


def tested_words(test: Iterable[Pair]) -> dict[str, list[Phones]]:
    """Return the words of the test with all their variants in the order of the dictionary, as often as they are judged.

    Words that the model reads alike are judged once, under the first of them.
    """
    found = by_source((source, tuple(target.content)) for source, target in test)
    return {str(source): variants for source, variants in found.items()}


def reads_dictionary(path: Path) -> bool:
    """Return whether a file of tests is read as a dictionary: standard input, CSV and gzip have pairs, a list words."""
    has_pairs = str(path) == "-" or is_csv(str(path)) or load(path, len(GZIP)) == GZIP
    return not (has_pairs or _is_list(path))


def _is_list(path: Path) -> bool:
    """Return whether a file has single words alone; a dictionary may be no text."""
    try:
        return all(len(line.split()) < 2 for line in chain.from_iterable(read_lines(path)))
    except ValueError:
        return False


def right_answers(model: Translator, path: Path) -> dict[str, list[str]]:
    """Return the words of a dictionary with all their right answers, as the training of a model reads them."""
    source, target = model.model.source, model.model.target
    entries = as_trained(model, path, "the test").entries()
    pairs = [(source.load(word), target.read(" ".join(variant.phones))) for word, variant in entries]
    return {word: [*map(" ".join, variants)] for word, variants in tested_words(pairs).items()}


def as_trained(model: Translator, path: Path, where: str) -> Lexicon:
    """Read a dictionary with the phones that the training of a model made; raise if none are phones of the model."""
    rules = (model.model.card or {}).get("rules")
    rules = rules if isinstance(rules, dict) else {}
    phones, stress, name = (rules.get(key) for key in ("phones", "stress", "phone_map"))
    lexicon = joined([path], phones=phones if phones in PHONES else None)
    result = prepare(
        lexicon,
        _FORMAT,
        stress=stress if stress in STRESS else "keep",
        phone_map=phone_map(name) if name in MAPS else None,
    )
    note_left_out(result, where)
    target = model.model.target
    texts = (" ".join(variant.phones) for _, variant in result.lexicon.entries())
    _check_phones(path, where, [unseen(target, target.read(text).content) for text in texts])
    return result.lexicon


def _check_phones(path: Path, where: str, foreign: Sequence[Sequence[str]]) -> None:
    """Raise if every pronunciation has phones that a model never writes, and report those of some."""
    if not any(foreign):
        return
    names = clean(" ".join([*dict.fromkeys(chain.from_iterable(foreign))][:_SHOWN]))
    rule = f"{path}: the model never writes {names}"
    if all(foreign):
        hint = "regard lexicon --phone-map or --symbols converts a dictionary as regard train did"
        _check.fail(f"{rule}, and each pronunciation has such phones", hint=hint)
    note(f"{rule}" + ": such pronunciations count as wrong" * (where == "the test"))

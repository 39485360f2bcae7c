"""What `regard export` adds for a model of pronunciation: pronouncers, a dictionary, and words for tests."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import chain
from operator import itemgetter, methodcaller
from pathlib import Path
from typing import Any

from regard import _check
from regard.commands import argument_types
from regard.commands.tasks.app import App
from regard.seq2seq.corpus.spelling import families
from regard.seq2seq.export.folder import Draft, copied
from regard.seq2seq.model import Seq2Seq
from regard.show.terminal.text import note
from regard_lexicon import Lexicon, Variant
from regard_lexicon.commands.dictionary import as_trained
from regard_lexicon.lexicon import known
from regard_lexicon.lines import plain_lines
from regard_lexicon.pronouncer import Pronouncer

__all__ = ["PronouncerApp", "add_export_arguments", "compact"]

_FIRST, _MOST_PHONES = 33, 0xD7FF - 33  # the code of the first phone; all are below the surrogates
_SHORT = range(4, 10)  # letters of an example
_COLUMNS = "word ids greedy log_probability answer log_probability probability"
_TEST_WORDS = "test-words.tsv"


def add_export_arguments(group: Any) -> None:
    """Add the options of ``regard export``: a dictionary of known words, and words by which a port is checked."""
    group.add_argument(
        "--lexicon",
        action="append",
        type=argument_types.path,
        default=[],
        metavar="FILE",
        help="a pronunciation dictionary, whose words the files answer as it lists them; may be repeated",
    )
    group.add_argument(
        "--test-words",
        type=argument_types.integer(1),
        metavar="N",
        help=f"write {_TEST_WORDS}: N words with ids, answers, log-probabilities and probabilities, by which a port to"
        " another language is checked",
    )


class PronouncerApp(App):
    """A pronouncer, with the words of dictionaries."""

    page = ("pronounce.js",)

    def __init__(self, model: Seq2Seq, args: argparse.Namespace) -> None:
        self.files = ("pronounce.py", "lexicon.txt", *([_TEST_WORDS] if args.test_words else []))
        self.count = args.test_words
        self.lexicon = _joined(model, args.lexicon)
        name = args.model.parent.name if args.model.suffix else args.model.name
        self.rules = {"name": name or args.model.resolve().name, **Pronouncer(model, self.lexicon).rules()}
        self.families = families(model.held_out or ())
        self.words = compact(self.lexicon)

    def examples(self, right: Sequence[str]) -> list[str]:
        """Return short words, those first that most others begin with: frequent words have inflections."""
        short = {word for word in right if len(word) in _SHORT and word.isalpha()}
        counts = Counter[str]()
        for family in self.families:
            forms = {
                word: sum(map(methodcaller("startswith", word), family)) for word in family if word in short
            }
            counts |= dict([max(forms.items(), key=itemgetter(1))] if forms else [])
        return [word for word, _ in counts.most_common()] or [*right]

    def complete(self, draft: Draft, *, page: bool) -> None:
        """Add the pronouncers, their rules and their dictionary, and the words for tests."""
        draft.add_settings(pronouncer=self.rules)
        draft.add("lexicon.txt", self.words)
        for name in ("pronounce.py", *(("pronounce.js", "page.js") if page else ())):
            draft.add(name, resources.files("regard_lexicon").joinpath("app", name).read_bytes())
        if self.count:
            rows = [*_tested(draft, self.count)]
            draft.add(_TEST_WORDS, plain_lines([_COLUMNS.replace(" ", "\t"), *rows]))
            if len(rows) < self.count:
                note(f"{_TEST_WORDS} has {len(rows):,} words: the model has no more that are held out")


def _joined(model: Seq2Seq, paths: Sequence[Path]) -> Lexicon:
    """Return dictionaries as one, the variants of the first one first."""
    lexicons = [as_trained(model, path, "lexicon.txt") for path in paths]
    return Lexicon.of_checked(chain.from_iterable(lexicon.entries() for lexicon in lexicons))


def compact(lexicon: Lexicon) -> bytes:
    """Return a dictionary for `pronounce.py`, which describes it: sorted, with a character for each phone."""
    phones = lexicon.phones()
    if len(phones) > _MOST_PHONES:
        _check.fail(
            f"a dictionary of an app has at most {_MOST_PHONES:,} phones. Got {len(phones):,} instead."
        )
    codes = {phone: chr(_FIRST + i) for i, phone in enumerate(phones)}
    rows = sorted((word.encode(), "\t".join(_cells(variants, codes))) for word, variants in lexicon.items())
    return f"{' '.join(phones)}\n".encode() + b"".join(b"%b\t%b\n" % (w, cells.encode()) for w, cells in rows)


def _cells(variants: Sequence[Variant], codes: dict[str, str]) -> Iterator[str]:
    """Yield the variants of a word, the most probable first."""
    for variant in sorted(variants, key=lambda variant: -known(variant.probability)):
        number = "" if variant.probability is None else f" {variant.probability!r}"
        yield "".join(codes[phone] for phone in variant.phones) + number


def _tested(draft: Draft, count: int) -> Iterator[str]:
    """Yield the lines of words for tests: nine of ten as they were compared, the first of them in capitals, too."""
    given = [example.name for example in draft.examples[: count - count // 10]]
    with copied("pronounce", draft.folder) as module:
        pronounce = module.TextPronouncer(draft.folder)
        for word in [*given, *map(str.upper, given[: count // 10])]:
            yield "\t".join([word, *_answers(pronounce, word)])


def _answers(pronounce: Any, word: str) -> Iterator[str]:
    """Yield the cells of a word: ids, the answers of greedy search and of a beam, and the probability."""
    decoder = pronounce.decoder
    rows = [*decoder.source.encode(pronounce.read(word)[0]), *decoder.ends]
    yield " ".join(map(str, rows))
    for beam in (1, 5):
        ids, score, _, _ = decoder.search(rows, beam)
        yield " ".join(decoder.target.tokens[i] for i in ids)
        yield f"{score * (len(ids) + 1):.5f}"
    probability = pronounce.probability(decoder.hypotheses(rows, 5, 5)[0])
    yield "" if probability is None else f"{probability:.4f}"

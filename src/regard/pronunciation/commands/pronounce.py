"""The verb `pronounce`: phones of words, from a dictionary and a trained model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from regard import _check
from regard.pronunciation import LeftOut, Lexicon, Pronunciation, Variant
from regard.pronunciation.commands.lexicon import add_output, check_output, joined, prepared, saved
from regard.pronunciation.files import Path, decoded, load
from regard.pronunciation.lexicon import Wrong, checked
from regard.pronunciation.pronouncer import UNKNOWN, Pronouncer
from regard.seq2seq.commands.loading import add_ensemble, add_lines, add_model, load_all
from regard.seq2seq.commands.options import add_beam, beam_sizes
from regard.seq2seq.model import Seq2Seq
from regard.show import argument_types
from regard.show.terminal.text import clean

__all__ = ["add_arguments", "run"]

_TOGETHER = 2_000  # words that are pronounced together
_DEPTH = 6  # objects inside of one another that are shown of a card

EXAMPLES = """\
For each word there is a line: the word, its phones, where they come from (dictionary, model, guess or skipped), and of
the model the probability of the answer and its share among all hypotheses. Columns are separated by TABs. A guess has
letters that the model has never seen. The words of --lexicon come out exactly as listed there, with all variants.

examples:
  regard pronounce runs/en words.txt --lexicon words.dict --n-best 3
  regard pronounce runs/en words.txt --unknown skip
  regard pronounce --card runs/en
  regard pronounce runs/en words.txt --format sherpa-kokoro --symbols tokens.txt --out lexicon.txt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard pronounce`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add_model(parser)
    add_lines(parser, "word")
    add_ensemble(parser)
    add(
        "--lexicon",
        action="append",
        type=argument_types.path,
        default=[],
        metavar="FILE",
        help="a pronunciation dictionary, in any format of regard lexicon; may be repeated",
    )
    add(
        "--skip-bad",
        action="store_true",
        help="leave out entries of --lexicon that cannot be read, and list them",
    )
    add_beam(parser, "write the N best pronunciations of each word that is not in the dictionary")
    add(
        "--unknown",
        choices=UNKNOWN,
        default="guess",
        help="a word with letters that the model has never seen: marked as a guess (default), left empty, or an error",
    )
    add(
        "--card",
        action="store_true",
        help="print what is known about the model: its data and its error rates",
    )
    add_output(parser)
    add("--out", type=argument_types.path, metavar="FILE", help="the dictionary to write")


def run(args: argparse.Namespace) -> int:
    """Print pronunciations, or write them as a dictionary; or print the card of the model."""
    if args.card:
        print(_card(args.model))
        return 0
    check_output(args, [args.model, *args.ensemble, *args.lexicon, *([args.file] if args.file else [])])
    beam, n_best = beam_sizes(args)
    lexicon = joined(args.lexicon, None, skip_bad=args.skip_bad)
    pronouncer = Pronouncer(load_all(args.model, args.ensemble), lexicon, unknown=args.unknown, beam=beam)
    answers = _answers(pronouncer, _words(args.file), n_best)
    if args.format is None:
        for found in answers:
            print("\n".join(map(_line, found)))
    else:
        pronounced, missing = _as_lexicon(answers)
        result = prepared(pronounced, args)
        result.left_out = (*missing, *result.left_out)
        result.lost = (*dict.fromkeys([*(entry.word for entry in missing), *result.lost]),)
        saved(result, args.out)
    return 0


def _card(path: Path) -> str:
    """Return the card of a model, a value a line."""
    card = Seq2Seq.load(path).card
    if not card:
        _check.fail(f"{path} has no card: regard train --preset pronunciation writes one")
    return "\n".join(f"{clean(name):<41} {clean(value)}" for name, value in _values("", card))


def _values(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the values of a JSON object with their names, those of inner objects after a dot."""
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        value = {str(number): inner for number, inner in enumerate(value, 1)}
    if isinstance(value, Mapping) and name.count(".") < _DEPTH:
        for key, inner in value.items():
            yield from _values(f"{name}.{key}".removeprefix("."), inner)
    elif isinstance(value, list):
        yield name, " ".join(map(_text, value))
    else:
        yield name, _text(value)


def _text(value: Any) -> str:
    """Return a value of a card, which may be from an untrusted file; a share in percent."""
    if isinstance(value, list | Mapping):
        return "..."
    return "-" if value is None else f"{100 * value:.2f} %" if isinstance(value, float) else str(value)


def _words(path: Path | None) -> Iterator[str]:
    """Yield the words of a file or of standard input, without blanks at their ends; a line that is not UTF-8 raises."""
    lines = decoded(sys.stdin.buffer.read() if path is None else load(path))
    for number, line in enumerate(lines, start=1):
        if line is None:
            _check.fail(f"{path or 'standard input'}, line {number}: the text is not UTF-8")
        if word := line.strip():
            yield word


def _answers(pronouncer: Pronouncer, words: Iterator[str], n_best: int) -> Iterator[Sequence[Pronunciation]]:
    """Yield the pronunciations of each word."""
    while block := [*islice(words, _TOGETHER)]:
        yield from pronouncer.pronounce(block, n_best=n_best)


def _source(found: Pronunciation) -> str:
    """Return where phones come from; those of a word with unknown letters are guessed."""
    return "guess" if found.source == "model" and found.unknown else found.source


def _line(found: Pronunciation) -> str:
    """Return the line of a pronunciation."""
    columns = [clean(found.word), " ".join(found.phones), _source(found)]
    if found.source == "model" and found.probability is not None:
        columns += [f"{found.probability:.4f}", f"{found.confidence:.4f}"]
    return "\t".join(columns)


def _as_lexicon(answers: Iterable[Sequence[Pronunciation]]) -> tuple[Lexicon, list[LeftOut]]:
    """Return pronunciations as a dictionary, and the words without any."""
    entries: list[tuple[str, Variant]] = []
    missing: list[LeftOut] = []
    for found in answers:
        best = max((one.probability or 0.0 for one in found), default=0.0)
        for one in found:
            try:
                entries.append(checked(one.word, Variant(one.phones, _relative(one, best))))
            except Wrong:
                missing.append(LeftOut(clean(one.word), (), _why(one)))
    return Lexicon.of_checked(entries), missing


def _why(found: Pronunciation) -> str:
    """Return why a word has no phones."""
    unknown = ", ".join(map(clean, found.unknown))
    return f"the model has never seen {unknown}" if unknown else "the model has no answer"


def _relative(found: Pronunciation, best: float) -> float | None:
    """Return the probability of a variant next to the best one, or that of the dictionary."""
    if found.source == "dictionary" or not found.probability:
        return found.probability or None
    return found.probability / best

"""The verb `pronounce`: phones of words, from a dictionary and a trained model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from regard import _check
from regard._lines import display_name
from regard.commands import argument_types
from regard.commands.loading import add_ensemble, add_lines, add_model, load_all
from regard.commands.options import add_beam, beam_sizes, check_needs, first_given
from regard.commands.probabilities import Threshold, add_probabilities, check_calibrated
from regard.commands.read_lines import Failed, Failures, read_blocks
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.storage.model_file import model_file
from regard.show.terminal.text import clean, note
from regard_lexicon import LeftOut, Lexicon, Pronunciation, Variant
from regard_lexicon.commands.lexicon import (
    add_output,
    add_reading,
    check_output,
    joined,
    prepared,
    saved,
)
from regard_lexicon.files import Path
from regard_lexicon.lexicon import MOST_LETTERS, InvalidEntry, checked
from regard_lexicon.pronouncer import UNKNOWN, Pronouncer, Unknown

__all__ = ["add_arguments", "run"]

_OF_WORDS = (  # options that --card does not have
    *(
        "FILE",
        "--lexicon",
        "--skip-bad",
        "--phones",
        "--ensemble",
        "--beam",
        "--n-best",
        "--unknown skip",
        "--unknown fail",
    ),
    *("--probabilities", "--threshold", "--format", "--out", "--stress", "--phone-map", "--symbols"),
)

EXAMPLES = """\
For each word there is a line: the word, its phones, where they come from (dictionary, model, guess or skipped), and of
the model the share of the answer among all hypotheses and, with --probabilities, the probability that it is right.
Columns are separated by TABs. A guess has letters that the model has never seen. The words of --lexicon come out
exactly as listed there, with all variants. A line that is too long or not UTF-8 gets an error on standard error and a
line that says skipped; the exit status is 2 at the end.

examples:
  regard pronounce runs/en words.txt --lexicon words.dict --n-best 3
  regard pronounce runs/en words.txt --unknown skip
  regard pronounce runs/en words.txt --threshold 0.9 --format tsv --out sure.tsv
  regard pronounce --card runs/en
  regard pronounce runs/en words.txt --format sherpa-kokoro --symbols tokens.txt --out lexicon.txt
"""


_UNREAD = Pronunciation("", (), "skipped", confidence=0.0)  # stands for a line that cannot be read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard pronounce`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Write the phones of words, from a dictionary and a trained model."
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
    add_reading(parser)
    add_beam(parser, "write the N best pronunciations of each word that is not in the dictionary")
    add(
        "--unknown",
        choices=UNKNOWN,
        default="guess",
        help="a word with letters that the model has never seen: marked as a guess (default), left empty, or an error,"
        " after which the others go on",
    )
    add_probabilities(parser, "word")
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
        if option := first_given(args, _OF_WORDS):
            _check.fail(f"--card prints the card alone: {option} must not be given with it")
        print("\n".join(_card(args.model)))
        return 0
    check_needs(args, [("--skip-bad", "--lexicon", "")])
    if args.probabilities and args.format:
        _check.fail("--probabilities prints a column, which --format does not have")
    models = map(model_file, (args.model, *args.ensemble))
    check_output(args, [*models, *args.lexicon, *([args.file] if args.file else [])])
    beam, n_best = beam_sizes(args)
    lexicon = joined(args.lexicon, skip_bad=args.skip_bad, phones=args.phones)
    fails: bool = args.unknown == "fail"  # word by word, so that the others are pronounced
    unknown: Unknown = "skip" if fails else args.unknown
    model = load_all(args.model, args.ensemble)
    check_calibrated(args, model, beam)
    pronouncer, threshold = Pronouncer(model, lexicon, unknown=unknown, beam=beam), Threshold(args, "words")
    failures = Failures("pronounce", "lines", display_name(args.file or "-"))
    answers = _answers(pronouncer, args.file, n_best, failures, fails=fails)
    answers = (found if isinstance(found, Failed) else _kept(found, threshold) for found in answers)
    if args.format is None:
        for found in answers:
            several = [_UNREAD] if isinstance(found, Failed) else found
            print(
                "\n".join(_line(pronunciation, probability=args.probabilities) for pronunciation in several)
            )
    else:
        pronounced, missing, guesses = _as_lexicon(answers)
        result = prepared(pronounced, args)
        result.left_out = (*missing, *result.left_out)
        result.lost = (*dict.fromkeys([*(entry.word for entry in missing), *result.lost]),)
        saved(result, args.out)
        _note_guesses(guesses)
    threshold.report()
    return failures.status()


def _card(path: Path) -> Iterator[str]:
    """Yield a line for each entry of a model's card: its name, and its value in JSON."""
    card = Seq2Seq.load(path).card
    if not card:
        _check.fail(f"{path} has no card: regard train --task pronunciation writes one")
    for name, value in card.items():
        yield clean(f"{name:<14}{json.dumps(value, ensure_ascii=False)}")


def _answers(
    pronouncer: Pronouncer, path: Path | None, n_best: int, failures: Failures, *, fails: bool
) -> Iterator[Sequence[Pronunciation] | Failed]:
    """Yield the pronunciations of the word of each line that is not blank, or the error of one that cannot be read."""
    phrases = 0
    for block in read_blocks(path or "-"):
        words = [failures.read(record, lambda record: record.cells[0].strip()) for record in block]
        found = iter(
            pronouncer.pronounce([word for word in words if isinstance(word, str) and word], n_best=n_best)
        )
        for record, word in zip(block, words, strict=True):
            if isinstance(word, Failed):
                yield word
            elif word:
                answers = next(found)
                phrases += " " in answers[0].unknown
                failures.attempt(partial(_check_answer, answers[0], fails), failures.location(record))
                yield answers
        sys.stdout.flush()  # a program at the other end of a pipe may wait
    if phrases:
        note(f"a line is read as one word, and {phrases:,} have blanks, which the model has never seen")


def _check_answer(found: Pronunciation, fails: bool) -> None:
    """Raise if a word is too long, or has unknown letters that are to fail."""
    if found.source == "skipped" and len(found.word) > MOST_LETTERS:
        _check.fail(f"{len(found.word)} letters; at most {MOST_LETTERS} are allowed")
    if found.source == "skipped" and found.unknown and fails:
        _check.fail(_why(found))


def _kept(found: Sequence[Pronunciation], threshold: Threshold) -> Sequence[Pronunciation]:
    """Return pronunciations, or a skipped one if the best is of the model and below the threshold."""
    best = found[0]
    if best.source != "model" or not threshold.drops(best.probability):
        return found
    return [replace(best, phones=(), source="skipped", links=())]


def _source(found: Pronunciation) -> str:
    """Return where phones come from; those of a word with unknown letters are guessed."""
    return "guess" if found.source == "model" and found.unknown else found.source


def _line(found: Pronunciation, *, probability: bool) -> str:
    """Return the line of a pronunciation."""
    columns = [clean(found.word), " ".join(found.phones), _source(found)]
    if found.source == "model" or (found.source == "skipped" and found.probability is not None):
        columns.append(f"{found.confidence:.4f}")
        columns += ["" if found.probability is None else f"{found.probability:.4f}"] if probability else []
    return "\t".join(columns)


def _as_lexicon(
    answers: Iterable[Sequence[Pronunciation] | Failed],
) -> tuple[Lexicon, list[LeftOut], list[Pronunciation]]:
    """Return pronunciations as a dictionary, words without any and lines that cannot be read, and guesses."""
    entries: list[tuple[str, Variant]] = []
    missing: list[LeftOut] = []
    guesses: list[Pronunciation] = []
    for found in answers:
        if isinstance(found, Failed):
            missing.append(LeftOut("", (), clean(found.error)))
            continue
        guesses += found[:1] if _source(found[0]) == "guess" else []
        for answer in found:
            probability = answer.probability if answer.source == "dictionary" else answer.confidence
            try:
                entries.append(checked(answer.word, Variant(answer.phones, probability or None, answer.role)))
            except InvalidEntry as error:
                reason = str(error) if answer.phones or len(answer.word) > MOST_LETTERS else _why(answer)
                missing.append(LeftOut(clean(answer.word), answer.phones, reason))
    return Lexicon.of_checked(entries), missing, guesses


def _note_guesses(guesses: Sequence[Pronunciation]) -> None:
    """Report how many words of a dictionary, which has no mark for them, are guesses."""
    if guesses:
        note(
            f"{len(guesses):,} of them guessed, such as {clean(guesses[0].word)}: {_why(guesses[0])};"
            " --unknown skip leaves such words out"
        )


def _why(found: Pronunciation) -> str:
    """Return why a word has no phones."""
    if found.unknown:
        letters = (clean(sign) if sign.isalnum() else clean(repr(sign)) for sign in found.unknown)
        return f"the model has never seen {', '.join(letters)}"
    return (
        "the model has no answer" if found.probability is None else "its probability is below the threshold"
    )

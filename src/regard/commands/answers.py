"""The columns of a model's outputs: scores, calibrated probabilities, tokens; and the alternatives under them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from regard import _check
from regard.commands import argument_types, drawing
from regard.commands.decoding import MOST, changed_search
from regard.commands.options import beam_sizes
from regard.commands.probabilities import Threshold, add_probabilities, check_calibrated
from regard.commands.read_lines import Failed
from regard.seq2seq.sources import Example
from regard.seq2seq.translator import Translation, Translator
from regard.show.terminal.text import clean

__all__ = ["Answers", "add_answers", "check_answers"]


def add_answers(parser: argparse.ArgumentParser, output: str, unit: str, argument: str) -> None:
    """Add the options to a verb that writes such an output of each unit, which the argument gives."""
    parser.add_argument(
        "--scores",
        nargs="?",
        type=partial(_scored, argument),
        const=True,
        metavar="tokens",
        help=f"print the score before each {output}; tokens: also each token with its log-probability, after it",
    )
    parser.add_argument(
        "--alternatives",
        type=argument_types.integer(most=MOST),
        metavar="N",
        help=f"print the N most probable tokens of each step, with their probabilities, under each {output}",
    )
    add_probabilities(parser, unit)


def _scored(argument: str, text: str) -> str:
    """Read what --scores is given for, besides the text."""
    if text != "tokens":
        rule = f"must be tokens, or nothing, after {argument}. Got {text!r:.60} instead."
        raise argparse.ArgumentTypeError(rule)
    return text


def check_answers(args: argparse.Namespace) -> None:
    """Check that probabilities are those of the search for which they are calibrated."""
    if (args.probabilities or args.threshold is not None) and (option := changed_search(args)):
        _check.fail(
            f"{option} must not be given with --probabilities and --threshold, which are for the usual search"
        )


class Answers:
    """The outputs of a model in columns, those that are right with too low a probability left empty."""

    def __init__(self, model: Translator, args: argparse.Namespace, units: str) -> None:
        self.model, self.most, self.alternatives = model, args.n_best or 1, args.alternatives
        self.calibrated = check_calibrated(args, model, beam_sizes(args)[0])
        self.threshold = Threshold(args, units)
        self.several = args.n_best is not None or args.sample is not None
        self.scored, self.probable = self.several or bool(args.scores), args.probabilities
        self.tokens = args.scores == "tokens"

    def kept(
        self, example: Example, translations: Sequence[Translation]
    ) -> tuple[Sequence[Translation] | Failed, float | None]:
        """Return the outputs that are written of an input, and the probability that the first is right."""
        if not self.calibrated or not len(example):
            return translations, None
        probability = self.model.probability(translations)
        if self.threshold.drops(probability):
            return Failed(f"probability {probability:.4f}, less than --threshold"), None
        return translations[: self.most], probability

    def columns(
        self, translation: Translation | None, probability: float | None = None, empty: str = ""
    ) -> list[str]:
        """Return score, probability, text and tokens, as far as they are wanted; empty without an output."""
        if translation is None:
            return [""] * (1 + self.scored + self.probable + self.tokens)
        columns = [f"{translation.score:.4f}"] if self.scored else []
        columns += ["" if probability is None else f"{probability:.4f}"] if self.probable else []
        # The vocabulary of an untrusted model may have control characters.
        columns.append(clean(translation.text or empty) if sys.stdout.isatty() else translation.text or empty)
        return columns + ([drawing.scored_tokens(translation)] if self.tokens else [])

    def print_alternatives(self, translation: Translation, source: Any = None) -> None:
        """Print the alternatives of each step under an output; `source` is the example if it is an array."""
        if self.alternatives and translation.tokens:
            steps = self.model.alternatives(translation, self.alternatives, source)
            print(drawing.draw_alternatives(translation, steps), end="\n\n")

"""The options --probabilities and --threshold: calibrated probabilities of answers, and answers that are dropped."""

from __future__ import annotations

import argparse

from regard import _check
from regard.commands import argument_types
from regard.commands.options import first_given
from regard.seq2seq.translator import Translator
from regard.show.terminal.text import note

__all__ = ["Threshold", "add_probabilities", "check_calibrated"]

_SHARE = argument_types.number("from 0 to 1", lambda number: 0 <= number <= 1)


def add_probabilities(parser: argparse.ArgumentParser, unit: str) -> None:
    """Add both options to a verb whose lines are such units."""
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="print the probability that the best answer is right, as it is calibrated on held-out lines",
    )
    parser.add_argument(
        "--threshold",
        type=_SHARE,
        metavar="P",
        help=f"leave each {unit} empty whose answer is right with a lower probability, and say how many there are",
    )


def check_calibrated(args: argparse.Namespace, model: Translator, beam: int) -> bool:
    """Return whether probabilities are needed; raise if the model or the search cannot give them."""
    option = first_given(args, ("--probabilities",)) or (
        "--threshold" if args.threshold is not None else None
    )
    if option is None:
        return False
    calibration = model.model.calibration
    if calibration is None:
        which = "an ensemble has no calibration" if args.ensemble else f"{args.model} is not calibrated"
        _check.fail(
            f"{option}: {which}", hint="regard train calibrates a model at its end, if 20 lines are held out"
        )
    if beam < calibration.beam:
        _check.fail(
            f"{option} needs --beam {calibration.beam} or more, as in the calibration. Got {beam} instead."
        )
    return True


class Threshold:
    """Counts the answers whose probability is lower than --threshold."""

    def __init__(self, args: argparse.Namespace, units: str) -> None:
        self.least, self.units, self.below, self.total = args.threshold or 0.0, units, 0, 0
        self.given = args.threshold is not None

    def drops(self, probability: float | None) -> bool:
        """Return whether an answer is dropped; one without a probability is if there is a threshold."""
        self.total += 1
        dropped = self.given and (0.0 if probability is None else probability) < self.least
        self.below += dropped
        return dropped

    def report(self) -> None:
        """Print how many were dropped."""
        if self.given:
            note(f"{self.below} of {self.total} {self.units} have a lower probability than {self.least:g}")

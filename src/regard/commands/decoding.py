"""The options of a search and of sampling, for all verbs that write outputs of a model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np

from regard import _check
from regard.commands import argument_types
from regard.commands.options import add_beam, beam_sizes, check_needs, first_given
from regard.seq2seq.decoding.hypothesis import LARGEST_PENALTY, Scoring
from regard.seq2seq.sources import Example
from regard.seq2seq.translator import UNKNOWN_WORDS, Translation, Translator, UnknownWords

__all__ = ["MOST", "Numbered", "add_decoding", "changed_search", "check_decoding", "searching"]

Numbered = tuple[int, Example, *tuple[Any, ...]]  # the number of an input, from 1, and the input


class _Options(TypedDict):
    """What searching and sampling have in common."""

    scoring: Scoring
    repetitions: int | None
    unknown_words: UnknownWords


MOST = 1000  # samples of an input, and tokens of a step
_PROBABILITY = argument_types.number("greater than 0 and at most 1", lambda number: 0 < number <= 1)
_PENALTY = argument_types.number(
    f"from 0 to {LARGEST_PENALTY:g}", lambda number: 0 <= number <= LARGEST_PENALTY
)
_OF_SAMPLES = ("--temperature", "--top-k", "--top-p", "--seed")


def add_decoding(parser: argparse.ArgumentParser, outputs: str, unit: str, *, of_text: bool) -> None:
    """Add the options to a verb that writes such outputs of each unit; some are about sources of text."""
    add = parser.add_argument
    add_beam(parser, f"write the N best {outputs} of each {unit}, with their scores")
    penalty = "exponent of the length by which scores are divided (default 1: means; 0: sums; Wu et al. 2016, eq. 14)"
    add("--length-penalty", type=_PENALTY, default=1.0, metavar="X", help=penalty)
    as_often = f", or as often as in the {unit}" * of_text
    add(
        "--repetitions",
        type=argument_types.integer(),
        metavar="N",
        help=f"how often a group of tokens may come in a row{as_often} (default: as in the targets of the training, at"
        " least 3)",
    )
    if of_text:
        _add_of_text(parser)
    else:
        parser.set_defaults(coverage_penalty=0.0, unknown_words="copy")
    _add_sampling(parser, outputs, unit)


def _add_of_text(parser: argparse.ArgumentParser) -> None:
    penalty = "weight of the penalty for source tokens without attention (default 0; Wu et al. 2016, eq. 14)"
    parser.add_argument("--coverage-penalty", type=_PENALTY, default=0.0, metavar="X", help=penalty)
    parser.add_argument(
        "--unknown-words",
        choices=UNKNOWN_WORDS,
        default="copy",
        help="what comes in place of a word that is unknown to the model; copy: an unknown word of the line, each of"
        " them once, then the next best one (default); next: always the next best one",
    )


def _add_sampling(parser: argparse.ArgumentParser, outputs: str, unit: str) -> None:
    add = parser.add_argument
    add(
        "--sample",
        type=argument_types.integer(most=MOST),
        metavar="N",
        help=f"sample N {outputs} of each {unit}",
    )
    add(
        "--temperature",
        type=argument_types.positive,
        metavar="X",
        help="temperature of sampling; below 1 favours probable tokens (default 1)",
    )
    add("--top-k", type=argument_types.integer(), metavar="N", help="sample from the N most probable tokens")
    add(
        "--top-p",
        type=_PROBABILITY,
        metavar="X",
        help="sample from the fewest tokens of total probability X (nucleus sampling)",
    )
    add("--seed", type=argument_types.integer(0), metavar="N", help="random seed of --sample (default 1)")


def check_decoding(args: argparse.Namespace) -> None:
    """Check which options go together."""
    check_needs(args, [(option, "--sample", "") for option in _OF_SAMPLES])
    if args.sample is not None and (option := first_given(args, ("--beam", "--n-best"))):
        _check.exclude(option, "--sample")
    beam_sizes(args)  # checks them


def changed_search(args: argparse.Namespace) -> str:
    """Return the first option, "" without, for which hypotheses differ from those of the usual search."""
    names = {"--sample": args.sample, "--length-penalty": args.length_penalty != 1}
    names |= {"--coverage-penalty": args.coverage_penalty != 0, "--repetitions": args.repetitions}
    names |= {"--unknown-words next": args.unknown_words != "copy"}
    return next((name for name, changed in names.items() if changed), "")


def searching(
    model: Translator, args: argparse.Namespace, *, every: bool
) -> Callable[[Sequence[Numbered]], Iterable[list[Translation]]]:
    """Return the function that decodes inputs with these options, and finds the n best or every hypothesis."""
    options: _Options = {
        "scoring": Scoring(length_penalty=args.length_penalty, coverage_penalty=args.coverage_penalty),
        "repetitions": args.repetitions,
        "unknown_words": args.unknown_words,
    }
    if args.sample is not None:
        return partial(_sample, model, args, options)
    beam, n_best = beam_sizes(args)
    search = partial(model.candidates, beam=beam, n_best=beam if every else n_best, **options)
    return lambda inputs: search([example for _, example, *_ in inputs])


def _sample(
    model: Translator, args: argparse.Namespace, options: _Options, inputs: Sequence[Numbered]
) -> Iterator[list[Translation]]:
    """Sample outputs; those of an input depend only on the seed and the number of the input."""
    for number, example, *_ in inputs:
        seed = np.random.SeedSequence(1 if args.seed is None else args.seed, spawn_key=(number - 1,))
        (samples,) = model.sample(
            [example],
            count=args.sample,
            temperature=args.temperature or 1.0,
            top_k=args.top_k,
            top_p=args.top_p,
            rng=int(seed.generate_state(1)[0]),
            **options,
        )
        yield samples

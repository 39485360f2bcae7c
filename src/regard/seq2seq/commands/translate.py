"""The verb `translate`: lines in, lines out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from regard.seq2seq.alignment.links import spell
from regard.seq2seq.commands import drawing as pictures
from regard.seq2seq.commands.line_blocks import read_blocks, windows
from regard.seq2seq.commands.loading import (
    Unseen,
    add_ensemble,
    check_pictures,
    found_links,
    load_all,
)
from regard.seq2seq.data.tokenizers import Sentence
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.decoding.hypothesis import LARGEST_PENALTY, Scoring
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.translator import LONGEST_SENTENCE, Translation, Translator, check_length
from regard.show import numbers
from regard.show.figure import MOST_HEADS
from regard.show.terminal import clean, note

__all__ = ["add_arguments", "run"]

_Translate = Callable[[Sequence[str]], list[list[Translation]]]

MOST = 1000  # samples of a line
_SHARE = numbers.number("greater than 0 and at most 1", lambda number: 0 < number <= 1)
_PENALTY = numbers.number(f"from 0 to {LARGEST_PENALTY:g}", lambda number: 0 <= number <= LARGEST_PENALTY)

EXAMPLES = f"""\
One translation is written for each line, in order; an empty line stays empty. A line has at most {LONGEST_SENTENCE}
tokens: a longer one ends the work with an error that names the line. Where more is asked for, columns are parted by
tabs: the line's number (with --n-best and --sample), the score (with those and --scores), the text, and the links
between its words and those of the line (with --alignment pharaoh: 0-2 links the line's first word with the text's
third). A score is the mean logarithm of the probabilities of a translation's tokens, unless penalties or joint
sequences say otherwise.

examples:
  echo "Click the icon." | regard translate model/model.safetensors
  regard translate model/model.safetensors sentences.txt --alignment text --png pictures
  regard translate model/model.safetensors sentences.txt --n-best 5 --length-penalty 0.6 --coverage-penalty 0.2
  regard translate runs/one sentences.txt --ensemble runs/two --ensemble runs/three
  regard translate model/model.safetensors sentences.txt --sample 10 --temperature 0.8 --seed 7
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard translate`.

    Parameters
    ----------
    parser
        The verb's parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> parser.parse_args(["model.safetensors"]).length_penalty
    1.0
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("model", type=numbers.place, metavar="MODEL", help="a model file from regard train, or its folder")
    add(
        "file",
        nargs="?",
        type=numbers.place,
        metavar="FILE",
        help="one sentence a line, UTF-8; by default standard input",
    )
    add_ensemble(parser)
    _add_search(parser)
    _add_sampling(parser)
    add("--scores", action="store_true", help="the score before each translation")
    add(
        "--alignment",
        choices=("none", "text", "pharaoh"),
        default="none",
        help="where each word looked; text: a picture under each line; pharaoh: links after each line",
    )
    add("--by", choices=("words", "tokens"), help="what --alignment pharaoh links and counts (default words)")
    add("--png", type=numbers.place, metavar="FOLDER", help="draw alignments there: line-1.png, ...")
    add(
        "--heads",
        type=numbers.place,
        metavar="FOLDER",
        help="draw where every head of every layer of a transformer looked: line-1-encoder.png, line-1-decoder.png and"
        " line-1-source.png, ...",
    )


def _add_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--beam",
        type=numbers.whole(most=numbers.BEAMS),
        metavar="N",
        help=f"hypotheses followed at a time (default {BEAM}, or --n-best if that is more; 1 is greedy)",
    )
    add(
        "--n-best",
        type=numbers.whole(most=numbers.BEAMS),
        metavar="N",
        help="the N best translations of each line",
    )
    penalty = "favour for long translations (default 1: scores are means; 0: none; Wu et al. 2016, eq. 14)"
    add("--length-penalty", type=_PENALTY, default=1.0, metavar="X", help=penalty)
    penalty = "against source words that were not looked at (default 0: none; Wu et al. 2016, eq. 14)"
    add("--coverage-penalty", type=_PENALTY, default=0.0, metavar="X", help=penalty)


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--sample",
        type=numbers.whole(most=MOST),
        metavar="N",
        help="draw N translations of each line by chance",
    )
    add("--temperature", type=numbers.positive, metavar="X", help="below 1: more of the probable (default 1)")
    add("--top-k", type=numbers.whole(), metavar="N", help="draw among the N most probable tokens")
    add("--top-p", type=_SHARE, metavar="X", help="draw among the fewest tokens with so much probability")
    add("--seed", type=numbers.whole(0), metavar="N", help="of all chance (default 1)")


def run(args: argparse.Namespace) -> int:
    """Translate.

    Parameters
    ----------
    args
        What the parser found.

    Returns
    -------
    int
        0.

    Raises
    ------
    ValueError
        If the model is none, options don't fit each other, or a line can't be read.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> run(parser.parse_args(["no-such-file"]))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    _check_options(args)
    model = load_all(args.model, args.ensemble)
    if (args.png or args.alignment != "none") and not model.attention:
        raise ValueError(f"{args.model} was trained without attention: there is no alignment to show")
    if args.coverage_penalty and not model.attention:
        raise ValueError(
            f"{args.model} was trained without attention: --coverage-penalty is about where it looked"
        )
    if args.heads is not None:
        _check_heads(model, args)
    check_pictures(args.png)
    check_pictures(args.heads)
    translate, output = _translator(model, args), _Output(model, args)
    number = 0
    for sentences in windows(read_blocks(args.file or "-", _Reader(model))):
        for translations in translate(sentences):
            number += 1
            output.show(number, translations)
        sys.stdout.flush()  # whoever waits for these lines gets them now
    return 0


def _check_heads(model: Translator, args: argparse.Namespace) -> None:
    """Refuse to draw what no transformer has, or more than a picture holds."""
    if not isinstance(model, Seq2Seq) or model.family != "transformer":
        found = "these are several models" if args.ensemble else f"{args.model} is none"
        raise ValueError(f"--heads is about one transformer: {found}")
    config = model.model.network.config
    assert isinstance(config, TransformerConfig)
    layers = max(config.encoder_layers, config.decoder_layers)
    if layers * config.heads > MOST_HEADS:
        rule = f"--heads draws up to {MOST_HEADS} heads"
        raise ValueError(f"{rule}: {args.model} has {config.heads} in each of {layers} layers")


def _check_options(args: argparse.Namespace) -> None:
    if args.by and args.alignment != "pharaoh":
        raise ValueError("--by needs --alignment pharaoh: it is about links")
    if args.sample is None:
        for name in ("temperature", "top_k", "top_p", "seed"):
            if getattr(args, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')} needs --sample")
        if args.beam and args.n_best and args.n_best > args.beam:
            raise ValueError(f"--n-best must be at most --beam = {args.beam}. Got {args.n_best} instead.")
        return
    for name in ("beam", "n_best"):
        if getattr(args, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} and --sample exclude each other: give one")


class _Reader:
    """What makes a source of a line: not too long for the model, and, as a TAB would say, no pair."""

    def __init__(self, model: Translator) -> None:
        self.source, self.number, self.warned = model.model.source, 0, False
        self.unseen = Unseen()

    def __call__(self, line: str) -> str:
        """Return a line that can be translated."""
        self.number += 1
        line = Sentence(line)
        tokens = self.source.cut(line)
        check_length(len(tokens))
        self.unseen.check(self.source, tokens, f"line {self.number}")
        if "\t" in line and not self.warned:
            self.warned = True
            told = f"line {self.number} has a TAB, as pairs have: all of a line is translated (cut -f1 gives sources)"
            note(told)
        return line


def _translator(model: Translator, args: argparse.Namespace) -> _Translate:
    """Return what makes one or several translations of each sentence."""
    scoring = Scoring(length_penalty=args.length_penalty, coverage_penalty=args.coverage_penalty)
    if args.sample is not None:
        return _Sampler(model, args, scoring)
    n_best = args.n_best or 1
    beam = args.beam or max(BEAM, n_best)
    return lambda sentences: model.candidates(sentences, beam=beam, n_best=n_best, scoring=scoring)


class _Sampler:
    """Translations that are drawn: a line's depend on the seed and its number, not on how many come at a time."""

    def __init__(self, model: Translator, args: argparse.Namespace, scoring: Scoring) -> None:
        self.model, self.args, self.scoring = model, args, scoring
        self.seeds = np.random.SeedSequence(1 if args.seed is None else args.seed)

    def __call__(self, sentences: Sequence[str]) -> list[list[Translation]]:
        """Draw for each sentence."""
        return [self._draw(sentence) for sentence in sentences]

    def _draw(self, sentence: str) -> list[Translation]:
        (child,) = self.seeds.spawn(1)
        (drawn,) = self.model.sample(
            [sentence],
            count=self.args.sample,
            temperature=self.args.temperature or 1.0,
            top_k=self.args.top_k,
            top_p=self.args.top_p,
            rng=int(child.generate_state(1)[0]),
            scoring=self.scoring,
        )
        return drawn


class _Form(NamedTuple):
    """Which columns are written beside the text."""

    number: bool
    score: bool
    links: bool


class _Output:
    """What is printed and drawn for each line."""

    def __init__(self, model: Translator, args: argparse.Namespace) -> None:
        self.model, self.png, self.heads, self.draws = model, args.png, args.heads, args.alignment == "text"
        self.by = args.by or "words"
        several = args.n_best is not None or args.sample is not None
        self.form = _Form(several, several or args.scores, args.alignment == "pharaoh")

    def show(self, number: int, translations: Sequence[Translation]) -> None:
        """Print and draw the translations of one line."""
        for rank, translation in enumerate(translations, 1):
            print(self.line(number, translation))
            if translation.alignment is None or not translation.tokens:
                continue
            if self.draws:
                print(pictures.draw(translation), end="\n\n")
            name = f"line-{number}-{rank}" if self.form.number else f"line-{number}"
            if self.png:
                pictures.save(translation, self.png / f"{name}.png")
            if self.heads:
                assert isinstance(self.model, Seq2Seq)  # as `run` has checked
                pictures.save_heads(self.model.heads(translation), translation, self.heads, name)

    def line(self, number: int, translation: Translation) -> str:
        """Return the columns of one translation."""
        # A stranger's model may know words that a terminal would obey.
        text = clean(translation.text) if sys.stdout.isatty() else translation.text
        columns = [str(number)] if self.form.number else []
        columns += [f"{translation.score:.4f}"] if self.form.score else []
        columns.append(text)
        columns += [spell(found_links(self.model, translation, self.by))] if self.form.links else []
        return "\t".join(column.replace("\t", " ") for column in columns) if len(columns) > 1 else text

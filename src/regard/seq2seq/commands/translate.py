"""The verb `translate`: lines in, lines out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.seq2seq.align import links, of_words, spell, word_numbers
from regard.seq2seq.commands import pictures
from regard.seq2seq.commands.stream import read_blocks, windows
from regard.seq2seq.ensemble import Ensemble
from regard.seq2seq.files import model_file
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.search import BEAM, LARGEST_PENALTY, Scoring
from regard.seq2seq.translator import LONGEST_SENTENCE, Translation, Translator, check_length
from regard.show import numbers
from regard.show.canvas import require_matplotlib
from regard.show.terminal import clean

__all__ = [
    "add_arguments",
    "add_ensemble",
    "check_pictures",
    "links_of_words",
    "load_all",
    "numbers_of_words",
    "run",
]

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
    add("model", type=Path, metavar="MODEL", help="a model file from regard train, or its folder")
    add(
        "file",
        nargs="?",
        type=Path,
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
    add("--png", type=Path, metavar="FOLDER", help="draw alignments there: line-1.png, ...")


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    """Describe the models that translate together with the first.

    Parameters
    ----------
    parser
        The verb's parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_ensemble(parser)
    >>> [path.name for path in parser.parse_args(["--ensemble", "two", "--ensemble", "three"]).ensemble]
    ['two', 'three']
    """
    parser.add_argument(
        "--ensemble",
        action="append",
        type=Path,
        default=[],
        metavar="MODEL",
        help="one more model that works together with the first, of the same pairs and kinds of tokens; may be"
        " repeated",
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
    check_pictures(args.png)
    translate, output = _translator(model, args), _Output(model, args)
    number = 0
    for sentences in windows(read_blocks(args.file or "-", partial(_readable, model))):
        for translations in translate(sentences):
            number += 1
            output.show(number, translations)
        sys.stdout.flush()  # whoever waits for these lines gets them now
    return 0


def _check_options(args: argparse.Namespace) -> None:
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


def load_all(path: Path, ensemble: Sequence[Path]) -> Translator:
    """Load a model, and those that translate together with it.

    Parameters
    ----------
    path : Path
        Its file or folder.
    ensemble : sequence of Path
        The others, if there are any.

    Returns
    -------
    Translator
        One model, or all of them.

    Raises
    ------
    ValueError, OSError
        If one is no model, or can't translate together with the first.

    Examples
    --------
    >>> load_all(Path("no-such-file"), [])
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    if len({model_file(place).resolve() for place in (path, *ensemble)}) <= len(ensemble):
        raise ValueError("the models of an ensemble must be different files")
    models = [Seq2Seq.load(place) for place in (path, *ensemble)]
    for place, model in zip(ensemble, models[1:], strict=True):
        try:
            Ensemble([models[0], model])
        except ValueError as error:
            told = " ".join(map(str.strip, str(error).splitlines()))  # the hint, too, on one line
            raise ValueError(f"{path} and {place}: {told}") from None
    return Ensemble(models) if ensemble else models[0]


def check_pictures(folder: Path | None) -> None:
    """Make the folder for pictures, if they are wanted and can be drawn.

    Parameters
    ----------
    folder : Path or None
        Where they shall be.

    Raises
    ------
    ImportError
        If Matplotlib is not there.

    Examples
    --------
    >>> check_pictures(None)
    """
    if folder is not None:
        require_matplotlib()
        folder.mkdir(parents=True, exist_ok=True)


def _readable(model: Translator, line: str) -> str:
    """Return a line that is not too long for the model."""
    check_length(len(model.model.source.cut(line)))
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
            seed=int(child.generate_state(1)[0]),
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
        self.model, self.png, self.draws = model, args.png, args.alignment == "text"
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
            if self.png:
                place = f"line-{number}-{rank}.png" if self.form.number else f"line-{number}.png"
                pictures.save(translation, self.png / place)

    def line(self, number: int, translation: Translation) -> str:
        """Return the columns of one translation."""
        # A stranger's model may know words that a terminal would obey.
        text = clean(translation.text) if sys.stdout.isatty() else translation.text
        columns = [str(number)] if self.form.number else []
        columns += [f"{translation.score:.4f}"] if self.form.score else []
        columns.append(text)
        columns += [spell(links_of_words(self.model, translation))] if self.form.links else []
        return "\t".join(column.replace("\t", " ") for column in columns) if len(columns) > 1 else text


def links_of_words(
    model: Translator, translation: Translation, threshold: float = 0.0
) -> frozenset[tuple[int, int]]:
    """Return the links between the words of a sentence and its translation, where spaces part words.

    Parameters
    ----------
    model : Translator
        The model that made it.
    translation : Translation
        With an alignment; without one there are no links.
    threshold : float
        A token that looked nowhere more than that has no link.

    Returns
    -------
    frozenset of (source, target)
        The links.

    Examples
    --------
    >>> model = Seq2Seq(epochs=1).fit(["a b"], ["c"])
    >>> looked = Translation("c", ("c",), ("a", "b", "</s>"), 0.0, np.array([[0.1, 0.8, 0.1]]))
    >>> links_of_words(model, looked)
    frozenset({(1, 0)})
    """
    if translation.alignment is None:
        return frozenset()
    return of_words(links(translation.alignment, threshold=threshold), *numbers_of_words(model, translation))


def numbers_of_words(model: Translator, translation: Translation) -> tuple[list[int], list[int]]:
    """Return the words that the tokens of a sentence and of its translation are parts of.

    Parameters
    ----------
    model : Translator
        The model that made it.
    translation : Translation
        With its tokens.

    Returns
    -------
    source, target : list of int
        As `regard.seq2seq.align.word_numbers` gives them.

    Examples
    --------
    >>> model = Seq2Seq(epochs=1).fit(["a b"], ["c"])
    >>> numbers_of_words(model, Translation("c", ("c",), ("a", "b", "</s>"), 0.0, None))
    ([0, 1], [0])
    """
    texts = model.model.source, model.model.target
    sides = translation.source[:-1], translation.tokens
    source, target = (word_numbers(side, text.glue) for side, text in zip(sides, texts, strict=True))
    return source, target

"""The verb `translate`: translate lines of text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from regard.seq2seq.alignment.links import spell
from regard.seq2seq.commands import drawing
from regard.seq2seq.commands.line_blocks import Failed, Failures, of_others, read_blocks
from regard.seq2seq.commands.loading import (
    Unseen,
    add_ensemble,
    add_model,
    load_all,
    make_picture_folder,
    word_links,
)
from regard.seq2seq.commands.options import add_beam, beam_sizes, check_needs, first_given
from regard.seq2seq.commands.pages import Collected, check_page
from regard.seq2seq.data.parallel_text import display_name
from regard.seq2seq.data.tables import Record
from regard.seq2seq.data.tokenizers import Sentence
from regard.seq2seq.decoding.hypothesis import LARGEST_PENALTY, Scoring
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import LONGEST_SENTENCE, Translation, Translator, check_length
from regard.show import argument_types
from regard.show.figures import MOST_HEADS
from regard.show.terminal.text import clean, note

__all__ = ["add_arguments", "run"]

_Translate = Callable[[Sequence[str | Failed]], Iterator[list[Translation] | Failed]]

MOST = 1000  # samples of a line
_PROBABILITY = argument_types.number("greater than 0 and at most 1", lambda number: 0 < number <= 1)
_PENALTY = argument_types.number(
    f"from 0 to {LARGEST_PENALTY:g}", lambda number: 0 <= number <= LARGEST_PENALTY
)

EXAMPLES = f"""\
One translation is written for each line, in order; an empty line stays empty. A line of more than {LONGEST_SENTENCE}
tokens, or one that is not UTF-8, gets an error on standard error and a line whose columns are empty but for its number;
all others are translated, and the exit status is 2 at the end. Columns are separated by TABs: the number of the line
(with --n-best and --sample), the score (with those and --scores), the text, and the links between the words of line and
text (with --alignment pharaoh: 0-2 links the first word of the line with the third of the text). A score is the mean
log-probability of the tokens, unless penalties or a reranker change it.

examples:
  echo "Click the icon." | regard translate model/model.safetensors
  regard translate model/model.safetensors sentences.txt --alignment text --png pictures
  regard translate model/model.safetensors sentences.txt --n-best 5 --show page.html
  regard translate model/model.safetensors sentences.txt --n-best 5 --length-penalty 0.6 --coverage-penalty 0.2
  regard translate runs/one sentences.txt --ensemble runs/two --ensemble runs/three
  regard translate model/model.safetensors sentences.txt --sample 10 --temperature 0.8 --seed 7
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard translate`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add_model(parser)
    add(
        "file",
        nargs="?",
        type=argument_types.path,
        metavar="FILE",
        help="one sentence a line, UTF-8; by default standard input",
    )
    add_ensemble(parser)
    _add_search(parser)
    _add_sampling(parser)
    add("--scores", action="store_true", help="print the score before each translation")
    add(
        "--alignment",
        choices=("none", "text", "pharaoh"),
        default="none",
        help="print the alignment; text: attention weights under each line; pharaoh: links after each line",
    )
    add("--by", choices=("words", "tokens"), help="what --alignment pharaoh links (default words)")
    _add_pictures(add)


def _add_pictures(add: Any) -> None:
    """Add the options of pictures and pages."""
    add(
        "--png",
        type=argument_types.path,
        metavar="FOLDER",
        help="save pictures of the alignments: line-1.png, ...",
    )
    add(
        "--heads",
        type=argument_types.path,
        metavar="FOLDER",
        help="save the attention weights of all heads and layers of a transformer: line-1-encoder.png,"
        " line-1-decoder.png, line-1-source.png, ...",
    )
    add(
        "--show",
        type=argument_types.path,
        metavar="FILE.html",
        help="write one page for a browser: the alignments of all lines, and the heads of a transformer for the first",
    )
    add("--force", action="store_true", help="replace a page that exists")


def _add_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_beam(parser, "write the N best translations of each line")
    penalty = "exponent of the length by which scores are divided (default 1: means; 0: sums; Wu et al. 2016, eq. 14)"
    add("--length-penalty", type=_PENALTY, default=1.0, metavar="X", help=penalty)
    penalty = "weight of the penalty for source tokens without attention (default 0; Wu et al. 2016, eq. 14)"
    add("--coverage-penalty", type=_PENALTY, default=0.0, metavar="X", help=penalty)


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--sample",
        type=argument_types.integer(most=MOST),
        metavar="N",
        help="sample N translations of each line",
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


def run(args: argparse.Namespace) -> int:
    """Translate lines and print them."""
    _check_options(args)
    model = load_all(args.model, args.ensemble)
    if (args.png or args.show or args.alignment != "none") and not model.attention:
        raise ValueError(f"{args.model} was trained without attention: there is no alignment to show")
    if args.coverage_penalty and not model.attention:
        raise ValueError(
            f"{args.model} was trained without attention: --coverage-penalty needs attention weights"
        )
    if args.heads is not None:
        _check_heads(model, args)
    if args.show is not None:
        models = map(model_file, [args.model, *args.ensemble])
        check_page("--show", args.show, [*models, *filter(None, [args.file])], force=args.force)
    make_picture_folder(args.png)
    make_picture_folder(args.heads)
    translate, output = _translator(model, args), _Output(model, args)
    failures = Failures("translate", "lines")
    read = _Reader(model, display_name(args.file or "-"), failures)
    number = 0
    for lines in read_blocks(args.file or "-"):
        for translations in translate(list(map(read, lines))):
            number += 1
            output.show(number, translations)
        sys.stdout.flush()  # a program at the other end of a pipe may wait for these lines
    if args.show is not None:
        output.page.page().save(args.show, force=args.force)
    return failures.status(number)


def _check_heads(model: Translator, args: argparse.Namespace) -> None:
    """Check that --heads is given for one transformer, with no more heads than a picture can have."""
    if not isinstance(model, Seq2Seq) or model.family != "transformer":
        problem = "there are several models" if args.ensemble else f"{args.model} is not a transformer"
        raise ValueError(f"--heads needs one transformer: {problem}")
    config = model.model.network.config
    assert isinstance(config, TransformerConfig)
    layers = max(config.encoder_layers, config.decoder_layers)
    if layers * config.heads > MOST_HEADS:
        rule = f"--heads draws up to {MOST_HEADS} heads"
        raise ValueError(f"{rule}: {args.model} has {config.heads} in each of {layers} layers")


_NEEDS = (
    ("--by", "--alignment pharaoh", "it is about links"),
    ("--force", "--show", ""),
    *((option, "--sample", "") for option in ("--temperature", "--top-k", "--top-p", "--seed")),
)


def _check_options(args: argparse.Namespace) -> None:
    check_needs(args, _NEEDS)
    if args.sample is not None and (option := first_given(args, ("--beam", "--n-best"))):
        raise ValueError(f"{option} and --sample exclude each other: give one")
    beam_sizes(args)  # checks them


class _Reader:
    """Checks source lines: their length, and warnings of unseen symbols and of TABs."""

    def __init__(self, model: Translator, name: str, failures: Failures) -> None:
        self.source, self.warned = model.model.source_tokenizer, False
        self.unseen, self.name, self.failures = Unseen(), name, failures

    def __call__(self, record: Record) -> str | Failed:
        """Return a line that can be translated."""
        return self.failures.read(record, self._checked, self.name)

    def _checked(self, record: Record) -> str:
        line = Sentence(record.cells[0])
        tokens = self.source.cut(line)
        check_length(len(tokens))
        self.unseen.check(self.source, tokens, f"line {record.line}")
        if "\t" in line and not self.warned:
            self.warned = True
            note(
                f"line {record.line} has a TAB, as pairs have: complete lines are translated (cut -f1 gives sources)"
            )
        return line


def _translator(model: Translator, args: argparse.Namespace) -> _Translate:
    """Return the function that translates sentences with these options."""
    scoring = Scoring(length_penalty=args.length_penalty, coverage_penalty=args.coverage_penalty)
    if args.sample is not None:
        return _Sampler(model, args, scoring)
    beam, n_best = beam_sizes(args)
    search = partial(model.candidates, beam=beam, n_best=n_best, scoring=scoring)
    return lambda sentences: of_others(sentences, search)


class _Sampler:
    """Samples translations; those of a line depend only on the seed and the number of the line."""

    def __init__(self, model: Translator, args: argparse.Namespace, scoring: Scoring) -> None:
        self.model, self.args, self.scoring = model, args, scoring
        self.seeds = np.random.SeedSequence(1 if args.seed is None else args.seed)

    def __call__(self, sentences: Sequence[str | Failed]) -> Iterator[list[Translation] | Failed]:
        """Sample translations of each sentence."""
        for sentence in sentences:
            (child,) = self.seeds.spawn(1)  # of each line, so that the numbers of lines count
            yield sentence if isinstance(sentence, Failed) else self._sample(sentence, child)

    def _sample(self, sentence: str, child: np.random.SeedSequence) -> list[Translation]:
        (samples,) = self.model.sample(
            [sentence],
            count=self.args.sample,
            temperature=self.args.temperature or 1.0,
            top_k=self.args.top_k,
            top_p=self.args.top_p,
            rng=int(child.generate_state(1)[0]),
            scoring=self.scoring,
        )
        return samples


class _Columns(NamedTuple):
    """Which columns are written in addition to the text."""

    number: bool
    score: bool
    links: bool


class _Output:
    """Prints and draws the translations of lines."""

    def __init__(self, model: Translator, args: argparse.Namespace) -> None:
        self.model, self.png, self.heads, self.draws = model, args.png, args.heads, args.alignment == "text"
        self.by = args.by or "words"
        self.page, self.in_page = Collected(model), args.show is not None
        several = args.n_best is not None or args.sample is not None
        self.columns = _Columns(several, several or args.scores, args.alignment == "pharaoh")

    def show(self, number: int, translations: Sequence[Translation] | Failed) -> None:
        """Print and draw the translations of one line."""
        if isinstance(translations, Failed):
            print("\t".join([str(number)] * self.columns.number + [""] * sum(self.columns[1:]) + [""]))
            return
        if self.in_page:
            self.page.add(translations)
        for rank, translation in enumerate(translations, 1):
            print(self.line(number, translation))
            if translation.alignment is None or not translation.tokens:
                continue
            if self.draws:
                print(drawing.draw_alignment(translation), end="\n\n")
            name = f"line-{number}-{rank}" if self.columns.number else f"line-{number}"
            if self.png:
                drawing.save_alignment(translation, self.png / f"{name}.png")
            if self.heads:
                assert isinstance(self.model, Seq2Seq)  # as `run` has checked
                drawing.save_heads(self.model.heads(translation), translation, self.heads, name)

    def line(self, number: int, translation: Translation) -> str:
        """Return the columns of one translation."""
        # The vocabulary of an untrusted model may have control characters.
        text = clean(translation.text) if sys.stdout.isatty() else translation.text
        columns = [str(number)] if self.columns.number else []
        columns += [f"{translation.score:.4f}"] if self.columns.score else []
        columns.append(text)
        columns += [spell(word_links(self.model, translation, self.by))] if self.columns.links else []
        return "\t".join(column.replace("\t", " ") for column in columns) if len(columns) > 1 else text

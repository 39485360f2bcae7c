"""The verb `translate`: translate lines of text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypedDict

import numpy as np

from regard import _check
from regard._lines import display_name
from regard.commands import argument_types, drawing
from regard.commands.loading import (
    Unseen,
    add_by,
    add_ensemble,
    add_lines,
    add_model,
    add_unknown,
    linked_unit,
    load_all,
    make_picture_folder,
    word_links,
)
from regard.commands.options import add_beam, beam_sizes, check_needs, first_given
from regard.commands.pages import PageParts, add_importance, check_page
from regard.commands.probabilities import Threshold, add_probabilities, check_calibrated
from regard.commands.read_lines import Failed, Failures, read_blocks, results
from regard.seq2seq.alignment.links import spell
from regard.seq2seq.corpus.tables import Record
from regard.seq2seq.decoding.hypothesis import LARGEST_PENALTY, Scoring
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.sources import Example
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import (
    LONGEST_SENTENCE,
    UNKNOWN_WORDS,
    Translation,
    Translator,
    UnknownWords,
    read_source,
)
from regard.show.figures import MOST_HEADS
from regard.show.terminal.text import clean, note

__all__ = ["add_arguments", "run", "translate_lines"]


class Line(NamedTuple):
    """A line to translate."""

    number: int  # from 1
    text: Example
    unseen: tuple[str, ...] = ()  # symbols that the model does not know


class _Options(TypedDict):
    """What searching and sampling have in common."""

    scoring: Scoring
    repetitions: int | None
    unknown_words: UnknownWords


Search = Callable[[Sequence[Line]], Iterable[list[Translation]]]

MOST = 1000  # samples of a line, and tokens of a step
_PROBABILITY = argument_types.number("greater than 0 and at most 1", lambda number: 0 < number <= 1)
_PENALTY = argument_types.number(
    f"from 0 to {LARGEST_PENALTY:g}", lambda number: 0 <= number <= LARGEST_PENALTY
)

EXAMPLES = f"""\
One translation is written for each line, in order; an empty line stays empty. A line of more than {LONGEST_SENTENCE}
tokens, or one that is not UTF-8, gets an error on standard error and a line whose columns are empty but for its number;
all others are translated, and the exit status is 2 at the end. Columns are separated by TABs: the number of the line
(with --n-best and --sample), the score (with those and --scores), the probability that the best translation is right
(with --probabilities), the text, its tokens with their log-probabilities (with --scores tokens), the links between the
words of line and text (with --alignment pharaoh: 0-2 links the first word of the line with the third of the text), and
the symbols of the line that the model does not know (with --unknown guess). A score is the mean log-probability of the
tokens, unless penalties or a reranker change it.

examples:
  echo "Click the icon." | regard translate model/model.safetensors
  regard translate model/model.safetensors sentences.txt --alignment text --png pictures
  regard translate model/model.safetensors sentences.txt --scores tokens --alternatives 5
  regard translate model/model.safetensors sentences.txt --n-best 5 --show page.html --importance
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
    add_lines(parser, "sentence")
    add_ensemble(parser)
    _add_search(parser)
    _add_restrictions(parser)
    _add_sampling(parser)
    add_unknown(parser)
    add(
        "--scores",
        nargs="?",
        type=_scored,
        const=True,
        metavar="tokens",
        help="print the score before each translation; tokens: also each token with its log-probability, after it",
    )
    add(
        "--alternatives",
        type=argument_types.integer(most=MOST),
        metavar="N",
        help="print the N most probable tokens of each step, with their probabilities, under each translation",
    )
    add_probabilities(parser, "line")
    add(
        "--alignment",
        choices=("none", "text", "pharaoh"),
        default="none",
        help="print the alignment; text: attention weights under each line; pharaoh: links after each line",
    )
    add_by(parser, "what --alignment pharaoh links")
    _add_pictures(add)


def _scored(text: str) -> str:
    """Read what --scores is given for, besides the translation."""
    if text != "tokens":
        rule = f"must be tokens, or nothing, after FILE. Got {text!r:.60} instead."
        raise argparse.ArgumentTypeError(rule)
    return text


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
    add_importance(add)
    add("--force", action="store_true", help="replace a page that exists")


def _add_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_beam(parser, "write the N best translations of each line")
    penalty = "exponent of the length by which scores are divided (default 1: means; 0: sums; Wu et al. 2016, eq. 14)"
    add("--length-penalty", type=_PENALTY, default=1.0, metavar="X", help=penalty)
    penalty = "weight of the penalty for source tokens without attention (default 0; Wu et al. 2016, eq. 14)"
    add("--coverage-penalty", type=_PENALTY, default=0.0, metavar="X", help=penalty)


def _add_restrictions(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--repetitions",
        type=argument_types.integer(),
        metavar="N",
        help="how often a group of tokens may come in a row, or as often as in the line (default: as in the targets of"
        " the training, at least 3)",
    )
    add(
        "--unknown-words",
        choices=UNKNOWN_WORDS,
        default="copy",
        help="what comes in place of a word that is unknown to the model; copy: an unknown word of the line, each of"
        " them once, then the next best one (default); next: always the next best one",
    )


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
    if args.coverage_penalty and model.model.extras:
        _check.fail("--coverage-penalty needs a model without extras, which lengthen the source or rerank")
    _check_outputs(model, args)
    calibrated = check_calibrated(args, model, beam_sizes(args)[0])
    search, output = _search(model, args, every=calibrated), _Output(model, args, calibrated)
    lines, failures = (
        read_blocks(args.file or "-"),
        Failures("translate", "lines", display_name(args.file or "-")),
    )
    unseen = Unseen(failures, args.unknown)
    for number, (line, translations) in enumerate(translate_lines(model, lines, search, unseen), 1):
        output.show(number, line, translations)
    output.save()
    return failures.status()


def translate_lines(
    model: Translator, lines: Iterable[list[Record]], search: Search, unseen: Unseen
) -> Iterator[tuple[Line | Failed, list[Translation] | Failed]]:
    """Yield each line and its translations, or its error; a line is tokenized once, where it is checked."""
    source, failures, warned = model.model.source, unseen.failures, False

    def checked(record: Record) -> Line:
        nonlocal warned
        text = read_source(source, record.cells[0])
        symbols = unseen.check([(source, text)], f"line {record.line}")
        if "\t" in text.name and not warned:
            warned = True
            rule = "has a TAB, as pairs have: complete lines are translated (cut -f1 gives sources)"
            note(f"line {record.line} {rule}")
        return Line(record.line, text, symbols)

    for _, line, translations in results(lines, lambda record: failures.read(record, checked), search):
        yield line, translations


def _check_outputs(model: Translator, args: argparse.Namespace) -> None:
    """Check that the model has what is to be shown, and that it can be written; make the folders of pictures."""
    needs = {"there is no alignment to show": args.png or args.show or args.alignment != "none"}
    needs["--coverage-penalty needs attention weights"] = args.coverage_penalty
    for why, needed in needs.items():
        if needed and not model.attention:
            _check.fail(f"{args.model} was trained without attention: {why}")
    if args.heads is not None:
        _check_heads(model, args)
    if args.show is not None:
        models = map(model_file, [args.model, *args.ensemble])
        check_page("--show", args.show, [*models, *filter(None, [args.file])], force=args.force)
    make_picture_folder(args.png)
    make_picture_folder(args.heads)


def _check_heads(model: Translator, args: argparse.Namespace) -> None:
    """Check that --heads is given for one transformer, with no more heads than a picture can have."""
    if not isinstance(model, Seq2Seq) or model.family != "transformer":
        problem = "there are several models" if args.ensemble else f"{args.model} is not a transformer"
        _check.fail(f"--heads needs one transformer: {problem}")
    config = model.network.config
    assert isinstance(config, TransformerConfig)
    layers = max(config.encoder_layers, config.decoder_layers)
    if layers * config.heads > MOST_HEADS:
        rule = f"--heads draws up to {MOST_HEADS} heads"
        _check.fail(f"{rule}: {args.model} has {config.heads} in each of {layers} layers")


_NEEDS = (
    ("--by", "--alignment pharaoh", "it is about links"),
    ("--force", "--show", ""),
    ("--importance", "--show", ""),
    *((option, "--sample", "") for option in ("--temperature", "--top-k", "--top-p", "--seed")),
)


def _check_options(args: argparse.Namespace) -> None:
    check_needs(args, _NEEDS)
    if args.sample is not None and (option := first_given(args, ("--beam", "--n-best"))):
        _check.exclude(option, "--sample")
    beam_sizes(args)  # checks them
    if args.probabilities or args.threshold is not None:
        other = first_given(args, ("--sample",)) or _first_changed(args)
        if other:
            _check.fail(
                f"{other} must not be given with --probabilities and --threshold, which are for the usual search"
            )


def _first_changed(args: argparse.Namespace) -> str:
    """Return the first penalty or restriction that differs from its default."""
    names = {"--length-penalty": args.length_penalty != 1, "--coverage-penalty": args.coverage_penalty != 0}
    names |= {"--repetitions": args.repetitions, "--unknown-words next": args.unknown_words != "copy"}
    return next((name for name, changed in names.items() if changed), "")


def _search(model: Translator, args: argparse.Namespace, *, every: bool) -> Search:
    """Return the function that translates lines with these options, and finds the n best or every hypothesis."""
    options: _Options = {
        "scoring": Scoring(length_penalty=args.length_penalty, coverage_penalty=args.coverage_penalty),
        "repetitions": args.repetitions,
        "unknown_words": args.unknown_words,
    }
    if args.sample is not None:
        return partial(_sample, model, args, options)
    beam, n_best = beam_sizes(args)
    search = partial(model.candidates, beam=beam, n_best=beam if every else n_best, **options)
    return lambda lines: search([line.text for line in lines])


def _sample(
    model: Translator, args: argparse.Namespace, options: _Options, lines: Sequence[Line]
) -> Iterator[list[Translation]]:
    """Sample translations; those of a line depend only on the seed and the number of the line."""
    for line in lines:
        seed = np.random.SeedSequence(1 if args.seed is None else args.seed, spawn_key=(line.number - 1,))
        (samples,) = model.sample(
            [line.text],
            count=args.sample,
            temperature=args.temperature or 1.0,
            top_k=args.top_k,
            top_p=args.top_p,
            rng=int(seed.generate_state(1)[0]),
            **options,
        )
        yield samples


class _Columns(NamedTuple):
    """Which columns are written in addition to the text."""

    number: bool
    score: bool
    probability: bool
    tokens: bool
    links: bool
    unseen: bool


class _Output:
    """Prints and draws the translations of lines."""

    def __init__(self, model: Translator, args: argparse.Namespace, calibrated: bool) -> None:
        self.calibrated, self.most, self.threshold = calibrated, args.n_best or 1, Threshold(args, "lines")
        self.model, self.png, self.heads, self.draws = model, args.png, args.heads, args.alignment == "text"
        self.by, self.alternatives = linked_unit(args.by, model), args.alternatives
        self.page, self.path = PageParts(model, importance=args.importance), args.show
        self.force = args.force
        several = args.n_best is not None or args.sample is not None
        self.columns = _Columns(
            several,
            several or bool(args.scores),
            args.probabilities,
            args.scores == "tokens",
            args.alignment == "pharaoh",
            args.unknown == "guess",
        )

    def show(self, number: int, line: Line | Failed, translations: Sequence[Translation] | Failed) -> None:
        """Print and draw the translations of one line."""
        probability = None
        if (
            self.calibrated
            and isinstance(line, Line)
            and not isinstance(translations, Failed)
            and len(line.text)
        ):
            probability = self.model.probability(translations)
            translations = translations[: self.most]
            if self.threshold.drops(probability):
                translations = Failed("")
        if isinstance(line, Failed) or isinstance(translations, Failed):
            print("\t".join([str(number)] * self.columns.number + [""] * sum(self.columns[1:]) + [""]))
            return
        if self.path:
            self.page.add(translations)
        for rank, translation in enumerate(translations, 1):
            print(self.line(number, line, translation, probability if rank == 1 else None))
            if self.alternatives and translation.tokens:
                steps = self.model.alternatives(translation, self.alternatives)
                print(drawing.draw_alternatives(translation, steps), end="\n\n")
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

    def save(self) -> None:
        """Write the page, if there is one, and report what was dropped."""
        self.threshold.report()
        if self.path:
            self.page.page().save(self.path, force=self.force)

    def line(
        self, number: int, line: Line, translation: Translation, probability: float | None = None
    ) -> str:
        """Return the columns of one translation."""
        # The vocabulary of an untrusted model may have control characters.
        text = clean(translation.text) if sys.stdout.isatty() else translation.text
        columns = [str(number)] if self.columns.number else []
        columns += [f"{translation.score:.4f}"] if self.columns.score else []
        columns += ["" if probability is None else f"{probability:.4f}"] if self.columns.probability else []
        columns.append(text)
        columns += [drawing.scored_tokens(translation)] if self.columns.tokens else []
        columns += [spell(word_links(self.model, translation, self.by))] if self.columns.links else []
        columns += [clean(" ".join(line.unseen))] if self.columns.unseen else []
        return "\t".join(column.replace("\t", " ") for column in columns) if len(columns) > 1 else text

"""The outputs of models on the test set: translations, and links by forced decoding."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard import _check
from regard._arrays import file_of
from regard.commands.evaluate.arguments import output_files
from regard.commands.evaluate.data import gold_file
from regard.commands.evaluate.faithfulness import MOST_ITEMS, ErasureComparison, compare_with_erasure
from regard.commands.examples import example_path, loaded
from regard.commands.link_files import LineLinks, LinkFile
from regard.commands.loading import Unseen, check_posterior, listed, word_links
from regard.commands.options import check_outputs, first_given
from regard.commands.read_lines import Failures
from regard.commands.tasks.items import Items
from regard.seq2seq.alignment.links import Gold
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.evaluation import metrics
from regard.seq2seq.evaluation.metrics import LinkScore
from regard.seq2seq.sources import Example, Source
from regard.seq2seq.sources.text.normalization import Normalization
from regard.seq2seq.translator import Translator, check_length, read_source
from regard.show.progress import Progress
from regard.show.terminal.text import note

__all__ = ["Output", "model_outputs", "read_for_models"]

_BLOCK_SENTENCES = 256  # between two updates of the progress bar


class Output(NamedTuple):
    """The translations of a model, or lines of a file; with the score of links, and the Unicode normalization.

    `compared`: the model's attention, compared with erasure.
    """

    lines: list[str]
    links: LinkScore | None = None
    form: Normalization = "none"
    compared: ErasureComparison | None = None


class _Unseen(Unseen):
    """Warns of all items together, whatever the number of models."""

    def __init__(self, failures: Failures, unknown: str | None) -> None:
        super().__init__(failures, unknown)
        self.warnings: dict[str, tuple[Sequence[str], str]] = {}

    def _warn(self, location: str, symbols: Sequence[str], result: str) -> None:
        self.warnings[location] = symbols, result

    def report(self) -> None:
        """Print the warning."""
        if self.warnings:
            counts = Counter(symbol for symbols, _ in self.warnings.values() for symbol in symbols)
            frequent = [symbol for symbol, _ in counts.most_common()]
            items = f"{len(self.warnings)} of {self.failures.total} items"
            result = max((result for _, result in self.warnings.values()), key=len)
            note(f"warning: {items} have symbols that the model does not know: {listed(frequent)}; {result}")


class _Read(NamedTuple):
    """The items of the test set as a model reads them, targets only where they are aligned; those that it can use."""

    model: Translator
    sources: list[Example]
    targets: list[Example]
    translated: list[int]
    aligned: list[int]


def read_for_models(
    args: argparse.Namespace, test: Items, models: Sequence[Translator]
) -> tuple[Items, list[Example]]:
    """Return the test set with the token types of the models, and its sources as the first model reads them."""
    sources, target = [model.model.source for model in models], models[0].model.target.token_type
    if len({source.layout if source.reads_files else None for source in sources}) > 1:
        _check.fail("the models to compare must all read text, or arrays of the same size")
    source, names = sources[0], test.sources or []
    if args.gold and "links" not in source.accepts:
        _check.fail(f"--gold has links between words: {args.model} reads {source.kind}")
    if source.reads_files:
        paths = [example_path(str(args.test), name) for name in names]
        check_outputs(output_files(args), [Path(file_of(path)) for path in paths])
    locations = [f"{test.name}, source {i}" for i in range(1, len(names) + 1)]
    examples = loaded(names, source, str(args.test), locations)
    if source.reads_files:
        return test._replace(sources=None, token_types=(None, target)), examples
    return test._replace(token_types=(source.kind, target)), examples


def model_outputs(
    args: argparse.Namespace,
    models: Sequence[Translator],
    test: Items,
    examples: list[Example],
    gold: list[Gold] | None,
    names: Sequence[str],
    failures: Failures,
) -> Iterator[Output]:
    """Yield the output of each model, once the test set has been checked with all of them.

    Of an item that a model cannot use, the output is empty.
    """
    for option in ("--gold", "--faithfulness"):
        if first_given(args, [option]) and not all(model.attention for model in models):
            _check.fail(f"{option} needs attention: one of the models was trained without")
    check_posterior(args, models)
    inputs, unseen = list[_Read](), _Unseen(failures, args.unknown)
    targets: list[Any] = [] if gold is None else test.targets
    for model in models:  # those that split text alike share the examples
        source, target = model.model.source, model.model.target
        examples, targets = list(map(source.load, examples)), list(map(target.read, targets))
        alike = next((read.translated for read in inputs if read.model.model.source == source), None)
        check = partial(_check_source, source, unseen)
        translated = _usable("source", examples, check, unseen) if alike is None else alike
        aligned = {*_usable("target", targets, _check_target, unseen)} & {*translated}
        inputs.append(_Read(model, examples, targets, translated, sorted(aligned)))
        if gold is not None:
            _check_gold(gold_file(args), inputs[-1], gold)
    unseen.report()
    if gold is not None:
        gold_file(args).warn([links.possible for links in gold])
    for name, read in zip(names, inputs, strict=True):
        lines = _translated(read, args.beam or BEAM, name)
        links = None if gold is None else _link_score(read, gold, name, args)
        compared = _compared(read, lines, name) if args.faithfulness else None
        yield Output(lines, links, read.model.model.target.normalization, compared)


def _check_source(source: Source, unseen: Unseen, example: Example, location: str) -> None:
    unseen.check([(source, read_source(source, example))], location)


def _check_target(example: Example, location: str) -> None:
    check_length(len(example))


def _usable(
    side: str, examples: Sequence[Example], check: Callable[[Example, str], None], unseen: Unseen
) -> list[int]:
    """Return the items that are not too long, nor to be left out for symbols that the source does not know."""
    usable = list[int]()
    for i, example in enumerate(examples):
        location = f"{unseen.failures.file}, {side} {i + 1}"
        if unseen.failures.attempt(partial(check, example, location), location) is None:
            usable.append(i)
    return usable


def _blocks(numbers: Sequence[int], lines: Sequence[Example], name: str) -> Iterator[list[int]]:
    """Yield the indices of lines in blocks of similar lengths, and print the progress."""
    order = sorted(numbers, key=lambda i: len(lines[i]))
    with Progress(len(order), name) as progress:
        for start in range(0, len(order), _BLOCK_SENTENCES):
            block = order[start : start + _BLOCK_SENTENCES]
            yield block
            progress.advance(len(block))


def _translated(read: _Read, beam: int, name: str) -> list[str]:
    texts = [""] * len(read.sources)
    for block in _blocks(read.translated, read.sources, f"translating ({name})"):
        translations = read.model.translate([read.sources[i] for i in block], beam=beam)
        for i, translation in zip(block, translations, strict=True):
            texts[i] = translation.text
    return texts


def _compared(read: _Read, lines: Sequence[str], name: str) -> ErasureComparison:
    """Compare the attention of a model with erasure, on items that are evenly spread over the test set."""
    usable = [i for i in read.translated if len(read.sources[i]) > 1 and lines[i]]
    chosen = [
        usable[i]
        for i in np.linspace(0, len(usable), min(len(usable), MOST_ITEMS), endpoint=False).astype(int)
    ]
    with Progress(len(chosen), f"erasing inputs ({name})") as progress:
        sources, texts = ([side[i] for i in chosen] for side in (read.sources, lines))
        return compare_with_erasure(read.model, sources, texts, progress.advance)


def _check_gold(file: LinkFile, read: _Read, gold: Sequence[Gold]) -> None:
    """Check that the reference links are between words of the pairs."""
    tokenizers = read.model.model.source.tokenizer, read.model.model.target
    for number, (links, *pair) in enumerate(zip(gold, read.sources, read.targets, strict=True), 1):
        if links.possible:
            source, target = map(file.numbers, tokenizers, pair)
            file.check(LineLinks(number, links.possible), (source, target))


def _link_score(read: _Read, gold: Sequence[Gold], name: str, args: argparse.Namespace) -> LinkScore:
    """Compare the links of a model, by forced decoding of the targets, with the reference links."""
    model, sources, targets = read.model, read.sources, read.targets
    predicted: list[frozenset[tuple[int, int]]] = [frozenset() for _ in sources]
    for block in _blocks(read.aligned, sources, f"aligning ({name})"):
        aligned = model.align(
            [sources[i] for i in block], [targets[i] for i in block], posterior=args.posterior
        )
        for i, translation in zip(block, aligned, strict=True):
            predicted[i] = word_links(model, translation, args.by)
    return metrics.alignment_error_rate(predicted, [g.sure for g in gold], [g.possible for g in gold])

"""From pairs to a training: the pairs are encoded, extras are learned, and the network gets its first parameters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from regard import _check
from regard.seq2seq.corpus.batching import Corpus, Links
from regard.seq2seq.corpus.dataset import check_links, encode_pairs, is_short, own_tokens
from regard.seq2seq.corpus.packing import Row
from regard.seq2seq.corpus.pairs import Pair, as_pairs
from regard.seq2seq.corpus.splits import split_validation
from regard.seq2seq.decoding.restrictions import USUAL, repetitions
from regard.seq2seq.extras import augments, extra_class
from regard.seq2seq.extras.base import Extra, Progress, SourceAugmenter, augment
from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.families import build
from regard.seq2seq.sources import Source, Text
from regard.seq2seq.sources.text.tokenizers import Tokenizer
from regard.seq2seq.sources.text.vocabulary import START
from regard.seq2seq.storage.model_file import Model
from regard.seq2seq.training import defaults
from regard.seq2seq.training.config import TrainingConfig
from regard.seq2seq.training.loop import Training

__all__ = ["GivenLinks", "PreparedTraining", "Progress", "Specification", "prepare"]

Pairs = Sequence[tuple[Any, Any]]
GivenLinks = Sequence[Links] | Callable[[Source, Tokenizer, Sequence[Pair]], Sequence[Links]] | None


class Specification(Protocol):
    """The options of a model, which `regard.seq2seq.Seq2Seq` checks."""

    family: str
    network_options: dict[str, Any]
    source: str | Source
    target: str
    extras: dict[str, int]
    max_tokens: int
    training: TrainingConfig

    @property
    def reader(self) -> Source:
        """The reader of sources, before it is fitted."""

    @property
    def target_reader(self) -> Text:
        """The reader of targets, before it is fitted."""


class PreparedTraining(NamedTuple):
    """A training before its first step, and the model that it trains."""

    training: Training
    model: Model[Network]
    held_out: list[tuple[Row, Row]]  # pairs to which the weight of a reranker is fitted


def prepare(
    spec: Specification,
    pairs: Pairs,
    valid: Pairs | None,
    links: GivenLinks,
    progress: Progress | None = None,
) -> PreparedTraining:
    """Prepare a training; without validation pairs, some of the pairs are held out."""
    reader = spec.reader, spec.target_reader.tokenizer
    read, read_valid, links = _read(spec, reader, pairs, valid, links)
    source, target = _fitted(spec, read)
    read, read_valid = (
        [(source.load(text), target.read(answer)) for text, answer in part] for part in (read, read_valid)
    )
    if callable(links):
        links = links(source, target, read)
    learned = encode_pairs(source, target, read, links, longest=spec.max_tokens, what="training")
    validation = encode_pairs(source, target, read_valid, longest=spec.max_tokens, what="validation")
    source_tokens, sizes = source.spec.tokens, source.spec
    if any(map(augments, spec.extras)):
        sizes = sizes._replace(tokens=source_tokens + len(target))
    minutes = spec.training.minutes
    config = defaults.choose_config(
        spec.family, len(learned), sizes, len(target), spec.network_options, minutes
    )
    begun = time.monotonic()
    extras, held_out = _learn_extras(spec.extras, learned, validation, (source_tokens, len(target)), progress)
    for extra in extras.values():
        if isinstance(extra, SourceAugmenter):
            learned, validation = _augmented((learned, validation), extra, source_tokens, progress)
    chosen = defaults.choose_training(config, learned, spec.training)
    network = build(config)
    counts = np.bincount(learned.target, minlength=len(target))
    counts[START] = 0
    network.initialize(np.random.default_rng(chosen.seed), counts)
    options = {"source": spec.source, "target": spec.target, "extras": spec.extras}
    prepared = time.monotonic() - begun if extras else 0.0
    training = Training(network, learned, validation, chosen, options, prepared)
    most = max(USUAL, repetitions(learned.target))
    model = Model(network, source, target, extras, repetitions=most)
    return PreparedTraining(training, model, held_out)


def _fitted(spec: Specification, pairs: Sequence[Pair]) -> tuple[Source, Tokenizer]:
    """Learn the vocabularies of both sides; words of both are rare by the same count, that of the target."""
    with _check.located("target: "):
        target = spec.target_reader.fitted(pair[1] for pair in pairs)
    with _check.located("source: "):
        return spec.reader.beside(target).fitted(pair[0] for pair in pairs), target.tokenizer


def _read(
    spec: Specification, sides: tuple[Source, Tokenizer], pairs: Pairs, valid: Pairs | None, links: GivenLinks
) -> tuple[Sequence[Pair], Sequence[Pair], GivenLinks]:
    """Return the pairs for training and validation, and the links of the former."""
    read = as_pairs(pairs, *sides)
    _check_links(spec, links, len(read))
    if valid is not None:  # pairs with an empty side are left out
        return read, as_pairs(valid, *sides, skipped=lambda _: None), links
    if callable(links):
        _check.fail("valid must be given where links is a function.")
    return split_validation(read, links, lambda pair: is_short(sides[0], pair, spec.max_tokens))


def _check_links(spec: Specification, links: GivenLinks, count: int) -> None:
    """Check that links, if they are given, fit the model and the number of pairs."""
    if links is None and spec.training.guided_alignment:
        _check.fail("guided_alignment needs links, whose loss it weighs. Got no links instead.")
    if links is not None and spec.network_options.get("score") == "none":
        _check.fail("links must not be given without attention: they are targets of its weights.")
    if links is not None and "links" not in spec.reader.accepts:
        _check.fail("links must not be given with a source of arrays: they are between tokens.")
    if links is not None and not callable(links):
        check_links(links, count)


def _learn_extras(
    options: Mapping[str, int],
    learned: Corpus,
    validation: Corpus,
    sizes: tuple[int, int],
    progress: Progress | None,
) -> tuple[dict[str, Extra], list[tuple[Row, Row]]]:
    """Learn the extras; return also the validation pairs that are no training pairs."""
    if not options:
        return {}, []
    pairs = list(map(own_tokens, learned))
    extras = {
        name: extra_class(name).learn(option, pairs, sizes, progress) for name, option in options.items()
    }
    return extras, _unseen(map(own_tokens, validation), pairs)


def _augmented(
    corpora: tuple[Corpus, Corpus],
    augmenter: SourceAugmenter,
    size: int,
    progress: Progress | None,
) -> Iterator[Corpus]:
    """Append tokens to the sources of all corpora, and report progress."""
    total = sum(map(len, corpora))

    def report(more: int) -> None:
        if progress is not None:
            progress("appending tokens to sources", more, total)

    return (augment(corpus, augmenter, size, report) for corpus in corpora)


def _unseen(pairs: Iterable[tuple[Row, Row]], known: Iterable[tuple[Row, Row]]) -> list[tuple[Row, Row]]:
    """Return the pairs that are not among the known ones."""
    excluded = {(tuple(source), tuple(target)) for source, target in known}
    return [
        pair for pair in ((tuple(source), tuple(target)) for source, target in pairs) if pair not in excluded
    ]

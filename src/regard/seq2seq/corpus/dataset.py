"""From pairs of examples to a corpus: encode pairs, check links."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from regard import _check
from regard.seq2seq.corpus.batching import Corpus, EncodedPair, Links
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.sources.base import Source
from regard.seq2seq.sources.example import Example
from regard.seq2seq.sources.text.tokenizers import Tokenizer
from regard.seq2seq.sources.text.vocabulary import END, START

__all__ = ["check_links", "encode_pairs", "is_short", "own_tokens", "target_ids"]


def target_ids(tokenizer: Tokenizer, target: Sequence[str]) -> list[int]:
    """Return the ids of a target's tokens, with START before and END after them."""
    return [START, *tokenizer.encode(target), END]


def is_short(source: Source, pair: Pair, longest: int) -> bool:
    """Return whether both sides of a pair have between 1 and `longest` tokens; rows of numbers have no limit."""
    return source.is_short(pair[0], longest) and 0 < len(pair[1]) <= longest


def encode_pairs(
    source: Source,
    target: Tokenizer,
    pairs: Sequence[Pair],
    links: Sequence[Links] | None = None,
    *,
    longest: int,
    what: str,
) -> Corpus:
    """Encode the pairs that are neither empty nor too long; raise ValueError if there are none for `what`.

    `links` has for each pair which source token each target token should attend to.
    """

    def encoded() -> Iterator[EncodedPair]:
        for number, pair in enumerate(pairs):
            if is_short(source, pair, longest):
                own_links = _checked_links(links[number], *pair, number) if links else frozenset()
                yield EncodedPair(source.rows(pair[0]), target_ids(target, pair[1].content), own_links)

    corpus = Corpus(encoded())
    if not len(corpus):
        count = f"{len(pairs)} pair{'s' * (len(pairs) != 1)}"
        most = f"{longest} (max_tokens) tokens {source.limited_sides}"
        _check.fail(f"no {what} pair has between 1 and {most}: {count} given")
    return corpus


def _checked_links(links: Links, source: Example, target: Example, number: int) -> Links:
    """Return the links of a pair, after a check that they are between its tokens."""
    for i, j in links:
        if not (0 <= i < len(source) and 0 <= j < len(target)):
            _check.fail(
                f"links must be between tokens of their pair. Pair {number + 1} has {len(source)} and {len(target)}; "
                f"got {(i, j)} instead."
            )
    return frozenset((int(i), int(j)) for i, j in links)  # not NumPy's integers, whose repr differs


def check_links(links: Any, count: int) -> None:
    """Check that links are one collection of (source, target) for each of `count` sentence pairs."""
    hint = "{(0, 0), (2, 1)}: integers, both counted from 0"
    if isinstance(links, str) or not isinstance(links, Sequence):
        rule = f"links must be one set for each pair. Got {type(links).__name__} instead."
        _check.fail(rule, hint=hint, kind=TypeError)
    if len(links) != count:
        _check.fail(f"links must be one set for each of {count} pairs. Got {len(links)} instead.")
    for number, pair_links in enumerate(links, 1):
        if not isinstance(pair_links, Collection) or not all(map(_is_link, pair_links)):
            rule = f"links must be sets of (source, target). Pair {number} has {pair_links!r:.60} instead."
            _check.fail(rule, hint=hint, kind=TypeError)


def _is_link(link: Any) -> bool:
    return isinstance(link, tuple) and len(link) == 2 and all(isinstance(i, int | np.integer) for i in link)


def own_tokens(pair: EncodedPair) -> tuple[list[int], list[int]]:
    """Return the ids of both sides of a pair without START and END."""
    return [int(token) for token in pair.source[:-1]], [int(token) for token in pair.target[1:-1]]

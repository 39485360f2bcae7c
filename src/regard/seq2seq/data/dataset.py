"""From sentence pairs to a corpus: learn tokenizers, encode pairs, check links."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from regard import _check
from regard.seq2seq.data.array_sources import ArraySource, Loaded
from regard.seq2seq.data.batching import Corpus, EncodedPair, Links
from regard.seq2seq.data.normalization import Normalization
from regard.seq2seq.data.parallel_text import Pair
from regard.seq2seq.data.subwords import Method
from regard.seq2seq.data.tokenizers import Sentence, Tokenizer, learn
from regard.seq2seq.data.vocabulary import END, SPECIAL, START

__all__ = [
    "check_links",
    "choose_min_count",
    "learn_tokenizers",
    "encode_pairs",
    "keep_tokens",
    "own_tokens",
    "target_ids",
]

LARGEST_VOCABULARY = 30_000  # of words, by default; other types of tokens have no limit
_MANY_PAIRS = 5000


def choose_min_count(pairs: int, token_type: str) -> int:
    """Return the default of how often a token must occur to be in the vocabulary.

    Parameters
    ----------
    pairs : int
        The number of training pairs.
    token_type : str
        The type of tokens.

    Returns
    -------
    int
        3 for words of many pairs, since rare words are learned badly and can be copied from the source; else 1.
    """
    return 3 if token_type == "words" and pairs >= _MANY_PAIRS else 1


def keep_tokens(pair: Pair, shared: dict[str, str] | None = None) -> Pair:
    """Return a pair whose texts keep their tokens.

    Parameters
    ----------
    pair : (source, target)
        Text, or tokens, which stay as they are.
    shared : dict, optional
        As for `Sentence`.

    Returns
    -------
    source, target : Sentence or sequence of str
        Equal to those of the pair.
    """
    source, target = (
        Sentence(side, shared) if isinstance(side, str) and not isinstance(side, Loaded | Sentence) else side
        for side in pair
    )
    return source, target


def learn_tokenizers(
    pairs: Sequence[Pair],
    token_types: tuple[str | ArraySource, str],
    *,
    min_count: int | None,
    size: int | None,
    lower: bool | None,
    normalization: Normalization,
    method: Method = "unigram",
) -> tuple[Tokenizer | ArraySource, Tokenizer]:
    """Learn the tokenizers of both sides.

    Parameters
    ----------
    pairs : sequence of (source, target)
        The training pairs.
    token_types : (str or ArraySource, str)
        The token type of each side; or what reads the arrays of the source, which is returned.
    min_count, size, lower, normalization, method
        As for `regard.seq2seq.Seq2Seq`; `size` is its `vocabulary`, `method` its `subwords`.

    Returns
    -------
    source, target : Tokenizer
        The tokenizers.
    """
    tokenizers: list[Any] = []
    for side, (name, token_type) in enumerate(zip(("source", "target"), token_types, strict=True)):
        if isinstance(token_type, ArraySource):
            tokenizers.append(token_type)
            continue
        least = choose_min_count(len(pairs), token_type) if min_count is None else min_count
        tokenizer = learn(
            token_type,
            (pair[side] for pair in pairs),
            min_count=least,
            size=size or (LARGEST_VOCABULARY if token_type == "words" else None),
            lower=side == 0 and (token_type == "words" if lower is None else lower),
            normalization=normalization,
            method=method,
        )
        if len(tokenizer) <= len(SPECIAL):
            _check.fail(
                f"{name} must have tokens to learn: of {len(pairs)} pairs none comes at least {least} times.",
                hint="min_count=1 learns them all" * (least > 1),
            )
        tokenizers.append(tokenizer)
    return tokenizers[0], tokenizers[1]


def target_ids(tokenizer: Tokenizer, target: Sequence[str]) -> list[int]:
    """Return the ids of a target's tokens, with START before and END after them.

    Parameters
    ----------
    tokenizer : Tokenizer
        The target's tokenizer.
    target : sequence of str
        Tokens.

    Returns
    -------
    list of int
        Two more than tokens.
    """
    return [START, *tokenizer.encode(target), END]


def encode_pairs(
    tokenizers: tuple[Tokenizer | ArraySource, Tokenizer],
    pairs: Sequence[Pair],
    links: Sequence[Links] | None = None,
    *,
    longest: int,
    what: str,
) -> Corpus:
    """Encode the pairs that are neither empty nor too long.

    Parameters
    ----------
    tokenizers : (Tokenizer or ArraySource, Tokenizer)
        The tokenizers of both sides, or what reads the arrays of the source.
    pairs : sequence of (source, target)
        Text, tokens, or a source that is read.
    links : sequence of frozensets of (int, int), optional
        For each pair which source token each target token should attend to.
    longest : int
        The most tokens of a side.
    what : str
        The purpose of the pairs, for errors.

    Returns
    -------
    Corpus
        At least one pair.
    """

    def encoded() -> Iterator[EncodedPair]:
        for number, pair in enumerate(pairs):
            source_side, target = tokenizers[0], tokenizers[1].cut(pair[1])
            if isinstance(source_side, ArraySource):
                if 0 < len(target) <= longest:
                    yield EncodedPair(source_side.read(pair[0]), target_ids(tokenizers[1], target))
                continue
            source = source_side.cut(pair[0])
            if all(0 < len(side) <= longest for side in (source, target)):
                own_links = _checked_links(links[number], source, target, number) if links else frozenset()
                ids = [*source_side.encode(source), END], target_ids(tokenizers[1], target)
                yield EncodedPair(*ids, own_links)

    corpus = Corpus(encoded())
    if not len(corpus):
        count = f"{len(pairs)} pair{'s' * (len(pairs) != 1)}"
        where = "in the target" if isinstance(tokenizers[0], ArraySource) else "on both sides"
        most = f"{longest} (max_tokens) tokens {where}"
        raise ValueError(f"no {what} pair has between 1 and {most}: {count} given")
    return corpus


def _checked_links(links: Links, source: Sequence[str], target: Sequence[str], number: int) -> Links:
    """Return the links of a pair, after a check that they are between its tokens."""
    for i, j in links:
        if not (0 <= i < len(source) and 0 <= j < len(target)):
            _check.fail(
                f"links must be between tokens of their pair. Pair {number + 1} has {len(source)} and {len(target)}; "
                f"got {(i, j)} instead."
            )
    return frozenset((int(i), int(j)) for i, j in links)  # not NumPy's integers, whose repr differs


def check_links(links: Any, count: int) -> None:
    """Check that links are one collection of (source, target) for each sentence pair.

    Parameters
    ----------
    links
        The links to check.
    count : int
        The number of sentence pairs.
    """
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
    """Return the ids of a pair without START and END.

    Parameters
    ----------
    pair : EncodedPair
        A pair of `encode_pairs`.

    Returns
    -------
    source, target : list of int
        Ids.
    """
    return [int(token) for token in pair.source[:-1]], [int(token) for token in pair.target[1:-1]]

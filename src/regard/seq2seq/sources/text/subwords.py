"""Subword segmentation: models are trained with sentencepiece and applied without it."""

from __future__ import annotations

import heapq
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.seq2seq.sources.text.vocabulary import PAD, SPECIAL

__all__ = ["METHODS", "Segmenter", "learn_pieces", "read_scores"]

Method = Literal["unigram", "bpe"]

METHODS: tuple[Method, ...] = ("unigram", "bpe")
FEWEST = len(SPECIAL) + 2  # tokens: special tokens, the word-start marker, and one character
LONGEST_PIECE = 64  # characters; sentencepiece's own limit is 16
_UNKNOWN_COSTS = 10.0  # as in sentencepiece: an unknown character scores this much less than the worst piece
_MOST_PIECES = (
    1_000_000  # sentencepiece's number of candidates; initialising memory for 2^31 would take hours
)
_RARE = 0.0005  # share of characters that may be dropped if characters would fill much of the vocabulary
_RESERVED = "\u2585"  # sentencepiece skips sentences with this character
_LONG = 64  # characters; longer words are not cached


class Segmenter:
    """Segment words into subwords.

    `tokens`: the vocabulary: four special tokens, then the pieces; `scores`: one for each token; those of special
    tokens are ignored; `method`: "unigram" maximises the sum of the pieces' scores; "bpe" merges adjacent pieces
    while the result is a piece, the highest score first; `cache_size`: how many words are remembered.
    """

    def __init__(
        self, tokens: Sequence[str], scores: ArrayLike, method: Method, *, cache_size: int = 1 << 17
    ) -> None:
        self.method, self.scores = _check.choice("method", method, METHODS), np.asarray(scores, "<f4")
        _check.shape("scores", self.scores.shape, (len(tokens),), "(tokens,)")
        _check.finite("scores", self.scores)
        first = len(SPECIAL)
        self._scores = dict(zip(tokens[first:], self.scores[first:].tolist(), strict=True))
        self._longest = max(map(len, self._scores), default=1)
        if self._longest > LONGEST_PIECE:
            _check.fail(f"a piece must have at most {LONGEST_PIECE} characters. Got {self._longest} instead.")
        self._unknown = min(self._scores.values(), default=0.0) - _UNKNOWN_COSTS
        self._cache: dict[str, tuple[str, ...]] = {}
        self._cache_size = cache_size

    def __call__(self, word: str) -> tuple[str, ...]:
        """Segment a word; consecutive unknown characters form one token."""
        pieces = self._cache.get(word)
        if pieces is None:
            known = self._viterbi(word) if self.method == "unigram" else self._merge(word)
            pieces = tuple(self._join_unknown(known))
            if len(word) <= _LONG:
                self._store(word, pieces)
        return pieces

    def _store(self, word: str, pieces: tuple[str, ...]) -> None:
        if len(self._cache) >= self._cache_size:
            self._cache = {}
        self._cache[word] = pieces

    def _join_unknown(self, pieces: Iterable[str]) -> Iterator[str]:
        for known, group in groupby(pieces, self._scores.__contains__):
            if known:
                yield from group
            else:
                yield "".join(group)

    def _viterbi(self, word: str) -> list[str]:
        """Return the segmentation with the largest sum of scores (Viterbi algorithm)."""
        best = [0.0] + [-np.inf] * len(word)  # score of the best segmentation of word[:end]
        begins = [0] * (len(word) + 1)  # start of its last piece
        for begin in range(len(word)):
            for end in range(begin + 1, min(begin + self._longest, len(word)) + 1):
                unknown = self._unknown if end == begin + 1 else None
                score = self._scores.get(word[begin:end], unknown)
                if score is not None and best[begin] + score > best[end]:
                    best[end], begins[end] = best[begin] + score, begin
        pieces, end = [], len(word)
        while end:
            pieces.append(word[begins[end] : end])
            end = begins[end]
        return pieces[::-1]

    def _merge(self, word: str) -> list[str]:
        """Apply BPE merges until no adjacent pair forms a piece; a heap gives the best merge."""
        pieces: list[str] = list(word)  # indexed by their first character; "" if merged into another
        before, after = list(range(-1, len(word) - 1)), list(range(1, len(word) + 1))
        heap: list[tuple[float, int, str, int]] = []

        def offer(left: int) -> None:
            right = after[left] if left >= 0 else len(word)
            if right < len(word) and (score := self._scores.get(pieces[left] + pieces[right])) is not None:
                heapq.heappush(heap, (-score, left, pieces[left] + pieces[right], right))

        for left in range(len(word) - 1):
            offer(left)
        while heap:
            _, left, merged, right = heapq.heappop(heap)
            if not pieces[left] or pieces[left] + pieces[right] != merged:
                continue  # outdated: one of the two was merged with another
            pieces[left], pieces[right] = merged, ""
            after[left] = after[right]
            if after[right] < len(word):
                before[after[right]] = left
            offer(before[left])
            offer(left)
        return [piece for piece in pieces if piece]


def read_scores(data: bytes, count: int) -> NDArray[np.float32]:
    """Read so many scores from little-endian float32 data."""
    return _check.from_bytes("scores", data, "<f4", (count,)).astype(np.float32)


def learn_pieces(
    sentences: Iterable[str], *, size: int, method: Method, most_sentences: int = 500_000
) -> tuple[list[str], list[float]]:
    """Train a subword model of text with spaces between words by sentencepiece: tokens, special ones first, and scores.

    More sentences than `most_sentences`, which hardly change the pieces, are subsampled at regular intervals. `size`
    includes the special tokens, and is at most a million; the vocabulary is smaller if the text does not yield enough
    pieces.
    """
    _check.choice("method", method, METHODS)
    size = min(_check.integer("size", size, least=FEWEST), _MOST_PIECES)
    library = _sentencepiece()
    lines = [sentence for sentence in sentences if sentence.strip(" ")]
    lines = lines[:: -(-len(lines) // most_sentences) or 1]
    characters = _frequent(lines, size - len(SPECIAL) - 1)
    if not characters:
        _check.fail("subwords must be learned from text. Got no sentence with a word in it instead.")
    substitute = next(c for c in map(chr, count(ord(_RESERVED) + 1)) if c not in characters)
    lines = [_only(characters, line).replace(_RESERVED, substitute) for line in lines]
    model = _train(library, lines, size, method)
    processor = library.SentencePieceProcessor(model_proto=model)
    numbers = range(processor.get_piece_size())
    pieces = [processor.id_to_piece(i).replace(substitute, _RESERVED) for i in numbers[len(SPECIAL) :]]
    return [*SPECIAL, *pieces], [processor.get_score(i) for i in numbers]


def _sentencepiece() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise ImportError('subwords need sentencepiece: pip install "regard[subwords]"') from None
    return sentencepiece


def _frequent(sentences: Iterable[str], most: int) -> frozenset[str]:
    """Return the characters that become pieces: all, or the most frequent if there are too many."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    del counts[" "]
    order = sorted(counts, key=lambda character: (-counts[character], character))
    if len(order) > most // 4:
        rare = counts.total() * _RARE
        while order and (rare := rare - counts[order[-1]]) >= 0:
            order.pop()
    return frozenset(order[:most])


def _only(known: frozenset[str], line: str) -> str:
    """Replace unknown characters by spaces."""
    return line if known.issuperset(line) else "".join(c if c in known else " " for c in line)


def _train(library: Any, sentences: Sequence[str], size: int, method: Method) -> bytes:
    """Train sentencepiece in memory, without output."""
    written = io.BytesIO()
    try:
        library.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=written,
            model_type=method,
            vocab_size=size,
            hard_vocab_limit=False,  # a smaller vocabulary is allowed
            character_coverage=1.0,
            normalization_rule_name="identity",  # the text is already normalised
            max_sentence_length=1 << 20,
            num_threads=1,  # for reproducible models
            minloglevel=3,
            **_SPECIAL_NUMBERS,
        )
    except RuntimeError as error:
        _check.fail(f"sentencepiece could not learn {size} subwords: {error}")
    return written.getvalue()


# Where the name of a special token is in the text, sentencepiece drops it: no text has these names.
_SPECIAL_NUMBERS = {
    f"{name}_{what}": number if what == "id" else _RESERVED + SPECIAL[number]
    for number, name in enumerate(("pad", "bos", "eos", "unk"), PAD)
    for what in ("id", "piece")
}

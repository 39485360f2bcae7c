"""The interfaces of extras: parts that extend sources or rerank translations, and are stored with a model.

A model has those that it was trained with by name; distributions add them, see `regard.seq2seq.extras`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from regard.seq2seq.corpus.batching import Corpus, EncodedPair
from regard.seq2seq.corpus.dataset import own_tokens
from regard.seq2seq.corpus.packing import Row
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring

__all__ = ["PER_REPORT", "Extra", "Progress", "Reranker", "SourceAugmenter", "augment"]

Progress = Callable[[str, int, int], object]  # what is done, its steps since the last call, and all of them

PER_REPORT = 1 << 14  # sources between two reports of progress


class Extra(ABC):
    """A part of a model that is learned from the training pairs, next to the network."""

    largest: ClassVar[int | None] = None  # the largest option, if there is a limit

    @property
    @abstractmethod
    def option(self) -> int:
        """The value of ``Seq2Seq(extras={name: value})``."""

    @classmethod
    @abstractmethod
    def learn(
        cls,
        option: int,
        pairs: Sequence[tuple[Row, Row]],
        sizes: tuple[int, int],
        progress: Progress | None = None,
    ) -> Self:
        """Learn from pairs of token ids, with vocabularies of these sizes."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON."""

    @abstractmethod
    def data(self, sizes: tuple[int, int]) -> dict[str, bytes]:
        """Return the learned parts, as bytes by name."""

    @classmethod
    @abstractmethod
    def restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes], sizes: tuple[int, int]) -> Self:
        """Return the extra of `describe` and `data`; raise if they are invalid."""

    @abstractmethod
    def shared(self) -> object:
        """Return the part that must be equal in all models of an ensemble."""


class SourceAugmenter(Extra):
    """An extra that appends tokens to sources, for the attention to read.

    The appended tokens are of the target; in the network's source vocabulary they follow the tokens of the source.
    """

    @abstractmethod
    def extend(self, sources: Sequence[Row], size: int) -> list[list[int]]:
        """Return sources with END and the appended tokens, whose ids start at `size`."""


class Reranker(Extra):
    """An extra that ranks the hypotheses of a beam by its own log-probabilities, too."""

    weight: float  # of its log-probabilities; that of the network's is 1

    @abstractmethod
    def rerank(
        self,
        sources: Sequence[Row],
        hypotheses: Sequence[Sequence[Hypothesis]],
        scoring: Scoring,
        n_best: int,
    ) -> list[list[Hypothesis]]:
        """Return the `n_best` hypotheses of each source with new scores, the best first."""

    @abstractmethod
    def fit_weight(
        self,
        sources: Sequence[Row],
        hypotheses: Sequence[Sequence[Hypothesis]],
        references: Sequence[Sequence[Row]],
        scoring: Scoring,
    ) -> None:
        """Choose the weight whose best hypotheses have the fewest errors."""


def augment(
    corpus: Corpus, augmenter: SourceAugmenter, size: int, progress: Callable[[int], object]
) -> Corpus:
    """Append tokens to the sources of a corpus.

    `corpus`: pairs without an augmenter; `augmenter`: the extra that appends them; `size`: the number of tokens in
    the source's vocabulary; `progress`: called with the number of sources done since its last call.
    """

    def extended() -> Iterator[EncodedPair]:
        for start in range(0, len(corpus), PER_REPORT):
            pairs = [corpus[i] for i in range(start, min(start + PER_REPORT, len(corpus)))]
            sources = augmenter.extend([own_tokens(pair)[0] for pair in pairs], size)
            yield from (pair._replace(source=row) for pair, row in zip(pairs, sources, strict=True))
            progress(len(pairs))

    return Corpus(extended())

"""The pairs of a training, for training, validation and test."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from regard._once import computed_once
from regard.commands.link_files import PairLinks
from regard.seq2seq.corpus.dataset import is_short
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources import Example

__all__ = ["Data", "short_pairs", "with_noun"]


def with_noun(count: int, noun: str) -> str:
    """Return a number with its noun in singular or plural."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Data:
    """The pairs for training, validation and test, and the links of the training pairs."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    links: PairLinks | None = None
    own_valid: bool = False  # whether validation pairs were given
    own_test: bool = False  # whether the test pairs are not the validation pairs
    tested: str = ""  # the first file of the test pairs

    @property
    def too_few(self) -> bool:
        """Whether there are too few pairs to hold some out."""
        return not self.own_valid and self.valid == self.train

    @computed_once
    def _learned(self) -> set[Hashable]:
        """The sources that a model learns, and what they were read from."""
        return {key for source, _ in self.train for key in (source, source.identity)}

    def has_learned(self, source: Example) -> bool:
        """Return whether a source, which may be split into other tokens, is one of training."""
        return source in self._learned or source.identity in self._learned

    def learned(self, pairs: Sequence[Pair]) -> int:
        """Return how many pairs are training pairs."""
        known = {(str(source), str(target)) for source, target in self.train}
        return sum((str(source), str(target)) in known for source, target in pairs)


def short_pairs(model: Seq2Seq, pairs: Sequence[Pair], longest: int) -> list[Pair]:
    """Return the pairs that have between 1 and `longest` tokens on each side that has tokens, as a model reads them."""
    source, target = model.model.source, model.model.target
    read = [(source.load(first), target.read(second)) for first, second in pairs]
    return [pair for pair in read if is_short(source, pair, longest)]

"""Special tokens, and vocabularies: the tokens of a model and their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from regard import _check
from regard._characters import OTHER_APOSTROPHE, lowered

__all__ = ["LONGEST_TOKEN", "Vocabulary"]

LONGEST_TOKEN = (
    1_000  # characters: longer ones are neither learned nor copied, so that no output is a damaged line
)

JOIN = "\uffed"  # marks the side on which a token touches its neighbour

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")


class Vocabulary:
    """Map the tokens of a model to their ids.

    The special tokens are ids without a text: a token of a text that is spelled like one of them has an id of its own.
    A token that is not known has the id of the one with the other apostrophe (U+0027, U+2019), if that is known.

    `tokens`: all tokens in the order of their ids; the first four are `SPECIAL`; `lower`: whether tokens are
    lowercased before they are looked up.
    """

    def __init__(self, tokens: Sequence[str], *, lower: bool = False) -> None:
        self.tokens, self.lower = tuple(tokens), lower
        known = self.tokens[len(SPECIAL) :]
        self._ids = {token: i for i, token in enumerate(known, len(SPECIAL))}
        if self.tokens[: len(SPECIAL)] != SPECIAL:
            _check.fail(f"a vocabulary must begin with {', '.join(SPECIAL)}")
        if len(self._ids) != len(known):
            twice = next(token for token, count in Counter(known).items() if count > 1)
            _check.fail(f"the tokens of a vocabulary must differ: {twice!r:.60} occurs twice")

    @classmethod
    def learn(
        cls,
        sentences: Iterable[Iterable[str]],
        *,
        min_count: int = 1,
        lower: bool = False,
        size: int | None = None,
    ) -> Vocabulary:
        """Assign ids to tokens that occur at least `min_count` times, by frequency; at most `size`, none very long."""
        counts = Counter(lowered(token) if lower else token for sentence in sentences for token in sentence)
        frequent = sorted(
            (-count, token)
            for token, count in counts.items()
            if count >= min_count and len(token) <= LONGEST_TOKEN
        )
        tokens = [*SPECIAL, *(token for _, token in frequent)]
        return cls(tokens if size is None else tokens[: max(size, len(SPECIAL))], lower=lower)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of tokens; UNKNOWN for those outside the vocabulary."""
        texts = map(lowered, tokens) if self.lower else tokens
        return [
            self._ids[text] if text in self._ids else self._ids.get(text.translate(OTHER_APOSTROPHE), UNKNOWN)
            for text in texts
        ]

    def __len__(self) -> int:
        return len(self.tokens)

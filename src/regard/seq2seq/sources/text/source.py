"""Text as a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.sources.base import Source, Spec
from regard.seq2seq.sources.example import Example
from regard.seq2seq.sources.text.normalization import Normalization
from regard.seq2seq.sources.text.rules import rules
from regard.seq2seq.sources.text.subwords import Method
from regard.seq2seq.sources.text.tokenizers import Side, Tokenizer, learn, restore, unseen, untrained
from regard.seq2seq.sources.text.vocabulary import END, SPECIAL, UNKNOWN

__all__ = ["RARE", "Text"]

LARGEST_VOCABULARY = 30_000  # of words, by default; other types of tokens have no limit
RARE = 3  # times: a rarer word is learned badly
_MANY_TEXTS = 5000
_MOST_RARE = 0.05  # of the tokens that may be unknown, by default


@dataclass(frozen=True, eq=False)
class Text(Source):
    """Sources that are text, or tokens.

    Parameters
    ----------
    kind : {"words", "characters", "subwords", "tokens"}
        The type of tokens.
    min_count, vocabulary, normalization, subwords
        As for `Seq2Seq`, of this side.
    lower : bool, optional
        Whether texts are lowercased; None: if all letters of the training texts have the same case.
    learned : Tokenizer, optional
        The tokenizer learned from the training texts, which a model sets.

    Examples
    --------
    >>> Text().read("no wait"), Text("characters").read("wait")
    (('no', 'wait'), ('w', 'a', 'i', 't'))
    """

    unit: ClassVar[str] = ""
    task: ClassVar[str] = "pairs"
    reads_files: ClassVar[bool] = False
    accepts: ClassVar[frozenset[str]] = frozenset({"extras", "links", "lower", "subwords"})
    limited_sides: ClassVar[str] = "on both sides"

    kind: str = "words"
    min_count: int | None = None
    vocabulary: int | None = None
    lower: bool | None = False
    normalization: Normalization = "NFC"
    subwords: Method = "unigram"
    learned: Tokenizer | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The learned tokenizer; before, one without a vocabulary, which counts words instead of subwords."""
        return untrained(self.kind, self.normalization) if self.learned is None else self.learned

    @property
    def spec(self) -> Spec:
        """Tokens of the vocabulary."""
        return Spec(tokens=len(self.tokenizer))

    @property
    def layout(self) -> Hashable:
        """The key of the segmentation."""
        return self.tokenizer.segmentation

    def read(self, given: Side) -> tuple[str, ...]:
        """Return the tokens of a text, none if it is blank."""
        return tuple(self.tokenizer.tokenize(given))

    def load(self, given: Any, where: str = "") -> Example:
        """Split a text into tokens, unless it is an example that was split alike; errors begin with `where`."""
        return self.tokenizer.read(given, where)

    def fitted(self, examples: Iterable[Example]) -> Self:
        """Return the source with a tokenizer learned from examples."""
        texts = list(examples)
        least = _least_count(self.kind, texts) if self.min_count is None else self.min_count
        tokenizer = learn(
            self.kind,
            texts,
            min_count=least,
            size=self.vocabulary or (LARGEST_VOCABULARY if self.kind == "words" else None),
            lower=_has_one_case(texts) if self.lower is None else self.lower,
            normalization=self.normalization,
            method=self.subwords,
        )
        if len(tokenizer) <= len(SPECIAL):
            _check.fail(
                f"there must be tokens to learn: in {len(texts)} texts none comes at least {least} times.",
                hint="min_count=1 learns them all" * (least > 1),
            )
        return replace(self, learned=tokenizer, min_count=least)

    def beside(self, target: Source) -> Self:
        """Return the source with the count of the target: words of both sides are rare by the same one."""
        if not isinstance(target, Text) or target.kind != self.kind or self.min_count is not None:
            return self
        return replace(self, min_count=target.min_count)

    def rows(self, example: Example) -> list[int]:
        """Return the ids of the tokens, and END."""
        return [*self.tokenizer.encode(example.content), END]

    def is_short(self, example: Example, longest: int) -> bool:
        """Return whether a text has between 1 and so many tokens."""
        return 0 < len(example) <= longest

    def unknown(self, example: Example) -> tuple[str, ...]:
        """Return the unknown symbols that matter."""
        return tuple(unseen(self.tokenizer, example.content))

    def erasable(self, rows: Sequence[int]) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Return the ids; an erased one becomes the unknown token, or nothing."""
        return np.array(rows, np.int64), {"unknown": UNKNOWN, "deletion": None}

    def names(self, example: Example) -> tuple[str, ...]:
        """Return the tokens, and </s>."""
        return *example.content, SPECIAL[END]

    def reread(self, names: Sequence[str], given: Any) -> Example:
        """Return the text of these tokens, whose last is </s>."""
        return Example(tuple(names[:-1]), self.layout)

    def model_options(self) -> dict[str, Any]:
        """Return the type of the tokens, and how they are read."""
        described = self.tokenizer.describe()
        options = {"source": self.kind, "lower": described["lower"]}
        options["normalization"] = described["normalization"]
        return options | ({"subwords": described["method"]} if "method" in described else {})

    def settings(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the settings and the data of the tokenizer."""
        return self.tokenizer.describe(), self.tokenizer.data()

    def rules(self) -> dict[str, Any]:
        """Return the rules of the tokenizer."""
        return rules(self.tokenizer)

    @classmethod
    def restore(
        cls, settings: Mapping[str, Any], data: Mapping[str, bytes], tokens: int | None = None
    ) -> Self:
        """Make a text source of the tokenizer of a file."""
        return cls.of(restore(settings, data, size=tokens))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """Return the source of texts for a learned tokenizer.

        Parameters
        ----------
        tokenizer : Tokenizer
            Such as ``model.model.target``.

        Returns
        -------
        Text
            The source.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=1).fit(["one", "two"], ["un", "deux"])
        >>> Text.of(model.model.target).read("un deux")
        ('un', 'deux')
        """
        return cls(tokenizer.token_type, normalization=tokenizer.normalization, learned=tokenizer)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and self.settings() == other.settings()

    def __hash__(self) -> int:
        return hash(self.kind)


def _has_one_case(texts: Iterable[Example]) -> bool:
    """Return whether all letters that have a case have the same one: capitals are read as small letters are then."""
    lower = upper = True
    for text in map(str, texts):
        lower = lower and text == text.lower()
        upper = upper and text == text.upper()
        if not (lower or upper):
            return False
    return lower != upper


def _least_count(kind: str, texts: Sequence[Example]) -> int:
    """Return how often a token must come: few rare words of many texts are left out, since they can be copied."""
    if kind != "words" or len(texts) < _MANY_TEXTS:
        return 1
    counts = Counter(chain.from_iterable(text.content for text in texts))
    rare = sum(count for count in counts.values() if count < RARE)
    return RARE if rare <= _MOST_RARE * counts.total() else 1

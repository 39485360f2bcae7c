"""Tokenizers: words, characters, subwords, or the user's own tokens.

A tokenizer splits text into tokens, maps tokens to ids, and joins tokens to text. It is stored as a few settings
(`describe`, for JSON) and its vocabulary (`data`, bytes), from which `restore` creates it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Protocol, Self, TypeVar

from numpy.typing import ArrayLike

from regard import _check
from regard._characters import MARKS, classes, is_mark, lowered
from regard.seq2seq.sources.example import Example
from regard.seq2seq.sources.text.normalization import (
    NORMALIZATIONS,
    Normalization,
    as_normalization,
    is_blank,
    normalize,
    normalize_tokens,
)
from regard.seq2seq.sources.text.subwords import FEWEST, METHODS, Method, Segmenter, learn_pieces, read_scores
from regard.seq2seq.sources.text.vocabulary import JOIN, SPECIAL, UNKNOWN, Vocabulary

__all__ = [
    "TOKEN_TYPES",
    "Characters",
    "Subwords",
    "Tokenizer",
    "Tokens",
    "Words",
    "detokenize",
    "learn",
    "restore",
    "unseen",
    "untrained",
]

Name = TypeVar("Name", bound=str)
Side = str | Sequence[str]  # plain text, or tokens

_STANDS_FOR_JOIN = "\u25a0"
_HOLDER = "\u25cc"  # a dotted circle: Unicode's base for a combining mark that has none

# Tokens as strings of `classes`. A character that joins two letters of a word is part of it.
_KEYCAP = re.compile("d(?=v?k)")
_LETTERS = f"[wyd](?:[wydfb{MARKS}]*[wyd{MARKS}])?"
_WORD = f"[bjz]*{_LETTERS}(?:h{_LETTERS})*(?:q(?=[wyd]))?"
_BASE = "(?:rr?|[opfhqb])"
_SIGN = f"(?:[bjz]*{_BASE}[{MARKS}]*(?:(?<=z){_BASE}[{MARKS}]*)*|[{MARKS}]+)"
# No-break spaces belong to the punctuation next to them, as in French.
TOKEN = re.compile(f"(?P<word>{_WORD})|n?{_SIGN}(?:n(?![{MARKS}]))?|n")

SPACE = "\u2423"  # how a space is shown as a token
_SWAPPED = str.maketrans(f" {SPACE}", f"{SPACE} ")
_BEGIN = "\u2581"  # precedes a word's first piece
_STANDS_FOR_BEGIN = "_"


def tokenize(text: str) -> list[str]:
    """Split text into words and punctuation marks; markers of missing spaces let `detokenize` restore the text.

    Combining marks, joiners and soft hyphens belong to the character before them, and an emoji sequence is one token
    (Unicode Standard Annex 29). Words have hyphens inside, and an elided "l'" is one. No token begins with a combining
    mark: where no letter precedes it, a dotted circle does, until `detokenize`.
    """
    text = text.replace(JOIN, _STANDS_FOR_JOIN)
    # A keycap is a symbol, although it begins with a digit.
    matches = list(TOKEN.finditer(_KEYCAP.sub("o", classes(text))))
    tokens = [_with_base(text[match.start() : match.end()]) for match in matches]
    for i in range(1, len(matches)):
        if matches[i - 1].end() != matches[i].start():
            continue
        if matches[i].lastgroup == "word":  # the punctuation or elided word before it has the marker
            tokens[i - 1] += JOIN
        else:
            tokens[i] = JOIN + tokens[i]
    return tokens


_COPIES: dict[str, str] = {}
_MOST_COPIES = 1 << 17  # tokens


def _one_copy(token: str) -> str:
    """Return the same token: of the frequent ones of many texts, memory has one copy."""
    if len(_COPIES) >= _MOST_COPIES:
        _COPIES.clear()
    return _COPIES.setdefault(token, token)


def _begins_with_mark(text: str) -> bool:
    """Return whether a text begins with a combining mark, after any number of dotted circles."""
    return is_mark(text.lstrip(_HOLDER)[:1])


def _with_base(token: str) -> str:
    return _HOLDER + token if _begins_with_mark(token) else token


def _without_base(token: str) -> str:
    """Undo `_with_base`, where the token may begin with JOIN."""
    if _HOLDER not in token:
        return token
    body = token.lstrip(JOIN)
    has_base = body[0] == _HOLDER and _begins_with_mark(body[1:])
    return token[: len(token) - len(body)] + body[has_base:]


def unmark(token: str) -> str:
    """Return the text of a token of `tokenize`, without markers."""
    return _without_base(token).replace(JOIN, "")


def detokenize(tokens: Iterable[str]) -> str:
    """Join tokens to text: ``detokenize(tokenize(text)) == text`` where text has single spaces between words."""
    line = " ".join(map(_without_base, tokens))
    return line.replace(f" {JOIN}", "").replace(f"{JOIN} ", "").replace(JOIN, "")


class Tokenizer(Protocol):
    """Convert the text of one side to token ids, and tokens to text.

    `token_type`: "words", "characters", "subwords" or "tokens"; `tokens`: the vocabulary; special tokens first;
    `normalization`: unicode normalization of its tokens.
    """

    @property
    def token_type(self) -> str:
        """The type of its tokens."""
        ...

    @property
    def normalization(self) -> Normalization:
        """Unicode normalization of its tokens."""
        ...

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens in the order of their ids."""
        ...

    @property
    def segmentation(self) -> Hashable:
        """A key of the segmentation: tokenizers with equal keys split text alike."""
        ...

    def tokenize(self, text: Side, /) -> list[str]:
        """Split text into tokens."""
        ...

    def detokenize(self, tokens: Iterable[str], /) -> str:
        """Join tokens to text."""
        ...

    def read(self, given: Side | Example, where: str = "") -> Example:
        """Return a text as an example, whose content are its tokens; errors begin with `where`."""
        ...

    def encode(self, tokens: Iterable[str], /) -> list[int]:
        """Return the ids of tokens; UNKNOWN for those outside the vocabulary."""
        ...

    def token_text(self, token: str, /) -> str:
        """Return the text of a token, without markers of spacing."""
        ...

    def copy_token(self, token: str, source: Tokenizer, /) -> str:
        """Convert a token of the source tokenizer to one of this type."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        ...

    def data(self) -> dict[str, bytes]:
        """Return the learned parts, as bytes."""
        ...

    def __len__(self) -> int:
        """Return the size of the vocabulary, special tokens included."""
        ...


class _Base:
    """A vocabulary and a normalization, which all tokenizers have."""

    token_type: ClassVar[str]

    def __init__(self, vocabulary: Vocabulary, *, normalization: Normalization = "NFC") -> None:
        self.vocabulary, self.normalization = vocabulary, as_normalization(normalization)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens in the order of their ids."""
        return self.vocabulary.tokens

    @property
    def lower(self) -> bool:
        """Whether tokens are lowercased before they are looked up."""
        return self.vocabulary.lower

    @property
    def segmentation(self) -> Hashable:
        """A key of the segmentation: tokenizers with equal keys split text alike."""
        return self.token_type, self.normalization

    def tokenize(self, text: Side, /) -> list[str]:
        """Split text into tokens, none if it has no visible character; tokens are only normalized."""
        if isinstance(text, str):
            text = normalize(text, self.normalization)
            return [] if is_blank(text) else self._tokenize(text)
        if not isinstance(text, Sequence):
            rule = f"a text must be a str or a sequence of tokens. Got {type(text).__name__} instead."
            _check.fail(rule, kind=TypeError)
        tokens = self._normalized(text)
        return [] if is_blank(self.detokenize(tokens)) else tokens

    def read(self, given: Side | Example, where: str = "") -> Example:
        """Return a text as an example, itself if it was split alike; errors begin with `where`."""
        if isinstance(given, Example):
            if given.layout == self.segmentation:
                return given
            given = given.name
        with _check.located(where):
            tokens = self.tokenize(given)
        text = given if isinstance(given, str) else self.detokenize(tokens)
        return Example(tuple(map(_one_copy, tokens)), self.segmentation, text)

    def _normalized(self, tokens: Sequence[str]) -> list[str]:
        return normalize_tokens(tokens, self.normalization)

    def _tokenize(self, text: str) -> list[str]:
        raise NotImplementedError

    def detokenize(self, tokens: Iterable[str], /) -> str:
        """Join tokens to text."""
        raise NotImplementedError

    def encode(self, tokens: Iterable[str], /) -> list[int]:
        """Return the ids of tokens; UNKNOWN for those outside the vocabulary."""
        return self.vocabulary.encode(tokens)

    def token_text(self, token: str, /) -> str:
        """Return the text of a token, without markers of spacing."""
        return token

    def copy_token(self, token: str, source: Tokenizer, /) -> str:
        """Convert a token of the source tokenizer to one of this type, to replace an unknown token."""
        return source.token_text(token)

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        return {"kind": self.token_type, "normalization": self.normalization, "lower": self.lower}

    def data(self) -> dict[str, bytes]:
        """Return the tokens in UTF-8, separated by newlines."""
        return {"tokens": "\n".join(self.tokens).encode()}

    def __len__(self) -> int:
        return len(self.vocabulary)


class _Counted(_Base):
    """A tokenizer whose vocabulary are the most frequent tokens."""

    @classmethod
    def learn(
        cls,
        sentences: Iterable[Side | Example],
        *,
        min_count: int = 1,
        lower: bool = False,
        size: int | None = None,
        normalization: Normalization = "NFC",
    ) -> Self:
        """Learn the most frequent tokens: those that occur at least `min_count` times, at most `size` in all."""
        untrained = cls(Vocabulary(SPECIAL), normalization=normalization)
        tokens = (untrained.read(sentence).content for sentence in sentences)
        vocabulary = Vocabulary.learn(tokens, min_count=min_count, lower=lower, size=size)
        return cls(vocabulary, normalization=normalization)

    @classmethod
    def _restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes]) -> Self:
        _check.keys("the settings of a tokenizer", settings, ("kind", "normalization", "lower"))
        _check.keys("the data of a tokenizer", data, ("tokens",))
        normalization = _check.choice("normalization", settings["normalization"], NORMALIZATIONS)
        return cls(
            _vocabulary(data["tokens"], lower=_check.flag("lower", settings["lower"])),
            normalization=normalization,
        )


class Words(_Counted):
    """Words and punctuation, as the function `tokenize` returns them; a marker on a token stands for a missing space.

    `vocabulary`: the known words, and whether they are lowercased; `normalization`: as for `normalize`.
    """

    token_type = "words"

    def _tokenize(self, text: str) -> list[str]:
        return tokenize(text)

    def detokenize(self, tokens: Iterable[str], /) -> str:
        """Join tokens to text."""
        return detokenize(token for token in tokens if token)

    def token_text(self, token: str, /) -> str:
        """Return a token without markers."""
        return unmark(token)

    def copy_token(self, token: str, source: Tokenizer, /) -> str:
        """Return a word with its markers; the text of a token of another type."""
        if source.token_type == self.token_type:
            return token
        return _with_base(source.token_text(token).strip(" ").replace(JOIN, _STANDS_FOR_JOIN))


class Characters(_Counted):
    """Characters, spaces included: a space is written as U+2423, and U+2423 as a space.

    `vocabulary`: the known characters, and whether they are lowercased; `normalization`: as for `normalize`.
    """

    token_type = "characters"

    def _tokenize(self, text: str) -> list[str]:
        return list(text.translate(_SWAPPED))

    def _normalized(self, tokens: Sequence[str]) -> NoReturn:
        _only_text(tokens, self.token_type)

    def detokenize(self, tokens: Iterable[str], /) -> str:
        """Join characters to text."""
        return "".join(tokens).translate(_SWAPPED)

    def token_text(self, token: str, /) -> str:
        """Return the character itself."""
        return token.translate(_SWAPPED)

    def copy_token(self, token: str, source: Tokenizer, /) -> str:
        """Return the text of a token as one token."""
        return source.token_text(token).translate(_SWAPPED)


class Tokens(_Counted):
    """Tokens of the user's, sounds for example, as a list or as text with spaces between them.

    `vocabulary`: the known tokens, and whether they are lowercased; `normalization`: as for `normalize`.
    """

    token_type = "tokens"

    def _tokenize(self, text: str) -> list[str]:
        return [token for token in text.split(" ") if token]

    def detokenize(self, tokens: Iterable[str], /) -> str:
        """Join tokens with spaces."""
        return " ".join(token for token in tokens if token)

    def copy_token(self, token: str, source: Tokenizer, /) -> str:
        """Return the text of a token."""
        return source.token_text(token).strip(" ")


class Subwords(_Base):
    """Subwords: frequent words are one token, rare words several.

    sentencepiece learns the pieces; cutting text into them does not need it.

    `vocabulary`: the pieces; the first piece of a word begins with U+2581; `scores`: for each piece its
    log-probability, or its priority in merging; `method`: the most probable segmentation, or byte-pair encoding:
    merges in the order in which they were learned; `normalization`: as for `normalize`; `lower`: whether text is
    lowercased first.

    Kudo 2018, "Subword Regularization" (unigram); Sennrich, Haddow and Birch 2016, "Neural Machine Translation of
    Rare Words with Subword Units" (bpe).
    """

    token_type = "subwords"

    def __init__(
        self,
        vocabulary: Vocabulary,
        scores: ArrayLike,
        *,
        method: Method = "unigram",
        normalization: Normalization = "NFC",
        lower: bool = False,
    ) -> None:
        super().__init__(vocabulary, normalization=normalization)
        self._segmenter = Segmenter(vocabulary.tokens, scores, method)
        self._lower = lower

    @property
    def lower(self) -> bool:
        """Whether tokens are lowercased before they are looked up."""
        return self._lower

    @property
    def segmentation(self) -> Hashable:
        """The tokenizer itself, since its segmentation is learned."""
        return self

    @classmethod
    def learn(
        cls,
        sentences: Iterable[Side | Example],
        *,
        size: int = 8000,
        method: Method = "unigram",
        lower: bool = False,
        normalization: Normalization = "NFC",
    ) -> Self:
        """Learn at most `size` tokens; fewer where the sentences do not have as many."""
        as_normalization(normalization)
        spaced = (_spaced(_text(sentence, cls.token_type), normalization, lower) for sentence in sentences)
        tokens, scores = learn_pieces(spaced, size=size, method=method)
        return cls(Vocabulary(tokens), scores, method=method, normalization=normalization, lower=lower)

    def _normalized(self, tokens: Sequence[str]) -> NoReturn:
        _only_text(tokens, self.token_type)

    def _tokenize(self, text: str) -> list[str]:
        spaced = _spaced(text, self.normalization, self._lower)
        return [piece for word in spaced.split(" ") if word for piece in self._segmenter(_BEGIN + word)]

    def detokenize(self, tokens: Iterable[str], /) -> str:
        """Join pieces to text."""
        return "".join(tokens).replace(_BEGIN, " ").strip(" ")

    def token_text(self, token: str, /) -> str:
        """Return a piece without the marker of a word's beginning."""
        return token.replace(_BEGIN, "")

    def copy_token(self, token: str, source: Tokenizer, /) -> str:
        """Return the text of a token; the piece before it decides whether a word begins here."""
        return source.token_text(token).strip(" ").replace(_BEGIN, _STANDS_FOR_BEGIN)

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        return {**super().describe(), "method": self._segmenter.method}

    def data(self) -> dict[str, bytes]:
        """Return the pieces in UTF-8, separated by newlines, and their scores, 4 bytes each."""
        return {**super().data(), "scores": self._segmenter.scores.tobytes()}

    @classmethod
    def _restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes]) -> Self:
        _check.keys("the settings of a tokenizer", settings, ("kind", "normalization", "lower", "method"))
        _check.keys("the data of a tokenizer", data, ("tokens", "scores"))
        vocabulary = _vocabulary(data["tokens"], lower=False)
        return cls(
            vocabulary,
            read_scores(data["scores"], len(vocabulary)),
            method=_check.choice("method", settings["method"], METHODS),
            normalization=_check.choice("normalization", settings["normalization"], NORMALIZATIONS),
            lower=_check.flag("lower", settings["lower"]),
        )


_COUNTED: dict[str, type[Words] | type[Characters] | type[Tokens]] = {
    cls.token_type: cls for cls in (Words, Characters, Tokens)
}
TOKEN_TYPES = (*_COUNTED, Subwords.token_type)


class _BeforeSubwords(Words):
    """A tokenizer of words, in place of subwords that have not been learned, which are at least as many."""

    token_type = Subwords.token_type

    def _normalized(self, tokens: Sequence[str]) -> NoReturn:
        _only_text(tokens, self.token_type)


_UNTRAINED = {
    (cls.token_type, form): cls(Vocabulary(SPECIAL), normalization=form)
    for cls in (*_COUNTED.values(), _BeforeSubwords)
    for form in NORMALIZATIONS
}
SMALLEST = dict.fromkeys(_COUNTED, len(SPECIAL) + 1) | {
    Subwords.token_type: FEWEST
}  # vocabulary of each type


def _spaced(text: str, normalization: Normalization, lower: bool) -> str:
    """Return normalized text without the marker of a word's beginning."""
    text = normalize(text, normalization).replace(_BEGIN, _STANDS_FOR_BEGIN)
    return normalize(lowered(text), normalization) if lower else text


def _text(sentence: Side | Example, token_type: str) -> str:
    if isinstance(sentence, Example):
        return sentence.name
    return sentence if isinstance(sentence, str) else _only_text(sentence, token_type)


def _only_text(tokens: object, token_type: str) -> NoReturn:
    _check.fail(f"{token_type} must be made of text, a str. Got {tokens!r:.60} instead.", kind=TypeError)


def learn(
    token_type: str,
    sentences: Iterable[Side | Example],
    *,
    min_count: int = 1,
    size: int | None = None,
    lower: bool = False,
    normalization: Normalization = "NFC",
    method: Method = "unigram",
) -> Tokenizer:
    """Learn a tokenizer from text, sequences of tokens (for words and tokens), or examples of `untrained`.

    `size` includes the special tokens, and is 8,000 by default for subwords; `min_count` is ignored for these.
    """
    if token_type not in TOKEN_TYPES:
        _check.one_of("token_type", token_type, TOKEN_TYPES)
    min_count = _check.integer("min_count", min_count, least=1)
    size = None if size is None else _check.integer("size", size, least=SMALLEST[token_type])
    if token_type == "subwords":
        most = 8000 if size is None else size
        return Subwords.learn(sentences, size=most, method=method, lower=lower, normalization=normalization)
    return _COUNTED[token_type].learn(
        sentences, min_count=min_count, size=size, lower=lower, normalization=normalization
    )


def untrained(token_type: str, normalization: Normalization = "NFC") -> Tokenizer:
    """Return a tokenizer without a vocabulary; in place of subwords, which must be learned, one of words."""
    return _UNTRAINED[token_type, normalization]


def unseen(tokenizer: Tokenizer, tokens: Sequence[str]) -> list[str]:
    """Return the unknown symbols of a sentence's tokens, each once and without markers, where they matter.

    There are few different characters, subwords and tokens of the user's, so that each unknown one matters. Unknown
    words are usual: they matter where no word of a sentence is known.
    """
    known = [number != UNKNOWN for number in tokenizer.encode(tokens)]
    if tokenizer.token_type == Words.token_type and any(
        any(map(str.isalnum, token)) for token, is_known in zip(tokens, known, strict=True) if is_known
    ):
        return []
    unknown = (
        tokenizer.token_text(token) for token, is_known in zip(tokens, known, strict=True) if not is_known
    )
    return list(dict.fromkeys(unknown))


def restore(settings: Mapping[str, Any], data: Mapping[str, bytes], *, size: int | None = None) -> Tokenizer:
    """Create a tokenizer from the results of `describe` and `data`, which may come from an untrusted file.

    The vocabulary must have `size` tokens, if given: it is checked before the bytes are decoded.
    """
    _check.mapping("the settings of a tokenizer", settings)
    token_type = _check.choice("the token type of a tokenizer", settings.get("kind"), TOKEN_TYPES)
    count = data.get("tokens", b"").count(b"\n") + 1
    if size is not None and count != size:
        _check.fail(f"a vocabulary must have {size} tokens. Got {count} instead.")
    return _COUNTED.get(token_type, Subwords)._restore(settings, data)


def _vocabulary(data: bytes, *, lower: bool) -> Vocabulary:
    """Decode a vocabulary: different tokens in UTF-8, none of them empty."""
    try:
        tokens = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        _check.fail(f"a vocabulary must be UTF-8: byte {error.start + 1} is not")
    if "" in tokens:
        _check.fail(f"the tokens of a vocabulary must not be empty: number {tokens.index('')} is")
    return Vocabulary(tokens, lower=lower)

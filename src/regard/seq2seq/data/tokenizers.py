"""How the text of one side becomes numbers: words, characters, subwords, or tokens that someone else has cut.

A side's text is cut into tokens, tokens have numbers, and glued together they are text again. What a kind needs for
that is a few settings (`describe`, for JSON) and its vocabulary (`data`, bytes); `restore` makes it again from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Protocol, Self, TypeVar

from numpy.typing import ArrayLike

from regard import _check
from regard.seq2seq.data.normalization import (
    NORMALIZATIONS,
    Normalization,
    as_normalization,
    is_blank,
    normalize,
    normalize_tokens,
)
from regard.seq2seq.data.subwords import FEWEST, METHODS, Method, Segmenter, learn_pieces, read_scores
from regard.seq2seq.data.vocabulary import SPECIAL, UNKNOWN, Vocabulary, cut, glue, unmarked

__all__ = [
    "KINDS",
    "Characters",
    "Subwords",
    "Tokenizer",
    "Tokens",
    "Words",
    "count_tokens",
    "learn",
    "restore",
    "unseen",
]

Name = TypeVar("Name", bound=str)
Side = str | Sequence[str]  # plain text, or tokens

SPACE = "\u2423"  # how a space is shown as a token
_SWAPPED = str.maketrans(f" {SPACE}", f"{SPACE} ")
_BEGIN = "\u2581"  # stands before a word's first piece
_STANDS_FOR_BEGIN = "_"


class Tokenizer(Protocol):
    """How the text of one side becomes numbers and text again.

    Attributes
    ----------
    kind : str
        "words", "characters", "subwords" or "tokens".
    tokens : tuple of str
        The vocabulary; the special ones come first.
    normalization : {"NFC", "NFKC", "none"}
        The form of Unicode text that it reads and writes.
    """

    @property
    def kind(self) -> str:
        """The kind's name."""
        ...

    @property
    def normalization(self) -> Normalization:
        """The form of its letters."""
        ...

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens in the order of their numbers."""
        ...

    def cut(self, text: Side, /) -> list[str]:
        """Cut text into tokens."""
        ...

    def glue(self, tokens: Iterable[str], /) -> str:
        """Put tokens together to text."""
        ...

    def encode(self, tokens: Iterable[str], /) -> list[int]:
        """Number tokens, with UNKNOWN for those that are not known."""
        ...

    def plain(self, token: str, /) -> str:
        """Say what a token says, without the marks of its kind."""
        ...

    def borrow(self, token: str, source: Tokenizer, /) -> str:
        """Make a token of this kind of one of the other side."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        ...

    def data(self) -> dict[str, bytes]:
        """Return what was learned."""
        ...

    def __len__(self) -> int:
        """Count the tokens, special ones too."""
        ...


class _Side:
    """What all kinds share: a vocabulary, and how letters are normalised."""

    kind: ClassVar[str]

    def __init__(self, vocabulary: Vocabulary, *, normalization: Normalization = "NFC") -> None:
        self.vocabulary, self.normalization = vocabulary, as_normalization(normalization)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens in the order of their numbers."""
        return self.vocabulary.tokens

    @property
    def lower(self) -> bool:
        """Whether capitals are the same as small letters."""
        return self.vocabulary.lower

    def cut(self, text: Side, /) -> list[str]:
        """Cut text into tokens, none if nothing of it is visible; a list of tokens is taken as it is."""
        if isinstance(text, str):
            text = normalize(text, self.normalization)
            return [] if is_blank(text) else self._cut(text)
        tokens = self._given(text)
        return [] if is_blank(self.glue(tokens)) else tokens

    def _given(self, tokens: Sequence[str]) -> list[str]:
        return normalize_tokens(tokens, self.normalization)

    def _cut(self, text: str) -> list[str]:
        raise NotImplementedError

    def glue(self, tokens: Iterable[str], /) -> str:
        """Put tokens together to text."""
        raise NotImplementedError

    def encode(self, tokens: Iterable[str], /) -> list[int]:
        """Number tokens, with UNKNOWN for those that are not known."""
        return self.vocabulary.encode(tokens)

    def plain(self, token: str, /) -> str:
        """Say what a token says, without the marks of its kind."""
        return token

    def borrow(self, token: str, source: Tokenizer, /) -> str:
        """Make a token of this kind of one of the other side, to stand in an unknown one's place."""
        return source.plain(token)

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        return {"kind": self.kind, "normalization": self.normalization, "lower": self.lower}

    def data(self) -> dict[str, bytes]:
        """Return what was learned: the tokens in UTF-8, a newline between them."""
        return {"tokens": "\n".join(self.tokens).encode()}

    def __len__(self) -> int:
        return len(self.vocabulary)


class _Counted(_Side):
    """What the kinds share that know what comes often."""

    @classmethod
    def learn(
        cls,
        sentences: Iterable[Side],
        *,
        min_count: int = 1,
        lower: bool = False,
        size: int | None = None,
        normalization: Normalization = "NFC",
    ) -> Self:
        """Learn the tokens that come at least `min_count` times, the most frequent ones, `size` in all at most."""
        cutter = cls(Vocabulary.learn([]), normalization=normalization)
        vocabulary = Vocabulary.learn(map(cutter.cut, sentences), min_count=min_count, lower=lower, size=size)
        return cls(vocabulary, normalization=normalization)

    @classmethod
    def _restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes]) -> Self:
        _agree("settings", settings, ("kind", "normalization", "lower"))
        _agree("data", data, ("tokens",))
        normalization = _known("normalization", settings["normalization"], NORMALIZATIONS)
        return cls(
            _vocabulary(data["tokens"], lower=_flag("lower", settings["lower"])), normalization=normalization
        )


class Words(_Counted):
    """Words and signs, as `cut` finds them; spaces between them are told by marks on the signs.

    Parameters
    ----------
    vocabulary : Vocabulary
        The words that are known; it says whether capitals matter.
    normalization : {"NFC", "NFKC", "none"}
        As for `normalize`.

    Examples
    --------
    >>> words = Words.learn(["The cat sat.", "The mat."], lower=True)
    >>> words.tokens[4:6]
    ('the', '\uffed.')
    >>> words.encode(words.cut("The dog."))
    [4, 3, 5]
    >>> words.glue(words.cut("The dog."))
    'The dog.'
    """

    kind = "words"

    def _cut(self, text: str) -> list[str]:
        return cut(text)

    def glue(self, tokens: Iterable[str], /) -> str:
        """Put tokens together to text."""
        return glue(token for token in tokens if token)

    def plain(self, token: str, /) -> str:
        """Return a token without the mark that says where it touches its neighbour."""
        return unmarked(token)

    def borrow(self, token: str, source: Tokenizer, /) -> str:
        """Take a word as it is, with its marks; of another kind, what it says."""
        return token if source.kind == self.kind else source.plain(token).strip(" ")


class Characters(_Counted):
    """Every character a token, a space too: it is shown as U+2423, and that sign, where a text has it, as a space.

    Parameters
    ----------
    vocabulary : Vocabulary
        The characters that are known; it says whether capitals matter.
    normalization : {"NFC", "NFKC", "none"}
        As for `normalize`.

    Examples
    --------
    >>> characters = Characters.learn(["to be"])
    >>> characters.cut("to b")
    ['t', 'o', '\u2423', 'b']
    >>> characters.glue(["t", "o", "\u2423", "b"])
    'to b'
    """

    kind = "characters"

    def _cut(self, text: str) -> list[str]:
        return list(text.translate(_SWAPPED))

    def _given(self, tokens: Sequence[str]) -> NoReturn:
        _only_text(tokens, self.kind)

    def glue(self, tokens: Iterable[str], /) -> str:
        """Put characters together to text."""
        return "".join(tokens).translate(_SWAPPED)

    def plain(self, token: str, /) -> str:
        """Return the character itself."""
        return token.translate(_SWAPPED)

    def borrow(self, token: str, source: Tokenizer, /) -> str:
        """Take what the other side's token says, as one token."""
        return source.plain(token).translate(_SWAPPED)


class Tokens(_Counted):
    """Tokens that someone else has cut, phonemes for example: a list, or a text with spaces between them.

    Parameters
    ----------
    vocabulary : Vocabulary
        The tokens that are known; it says whether capitals matter.
    normalization : {"NFC", "NFKC", "none"}
        As for `normalize`.

    Examples
    --------
    >>> phonemes = Tokens.learn(["R IY1 D", ["R", "EH1", "D"]])
    >>> phonemes.tokens[4:]
    ('D', 'R', 'EH1', 'IY1')
    >>> phonemes.encode(phonemes.cut("D EH1 R X"))
    [4, 6, 5, 3]
    """

    kind = "tokens"

    def _cut(self, text: str) -> list[str]:
        return [token for token in text.split(" ") if token]

    def glue(self, tokens: Iterable[str], /) -> str:
        """Put tokens together with spaces."""
        return " ".join(token for token in tokens if token)

    def borrow(self, token: str, source: Tokenizer, /) -> str:
        """Take what the other side's token says."""
        return source.plain(token).strip(" ")


class Subwords(_Side):
    """Frequent words whole and rare ones in pieces, so that few tokens say everything.

    The pieces are learned by sentencepiece. To cut with them needs nothing but this package.

    Parameters
    ----------
    vocabulary : Vocabulary
        The pieces; a word's first one begins with U+2581.
    scores : sequence of float
        One for each piece: the logarithm of its probability, or what comes first when pieces are merged.
    method : {"unigram", "bpe"}
        How they are used: the most probable pieces, or pairs merged in the order they were learned in.
    normalization : {"NFC", "NFKC", "none"}
        As for `normalize`.
    lower : bool
        Whether capitals are the same as small letters.

    References
    ----------
    Kudo 2018, "Subword Regularization" (unigram); Sennrich, Haddow and Birch 2016, "Neural Machine Translation of Rare
    Words with Subword Units" (bpe).

    Examples
    --------
    >>> pieces = ["\u2581", "l", "o", "w", "e", "r", "\u2581l", "\u2581lo", "\u2581low", "er"]
    >>> vocabulary = Vocabulary(["<pad>", "<s>", "</s>", "<unk>", *pieces])
    >>> subwords = Subwords(vocabulary, [-float(i) for i in range(14)], method="bpe")
    >>> subwords.cut("low lower")
    ['\u2581low', '\u2581low', 'er']
    >>> subwords.glue(['\u2581low', '\u2581low', 'er'])
    'low lower'
    """

    kind = "subwords"

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
        """Whether capitals are the same as small letters."""
        return self._lower

    @classmethod
    def learn(
        cls,
        sentences: Iterable[Side],
        *,
        size: int = 8000,
        method: Method = "unigram",
        lower: bool = False,
        normalization: Normalization = "NFC",
    ) -> Self:
        """Learn `size` tokens at most, as many as the sentences allow."""
        as_normalization(normalization)
        spaced = (_spaced(_text(text, cls.kind), normalization, lower) for text in sentences)
        tokens, scores = learn_pieces(spaced, size=size, method=method)
        return cls(Vocabulary(tokens), scores, method=method, normalization=normalization, lower=lower)

    def _given(self, tokens: Sequence[str]) -> NoReturn:
        _only_text(tokens, self.kind)

    def _cut(self, text: str) -> list[str]:
        spaced = _spaced(text, self.normalization, self._lower)
        return [piece for word in spaced.split(" ") if word for piece in self._segmenter(_BEGIN + word)]

    def glue(self, tokens: Iterable[str], /) -> str:
        """Put pieces together to text."""
        return "".join(tokens).replace(_BEGIN, " ").strip(" ")

    def plain(self, token: str, /) -> str:
        """Return a piece without the mark of a word's beginning."""
        return token.replace(_BEGIN, "")

    def borrow(self, token: str, source: Tokenizer, /) -> str:
        """Take what the other side's token says; whether a word begins here, the piece before it has said."""
        return source.plain(token).strip(" ").replace(_BEGIN, _STANDS_FOR_BEGIN)

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        return {**super().describe(), "method": self._segmenter.method}

    def data(self) -> dict[str, bytes]:
        """Return what was learned: the pieces in UTF-8, a newline between them, and scores in 4 bytes each."""
        return {**super().data(), "scores": self._segmenter.scores.tobytes()}

    @classmethod
    def _restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes]) -> Self:
        _agree("settings", settings, ("kind", "normalization", "lower", "method"))
        _agree("data", data, ("tokens", "scores"))
        vocabulary = _vocabulary(data["tokens"], lower=False)
        return cls(
            vocabulary,
            read_scores(data["scores"], len(vocabulary)),
            method=_known("method", settings["method"], METHODS),
            normalization=_known("normalization", settings["normalization"], NORMALIZATIONS),
            lower=_flag("lower", settings["lower"]),
        )


_COUNTED: dict[str, type[Words] | type[Characters] | type[Tokens]] = {
    cls.kind: cls for cls in (Words, Characters, Tokens)
}
KINDS = (*_COUNTED, Subwords.kind)
SMALLEST = dict.fromkeys(_COUNTED, len(SPECIAL) + 1) | {Subwords.kind: FEWEST}  # vocabulary of each kind


def _spaced(text: str, normalization: Normalization, lower: bool) -> str:
    """Return tidy text in which the mark of a word's beginning is not taken."""
    text = normalize(text, normalization).replace(_BEGIN, _STANDS_FOR_BEGIN)
    return normalize(text.lower(), normalization) if lower else text


def _text(text: Side, kind: str) -> str:
    return text if isinstance(text, str) else _only_text(text, kind)


def _only_text(tokens: object, kind: str) -> NoReturn:
    raise TypeError(f"{kind} must be cut from text, a str. Got {tokens!r:.60} instead.")


def learn(
    kind: str,
    sentences: Iterable[Side],
    *,
    min_count: int = 1,
    size: int | None = None,
    lower: bool = False,
    normalization: Normalization = "NFC",
    method: Method = "unigram",
) -> Tokenizer:
    """Learn how the text of one side becomes numbers.

    Parameters
    ----------
    kind : {"words", "characters", "subwords", "tokens"}
        What a token is.
    sentences : iterable of str or of sequences of str
        Of this side; sequences for words and tokens only.
    min_count : int
        How often a token must come to be known; subwords choose theirs by `size` alone.
    size : int, optional
        How many tokens at most, the four special ones among them; for subwords by default 8,000.
    lower : bool
        Whether capitals are the same as small letters.
    normalization : {"NFC", "NFKC", "none"}
        As for `normalize`.
    method : {"unigram", "bpe"}
        How subwords are found.

    Returns
    -------
    Tokenizer
        Ready to cut, number and glue.

    Raises
    ------
    ValueError, TypeError
        If an argument is not what it should be.
    ImportError
        If sentencepiece is needed and not installed.

    Examples
    --------
    >>> learn("characters", ["abba"], size=5).tokens
    ('<pad>', '<s>', '</s>', '<unk>', 'a')
    """
    if kind not in KINDS:
        _check.one_of("kind", kind, KINDS)
    min_count = _check.whole("min_count", min_count, least=1)
    size = None if size is None else _check.whole("size", size, least=SMALLEST[kind])
    if kind == "subwords":
        most = 8000 if size is None else size
        return Subwords.learn(sentences, size=most, method=method, lower=lower, normalization=normalization)
    return _COUNTED[kind].learn(
        sentences, min_count=min_count, size=size, lower=lower, normalization=normalization
    )


def count_tokens(kind: str, side: Side, normalization: Normalization = "NFC") -> int:
    """Count the tokens of one side before anything is learned.

    Parameters
    ----------
    kind : {"words", "characters", "subwords", "tokens"}
        What a token is; of subwords nobody knows yet, so words are counted, which are no more.
    side : str or sequence of str
        As for `learn`.
    normalization : {"NFC", "NFKC", "none"}
        As for `normalize`.

    Returns
    -------
    int
        How many there are.

    Examples
    --------
    >>> [count_tokens(kind, "the cat") for kind in KINDS]
    [2, 7, 2, 2]
    """
    cutter = _COUNTED.get(kind, Words)
    return len(cutter(Vocabulary.learn([]), normalization=normalization).cut(side))


def unseen(text: Tokenizer, tokens: Sequence[str]) -> list[str]:
    """Return the symbols of a text that a side has never seen, where they matter.

    Characters, subwords and tokens of others are few, so that each unknown one matters. Unknown words are usual, and
    other words tell what a sentence is about: they matter where no word of a text is known.

    Parameters
    ----------
    text : Tokenizer
        The side.
    tokens : sequence of str
        What it cut the text into.

    Returns
    -------
    list of str
        The different ones, without the marks of their kind, in the order of the text.

    Examples
    --------
    >>> letters, words = learn("characters", ["read"]), learn("words", ["read this ."])
    >>> unseen(letters, letters.cut("Read#")), unseen(words, words.cut("read on")), unseen(words, words.cut("on ."))
    (['R', '#'], [], ['on'])
    """
    known = [number != UNKNOWN for number in text.encode(tokens)]
    if text.kind == Words.kind and any(
        any(map(str.isalnum, token)) for token, is_known in zip(tokens, known, strict=True) if is_known
    ):
        return []
    unknown = (text.plain(token) for token, is_known in zip(tokens, known, strict=True) if not is_known)
    return list(dict.fromkeys(unknown))


def restore(settings: Mapping[str, Any], data: Mapping[str, bytes], *, size: int | None = None) -> Tokenizer:
    """Make again what `describe` and `data` told, whoever wrote it down.

    Parameters
    ----------
    settings : mapping
        As `describe` returns them.
    data : mapping of str to bytes
        As `data` returns it.
    size : int, optional
        How many tokens there must be: checked before anything is made of the bytes.

    Returns
    -------
    Tokenizer
        The same as it was.

    Raises
    ------
    ValueError
        If they are not what a kind needs; nothing is read beyond the bytes given.

    Examples
    --------
    >>> words = Words.learn(["a b"])
    >>> restore(words.describe(), words.data()).tokens
    ('<pad>', '<s>', '</s>', '<unk>', 'a', 'b')
    """
    if not isinstance(settings, Mapping):
        _wrong("the settings of a text must be a mapping", settings)
    kind = _known("the kind of a text", settings.get("kind"), KINDS)
    count = data.get("tokens", b"").count(b"\n") + 1
    if size is not None and count != size:
        raise ValueError(f"a vocabulary must have {size} tokens. Got {count} instead.")
    return _COUNTED.get(kind, Subwords)._restore(settings, data)


def _agree(what: str, given: Mapping[str, Any], wanted: Sequence[str]) -> None:
    if set(given) != set(wanted):
        _wrong(f"the {what} of a text must be {', '.join(wanted)}", ", ".join(map(str, given)))


def _known(name: str, value: object, choices: Sequence[Name]) -> Name:
    for choice in choices:
        if value == choice:
            return choice
    _wrong(f"{name} must be one of {', '.join(choices)}", value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        _wrong(f"{name} must be true or false", value)
    return value


def _wrong(rule: str, value: object) -> NoReturn:
    raise ValueError(f"{rule}. Got {value!r:.60} instead.")


def _vocabulary(data: bytes, *, lower: bool) -> Vocabulary:
    """Read a vocabulary: different tokens in UTF-8, none of them empty."""
    try:
        tokens = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"a vocabulary must be UTF-8: byte {error.start + 1} is not") from None
    if "" in tokens:
        raise ValueError(f"the tokens of a vocabulary must not be empty: number {tokens.index('')} is")
    return Vocabulary(tokens, lower=lower)

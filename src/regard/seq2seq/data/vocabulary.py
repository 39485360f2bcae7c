"""Cutting text into tokens and back, and numbering tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from regard._characters import MARKS, classes, is_mark

__all__ = ["Vocabulary", "cut", "glue", "unmarked"]

JOIN = "\uffed"  # marks the side on which a token touches its neighbour
STANDS_FOR_JOIN = "\u25a0"
HOLDER = "\u25cc"  # a dotted circle: Unicode's base for a mark that has none

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")

# Tokens, over the letters of `classes`. What joins two letters of a word is part of it.
_KEYCAP = re.compile("d(?=v?k)")
_LETTERS = f"[wyd](?:[wydfb{MARKS}]*[wyd{MARKS}])?"
_WORD = f"[bjz]*{_LETTERS}(?:h{_LETTERS})*(?:q(?=[wyd]))?"
_BASE = "(?:rr?|[opfhqb])"
_SIGN = f"(?:[bjz]*{_BASE}[{MARKS}]*(?:(?<=z){_BASE}[{MARKS}]*)*|[{MARKS}]+)"
# No-break spaces belong to the sign beside them, as in French.
_TOKEN = re.compile(f"(?P<word>{_WORD})|n?{_SIGN}(?:n(?![{MARKS}]))?|n")


def cut(text: str) -> list[str]:
    """Cut text into words and signs; a mark on a sign remembers where it touched a word, so that `glue` can undo it.

    Combining marks, joiners and soft hyphens belong to the character before them, and an emoji sequence is one sign. No
    token begins with a combining mark: one without a letter before it stands on a dotted circle, which `glue` removes.

    Parameters
    ----------
    text : str
        One line.

    Returns
    -------
    list of str
        Words (hyphens inside; an elided "l'" on its own) and single signs.

    References
    ----------
    Unicode Standard Annex 29, "Unicode Text Segmentation".

    Examples
    --------
    >>> [token.replace(JOIN, "|") for token in cut("Cliquez sur l'icône (deux fois).")]
    ['Cliquez', 'sur', "l'|", 'icône', '(|', 'deux', 'fois', '|)', '|.']
    >>> cut("एक सुंदर घर")
    ['एक', 'सुंदर', 'घर']
    """
    text = text.replace(JOIN, STANDS_FOR_JOIN)
    kinds = _KEYCAP.sub("o", classes(text))  # a keycap is a sign, although it begins with a digit
    found = list(_TOKEN.finditer(kinds))
    tokens = [_held(text[match.start() : match.end()]) for match in found]
    for i in range(1, len(found)):
        if found[i - 1].end() != found[i].start():
            continue
        if found[i].lastgroup == "word":  # the sign or elided word before it carries the mark
            tokens[i - 1] += JOIN
        else:
            tokens[i] = JOIN + tokens[i]
    return tokens


def _is_held(text: str) -> bool:
    """Say whether a text begins with a combining mark, behind any number of dotted circles."""
    return is_mark(text.lstrip(HOLDER)[:1])


def _held(token: str) -> str:
    return HOLDER + token if _is_held(token) else token


def _released(token: str) -> str:
    """Undo `_held`, where the token may begin with JOIN."""
    if HOLDER not in token:
        return token
    body = token.lstrip(JOIN)
    held = body[0] == HOLDER and _is_held(body[1:])
    return token[: len(token) - len(body)] + body[held:]


def unmarked(token: str) -> str:
    """Return what a token of `cut` stands for in a text.

    Parameters
    ----------
    token : str
        As `cut` makes it.

    Returns
    -------
    str
        The token without what only `glue` needs.

    Examples
    --------
    >>> unmarked("l'" + JOIN)
    "l'"
    """
    return _released(token).replace(JOIN, "")


def glue(tokens: Iterable[str]) -> str:
    """Put tokens together again: ``glue(cut(text)) == text`` where text has single spaces between words.

    Parameters
    ----------
    tokens : iterable of str
        As `cut` makes them, or a model.

    Returns
    -------
    str
        One line.

    Examples
    --------
    >>> glue(cut("Cliquez sur l'icône (deux fois)."))
    "Cliquez sur l'icône (deux fois)."
    """
    line = " ".join(map(_released, tokens))
    return line.replace(f" {JOIN}", "").replace(f"{JOIN} ", "").replace(JOIN, "")


class Vocabulary:
    """The tokens that a model knows, with their numbers.

    Parameters
    ----------
    tokens : sequence of str
        All tokens, beginning with the four special ones: padding, start, end, unknown.
    lower : bool
        Whether capitals are the same as small letters.

    Raises
    ------
    ValueError
        If the special ones are missing or a token comes twice.

    Examples
    --------
    >>> vocabulary = Vocabulary.learn([["the", "cat"], ["the", "mat"]], min_count=2)
    >>> vocabulary.tokens
    ('<pad>', '<s>', '</s>', '<unk>', 'the')
    >>> vocabulary.encode(["the", "dog"])
    [4, 3]
    """

    def __init__(self, tokens: Sequence[str], *, lower: bool = False) -> None:
        self.tokens, self.lower = tuple(tokens), lower
        self._numbers = {token: i for i, token in enumerate(self.tokens)}
        if self.tokens[: len(SPECIAL)] != SPECIAL:
            raise ValueError(f"a vocabulary must begin with {', '.join(SPECIAL)}")
        if len(self._numbers) != len(self.tokens):
            twice = next(token for token, count in Counter(self.tokens).items() if count > 1)
            raise ValueError(f"the tokens of a vocabulary must differ: {twice!r:.60} comes twice")
        for special in SPECIAL:  # a text that says "</s>" must not end a sentence
            self._numbers[special] = UNKNOWN

    @classmethod
    def learn(
        cls,
        sentences: Iterable[Iterable[str]],
        *,
        min_count: int = 1,
        lower: bool = False,
        size: int | None = None,
    ) -> Vocabulary:
        """Number the tokens that occur at least `min_count` times, by falling frequency, `size` in all at most."""
        counts = Counter(token.lower() if lower else token for sentence in sentences for token in sentence)
        frequent = sorted((-count, token) for token, count in counts.items() if count >= min_count)
        tokens = [*SPECIAL, *(token for _, token in frequent if token not in SPECIAL)]
        return cls(tokens if size is None else tokens[: max(size, len(SPECIAL))], lower=lower)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the numbers of tokens, UNKNOWN for those that are not known."""
        return [self._numbers.get(token.lower() if self.lower else token, UNKNOWN) for token in tokens]

    def __len__(self) -> int:
        return len(self.tokens)

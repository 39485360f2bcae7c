"""Rules of text, from model.json: from a text to ids, and from tokens to a text, by the standard library alone."""

import re
import unicodedata
from itertools import groupby, pairwise
from typing import Any

START, END, UNKNOWN = 1, 2, 3  # ids; 0 is padding
JOIN = "\uffed"  # in words: no space on this side
BEGIN = "\u2581"  # in subwords: a word begins
SWAPPED = str.maketrans(" \u2423", "\u2423 ")  # in characters: how a space is written
APOSTROPHES = str.maketrans("'\u2019", "\u2019'")  # where one of them is known, it stands for the other
NEVER = float("-inf")  # the score of what is no piece
CONTROL = re.compile("[\1-\x1f\x7f-\x9f\u2028\u2029]")


def lowered(text: str) -> str:
    """Return a text in lower case, in which the dotted capital of Turkish is one letter."""
    return text.replace("İ", "i").lower()


def repetitions(ids: list[int]) -> int:
    """Return how often a group of known ids comes in a row, at most."""
    most = 1
    for size in range(1, len(ids) // 2 + 1):
        run = 0
        for token, later in zip(ids, ids[size:], strict=False):
            run = run + 1 if token == later != UNKNOWN else 0
            most = max(most, run // size + 1)
    return most


def blocked(ids: list[int], most: int | None, copies: int = 0) -> list[int]:
    """Return the ids that must not follow: with a limit, those of a group that would come more often in a row."""
    found = [0, START] if ids.count(UNKNOWN) < copies else [0, START, UNKNOWN]
    if most is None:
        return found
    found += [END] * (not ids)  # an output has a token
    for size in range(1, (len(ids) + 1) // (most + 1) + 1):
        tail = ids[len(ids) + 1 - (most + 1) * size :]
        if tail[size:] == tail[:-size] and UNKNOWN not in tail:
            found.append(ids[-size])
    return found


class TextRules:
    """The rules of one side: "characters", "tokens" between spaces, "words", or "subwords"."""

    def __init__(self, rules: Any) -> None:
        self.rules, self.kind, self.tokens = rules, rules["kind"], rules["tokens"]
        self.ids = {token: number for number, token in enumerate(self.tokens) if number > UNKNOWN}
        self.scores = dict(list(zip(self.tokens, rules.get("scores", ()), strict=False))[UNKNOWN + 1 :])
        self.longest = max(map(len, self.scores), default=1)

    def encode(self, tokens: list[str]) -> list[int]:
        """Return the ids of tokens."""
        texts = map(lowered, tokens) if self.rules["lower"] and self.kind != "subwords" else tokens
        return [self.ids.get(text, self.ids.get(text.translate(APOSTROPHES), UNKNOWN)) for text in texts]

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into tokens."""
        text = self._normalized(CONTROL.sub(" ", text).replace("\ufeff", ""))
        if not text.strip():
            return []
        if self.kind == "characters":
            return list(text.translate(SWAPPED))
        if self.kind == "tokens":
            return [token for token in text.split(" ") if token]
        if self.kind == "words":
            return self._words(text.replace(JOIN, "\u25a0"))
        text = self._normalized(lowered(text)) if self.rules["lower"] else text
        words = filter(None, text.replace(BEGIN, "_").split(" "))
        return [piece for word in words for piece in self._subwords(BEGIN + word)]

    def detokenize(self, tokens: list[str]) -> str:
        """Join tokens to a text."""
        if self.kind == "characters":
            return "".join(tokens).translate(SWAPPED)
        if self.kind == "subwords":
            return "".join(tokens).replace(BEGIN, " ").strip(" ")
        line = " ".join(token for token in tokens if token)
        if self.kind == "tokens":
            return line
        return line.replace(f" {JOIN}", "").replace(f"{JOIN} ", "").replace(JOIN, "")

    def token_text(self, token: str) -> str:
        """Return a token without marks of spaces."""
        return token.replace(BEGIN, "") if self.kind == "subwords" else self.detokenize([token])

    def copy_token(self, token: str, source: "TextRules") -> str:
        """Return a token of the source as a token of this side."""
        return token if self.kind == source.kind != "subwords" else source.token_text(token).strip(" ")

    def _normalized(self, text: str) -> str:
        form = self.rules["normalization"]
        return text if form == "none" else unicodedata.normalize(form, text)

    def _words(self, text: str) -> list[str]:
        tokens, end = list[str](), -1
        for found in re.finditer(self.rules["pattern"], text):
            touches, end = found.start() == end, found.end()
            if touches and found["word"]:
                tokens[-1] += JOIN
            tokens.append(JOIN * (touches and not found["word"]) + found[0])
        return tokens

    def _subwords(self, word: str) -> list[str]:
        pieces = self._merged(word) if self.rules["method"] == "bpe" else self._likeliest(word)
        groups = groupby(pieces, self.scores.__contains__)
        return [piece for known, group in groups for piece in (group if known else ["".join(group)])]

    def _merged(self, word: str) -> list[str]:
        """Merge the pair of the highest score, the first of equals, until no pair is a piece."""
        pieces, scores = list(word), [self.scores.get(a + b, NEVER) for a, b in pairwise(word)]
        while (most := max(scores, default=NEVER)) > NEVER:
            i = scores.index(most)
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
            near = slice(max(i - 1, 0), i + 2)
            scores[near] = [self.scores.get(a + b, NEVER) for a, b in pairwise(pieces[near])]
        return pieces

    def _likeliest(self, word: str) -> list[str]:
        """Choose the segmentation with the largest sum of scores."""
        unknown, best = min(self.scores.values()) - 10, [(0.0, 0)]  # the sum, and the size of the last piece
        for end in range(1, len(word) + 1):
            lasts = (word[start:end] for start in range(max(0, end - self.longest), end))
            scored = ((self.scores.get(last, NEVER if last[1:] else unknown), len(last)) for last in lasts)
            best.append(max((best[end - size][0] + score, size) for score, size in scored))
        pieces = list[str]()
        while word:
            pieces.append(word[-best[len(word)][1] :])
            word = word[: -len(pieces[-1])]
        return pieces[::-1]

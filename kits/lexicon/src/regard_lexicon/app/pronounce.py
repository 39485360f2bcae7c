"""Pronounce the words of texts: known words as they are listed, others by the model. Lines of standard input, too."""

import math
import re
import sys
import unicodedata
from collections import namedtuple
from itertools import chain
from pathlib import Path
from typing import Any

from decode import Decoder
from text import UNKNOWN, lowered

# phones: between blanks; source: dictionary, model, guess (letters are unknown), skipped; probability: that phones are
# right, None of a guess; unknown: the letters; variants: all that are listed, the most probable first.
Answer = namedtuple("Answer", "word phones source probability unknown variants")
MOST = 1000  # letters
CASES: Any = {"": str, "lower": lowered, "upper": str.upper}


class TextPronouncer:
    """The model and the dictionary of a folder of ``regard export``."""

    def __init__(self, folder: str | Path, unknown: str = "guess") -> None:
        """`unknown`: whether a word with letters that the model has never seen is a "guess", or left out ("skip")."""
        self.decoder, self.guesses = Decoder(folder), unknown == "guess"
        self.rules = self.decoder.rules["pronouncer"]
        self.decoder.repetitions, self.decoder.copies = self.rules["repetitions"], False
        self.calibration = self.decoder.rules.get("calibration")
        self.word_signs, self.letter_signs = (
            str.maketrans(self.rules[f"{of}_signs"]) for of in ("word", "letter")
        )
        self.cut, self.lexicon = re.compile(self.rules["word"]), WordList(Path(folder, "lexicon.txt"))

    def __call__(self, text: str) -> list[Answer]:
        """Return the answer of each word of a text."""
        return [self.word(word) for word in self.cut.findall(text)]

    def word(self, word: str) -> Answer:
        """Return the answer of a word, or of a phrase that is listed as one."""
        word = word if len(word) > MOST else unicodedata.normalize("NFC", word)
        if variants := self.listed(word):
            phones, probability = variants[0]
            return Answer(word, phones, "dictionary", probability, (), tuple(text for text, _ in variants))
        tokens, letters, unknown = self.read(word)
        if self.may_guess(word, letters, unknown):
            found, _ = self.decoder.hypotheses(
                [*self.decoder.source.encode(tokens), *self.decoder.ends], 5, 5
            )
            phones = " ".join(self.decoder.target.tokens[i] for i in found[0][1][1:-1])
            if phones and unknown:
                return Answer(word, phones, "guess", None, unknown, ())
            if phones:
                return Answer(word, phones, "model", self.probability(found), (), ())
        return Answer(word, "", "skipped", None, unknown, ())

    def listed(self, word: str) -> list[tuple[str, float | None]]:
        """Return the variants of the dictionary: of the word, with the signs there, or in another case."""
        other, case = word.translate(self.word_signs), CASES[self.rules["word_case"]]
        texts = [word, other, *(unicodedata.normalize("NFC", case(text)) for text in (word, other))]
        return next(filter(None, map(self.lexicon.variants, texts)), []) if len(word) <= MOST else []

    def read(self, word: str) -> tuple[list[str], list[str], tuple[str, ...]]:
        """Return tokens, letters and unknown letters of the case and form in which the fewest letters are unknown."""
        start, case = word[: MOST + 1].translate(self.letter_signs), CASES[self.rules["letter_case"]]
        texts = case(start), "".join(map(case, start))  # the small letter of a sigma depends on its place
        forms = [unicodedata.normalize(form, text) for text in texts for form in ("NFC", "NFD")]
        return min(map(self.tokens, forms), key=lambda read: len(read[2]))

    def tokens(self, text: str) -> tuple[list[str], list[str], tuple[str, ...]]:
        """Return tokens, letters and unknown letters of a text."""
        source = self.decoder.source
        tokens = source.tokenize(text)
        letters = [[*source.token_text(token)] for token in tokens]
        unknown = [part for part, i in zip(letters, source.encode(tokens), strict=True) if i == UNKNOWN]
        return tokens, [*chain.from_iterable(letters)], tuple(dict.fromkeys(chain.from_iterable(unknown)))

    def may_guess(self, word: str, letters: list[str], unknown: tuple[str, ...]) -> bool:
        """Return whether the model pronounces a word: one with a known letter."""
        short = 0 < len(letters) <= MOST and len(word) <= MOST
        return short and (not unknown or (self.guesses and not {*letters} <= {*unknown}))

    def probability(self, found: list[Any]) -> float | None:
        """Return the probability that the best hypothesis is right, by Platt scaling; None without calibration."""
        if not self.calibration:
            return None
        length, best = len(found[0][1]) - 1, found[0][0]
        rest = sum(math.exp(length * (score - best)) for score, *_ in found[1:])
        mass = sum(math.exp(score * (len(ids) - 1)) for score, ids, _ in found)
        slopes = self.calibration["share_slope"], self.calibration["mass_slope"]
        odds = slopes[0] * log_ratio(1, rest) + slopes[1] * log_ratio(mass, 1 - mass)
        return 1 / (1 + math.exp(-max(min(self.calibration["intercept"] + odds, 30), -30)))


def log_ratio(first: float, second: float) -> float:
    """Return the logarithm of a ratio, from -10 to 10."""
    return max(min(math.log(max(first, math.exp(-20)) / max(second, math.exp(-20))), 10), -10)


class WordList:
    """A dictionary that is loaded as it is, and searched by bisection.

    The first line has the phones, of which number i is the character 33 + i of the other lines: a word, and after TABs
    its variants, each with its probability after a blank if that is known. Lines are sorted by the bytes of words.
    """

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        self.start = self.data.index(b"\n") + 1
        self.phones = dict(enumerate(self.data[: self.start - 1].decode().split(" "), 33))

    def variants(self, word: str) -> list[tuple[str, float | None]]:
        """Return the phones of a word and their probabilities."""
        key = f"{word}\t".encode("utf-8", "surrogatepass")
        low, high = self.start, len(self.data)
        while low < high:
            line = self.data.rfind(b"\n", low, (low + high) // 2) + 1 or low
            if self.data[line : line + len(key)] < key:
                low = self.data.index(b"\n", line) + 1
            else:
                high = line
        if not self.data.startswith(key, low):
            return []
        cells = self.data[low + len(key) : self.data.index(b"\n", low)].decode().split("\t")
        parts = [cell.partition(" ") for cell in cells]
        return [(self.translated(codes), float(number) if number else None) for codes, _, number in parts]

    def translated(self, codes: str) -> str:
        """Return the phones that characters stand for."""
        return " ".join(self.phones[ord(code)] for code in codes)


if __name__ == "__main__":
    pronounce = TextPronouncer(Path(__file__).parent)
    for answer in (answer for text in sys.argv[1:] or sys.stdin for answer in pronounce(text)):
        probability = "" if answer.probability is None else f"{answer.probability:.4f}"
        print(answer.word, answer.phones, answer.source, probability, sep="\t")

"""Phones of words: from a dictionary for the words in it, and from a trained model for all others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._characters import classes, lowered
from regard_lexicon.files import Path
from regard_lexicon.lexicon import MOST_LETTERS, Variant, known

if TYPE_CHECKING:
    from regard.seq2seq import Translation
    from regard.seq2seq.translator import Translator

__all__ = ["UNKNOWN", "Pronouncer", "Pronunciation", "Unknown", "words_of"]

Unknown = Literal["guess", "skip", "fail"]
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)
BEAM = 5  # hypotheses, by default
_SENTENCE_END = re.compile("(?<=[.!?…]) ")
_LEAST = 1e-9  # of an attention weight
_START, _MORE, _BETWEEN = "[wdmy]", "[wdmyjz]", "[hq]"  # letters of classes
_WORD = re.compile(f"{_START}{_MORE}*(?:{_BETWEEN}{_MORE}+)*")
# Apostrophes (of keyboards, of texts in print, others that are typed for them, letters that look alike) and hyphens.
_ALIKE = "'\u2019\u2018\u201b`\u00b4\u2032\uff07\u02bc\u02bb", "-\u2010\u2011"
_SILENT = "\u00ad\u200c\u200d\u2060\u0640"  # soft hyphen, joiners, what makes Arabic words longer
# And punctuation within words: the dots of Catalan, the geresh of Hebrew, what looks like an apostrophe or a hyphen.
_WITHIN = "\u00b7\u2027\u05f3\u05f4\u2018\u201b`\u00b4\u2032\uff07\u2010\u2011"


@dataclass(frozen=True)
class Pronunciation:
    """How a word is pronounced, and from what that is known.

    Parameters
    ----------
    word : str
        The word as it was asked for.
    phones : tuple of str
        Its phones; none if the word is skipped.
    source : {"dictionary", "model", "skipped"}
        Where they come from.
    probability : float or None
        Of the dictionary, that of the variant if it has one; of the model, the calibrated probability that its best
        answer is right: None of its other answers, of a guess, and of a model that is not calibrated.
    confidence : float
        The share of this answer in the probability of all hypotheses of the search, in their order; 1 of the
        dictionary.
    links : tuple of (int, int)
        Pairs of letter and phone: from left to right, the letters to which the model attended most; none of the
        dictionary, and none of a model that reads subwords or has no attention.
    unknown : tuple of str
        The letters that the model has never seen: with any, an answer is a guess.
    role : str
        Of the dictionary, that of the variant: its part of speech.
    """

    word: str
    phones: tuple[str, ...]
    source: Literal["dictionary", "model", "skipped"]
    probability: float | None = None
    confidence: float = 1.0
    links: tuple[tuple[int, int], ...] = ()
    unknown: tuple[str, ...] = ()
    role: str = ""


class _Reading(NamedTuple):
    """How a model reads a word: the text that it is given, its letters, and those that the model has never seen."""

    given: str
    letters: list[str]
    unseen: tuple[str, ...]


class Pronouncer:
    """Pronounces words: by a dictionary where it lists them, otherwise by a model from letters to phones.

    A word is looked up as it is, then with the signs of the dictionary (its usual apostrophe and hyphen in place of
    those that it does not have, and without joiners and soft hyphens if it has none), and then in small letters, as at
    the beginning of a sentence, or in capitals if the dictionary has no others. The model reads it with the signs and
    in the case of its letters, if they have only one.

    Parameters
    ----------
    model : Translator
        A model from letters to phones: `regard.seq2seq.Seq2Seq` or `regard.seq2seq.Ensemble`.
    lexicon : mapping, optional
        The variants of known words: a `Lexicon`.
    unknown : {"guess", "skip", "fail"}, optional
        What becomes of a word with letters that the model has never seen: it is pronounced and its letters are named,
        it has no phones, or it is an error.
    beam : int, optional
        Beam size.

    Examples
    --------
    >>> from regard_lexicon import Lexicon, Pronouncer
    >>> from regard.seq2seq import Seq2Seq
    >>> model = Seq2Seq(epochs=60, source="characters", target="tokens")
    >>> pronounce = Pronouncer(model.fit(["ab", "ba", "aab"], ["A B", "B A", "A A B"]), Lexicon([("a", ["X"])]))
    >>> pronounce("a").phones, pronounce("a").source
    (('X',), 'dictionary')
    >>> pronounce("ba").phones, pronounce("ba").source
    (('B', 'A'), 'model')
    """

    def __init__(
        self,
        model: Translator,
        lexicon: Mapping[str, Sequence[Variant]] | None = None,
        *,
        unknown: Unknown = "guess",
        beam: int = BEAM,
    ) -> None:
        from regard.seq2seq.decoding.restrictions import USUAL

        _check.choice("unknown", unknown, UNKNOWN)
        self.model = model
        self.lexicon = {} if lexicon is None else lexicon
        self.unknown = unknown
        self.beam = _check.integer("beam", beam, least=1)
        source = model.model.source.tokenizer
        if source.token_type not in ("characters", "subwords"):
            rule = f"the model must read letters, and this one reads {source.token_type}"
            _check.fail(rule, hint="train it with source='characters'")
        self._repetitions = model.model.repetitions or USUAL
        self._is_spelled = source.token_type == "characters"
        self._phones = frozenset(model.model.target.tokens)
        self._word_signs = _signs(self.lexicon)
        self._word_case = _only_case(self.lexicon) or "lower"
        letters = _letters_of(source.tokens)
        self._letter_signs, self._letter_case = _signs(letters), _only_case(letters)

    @classmethod
    def load(
        cls,
        path: Path,
        lexicon: Mapping[str, Sequence[Variant]] | None = None,
        *,
        unknown: Unknown = "guess",
        beam: int = BEAM,
    ) -> Self:
        """Load the model from a file, or from the folder that ``regard train`` has written."""
        from regard.seq2seq import Seq2Seq

        return cls(Seq2Seq.load(path), lexicon, unknown=unknown, beam=beam)

    def __call__(self, word: str) -> Pronunciation:
        """Return the best pronunciation of a word: of the dictionary the most probable variant."""
        return _best(self.pronounce([word])[0])

    def pronounce(self, words: Iterable[str], *, n_best: int = 1) -> list[list[Pronunciation]]:
        """Return the pronunciations of words: all variants of the dictionary, or the n best of the model."""
        n_best = _check.integer("n_best", n_best, least=1)
        asked = [word if len(word) > MOST_LETTERS else unicodedata.normalize("NFC", word) for word in words]
        found = {word: self._known(word) for word in asked}
        new = {word: self._reading(word) for word, variants in found.items() if not variants}
        readable = {word: reading for word, reading in new.items() if self._may_guess(word, reading)}
        found |= {
            word: [_skipped(word, reading.unseen)] for word, reading in new.items() if word not in readable
        }
        wide = max(self.beam, n_best)
        sources = [reading.given for reading in readable.values()]
        answers = self.model.candidates(
            sources, beam=wide, repetitions=self._repetitions, unknown_words="next"
        )
        for (word, reading), candidates in zip(readable.items(), answers, strict=True):
            found[word] = self._answers(word, reading, candidates)[:n_best]
        return [found[word] for word in asked]

    def rules(self) -> dict[str, Any]:
        """Return the rules by which words are cut, looked up and read, in values of JSON: for other programs.

        `word` is the regular expression of a word; the others are the case in which words are looked up and the case of
        the model's letters, empty where there are several, the signs that are replaced before either, and the limit of
        repetitions.
        """
        from regard.seq2seq.sources.text.rules import of_characters

        start, more, between = map(of_characters, (_START, _MORE, _BETWEEN))
        tables = self._word_signs, self._letter_signs
        word_signs, letter_signs = ({chr(sign): other for sign, other in signs.items()} for signs in tables)
        return {
            "word": f"{start}{more}*(?:{between[:-1]}{_WITHIN}]{more}+)*",
            "word_case": self._word_case,
            "word_signs": word_signs,
            "letter_case": self._letter_case,
            "letter_signs": letter_signs,
            "repetitions": self._repetitions,
        }

    def codepoints(self, text: str) -> list[list[int]]:
        """Return the code points of the phones of each sentence: a piper voice's `phoneme_codepoints` in sherpa-onnx.

        A blank stands between words, and punctuation stays where it is. The phones must be in IPA: those of ARPAbet
        have several letters, which would be as many phonemes.
        """
        from regard.seq2seq.sources.text.normalization import normalize

        words = map(_best, self.pronounce(words_of(text)))
        spoken = _replaced(text, ("".join(_in_ipa(word.phones)) for word in words))
        sentences = _SENTENCE_END.split(normalize(" ".join(spoken.split()), "NFD"))
        return [[*map(ord, sentence)] for sentence in sentences if sentence]

    def _known(self, word: str) -> list[Pronunciation]:
        """Return the variants of the dictionary, which has no word of more than `MOST_LETTERS`."""
        if len(word) > MOST_LETTERS:
            return []
        other = word.translate(self._word_signs)
        written = (word, other, *(_in_case(text, self._word_case) for text in (word, other)))
        variants = next(filter(None, map(self.lexicon.get, written)), ())
        return [Pronunciation(word, v.phones, "dictionary", v.probability, role=v.role) for v in variants]

    def _reading(self, word: str) -> _Reading:
        """Return a word in the case and the form of Unicode in which the model knows most of its letters.

        The small letter of a capital sigma depends on its place in the word, unless the model reads letter by letter.
        """
        start = word[: MOST_LETTERS + 1].translate(self._letter_signs)  # more are never read
        case = self._letter_case
        texts = _in_case(start, case), "".join(_in_case(letter, case) for letter in start)
        forms = dict.fromkeys(unicodedata.normalize(form, text) for text in texts for form in ("NFC", "NFD"))
        return min(map(self._read, forms), key=lambda reading: len(reading.unseen))

    def _read(self, text: str) -> _Reading:
        """Return what the tokenizer of the model makes of a text."""
        from regard.seq2seq.sources.text.tokenizers import unseen

        tokenizer = self.model.model.source.tokenizer
        tokens = tokenizer.tokenize(text)
        letters = chain.from_iterable(map(tokenizer.token_text, tokens))
        return _Reading(
            text, [*letters], tuple(dict.fromkeys(chain.from_iterable(unseen(tokenizer, tokens))))
        )

    def _may_guess(self, word: str, reading: _Reading) -> bool:
        """Return whether the model pronounces a word; raise if letters are unknown and that is an error."""
        unseen = reading.unseen
        if not reading.letters or max(len(word), len(reading.letters)) > MOST_LETTERS:
            return False
        if unseen and self.unknown == "fail":
            _check.fail(
                f"the model has never seen {', '.join(map(repr, unseen))}. Got the word {word!r:.60}."
            )
        return not unseen or (self.unknown == "guess" and not {*reading.letters} <= {*unseen})

    def _probability(self, candidates: Sequence[Translation]) -> float | None:
        """Return the calibrated probability of the best answer; None without calibration, or with a smaller beam."""
        calibration = self.model.model.calibration
        return (
            None
            if calibration is None or self.beam < calibration.beam
            else self.model.probability(candidates)
        )

    def _answers(
        self, word: str, reading: _Reading, candidates: Sequence[Translation]
    ) -> list[Pronunciation]:
        """Return the model's answers with their shares of the probability of all of them."""
        shares = self.model.shares(candidates)
        phones = [
            tuple(phone for phone in candidate.tokens if phone in self._phones) for candidate in candidates
        ]
        return [
            Pronunciation(
                word,
                phones[i],
                "model",
                self._probability(candidates) if i == 0 and not reading.unseen else None,
                shares[i],
                _links(candidate, len(reading.letters) if self._is_spelled else 0, self._phones),
                reading.unseen,
            )
            for i, candidate in enumerate(candidates)
            if phones[i]
        ] or [_skipped(word, reading.unseen)]


def _letters_of(tokens: Iterable[str]) -> frozenset[str]:
    """Return the letters of a vocabulary, whose special tokens are in angle brackets."""
    return frozenset("".join(token for token in tokens if not re.fullmatch("<.+>", token)))


def _best(found: Sequence[Pronunciation]) -> Pronunciation:
    """Return the most probable variant of the dictionary, the first of equals; the first answer of a model."""
    return (
        max(found, key=lambda variant: known(variant.probability))
        if found[0].source == "dictionary"
        else found[0]
    )


def _skipped(word: str, unseen: tuple[str, ...]) -> Pronunciation:
    return Pronunciation(word, (), "skipped", confidence=0.0, unknown=unseen)


def _in_ipa(phones: tuple[str, ...]) -> tuple[str, ...]:
    """Return phones; raise if one has two capitals of ASCII in a row, as those of ARPAbet have."""
    if other := next(filter(re.compile("[A-Z]{2}").search, phones), None):
        _check.fail(
            f"code points need phones in IPA. Got {other!r:.60} instead.",
            hint="replace the phones of the dictionary before training, with a phone map",
        )
    return phones


def _only_case(texts: Iterable[str]) -> Literal["", "lower", "upper"]:
    """Return the case of the cased letters, "upper" or "lower"; an empty text for both or none."""
    cased = [text for text in texts if text.lower() != text.upper()]
    lower = all(text == text.lower() for text in cased)
    upper = all(text == text.upper() for text in cased)
    return "" if lower == upper else "lower" if lower else "upper"


def _signs(texts: Iterable[str]) -> dict[int, str]:
    """Return what replaces signs that are in no text: that which looks alike and is most often there, or nothing."""
    joined = "".join(texts)
    usual = dict.fromkeys(_SILENT, "")
    for alike in _ALIKE:
        if (most := max(alike, key=joined.count)) in joined:
            usual |= dict.fromkeys(alike, most)
    return {ord(sign): other for sign, other in usual.items() if sign not in joined}


def _in_case(word: str, case: str) -> str:
    """Return a word in a case, in form NFC."""
    cased = lowered(word) if case == "lower" else word.upper() if case == "upper" else word
    return unicodedata.normalize("NFC", cased)


def _links(answer: Translation, letters: int, known: frozenset[str]) -> tuple[tuple[int, int], ...]:
    """Return the letter of each phone; none without attention, or without letters."""
    if answer.alignment is None or not letters:
        return ()
    spoken = [phone in known for phone in answer.tokens]
    path = _left_to_right(answer.alignment[spoken, :letters])
    return tuple((letter, place) for place, letter in enumerate(path))


def _left_to_right(weights: NDArray[Any]) -> list[int]:
    """Return a column for each row, (n, m), never further to the left, with the largest product of weights."""
    scores = np.log(np.maximum(weights, _LEAST))
    best = [scores[0]]
    for row in scores[1:]:
        best.append(np.maximum.accumulate(best[-1]) + row)
    path, end = [], weights.shape[1]
    for row in reversed(best):
        end = int(row[:end].argmax()) + 1
        path.append(end - 1)
    return path[::-1]


def words_of(text: str) -> list[str]:
    """Return the words of a text: letters, digits and marks, with hyphens, apostrophes and dots between them."""
    return [text[start:end] for start, end in _spans(text)]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Return where each word begins and ends."""
    return (found.span() for found in _WORD.finditer(classes(re.sub(f"[{_WITHIN}]", "'", text))))


def _replaced(text: str, words: Iterator[str]) -> str:
    """Return a text whose words are replaced."""
    parts, end = list[str](), 0
    for start, stop in _spans(text):
        parts += text[end:start], next(words)
        end = stop
    return "".join([*parts, text[end:]])

"""The peer of benchmarks/pronunciation.py: the trained model of g2p-en, on this package's parts.

It is an encoder-decoder without attention: a GRU reads the letters, another one starts from where it ended and writes
phonemes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import nn

Array = NDArray[Any]
Ids = NDArray[np.int64]

LONGEST = 20  # phonemes; the package gives up there too
UNKNOWN_LETTER, END_OF_LETTERS = 1, 2
START, END = 2, 3

LETTERS = {letter: i for i, letter in enumerate(ascii_lowercase, 3)}
_VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
_CONSONANTS = (
    *("B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG"),
    *("P", "R", "S", "SH", "T", "TH", "V", "W", "Y", "Z", "ZH"),
)
# In the order of the alphabet; the three of a vowel are without stress, with the main and with lesser stress.
PHONEMES = (
    *("", "", "", ""),
    *sorted([*(f"{vowel}{stress}" for vowel in _VOWELS for stress in "012"), *_CONSONANTS, "UW"]),
)


class Model:
    """The model, from the arrays of its file by name."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays

    def pronounce(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the phonemes of words, without stress."""
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for i, word in enumerate(words):
            by_length[len(word)].append(i)
        found: list[tuple[str, ...]] = [()] * len(words)
        for places in by_length.values():
            letters = np.array([[LETTERS.get(c, UNKNOWN_LETTER) for c in words[i]] for i in places])
            for i, phonemes in zip(places, self._write(self._read(letters.T)), strict=True):
                found[i] = phonemes
        return found

    def _step(self, side: str, x: Array, states: Array) -> Array:
        """Take a step of one of the GRUs; its gates lie as `nn.gru_step` has them, its matrices turned over."""
        p = self.arrays
        inputs = x @ p[f"{side}_w_ih"].T + p[f"{side}_b_ih"]
        hidden = states @ p[f"{side}_w_hh"].T + p[f"{side}_b_hh"]
        return nn.gru_step(inputs, hidden, states)[0]

    def _read(self, letters: Ids) -> Array:
        """Read words (T, B) of one length: the states (B, H) at their ends."""
        states = np.zeros((letters.shape[1], self.arrays["enc_w_hh"].shape[1]), np.float32)
        end = np.full_like(letters[:1], END_OF_LETTERS)
        for column in np.concatenate([letters, end]):
            states = self._step("enc", self.arrays["enc_emb"][column], states)
        return states

    def _write(self, states: Array) -> list[tuple[str, ...]]:
        """Write what is most probable, phoneme by phoneme."""
        words = np.full(len(states), START)
        steps = []
        for _ in range(LONGEST):
            states = self._step("dec", self.arrays["dec_emb"][words], states)
            words = np.argmax(states @ self.arrays["fc_w"].T + self.arrays["fc_b"], axis=-1)
            steps.append(words)
        return [_spell(row) for row in np.stack(steps, axis=1)]


def _spell(words: Ids) -> tuple[str, ...]:
    ends = np.flatnonzero(words == END)
    return tuple(PHONEMES[word].rstrip("012") for word in words[: ends[0] if ends.size else None])

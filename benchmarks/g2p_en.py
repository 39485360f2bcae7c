"""A peer of benchmarks/pronunciation.py: the trained model of g2p-en, on this package's parts.

It is an encoder-decoder without attention: a GRU encodes the letters; another one starts from its last state and
predicts phonemes.
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

LONGEST = 20  # phonemes, as in g2p-en
UNKNOWN_LETTER, END_OF_LETTERS = 1, 2
START, END = 2, 3

LETTERS = {letter: i for i, letter in enumerate(ascii_lowercase, 3)}
_VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
_CONSONANTS = (
    *("B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG"),
    *("P", "R", "S", "SH", "T", "TH", "V", "W", "Y", "Z", "ZH"),
)
# In alphabetical order; a vowel has three phonemes: without stress, with primary and with secondary stress.
PHONEMES = (
    *("", "", "", ""),
    *sorted([*(f"{vowel}{stress}" for vowel in _VOWELS for stress in "012"), *_CONSONANTS, "UW"]),
)


class Model:
    """The model, built from the arrays of its file by name."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays

    def pronounce(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the phonemes of words, without stress."""
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for i, word in enumerate(words):
            by_length[len(word)].append(i)
        pronunciations: list[tuple[str, ...]] = [()] * len(words)
        for positions in by_length.values():
            letters = np.array([[LETTERS.get(c, UNKNOWN_LETTER) for c in words[i]] for i in positions])
            for i, phonemes in zip(positions, self._decode(self._encode(letters.T)), strict=True):
                pronunciations[i] = phonemes
        return pronunciations

    def _step(self, side: str, x: Array, states: Array) -> Array:
        """Take a step of a GRU; its gates are in the order of `nn.gru_step`, its matrices are transposed."""
        p = self.arrays
        inputs = x @ p[f"{side}_w_ih"].T + p[f"{side}_b_ih"]
        hidden = states @ p[f"{side}_w_hh"].T + p[f"{side}_b_hh"]
        return nn.gru_step(inputs, hidden, states)[0]

    def _encode(self, letters: Ids) -> Array:
        """Encode words (T, B) of equal length as the last states (B, H)."""
        states = np.zeros((letters.shape[1], self.arrays["enc_w_hh"].shape[1]), np.float32)
        end = np.full_like(letters[:1], END_OF_LETTERS)
        for column in np.concatenate([letters, end]):
            states = self._step("enc", self.arrays["enc_emb"][column], states)
        return states

    def _decode(self, states: Array) -> list[tuple[str, ...]]:
        """Predict the most probable phoneme at each step."""
        phonemes = np.full(len(states), START)
        steps = []
        for _ in range(LONGEST):
            states = self._step("dec", self.arrays["dec_emb"][phonemes], states)
            phonemes = np.argmax(states @ self.arrays["fc_w"].T + self.arrays["fc_b"], axis=-1)
            steps.append(phonemes)
        return [_named(row) for row in np.stack(steps, axis=1)]


def _named(ids: Ids) -> tuple[str, ...]:
    ends = np.flatnonzero(ids == END)
    return tuple(PHONEMES[i].rstrip("012") for i in ids[: ends[0] if ends.size else None])

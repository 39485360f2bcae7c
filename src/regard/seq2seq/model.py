"""A translator: what it learns from, translates with, and is kept in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq import files
from regard.seq2seq.network import Network, Sizes
from regard.seq2seq.search import Hypothesis, beam
from regard.seq2seq.text import END, SPECIAL, START, UNKNOWN, Vocabulary, cut, glue
from regard.seq2seq.training import Numbered, Recipe, Step, train

__all__ = ["Seq2Seq", "Translation", "hold_out"]

Array = NDArray[Any]
Pair = tuple[str, str]

LONGEST_SENTENCE = 1000  # tokens
_FEW = 20  # sources
_TOGETHER = 64  # sentences that are searched at a time


@dataclass(frozen=True)
class Translation:
    """A translated sentence, and where the model looked for each of its words.

    Parameters
    ----------
    text : str
        The translation.
    tokens : tuple of str
        Its n tokens; an unknown word is the source word that was looked at most.
    source : tuple of str
        The source's m - 1 tokens and the end's sign.
    score : float
        Mean logarithm of the tokens' probabilities.
    alignment : array (n, m) or None
        Rows sum to 1; None from a model without attention.
    """

    text: str
    tokens: tuple[str, ...]
    source: tuple[str, ...]
    score: float
    alignment: Array | None


class Seq2Seq:
    """Learn to translate from sentence pairs, with an encoder-decoder and additive attention.

    Parameters
    ----------
    attention : bool
        False for the same model without attention: its decoder sees only where the encoder ended.
    epochs : int, optional
        How often each pair is seen; by default 9, or more if there are few pairs.
    minutes : float, optional
        The longest time to train.
    max_tokens : int
        Longer pairs are left out of training.
    least : int, optional
        How often a word must come to be known; by default 3 from 5,000 pairs on, else 1.
    rate : float, optional
        Adam's largest rate, other than the recipe's.
    seed : int
        Of all chance: the same seed, pairs and number of BLAS threads give the same model to the bit.

    Raises
    ------
    ValueError, TypeError
        If a number is not what it should be.

    References
    ----------
    Bahdanau, Cho and Bengio 2014, "Neural Machine Translation by Jointly Learning to Align and Translate".

    Examples
    --------
    >>> pairs = [("one", "un"), ("two", "deux"), ("one two", "un deux")]
    >>> model = Seq2Seq(epochs=40).fit(pairs)
    >>> translation = model.translate(["one two"])[0]
    >>> translation.text, translation.alignment.shape
    ('un deux', (2, 3))
    """

    def __init__(
        self,
        *,
        attention: bool = True,
        epochs: int | None = None,
        minutes: float | None = None,
        max_tokens: int = 15,
        least: int | None = None,
        rate: float | None = None,
        seed: int = 1,
    ) -> None:
        self.attention = attention
        self.epochs = None if epochs is None else _check.whole("epochs", epochs, least=1)
        self.minutes = None if minutes is None else _check.number("minutes", minutes, positive=True)
        self.max_tokens = _check.whole("max_tokens", max_tokens, least=1)
        self.least = None if least is None else _check.whole("least", least, least=1)
        self.rate = None if rate is None else _check.number("rate", rate, positive=True)
        self.seed = _check.whole("seed", seed)
        self._model: files.Model | None = None

    @property
    def model(self) -> files.Model:
        """The network and its vocabularies."""
        if self._model is None:
            raise ValueError("the model must be trained or loaded first: fit(pairs) or Seq2Seq.load(path)")
        return self._model

    def fit(
        self,
        pairs: Sequence[Pair],
        valid: Sequence[Pair] | None = None,
        *,
        listener: Callable[[Step], object] | None = None,
    ) -> Self:
        """Learn from sentence pairs.

        While it learns, BLAS keeps to one thread in this process if threadpoolctl is there to ask it (it comes with
        ``regard[cli]``), unless the environment says how many: each half of a batch has a thread of its own instead.

        Parameters
        ----------
        pairs : sequence of (source, target)
            Plain text.
        valid : sequence of (source, target), optional
            What the best moment is chosen by; by default a part of `pairs` is kept aside for it.
        listener : callable, optional
            Called with each `Step`.

        Returns
        -------
        Seq2Seq
            This model.

        Raises
        ------
        ValueError
            If no pair is left to learn from or to validate with.
        regard.seq2seq.training.Diverged
            If the loss is no number any more.
        """
        for step in self.steps(pairs, valid):
            if listener is not None:
                listener(step)
        return self

    def steps(self, pairs: Sequence[Pair], valid: Sequence[Pair] | None = None) -> Iterator[Step]:
        """Learn as `fit` does, and yield after every step, when the model can be used or saved as it is.

        Parameters
        ----------
        pairs, valid
            As for `fit`.

        Yields
        ------
        Step
            What the step came to.
        """
        if valid is None:
            pairs, valid = hold_out(pairs, self.seed)
        learned, judged = self._cut(pairs, "training"), self._cut(valid, "validation")
        recipe = Recipe.for_pairs(len(learned), epochs=self.epochs, minutes=self.minutes, rate=self.rate)
        least = self.least or (3 if len(learned) >= 5000 else 1)
        source = Vocabulary.learn([pair[0] for pair in learned], least=least, lower=True)
        target = Vocabulary.learn([pair[1] for pair in learned], least=least)
        network = Network(self._sizes(len(learned), len(source), len(target)))
        self._model = files.Model(network, source, target)
        numbered = [self._number(*pair) for pair in learned]
        rng = np.random.default_rng(self.seed)
        words = np.concatenate([pair[1][1:] for pair in numbered])
        network.draw(rng, np.bincount(words, minlength=len(target)))
        yield from train(network, numbered, [self._number(*pair) for pair in judged], recipe, rng)

    def _cut(self, pairs: Sequence[Pair], what: str) -> list[tuple[list[str], list[str]]]:
        """Return the tokens of pairs that are neither empty nor too long."""
        tokens = [(cut(source), cut(target)) for source, target in pairs]
        kept = [pair for pair in tokens if all(0 < len(side) <= self.max_tokens for side in pair)]
        if not kept:
            raise ValueError(
                f"no {what} pair has between 1 and {self.max_tokens} tokens on both sides: {len(pairs)} pairs given"
            )
        return kept

    def _sizes(self, pairs: int, source_words: int, target_words: int) -> Sizes:
        """Choose how large the network is: a few hundred pairs can't fill a large one."""
        part = 1 if pairs >= 5000 else 2 if pairs >= 1000 else 4
        full = Sizes(source_words, target_words)
        attention = full.attention // part if self.attention else 0
        return Sizes(
            source_words,
            target_words,
            full.embedding // part,
            full.encoder // part,
            full.decoder // part,
            attention,
        )

    def _number(self, source: Sequence[str], target: Sequence[str]) -> Numbered:
        return [*self.model.source.encode(source), END], [START, *self.model.target.encode(target), END]

    def translate(self, sentences: Sequence[str], *, beam: int = 5) -> list[Translation]:
        """Translate sentences.

        Parameters
        ----------
        sentences : sequence of str
            Plain text; one without a word is translated by one.
        beam : int
            How many hypotheses are followed at a time; 1 is greedy.

        Returns
        -------
        list of Translation
            In the order of the sentences.

        Raises
        ------
        ValueError
            If a sentence has more than 1,000 tokens, or the model knows nothing yet.
        """
        beam = _check.whole("beam", beam, least=1)
        tokens = [cut(sentence) for sentence in sentences]
        for number, words in enumerate(tokens, 1):
            if len(words) > LONGEST_SENTENCE:
                raise ValueError(
                    f"sentence {number} has {len(words)} tokens; at most {LONGEST_SENTENCE} are allowed"
                )
        self.model  # noqa: B018 - says so if there is none
        found = [Translation("", (), (SPECIAL[END],), 0.0, None)] * len(tokens)
        for group in _of_one_length(tokens):
            ids = np.array([[*self.model.source.encode(tokens[i]), END] for i in group]).T.copy()  # (T, B)
            for i, best in zip(group, self._search(ids, beam), strict=True):
                found[i] = self._spell(tokens[i], best)
        return found

    def _search(self, source: NDArray[np.int64], width: int) -> list[Hypothesis]:
        return [hypotheses[0] for hypotheses in beam(self.model.network.parameters, source, width=width)]

    def _spell(self, source: list[str], best: Hypothesis) -> Translation:
        """Turn numbers into words; what the model can't name is copied from where it looked."""
        tokens = [self.model.target.tokens[word] for word in best.words]
        aligned = best.alignment.shape[-1] > 0
        for i, word in enumerate(best.words):
            if word == UNKNOWN and aligned:
                tokens[i] = source[int(np.argmax(best.alignment[i, : len(source)]))]
        alignment = best.alignment if aligned else None
        return Translation(glue(tokens), tuple(tokens), (*source, SPECIAL[END]), best.score, alignment)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model into one file; see `regard.seq2seq.files` for its format.

        Parameters
        ----------
        path : str or path
            Where to; an older file is replaced when the new one is whole.

        Raises
        ------
        OSError
            If it can't be written.
        """
        files.write_model(path, self.model)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model from its file.

        Parameters
        ----------
        path : str or path
            A file that `save` wrote, or a stranger.

        Returns
        -------
        Seq2Seq
            Ready to translate.

        Raises
        ------
        ValueError
            If it is no model file.
        OSError
            If it can't be read.
        """
        model = files.read_model(path)
        loaded = cls(attention=model.network.sizes.attention > 0)
        loaded._model = model
        return loaded


def _of_one_length(tokens: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Yield the places of sentences with equally many tokens, so that none needs padding; empty ones are left out."""
    by_length: dict[int, list[int]] = {}
    for i, words in enumerate(tokens):
        by_length.setdefault(len(words), []).append(i)
    for length, places in sorted(by_length.items()):
        together = max(1, min(_TOGETHER, 4096 // max(length, 1)))
        for start in range(0, len(places) if length else 0, together):
            yield places[start : start + together]


def hold_out(pairs: Sequence[Pair], seed: int) -> tuple[list[Pair], list[Pair]]:
    """Keep some sources aside with all their pairs: a tenth, from 100 on ten, from 200 on a twentieth, 500 at most.

    Of fewer than 20 sources none can be missed.

    Parameters
    ----------
    pairs : sequence of (source, target)
        All there are.
    seed : int
        Of the choice.

    Returns
    -------
    training, validation : list of (source, target)
        No source is in both, unless there are too few to keep any aside: then both are all of them.

    Examples
    --------
    >>> training, validation = hold_out([(str(i), "") for i in range(40)], seed=0)
    >>> len(training), len(validation)
    (36, 4)
    """
    sources = list(dict.fromkeys(source for source, _ in pairs))
    count = max(min(len(sources) // 10, 10), min(len(sources) // 20, 500))
    if len(sources) < _FEW:
        return list(pairs), list(pairs)
    aside = {sources[i] for i in np.random.default_rng(seed).permutation(len(sources))[:count]}
    return [p for p in pairs if p[0] not in aside], [p for p in pairs if p[0] in aside]

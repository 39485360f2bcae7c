"""Finding a good target sentence, word by word: greedy or by beam, with an alignment for every hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.decoder import Steps
from regard.seq2seq.encoder import encode
from regard.seq2seq.text import END, PAD, START

__all__ = ["Hypothesis", "beam", "greedy"]

Array = NDArray[Any]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Hypothesis:
    """One way to translate a sentence.

    Parameters
    ----------
    words : tuple of int
        Target words, without START and END.
    score : float
        Mean logarithm of their probabilities, END's with them (unless it was broken off before END).
    alignment : array (len(words), T)
        Where the decoder looked for each word; rows sum to 1. (len(words), 0) without attention.
    """

    words: tuple[int, ...]
    score: float
    alignment: Array


def longest(source_length: int) -> int:
    """Return after how many words a translation is broken off.

    Parameters
    ----------
    source_length : int
        Words of the source, END with them.

    Returns
    -------
    int
        Words of the target.

    Examples
    --------
    >>> longest(10)
    25
    """
    return 2 * source_length + 5


def greedy(p: Mapping[str, Array], source: Ids) -> list[Hypothesis]:
    """Take the most probable word at every step.

    Parameters
    ----------
    p : mapping of str to array
        The model's parameters.
    source : integer array (T, B)
        Source sentences of one length, each with END.

    Returns
    -------
    list of Hypothesis
        One for each of the B sentences.

    Examples
    --------
    >>> from regard.seq2seq.network import Network, Sizes
    >>> p = Network(Sizes(9, 7, embedding=4, encoder=3, decoder=5, attention=2)).parameters
    >>> len(greedy(p, np.array([[4, 5], [2, 2]])))
    2
    """
    return [hypotheses[0] for hypotheses in beam(p, source, width=1)]


def beam(p: Mapping[str, Array], source: Ids, *, width: int = 5) -> list[list[Hypothesis]]:
    """Keep the `width` most probable beginnings at every step; sentences are compared by their mean log-probability.

    Parameters
    ----------
    p : mapping of str to array
        The model's parameters.
    source : integer array (T, B)
        Source sentences of one length, each with END.
    width : int
        How many beginnings are kept.

    Returns
    -------
    list of list of Hypothesis
        For each of the B sentences its finished hypotheses, at least one, the best first.

    References
    ----------
    Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.5; Wu et al. 2016, eq. 14 with
    alpha = 1 (length normalisation).

    Examples
    --------
    >>> from regard.seq2seq.network import Network, Sizes
    >>> p = Network(Sizes(9, 7, embedding=4, encoder=3, decoder=5, attention=2)).parameters
    >>> best, *others = beam(p, np.array([[4], [2]]), width=3)[0]  # this model knows nothing: all words are alike
    >>> len(others), best.alignment.shape == (len(best.words), 2)
    (2, True)
    """
    length, batch = source.shape
    encoded, _ = encode(p, source, (0.0, 0.0), None)
    steps = Steps(p, encoded)
    states = np.repeat(encoded.start[:, None], width, axis=1)  # (B, k, D)
    search = _Beam(batch, width, longest(length))
    while search.goes_on():
        logits, states, weights = steps(search.last, states)
        parents = search.extend(_log_softmax(logits), weights)
        states = np.take_along_axis(states, parents[:, :, None], axis=1)
    return [search.hypotheses(sentence) for sentence in range(batch)]


def _log_softmax(logits: Array) -> Array:
    """Turn logits (B, k, V) into log-probabilities of words that may follow."""
    logits -= logits.max(axis=-1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    logits[..., [PAD, START]] = -np.inf
    return logits


class _Beam:
    """The beginnings of B sentences, k of each; what was said and where it came from is kept step by step."""

    def __init__(self, batch: int, width: int, most: int) -> None:
        self.batch, self.width, self.most = batch, width, most
        self.last = np.full((batch, width), START)
        self.scores = np.full((batch, width), -np.inf, np.float32)  # summed log-probabilities, the best first
        self.scores[:, 0] = 0  # all beginnings are the same one at first
        self.words: list[Ids] = []  # (B, k) each: word and parent of the beginnings kept at each step
        self.parents: list[Ids] = []
        self.looks: list[Array] = []  # (B, k, T) each: where the beginnings before the step looked
        # (score, step of END, parent) each
        self.done: list[list[tuple[float, int, int]]] = [[] for _ in range(batch)]

    def goes_on(self) -> bool:
        """Say whether a sentence can still get better."""
        if len(self.words) >= self.most:
            return False
        return any(not self._settled(sentence) for sentence in range(self.batch))

    def _settled(self, sentence: int) -> bool:
        done = self.done[sentence]
        # A beginning's mean can only rise by getting longer at no cost.
        return len(done) >= self.width and max(done)[0] >= self.scores[sentence, 0] / self.most

    def extend(self, follows: Array, weights: Array) -> Ids:
        """Take log-probabilities (B, k, V) of what follows; return the parents (B, k) of the beginnings kept."""
        words = follows.shape[-1]
        total = (self.scores[:, :, None] + follows).reshape(self.batch, -1)
        scores, places = _largest(total, min(2 * self.width, total.shape[1]))  # half of them may be ENDs
        parents, following = places // words, places % words
        self._finish(scores, parents, following == END)
        order = np.argsort(following == END, axis=1, kind="stable")[:, : self.width]
        self.scores = np.take_along_axis(scores, order, axis=1)
        self.scores[np.take_along_axis(following, order, axis=1) == END] = -np.inf
        self.last = np.take_along_axis(following, order, axis=1)
        kept: Ids = np.take_along_axis(parents, order, axis=1)
        self.words.append(self.last)
        self.parents.append(kept)
        self.looks.append(weights)
        return kept

    def _finish(self, scores: Array, parents: Ids, ends: NDArray[np.bool_]) -> None:
        """Keep the sentences that end among the k best."""
        step = len(self.words)
        for sentence, rank in np.argwhere(
            ends[:, : self.width] & np.isfinite(scores[:, : self.width])
        ).tolist():
            score = float(scores[sentence, rank]) / (step + 1)
            self.done[sentence].append((score, step, int(parents[sentence, rank])))

    def hypotheses(self, sentence: int) -> list[Hypothesis]:
        """Return what is finished, the best first; or the best beginning, broken off, if nothing is."""
        done = sorted(self.done[sentence], reverse=True)[: self.width]
        if not done:
            done = [(float(self.scores[sentence, 0]) / len(self.words), len(self.words), 0)]
        return [self._trace(sentence, *ending) for ending in done]

    def _trace(self, sentence: int, score: float, step: int, slot: int) -> Hypothesis:
        """Walk back from the beginning in `slot` after `step` words."""
        words, rows = [], []
        for t in reversed(range(step)):
            words.append(int(self.words[t][sentence, slot]))
            slot = int(self.parents[t][sentence, slot])
            rows.append(self.looks[t][sentence, slot])
        size = self.looks[0].shape[-1]
        return Hypothesis(tuple(words[::-1]), score, np.array(rows[::-1]).reshape(len(rows), size))


def _largest(x: Array, count: int) -> tuple[Array, Ids]:
    """Return the largest numbers of each row (B, count), falling, and their places."""
    places = np.argpartition(x, x.shape[1] - count, axis=1)[:, -count:]
    numbers = np.take_along_axis(x, places, axis=1)
    order = np.argsort(-numbers, axis=1, kind="stable")
    return np.take_along_axis(numbers, order, axis=1), np.take_along_axis(places, order, axis=1)

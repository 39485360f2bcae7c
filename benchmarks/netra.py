"""Run a trained model of others on this package's parts: netra-transliterate, Latin letters to Khmer.

    python benchmarks/netra.py [--words 1000]

The model is an encoder-decoder trained with Keras: a bidirectional GRU, a GRU, and additive attention. Here it runs on
`nn.gru`, `nn.gru_step`, `attend` and `scores.additive`, with the search of its authors and with
`regard.seq2seq.decoding.beam`. The output is the largest difference of its probabilities from those of Keras (if keras
is installed, with any backend), and its error rates: the mean over words of edit distance / length.

Its authors publish a validation character error rate of 15.07 % with a beam of 3, and 44.44 % correct words without a
beam. Their notebook measures the former on the first fifth of the pairs, although Keras holds out the last fifth in
training; the latter fits the last fifth. Both fifths are measured here: the first is training data, the last is not.

Needs h5py (``pip install '.[bench]'``) to read the file.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from data import Missing, Pair, netra, run
from regard import attend, nn, scores
from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.decoding.hypothesis import Scoring
from regard.seq2seq.evaluation.metrics import edit_distance
from regard.seq2seq.networks.base import Stepper
from regard.seq2seq.sources.text import vocabulary as text

Array = NDArray[Any]
Ids = NDArray[np.int64]

START, END = "\t", "\n"
LONGEST_SOURCE, LONGEST_TARGET = 25, 32  # letters; a source is padded with zeros, which are read like letters
LEAST = 1e-8  # the least probability of a letter in the published search
PUBLISHED = {("first fifth", 3): "15.07 % errors", ("last fifth", 1): "44.44 % correct"}
BATCH = 128  # words of a batch
COMPARED = 256  # words of the comparison with Keras


class Cells(NamedTuple):
    """Parameters of GRUs in K directions, as in `nn.gru`; Keras has a second bias, of the state."""

    input_weight: Array  # (E, K, 3H)
    bias: Array  # (K, 3H)
    state_weight: Array  # (K, H, 3H)
    state_bias: Array  # (K, 3H)


class Model:
    """The model, built from the arrays of its file by name."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.source_embedding = arrays["embedding/vars/0"]
        self.target_embedding = arrays["embedding_1/vars/0"]
        directions = [f"bidirectional/{name}_layer/cell" for name in ("forward", "backward")]
        self.encoder, self.decoder = _cells(arrays, directions), _cells(arrays, ["gru/cell"])
        self.projection = [arrays[f"time_distributed/layer/vars/{i}"] for i in (0, 1)]
        self.score = scores.additive(None, None, arrays["additive_attention/vars/0"])
        self.output = [arrays[f"dense/vars/{i}"] for i in (0, 1)]

    def keys(self, source: Ids) -> Array:
        """Encode B sources (T, B) as keys, which are also values, (B, T, H)."""
        states, _ = nn.gru(nn.embed(self.source_embedding, source)[0], *self.encoder)  # (T, B, 2H)
        return nn.linear(states, *self.projection)[0].swapaxes(0, 1)

    def start(self, *counts: int) -> Array:
        """Return the decoder's states before the first letter, (*counts, H)."""
        return np.zeros((*counts, self.decoder.state_weight.shape[1]), self.target_embedding.dtype)

    def step(self, letters: Ids, states: Array, keys: Array) -> tuple[Array, Array, Array]:
        """Read letters (B, k); return logits (B, k, V), attention weights (B, k, T) and new states (B, k, H)."""
        cells = self.decoder
        inputs = self.target_embedding[letters] @ cells.input_weight[:, 0] + cells.bias[0]
        states, _ = nn.gru_step(inputs, states @ cells.state_weight[0] + cells.state_bias[0], states)
        attention = attend(states, keys, keys, score=self.score)
        logits, _ = nn.linear(np.concatenate([states, attention.context], axis=-1), *self.output)
        return logits, attention.weights, states

    def forced(self, source: Ids, target: Ids) -> Array:
        """Return the probabilities (B, n, V) of the letters that follow each letter of B targets (n, B)."""
        keys, states = self.keys(source), self.start(source.shape[1], 1)
        probabilities = []
        for letters in target:
            logits, _, states = self.step(letters[:, None], states, keys)
            probabilities.append(softmax(logits, axis=-1))
        return np.concatenate(probabilities, axis=1)


def _cells(arrays: Mapping[str, Array], names: list[str]) -> Cells:
    """Stack the directions; the gates of Keras are (update, reset, candidate), those of `nn.gru` start with reset."""
    weights, state_weights, biases = (
        np.stack([_reset_first(arrays[f"{name}/vars/{i}"]) for name in names]) for i in range(3)
    )
    return Cells(weights.swapaxes(0, 1), biases[:, 0], state_weights, biases[:, 1])


def _reset_first(gates: Array) -> Array:
    update, reset, candidate = np.split(gates, 3, axis=-1)
    return np.concatenate([reset, update, candidate], axis=-1)


def arrays_of(path: Path) -> dict[str, Array]:
    """Return the arrays of the layers in a file of Keras by name."""
    if importlib.util.find_spec("h5py") is None:
        raise Missing("h5py is not installed: pip install '.[bench]'")
    import h5py

    arrays: dict[str, Array] = {}

    def add(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            arrays[name] = node[()]

    with zipfile.ZipFile(path) as packed, h5py.File(io.BytesIO(packed.read("model.weights.h5"))) as file:
        file["layers"].visititems(add)
    return arrays


def alphabet(texts: Iterable[str]) -> list[str]:
    """Return the letters by id, the most frequent first; the first two ids stand for padding and unknown."""
    counts = Counter(letter for text in texts for letter in text)
    return ["", "", *(letter for letter, _ in counts.most_common())]


class Letters:
    """The ids of the letters of both sides."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.latin = {letter: i for i, letter in enumerate(alphabet(latin for latin, _ in pairs))}
        self.khmer = alphabet([START, END, *(khmer for _, khmer in pairs)])
        self.start, self.end = self.khmer.index(START), self.khmer.index(END)

    def sources(self, words: Iterable[str]) -> Ids:
        """Return the ids of words, (T, B)."""
        padded = [[self.latin[c] for c in word] + [0] * (LONGEST_SOURCE - len(word)) for word in words]
        return np.array(padded).T

    def targets(self, words: list[str]) -> Ids:
        """Return the ids of words after the start, padded with zeros, (n, B)."""
        longest = max(map(len, words))
        padded = [[self.start, *map(self.khmer.index, word)] + [0] * (longest - len(word)) for word in words]
        return np.array(padded).T

    def spell(self, ids: Iterable[int]) -> str:
        """Return the word of these ids."""
        return "".join(self.khmer[i] for i in ids if i not in (self.start, self.end))


class Hypothesis(NamedTuple):
    """A hypothesis of the published search."""

    probability: float
    letters: tuple[int, ...]
    state: Array


def published_search(model: Model, keys: Array, letters: Letters, width: int) -> str:
    """Search as the authors of the model do: until `width` hypotheses have ended."""
    beams = [Hypothesis(1.0, (letters.start,), model.start()[()])]
    ended: list[Hypothesis] = []
    while beams and len(ended) < width:
        last, states = (
            np.array([beam.letters[-1] for beam in beams]),
            np.stack([beam.state for beam in beams]),
        )
        logits, _, states = model.step(last[None], states[None], keys[None])
        longer = [
            Hypothesis(beam.probability * float(following[letter]), (*beam.letters, int(letter)), state)
            for beam, following, state in zip(beams, softmax(logits[0], axis=-1), states[0], strict=True)
            for letter in np.argsort(following)[-width:]
            if following[letter] > LEAST
        ]
        is_over = [beam.letters[-1] == letters.end or len(beam.letters) >= LONGEST_TARGET for beam in longer]
        ended += [beam for beam, over in zip(longer, is_over, strict=True) if over]
        beams = [beam for beam, over in zip(longer, is_over, strict=True) if not over]
        beams = sorted(beams, key=lambda beam: -beam.probability)[:width]
    return letters.spell(max(ended + beams, key=lambda beam: beam.probability).letters)


class Network:
    """The model as a network of `regard.seq2seq.decoding.beam`, where start and end have other ids."""

    def __init__(self, model: Model, letters: Letters) -> None:
        self.model = model
        self.order = np.arange(len(letters.khmer))
        for ours, theirs in ((text.START, letters.start), (text.END, letters.end)):
            self.order[[ours, theirs]] = self.order[[theirs, ours]]

    def stepper(self, source: Ids, lengths: Ids, width: int = 1) -> Steps:
        """Encode sources (T, B); their padding is read and attended to, as in training."""
        return Steps(self, self.model.keys(source), self.model.start(source.shape[1], width))


class Steps(Stepper):
    """The steps of the decoder in a search."""

    def __init__(self, network: Network, keys: Array, states: Array) -> None:
        self.network, self.keys, self.states = network, keys, states

    def __call__(self, tokens: Ids, /) -> tuple[Array, Array]:
        """Read tokens (B, k); return logits (B, k, V) and attention weights (B, k, T)."""
        order = self.network.order
        logits, weights, self.states = self.network.model.step(order[tokens], self.states, self.keys)
        return logits[..., order], weights

    def select(self, parents: Ids, /) -> None:
        """Continue the hypotheses (B, k) of each sentence."""
        self.states = np.take_along_axis(self.states, parents[..., None], axis=1)

    def keep(self, sentences: Ids, /) -> None:
        """Continue only these sentences."""
        self.keys, self.states = self.keys[sentences], self.states[sentences]


def our_search(model: Model, source: Ids, letters: Letters, width: int) -> list[str]:
    """Search with `regard.seq2seq.decoding.beam.beam` for the most probable word."""
    network, words = Network(model, letters), list[str]()
    for start in range(0, source.shape[1], BATCH):
        batch = source[:, start : start + BATCH]
        lengths, most = (np.full(batch.shape[1], n) for n in (LONGEST_SOURCE, LONGEST_TARGET - 1))
        best = beam(network, batch, lengths, width=width, scoring=Scoring(length_penalty=0), most=most)
        words += [letters.spell(network.order[list(one.tokens)]) for (one,) in best]
    return words


def difference(path: Path, model: Model, source: Ids, target: Ids) -> str:
    """Compare the probabilities of the letters of the right words with those of Keras; return the line to print."""
    if importlib.util.find_spec("keras") is None:
        return "keras is not installed: no comparison with it"
    os.environ.setdefault("KERAS_BACKEND", _backend())
    import keras

    expected = keras.saving.load_model(path, compile=False).predict([source.T, target.T], verbose=0)
    largest = np.abs(model.forced(source, target) - np.asarray(expected)).max()
    return f"largest difference from Keras {keras.__version__} ({keras.backend.backend()}): {largest:.1e}"


def _backend() -> str:
    return next((name for name in ("jax", "torch", "tensorflow") if importlib.util.find_spec(name)), "numpy")


def rates(words: list[str], references: list[str]) -> tuple[float, float]:
    """Return the mean error rate of the words, and the share of correct words."""
    errors = [edit_distance(word, khmer) / len(khmer) for word, khmer in zip(words, references, strict=True)]
    return float(np.mean(errors)), float(np.mean([error == 0 for error in errors]))


def report(name: str, pairs: list[Pair], model: Model, letters: Letters) -> None:
    """Search with and without a beam, as published and with regard, and print the rates."""
    source = letters.sources(latin for latin, _ in pairs)
    for width in (1, 3):
        for search in ("published", "regard's"):
            start = time.perf_counter()
            if search == "published":
                words = [published_search(model, keys, letters, width) for keys in model.keys(source)]
            else:
                words = our_search(model, source, letters, width)
            seconds = time.perf_counter() - start
            errors, correct = rates(words, [khmer for _, khmer in pairs])
            published = PUBLISHED.get((name, width), "") if search == "published" else ""
            print(
                f"{name:<12}{len(pairs):>7,}   {search:<10}{width:>4}{errors:>19.2%}{correct:>14.2%}   {published:<15}"
                f"{seconds:>7.1f} s",
                flush=True,
            )


def main() -> None:
    """Compare the probabilities with Keras, then measure the error rates of both fifths."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", type=int, metavar="N", help="only the first N of each fifth")
    count = parser.parse_args().words
    path, pairs = netra()
    model, letters = Model(arrays_of(path)), Letters(pairs)
    compared = pairs[:COMPARED]
    sources = letters.sources(latin for latin, _ in compared)
    print(difference(path, model, sources, letters.targets([khmer for _, khmer in compared])))
    brodae = published_search(model, model.keys(letters.sources(["brodae"]))[0], letters, 3)
    print(f"brodae: {brodae} (as published: ប្រដែ)\n")
    print("pairs         count   search    beam   character errors words correct   published            time")
    parts = {"first fifth": pairs[: len(pairs) // 5], "last fifth": pairs[int(0.8 * len(pairs)) :]}
    for name, part in parts.items():
        report(name, part[:count], model, letters)


if __name__ == "__main__":
    run(main)

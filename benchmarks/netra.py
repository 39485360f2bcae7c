"""A stranger's trained model on this package's parts: netra-transliterate, Latin letters to Khmer.

    python benchmarks/netra.py [--words 1000]

The model is an encoder-decoder trained with Keras: a bidirectional GRU, a GRU, additive attention between them. Here
it runs on `nn.gru`, `nn.gru_step`, `attend`, `scores.additive` and, beside the authors' own search,
`regard.seq2seq.decoding.beam`. Printed are the largest difference of its probabilities from Keras's own (where keras is
installed; any backend will do), and its error rates: the mean over words of edit distance / length.

Published are a validation character error rate of 15.07 % with a beam of 3, and 44.44 % of the words right with none.
The authors' notebook measures the former on the first fifth of the pairs, though Keras keeps the last fifth out of
training; the latter fits the last fifth. Both are measured here: the first fifth was trained on, the last was not.

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
from regard.seq2seq.data import vocabulary as text
from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.decoding.hypothesis import Scoring
from regard.seq2seq.evaluation.metrics import edit_distance
from regard.seq2seq.networks.base import Stepper

Array = NDArray[Any]
Ids = NDArray[np.int64]

START, END = "\t", "\n"
LONGEST_SOURCE, LONGEST_TARGET = (
    25,
    32,
)  # letters; a source is filled up with zeros, which are read like letters
LEAST = 1e-8  # a less probable letter is not followed
PUBLISHED = {("first fifth", 3): "15.07 % errors", ("last fifth", 1): "44.44 % right"}
TOGETHER = 128  # words that are searched at a time
FORCED = 256  # words whose probabilities are compared with Keras's


class Cells(NamedTuple):
    """GRUs in K directions as `nn.gru` has them; Keras adds a bias on the state's side, too."""

    input_weight: Array  # (E, K, 3H)
    bias: Array  # (K, 3H)
    state_weight: Array  # (K, H, 3H)
    state_bias: Array  # (K, 3H)


class Model:
    """The model, from the arrays of its file by name."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.source_embedding = arrays["embedding/vars/0"]
        self.target_embedding = arrays["embedding_1/vars/0"]
        directions = [f"bidirectional/{name}_layer/cell" for name in ("forward", "backward")]
        self.encoder, self.decoder = _cells(arrays, directions), _cells(arrays, ["gru/cell"])
        self.projection = [arrays[f"time_distributed/layer/vars/{i}"] for i in (0, 1)]
        self.score = scores.additive(None, None, arrays["additive_attention/vars/0"])
        self.output = [arrays[f"dense/vars/{i}"] for i in (0, 1)]

    def keys(self, source: Ids) -> Array:
        """Encode B sources (T, B): keys and values (B, T, H)."""
        states, _ = nn.gru(nn.embed(self.source_embedding, source)[0], *self.encoder)  # (T, B, 2H)
        return nn.linear(states, *self.projection)[0].swapaxes(0, 1)

    def start(self, *counts: int) -> Array:
        """Return the decoder's states before the first letter, (*counts, H)."""
        return np.zeros((*counts, self.decoder.state_weight.shape[1]), self.target_embedding.dtype)

    def step(self, words: Ids, states: Array, keys: Array) -> tuple[Array, Array, Array]:
        """Read letters (B, k): logits (B, k, V) of the next, where it looked (B, k, T), states (B, k, H) after."""
        cells = self.decoder
        inputs = self.target_embedding[words] @ cells.input_weight[:, 0] + cells.bias[0]
        states, _ = nn.gru_step(inputs, states @ cells.state_weight[0] + cells.state_bias[0], states)
        seen = attend(states, keys, keys, score=self.score)
        logits, _ = nn.linear(np.concatenate([states, seen.context], axis=-1), *self.output)
        return logits, seen.weights, states

    def forced(self, source: Ids, target: Ids) -> Array:
        """Return the probabilities (B, n, V) of what follows each letter of B targets (n, B)."""
        keys, states = self.keys(source), self.start(source.shape[1], 1)
        found = []
        for words in target:
            logits, _, states = self.step(words[:, None], states, keys)
            found.append(softmax(logits, axis=-1))
        return np.concatenate(found, axis=1)


def _cells(arrays: Mapping[str, Array], names: list[str]) -> Cells:
    """Collect the directions; Keras has the gates as (update, reset, candidate), here reset comes first."""
    weights, state_weights, biases = (
        np.stack([_reset_first(arrays[f"{name}/vars/{i}"]) for name in names]) for i in range(3)
    )
    return Cells(weights.swapaxes(0, 1), biases[:, 0], state_weights, biases[:, 1])


def _reset_first(gates: Array) -> Array:
    update, reset, candidate = np.split(gates, 3, axis=-1)
    return np.concatenate([reset, update, candidate], axis=-1)


def arrays_of(path: Path) -> dict[str, Array]:
    """Return the layers' arrays in a file of Keras's by name."""
    if importlib.util.find_spec("h5py") is None:
        raise Missing("h5py is not installed: pip install '.[bench]'")
    import h5py

    found: dict[str, Array] = {}

    def keep(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            found[name] = node[()]

    with zipfile.ZipFile(path) as packed, h5py.File(io.BytesIO(packed.read("model.weights.h5"))) as file:
        file["layers"].visititems(keep)
    return found


def alphabet(texts: Iterable[str]) -> list[str]:
    """Return the letters by number, numbered by how often they come: the first two stand for padding and unknown."""
    counts = Counter(letter for text in texts for letter in text)
    return ["", "", *(letter for letter, _ in counts.most_common())]


class Letters:
    """Numbers for the letters of both sides, as the model has them."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.latin = {letter: i for i, letter in enumerate(alphabet(latin for latin, _ in pairs))}
        self.khmer = alphabet([START, END, *(khmer for _, khmer in pairs)])
        self.start, self.end = self.khmer.index(START), self.khmer.index(END)

    def sources(self, words: Iterable[str]) -> Ids:
        """Return the numbers of words, (T, B)."""
        filled = [[self.latin[c] for c in word] + [0] * (LONGEST_SOURCE - len(word)) for word in words]
        return np.array(filled).T

    def targets(self, words: list[str]) -> Ids:
        """Return the numbers of words, begun by the start and filled up with zeros, (n, B)."""
        longest = max(map(len, words))
        filled = [[self.start, *map(self.khmer.index, word)] + [0] * (longest - len(word)) for word in words]
        return np.array(filled).T

    def spell(self, numbers: Iterable[int]) -> str:
        """Return the word that these numbers are."""
        return "".join(self.khmer[i] for i in numbers if i not in (self.start, self.end))


class Beam(NamedTuple):
    """A hypothesis."""

    probability: float
    words: tuple[int, ...]
    state: Array


def published_search(model: Model, keys: Array, letters: Letters, width: int) -> str:
    """Search as the model's authors do: whatever ends is kept, and the search ends when `width` hypotheses have."""
    beams = [Beam(1.0, (letters.start,), model.start()[()])]
    ended: list[Beam] = []
    while beams and len(ended) < width:
        last, states = np.array([beam.words[-1] for beam in beams]), np.stack([beam.state for beam in beams])
        logits, _, states = model.step(last[None], states[None], keys[None])
        longer = [
            Beam(beam.probability * float(found[word]), (*beam.words, int(word)), state)
            for beam, found, state in zip(beams, softmax(logits[0], axis=-1), states[0], strict=True)
            for word in np.argsort(found)[-width:]
            if found[word] > LEAST
        ]
        over = [beam.words[-1] == letters.end or len(beam.words) >= LONGEST_TARGET for beam in longer]
        ended += [beam for beam, is_over in zip(longer, over, strict=True) if is_over]
        beams = [beam for beam, is_over in zip(longer, over, strict=True) if not is_over]
        beams = sorted(beams, key=lambda beam: -beam.probability)[:width]
    return letters.spell(max(ended + beams, key=lambda beam: beam.probability).words)


class Network:
    """The model as `regard.seq2seq.decoding.beam` asks for it: start and end have other numbers there."""

    def __init__(self, model: Model, letters: Letters) -> None:
        self.model = model
        self.order = np.arange(len(letters.khmer))
        for ours, theirs in ((text.START, letters.start), (text.END, letters.end)):
            self.order[[ours, theirs]] = self.order[[theirs, ours]]

    def stepper(self, source: Ids, lengths: Ids, width: int = 1) -> Steps:
        """Begin with sources (T, B); their padding is read and looked at, as it was in training."""
        return Steps(self, self.model.keys(source), self.model.start(source.shape[1], width))


class Steps(Stepper):
    """The decoder's steps for a search."""

    def __init__(self, network: Network, keys: Array, states: Array) -> None:
        self.network, self.keys, self.states = network, keys, states

    def __call__(self, words: Ids, /) -> tuple[Array, Array]:
        """Read the words before (B, k); return logits (B, k, V) and weights (B, k, T)."""
        order = self.network.order
        logits, weights, self.states = self.network.model.step(order[words], self.states, self.keys)
        return logits[..., order], weights

    def select(self, parents: Ids, /) -> None:
        """Go on as hypotheses (B, k) of each sentence."""
        self.states = np.take_along_axis(self.states, parents[..., None], axis=1)

    def keep(self, sentences: Ids, /) -> None:
        """Go on with these sentences only."""
        self.keys, self.states = self.keys[sentences], self.states[sentences]


def our_search(model: Model, source: Ids, letters: Letters, width: int) -> list[str]:
    """Search with `regard.seq2seq.decoding.beam.beam`, for the most probable word."""
    network, found = Network(model, letters), []
    for start in range(0, source.shape[1], TOGETHER):
        some = source[:, start : start + TOGETHER]
        lengths, most = (np.full(some.shape[1], n) for n in (LONGEST_SOURCE, LONGEST_TARGET - 1))
        best = beam(network, some, lengths, width=width, scoring=Scoring(length_penalty=0), most=most)
        found += [letters.spell(network.order[list(one.tokens)]) for (one,) in best]
    return found


def difference(path: Path, model: Model, source: Ids, target: Ids) -> str:
    """Say how far the probabilities are from Keras's, letter for letter of the right answers."""
    if importlib.util.find_spec("keras") is None:
        return "keras is not installed, so nothing is compared with it"
    os.environ.setdefault("KERAS_BACKEND", _backend())
    import keras

    theirs = keras.saving.load_model(path, compile=False).predict([source.T, target.T], verbose=0)
    largest = np.abs(model.forced(source, target) - np.asarray(theirs)).max()
    return f"largest difference from Keras {keras.__version__} ({keras.backend.backend()}): {largest:.1e}"


def _backend() -> str:
    return next((name for name in ("jax", "torch", "tensorflow") if importlib.util.find_spec(name)), "numpy")


def rates(found: list[str], right: list[str]) -> tuple[float, float]:
    """Return the mean error rate of the words, and the share that is right."""
    errors = [edit_distance(word, khmer) / len(khmer) for word, khmer in zip(found, right, strict=True)]
    return float(np.mean(errors)), float(np.mean([error == 0 for error in errors]))


def report(name: str, pairs: list[Pair], model: Model, letters: Letters) -> None:
    """Search with and without a beam, as published and as here, and print the rates."""
    source = letters.sources(latin for latin, _ in pairs)
    for width in (1, 3):
        for search in ("published", "regard's"):
            start = time.perf_counter()
            if search == "published":
                keys = model.keys(source)
                found = [published_search(model, its, letters, width) for its in keys]
            else:
                found = our_search(model, source, letters, width)
            seconds = time.perf_counter() - start
            errors, right = rates(found, [khmer for _, khmer in pairs])
            known = PUBLISHED.get((name, width), "") if search == "published" else ""
            print(
                f"{name:<12}{len(pairs):>7,}   {search:<10}{width:>4}{errors:>19.2%}{right:>14.2%}   {known:<15}"
                f"{seconds:>7.1f} s",
                flush=True,
            )


def main() -> None:
    """Compare with Keras, then measure both fifths."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", type=int, metavar="N", help="only the first N of each fifth")
    count = parser.parse_args().words
    path, pairs = netra()
    model, letters = Model(arrays_of(path)), Letters(pairs)
    few = pairs[:FORCED]
    sources = letters.sources(latin for latin, _ in few)
    print(difference(path, model, sources, letters.targets([khmer for _, khmer in few])))
    brodae = published_search(model, model.keys(letters.sources(["brodae"]))[0], letters, 3)
    print(f"brodae: {brodae} (as published: ប្រដែ)\n")
    print("pairs         count   search    beam   character errors   words right   published            time")
    parts = {"first fifth": pairs[: len(pairs) // 5], "last fifth": pairs[int(0.8 * len(pairs)) :]}
    for name, part in parts.items():
        report(name, part[:count], model, letters)


if __name__ == "__main__":
    run(main)

"""Print how well speakers are recognised by frames of their speech, next to plain baselines.

    python benchmarks/measurements.py [--seeds 1 2 3] [--quick]

The frames are those of 640 utterances of the same two vowels by nine men (see `data.vowels`), split as their authors
did; the models read them with `Vectors(12)` and write the name of the speaker.

one       One utterance, one name. Baselines: the nearest training utterance, by dynamic time warping, and by Euclidean
          distance of utterances that are stretched to 29 frames; softmax regression on the mean of all frames, and on
          the frames of utterances stretched to 8, standardised, with a penalty on the weights that five folds of the
          training set have chosen.
several   Two to four utterances one after the other without a pause, as many names in their order: 2,000 sequences of
          training utterances, 500 of the test's. The table has how many sequences and how many names are right, and
          for how many names the most attended frame is of the utterance that they name.

Models with and without attention differ in nothing else. Means over the seeds, and the smallest and largest value. The
models stay in runs/measurements; remove that folder to train anew.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from trial import header, load_or_train

from data import SPEAKERS, Spoken, run, vowels
from regard.seq2seq import Seq2Seq, Translation, Vectors

LONGEST, STRETCHED = 29, 8  # frames
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)
FOLDS = 5
SEQUENCES, TEST_SEQUENCES, EPOCHS = 2000, 500, 8
COUNTS = (2, 3, 4)  # utterances of a sequence
MODELS = {"with attention": True, "without attention": False}

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


# --- baselines


def stretched(frames: Array, count: int) -> Array:
    """Interpolate frames (m, 12) to so many."""
    positions = np.linspace(0, len(frames) - 1, count)
    return np.stack([np.interp(positions, np.arange(len(frames)), column) for column in frames.T], axis=1)


def warped(frames: Array, others: Sequence[Array]) -> Array:
    """Return the distances by dynamic time warping: squared distances of frames, summed along the best path."""
    padded = np.stack([np.pad(other, ((0, LONGEST - len(other)), (0, 0))) for other in others])
    apart = np.square(frames[:, None, None] - padded).sum(-1)  # (m, N, LONGEST)
    total = np.full((len(frames) + 1, LONGEST + 1, len(others)), np.inf)
    total[0, 0] = 0
    for i in range(len(frames)):
        for j in range(LONGEST):
            total[i + 1, j + 1] = apart[i, :, j] + np.minimum(
                np.minimum(total[i, j], total[i, j + 1]), total[i + 1, j]
            )
    return np.array([total[-1, len(other), n] for n, other in enumerate(others)])


def nearest(distance: Callable[[Array], Array], train: Sequence[Spoken], test: Sequence[Spoken]) -> float:
    """Return the accuracy of the nearest neighbour."""
    predicted = [train[int(distance(one.frames).argmin())].speaker for one in test]
    return float(np.mean([speaker == one.speaker for speaker, one in zip(predicted, test, strict=True)]))


class Regression(NamedTuple):
    """Softmax regression on standardised features."""

    mean: Array
    scale: Array
    weight: Array  # (features + 1, speakers)

    @classmethod
    def fit(cls, x: Array, labels: Labels, penalty: float) -> Regression:
        """Minimise the mean loss plus half the penalty times the sum of squared weights."""
        mean, scale = x.mean(0), x.std(0)
        rows, shape = _rows((x - mean) / scale), (x.shape[1] + 1, len(SPEAKERS))
        right = np.eye(len(SPEAKERS))[labels]

        def loss(flat: Array) -> tuple[float, Array]:
            weight = flat.reshape(shape)
            logits = rows @ weight
            logits -= logits.max(1, keepdims=True)
            probabilities = np.exp(logits)
            probabilities /= probabilities.sum(1, keepdims=True)
            gradient = rows.T @ (probabilities - right) / len(rows) + penalty * weight
            value = -np.log((probabilities * right).sum(1)).mean() + penalty / 2 * np.square(weight).sum()
            return float(value), gradient.ravel()

        result = minimize(
            loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500}
        )
        return cls(mean, scale, result.x.reshape(shape))

    def accuracy(self, x: Array, labels: Labels) -> float:
        """Return the share that is recognised."""
        predicted = (_rows((x - self.mean) / self.scale) @ self.weight).argmax(1)
        return float((predicted == labels).mean())


def _rows(x: Array) -> Array:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def regression(features: Callable[[Array], Array], train: Sequence[Spoken], test: Sequence[Spoken]) -> float:
    """Return the accuracy of softmax regression, with the penalty that is best in cross-validation."""
    x, y = (np.stack([features(one.frames) for one in part]) for part in (train, test))
    known, test_labels = (np.array([SPEAKERS.index(one.speaker) for one in part]) for part in (train, test))
    fold = np.arange(len(x)) % FOLDS  # the utterances are sorted by speaker

    def validated(penalty: float) -> float:
        parts = [(fold != i, fold == i) for i in range(FOLDS)]
        return float(
            np.mean([Regression.fit(x[a], known[a], penalty).accuracy(x[b], known[b]) for a, b in parts])
        )

    return Regression.fit(x, known, max(PENALTIES, key=validated)).accuracy(y, test_labels)


def baselines(train: Sequence[Spoken], test: Sequence[Spoken]) -> dict[str, float]:
    """Return the accuracy of each baseline."""
    others = [one.frames for one in train]
    flat = np.stack([stretched(frames, LONGEST).ravel() for frames in others])
    return {
        "nearest, time warping": nearest(lambda x: warped(x, others), train, test),
        "nearest, Euclidean": nearest(
            lambda x: np.square(flat - stretched(x, LONGEST).ravel()).sum(1), train, test
        ),
        "regression, mean": regression(lambda x: x.mean(0), train, test),
        "regression, frames": regression(lambda x: stretched(x, STRETCHED).ravel(), train, test),
    }


# --- models


class Sequences(NamedTuple):
    """Frames of utterances in a row, the names of the speakers, and the end of each utterance."""

    frames: list[Array]
    names: list[str]
    ends: list[Labels]


def joined(spoken: Sequence[Spoken], count: int, rng: np.random.Generator) -> Sequences:
    """Draw utterances and put them one after the other."""
    chosen = [[spoken[i] for i in rng.integers(len(spoken), size=rng.choice(COUNTS))] for _ in range(count)]
    return Sequences(
        [np.concatenate([one.frames for one in some]) for some in chosen],
        [" ".join(one.speaker for one in some) for some in chosen],
        [np.cumsum([len(one.frames) for one in some]) for some in chosen],
    )


def single(spoken: Sequence[Spoken]) -> Sequences:
    """Take each utterance alone."""
    return Sequences(*map(list, zip(*[(x, name, np.array([len(x)])) for x, name in spoken], strict=True)))


def scores(model: Seq2Seq, test: Sequences) -> list[float]:
    """Return the shares of sequences and of names that are right, and of right names attended where they should be."""
    translations = model.translate(test.frames)
    exact = [one.text == names for one, names in zip(translations, test.names, strict=True)]
    right = [
        (i, position)
        for i, names in enumerate(test.names)
        for position, pair in enumerate(zip(names.split(), translations[i].tokens, strict=False))
        if pair[0] == pair[1]
    ]
    inside = (
        [_inside(translations[i], position, test.ends[i]) for i, position in right] if model.attention else []
    )
    return [
        float(np.mean(exact)),
        len(right) / sum(len(names.split()) for names in test.names),
        float(np.mean(inside)) if inside else float("nan"),
    ]


def _inside(translation: Translation, position: int, ends: Labels) -> bool:
    """Return whether the most attended frame of a name is of the utterance at its place."""
    assert translation.alignment is not None
    return bool(np.searchsorted(ends, translation.alignment[position].argmax(), side="right") == position)


def line(part: str, name: str, *columns: Sequence[float]) -> None:
    """Print means in percent, and the smallest and largest of several."""
    cells = []
    for values in columns:
        mean, low, high = (100 * f(values) for f in (np.mean, np.min, np.max))
        between = f" ({low:.1f}-{high:.1f})" if len(values) > 1 else ""
        cells.append(f"{mean:.1f}{between}" if np.isfinite(mean) else "-")
    print(f"{part:<9}{name:<24}" + "".join(f"{cell:>21}" for cell in cells), flush=True)


def compare(part: str, train: Sequences, test: Sequences, seeds: Sequence[int], **options: Any) -> None:
    """Train both models with each seed and print their scores."""
    for name, attention in MODELS.items():
        shares = [scores(trained(part, train, attention, seed, options), test) for seed in seeds]
        line(part, name, *zip(*shares, strict=True))


def trained(part: str, train: Sequences, attention: bool, seed: int, options: Mapping[str, Any]) -> Seq2Seq:
    """Return a model; train it if there is none yet."""
    name = f"measurements/{part}-{len(train.names)}-{'attention' if attention else 'without'}-{seed}"
    model = Seq2Seq(source=Vectors(12), attention=attention, seed=seed, **options)
    return load_or_train(name, lambda: model.fit(train.frames, train.names))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument(
        "--quick", action="store_true", help="one seed and fewer sequences, to try the script"
    )
    args = parser.parse_args()
    seeds, count = (args.seeds[:1], SEQUENCES // 10) if args.quick else (args.seeds, SEQUENCES)
    train, test = vowels()
    header(
        f"{len(train)} utterances for training, {len(test)} for the test; seeds {', '.join(map(str, seeds))}"
    )
    print(f"{'':<33}{'all right %':>21}{'names right %':>21}{'attended inside %':>21}")
    for name, accuracy in baselines(train, test).items():
        line("one", name, [accuracy])
    compare("one", single(train), single(test), seeds)
    rng = np.random.default_rng(1)
    several = joined(train, count, rng), joined(test, TEST_SEQUENCES, rng)
    compare("several", *several, seeds, epochs=EPOCHS)


if __name__ == "__main__":
    run(main)

"""Does attention say what matters? Print how well weights agree with erasure, for five networks and four tasks.

    python benchmarks/faithfulness.py [--seeds 1 2 3] [--tasks planted translation captions sounds] [--kept]

Each network learns for a fixed number of steps and is kept in `runs/faithfulness`: a second call goes on where the
first has ended. Then for each output token of held-out items each input is erased in turn, and

- *weights*: the attention weights of the step,
- *posterior*: the weights given the token that followed (`regard.seq2seq.networks.recurrent.posterior`),
- *contribution*: the length of the vector that each input adds, and
- *random*: an order drawn by lot

are compared with what the token's log-probability has lost, as ``regard evaluate --faithfulness`` does. The tasks:

- *planted*: six different letters are written as capitals in the order of a fixed permutation, so that the one
  letter that matters for each output is known, and importance and weights are compared with it, too;
- *translation*: LibreOffice's help, English to French, at most 10 tokens on a side; guided: by the posterior
  attention of the first conditional model;
- *captions*: scenes of handwritten digits (data/digits); the inputs are the 100 cells of the picture;
- *sounds*: a tenth of CMUdict, letters to sounds; guided: by `regard.seq2seq.alignment.monotonic`.

*sparsemax* is the conditional network with that in place of the softmax.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from record import Row, add_option, keep, save, spread
from trial import RUNS, Side, header, load_or_train, sides

from data import load_module, run
from regard.attribution import Measure, agreement
from regard.commands.evaluate.faithfulness import compare_with_erasure
from regard.seq2seq import Images, Seq2Seq, TrainingConfig, read_pairs
from regard.seq2seq.alignment.links import links
from regard.seq2seq.alignment.monotonic import align_pairs
from regard.seq2seq.evaluation.metrics import exact
from regard.seq2seq.sources.text.tokenizers import tokenize
from regard.show.progress import Progress

DATA = Path(__file__).parents[1] / "data"
LONGEST = 10  # tokens of a side
LETTERS, PLACES = "abcdefghijkl", (3, 0, 5, 1, 4, 2)  # output i is written for letter PLACES[i]
SIZES = {"embedding": 64, "encoder": 48, "decoder": 64}
NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "conditional": {**SIZES, "style": "conditional", "attention": 48},
    "Bahdanau": {**SIZES, "style": "bahdanau", "attention": 48},
    "transformer": {"model_size": 64, "feedforward_size": 128, "encoder_layers": 2, "decoder_layers": 2},
    "Luong": {**SIZES, "style": "luong", "score": "general"},
    "sparsemax": {**SIZES, "style": "conditional", "attention": 48, "normalize": "sparsemax"},
}


class Data(NamedTuple):
    """Pairs of a task."""

    train: Sequence[Any]
    valid: Sequence[Any]
    test: Sequence[Any]


class Task(NamedTuple):
    """A task: its data, options of `Seq2Seq` and of training, the networks, and the links that guide them."""

    data: Callable[[], Data]
    options: Mapping[str, Any]
    training: Mapping[str, Any]
    networks: Sequence[str] = tuple(NETWORKS)
    guide: Callable[[], Sequence[frozenset[tuple[int, int]]]] | None = None


class Trial(NamedTuple):
    """A model of a task."""

    task: str
    network: str
    guided: bool
    seed: int

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"faithfulness/{self.task}-{self.network}-{'guided-' * self.guided}{self.seed}"

    @property
    def path(self) -> Path:
        """The file of what was measured."""
        return RUNS / f"{self.name}.json"


# --- the tasks


@cache
def planted() -> Data:
    """Draw letters, and write their capitals in the order of the permutation."""
    rng = np.random.default_rng(1)

    def pair() -> tuple[str, str]:
        letters = rng.permutation(list(LETTERS))[: len(PLACES)]
        return "".join(letters), " ".join(letters[place].upper() for place in PLACES)

    drawn = list(dict.fromkeys(pair() for _ in range(4_200)))
    return Data(drawn[:-100], drawn[-100:-50], drawn[-50:])


@cache
def translation() -> Data:
    """Return short pairs of LibreOffice's help."""
    train, valid, test = (
        [pair for pair in read_pairs(DATA / "help-en-fr" / f"{part}.tsv.gz") if is_short(pair)]
        for part in ("train", "valid", "test")
    )
    asked = dict(pair for pair in test if len(tokenize(pair[0])) > 3)
    return Data(train, valid, [*asked.items()][:60])


def is_short(pair: Sequence[str]) -> bool:
    """Return whether both sides are short."""
    return all(len(tokenize(side)) <= LONGEST for side in pair)


@cache
def help_links() -> list[frozenset[tuple[int, int]]]:
    """Link the training pairs by the posterior attention of the first conditional model."""
    model = trained(Trial("translation", "conditional", False, 1))
    aligned = model.align(*sides(translation().train), posterior=True)
    return [links(each.full_alignment()[0]) for each in aligned]


@cache
def captions(test: int = 20) -> Data:
    """Draw scenes, so many of them for the test."""
    scenes = load_module(DATA / "digits" / "scenes.py")
    parts = {"train": 6_000, "valid": 200, "test": test}
    drawn = (scenes.draw_scenes(scenes.read_digits(), *part, 1) for part in parts.items())
    return Data(*([(scene.picture, scene.caption) for scene in part] for part in drawn))


@cache
def sounds() -> Data:
    """Return words of CMUdict, those of the test between those of the training."""
    lines = (DATA / "cmudict" / "words.dict").read_text(encoding="utf-8").splitlines()
    words = {
        name: written for name, _, written in (entry.partition(" ") for entry in lines) if "(" not in name
    }
    pairs = [pair for pair in words.items() if 3 < len(pair[0]) <= 14]
    return Data([p for i, p in enumerate(pairs) if i % 40 > 1], pairs[::40], pairs[1::40][:60])


def sound_links() -> list[frozenset[tuple[int, int]]]:
    """Link letters and sounds from left to right."""
    return align_pairs([(word, written.split()) for word, written in sounds().train])


TASKS: Mapping[str, Task] = {
    "planted": Task(
        planted,
        {"source": "characters", "target": "tokens"},
        {"steps": 1_000, "dropout": 0.1},
        ["conditional", "Bahdanau", "transformer", "Luong"],
    ),
    "translation": Task(translation, {"max_tokens": LONGEST}, {"steps": 2_000}, guide=help_links),
    "captions": Task(
        captions,
        {"source": Images(40, 40)},
        {"steps": 2_000, "batch_tokens": 3_200, "dropout": 0.1, "label_smoothing": 0.0},
        ["conditional"],
    ),
    "sounds": Task(
        sounds,
        {"source": "characters", "target": "tokens"},
        {
            "steps": 2_000,
            "learning_rate": 2.5e-3,
            "batch_tokens": 512,
            "dropout": 0.1,
            "label_smoothing": 0.0,
        },
        ["conditional"],
        sound_links,
    ),
}


# --- the models


def trials(tasks: Sequence[str], seeds: Sequence[int]) -> Iterator[Trial]:
    """Yield all models, those of the first seed first."""
    for seed in seeds:
        for task in tasks:
            for network in TASKS[task].networks:
                yield from (Trial(task, network, guided, seed) for guided in kinds(task, network))


def kinds(task: str, network: str) -> tuple[bool, ...]:
    """Return whether models of a task are guided: where there are links, also those with a softmax."""
    return (False, True) if TASKS[task].guide and network != "sparsemax" else (False,)


def untrained(trial: Trial) -> Seq2Seq:
    """Return the model before its training."""
    task = TASKS[trial.task]
    family = "transformer" if trial.network == "transformer" else "recurrent"
    training = TrainingConfig(**task.training, seed=trial.seed)
    return Seq2Seq(family=family, network=NETWORKS[trial.network], training=training, **task.options)


def trained(trial: Trial) -> Seq2Seq:
    """Train a model, or return the one that has been kept."""
    task = TASKS[trial.task]

    def train() -> Seq2Seq:
        data, guide = task.data(), task.guide() if trial.guided and task.guide else None
        return untrained(trial).fit(*sides(data.train), valid=sides(data.valid), links=guide)

    return load_or_train(trial.name, train)


# --- what is measured


def measured(trial: Trial) -> Row:
    """Measure a model, or return what has been measured: each kind of importance as [low, mean, high]."""
    if not trial.path.exists():
        trial.path.write_text(json.dumps(measure(trial)), encoding="utf-8")
    stored: Row = json.loads(trial.path.read_text(encoding="utf-8"))
    return stored


def measure(trial: Trial) -> Row:
    """Compare the importance of the inputs of held-out items with erasure, and with what is planted."""
    model, (sources, targets) = trained(trial), sides(TASKS[trial.task].data().test)
    texts = [translation.text for translation in model.translate(sources)]
    chosen = [i for i, text in enumerate(texts) if text]
    with Progress(len(chosen), trial.name) as progress:
        compared = compare_with_erasure(
            model, [sources[i] for i in chosen], [texts[i] for i in chosen], progress.advance
        )
    kinds: dict[str, Any] = {
        kind: {name: [each.low, each.value, each.high] for name, each in faithful._asdict().items()}
        for kind, faithful in compared.kinds.items()
    }
    if trial.task == "planted":
        for kind, top in with_planted(model, sources, targets, texts).items():
            kinds[kind]["planted"] = [top.low, top.value, top.high]
    return {"items": compared.items, "right": exact(texts, [*map(str, targets)]), "kinds": kinds}


def with_planted(
    model: Seq2Seq, sources: Sequence[Side], targets: Sequence[Side], texts: Sequence[str]
) -> dict[str, Measure]:
    """Compare erasure, weights and contributions of right answers with the letter that each output is written for."""
    right = [i for i, text in enumerate(texts) if text == targets[i]]
    answers = model.align([sources[i] for i in right], [targets[i] for i in right])
    letters = [np.eye(len(PLACES))[list(PLACES)]] * len(right)
    kinds: dict[str, Any] = {
        "weights": [each.alignment for each in answers],
        "contribution": [model.contributions(each) for each in answers],
        "erasure": [model.erasure(each) for each in answers],
    }
    return {
        kind: agreement([each[:, :-1] for each in of], letters).top for kind, of in kinds.items() if right
    }


def together(seeds: Sequence[Trial]) -> Iterator[Row]:
    """Yield a row for each kind of importance: means over the seeds, and the outermost bounds of their intervals."""
    found = [measured(trial) for trial in seeds]
    task, network, guided, _ = seeds[0]
    about: Row = {"task": task, "network": network, "guided": guided, "seeds": len(seeds)}
    about["items"] = found[0]["items"]
    about["right"] = spread(row["right"] for row in found)
    for kind, names in found[0]["kinds"].items():
        figures = {
            name: [row["kinds"][kind][name] for row in found if name in row["kinds"][kind]] for name in names
        }
        yield about | {"kind": kind} | {name: across(each) for name, each in figures.items()}


def across(intervals: Sequence[Sequence[float]]) -> list[float]:
    """Return the lowest bound, the mean and the highest bound."""
    low, value, high = zip(*intervals, strict=True)
    return [min(low), float(np.mean(value)), max(high)]


def line(row: Row) -> str:
    """Return a line of the table."""
    names = "planted", "top", "correlation", "comprehensiveness", "sufficiency"
    cells = ("{1:.3f} ({0:.3f} to {2:.3f})".format(*row[name]) if name in row else "-" for name in names)
    name = f"{row['task']}, {row['network']}{', guided' * row['guided']}: {row['kind']}"
    return f"{name:<48}" + "".join(f"{cell:>26}" for cell in cells)


def main() -> None:
    """Train all models that are not there, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="N")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--kept", action="store_true", help="train none: only the models that were measured")
    add_option(parser)
    args = parser.parse_args()
    header(f"tasks {', '.join(args.tasks)}, seeds {args.seeds}")
    chosen = [trial for trial in trials(args.tasks, args.seeds) if not args.kept or trial.path.exists()]
    for trial in chosen:
        measured(trial)
    for about in dict.fromkeys(trial[:3] for trial in chosen):
        for row in together([trial for trial in chosen if trial[:3] == about]):
            keep(**row)
            print(line(row), flush=True)
    save(args.json)


if __name__ == "__main__":
    run(main)

"""What do other normalisations of a decoder's attention give? Three tasks, at equal steps.

    python benchmarks/normalizations.py [--tasks translation captions sounds] [--names softmax sparsemax] [--steps 300]
        [--kept]

The tasks and sizes are those of `faithfulness.py`; the network is its conditional one. Of held-out items this prints
BLEU, of captions the errors for 100 words, of sounds the share of wrong answers; the share of weights that are exactly
0; how often the largest weight of an output is that of the input whose erasure it loses most by, of as many items as
there; and the training steps in a second of processor time, of a training of 30 steps. Softmax is trained by one call
of the library for all decoder steps, the others step by step, hard attention with positions that are drawn. Finished
rows and models are in `runs/normalizations`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from faithfulness import NETWORKS, TASKS, captions
from record import Row, add_option, keep, save
from trial import RUNS, header, load_or_train, sides

from data import run
from regard.commands.evaluate.faithfulness import compare_with_erasure
from regard.seq2seq import Seq2Seq, TrainingConfig
from regard.seq2seq.evaluation.metrics import bleu, error_rate, exact
from regard.seq2seq.translator import Translation

NAMES = ("softmax", "sparsemax", "entmax", "sigmoid", "relu", "hard", "local_m", "local_p")
SPEED_STEPS = 30
ORDERED = ("translation", "sounds")  # tasks whose sources have positions
CAPTIONED = 500  # scenes of the test
QUALITIES = {"bleu": "BLEU", "errors": "% errors", "wrong": "% wrong"}


def measured(task: str, name: str, steps: int) -> Row:
    """Train and measure a model, or return what has been measured."""
    path = path_of(task, name, steps)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(measure(task, name, steps)), encoding="utf-8")
    row: Row = json.loads(path.read_text(encoding="utf-8"))
    return row


def path_of(task: str, name: str, steps: int) -> Path:
    """Return the file of what has been measured."""
    return RUNS / "normalizations" / f"{task}-{name}-{steps}.json"


def trained(task: str, name: str, steps: int) -> Seq2Seq:
    """Train a model of a task."""
    data, known = TASKS[task].data(), TASKS[task]
    training = TrainingConfig(**{**known.training, "steps": steps}, seed=1)
    network: dict[str, Any] = {**NETWORKS["conditional"], "normalize": name}
    model = Seq2Seq(network=network, training=training, **known.options)
    return model.fit(*sides(data.train), valid=sides(data.valid))


def measure(task: str, name: str, steps: int) -> Row:
    """Train a model, and measure it on held-out items."""
    model = load_or_train(f"normalizations/{task}-{name}-{steps}", lambda: trained(task, name, steps))
    compared = len(TASKS[task].data().test)
    sources, targets = sides(captions(CAPTIONED).test if task == "captions" else TASKS[task].data().test)
    answers = model.translate(sources)
    about: Row = {"task": task, "normalize": name, "steps": steps, "items": len(answers)}
    about |= quality(task, answers, [str(target) for target in targets])
    about |= {"zeros": zeros(answers), "steps_per_second": speed(task, name)}
    written = [i for i, answer in enumerate(answers[:compared]) if answer.text]
    erased = compare_with_erasure(model, [sources[i] for i in written], [answers[i].text for i in written])
    return about | {"top": erased.kinds["weights"].top.value}


def speed(task: str, name: str) -> float:
    """Return the steps in a second of processor time, without what a training of one step takes."""
    trained(task, name, 1)  # reads the data
    start = time.process_time()
    trained(task, name, 1)
    middle = time.process_time()
    trained(task, name, 1 + SPEED_STEPS)
    return SPEED_STEPS / (time.process_time() - middle - (middle - start))


def quality(task: str, answers: list[Translation], targets: list[str]) -> Row:
    """Return BLEU of translations, errors for 100 words of captions, or of sounds the percentage of wrong answers."""
    texts = [answer.text for answer in answers]
    if task == "translation":
        return {"bleu": bleu(texts, targets).score}
    if task == "captions":
        return {"errors": 100 * error_rate(texts, targets)}
    return {"wrong": 100 * (1 - exact(texts, targets))}


def zeros(answers: list[Translation]) -> float:
    """Return the share of weights that are exactly 0."""
    weights = [answer.alignment.ravel() for answer in answers if answer.alignment is not None]
    return float(np.mean(np.concatenate(weights) == 0))


def line(row: Row) -> str:
    """Return a line of the table."""
    score = next(f"{row[key]:5.1f} {text}" for key, text in QUALITIES.items() if key in row)
    shares = f"{100 * row['zeros']:5.1f} % zeros, {100 * row['top']:5.1f} % top"
    return (
        f"{row['task']:<12}{row['normalize']:<10}{score:>14}, {shares}, {row['steps_per_second']:.1f} steps/s"
    )


def main() -> None:
    """Train all models that are not there, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = [task for task in TASKS if task != "planted"]
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks)
    parser.add_argument("--names", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--steps", type=int, default=300, metavar="N")
    parser.add_argument("--kept", action="store_true", help="train none: only the models that were measured")
    add_option(parser)
    args = parser.parse_args()
    header(f"{args.steps} steps")
    for task in args.tasks:
        for name in args.names:
            possible = task in ORDERED or not name.startswith("local")
            if possible and not (args.kept and not path_of(task, name, args.steps).exists()):
                row = measured(task, name, args.steps)
                keep(**row)
                print(line(row), flush=True)
    save(args.json)


if __name__ == "__main__":
    run(main)

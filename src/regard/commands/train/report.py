"""What `regard train` prints, logs and draws: the pairs, the progress, the measures and the examples."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.commands import curve, drawing
from regard.commands.pages import PageParts
from regard.commands.summary import Measures, Summary
from regard.commands.tasks.data import Data, with_noun
from regard.commands.train.files import EXAMPLES, RunFiles
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources.example import equally_spaced
from regard.seq2seq.sources.text.normalization import normalize
from regard.seq2seq.sources.text.source import RARE
from regard.seq2seq.sources.text.vocabulary import UNKNOWN
from regard.seq2seq.training.defaults import choose_epochs
from regard.seq2seq.training.log import Log, entries
from regard.seq2seq.training.loop import Training, TrainingStep
from regard.seq2seq.translator import Translation
from regard.show import figures
from regard.show.figures.figure import warned
from regard.show.progress import Progress
from regard.show.terminal.text import clean, fit, report

__all__ = [
    "Reporter",
    "closing_notes",
    "describe_pairs",
    "draw_curve",
    "forecast",
    "measure",
    "sample_pairs",
    "short_warning",
    "show_examples",
]

_SAMPLE_PAIRS = 200  # sources for validation, which are translated after each epoch
_FIRST_EPOCHS = 10  # which are all reported; of those after them, only some improvements are
_EXAMPLE_COLUMNS = 100  # of a translation that is printed
_LOG_STEPS = 10  # between two lines of the log
_FORECAST_SECONDS = 5.0  # of training before the forecast
_MANY_RARE = 0.03  # of the target tokens
_SHORT_SHARE = 0.5  # of the usual epochs; fewer get a warning


# ---------------------------------------------------------------------------------------------------------- pairs


def describe_pairs(data: Data, model: Seq2Seq, training: Training, test: int, longest: int) -> str:
    """Describe the numbers of pairs; `test` is that of the test pairs."""
    count = len(training.valid)
    valid = str(count) if data.own_valid else f"{count} others"
    if data.too_few:
        valid = "too few to hold any out, so the same"
    # Limits of length may differ between validation and test.
    tested = " and test" if not data.own_test and test == count else f", {test} for test"
    return (
        f"{with_noun(len(data.train), 'training pair')}, {len(training.pairs)} of them with at most"
        f" {with_noun(longest, 'token')} {model.reader.limited_sides}; {valid} for validation{tested}"
        f"{_describe_rare(model, training)}"
    )


def _describe_rare(model: Seq2Seq, training: Training) -> str:
    """Describe how many target tokens of the training are unknown, or so rare that they are learned badly."""
    counts = np.bincount(training.pairs.target, minlength=UNKNOWN + 1)[UNKNOWN:]
    unknown = float(counts[0] / counts.sum())
    rare = float(counts[1:][counts[1:] < RARE].sum() / counts.sum())
    if model.target != "words" and not unknown:
        return ""
    described = f"; {100 * unknown:.1f} % of the target tokens are unknown"
    if not unknown:
        described = f"; no target token is unknown, {100 * rare:.1f} % come fewer than {RARE} times"
    sides = "--source subwords " * ("subwords" in model.reader.accepts) + "--target subwords"
    return described + f": {sides} learns parts of rare words" * (unknown + rare >= _MANY_RARE)


# --------------------------------------------------------------------------------------------------- while it trains


def sample_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of at most 200 sources at equal distances, because a file may be sorted."""
    chosen = {*equally_spaced([*dict.fromkeys(source for source, _ in pairs)], _SAMPLE_PAIRS)}
    return [pair for pair in pairs if pair[0] in chosen]


class _Pace:
    """A running mean of a speed, in which recent steps weigh more."""

    mean: float | None = None

    def add(self, now: float) -> None:
        """Add the speed of a step."""
        self.mean = now if self.mean is None else 0.95 * self.mean + 0.05 * now


class Reporter:
    """Reports the steps of a training on the terminal and in the log, from the first one on.

    After a validation the model translates some of the sample, which are short validation pairs.
    """

    def __init__(
        self,
        name: str,
        model: Seq2Seq,
        training: Training,
        log: Path,
        sample: Sequence[Pair],
        first: TrainingStep,
        measures: Measures,
    ) -> None:
        self.model, self.training, self.sample = model, training, sample_pairs(sample)
        self.measures = measures
        done = first.number - 1
        self.progress = Progress(first.total, name, done=done)
        self.log = Log(log, resume_at=done if done else None)
        if done:
            self.progress.write(f"resuming after step {done} of {first.total}")
        self.tokens, self.pairs = _Pace(), _Pace()
        self.unit = model.reader.unit or model.target
        self.shown = self.pairs if model.reader.unit else self.tokens
        self.forecast_at: float | None = first.seconds + _FORECAST_SECONDS  # None once it has been printed
        self.last = 0  # the last reported epoch
        self.since: float | None = None  # the time of the first step is unknown

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()
        self.log.close()

    def time(self, step: TrainingStep) -> None:
        """Measure the speed of a step, without the time that saving and reporting take."""
        if self.since is not None:
            seconds = max(time.monotonic() - self.since, 1e-9)
            self.tokens.add(step.tokens / seconds)
            self.pairs.add(step.pairs / seconds)

    def report(self, step: TrainingStep) -> None:
        """Report a step, and the validation after it."""
        reported = step.validation is not None and self._is_reported(step)
        lines, summary = self._validation(step) if reported else ("", None)
        self.progress.advance(loss=step.loss, total=step.total, pace=self.shown.mean, unit=self.unit)
        self._forecast(step)
        if lines:
            self.progress.write(lines)
        if step.validation is not None or step.number % _LOG_STEPS == 0 or step.number == 1:
            self._log(step, summary)
        self.since = time.monotonic()

    def _is_reported(self, step: TrainingStep) -> bool:
        """Return whether to report a validation: after the first epochs, only improvements at growing intervals."""
        if step.epoch <= _FIRST_EPOCHS or step.number == step.total:
            return True
        return step.best and step.epoch >= 1.1 * self.last

    def _validation(self, step: TrainingStep) -> tuple[str, Summary | None]:
        """Return the report of a validation, and the measures of the sample's translations."""
        self.last = step.epoch
        line, saved = f"epoch {step.epoch}: validation loss {step.validation:.3f}", ", saved" * step.best
        if not self.sample:
            return line + saved, None
        sources = [source for source, _ in self.sample]
        texts = [translation.text for translation in self.model.translate(sources, beam=1)]
        measures = measure(self.measures, self.model, self.sample, texts)
        chosen = self.last * 7 % len(texts)
        example = f"  {clean(str(sources[chosen]))} -> {clean(texts[chosen])}"
        line += f", {measures} (greedy, {_count(self.sample)}){saved}"
        return f"{line}\n{fit(example, _EXAMPLE_COLUMNS).rstrip()}", measures

    def _log(self, step: TrainingStep, summary: Summary | None) -> None:
        pace = self.tokens.mean
        measured = {} if summary is None else summary._asdict()
        self.log.write(
            step=step.number,
            epoch=step.epoch,
            seconds=round(step.seconds, 3),
            loss=step.loss,
            learning_rate=step.learning_rate,
            tokens=step.tokens,
            tokens_per_second=None if pace is None else round(pace, 1),
            validation=step.validation,
            **{name: measured.get(name) for name in ("bleu", "exact", "errors")},
        )

    def _forecast(self, step: TrainingStep) -> None:
        """Report once, as soon as the speed is known, how often each pair will be seen."""
        if self.forecast_at is None or step.seconds < self.forecast_at:
            return
        self.forecast_at, seen = None, _epochs_seen(self.training)
        usual, config = _usual_epochs(self.training), self.training.config
        speed = seen / max(step.seconds - self.training.prepared, 1e-9)
        planned = config.steps / self.training.per_epoch if config.steps else config.epochs
        option = "--steps" if config.steps else "--epochs"
        self.progress.write(forecast(speed, seen, step.seconds / 60, usual, planned, config.minutes, option))


def measure(
    measures: Measures, model: Seq2Seq, pairs: Sequence[Pair], translations: Sequence[str]
) -> Summary:
    """Measure translations of the sources of pairs."""
    form = model.model.target.normalization
    references = [normalize(str(target), form) for _, target in pairs]
    return measures.summarize([str(source) for source, _ in pairs], translations, references)


def _count(pairs: Sequence[Pair]) -> str:
    """Return the number of pairs, or of different sources where some are in several pairs."""
    sources = len({source for source, _ in pairs})
    return with_noun(len(pairs), "pair") if sources == len(pairs) else with_noun(sources, "source")


# ----------------------------------------------------------------------------------------------------------- duration


def _usual_epochs(training: Training) -> int:
    """Return the default number of epochs for so many pairs."""
    return choose_epochs(len(training.pairs))


def _epochs_seen(training: Training) -> float:
    """Return how often each pair has been seen so far."""
    return training.step / training.per_epoch


def forecast(
    per_second: float,
    epochs: float,
    minutes: float,
    usual: int,
    planned: float | None,
    limit: float | None,
    option: str = "--epochs",
) -> str:
    """Describe how often each pair will be seen at the measured epochs per second, within epochs or minutes."""
    times, needed = math.inf if planned is None else planned, limit
    if needed is None or times < epochs + 60 * (needed - minutes) * per_second:
        needed = minutes + (times - epochs) / per_second / 60
    else:
        times = max(epochs + 60 * (needed - minutes) * per_second, epochs)
    line = f"at this speed each pair will be seen {_times(times)} in {_minutes(needed)}"
    if times >= _SHORT_SHARE * usual:
        return line
    if planned is not None and times >= planned:
        return f"{line}; {_times(usual)} is usual: see {option}"
    enough = math.ceil(minutes + (usual - epochs) / per_second / 60)
    return f"{line}; {_times(usual)} is usual, which takes --minutes {enough}"


def short_warning(name: str, training: Training) -> str:
    """Return a warning that the training was too short, with the option to change; empty if it was not."""
    config, epochs, usual = training.config, _epochs_seen(training), _usual_epochs(training)
    if epochs >= _SHORT_SHARE * usual or training.out_of_patience():
        return ""
    option = f"--steps {usual * training.per_epoch}" if config.steps else "--epochs"
    if config.minutes is not None and (config.epochs is None or training.step < training.total):
        option = f"--minutes {math.ceil(training.seconds / 60 * usual / max(epochs, 1e-9))}"
    return (
        f"{name} was short: each pair was seen {_times(epochs)}, and {_times(usual)} is usual"
        f" for so many pairs; the model can become better with {option}"
    )


def _times(number: float) -> str:
    """Return a count with "times": with one decimal where it is small and fractional."""
    shown = f"{number:.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"
    return f"{shown} time{'' if shown == '1' else 's'}"


def _minutes(number: float) -> str:
    shown = f"{number:.0f}" if number >= 10 else f"{number:.2g}"
    return f"{shown} minute{'' if shown == '1' else 's'}"


# ------------------------------------------------------------------------------------------------------- at the end


def closing_notes(model: Seq2Seq, training: Training, last: TrainingStep, saved: str) -> Iterator[str]:
    """Yield what is worth knowing at the end of a training; `saved` names the epoch of the best model."""
    if last.epoch > _FIRST_EPOCHS and saved:
        yield f"the best model is {saved}"
    uniform = math.log(len(model.model.target))
    if training.best_loss > uniform:
        rule = f"every validation loss is above {uniform:.3f}, that of guessing"
        yield f"{rule}: a smaller --learning-rate may help"
    if training.finished_early():
        config = training.config
        done = f"done with {with_noun(config.epochs or 0, 'epoch')}"
        yield f"{done} before the {config.minutes:g} minutes were over: see --epochs"


def draw_curve(files: RunFiles) -> None:
    """Draw the learning curves of a log."""
    if drawing.can_draw():
        with warned(files.curve):
            figures.save(files.curve, figures.curves(curve.panels({"": entries(files.log)})))


def show_examples(model: Seq2Seq, files: RunFiles, test: Sequence[Pair]) -> None:
    """Show three translations of test sentences with their attention weights."""
    examples = _examples(model, test)
    several = model.candidates([source for source, _ in examples])
    for pair, candidates, path in zip(examples, several, files.alignments, strict=False):
        _show_example(model, pair, candidates[0], path)
    if model.attention and examples:
        _save_page(model, files, [source for source, _ in examples], several)
    print()


def _show_example(model: Seq2Seq, pair: Pair, translation: Translation, path: Path) -> None:
    """Print a translation with its attention weights, and draw them."""
    print()
    texts = {"source": pair[0], "translation": translation.text, "reference": pair[1]}
    for name, text in texts.items():
        print(f"{name + ':':<13}{clean(str(text))}")
    if translation.alignment is not None and translation.tokens:
        print(drawing.draw_alignment(translation))
        picture = model.model.source.picture(pair[0])
        if drawing.can_draw() and drawing.save_alignment(translation, path, picture):
            print(report(f"drawn in {path}"))


def _save_page(
    model: Seq2Seq, files: RunFiles, sources: Sequence[Any], several: Sequence[Sequence[Translation]]
) -> None:
    """Save a page of the examples, each with all its hypotheses."""
    page, source = PageParts(model), model.model.source
    with warned(files.page):
        for example, candidates in zip(sources, several, strict=True):
            picture = source.picture(example)
            page.add(candidates, example, picture, "" if picture is None else Path(example.name).name)
        page.page("Alignments" if picture is None else "Captions").save(files.page, force=True)
        print(report(f"shown in {files.page}: open it in a browser"))


def _examples(model: Seq2Seq, test: Sequence[Pair]) -> list[Pair]:
    """Return three pairs with different sources from all parts of the test, long ones if there are enough."""
    different = list({str(pair[0]): pair for pair in test}.values())
    side = 1 if model.reader.reads_files else 0
    long = [pair for pair in different if 6 <= len(pair[side]) <= 40]
    pairs = long if len(long) >= EXAMPLES else different
    return [pairs[len(pairs) * part // 4] for part in (1, 2, 3)] if len(pairs) >= EXAMPLES else pairs

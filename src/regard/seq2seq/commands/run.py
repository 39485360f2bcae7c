"""A training run of the command line: progress, log, learning curve, model file and checkpoint."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Generic, TypeVar

from regard import _files, _signals
from regard.seq2seq.commands import curve
from regard.seq2seq.commands.drawing import can_draw
from regard.seq2seq.commands.link_files import PairLinks
from regard.seq2seq.commands.summary import Summary, summarize
from regard.seq2seq.data.array_sources import ArraySource
from regard.seq2seq.data.normalization import normalize
from regard.seq2seq.data.parallel_text import Pair
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.storage.checkpoint_file import State, write_checkpoint
from regard.seq2seq.storage.model_file import read_model
from regard.seq2seq.training.checkpoint import read_checkpoint, resume
from regard.seq2seq.training.config import TrainingConfig
from regard.seq2seq.training.defaults import choose_epochs
from regard.seq2seq.training.log import LOG_FILE, Log, entries, read_log
from regard.seq2seq.training.loop import Diverged, Step, Training
from regard.show import figures
from regard.show.figures.figure import warned
from regard.show.progress import Progress
from regard.show.terminal.text import clean, fit, note

__all__ = ["Run", "Stop", "forecast", "sibling_path", "with_noun"]

_SAMPLE = 200  # validation pairs that are translated after each epoch
_ALL_REPORTED = 10  # epochs; of those after them, only some improvements are reported
_WIDTH = 100  # of an example translation
_LOG_INTERVAL = 10  # steps between two lines of the log
_SPEED_AFTER = 5.0  # seconds of training before the forecast
_SHORT = 0.5  # of the usual epochs; fewer get a warning


def sibling_path(model: Path, name: str) -> Path:
    """Return the path of a file that belongs to a model file."""
    return model.with_name(name if model.stem == "model" else f"{model.stem}-{name}")


def with_noun(count: int, noun: str) -> str:
    """Return a number with its noun in singular or plural."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


class Stop:
    """Record whether Ctrl-C, SIGTERM or SIGHUP has asked to stop; the second signal stops at once."""

    requested, status = False, 0

    def listening(self) -> AbstractContextManager[None]:
        """Handle the signals in the ``with`` block, in the main thread and if they have no other handler."""
        return _signals.handled(self._ask, signal.SIGINT)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            _signals.end(number, frame)
        self.requested, self.status = True, 128 + number


EXAMPLES = 3  # translations that are printed and drawn at the end
_HINT = "--fresh trains anew"  # for an unusable checkpoint


T = TypeVar("T")


class _CachedFile(Generic[T]):
    """The content of a file, which is read again only after the file has changed."""

    def __init__(self, path: Path, read: Callable[[Path], T]) -> None:
        self.path, self._read = path, read
        self._cached: tuple[tuple[int, int, int], T] | None = None

    def read(self) -> T:
        """Return the content of the file."""
        stat = self.path.stat()
        version = stat.st_ino, stat.st_size, stat.st_mtime_ns
        if self._cached is None or self._cached[0] != version:
            self._cached = version, self._read(self.path)
        return self._cached[1]

    def clear(self) -> None:
        """Free the memory of the content."""
        self._cached = None


def _is_model(path: Path) -> bool:
    """Return whether a file is a model file."""
    try:
        read_model(path)
    except ValueError:
        return False
    return True


class Run:
    """One training with its files: the model, the checkpoint, the log and the pictures.

    The checkpoint exists from before the first step until `remove_checkpoint`: a model without one is finished.

    Parameters
    ----------
    model : Seq2Seq
        The model to train.
    path : Path
        The file of the best model.
    fresh : bool
        Whether to ignore an existing model and checkpoint.
    """

    training: Training

    def __init__(self, model: Seq2Seq, path: Path, *, fresh: bool = False) -> None:
        self.model, self.path, self.fresh = model, path, fresh
        self.name = "training" if model.attention else "training without attention"
        self.checkpoint, self.log = sibling_path(path, "checkpoint.safetensors"), sibling_path(path, LOG_FILE)
        self._model_file = _CachedFile(path, _is_model)
        self._state: _CachedFile[State] = _CachedFile(
            self.checkpoint, lambda path: read_checkpoint(path, _HINT)
        )
        names = "curve.png", *(f"alignment-{number}.png" for number in range(1, EXAMPLES + 1))
        self.pictures = [sibling_path(path, name) for name in names]
        self.page = sibling_path(path, "alignments.html")
        self.sample: Sequence[Pair] = []  # validation pairs to translate after each epoch
        self.saved, self.last = "", 0  # a text that names the best epoch; the last reported epoch
        self.stop = Stop()

    def begin(self, train: Sequence[Pair], valid: Sequence[Pair], links: PairLinks | None) -> None:
        """Learn the vocabularies and initialise the network."""
        if self.model.extras:
            note(f"learning {' and '.join(self.model.extras)}")
        with ExitStack() as stack:

            @cache  # one bar, and none if no extra appends tokens
            def bar(total: int) -> Progress:
                return stack.enter_context(Progress(total, "appending tokens to sources"))

            self.training = self.model.begin(
                train, valid, links=links, progress=lambda more, total: bar(total).advance(more)
            )

    def is_done(self) -> bool:
        """Return whether there is a model without a checkpoint."""
        return self.path.exists() and not self.checkpoint.exists()

    def is_model(self) -> bool:
        """Return whether the file where the model is written is a model file."""
        return self._model_file.read()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the files against other processes, and remove partial files of killed ones."""
        with _files.locked(self.path) as acquired:
            if not acquired:
                raise ValueError(f"--out: another process is training {self.path}; give another --out")
            self._remove_partial()
            yield

    def remove_leftovers(self) -> None:
        """Remove what was left by processes that were killed after the end of the training.

        Nothing is removed while another process trains, or if the folder can't be written to.
        """
        with suppress(OSError), _files.locked(self.path) as acquired:
            if acquired:
                self._remove_partial()
                self.remove_checkpoint()

    def _remove_partial(self) -> None:
        for path in (self.path, self.checkpoint, self.log, self.page, *self.pictures):
            _files.remove_partial(path)

    def check_checkpoint(self) -> None:
        """Check the checkpoint, if the training will resume from it."""
        if self.checkpoint.exists() and not self.fresh:
            self._state.read()

    def resume(self) -> None:
        """Resume from the checkpoint, if there is one; raise if it is of another training."""
        if self.checkpoint.exists() and not self.fresh:
            resume(self.training, self._state.read(), self.checkpoint, _HINT)
        self._state.clear()

    def ensure_checkpoint(self) -> None:
        """Write a checkpoint, if there is none of this training."""
        if self.fresh or not self.checkpoint.exists():
            write_checkpoint(self.checkpoint, self.training.state())

    def finished_fingerprint(self) -> str | None:
        """Return the fingerprint of a finished training, if the log has one."""
        try:
            fingerprints = [entry["finished"] for entry in read_log(self.log) if "finished" in entry]
        except (OSError, ValueError):
            return None
        return str(fingerprints[-1]) if fingerprints else None

    def log_end(self, fingerprint: str) -> None:
        """Log the end of the training with its fingerprint."""
        with Log(self.log, resume_at=self.training.step) as log:
            log.write(step=self.training.step, finished=fingerprint)

    def remove_checkpoint(self) -> None:
        """Remove the checkpoint."""
        self.checkpoint.unlink(missing_ok=True)

    def train(self) -> int:
        """Train to the end (return 0), a signal (128 plus its number) or a loss that is not finite (1)."""
        try:
            with self.stop.listening():
                self._steps()
        except KeyboardInterrupt as error:  # the second signal: the steps since the last checkpoint are lost
            self.stop.requested, self.stop.status = True, _signals.status_of(error)
        except Diverged as error:
            self.remove_checkpoint()  # the training would diverge again
            self._report_stop(f"stopped: {error}", "the last good model")
            return 1
        if not self.stop.requested:
            self._draw()
            return 0
        self._report_stop("interrupted", "the best model")
        if self.checkpoint.exists():
            command = "the same command without --fresh" if self.fresh else "the same command"
            note(f"{command} goes on from there")
        return self.stop.status

    def _report_stop(self, why: str, which: str) -> None:
        saved = self.saved or ("that of an earlier run" if self.path.exists() else "")
        result = f"{which}, {saved}, is in {self.path}" if saved else "no model has been written"
        note(f"{why}; {result}")

    def _steps(self) -> None:
        """Run the steps of training; report each validation and save each improvement."""
        with ExitStack() as stack:
            run = self.model.run(self.training, checkpoint=self.checkpoint, keep=True)
            steps = stack.enter_context(closing(run))
            reporter: _Reporter | None = None
            for step in steps:
                if reporter is None:
                    reporter = stack.enter_context(_Reporter(self, step))
                reporter.report(step)
                if self.stop.requested:
                    return
            self._save_weight(reporter)
            if reporter is None:
                note(f"{self.name} is done already")
                return
            if step.epoch > _ALL_REPORTED and self.saved:
                reporter.progress.write(f"the best model is {self.saved}")
            uniform = math.log(len(self.model.model.target))
            if self.training.best_loss > uniform:
                reporter.progress.write(
                    f"every validation loss is above {uniform:.3f}, that of guessing:"
                    " a smaller --learning-rate may help"
                )
            if self.training.finished_early():
                config = self.training.config
                done = f"done with {with_noun(config.epochs or 0, 'epoch')}"
                reporter.progress.write(
                    f"{done} before the {config.minutes:g} minutes were over: see --epochs"
                )

    def _save_weight(self, reporter: _Reporter | None) -> None:
        """Save the weight of a reranker, which is fitted at the end of training."""
        reranker = self.model.model.reranker
        if reranker is None or not self.path.exists():
            return
        self.model.save(self.path)
        if reporter is not None:
            reporter.progress.write(
                f"the weight of the reranker is {reranker.weight:g} (1 is that of the network)"
            )

    def validated(self, step: Step) -> tuple[str, Summary | None]:
        """Save an improved model; return the report of a validation, and its summary if translations were measured."""
        if step.best:
            self.model.save(self.path)
            self.saved = f"that of epoch {step.epoch}"
        if not self._is_reported(step):
            return "", None
        self.last = step.epoch
        line = f"epoch {step.epoch}: validation loss {step.validation:.3f}"
        summary, example = self._translate_sample()
        if summary is not None:
            line += f", {summary} (greedy, {with_noun(len(self._sample_pairs()), 'pair')})"
        line += ", saved" if step.best else ""
        return f"{line}\n{example}" if example else line, summary

    def _is_reported(self, step: Step) -> bool:
        """Return whether to report a validation: after the first epochs, only improvements at growing intervals."""
        if step.epoch <= _ALL_REPORTED or step.number == step.total:
            return True
        return step.best and step.epoch >= 1.1 * self.last

    def _translate_sample(self) -> tuple[Summary | None, str]:
        """Translate some validation pairs; return a summary and one example."""
        if not self.sample:
            return None, ""
        sample = self._sample_pairs()
        texts = [translation.text for translation in self.model.translate([p[0] for p in sample], beam=1)]
        chosen = self.last * 7 % len(sample)
        example = f"  {clean(str(sample[chosen][0]))} -> {clean(texts[chosen])}"
        return self.summary(sample, texts), fit(example, _WIDTH).rstrip()

    def _sample_pairs(self) -> list[Pair]:
        """Return pairs at equal distances in the sample, because a file may be sorted."""
        count = len(self.sample)
        return (
            [self.sample[i * count // _SAMPLE] for i in range(_SAMPLE)] if count > _SAMPLE else [*self.sample]
        )

    def usual_epochs(self) -> int:
        """Return the default number of epochs for so many pairs."""
        return choose_epochs(len(self.training.pairs))

    def epochs_seen(self) -> float:
        """Return how often each pair has been seen so far."""
        return self.training.step / self.training.per_epoch

    def short_warning(self) -> str:
        """Return a warning that the training was too short, with the option to change; empty if it was not."""
        config, epochs = self.training.config, self.epochs_seen()
        if epochs >= _SHORT * self.usual_epochs() or self.training.out_of_patience():
            return ""
        option = "--epochs"
        if config.epochs is None or self.training.step < self.training.total:
            option = (
                f"--minutes {math.ceil(self.training.seconds / 60 * self.usual_epochs() / max(epochs, 1e-9))}"
            )
        return (
            f"{self.name} was short: each pair was seen {_times(epochs)}, and {_times(self.usual_epochs())} is usual"
            f" for so many pairs; the model can become better with {option}"
        )

    def summary(self, pairs: Sequence[Pair], translations: Sequence[str]) -> Summary:
        """Measure translations of the sources of pairs."""
        form = self.model.model.target.normalization
        sources, references = (
            [str(source) for source, _ in pairs],
            [normalize(str(target), form) for _, target in pairs],
        )
        return summarize(self.model.target, sources, translations, references)

    def _draw(self) -> None:
        if can_draw():
            with warned(self.pictures[0]):
                figures.save(self.pictures[0], figures.curves(curve.panels({"": entries(self.log)})))


def forecast(per_second: float, epochs: float, minutes: float, usual: int, config: TrainingConfig) -> str:
    """Describe how often each pair will be seen at the measured epochs per second."""
    times, needed = math.inf if config.epochs is None else float(config.epochs), config.minutes
    if needed is None or times < epochs + 60 * (needed - minutes) * per_second:
        needed = minutes + (times - epochs) / per_second / 60
    else:
        times = max(epochs + 60 * (needed - minutes) * per_second, epochs)
    line = f"at this speed each pair will be seen {_times(times)} in {_minutes(needed)}"
    if times >= _SHORT * usual:
        return line
    if config.epochs is not None and times >= config.epochs:
        return f"{line}; {_times(usual)} is usual: see --epochs"
    enough = math.ceil(minutes + (usual - epochs) / per_second / 60)
    return f"{line}; {_times(usual)} is usual, which takes --minutes {enough}"


def _times(number: float) -> str:
    """Return a count with "times": with one decimal where it is small and fractional."""
    shown = f"{number:.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"
    return f"{shown} time{'' if shown == '1' else 's'}"


def _minutes(number: float) -> str:
    shown = f"{number:.0f}" if number >= 10 else f"{number:.2g}"
    return f"{shown} minute{'' if shown == '1' else 's'}"


class _Pace:
    """A running mean of a speed, in which recent steps weigh more."""

    mean: float | None = None

    def add(self, now: float) -> None:
        """Add the speed of a step."""
        self.mean = now if self.mean is None else 0.95 * self.mean + 0.05 * now


class _Reporter:
    """Reports steps on the terminal and in the log."""

    def __init__(self, run: Run, first: Step) -> None:
        self.run = run
        done = first.number - 1
        self.progress = Progress(first.total, run.name, done=done)
        self.log = Log(run.log, resume_at=done if done else None)
        if done:
            self.progress.write(f"resuming after step {done} of {first.total}")
        self.tokens, self.pairs = _Pace(), _Pace()
        source = run.model.source
        text = self.tokens, run.model.target  # the name of a progress bar, and its unit
        self.shown, self.unit = (self.pairs, source.unit) if isinstance(source, ArraySource) else text
        self.first = first
        self.forecast = False  # whether it has been printed
        self.since: float | None = None  # the time of the first step is unknown

    def __enter__(self) -> _Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()
        self.log.close()

    def report(self, step: Step) -> None:
        """Report a step, and the validation after it."""
        if self.since is not None:  # reports do not count
            seconds = max(time.monotonic() - self.since, 1e-9)
            self.tokens.add(step.tokens / seconds)
            self.pairs.add(step.pairs / seconds)
        lines, summary = self.run.validated(step) if step.validation is not None else ("", None)
        self.progress.advance(loss=step.loss, total=step.total, pace=self.shown.mean, unit=self.unit)
        self._forecast(step)
        if lines:
            self.progress.write(lines)
        if step.validation is not None or step.number % _LOG_INTERVAL == 0 or step.number == 1:
            self.log.write(
                step=step.number,
                epoch=step.epoch,
                seconds=round(step.seconds, 3),
                loss=step.loss,
                rate=step.rate,
                tokens=step.tokens,
                tokens_per_second=None if self.tokens.mean is None else round(self.tokens.mean, 1),
                validation=step.validation,
                **(
                    {}
                    if summary is None
                    else {"bleu": summary.bleu, "exact": summary.exact, "errors": summary.errors}
                ),
            )
        self.since = time.monotonic()

    def _forecast(self, step: Step) -> None:
        """Report once, as soon as the speed is known, how often each pair will be seen."""
        if self.forecast or step.seconds - self.first.seconds < _SPEED_AFTER:
            return
        self.forecast = True
        self.progress.write(
            forecast(
                self.run.epochs_seen() / max(step.seconds, 1e-9),
                self.run.epochs_seen(),
                step.seconds / 60,
                self.run.usual_epochs(),
                self.run.training.config,
            )
        )

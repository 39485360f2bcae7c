"""The verb `train`: train a model on pairs, measure it, and show its attention."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

from regard import _check, _signals
from regard.commands import drawing
from regard.commands.summary import Measures
from regard.commands.tasks import owner
from regard.commands.tasks.base import Task
from regard.commands.tasks.data import Data, short_pairs, with_noun
from regard.commands.train.arguments import (
    add_arguments,
    add_chosen,
    check_options,
    make_models,
    make_task,
    model_paths,
)
from regard.commands.train.confidence import Confidence, calibrate, describe
from regard.commands.train.files import HINT, RunFiles
from regard.commands.train.identity import identity
from regard.commands.train.report import (
    Reporter,
    closing_notes,
    describe_pairs,
    draw_curve,
    short_warning,
    show_examples,
)
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.storage.checkpoint_file import write_checkpoint
from regard.seq2seq.training.checkpoint import resume
from regard.seq2seq.training.loop import Diverged, Training
from regard.seq2seq.training.session import begin, take_steps
from regard.seq2seq.translator import LONGEST_SENTENCE
from regard.show.progress import Progress
from regard.show.terminal.text import note, report

__all__ = ["Run", "Stop", "add_arguments", "add_chosen", "prepared_runs", "run", "train_all"]


def run(args: argparse.Namespace) -> int:
    """Train, measure and show."""
    task = make_task(args)
    check_options(args, task)
    paths = model_paths(args)
    models = make_models(args, task)
    if not RunFiles(paths[0], fresh=args.fresh).is_done() and (line := task.forecast(models[0])):
        note(line)
    return train_all(args, task, models, paths)


def train_all(args: argparse.Namespace, task: Task, models: Sequence[Seq2Seq], paths: Sequence[Path]) -> int:
    """Train models for a task, measure and show them."""
    most = models[0].max_tokens
    runs = [Run(model, RunFiles(path, fresh=args.fresh)) for model, path in zip(models, paths, strict=True)]
    for run in runs:
        run.files.check()
    done = [run.files for run in runs if run.files.is_done()]
    for files in done:
        if files.finished_identity() is None:
            done[0].refuse()
    data = task.read(models[0])
    of_task = task.identity(data)
    identities = [identity(model, data, of_task) for model in models]
    if done:
        if [run.files.finished_identity() for run in runs] != identities:
            done[0].refuse()
        return _report_done(runs, task.stated())
    longest = min(args.test_max_tokens or most, LONGEST_SENTENCE)
    for run in runs:
        run.begin(data, longest, task.measures(run.model, data))
    test = short_pairs(models[0], data.test, longest)
    if not test:
        limit = f"{with_noun(longest, 'token')} {models[0].reader.limited_sides}"
        _check.fail(f"{data.tested}: no pair has at most {limit}")
    with prepared_runs(runs):
        note(describe_pairs(data, models[0], runs[0].training, len(test), most))
        _note_more(task, models[0], data)
        if status := _train_and_show(task, runs, test, data):
            return status
        # Last, so that a command that is stopped before can be resumed.
        for run, run_identity in zip(runs, identities, strict=True):
            run.files.log_end(run.training.step, run_identity)
        for run in runs:
            run.files.remove_checkpoint()
    for line in filter(None, (short_warning(run.name, run.training) for run in runs)):
        note(line)
    print(report(f"the model is in {paths[0]}"))
    return 0


def _report_done(runs: Sequence[Run], stated: dict[str, str]) -> int:
    """Report that the same command has finished before; correct what it states in the card."""
    note(f"{runs[0].name} is done already; --fresh trains anew, another --out keeps this model")
    for run in runs if stated else ():
        run.files.change_card(**stated)
    print(report(f"the model is in {runs[0].files.model}"))
    for run in runs:
        run.files.remove_leftovers()
    return 0


def _note_more(task: Task, model: Seq2Seq, data: Data) -> None:
    """Print the notices of the task, which packages are missing, and why pictures can't be drawn."""
    for line in filter(None, (*task.notices(model, data), drawing.missing_extras())):
        note(line)
    drawing.can_draw()  # warns before the training


def _train_and_show(task: Task, runs: Sequence[Run], test: Sequence[Pair], data: Data) -> int:
    """Train, measure and show; return 0, or the exit status of what has stopped it."""
    try:
        for run in runs:
            if status := run.train():
                return status
        confidences = [run.calibrate(test, data, task.most_calibrated) for run in runs]
        measured = task.measure([run.model for run in runs], test, data, confidences)
        for run, confidence, of_model in zip(runs, confidences, measured, strict=True):
            if card := _card(task, run.model, data, of_model):
                run.model.card = card
                run.model.held_out = task.held_out(test, data)
                run.model.save(run.files.model)
            if run.model.calibration is not None:
                note(describe(run.model.calibration, confidence, task.verb))
        show_examples(runs[0].model, runs[0].files, test)
    except KeyboardInterrupt as error:
        files = runs[0].files
        again = "the same command" + " without --fresh" * files.fresh
        note(f"interrupted; the model is in {files.model}, and {again} prints the rest")
        return _signals.status_of(error)
    return 0


def _card(task: Task, model: Seq2Seq, data: Data, measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the card of a model, which names a task that its source does not imply."""
    named = {} if task.name == model.reader.task else {"task": task.name, "distribution": owner(task.name)}
    return {**named, **task.card(model, data, measured)}


@contextmanager
def prepared_runs(runs: Sequence[Run]) -> Iterator[None]:
    """Create the folder, lock the files of these runs, and ensure that each has a checkpoint."""
    runs[0].files.model.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(run.files.locked())
            run.files.check_overwrites()
            if run.files.is_done():  # by another process, in the meantime
                run.files.refuse()
        for run in runs:
            run.resume()
        for run in runs:
            run.ensure_checkpoint()
        yield


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


class Run:
    """One training of a command, with its model and its files."""

    training: Training
    measures: Measures  # after each epoch

    def __init__(self, model: Seq2Seq, files: RunFiles) -> None:
        self.model, self.files, self.stop = model, files, Stop()
        self.name = "training" if model.attention else "training without attention"
        self.sample: Sequence[Pair] = []  # validation pairs to translate after each epoch
        self.saved = ""  # names the epoch of the best model

    def begin(self, data: Data, longest: int, measures: Measures) -> None:
        """Learn the vocabularies and initialise the network; longer validation pairs are not translated."""
        if self.model.extras:
            note(f"learning {' and '.join(self.model.extras)}")
        with ExitStack() as stack:

            @cache
            def bar(name: str, total: int) -> Progress:
                return stack.enter_context(Progress(total, name))

            def advance(name: str, more: int, total: int) -> None:
                progress = bar(name, total)
                progress.advance(more)
                if progress.done == total:  # before the next bar
                    progress.close()

            self.training = begin(
                self.model,
                data.train,
                data.valid,
                links=data.links,
                progress=advance,
            )
        self.sample = short_pairs(self.model, data.valid, longest)
        self.measures = measures

    def resume(self) -> None:
        """Resume from the checkpoint, if there is one; raise if it is of another training."""
        if (state := self.files.take_state()) is not None:
            resume(self.training, state, self.files.checkpoint, HINT)
            if not self.training.step:
                note(f"{self.name} starts over: it has been ended before its first checkpoint")

    def ensure_checkpoint(self) -> None:
        """Write a checkpoint, if there is none of this training."""
        if not self.files.resumes():
            write_checkpoint(self.files.checkpoint, self.training.state())

    def train(self) -> int:
        """Train to the end (return 0), a signal (128 plus its number) or a loss that is not finite (1)."""
        try:
            with self.stop.listening():
                self._steps()
        except KeyboardInterrupt as error:  # the second signal: the steps since the last checkpoint are lost
            self.stop.requested, self.stop.status = True, _signals.status_of(error)
        except Diverged as error:
            self.files.remove_checkpoint()  # the training would diverge again
            self._report_stop(f"stopped: {error}", "the last good model")
            return 1
        if not self.stop.requested:
            draw_curve(self.files)
            return 0
        self._report_stop("interrupted", "the best model")
        if self.files.checkpoint.exists():
            command = "the same command" + " without --fresh" * self.files.fresh
            note(f"{command} goes on from there")
        return self.stop.status

    def calibrate(self, test: Sequence[Pair], data: Data, most: int | None) -> Confidence:
        """Calibrate the model on so many sources, and save it."""
        confidence = calibrate(self.model, test, self.sample, data, most)
        if self.model.calibration is not None:
            self.model.save(self.files.model)
        return confidence

    def _report_stop(self, why: str, which: str) -> None:
        saved = self.saved or ("that of an earlier run" if self.files.model.exists() else "")
        result = f"{which}, {saved}, is in {self.files.model}" if saved else "no model has been written"
        note(f"{why}; {result}")

    def _steps(self) -> None:
        """Take the steps of the training; report each validation and save each improvement."""
        with ExitStack() as stack:
            steps = take_steps(self.model, self.training, checkpoint=self.files.checkpoint, keep=True)
            stack.enter_context(closing(steps))
            if (first := next(steps, None)) is None:
                self._save_reranker()
                note(f"{self.name} is done already")
                return
            log = self.files.log
            reporter = Reporter(self.name, self.model, self.training, log, self.sample, first, self.measures)
            stack.enter_context(reporter)
            for step in chain([first], steps):
                reporter.time(step)
                if step.best:
                    self.model.save(self.files.model)
                    self.saved = f"that of epoch {step.epoch}"
                reporter.report(step)
                if self.stop.requested:
                    return
            reranked = self._save_reranker()
            notes = closing_notes(self.model, self.training, step, self.saved)
            for line in filter(None, chain([reranked], notes)):
                reporter.progress.write(line)

    def _save_reranker(self) -> str:
        """Save the weight of a reranker, which is fitted at the end of training; return a line that states it."""
        reranker = self.model.model.reranker
        if reranker is None or not self.files.model.exists():
            return ""
        self.model.save(self.files.model)
        return f"the weight of the reranker is {reranker.weight:g} (1 is that of the network)"

"""One training on its way from pairs to a file: told, logged, drawn, and never lost."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

from regard import _files
from regard.seq2seq.commands import curve
from regard.seq2seq.commands.drawing import can_draw
from regard.seq2seq.commands.link_files import Given
from regard.seq2seq.commands.summary import Reached, reached
from regard.seq2seq.data.normalization import tidy
from regard.seq2seq.data.parallel_text import Pair
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.storage.checkpoint_file import write_checkpoint
from regard.seq2seq.training.checkpoint import go_on, read_checkpoint
from regard.seq2seq.training.log import LOG_FILE, Log, entries
from regard.seq2seq.training.loop import Diverged, Step, Training
from regard.show.canvas import warned
from regard.show.chart import save_curves
from regard.show.progress import Progress
from regard.show.terminal import clean, fit

__all__ = ["Run", "Stop", "beside", "counted"]

_SAMPLE = 200  # validation pairs that are translated after each epoch
_ALL_TOLD = 10  # epochs; with more of them, only improvements are told, and not each
_WIDTH = 100  # of a translated sentence that is shown on the way
_LOGGED = 10  # steps between two lines of the log


def beside(place: Path, name: str) -> Path:
    """Return the place of a file that belongs to a model.

    Parameters
    ----------
    place : Path
        Of the model.
    name : str
        Of the file, for a model that is called model.safetensors.

    Returns
    -------
    Path
        In the same folder.

    Examples
    --------
    >>> beside(Path("runs/model.safetensors"), "log.jsonl").as_posix()
    'runs/log.jsonl'
    >>> beside(Path("mine.safetensors"), "log.jsonl").as_posix()
    'mine-log.jsonl'
    """
    return place.with_name(name if place.stem == "model" else f"{place.stem}-{name}")


def counted(count: int, thing: str) -> str:
    """Return a number with its noun.

    Parameters
    ----------
    count : int
        How many.
    thing : str
        What one of them is called.

    Returns
    -------
    str
        With a plural's "s" where it is one.

    Examples
    --------
    >>> counted(1, "pair"), counted(2, "pair")
    ('1 pair', '2 pairs')
    """
    return f"{count} {thing}{'' if count == 1 else 's'}"


class Stop:
    """Whether somebody has asked to stop: with Ctrl-C or SIGTERM, once; the second Ctrl-C doesn't wait.

    Examples
    --------
    >>> stop = Stop()
    >>> with stop.listening():
    ...     signal.raise_signal(signal.SIGINT)
    >>> stop.asked
    True
    """

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen for as long as the ``with`` block lasts; only the main thread may, where nobody else does."""
        ask = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        changed = {number: signal.getsignal(number) for number in ask}
        plain = (signal.SIG_DFL, signal.default_int_handler)
        changed = {number: before for number, before in changed.items() if before in plain}
        for number in changed:
            signal.signal(number, self._ask)
        try:
            yield
        finally:
            for number, before in changed.items():
                signal.signal(number, before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            signal.default_int_handler(number, frame)
        self.asked = True


SHOWN = 3  # translations that are shown, and drawn, at the end
_OTHERWISE = "--fresh begins anew"  # what helps where a checkpoint is of no use


class Run:
    """One training, its model's file, and what lies beside it.

    From before the first step until `forget` there is a checkpoint: a model without one is done.

    Parameters
    ----------
    model : Seq2Seq
        What is trained.
    place : Path
        Where the best model so far is kept.
    fresh : bool
        Whether it begins anew, whatever is there.
    """

    training: Training

    def __init__(self, model: Seq2Seq, place: Path, *, fresh: bool = False) -> None:
        self.model, self.place, self.fresh = model, place, fresh
        self.name = "training" if model.attention else "training without attention"
        self.checkpoint, self.log = beside(place, "checkpoint.safetensors"), beside(place, LOG_FILE)
        names = "curve.png", *(f"alignment-{number}.png" for number in range(1, SHOWN + 1))
        self.pictures = [beside(place, name) for name in names]
        self.sample: Sequence[Pair] = []  # what is translated on the way
        self.saved, self.last = "", 0  # the best epoch in words; the last epoch that was told
        self.stop = Stop()

    def begin(self, train: Sequence[Pair], valid: Sequence[Pair], links: Given | None) -> None:
        """Learn the vocabularies and draw the network.

        Parameters
        ----------
        train, valid : sequences of (source, target)
            To learn from, and to judge by.
        links : Given, optional
            Where each target word should look.
        """
        if self.model.joint:
            print(f"counting what {self.model.joint} tokens in a row became", file=sys.stderr)
        with ExitStack() as shown:

            @cache  # one bar, and none without a memory
            def bar(total: int) -> Progress:
                return shown.enter_context(Progress(total, "looking up what is alike"))

            self.training = self.model.begin(
                train, valid, links=links, looking_up=lambda more, total: bar(total).advance(more)
            )

    def is_done(self) -> bool:
        """Say whether there is a model, and nothing to go on from."""
        return self.place.exists() and not self.checkpoint.exists()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other trainings out of its place; what those that were killed have left there is removed."""
        with _files.alone(self.place) as free:
            if not free:
                raise ValueError(f"--out: another process trains {self.place}; another --out is free")
            for path in (self.place, self.checkpoint, self.log, *self.pictures):
                _files.remove_partial(path)
            yield

    def check_checkpoint(self) -> None:
        """Refuse a checkpoint that is none, if it would be gone on from."""
        if self.checkpoint.exists() and not self.fresh:
            read_checkpoint(self.checkpoint, _OTHERWISE)

    def go_on(self) -> None:
        """Go on from the checkpoint, if there is one by now: it must be of this training."""
        if self.checkpoint.exists() and not self.fresh:
            state = read_checkpoint(self.checkpoint, _OTHERWISE)
            go_on(self.training, state, self.checkpoint, _OTHERWISE)

    def keep(self) -> None:
        """See to it that there is a checkpoint."""
        if self.fresh or not self.checkpoint.exists():
            write_checkpoint(self.checkpoint, self.training.state())

    def forget(self) -> None:
        """Remove what it takes to go on."""
        self.checkpoint.unlink(missing_ok=True)

    def train(self) -> int:
        """Train until the end, an interruption or a loss that is no number: 0, 130 or 1."""
        try:
            with self.stop.listening():
                self._steps()
        except KeyboardInterrupt:  # asked twice: what was begun since the last checkpoint is lost
            self.stop.asked = True
        except Diverged as error:
            self.forget()  # from there the same would happen again
            self._stopped(f"stopped: {error}", "the last good model")
            return 1
        if not self.stop.asked:
            self._draw()
            return 0
        self._stopped("interrupted", "the best model")
        if self.checkpoint.exists():
            command = "the same command without --fresh" if self.fresh else "the same command"
            print(f"{command} goes on from there", file=sys.stderr)
        return 130

    def _stopped(self, why: str, which: str) -> None:
        saved = self.saved or ("that of an earlier run" if self.place.exists() else "")
        kept = f"{which}, {saved}, is kept in {self.place}" if saved else "no model has been written"
        print(f"{why}; {kept}", file=sys.stderr)

    def _steps(self) -> None:
        """Learn; every validation is told, every improvement saved."""
        with ExitStack() as stack:
            run = self.model.run(self.training, checkpoint=self.checkpoint, keep=True)
            steps = stack.enter_context(closing(run))
            told: _Told | None = None
            for step in steps:
                if told is None:
                    told = stack.enter_context(_Told(self, step))
                told.tell(step)
                if self.stop.asked:
                    return
            if told is None:
                print(f"{self.name} is done already", file=sys.stderr)
            elif step.epoch > _ALL_TOLD and self.saved:
                told.progress.say(f"the best model is {self.saved}")
            guessed = math.log(len(self.model.model.target))
            if told is not None and self.training.best_loss > guessed:
                told.progress.say(
                    f"every validation loss is above {guessed:.3f}, that of guessing: a smaller --rate may help"
                )
            if told is not None and self.training.is_ahead():
                epochs, minutes = counted(self.training.recipe.epochs, "epoch"), self.training.recipe.minutes
                told.progress.say(
                    f"done with {epochs} before the {minutes:g} minutes were over: see --epochs"
                )

    def validated(self, step: Step) -> tuple[str, Reached | None]:
        """Save the model if it is better; return what there is to say, and what it reached if that was measured."""
        if step.best:
            self.model.save(self.place)
            self.saved = f"that of epoch {step.epoch}"
        if not self._is_news(step):
            return "", None
        self.last = step.epoch
        told = f"epoch {step.epoch}: validation loss {step.validation:.3f}"
        found, example = self._translated()
        if found is not None:
            told += f", {found} (greedy, {counted(min(len(self.sample), _SAMPLE), 'pair')})"
        told += ", saved" if step.best else ""
        return f"{told}\n{example}" if example else told, found

    def _is_news(self, step: Step) -> bool:
        """Say whether a validation is told; of many epochs, those that are better, at growing distances."""
        if step.epoch <= _ALL_TOLD or step.number == step.total:
            return True
        return step.best and step.epoch >= 1.1 * self.last

    def _translated(self) -> tuple[Reached | None, str]:
        """Translate some of the validation sentences: what was reached on them, and one of them to look at."""
        if not self.sample:
            return None, ""
        sample = self.sample[:_SAMPLE]
        found = [translation.text for translation in self.model.translate([p[0] for p in sample], beam=1)]
        chosen = self.last * 7 % len(sample)
        example = f"  {clean(str(sample[chosen][0]))} -> {clean(found[chosen])}"
        return self.measured(sample, found), fit(example, _WIDTH).rstrip()

    def measured(self, pairs: Sequence[Pair], found: Sequence[str]) -> Reached:
        """Measure translations of pairs."""
        form = self.model.model.target.normalization  # what the model writes is in it
        sources, right = (
            [str(source) for source, _ in pairs],
            [tidy(str(target), form) for _, target in pairs],
        )
        return reached(self.model.target, sources, found, right)

    def _draw(self) -> None:
        if can_draw():
            with warned(self.pictures[0]):
                save_curves(self.pictures[0], curve.panels({"": entries(self.log)}))


class _Told:
    """What is said of the steps: on the terminal, and in the log."""

    def __init__(self, run: Run, first: Step) -> None:
        self.run = run
        done = first.number - 1
        self.progress = Progress(first.total, run.name, done=done)
        self.log = Log(run.log, resume_at=done if done else None)
        if done:
            self.progress.say(f"going on after step {done} of {first.total}")
        self.pace: float | None = None
        self.since: float | None = None  # the first step is over: nobody knows how long it took

    def __enter__(self) -> _Told:
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()
        self.log.close()

    def tell(self, step: Step) -> None:
        """Tell a step, and everything about it if the model was validated."""
        self._measure(step.words)
        said, found = self.run.validated(step) if step.validation is not None else ("", None)
        self.progress.advance(loss=step.loss, total=step.total, pace=self.pace)
        if said:
            self.progress.say(said)
        if step.validation is not None or step.number % _LOGGED == 0 or step.number == 1:
            self.log.write(
                step=step.number,
                epoch=step.epoch,
                seconds=round(step.seconds, 3),
                loss=step.loss,
                rate=step.rate,
                words=step.words,
                words_per_second=None if self.pace is None else round(self.pace, 1),
                validation=step.validation,
                **(
                    {}
                    if found is None
                    else {"bleu": found.bleu, "exact": found.exact, "errors": found.errors}
                ),
            )
        self.since = time.monotonic()

    def _measure(self, words: int) -> None:
        """Count target words a second, the latest steps more than those before; what is told takes no part in it."""
        if self.since is None:
            return
        now = words / max(time.monotonic() - self.since, 1e-9)
        self.pace = now if self.pace is None else 0.95 * self.pace + 0.05 * now

"""One training on its way from pairs to a file: told, logged, drawn, and never lost."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

from regard import _files, _signals
from regard.seq2seq.commands import curve
from regard.seq2seq.commands.drawing import can_draw
from regard.seq2seq.commands.link_files import Given
from regard.seq2seq.commands.summary import Reached, reached
from regard.seq2seq.data.normalization import normalize
from regard.seq2seq.data.parallel_text import Pair
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.storage.checkpoint_file import write_checkpoint
from regard.seq2seq.training.checkpoint import go_on, read_checkpoint
from regard.seq2seq.training.defaults import choose_epochs
from regard.seq2seq.training.log import LOG_FILE, Log, read_log
from regard.seq2seq.training.loop import Diverged, Recipe, Step, Training
from regard.show.canvas import warned
from regard.show.chart import save_curves
from regard.show.progress import Progress
from regard.show.terminal import clean, fit, note

__all__ = ["Run", "Stop", "beside", "counted", "foreseen"]

_SAMPLE = 200  # validation pairs that are translated after each epoch
_ALL_TOLD = 10  # epochs; with more of them, only improvements are told, and not each
_WIDTH = 100  # of a translated sentence that is shown on the way
_LOGGED = 10  # steps between two lines of the log
_MEASURED = 5.0  # seconds of training after which its speed is known
_SHORT = 0.5  # a training that sees pairs less than this share of the usual times is called short


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
    """Whether a signal has asked to stop: Ctrl-C, SIGTERM or SIGHUP, once; the second one doesn't wait.

    Examples
    --------
    >>> stop = Stop()
    >>> with stop.listening():
    ...     signal.raise_signal(signal.SIGINT)
    >>> stop.asked, stop.status
    (True, 130)
    """

    asked, status = False, 0

    def listening(self) -> AbstractContextManager[None]:
        """Listen for as long as the ``with`` block lasts; only the main thread may, where nobody else does."""
        return _signals.handled(self._ask, signal.SIGINT)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            _signals.end(number, frame)
        self.asked, self.status = True, 128 + number


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
            note(f"counting what {self.model.joint} tokens in a row became")
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

    def finished(self) -> str | None:
        """Return what the training of a model that is done was recognised by, if its log has it."""
        try:
            marks = [entry["finished"] for entry in read_log(self.log) if "finished" in entry]
        except (OSError, ValueError):
            return None
        return str(marks[-1]) if marks else None

    def finish(self, mark: str) -> None:
        """Note in the log that all is done, and what the training is recognised by; then forget how to go on."""
        with Log(self.log, resume_at=self.training.step) as log:
            log.write(step=self.training.step, finished=mark)
        self.forget()

    def forget(self) -> None:
        """Remove what it takes to go on."""
        self.checkpoint.unlink(missing_ok=True)

    def train(self) -> int:
        """Train until the end, a signal or a loss that is not finite: 0, 128 and the signal's number, or 1."""
        try:
            with self.stop.listening():
                self._steps()
        except KeyboardInterrupt as error:  # asked twice: what was begun since the last checkpoint is lost
            self.stop.asked, self.stop.status = True, _signals.status_of(error)
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
            note(f"{command} goes on from there")
        return self.stop.status

    def _stopped(self, why: str, which: str) -> None:
        saved = self.saved or ("that of an earlier run" if self.place.exists() else "")
        kept = f"{which}, {saved}, is kept in {self.place}" if saved else "no model has been written"
        note(f"{why}; {kept}")

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
            self._save_weight(told)
            if told is None:
                note(f"{self.name} is done already")
            elif step.epoch > _ALL_TOLD and self.saved:
                told.progress.say(f"the best model is {self.saved}")
            guessed = math.log(len(self.model.model.target))
            if told is not None and self.training.best_loss > guessed:
                told.progress.say(
                    f"every validation loss is above {guessed:.3f}, that of guessing: a smaller --rate may help"
                )
            if told is not None and self.training.is_ahead():
                epochs, minutes = (
                    counted(self.training.recipe.epochs or 0, "epoch"),
                    self.training.recipe.minutes,
                )
                told.progress.say(
                    f"done with {epochs} before the {minutes:g} minutes were over: see --epochs"
                )

    def _save_weight(self, told: _Told | None) -> None:
        """Save the weight of joint sequences, which is fitted when training is over."""
        joint = self.model.model.joint
        if joint is None or not self.place.exists():
            return
        self.model.save(self.place)
        if told is not None:
            told.progress.say(f"joint sequences count {joint.weight:g} times beside the network")

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
            told += f", {found} (greedy, {counted(len(self._spread()), 'pair')})"
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
        sample = self._spread()
        found = [translation.text for translation in self.model.translate([p[0] for p in sample], beam=1)]
        chosen = self.last * 7 % len(sample)
        example = f"  {clean(str(sample[chosen][0]))} -> {clean(found[chosen])}"
        return self.measured(sample, found), fit(example, _WIDTH).rstrip()

    def _spread(self) -> list[Pair]:
        """Return pairs from all over the sample: a file may be sorted."""
        count = len(self.sample)
        return (
            [self.sample[i * count // _SAMPLE] for i in range(_SAMPLE)] if count > _SAMPLE else [*self.sample]
        )

    def usual(self) -> int:
        """Return how often each pair is seen where nobody limits it."""
        return choose_epochs(len(self.training.pairs))

    def seen(self) -> float:
        """Return how often each pair has been seen."""
        return self.training.step / self.training.per_epoch

    def short(self) -> str:
        """Say what it means that the training was far too short, and which option to change; nothing if it was not."""
        recipe, seen = self.training.recipe, self.seen()
        if seen >= _SHORT * self.usual() or self.training.out_of_patience():
            return ""
        option = "--epochs"
        if recipe.epochs is None or self.training.step < self.training.total:
            option = f"--minutes {math.ceil(self.training.seconds / 60 * self.usual() / max(seen, 1e-9))}"
        return (
            f"{self.name} was short: each pair was seen {_times(seen)}, and {_times(self.usual())} is usual for so"
            f" many pairs; the model can become better with {option}"
        )

    def measured(self, pairs: Sequence[Pair], found: Sequence[str]) -> Reached:
        """Measure translations of pairs."""
        form = self.model.model.target.normalization  # what the model writes is in it
        sources, right = (
            [str(source) for source, _ in pairs],
            [normalize(str(target), form) for _, target in pairs],
        )
        return reached(self.model.target, sources, found, right)

    def _draw(self) -> None:
        if can_draw():
            with warned(self.pictures[0]):
                save_curves(self.pictures[0], curve.panels({"": read_log(self.log)}))


def foreseen(a_second: float, seen: float, minutes: float, usual: int, recipe: Recipe) -> str:
    """Say how often each pair will be seen at the measured speed.

    Parameters
    ----------
    a_second : float
        How often each pair is seen in a second.
    seen : float
        How often each has been seen already.
    minutes : float
        How long that took.
    usual : int
        How often it is seen where nobody limits it.
    recipe : Recipe
        With the limits.

    Returns
    -------
    str
        One line; with the minutes that are needed if those that were given are far too few.

    Examples
    --------
    >>> print(foreseen(0.01, 0.05, 0.1, 9, Recipe(epochs=None, minutes=3.0)))
    at this speed each pair will be seen 1.8 times in 3 minutes; 9 times is usual, which takes --minutes 15
    >>> print(foreseen(0.01, 0.05, 0.1, 9, Recipe()))
    at this speed each pair will be seen 9 times in 15 minutes
    """
    times, needed = math.inf if recipe.epochs is None else float(recipe.epochs), recipe.minutes
    if needed is None or times < seen + 60 * (needed - minutes) * a_second:
        needed = minutes + (times - seen) / a_second / 60
    else:
        times = max(seen + 60 * (needed - minutes) * a_second, seen)
    told = f"at this speed each pair will be seen {_times(times)} in {_minutes(needed)}"
    if times >= _SHORT * usual:
        return told
    if recipe.epochs is not None and times >= recipe.epochs:
        return f"{told}; {_times(usual)} is usual: see --epochs"
    enough = math.ceil(minutes + (usual - seen) / a_second / 60)
    return f"{told}; {_times(usual)} is usual, which takes --minutes {enough}"


def _times(number: float) -> str:
    """Return how often something happens: with a digit behind the point where that says something."""
    shown = f"{number:.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"
    return f"{shown} time{'' if shown == '1' else 's'}"


def _minutes(number: float) -> str:
    shown = f"{number:.0f}" if number >= 10 else f"{number:.2g}"
    return f"{shown} minute{'' if shown == '1' else 's'}"


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
        self.first = first
        self.foreseen = False  # whether it has been told how often each pair will be seen
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
        self.progress.advance(loss=step.loss, total=step.total, pace=self.pace, unit=self.run.model.target)
        self._foresee(step)
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

    def _foresee(self, step: Step) -> None:
        """Report once, as soon as the speed is known, how often each pair will be seen."""
        if self.foreseen or step.seconds - self.first.seconds < _MEASURED:
            return
        self.foreseen = True
        self.progress.say(
            foreseen(
                self.run.seen() / max(step.seconds, 1e-9),
                self.run.seen(),
                step.seconds / 60,
                self.run.usual(),
                self.run.training.recipe,
            )
        )

    def _measure(self, words: int) -> None:
        """Count target words a second, the latest steps more than those before; what is told takes no part in it."""
        if self.since is None:
            return
        now = words / max(time.monotonic() - self.since, 1e-9)
        self.pace = now if self.pace is None else 0.95 * self.pace + 0.05 * now

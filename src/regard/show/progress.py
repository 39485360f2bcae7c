"""A progress bar on a terminal, and progress lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO

from regard.show.terminal.text import clean, report, shorten

__all__ = ["Progress"]

_LONGEST_NAME = 100
_SHORTEST = 1e-3  # seconds: for less, no pace is shown


class Progress:
    """Show progress with loss and time left: a tqdm bar on a terminal, or a line every few seconds.

    Parameters
    ----------
    total
        Number of steps.
    name
        A label, such as "training".
    stream
        The output; standard error by default, so that results in a pipe stay clean.
    every
        Seconds between two lines.
    done
        Steps done before, for work that is resumed.
    unit
        The noun for steps, such as "pictures"; if given, the number per second is shown.

    Examples
    --------
    >>> with Progress(2, "training", stream=sys.stdout, every=0.0) as progress:
    ...     progress.advance(loss=1.5)  # doctest: +ELLIPSIS
    ...     progress.advance(loss=0.25)
    training: 1 of 2 (50 %), loss 1.500, ... left
    training: 2 of 2 (100 %), loss 0.250, done in ...
    """

    def __init__(
        self,
        total: int,
        name: str,
        *,
        stream: TextIO | None = None,
        every: float = 5.0,
        done: int = 0,
        unit: str | None = None,
    ) -> None:
        self.total, self.name, self.every = total, clean(shorten(name, _LONGEST_NAME)), every
        self.stream = sys.stderr if stream is None else stream
        self.done = self.before = done
        self.unit = unit
        self._start = time.monotonic()
        self._printed = self._start
        self._bar = _bar(total, self.name, self.stream, done)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def advance(
        self,
        steps: int = 1,
        *,
        loss: float | None = None,
        total: int | None = None,
        pace: float | None = None,
        unit: str = "words",
    ) -> None:
        """Advance the bar by some steps.

        Parameters
        ----------
        steps
            Number of steps.
        loss
            The latest loss.
        total
            A new estimate of the number of all steps.
        pace
            Units per second, where steps are something else.
        unit
            The unit: "words", "characters", "tokens", "pictures".

        Examples
        --------
        >>> progress = Progress(2, "training", stream=sys.stdout, every=0.0)
        >>> progress.advance(2, loss=0.25)  # doctest: +ELLIPSIS
        training: 2 of 2 (100 %), loss 0.250, done in ...
        """
        self.done += steps
        if self.unit is not None:
            unit = self.unit
            pace = (self.done - self.before) / max(time.monotonic() - self._start, _SHORTEST)
        note = _note(loss, pace, unit)
        if total is not None:
            self.total = total
            if self._bar is not None:
                self._bar.total = total
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(steps)
            return
        now = time.monotonic()
        if now - self._printed >= self.every or self.done >= self.total:
            self._printed = now
            print(self._line(now - self._start, note), file=self.stream, flush=True)

    def write(self, text: str) -> None:
        """Print lines above the bar, cleaned by `report`.

        Parameters
        ----------
        text
            The lines.

        Examples
        --------
        >>> Progress(2, "training", stream=sys.stdout).write("one file is missing")
        one file is missing
        """
        text = report(text)
        if self._bar is not None:
            self._bar.write(text, file=self.stream)
        else:
            print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Close the bar; it stays visible."""
        if self._bar is not None:
            self._bar.close()

    def _line(self, seconds: float, note: str) -> str:
        line = f"{self.name}: {self.done} of {self.total} ({100 * self.done // max(self.total, 1)} %)"
        if note:
            line += f", {note}"
        if self.done >= self.total:
            return f"{line}, done in {_clock(seconds)}"
        return f"{line}, {_clock(seconds * (self.total - self.done) / max(self.done - self.before, 1))} left"


def _note(loss: float | None, pace: float | None, unit: str) -> str:
    parts = [] if loss is None else [f"loss {loss:.3f}"]
    if pace is not None:
        parts.append(f"{pace:,.{0 if pace >= 10 else 1}f} {unit}/s")
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    return f"{round(seconds) // 60}:{round(seconds) % 60:02d}"


def _bar(total: int, name: str, stream: TextIO, done: int) -> Any:
    """Return a tqdm bar, or None without a terminal or without tqdm."""
    if not stream.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    form = "{desc} {percentage:3.0f} % |{bar}| {n_fmt}/{total_fmt}, {remaining} left{postfix}"
    bar_class = type(
        "Bar", (tqdm,), {"monitor_interval": 0}
    )  # without tqdm's monitor thread, which the system may not allow
    return bar_class(
        total=total, initial=done, desc=name, file=stream, dynamic_ncols=True, bar_format=form, miniters=1
    )

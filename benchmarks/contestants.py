"""Contestants that take turns, each in a process of its own, with its threads, its peak of memory and its limits.

A script starts itself as each `Contestant`, which calls `serve`. The first run of a job may compile and fill caches; it
is measured apart. A contestant that fails, or needs more than the limits, gives the reason instead of figures.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from record import Row, spread

__all__ = ["MEMORY", "SECONDS", "Contestant", "Prepare", "Run", "serve", "take_turns", "times", "untimed"]

MEMORY = 10  # GiB that a contestant may have
SECONDS = 100  # of the processors, the longest run
PATIENCE = 5.0  # seconds for the rounds of a contestant, after its first two
MIB = 1 << 20

Run = Callable[[], Any]
Prepare = Callable[[Row], Run]


class Contestant:
    """A script in a process of its own, started when it is asked, and again after it has died."""

    def __init__(self, script: str, options: Row, environment: Mapping[str, str] = os.environ) -> None:
        self.command = [sys.executable, script, "--worker", json.dumps(options)]
        self.environment = dict(environment)
        self.process: subprocess.Popen[str] | None = None

    def ask(self, job: Row) -> Row:
        """Run a job and return what was measured, or the reason."""
        process = self.process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it died while it was loaded
            print(json.dumps(job), file=process.stdin, flush=True)
        if line := process.stdout.readline():
            answer: Row = json.loads(line)
            return answer
        self.process = None
        code = process.wait()
        slow = f"more than {SECONDS} seconds"
        return {"reason": slow if code == -signal.SIGPROF else f"ended with code {code}"}

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command,
            env=self.environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # which has a priority of its own
        )

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.communicate()


def serve(load: Callable[[], Prepare]) -> None:
    """Load a contestant, and measure a run of each job, a line of standard input.

    A job that is repeated is prepared once.
    """
    answers = _claim_output()
    with suppress(OSError):  # more of the processors than other programs, where the system allows it
        Path("/proc/self/autogroup").write_text("-10")
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY << 30, MEMORY << 30))
    prepare, last, run, loaded = None, "", None, 0.0
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            if prepare is None:
                prepare = load()
                loaded = _memory("VmRSS")
            run = run if line == last and run else prepare(json.loads(line))
            answer = _measured(run, loaded)
        except Exception as error:  # anything that another library raises is its reason
            answer = {"reason": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        last = line
        print(json.dumps(answer), file=answers, flush=True)


def _claim_output() -> IO[str]:
    """Return the standard output, to which nobody else writes from here on."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return output


def _measured(run: Run, loaded: float) -> Row:
    """Return the times of a run, its peak of memory in MiB beyond what was loaded, and what it says itself."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    start, processor = time.perf_counter(), time.process_time()
    output = run()
    measured = {"seconds": time.perf_counter() - start, "processor": time.process_time() - processor}
    about = output if isinstance(output, dict) else {}
    return {**measured, "mib": _memory("VmHWM") - loaded, **about}


def _memory(name: str) -> float:
    """Return a memory of this process in MiB."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) * 1024 / MIB


def take_turns(contestants: Mapping[str, Contestant], job: Row, rounds: int) -> dict[str, list[Row]]:
    """Return what each contestant has measured: the first run, then the rounds, whose order rotates.

    One that is slow has fewer rounds.
    """
    answers = {name: [contestant.ask(job)] for name, contestant in contestants.items()}
    order = list(contestants)
    for done in range(rounds):
        for name in order:
            last = answers[name][-1]
            if "reason" not in last and (done == 0 or done * last["seconds"] < PATIENCE):
                answers[name].append(contestants[name].ask(job))
        order.append(order.pop(0))
    return answers


def untimed(answers: list[Row]) -> Row:
    """Return the first run's seconds and the peak of memory, or the reason why there are none."""
    reasons = [answer["reason"] for answer in answers if "reason" in answer]
    if reasons:
        return {"reason": reasons[0]}
    return {"first": answers[0]["seconds"], "mib": max(answer["mib"] for answer in answers)}


def times(answers: list[Row], others: list[Row], clock: str) -> Row:
    """Return the seconds of the rounds by a clock, and how many times as long as those of others they are.

    The clock is "seconds", or "processor", on which other programs have less influence: of one thread.
    """
    pairs = zip(answers[1:], others[1:], strict=False)
    seconds = spread(answer[clock] for answer in answers[1:])
    return {"seconds": seconds, "times": spread(a[clock] / b[clock] for a, b in pairs)}

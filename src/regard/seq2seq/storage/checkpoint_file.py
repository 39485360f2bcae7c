"""The checkpoint: the state of a training, in a file of `regard._safetensors`.

All arrays are flat (F32). The metadata: format "regard.checkpoint", version "2", and ``state``, JSON: step, seconds,
best_loss, waited and fingerprint of `State`.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, NamedTuple

from numpy.typing import NDArray

from regard._safetensors import InvalidFile, opened, write

__all__ = ["State", "read_checkpoint", "write_checkpoint"]

Array = NDArray[Any]

FORMAT, VERSION = "regard.checkpoint", "2"
_MOST_STEPS, _MOST_SECONDS = 10**12, 1e9  # 30 years
_ROUNDING = 0.001  # how far below 0 a cross-entropy may come out


class State(NamedTuple):
    """The state of training between two steps, as stored in a checkpoint.

    `step`: steps taken; `seconds`: the time they took; `best_loss`: the lowest validation loss, infinite before the
    first; `waited`: validations since then; `fingerprint`: of the pairs, the options of training and the network:
    another training cannot resume from this checkpoint; `arrays` (P,): the parameters, Adam's two means, the running
    mean if there is one, and the best parameters.
    """

    step: int
    seconds: float
    best_loss: float
    waited: int
    fingerprint: dict[str, str]
    arrays: dict[str, Array]


def write_checkpoint(path: str | os.PathLike[str], state: State) -> None:
    """Write a checkpoint atomically; an older one is replaced, also where a link points to it."""
    numbers = {name: value for name, value in state._asdict().items() if name != "arrays"}
    metadata = {"format": FORMAT, "version": VERSION, "state": json.dumps(numbers)}
    write(path, state.arrays, metadata)


def read_checkpoint(path: str | os.PathLike[str]) -> State:
    """Read a checkpoint, which may be untrusted; `Training.resume_from` checks that it fits."""
    with opened(path, "checkpoint") as file:
        file.expect_format(FORMAT, VERSION)
        numbers = file.json("state")
        types = {"step": int, "seconds": float, "best_loss": float, "waited": int, "fingerprint": dict}
        if not isinstance(numbers, dict) or {name: type(value) for name, value in numbers.items()} != types:
            raise InvalidFile("its state is incomplete or damaged")
        if not all(isinstance(part, str) and part.isprintable() for part in numbers["fingerprint"].values()):
            raise InvalidFile("its fingerprint is damaged")  # parts of it may be shown
        _check_numbers(numbers)
        file.expect("F32", {name: tensor.shape for name, tensor in file.tensors.items()})
        return State(**numbers, arrays={name: file.array(name) for name in file.tensors})


def _check_numbers(numbers: dict[str, Any]) -> None:
    """Raise if a number cannot be that of a training."""
    limits = {
        "step": (0, _MOST_STEPS),
        "seconds": (0, _MOST_SECONDS),
        "best_loss": (-_ROUNDING, math.inf),
        "waited": (0, numbers["step"]),
    }
    for name, (least, most) in limits.items():
        if not least <= numbers[name] <= most:  # NaN is outside, too
            raise InvalidFile(
                f"its {name} must be from {least:g} to {most:g}. It is {numbers[name]!s:.20} instead."
            )

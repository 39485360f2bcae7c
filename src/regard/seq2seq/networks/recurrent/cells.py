"""The recurrent cells by name, and the names of a layer's parameters.

From the second layer l on, the names end in ``_l``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.nn import gru, lstm

__all__ = ["GATES", "SEQUENCES", "layer", "parts"]

GATES = {"gru": 3, "lstm": 4}
SEQUENCES: dict[str, Callable[..., Any]] = {"gru": gru, "lstm": lstm}


def layer(name: str, number: int) -> str:
    """Return the name of a layer's parameter.

    `name`: the name in the first layer; `number`: the layer, counted from 0.
    """
    return name if number == 0 else f"{name}_{number + 1}"


def parts(cell: str) -> int:
    """Return how many arrays of size D the state of a layer has: an LSTM has a cell next to its state.

    `cell`: "gru" or "lstm".
    """
    return 2 if cell == "lstm" else 1

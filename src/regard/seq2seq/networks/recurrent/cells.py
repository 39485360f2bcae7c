"""The recurrent cells by name, and a stack of layers for one decoder step.

Letters: B sentences, D state, G gates of a cell (3 of a GRU, 4 of an LSTM), L layers. The parameters of layer l have
names that end in ``_l`` from the second layer on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._layout import as_rows
from regard.nn import gru, gru_step, lstm, lstm_step

__all__ = ["GATES", "SEQUENCES", "Stack", "layer", "parts"]

Array = NDArray[Any]
Named = dict[str, Array]
Pull = Callable[..., Any]

GATES = {"gru": 3, "lstm": 4}
SEQUENCES: dict[str, Callable[..., Any]] = {"gru": gru, "lstm": lstm}


def layer(name: str, number: int) -> str:
    """Return the name of a layer's parameter.

    Parameters
    ----------
    name : str
        The name in the first layer.
    number : int
        The layer, counted from 0.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> layer("decoder_state", 0), layer("decoder_state", 1)
    ('decoder_state', 'decoder_state_2')
    """
    return name if number == 0 else f"{name}_{number + 1}"


def parts(cell: str) -> int:
    """Return how many arrays of size D the state of a layer has: an LSTM has a cell next to its state.

    Parameters
    ----------
    cell : str
        "gru" or "lstm".

    Returns
    -------
    int
        1 or 2.

    Examples
    --------
    >>> parts("gru"), parts("lstm")
    (1, 2)
    """
    return 2 if cell == "lstm" else 1


class Stack:
    """The decoder's layers: steps forward, and the same steps backward.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    cell : str
        "gru" or "lstm".
    layers : int
        L.
    """

    def __init__(self, p: Mapping[str, Array], cell: str, layers: int) -> None:
        self.p, self.cell, self.layers = p, cell, layers
        self.size = len(p["decoder_state"])
        self.tape: list[
            list[tuple[Pull, Array, Array]]
        ] = []  # of each step and layer: pullback, state before, input
        self.back: dict[str, Array] = {}
        self.g: Named = {}

    def forward(self, gates: Array, memory: Array, *, keep: bool = True) -> Array:
        """Take a step.

        Parameters
        ----------
        gates : array (..., G D)
            What the input adds to the gates of the first layer.
        memory : array (..., L P D)
            The states of all layers, side by side; an LSTM's cell follows its state.
        keep : bool
            Whether there will be a backward pass.

        Returns
        -------
        array (..., L P D)
            The same after the step.
        """
        old = self._split(memory)
        new: list[Array] = []
        steps = []
        below = gates
        for number, (state, *cell) in enumerate(old):
            if number:
                below = new[-parts(self.cell)] @ self.p[layer("decoder_input", number)]
                below += self.p[layer("decoder_bias", number)]
            hidden = state @ self.p[layer("decoder_state", number)]
            fresh, pull = self._step(below, hidden, state, *cell)
            steps.append((pull, state, new[-parts(self.cell)] if number else gates))
            new += fresh
        if keep:
            self.tape.append(steps)
        return np.concatenate(new, axis=-1) if len(new) > 1 else new[0]

    def _step(self, below: Array, hidden: Array, state: Array, *cell: Array) -> tuple[list[Array], Pull]:
        """Return the new state of a layer, and its pullback to (dbelow, dhidden, dstate, dcell...)."""
        if not cell:
            new, gru_back = gru_step(below, hidden, state)
            return [new], gru_back
        (new, new_cell), lstm_back = lstm_step(below, hidden, cell[0])

        def pull(dnew: Array, dnew_cell: Array) -> tuple[Array, ...]:
            dbelow, dhidden, dcell = lstm_back(dnew, dnew_cell)
            return dbelow, dhidden, np.zeros_like(state), dcell  # the state comes in by `hidden` alone

        return [new, new_cell], pull

    def top(self, memory: Array) -> Array:
        """Return the last layer's state (..., D) of a memory."""
        return self._split(memory)[-1][0]

    def _split(self, memory: Array) -> list[list[Array]]:
        """Return the parts of each layer: [state] or [state, cell]."""
        per, size = parts(self.cell), self.size
        pieces = [memory[..., i * size : (i + 1) * size] for i in range(self.layers * per)]
        return [pieces[number * per : (number + 1) * per] for number in range(self.layers)]

    def backward(self, dmemory: Array) -> tuple[Array, Array]:
        """Take the last step back: the gradient of the memory after it becomes (dgates, dmemory before)."""
        dnew = [[part.copy() for part in parts] for parts in self._split(dmemory)]
        dold: list[list[Array]] = [[] for _ in range(self.layers)]
        steps = self.tape.pop()
        dbelow = dmemory
        for number in reversed(range(self.layers)):
            pull, state, below = steps[number]
            dbelow, dhidden, dstate, *dcell = pull(*dnew[number])
            self._add(layer("decoder_state", number), as_rows(state).T @ as_rows(dhidden))
            dold[number] = [dstate + dhidden @ self.transposed(layer("decoder_state", number)), *dcell]
            if number:
                self._add(layer("decoder_input", number), as_rows(below).T @ as_rows(dbelow))
                self._add(layer("decoder_bias", number), as_rows(dbelow).sum(axis=0))
                dnew[number - 1][0] += dbelow @ self.transposed(layer("decoder_input", number))
        return dbelow, np.concatenate([part for parts in dold for part in parts], axis=-1)

    def _add(self, name: str, gradient: Array) -> None:
        self.g[name] = self.g[name] + gradient if name in self.g else gradient

    def transposed(self, name: str) -> Array:
        """Return a contiguous transpose of a parameter, made once."""
        if name not in self.back:
            self.back[name] = np.ascontiguousarray(self.p[name].T)
        return self.back[name]

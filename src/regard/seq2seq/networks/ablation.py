"""Networks without one head: the parameters that read its context are 0, so that it adds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.families import build
from regard.seq2seq.networks.parameters import Parameters

__all__ = ["Ablation", "ablated"]

Array = NDArray[Any]


class Ablation(NamedTuple):
    """What the loss of a model rises by without each head: L layers of h heads.

    `loss`: the mean negative log-probability of a target token, </s> included, with all heads. `encoder` (L, h),
    `decoder` (L, h), `source` (L, h): how much larger it is without a head of the encoder's or the decoder's
    self-attention, or of the attention to the source. A recurrent network has one attention, to the source: (1, 1), and
    (0, 0) for the others.
    """

    loss: float
    encoder: Array
    decoder: Array
    source: Array


def ablated(network: Network) -> Iterator[tuple[tuple[str, int, int], Network]]:
    """Yield the kind, layer and number of each head, and a network without it; all share one copy of the parameters.

    Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3.
    """
    parameters = Parameters(network.config.shapes(), network.parameters.flat.copy())
    for head, rows in network.config.head_rows().items():
        for name, part in rows.items():
            parameters[name][part] = 0
        yield head, build(network.config, parameters)
        np.copyto(parameters.flat, network.parameters.flat)

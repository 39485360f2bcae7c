"""The loss of a network as a function, for `nn.check_gradients`."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.seq2seq.corpus.batching import Batch
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.families import build
from regard.seq2seq.networks.parameters import Parameters


def loss_of(config: Any, batch: Batch, **how: Any) -> Any:
    """The loss as a function of all parameters, for `check_gradients`, with the same random numbers at every call."""

    def loss(*arrays: Any) -> Any:
        flat = np.concatenate([array.ravel() for array in arrays])
        network = build(config, Parameters(config.shapes(), flat))
        value, pullback = network.loss(batch, LossOptions(**how), np.random.default_rng(1))

        def back(d: float) -> list[Any]:
            gradients = pullback(d)
            assert gradients.keys() == config.shapes().keys()
            return [gradients[name] for name in config.shapes()]

        return value, back

    return loss

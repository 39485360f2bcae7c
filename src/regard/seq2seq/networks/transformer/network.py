"""The transformer: an encoder-decoder of attention alone (Vaswani et al. 2017), normalised before each block."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.nn import dropout as drop_out
from regard.seq2seq.corpus.batching import Batch, Ids
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.output_layer import alignment_loss, log_frequency, prediction_loss
from regard.seq2seq.networks.padding import Padding
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.layers import no_dropout
from regard.seq2seq.networks.transformer.stacks import decode, encode
from regard.seq2seq.networks.transformer.stepper import TransformerStepper
from regard.seq2seq.sources.text.vocabulary import PAD

__all__ = ["TransformerNetwork"]

Array = NDArray[Any]


class TransformerNetwork:
    """A transformer with the output matrix tied to the target embedding.

    `parameters`: its parameters; zeros by default.

    Vaswani et al. 2017, "Attention Is All You Need"; Xiong et al. 2020, "On Layer Normalization in the Transformer
    Architecture"; Press and Wolf 2017 (tied embeddings).
    """

    def __init__(self, config: TransformerConfig, parameters: Parameters | None = None) -> None:
        self.config = config
        self.parameters = Parameters(config.shapes()) if parameters is None else parameters

    def initialize(self, rng: np.random.Generator, target_counts: Array) -> None:
        """Draw the initial parameters.

        `rng`: the source of random numbers; `target_counts` (V,): how often each target token occurs, for the output
        bias.

        Glorot and Bengio 2010, eq. 16.
        """
        for name, parameter in self.parameters.items():
            initial = self.config.input.initialize(name, parameter.shape, rng)
            if initial is not None:
                parameter[...] = initial
            elif name.endswith(
                "embedding"
            ):  # so that embeddings enter with variance 1, and logits leave with it
                parameter[...] = rng.normal(0, self.config.model_size**-0.5, parameter.shape)
            elif name.endswith("gain"):
                parameter[...] = 1
            elif name.endswith(("shift", "bias")):
                parameter[...] = 0
            else:
                bound = math.sqrt(6 / (len(parameter) + self._outputs(name)))
                parameter[...] = rng.uniform(-bound, bound, parameter.shape)
        self.parameters["output_bias"][...] = log_frequency(target_counts)

    def _outputs(self, name: str) -> int:
        """Return how many outputs a matrix has, counting side-by-side matrices as one."""
        return self.config.feedforward_size if name.endswith("hidden_in") else self.config.model_size

    def loss(
        self,
        batch: Batch,
        options: LossOptions = LossOptions(),
        rng: np.random.Generator | None = None,
    ) -> tuple[float, Callable[[float], dict[str, Array]]]:
        """Return the loss of a batch, as `Network.loss` describes; with R-Drop there are two complete passes.

        Vaswani et al. 2017, section 5.4; Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer
        Models" (guided alignment, here of the mean over heads).
        """
        p, c, rdrop = self.parameters, self.config, options.rdrop
        batch = batch.twice() if rdrop else batch
        drop = partial(drop_out, rate=options.dropout, rng=rng)
        source = Padding(batch.lengths)
        target = Padding(np.maximum((batch.target != PAD).sum(axis=0) - 1, 0))
        links = _links(batch, target, source) if options.guided_alignment else None
        aligned = None if links is None else c.aligned
        memory, encode_back = encode(p, c, batch.source, source, drop)
        readout, weights, decode_back = decode(
            p, c, target.unpad_ids(batch.target), target, memory, source, drop, aligned=aligned
        )
        # All tokens of a sentence, then those of the next: two columns, if they are to agree.
        columns = 2 if rdrop else 1

        def in_columns(x: Array) -> Array:
            return x.reshape(columns, -1, *x.shape[1:]).swapaxes(0, 1)

        loss, predict_back = prediction_loss(
            p,
            in_columns(readout),
            in_columns(target.unpad_ids(batch.target[1:])),
            label_smoothing=options.label_smoothing,
            rng=rng,
            rdrop=rdrop,
        )
        guided, guide_back = alignment_loss(weights, links, options.guided_alignment)

        def pullback(dloss: float) -> dict[str, Array]:
            dreadout, of_output = predict_back(dloss)
            dmemory, g = decode_back(dreadout.swapaxes(0, 1).reshape(readout.shape), guide_back(dloss))
            g["target_embedding"] += of_output["target_embedding"]
            g["output_bias"] = of_output["output_bias"]
            return g | encode_back(dmemory)

        return loss + guided, pullback

    def stepper(self, source: Ids, lengths: Ids, width: int = 1) -> TransformerStepper:
        """Begin a search, as `Predictor.stepper` describes."""
        p, c, padding = self.parameters, self.config, Padding(lengths, len(source))
        memory, _ = encode(p, c, source, padding, no_dropout)
        return TransformerStepper(p, c, memory, padding, width)


def _links(batch: Batch, target: Padding, source: Padding) -> Array | None:
    """Return links (B, n, T), cut to the longest sentences."""
    if batch.links is None:
        return None
    return batch.links[: target.longest, :, : source.longest].swapaxes(0, 1)

"""The family of recurrent encoder-decoders: Bahdanau's RNNsearch, Luong's models, and both without attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.corpus.batching import Batch, Ids
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.output_layer import alignment_loss, log_frequency, prediction_loss
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent.cells import GATES
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.decoder import decode
from regard.seq2seq.networks.recurrent.encoder import encode
from regard.seq2seq.networks.recurrent.stepper import RecurrentStepper, recurrent_stepper

__all__ = ["RecurrentNetwork"]

Array = NDArray[Any]


_SHARPNESS = 8.0  # of a cosine at first: the weights of the best and the worst key differ by up to e^16


class RecurrentNetwork:
    """A recurrent encoder-decoder with the readout's output matrix tied to the target embedding.

    `parameters`: its parameters; zeros by default.

    Bahdanau, Cho and Bengio 2014, appendix A; Luong, Pham and Manning 2015; Sennrich et al. 2017, "Nematus: a Toolkit
    for Neural Machine Translation", section 3; Sutskever, Vinyals and Le 2014.
    """

    def __init__(self, config: RecurrentConfig, parameters: Parameters | None = None) -> None:
        self.config = config
        self.parameters = Parameters(config.shapes()) if parameters is None else parameters

    def initialize(self, rng: np.random.Generator, target_counts: Array) -> None:
        """Draw the initial parameters.

        `rng`: the source of random numbers; `target_counts` (V,): how often each target token occurs, for the output
        bias.
        """
        for name, parameter in self.parameters.items():
            initial = self.config.input.initialize(name, parameter.shape, rng)
            if initial is not None:
                parameter[...] = initial
            elif name == "attention_sharpness":
                parameter[...] = _SHARPNESS
            elif name.endswith(("gain", "shift")):
                parameter[...] = name.endswith("gain")
            elif name == "source_embedding":
                parameter[...] = rng.normal(0, 0.1, parameter.shape)
            elif name in ("target_embedding", "attention_vector"):
                parameter[...] = rng.normal(0, max(parameter.shape[-1], 1) ** -0.5, parameter.shape)
            elif name.startswith(("encoder_state", "decoder_state")):
                parameter[...] = _orthogonal(rng, parameter.shape)
            elif "bias" not in name:
                gates = parameter.shape[-1] // self._outputs(name)
                bound = math.sqrt(6 / max(len(parameter) + parameter.shape[-1] // gates, 1))
                parameter[...] = rng.uniform(-bound, bound, parameter.shape)
        self._open_forget_gates()
        self.parameters["output_bias"][...] = log_frequency(target_counts)

    def _outputs(self, name: str) -> int:
        """Return how many outputs of a matrix belong to one gate."""
        if name.startswith("encoder_input"):
            return self.config.encoder
        if name.startswith("decoder_"):
            return self.config.decoder
        return int(self.parameters[name].shape[-1])

    def _open_forget_gates(self) -> None:
        """Let the forget gates of an LSTM start open (Gers et al. 2000; Jozefowicz et al. 2015)."""
        if self.config.cell == "lstm":
            for name, parameter in self.parameters.items():
                if name.startswith(("encoder_bias", "decoder_bias")):
                    size = parameter.shape[-1] // GATES["lstm"]
                    parameter[..., size : 2 * size] = 1

    def loss(
        self,
        batch: Batch,
        options: LossOptions = LossOptions(),
        rng: np.random.Generator | None = None,
    ) -> tuple[float, Callable[[float], dict[str, Array]]]:
        """Return the loss of a batch, as `Network.loss` describes; embeddings and annotations have half the dropout."""
        p, c = self.parameters, self.config
        rate, rdrop = options.dropout, options.rdrop
        links = batch.links if options.guided_alignment and c.attends else None
        encoded, encode_back = encode(p, c, batch.source, batch.lengths, rate / 2, rng)
        decoded, decode_back = decode(
            p,
            c,
            encoded,
            batch.target[:-1],
            rates=(rate / 2, rate),
            rng=rng,
            with_weights=links is not None,
            readings=2 if rdrop else 1,
        )
        read = batch.twice() if rdrop else batch
        loss, predict_back = prediction_loss(
            p,
            decoded.readout,
            read.target[1:],
            label_smoothing=options.label_smoothing,
            rng=rng,
            rdrop=rdrop,
        )
        guided, guide_back = alignment_loss(decoded.weights, links, options.guided_alignment)

        def pullback(dloss: float) -> dict[str, Array]:
            dreadout, of_output = predict_back(dloss)
            dencoded, g = decode_back(dreadout, guide_back(dloss), of_output["target_embedding"])
            g["output_bias"] = of_output["output_bias"]
            return g | encode_back(dencoded)

        return loss + guided, pullback

    def stepper(self, source: Ids, lengths: Ids, width: int = 1) -> RecurrentStepper:
        """Begin a search, as `Predictor.stepper` describes."""
        encoded, _ = encode(self.parameters, self.config, source, lengths, keep=False)
        return recurrent_stepper(self.parameters, self.config, encoded, width)


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw state matrices (..., H, G H) whose G gates are orthogonal (Saxe et al. 2013)."""
    size, gates = shape[-2], shape[-1] // shape[-2]
    drawn = rng.normal(size=(*shape[:-2], gates, size, size))
    return np.concatenate([np.linalg.qr(drawn[..., gate, :, :])[0] for gate in range(gates)], axis=-1)

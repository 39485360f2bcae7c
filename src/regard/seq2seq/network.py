"""The network: its sizes, its parameters and its loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.decoder import decode
from regard.seq2seq.encoder import encode
from regard.seq2seq.output import predict
from regard.seq2seq.parameters import Parameters

__all__ = ["Dropout", "Network", "Sizes"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Sizes:
    """How large the parts of the network are.

    Parameters
    ----------
    source_words, target_words : int
        Words of the two vocabularies.
    embedding : int
        Numbers for a word; also the size of the readout, whose output matrix is the target embedding.
    encoder : int
        State of the encoder, in each direction.
    decoder : int
        State of the decoder.
    attention : int
        Hidden size of the attention's perceptron; 0 for a model without attention.

    Raises
    ------
    ValueError
        If one of them is too small.

    Examples
    --------
    >>> Sizes(10, 10, 4, 4, 4, 0).shapes()["start_weight"]
    (8, 4)
    """

    source_words: int
    target_words: int
    embedding: int = 160
    encoder: int = 128
    decoder: int = 192
    attention: int = 128

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 0 if name == "attention" else 1
            if type(value) is not int or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}. Got {value!r} instead.")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every parameter by its name."""
        e, h, d, a = self.embedding, self.encoder, self.decoder, self.attention
        return {
            "source_embedding": (self.source_words, e),
            "encoder_input": (e, 2, 3 * h),
            "encoder_bias": (2, 3 * h),
            "encoder_state": (2, h, 3 * h),
            "start_weight": (2 * h, d),
            "start_bias": (d,),
            "key_weight": (2 * h, a),
            "query_weight": (d, a),
            "attention_vector": (a,),
            "target_embedding": (self.target_words, e),
            "decoder_word": (e, 3 * d),
            "decoder_context": (2 * h, 3 * d),
            "decoder_bias": (3 * d,),
            "decoder_state": (d, 3 * d),
            "readout_word": (e, e),
            "readout_state": (d, e),
            "readout_context": (2 * h, e),
            "readout_bias": (e,),
            "output_bias": (self.target_words,),
        }


@dataclass(frozen=True)
class Dropout:
    """Which share of numbers is dropped while training.

    Parameters
    ----------
    embedding : float
        Of the embeddings, source and target.
    annotations : float
        Of the encoder's states.
    readout : float
        Of what the words are predicted from.
    """

    embedding: float = 0.1
    annotations: float = 0.1
    readout: float = 0.2


class Network:
    """Bahdanau's encoder-decoder, RNNsearch, with the readout's output matrix tied to the target embedding.

    Parameters
    ----------
    sizes : Sizes
        How large its parts are.
    parameters : Parameters, optional
        Its numbers; zeros by default.

    References
    ----------
    Bahdanau, Cho and Bengio 2014, appendix A; Press and Wolf 2017 (tied embeddings).
    """

    def __init__(self, sizes: Sizes, parameters: Parameters | None = None) -> None:
        self.sizes = sizes
        self.parameters = Parameters(sizes.shapes()) if parameters is None else parameters

    def draw(self, rng: np.random.Generator, target_counts: Array) -> None:
        """Draw the parameters that training starts from.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where chance comes from.
        target_counts : array (V,)
            How often each target word comes, for the output bias.
        """
        for name, parameter in self.parameters.items():
            if name == "source_embedding":
                parameter[...] = rng.normal(0, 0.1, parameter.shape)
            elif name in ("target_embedding", "attention_vector"):
                parameter[...] = rng.normal(0, max(parameter.shape[-1], 1) ** -0.5, parameter.shape)
            elif name in ("encoder_state", "decoder_state"):
                parameter[...] = _orthogonal(rng, parameter.shape)
            elif not name.endswith("bias"):
                gates = 3 if name in ("encoder_input", "decoder_word", "decoder_context") else 1
                bound = math.sqrt(6 / max(len(parameter) + parameter.shape[-1] // gates, 1))
                parameter[...] = rng.uniform(-bound, bound, parameter.shape)
        frequency = (target_counts + 0.1) / (target_counts + 0.1).sum()
        self.parameters["output_bias"][...] = np.log(frequency)

    def loss(
        self,
        source: NDArray[np.int64],
        target: NDArray[np.int64],
        *,
        dropout: Dropout | None = None,
        rng: np.random.Generator | None = None,
        smoothing: float = 0.0,
    ) -> tuple[float, Callable[[float], dict[str, Array]]]:
        """Predict each word of the targets from the words before it.

        Parameters
        ----------
        source : integer array (T, B)
            Source sentences of one length, each with END.
        target : integer array (n + 1, B)
            Target sentences from START to END, filled up with PAD.
        dropout : Dropout, optional
            While training.
        rng : numpy.random.Generator, optional
            Chance for dropout and for the short list of a large vocabulary; without it, all words are compared.
        smoothing : float
            Label smoothing.

        Returns
        -------
        loss : float
            The mean over all words that are not PAD.
        pullback : function
            ``pullback(dloss) -> gradients by parameter name``; to be called at most once.
        """
        p, rates = self.parameters, dropout or Dropout(0, 0, 0)
        encoded, encode_back = encode(p, source, (rates.embedding, rates.annotations), rng)
        readout, decode_back = decode(p, encoded, target[:-1], (rates.embedding, rates.readout), rng)
        loss, predict_back = predict(p, readout, target[1:], smoothing=smoothing, rng=rng)

        def pullback(dloss: float) -> dict[str, Array]:
            dreadout, of_output = predict_back(dloss)
            dencoded, g = decode_back(dreadout)
            g["target_embedding"] += of_output["target_embedding"]
            g["output_bias"] = of_output["output_bias"]
            return g | encode_back(dencoded)

        return loss, pullback


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw state matrices (..., H, 3H) whose three gates are orthogonal (Saxe et al. 2013)."""
    size = shape[-2]
    drawn = rng.normal(size=(*shape[:-2], 3, size, size))
    return np.concatenate([np.linalg.qr(drawn[..., gate, :, :])[0] for gate in range(3)], axis=-1)

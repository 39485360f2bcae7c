"""The family of recurrent encoder-decoders: Bahdanau's RNNsearch, Luong's models, and both without attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq import decoder, encoder, looks, steps
from regard.seq2seq.batch import Batch, Ids
from regard.seq2seq.cells import GATES, parts
from regard.seq2seq.output import guide, log_frequency, predict
from regard.seq2seq.parameters import Parameters, check_sizes

__all__ = ["Recurrent", "RecurrentNetwork"]

Array = NDArray[Any]

_CHOICES = {
    "score": ("none", *looks.SCORES),
    "style": ("conditional", "bahdanau", "luong"),
    "cell": tuple(GATES),
    "window": looks.WINDOWS,
}
_LEAST = {"source_words": 1, "target_words": 1, "embedding": 1, "encoder": 1, "decoder": 1, "attention": 0}
_LEAST |= {"layers": 1, "encoder_layers": 0, "reach": 1, "places": 1}
_MOST = {"layers": 32, "encoder_layers": 32}  # a file from a stranger may ask for anything


@dataclass(frozen=True)
class Recurrent:
    """What a recurrent encoder-decoder is made of.

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
        The size in which states and annotations are compared.
    score : str
        The score function by name, see `regard.seq2seq.looks`; "none" for a model without attention, whose decoder
        sees only where the encoder ended.
    style : {"conditional", "bahdanau", "luong"}
        Whether the decoder looks between two halves of a step, before each step, or after it; see
        `regard.seq2seq.decoder`.
    cell : {"gru", "lstm"}
        The recurrent unit.
    layers : int
        Of the decoder.
    encoder_layers : int
        Of the encoder; 0 for as many as the decoder has. A deep encoder costs little, since it reads all words of a
        batch at once, while a decoder's layers take a step for each word.
    window : {"global", "local-m", "local-p"}
        Whether all of the source may be seen, or a part of it.
    reach : int
        Words on either side that a local window has.
    feeding : bool
        In Luong's style, whether each step gets the readout before it.
    coverage : bool
        Whether scores know how much each word has been looked at; for scores "additive" and "concat".
    places : int
        Places that the score "location" tells apart.

    Raises
    ------
    ValueError
        If a number is too small, a name is unknown, or two of them don't go together.

    Examples
    --------
    >>> Recurrent(10, 10, 4, 4, 4, score="none").shapes()["start_weight"]
    (8, 4)
    """

    source_words: int
    target_words: int
    embedding: int = 160
    encoder: int = 128
    decoder: int = 192
    attention: int = 128
    score: str = "additive"
    style: str = "conditional"
    cell: str = "gru"
    layers: int = 1
    encoder_layers: int = 0
    window: str = "global"
    reach: int = 5
    feeding: bool = True
    coverage: bool = False
    places: int = 64

    # how sizes and the training's recipe are chosen where nobody says, see `regard.seq2seq.defaults`
    grows: ClassVar = ("embedding", "encoder", "decoder", "attention")
    recipe: ClassVar[dict[str, float]] = {"rate": 5e-3, "dropout": 0.2}
    hurry: ClassVar = (16_000, 1.6)

    def __post_init__(self) -> None:
        check_sizes(self, _LEAST, _MOST)
        for name, choices in _CHOICES.items():
            _check.choice(name, getattr(self, name), choices)
        for name in ("feeding", "coverage"):
            _check.flag(name, getattr(self, name))
        if self.attends and not self.attention:
            raise ValueError('attention must be at least 1 unless the score is "none". Got 0 instead.')
        if self.score == "dot" and self.decoder != 2 * self.encoder:
            raise ValueError(
                "with the score dot, decoder must be twice encoder (the annotations are of both directions). "
                f"Got {self.decoder} and {self.encoder} instead."
            )
        if self.coverage and self.score not in ("additive", "concat"):
            raise ValueError(f"coverage needs the score additive or concat. Got {self.score!r:.60} instead.")

    @property
    def attends(self) -> bool:
        """Whether there is attention."""
        return self.score != "none"

    @property
    def idle(self) -> dict[str, str]:
        """What has no effect beside the other options, and what it needs."""
        local = self.attends and self.window != "global"
        compares = looks.projects_keys(self) or self.window == "local-p"
        needs = {
            "attention": (self.attends and compares, "a score that projects states, or the window local-p"),
            "window": (self.attends, "attention"),
            "reach": (local, "the window local-m or local-p"),
            "places": (self.score == "location", "the score location"),
            "feeding": (self.style == "luong", "the style luong"),
        }
        return {name: need for name, (has_effect, need) in needs.items() if not has_effect}

    @property
    def depth(self) -> int:
        """How many layers the encoder has."""
        return self.encoder_layers or self.layers

    @property
    def memory(self) -> int:
        """How many numbers the decoder remembers from step to step."""
        return self.layers * parts(self.cell) * self.decoder

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every parameter by its name."""
        return encoder.shapes(self) | looks.shapes(self) | decoder.shapes(self)


class RecurrentNetwork:
    """A recurrent encoder-decoder with the readout's output matrix tied to the target embedding.

    Parameters
    ----------
    config : Recurrent
        What it is made of.
    parameters : Parameters, optional
        Its numbers; zeros by default.

    References
    ----------
    Bahdanau, Cho and Bengio 2014, appendix A; Luong, Pham and Manning 2015; Sennrich et al. 2017, "Nematus: a Toolkit
    for Neural Machine Translation", section 3; Sutskever, Vinyals and Le 2014.
    """

    def __init__(self, config: Recurrent, parameters: Parameters | None = None) -> None:
        self.config = config
        self.parameters = Parameters(config.shapes()) if parameters is None else parameters

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
            elif name in ("target_embedding", "attention_vector", "place_vector"):
                parameter[...] = rng.normal(0, max(parameter.shape[-1], 1) ** -0.5, parameter.shape)
            elif name.startswith(("encoder_state", "decoder_state")):
                parameter[...] = _orthogonal(rng, parameter.shape)
            elif name != "coverage_vector" and "bias" not in name:
                gates = parameter.shape[-1] // self._outputs(name)
                bound = math.sqrt(6 / max(len(parameter) + parameter.shape[-1] // gates, 1))
                parameter[...] = rng.uniform(-bound, bound, parameter.shape)
        self._remember()
        self.parameters["output_bias"][...] = log_frequency(target_counts)

    def _outputs(self, name: str) -> int:
        """Return how many outputs of a matrix belong together: those of one gate."""
        if name.startswith("encoder_input"):
            return self.config.encoder
        if name.startswith("decoder_"):
            return self.config.decoder
        return int(self.parameters[name].shape[-1])

    def _remember(self) -> None:
        """Let the forget gates of an LSTM begin open (Gers et al. 2000; Jozefowicz et al. 2015)."""
        if self.config.cell == "lstm":
            for name, parameter in self.parameters.items():
                if name.startswith(("encoder_bias", "decoder_bias")):
                    size = parameter.shape[-1] // GATES["lstm"]
                    parameter[..., size : 2 * size] = 1

    def loss(
        self,
        batch: Batch,
        *,
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
        smoothing: float = 0.0,
        guidance: float = 0.0,
        agreement: float = 0.0,
    ) -> tuple[float, Callable[[float], dict[str, Array]]]:
        """Predict each word of the targets from the words before it.

        Parameters
        ----------
        batch : Batch
            Sentence pairs.
        dropout : float
            Share of the readout that is dropped while training; of embeddings and annotations, half as much.
        rng : numpy.random.Generator, optional
            Chance for dropout and for the short list of a large vocabulary; without it, all words are compared.
        smoothing : float
            Label smoothing.
        guidance : float
            How much it counts that the weights follow the batch's links.
        agreement : float
            How much it counts that two readouts, with other numbers dropped, predict alike.

        Returns
        -------
        loss : float
            The mean over all words that are not PAD, with guidance and agreement.
        pullback : function
            ``pullback(dloss) -> gradients by parameter name``; to be called at most once.
        """
        p, c, links = self.parameters, self.config, batch.links if guidance and self.config.attends else None
        encoded, encode_back = encoder.encode(p, c, batch.source, batch.lengths, dropout / 2, rng)
        decoded, decode_back = decoder.decode(
            p,
            c,
            encoded,
            batch.target[:-1],
            rates=(dropout / 2, dropout),
            rng=rng,
            seen=links is not None,
            readings=2 if agreement else 1,
        )
        following = np.tile(batch.target[1:], (1, 2)) if agreement else batch.target[1:]
        loss, predict_back = predict(
            p, decoded.readout, following, smoothing=smoothing, rng=rng, agreement=agreement
        )
        guided, guide_back = guide(decoded.weights, links, guidance)

        def pullback(dloss: float) -> dict[str, Array]:
            dreadout, of_output = predict_back(dloss)
            dencoded, g = decode_back(dreadout, guide_back(dloss), of_output["target_embedding"])
            g["output_bias"] = of_output["output_bias"]
            return g | encode_back(dencoded)

        return loss + guided, pullback

    def steps(self, source: Ids, lengths: Ids, width: int = 1) -> steps.Steps:
        """Begin a search.

        Parameters
        ----------
        source : integer array (T, B)
            Source sentences, each with END, filled up with PAD.
        lengths : integer array (B,)
            Words of each.
        width : int
            Hypotheses of each sentence.

        Returns
        -------
        Steps
            Before the first word.
        """
        encoded, _ = encoder.encode(self.parameters, self.config, source, lengths, keep=False)
        return steps.steps(self.parameters, self.config, encoded, width)


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw state matrices (..., H, G H) whose G gates are orthogonal (Saxe et al. 2013)."""
    size, gates = shape[-2], shape[-1] // shape[-2]
    drawn = rng.normal(size=(*shape[:-2], gates, size, size))
    return np.concatenate([np.linalg.qr(drawn[..., gate, :, :])[0] for gate in range(gates)], axis=-1)

"""The configuration of a recurrent encoder-decoder: its options, and the shape of every parameter.

Letters: E embedding, H encoder state of one direction, C = 2 H annotation, A attention, D decoder state, G gates of a
cell, S state of all decoder layers side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard import _check
from regard.seq2seq.networks.inputs.base import Input
from regard.seq2seq.networks.inputs.kinds import check_source
from regard.seq2seq.networks.inputs.tokens import TokenInput
from regard.seq2seq.networks.normalizing import alpha_option, normalize_option
from regard.seq2seq.networks.options import check_fields, option, size
from regard.seq2seq.networks.recurrent.cells import GATES, layer, parts

__all__ = ["LOCAL", "SCORES", "RecurrentConfig"]

SCORES = ("additive", "general", "dot", "scaled_dot", "concat", "cosine", "gaussian", "location")
LOCAL = ("local_m", "local_p")

_MOST = 32  # layers: an untrusted file may ask for anything

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class RecurrentConfig:
    """Sizes and options of a recurrent encoder-decoder.

    Parameters
    ----------
    source_tokens, target_tokens : int
        Sizes of the two vocabularies; 0 source tokens with `inputs`.
    embedding : int
        Size of a token's embedding, and of the readout (its output matrix is the target embedding).
    encoder : int
        State of the encoder, in each direction.
    decoder : int
        State of the decoder.
    attention : int
        Size in which decoder states and annotations are compared.
    score : {"additive", "general", "dot", "scaled_dot", "concat", "cosine", "gaussian", "location", "none"}
        The score function, see `regard.seq2seq.networks.recurrent.attention`. With "none" there is no attention: the
        decoder reads the last states of the encoder only.
    normalize : {"softmax", "sparsemax", "entmax", "sigmoid", "relu", "hard", "local_m", "local_p"}
        Step 2, see `regard.weights`. With hard, a step attends to the position of the largest weight, and in training
        to one that is drawn, see `regard.seq2seq.networks.recurrent.choices`. local_m centres the window on the source
        position of the step's number, local_p on one that the decoder's state predicts.
    alpha : float
        That of entmax.
    window : int
        With local_m and local_p, the positions on either side of the centre that are visible.
    positions : int
        With the score "location", the source positions that have a weight; later ones are not visible.
    style : {"conditional", "bahdanau", "luong"}
        Whether the decoder attends between two halves of a step, before each step, or after it; see
        `regard.seq2seq.networks.recurrent.step`.
    cell : {"gru", "lstm"}
        The recurrent cell.
    layers : int
        Layers of the decoder.
    encoder_layers : int
        Layers of the encoder; 0 for as many as the decoder has. A deep encoder costs little, since it reads all tokens
        of a batch at once, while each layer of the decoder takes a step for each token.
    input_feeding : bool
        In Luong's style, whether each step reads the readout of the step before (input feeding).
    inputs : Input, optional
        What a network reads instead of tokens. A sequence of vectors is read by recurrent layers,
        as tokens are. The annotations of a set or of a picture have no order: the decoder's first state is computed
        from their mean (Xu et al. 2015, "Show, Attend and Tell", section 3.1.2), and `encoder_layers` is the number of
        self-attention blocks of a set.

    Raises
    ------
    ValueError
        If a size is too small, a name is unknown, or two options do not go together.

    Examples
    --------
    >>> RecurrentConfig(10, 10, 4, 4, 4, score="none").shapes()["start_weight"]
    (8, 4)
    """

    source_tokens: int = size(0)
    target_tokens: int = size(1)
    embedding: int = option("size of embeddings, and of the readout", 160, example=24)
    encoder: int = option("size of the encoder's state, in each direction", 128, example=24)
    decoder: int = option(
        "size of the decoder's state; with score=dot, twice that of the encoder", 192, example=24
    )
    attention: int = option(
        "size in which decoder states and annotations are compared",
        128,
        least=0,
        example=24,
        refused=(-1, "at least 0"),
    )
    score: str = option("score function", "additive", choices=("none", *SCORES), example="general")
    normalize: str = normalize_option("hard", *LOCAL)
    alpha: float = alpha_option()
    window: int = option("with local_m and local_p: positions on either side of the centre", 10, example=2)
    positions: int = option("with score=location: source positions that have a weight", 64, example=3)
    style: str = option(
        "when the decoder attends: within a step, before it, or after it",
        "conditional",
        choices=("conditional", "bahdanau", "luong"),
        example="luong",
    )
    cell: str = option("recurrent cell", "gru", choices=tuple(GATES), example="lstm")
    layers: int = option("layers of the decoder", 1, most=_MOST, example=2, refused=(10**9, "at most 32"))
    encoder_layers: int = option(
        "layers of the encoder",
        0,
        "0: as many as layers",
        least=0,
        most=_MOST,
        example=2,
        refused=(33, "at most 32"),
    )
    input_feeding: bool = option("read the readout of the step before, in Luong's style", True, example=False)
    inputs: Input | None = None

    # how sizes and options of training are chosen by default, see `regard.seq2seq.training.defaults`
    scaled_sizes: ClassVar = ("embedding", "encoder", "decoder", "attention")
    training: ClassVar[dict[str, float]] = {"learning_rate": 5e-3, "dropout": 0.2}
    short_training: ClassVar = (16_000, 1.6)

    def __post_init__(self) -> None:
        check_fields(self)
        check_source(self)
        if self.attends and not self.attention:
            _check.fail('attention must be at least 1 unless the score is "none". Got 0 instead.')
        if self.score == "dot" and self.decoder != 2 * self.encoder:
            _check.fail(
                "with the score dot, decoder must be twice encoder (the annotations are of both directions). "
                f"Got {self.decoder} and {self.encoder} instead."
            )

    @property
    def attends(self) -> bool:
        """Whether there is attention."""
        return self.score != "none"

    @property
    def input(self) -> Input:
        """The input: `inputs`, or embeddings of tokens."""
        return self.inputs or TokenInput(self.source_tokens)

    @property
    def projects_keys(self) -> bool:
        """Whether the annotations are projected before they are compared; else they are the keys themselves."""
        return self.perceptron or self.score in ("scaled_dot", "cosine", "gaussian")

    @property
    def perceptron(self) -> bool:
        """Whether the score is a perceptron: concat is one whose matrix is split."""
        return self.score in ("additive", "concat")

    @property
    def projects_queries(self) -> bool:
        """Whether decoder states are projected before they are compared; else they are the queries themselves."""
        return self.projects_keys or self.score == "general"

    @property
    def predicts(self) -> bool:
        """Whether a decoder state predicts the position around which it attends."""
        return self.attends and self.normalize == "local_p"

    @property
    def feeds(self) -> bool:
        """Whether each step reads the readout before (input feeding)."""
        return self.style == "luong" and self.input_feeding

    @property
    def fused(self) -> bool:
        """Whether the library has all decoder steps in one call: one layer of GRUs, a softmax of additive scores."""
        plain = self.cell == "gru" and self.layers == 1 and self.perceptron and self.normalize == "softmax"
        return plain and self.style in ("bahdanau", "conditional")

    @property
    def context_weights(self) -> tuple[str, ...]:
        """The parameters that read the context (C, ...)."""
        names = ("readout_context",) if self.style == "luong" else ("decoder_context", "readout_context")
        return names if self.attends else ()

    def head_rows(self) -> dict[tuple[str, int, int], dict[str, slice]]:
        """Return the rows of the parameters that read the context of each head, by its kind, layer and number."""
        rows = {name: slice(None) for name in self.context_weights}
        return {("source", 0, 0): rows} if rows else {}

    @property
    def unused_options(self) -> dict[str, str]:
        """The options that have no effect with the others, each with its requirement."""
        needs = {
            "attention": (
                self.projects_keys or self.predicts,
                "a score that projects states, such as additive",
            ),
            "normalize": (self.attends, "a score"),
            "alpha": (self.normalize == "entmax", "normalize=entmax"),
            "window": (self.normalize in LOCAL, "normalize=local_m or local_p"),
            "positions": (self.score == "location", "the score location"),
            "input_feeding": (self.style == "luong", "the style luong"),
            "encoder_layers": (self.input.layered, "a source of tokens or vectors"),
        }
        return {name: need for name, (has_effect, need) in needs.items() if not has_effect}

    @property
    def encoder_depth(self) -> int:
        """The number of layers of the encoder."""
        return self.encoder_layers or self.layers

    @property
    def state_size(self) -> int:
        """The size S of the states of all decoder layers, cells of an LSTM included."""
        return self.layers * parts(self.cell) * self.decoder

    def shapes(self) -> Shapes:
        """Return the shape of every parameter by its name."""
        return self._encoder() | self._attention() | self._decoder() | self._readout()

    def _encoder(self) -> Shapes:
        h, gates = self.encoder, GATES[self.cell] * self.encoder
        if not self.input.ordered:
            shapes = self.input.shapes(2 * h, self.encoder_depth)
        else:
            shapes = self.input.shapes(self.embedding)
            for number in range(self.encoder_depth):
                shapes[layer("encoder_input", number)] = (2 * h if number else self.embedding, 2, gates)
                shapes[layer("encoder_bias", number)] = (2, gates)
                shapes[layer("encoder_state", number)] = (2, h, gates)
        return shapes | {"start_weight": (2 * h, self.state_size), "start_bias": (self.state_size,)}

    def _attention(self) -> Shapes:
        a, d, c = self.attention, self.decoder, 2 * self.encoder
        shapes: Shapes = {"key_weight": (c, a), "query_weight": (d, a)} if self.projects_keys else {}
        learned: dict[str, Shapes] = {
            "general": {"query_weight": (d, c)},
            **{name: {"attention_vector": (a,)} for name in ("additive", "concat")},
            "cosine": {"attention_sharpness": (1,)},
            "location": {"location_weight": (d, self.positions)},
        }
        shapes |= learned.get(self.score, {})
        return shapes | ({"position_weight": (d, a), "position_vector": (a, 1)} if self.predicts else {})

    def _decoder(self) -> Shapes:
        e, d, c, gates = self.embedding, self.decoder, 2 * self.encoder, GATES[self.cell] * self.decoder
        shapes: Shapes = {"target_embedding": (self.target_tokens, e), "decoder_word": (e, gates)}
        if self.style != "luong":
            shapes["decoder_context"] = (c, gates)
        elif self.feeds:
            shapes["decoder_readout"] = (e, gates)
        if self.style == "conditional":
            shapes |= {"decoder_bias_after": (gates,), "decoder_state_after": (d, gates)}
        shapes |= {"decoder_bias": (gates,), "decoder_state": (d, gates)}
        for number in range(1, self.layers):
            shapes[layer("decoder_input", number)] = (d, gates)
            shapes[layer("decoder_bias", number)] = (gates,)
            shapes[layer("decoder_state", number)] = (d, gates)
        return shapes

    def _readout(self) -> Shapes:
        e, d, c = self.embedding, self.decoder, 2 * self.encoder
        shapes: Shapes = {} if self.style == "luong" else {"readout_word": (e, e)}
        shapes |= {"readout_state": (d, e), "readout_context": (c, e), "readout_bias": (e,)}
        return shapes | {"output_bias": (self.target_tokens,)}

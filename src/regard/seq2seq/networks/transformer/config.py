"""The configuration of a transformer: its sizes, and the shape of every parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard import _check
from regard.seq2seq.networks.inputs.base import Input
from regard.seq2seq.networks.inputs.kinds import check_source
from regard.seq2seq.networks.inputs.tokens import TokenInput
from regard.seq2seq.networks.normalizing import alpha_option, normalize_option
from regard.seq2seq.networks.options import check_fields, option, size

__all__ = ["TransformerConfig"]

Shapes = dict[str, tuple[int, ...]]

_MOST = 64  # layers: an untrusted file may ask for anything


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a transformer.

    Parameters
    ----------
    source_tokens, target_tokens : int
        Sizes of the two vocabularies; 0 source tokens with `inputs`.
    model_size : int
        The model dimension; a multiple of `heads`.
    heads : int
        Heads of each attention.
    feedforward_size : int
        Size of the feed-forward layers.
    encoder_layers, decoder_layers : int
        Layers of attention and feed-forward.
    alignment_layer : int
        The decoder layer, counted from 1, whose cross-attention is the alignment. By default (0) it is the one before
        the last, which aligns best (Garg et al. 2019, section 4.2), or the only one.
    normalize : {"softmax", "sparsemax", "entmax", "sigmoid", "relu"}
        Step 2 of each attention, see `regard.weights`.
    alpha : float
        That of entmax.
    inputs : Input, optional
        What a network reads instead of tokens. The vectors of a set and the cells of a picture get
        no positional encoding (those of a picture have learned positions of their own).

    Raises
    ------
    ValueError
        If a size is too small or too large.

    Examples
    --------
    >>> TransformerConfig(10, 10, model_size=8, heads=2, feedforward_size=16).shapes()["encoder_0_self_in"]
    (8, 24)
    """

    source_tokens: int = size(0)
    target_tokens: int = size(1)
    model_size: int = option("the model dimension, a multiple of heads", 256, example=8)
    heads: int = option("heads of each attention", 4, example=2, refused=(True, "an integer"))
    feedforward_size: int = option("size of the feed-forward layers", 1024, example=8)
    encoder_layers: int = option(
        "layers of the encoder", 3, most=_MOST, example=1, refused=(65, "at most 64")
    )
    decoder_layers: int = option(
        "layers of the decoder", 3, most=_MOST, example=1, refused=(65, "at most 64")
    )
    alignment_layer: int = option(
        "the decoder layer, from 1, whose attention is the alignment",
        0,
        "0: the one before the last",
        least=0,
        example=1,
        refused=(-1, "at least 0"),
    )
    normalize: str = normalize_option()
    alpha: float = alpha_option()
    inputs: Input | None = None

    # how sizes and options of training are chosen by default, see `regard.seq2seq.training.defaults`
    scaled_sizes: ClassVar = ("model_size", "feedforward_size")
    training: ClassVar[dict[str, float]] = {"learning_rate": 1e-3, "dropout": 0.1}
    short_training: ClassVar = (2_000, 2.5)  # a step takes eight times as long
    attends: ClassVar = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_source(self)
        if self.model_size % self.heads:
            _check.fail(
                f"model_size must be a multiple of heads = {self.heads}. Got {self.model_size} instead."
            )
        if self.alignment_layer > self.decoder_layers:
            _check.fail(
                f"alignment_layer must be at most decoder_layers = {self.decoder_layers}. "
                f"Got {self.alignment_layer} instead."
            )

    @property
    def unused_options(self) -> dict[str, str]:
        """The options that have no effect with the others, each with its requirement."""
        return {} if self.normalize == "entmax" else {"alpha": "normalize=entmax"}

    @property
    def aligned(self) -> int:
        """The decoder layer, counted from 0, whose cross-attention is the alignment."""
        return self.alignment_layer - 1 if self.alignment_layer else max(self.decoder_layers - 2, 0)

    @property
    def input(self) -> Input:
        """The input: `inputs`, or embeddings of tokens."""
        return self.inputs or TokenInput(self.source_tokens)

    def head_rows(self) -> dict[tuple[str, int, int], dict[str, slice]]:
        """Return the rows of the parameters that read the context of each head, by its kind, layer and number."""
        size, encoder, decoder = self.model_size // self.heads, self.encoder_layers, self.decoder_layers
        blocks = [("encoder", "encoder_{}_self_out", encoder), ("decoder", "decoder_{}_self_out", decoder)]
        return {
            (kind, layer, head): {name.format(layer): slice(head * size, (head + 1) * size)}
            for kind, name, layers in (*blocks, ("source", "decoder_{}_source_out", decoder))
            for layer in range(layers)
            for head in range(self.heads)
        }

    def shapes(self) -> Shapes:
        """Return the shape of every parameter by its name."""
        w = self.model_size
        shapes = self.input.shapes(w)
        for i in range(self.encoder_layers):
            shapes |= self._block(f"encoder_{i}_self_", 3) | self._hidden(f"encoder_{i}_hidden_")
        shapes |= {"encoder_gain": (w,), "encoder_shift": (w,), "target_embedding": (self.target_tokens, w)}
        for i in range(self.decoder_layers):
            shapes |= self._block(f"decoder_{i}_self_", 3) | self._block(f"decoder_{i}_source_", 1)
            shapes |= {f"decoder_{i}_source_keys": (w, 2 * w)} | self._hidden(f"decoder_{i}_hidden_")
        return shapes | {"decoder_gain": (w,), "decoder_shift": (w,), "output_bias": (self.target_tokens,)}

    def _block(self, name: str, projections: int) -> Shapes:
        w = self.model_size
        return {
            name + "gain": (w,),
            name + "shift": (w,),
            name + "in": (w, projections * w),
            name + "out": (w, w),
        }

    def _hidden(self, name: str) -> Shapes:
        w, h = self.model_size, self.feedforward_size
        norm: Shapes = {name + "gain": (w,), name + "shift": (w,)}
        return norm | {
            name + "in": (w, h),
            name + "in_bias": (h,),
            name + "out": (h, w),
            name + "out_bias": (w,),
        }

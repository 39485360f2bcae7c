"""Where every head of every layer of a transformer looks, in a sentence and its translation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.context import Attention, record
from regard.seq2seq.networks.padding import Padding
from regard.seq2seq.networks.transformer.layers import no_dropout
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.networks.transformer.stacks import decode, encode

__all__ = ["Heads", "look_into"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Heads:
    """Where every head looked: L layers of h heads.

    Parameters
    ----------
    read : tuple of str
        The m tokens that were read: the source's, the end's sign, and what a model with a memory has read beside it.
        Here and below tokens are without the signs that say where no space stands.
    heard : tuple of str
        What each token was said after: the beginning's sign, and all tokens but the last: n.
    said : tuple of str
        The translation's n tokens.
    encoder : array (L, h, m, m)
        Where each token that was read looked among them.
    decoder : array (L, h, n, n)
        Where each step looked in what had been said before it; 0 for what came later.
    source : array (L, h, n, m)
        Where each step looked in what was read. The mean over the heads of one layer is the translation's alignment.

    Examples
    --------
    >>> from regard.seq2seq import Seq2Seq
    >>> network = {"width": 8, "heads": 2, "hidden": 8, "encoder_layers": 1, "decoder_layers": 2}
    >>> model = Seq2Seq(family="transformer", network=network, epochs=1).fit(["one", "two"], ["un", "deux"])
    >>> (translation,) = model.align(["one two"], ["un deux un"])
    >>> heads = model.heads(translation)
    >>> heads.source.shape, heads.read, heads.heard
    ((2, 2, 3, 3), ('one', 'two', '</s>'), ('<s>', 'un', 'deux'))
    """

    read: tuple[str, ...]
    heard: tuple[str, ...]
    said: tuple[str, ...]
    encoder: Array
    decoder: Array
    source: Array


def look_into(
    network: TransformerNetwork, source: Sequence[int], target: Sequence[int]
) -> tuple[Array, Array, Array]:
    """Return where all heads look when a sentence is read and a translation of it is said.

    Parameters
    ----------
    network : TransformerNetwork
        Whose heads.
    source : sequence of int
        The m numbers that are read.
    target : sequence of int
        The numbers between START and END, with these: n + 2.

    Returns
    -------
    encoder, decoder, source : array (L, h, m, m), (L, h, n, n), (L, h, n, m)
        As `Heads` has them.

    Examples
    --------
    >>> from regard.seq2seq.networks.transformer.config import TransformerConfig
    >>> network = TransformerNetwork(TransformerConfig(9, 9, width=4, heads=2, hidden=8, decoder_layers=1))
    >>> [weights.shape for weights in look_into(network, [5, 6, 2], [1, 5, 2])]
    [(3, 2, 3, 3), (1, 2, 1, 1), (1, 2, 1, 3)]
    """
    p, heads, said = network.parameters, network.config.heads, len(target) - 2
    over, at = Padding(np.array([len(source)])), Padding(np.array([len(target) - 1]))
    with record() as encoder:
        memory, _ = encode(p, np.array(source), over, no_dropout, heads=heads)
    with record() as decoder:  # one step more than there are tokens: the end
        decode(p, np.array(target[:-1]), at, memory, over, no_dropout, heads=heads)
    own, looks = (_stacked(decoder[kind::2])[:, :, :said] for kind in (0, 1))
    return _stacked(encoder), own[..., :said], looks


def _stacked(layers: Sequence[Attention]) -> Array:
    """Return the weights of the only sentence in all layers (L, h, ...)."""
    return np.stack([layer.weights[0] for layer in layers])

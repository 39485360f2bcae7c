"""The transformer: an encoder-decoder of attention alone (Vaswani et al. 2017), normalised before each block."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.nn import dropout as drop_out
from regard.seq2seq.data.batching import Batch, Ids
from regard.seq2seq.data.vocabulary import PAD
from regard.seq2seq.networks.output_layer import guide, log_frequency, predict
from regard.seq2seq.networks.padding import Places
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.layers import undropped
from regard.seq2seq.networks.transformer.stacks import decode, encode
from regard.seq2seq.networks.transformer.stepper import TransformerStepper

__all__ = ["TransformerNetwork"]

Array = NDArray[Any]


class TransformerNetwork:
    """A transformer with the output matrix tied to the target embedding.

    Parameters
    ----------
    config : TransformerConfig
        Its sizes.
    parameters : Parameters, optional
        Its parameters; zeros by default.

    References
    ----------
    Vaswani et al. 2017, "Attention Is All You Need"; Xiong et al. 2020, "On Layer Normalization in the Transformer
    Architecture"; Press and Wolf 2017 (tied embeddings).
    """

    def __init__(self, config: TransformerConfig, parameters: Parameters | None = None) -> None:
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

        References
        ----------
        Glorot and Bengio 2010, eq. 16.
        """
        for name, parameter in self.parameters.items():
            if name.endswith("embedding"):  # so that words enter with variance 1, and logits leave with it
                parameter[...] = rng.normal(0, self.config.width**-0.5, parameter.shape)
            elif name.endswith("gain"):
                parameter[...] = 1
            elif name.endswith(("shift", "bias")):
                parameter[...] = 0
            else:
                bound = math.sqrt(6 / (len(parameter) + self._outputs(name)))
                parameter[...] = rng.uniform(-bound, bound, parameter.shape)
        self.parameters["output_bias"][...] = log_frequency(target_counts)

    def _outputs(self, name: str) -> int:
        """Return how many outputs a matrix has, where several that stand side by side are counted as one."""
        return self.config.hidden if name.endswith("hidden_in") else self.config.width

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
            Share of the embeddings, and of what each block adds, that is dropped while training.
        rng : numpy.random.Generator, optional
            Chance for dropout and for the short list of a large vocabulary; without it, all words are compared.
        smoothing : float
            Label smoothing.
        guidance : float
            How much it counts that the alignment layer's weights follow the batch's links.
        agreement : float
            How much it counts that two readings of each pair, with other numbers dropped, predict alike; they take
            twice as long as one.

        Returns
        -------
        loss : float
            The mean over all words that are not PAD, with guidance and agreement.
        pullback : function
            ``pullback(dloss) -> gradients by parameter name``; to be called at most once.

        References
        ----------
        Vaswani et al. 2017, section 5.4; Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer
        Models" (guidance, here of the mean over heads).
        """
        p, heads, batch = self.parameters, self.config.heads, batch.twice() if agreement else batch
        drop = partial(drop_out, rate=dropout, rng=rng)
        over, at = Places(batch.lengths), Places(np.maximum((batch.target != PAD).sum(axis=0) - 1, 0))
        links = _links(batch, at, over) if guidance else None
        watched = None if links is None else self.config.aligned
        memory, encode_back = encode(p, over.pick(batch.source), over, drop, heads=heads)
        readout, weights, decode_back = decode(
            p, at.pick(batch.target), at, memory, over, drop, heads=heads, watched=watched
        )
        # All words of a sentence, then those of the next: two columns, if they are to agree.
        columns = 2 if agreement else 1
        following, rows = (
            x.reshape(columns, -1, *x.shape[1:]).swapaxes(0, 1) for x in (at.pick(batch.target[1:]), readout)
        )
        loss, predict_back = predict(p, rows, following, smoothing=smoothing, rng=rng, agreement=agreement)
        guided, guide_back = guide(weights, links, guidance)

        def pullback(dloss: float) -> dict[str, Array]:
            dreadout, of_output = predict_back(dloss)
            dmemory, g = decode_back(dreadout.swapaxes(0, 1).reshape(readout.shape), guide_back(dloss))
            g["target_embedding"] += of_output["target_embedding"]
            g["output_bias"] = of_output["output_bias"]
            return g | encode_back(dmemory)

        return loss + guided, pullback

    def stepper(self, source: Ids, lengths: Ids, width: int = 1) -> TransformerStepper:
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
        TransformerStepper
            Before the first token.
        """
        p, over = self.parameters, Places(lengths, len(source))
        memory, _ = encode(p, over.pick(source), over, undropped, heads=self.config.heads)
        return TransformerStepper(p, self.config.heads, self.config.aligned, memory, over, width)


def _links(batch: Batch, at: Places, over: Places) -> Array | None:
    """Return links (B, n, T) as long as the sentences are."""
    if batch.links is None:
        return None
    return batch.links[: at.longest, :, : over.longest].swapaxes(0, 1)

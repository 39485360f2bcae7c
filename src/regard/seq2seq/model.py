"""Sequence-to-sequence models: options, training, saving and loading."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.attribution import contributions
from regard.seq2seq.corpus.batching import Links
from regard.seq2seq.corpus.dataset import is_short
from regard.seq2seq.corpus.packing import Row
from regard.seq2seq.corpus.pairs import paired, two_sides
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.decoding.calibration import FEWEST, Calibration
from regard.seq2seq.decoding.hypothesis import Scoring
from regard.seq2seq.evaluation.held_out import HeldOut
from regard.seq2seq.extras import augments, check_options
from regard.seq2seq.networks.ablation import Ablation, ablated
from regard.seq2seq.networks.attended import DecoderAttention
from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.families import FAMILIES, describe
from regard.seq2seq.networks.recurrent.attended import decoder_steps
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.heads import Heads, head_contributions, head_steps, head_weights
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.sources import Source, Text
from regard.seq2seq.sources.text.normalization import Normalization, as_normalization
from regard.seq2seq.sources.text.subwords import METHODS, Method
from regard.seq2seq.sources.text.tokenizers import SMALLEST, TOKEN_TYPES
from regard.seq2seq.sources.text.vocabulary import END, JOIN, SPECIAL, START
from regard.seq2seq.storage import model_file as files
from regard.seq2seq.training import defaults
from regard.seq2seq.training.checkpoint import (
    checkpoint_path,
    read_checkpoint,
    resume,
)
from regard.seq2seq.training.config import TrainingConfig
from regard.seq2seq.training.loop import TrainingStep
from regard.seq2seq.training.session import begin, remaining_steps
from regard.seq2seq.translator import Translation, Translator

__all__ = ["Seq2Seq", "token_options"]


class Seq2Seq(Translator):
    """Learn to translate from sentence pairs, or to describe arrays, with an encoder-decoder and attention.

    Parameters
    ----------
    family : {"recurrent", "transformer"}
        Network: recurrent (Bahdanau, Luong) or transformer (Vaswani).
    attention : bool
        False for a recurrent network without attention: its decoder has the last state of the encoder alone.
    network : mapping, optional
        Options of the network, other than the defaults: fields of `RecurrentConfig` or `TransformerConfig` in
        `regard.seq2seq.networks`, such as ``{"style": "luong", "score": "general"}``.
    source : {"words", "characters", "subwords", "tokens"} or Source
        Token type of the source; "tokens" are lists, or texts with spaces between tokens. For other sources an object
        that reads them: `Vectors` (sequences or sets of vectors), `Images`, or a `Source` of your own.
    target : {"words", "characters", "subwords", "tokens"}
        Token type of the target.
    vocabulary : int, optional
        The largest vocabulary of a side.
    min_count : int, optional
        How often a token must occur to be in the vocabulary; by default 3 for words from 5,000 pairs on, where rarer
        ones are at most 5 % of the target tokens, else 1. Not for subwords.
    lower : bool, optional
        Whether the source is lowercased; by default words are, and other tokens of training sources in one case.
    normalization : {"NFC", "NFKC", "NFD", "none"}
        Unicode normalization. NFD is that of the source, where the target has NFC.
    subwords : {"unigram", "bpe"}, optional
        How subwords are found: the most probable pieces (Kudo 2018; the default), or pairs that are merged one after
        the other (Sennrich, Haddow and Birch 2016, byte-pair encoding).
    extras : mapping of str to int, optional
        Parts next to the network, by name, each with its option: those of installed distributions
        (`regard.seq2seq.extras`), which append tokens to sources or rerank the hypotheses of a beam.
    max_tokens : int
        Longer pairs are left out of training.
    epochs : int, optional
        Passes over the pairs; by default as many as `minutes` allow, and without them 9 times, more often if
        there are few pairs, 5 times from 100,000 on.
    minutes : float, optional
        Time limit; `epochs` may end the training before.
    learning_rate : float, optional
        Adam's largest learning rate.
    seed : int, optional
        Random seed, by default 1: the same seed, pairs and number of BLAS threads give the same model to the bit.
    training : TrainingConfig, optional
        All options of training; `epochs`, `minutes`, `learning_rate` and `seed` replace its fields of these names.

    Raises
    ------
    ValueError, TypeError
        If an option is invalid.

    References
    ----------
    Bahdanau, Cho and Bengio 2014, "Neural Machine Translation by Jointly Learning to Align and Translate"; Luong, Pham
    and Manning 2015, "Effective Approaches to Attention-based Neural Machine Translation"; Vaswani et al. 2017,
    "Attention Is All You Need".

    Examples
    --------
    >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
    >>> translation = model.translate(["one two"])[0]
    >>> translation.text, translation.alignment.shape
    ('un deux', (2, 3))
    """

    def __init__(
        self,
        *,
        family: str = "recurrent",
        attention: bool = True,
        network: Mapping[str, Any] | None = None,
        source: str | Source = "words",
        target: str = "words",
        vocabulary: int | None = None,
        min_count: int | None = None,
        lower: bool | None = None,
        normalization: str = "NFC",
        subwords: str | None = None,
        extras: Mapping[str, int] | None = None,
        max_tokens: int = 50,
        epochs: int | None = None,
        minutes: float | None = None,
        learning_rate: float | None = None,
        seed: int | None = None,
        training: TrainingConfig | None = None,
    ) -> None:
        _check.choice("family", family, tuple(FAMILIES))
        _check.choice("target", target, TOKEN_TYPES)
        if not isinstance(source, Source):
            _check.choice("source", source, TOKEN_TYPES)
        types = target, target if isinstance(source, Source) else source
        self.family, self.source, self.target = family, source, target
        self.network_options = _network_options(family, attention, network)
        self.vocabulary, self.min_count = _vocabulary_options(vocabulary, min_count, types)
        self.lower = None if lower is None else _check.flag("lower", lower)
        self.normalization = as_normalization(normalization)
        self.subwords = _segmentation(subwords, types)
        self.extras = check_options(extras)
        self.max_tokens = _check.integer("max_tokens", max_tokens, least=1)
        self._check_source()
        if self._augmented and self.network_options.get("score") == "none":
            _check.fail(
                f"extras that append tokens need attention, which reads them. Got {self.extras} instead."
            )
        short = {"epochs": epochs, "minutes": minutes, "learning_rate": learning_rate, "seed": seed}
        if not isinstance(training, TrainingConfig | None):
            rule = f"training must be a TrainingConfig. Got {training!r:.60} instead."
            _check.fail(rule, hint="training=TrainingConfig(dropout=0.3)", kind=TypeError)
        passed: dict[str, Any] = {name: value for name, value in short.items() if value is not None}
        self.training = replace(training or TrainingConfig(), **passed)
        defaults.check(self.family, self.network_options, self.training, self.reader.spec)
        self._model: files.Model[Network] | None = None
        self._unseen: list[tuple[Row, Row]] = []  # pairs to which the weight of a reranker is fitted

    def _check_source(self) -> None:
        """Check that the options of the source's tokens go with it."""
        given = ["extras"] * bool(self.extras) + ["lower"] * (self.lower is not None)
        for option in [name for name in given if name not in self.reader.accepts]:
            rule = f"{option} must not be given with a source of arrays: it is about the source's tokens."
            _check.fail(rule)
        if isinstance(self.source, Source) and self.lower is not None:
            _check.fail(
                "lower must not be given with a Text, which has an option of this name. Got both instead."
            )

    @property
    def reader(self) -> Source:
        """The untrained reader of sources: `source`, or a `Text` of this type of tokens."""
        if isinstance(self.source, Source):
            return self.source
        lower = True if self.lower is None and self.source == "words" else self.lower
        return self._text(self.source, lower, self.normalization)

    @property
    def target_reader(self) -> Text:
        """The untrained reader of targets."""
        form: Normalization = "NFC" if self.normalization == "NFD" else self.normalization
        return self._text(self.target, False, form)

    def _text(self, token_type: str, lower: bool | None, form: Normalization) -> Text:
        options = self.min_count, self.vocabulary, lower, form
        return Text(token_type, *options, self.subwords or "unigram")

    @property
    def _augmented(self) -> bool:
        return any(map(augments, self.extras))

    @property
    def model(self) -> files.Model[Network]:
        """The network and the tokenizers of both sides."""
        if self._model is None:
            rule = "the model must be trained or loaded first."
            _check.fail(rule, hint="fit(sources, targets) or Seq2Seq.load(path)")
        return self._model

    @property
    def network(self) -> Network:
        """The trained network: ``network.config``, and ``network.parameters``, arrays by name."""
        return self.model.network

    @property
    def attention(self) -> bool:
        """Whether translations have attention weights."""
        return (
            self.network_options.get("score") != "none"
            if self._model is None
            else self.network.config.attends
        )

    @property
    def card(self) -> Mapping[str, Any]:
        """Facts about the model, such as its data and measures, as JSON values; `save` writes them into the file."""
        return self.model.card or {}

    @card.setter
    def card(self, card: Mapping[str, Any]) -> None:
        self._model = self.model._replace(card=card)

    @property
    def calibration(self) -> Calibration | None:
        """The map from the scores of a beam to the probability that its best answer is right; `save` writes it."""
        return self.model.calibration

    @calibration.setter
    def calibration(self, calibration: Calibration | None) -> None:
        self._model = self.model._replace(calibration=calibration)

    @property
    def repetitions(self) -> int | None:
        """How often a group of tokens may come in a row in an output; `save` writes it into the file."""
        return self.model.repetitions

    @repetitions.setter
    def repetitions(self, most: int | None) -> None:
        most = None if most is None else _check.integer("repetitions", most, least=1)
        self._model = self.model._replace(repetitions=most)

    @property
    def held_out(self) -> HeldOut | None:
        """Sources that were held out, with digests of their right answers; `save` writes them into the file."""
        return self.model.held_out

    @held_out.setter
    def held_out(self, held_out: HeldOut | None) -> None:
        self._model = self.model._replace(held_out=held_out)

    def fit(
        self,
        sources: Sequence[Any],
        targets: Sequence[Any],
        *,
        valid: tuple[Sequence[Any], Sequence[Any]] | None = None,
        links: Sequence[Links] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        listener: Callable[[TrainingStep], object] | None = None,
    ) -> Self:
        """Learn from sentence pairs, from the beginning: an earlier model is replaced.

        An error or Ctrl-C leaves the best parameters so far; before the first validation, it leaves the earlier model.

        While it learns, BLAS is limited to one thread in this process if threadpoolctl is installed (it comes with
        ``regard[cli]``), unless the environment sets their number: each half of a batch has a thread of its own
        instead.

        Parameters
        ----------
        sources, targets : sequences of str, or of sequences of str
            Two sequences of equal length, of texts or token lists; for `Images` and `Vectors`, of what they read.
        valid : (sources, targets), optional
            Validation pairs, which choose the best parameters; by default some of the pairs are held out.
        links : sequence of frozensets of (int, int), optional
            For each pair which source token each target token should attend to, as (source, target) from 0; an empty
            set where it is unknown. The weight of this loss is `guided_alignment` of `TrainingConfig`.
        checkpoint : path, optional
            A file to which the state is written every minute. If it exists when training begins, training resumes from
            it, and ends, bit for bit, as if it had never stopped. At the end it is removed.
        listener : callable, optional
            Called with each `TrainingStep`.

        Returns
        -------
        Seq2Seq
            This model.

        Raises
        ------
        ValueError
            If the sides differ in length, no pair is left for training or validation, or the checkpoint is of another
            training, or not a file.
        OSError
            If there is no folder for the checkpoint, or it can't be written.
        regard.seq2seq.training.loop.Diverged
            If the loss is not finite.

        Examples
        --------
        >>> losses = []
        >>> sides = ["one", "two", "one two"], ["un", "deux", "un deux"]
        >>> model = Seq2Seq(epochs=40).fit(*sides, listener=lambda step: losses.append(step.loss))
        >>> losses[-1] < losses[0]
        True
        """
        if listener is not None and not callable(listener):
            _check.fail(
                f"listener must be a function. Got {type(listener).__name__} instead.", kind=TypeError
            )
        sides = self.reader, self.target_reader.tokenizer
        pairs = paired(sources, targets, *sides)
        validation = (
            None if valid is None else paired(*two_sides(valid, "valid"), *sides, "the targets of valid")
        )
        for step in self.steps(pairs, validation, links=links, checkpoint=checkpoint):
            if listener is not None:
                listener(step)
        return self

    def steps(
        self,
        pairs: Sequence[tuple[Any, Any]],
        valid: Sequence[tuple[Any, Any]] | None = None,
        *,
        links: Sequence[Links] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Generator[TrainingStep, None, None]:
        """Learn as `fit` does, and yield after every step.

        After each validation the model has the best parameters so far, and can be used or saved. Closing the generator
        keeps them, and writes a checkpoint if there is a path for it.

        Parameters
        ----------
        pairs, valid : sequence of (source, target)
            As for `fit`.
        links, checkpoint
            As for `fit`.

        Yields
        ------
        TrainingStep
            The result of the step.

        Raises
        ------
        ValueError, OSError, regard.seq2seq.training.loop.Diverged
            As for `fit`.

        Examples
        --------
        >>> pairs = [("one", "un"), ("two", "deux"), ("one two", "un deux")]
        >>> steps = list(Seq2Seq(epochs=3).steps(pairs))
        >>> [step.epoch for step in steps]
        [1, 2, 3]
        """
        path = None if checkpoint is None else checkpoint_path(checkpoint)
        state = read_checkpoint(path) if path is not None and path.exists() else None
        before, training = (self._model, self._unseen), None
        try:
            training = begin(self, pairs, valid, links=links)
            if path is not None and state is not None:
                resume(training, state, path)
            del state  # as large as parameters, gradients' means and best parameters together
            yield from remaining_steps(self, training, path, keep=False)
        except BaseException:
            if training is None or training.best_loss == math.inf:  # no parameters were validated
                self._model, self._unseen = before
            raise

    def calibrate(self, sources: Sequence[Any], targets: Sequence[Any]) -> Self:
        """Learn from held-out pairs how probable it is that an answer is right; `probability` and `save` use it.

        Parameters
        ----------
        sources, targets : sequences
            As for `fit`, of pairs that were not learned from: at least 20 different sources. Any target of a source
            is right.

        Returns
        -------
        Seq2Seq
            This model.

        Raises
        ------
        ValueError
            If there are fewer sources.

        References
        ----------
        Platt 1999, "Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized Likelihood
        Methods".

        Examples
        --------
        >>> words = [first + second for first in "abcdefg" for second in "hijklmn"]
        >>> model = Seq2Seq(source="characters", target="characters", epochs=1).fit(words[:25], words[:25])
        >>> model.calibrate(words[25:], words[25:]).calibration.beam
        5
        """
        checked = self.compare_with_references(sources, targets)
        if len(checked) < FEWEST:
            _check.fail(f"sources must be at least {FEWEST} different ones. Got {len(checked)} instead.")
        logs, right = [each.logs for each in checked], [each.right for each in checked]
        self.calibration = Calibration.fit(logs, right, BEAM)
        return self

    def fits(self, pair: tuple[Any, Any]) -> bool:
        """Return whether both sides of a pair have between 1 and `max_tokens` tokens, so that `fit` uses it.

        Parameters
        ----------
        pair : (source, target)
            As for `fit`.

        Returns
        -------
        bool
            Words are counted in place of subwords, which are not learned yet.

        Examples
        --------
        >>> Seq2Seq(max_tokens=2).fits(("two words", "and three words"))
        False
        """
        reader = self.reader
        read = reader.load(pair[0]), self.target_reader.load(pair[1])
        return is_short(reader, read, self.max_tokens)

    def heads(self, translation: Translation, source: Any = None) -> Heads:
        """Return the attention weights of all heads of a transformer.

        Parameters
        ----------
        translation : Translation
            A sentence that this model has translated, or aligned.
        source : optional
            The example that was translated; needed if it is an array.

        Returns
        -------
        Heads
            Weights of the encoder's and the decoder's self-attention, and of attention to the source.

        Raises
        ------
        ValueError
            If the model is not a transformer (`Translation.alignment` has the weights of others), or the translation
            comes from another model.
        TypeError
            If `translation` is not a Translation.

        Examples
        --------
        >>> network = {"model_size": 8, "heads": 2, "feedforward_size": 8, "encoder_layers": 1, "decoder_layers": 2}
        >>> model = Seq2Seq(family="transformer", network=network, epochs=1).fit(["one", "two"], ["un", "deux"])
        >>> model.heads(model.align(["one two"], ["deux"])[0]).source.shape  # layers, heads, target, source
        (2, 2, 1, 3)
        """
        network = self.network
        if not isinstance(network, TransformerNetwork):
            rule = f"heads are those of a transformer. Got a {self.family} network instead."
            _check.fail(rule, hint="translation.alignment has the attention weights of other networks")
        read = self._read_again(translation, source)
        encoder, decoder, weights = head_weights(network, read.rows, [START, *translation.ids, END])
        _check_own(translation, weights[network.config.aligned].mean(axis=0))
        tokens = _without_markers(translation.tokens)
        return Heads(
            _without_markers((*translation.source, *read.retrieved)),
            (SPECIAL[START], *tokens)[: len(tokens)],
            tokens,
            encoder,
            decoder,
            weights,
        )

    def contributions(self, translation: Translation, source: Any = None) -> NDArray[Any]:
        """Return the length of the vector that each source token, vector or cell adds to each target token's step.

        The vector is the weight times the value, multiplied by the parameters that read it; of a transformer summed
        over the heads of the layer whose weights are the alignment.

        Parameters
        ----------
        translation, source
            As for `heads`.

        Returns
        -------
        array (n, m)
            Rows for the target's tokens, columns for the source's.

        Raises
        ------
        ValueError
            If the model has no attention, or the translation is empty, or comes from another model.
        TypeError
            If `translation` is not a Translation.

        References
        ----------
        Kobayashi et al. 2020, "Attention is Not Only a Weight: Analyzing Transformers with Vector Norms".

        Examples
        --------
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> model.contributions(model.translate(["one two"])[0]).shape
        (2, 3)
        """
        network = self.network
        if isinstance(network, TransformerNetwork):
            weights = self.heads(translation, source).source[network.config.aligned]
            lengths = head_contributions(network, self._read_again(translation, source).rows, weights)
        else:
            steps, names = self.decoder_steps(translation, source), network.config.context_weights
            projection = np.concatenate([network.parameters[name] for name in names], axis=1)
            lengths = contributions(steps.attend().weights, steps.values, projection)
        return lengths[:, : len(translation.source)]

    def ablate(
        self,
        sources: Sequence[Any],
        targets: Sequence[Any],
        *,
        progress: Callable[[int], object] = lambda count: None,
    ) -> Ablation:
        """Return how much larger the loss of given pairs is without each head.

        What reads the context of a head is set to 0, in a copy: a head of a transformer adds nothing to its layer, and
        the decoder of a recurrent network reads the source by its first state alone.

        Parameters
        ----------
        sources, targets
            N examples and their translations, as for `align`.
        progress : function, optional
            Called with 1 after each head.

        Returns
        -------
        Ablation
            ``loss`` with all heads, and its rise without each one of ``encoder``, ``decoder`` and ``source``, arrays
            (layers, heads).

        Raises
        ------
        ValueError, TypeError
            As for `align`; if there is no pair, or the model has no attention.

        References
        ----------
        Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 3; Voita et al. 2019, "Analyzing
        Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can Be Pruned".

        Examples
        --------
        >>> pairs = ["one", "two", "one two"], ["un", "deux", "un deux"]
        >>> model = Seq2Seq(epochs=40).fit(*pairs)
        >>> ablation = model.ablate(*pairs)
        >>> ablation.source.shape, bool(ablation.source[0, 0] > 0)
        ((1, 1), True)
        """
        if not self.attention:
            _check.fail("ablate needs a model with attention; this one has none.")
        rows, ids = self._rows_and_ids(sources, targets)
        if not rows:
            _check.fail("sources must have an example. Got none instead.")

        def loss(network: Network) -> float:
            forced = self._forced(rows, ids, Scoring(), network=network)
            return -float(np.mean(np.concatenate([each.log_probabilities for each in forced])))

        complete, rises = loss(self.network), dict[tuple[str, int, int], float]()
        for head, network in ablated(self.network):
            rises[head] = loss(network) - complete
            progress(1)
        return Ablation(complete, *(_by_layer(rises, kind) for kind in Ablation._fields[1:]))

    def decoder_steps(
        self,
        translation: Translation,
        source: Any = None,
        *,
        layer: int | None = None,
        head: int | None = None,
        part: Literal["source", "decoder"] = "source",
    ) -> DecoderAttention:
        """Open the attention of the decoder at each step: what attends, to what, and what is predicted from it.

        Parameters
        ----------
        translation : Translation
            A sentence that this model has translated, or aligned.
        source : optional
            The example that was translated; needed if it is an array.
        layer, head : int, optional
            Of a transformer: the layer and the head, from 1; by default the layer whose weights are the translation's
            alignment, and its first head. A recurrent decoder attends once in a step.
        part : {"source", "decoder"}
            Of a transformer: attention to the source, or to the tokens before (self-attention).

        Returns
        -------
        DecoderAttention
            The arrays of all steps: states, the matrices, queries, keys, values, readouts and the five most probable
            tokens. ``attend()`` computes scores, weights and contexts, and a notebook shows all as a page.

        Raises
        ------
        ValueError
            If the model has no attention, the translation is empty or comes from another model, there is no such layer
            or head, or they are given for a recurrent network.
        TypeError
            If `translation` is not a Translation.

        References
        ----------
        Bahdanau, Cho and Bengio 2014, appendix A.1.2; Vaswani et al. 2017, section 3.2.

        Examples
        --------
        >>> network = {"embedding": 8, "encoder": 4, "decoder": 6, "attention": 5}
        >>> model = Seq2Seq(network=network, epochs=1).fit(["one", "two"], ["un", "deux"])
        >>> steps = model.decoder_steps(model.align(["one two"], ["deux"])[0])
        >>> steps.states.shape, steps.query_weight.shape, steps.keys.shape, steps.attend().context.shape
        ((1, 6), (6, 5), (3, 5), (1, 8))
        """
        network = self.network
        if not self.attention:
            _check.fail("decoder steps are those of a network with attention. Got one without instead.")
        read = self._read_again(translation, source)
        if not translation.tokens:
            _check.fail("translation must have a token, which a step writes. Got an empty one instead.")
        predicted = tuple(self.alternatives(translation, source=source)[: len(translation.ids)])
        before = [START, *translation.ids][: len(translation.ids)]
        tokens = (
            _without_markers((*translation.source, *read.retrieved)),
            _without_markers(translation.tokens),
        )
        if isinstance(network, TransformerNetwork):
            aligned = head_weights(network, read.rows, [START, *translation.ids, END])[2][
                network.config.aligned
            ]
            _check_own(translation, aligned.mean(axis=0))
            place = _head(network.config, layer, head)
            to_source = _check.choice("part", part, ("source", "decoder")) == "source"
            keys = tokens[0] if to_source else (SPECIAL[START], *tokens[1])[: len(before)]
            names = keys, tokens[1]
            return head_steps(network, read.rows, before, names, predicted, **place, to_source=to_source)
        assert isinstance(network, RecurrentNetwork)
        if layer is not None or head is not None or part != "source":
            _check.fail("layer, head and part are those of a transformer. Got a recurrent network instead.")
        steps = decoder_steps(network, read.rows, before, *tokens, predicted)
        _check_own(translation, steps.attend().weights)
        return steps

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model into one file; see `regard.seq2seq.storage.model_file` for its format.

        Parameters
        ----------
        path : str or path
            The file; an older one is replaced once the new one is complete, also where a link points to it.

        Raises
        ------
        OSError
            If it can't be written.
        ValueError
            If the path is a folder, a pipe or a device.

        Examples
        --------
        >>> Seq2Seq(epochs=1).fit(["one", "two"], ["un", "deux"]).save("numbers.regard")
        >>> len(Seq2Seq.load("numbers.regard").translate(["one"]))
        1
        """
        files.write_model(path, self.model)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model from its file.

        Parameters
        ----------
        path : str or path
            A file of `save`, or an untrusted one, or a folder of ``regard train``.

        Returns
        -------
        Seq2Seq
            Ready to translate. `fit` trains it anew, with the file's network and token types, and default options
            otherwise.

        Raises
        ------
        ValueError
            If it is not a model file.
        OSError
            If it can't be read.

        Examples
        --------
        >>> Seq2Seq(epochs=1, target="characters").fit(["one", "two"], ["un", "deux"]).save("letters.regard")
        >>> Seq2Seq.load("letters.regard").target
        'characters'
        """
        model = files.read_model(files.model_file(path))
        described, unused = describe(model.network.config), model.network.config.unused_options
        named = {name: described.pop(name) for name in ("family", "source_tokens", "target_tokens", "inputs")}
        loaded = cls(
            family=named["family"],
            network={name: value for name, value in described.items() if name not in unused},
            **token_options(model),
            extras={name: extra.option for name, extra in model.extras.items()},
        )
        loaded._model = model
        return loaded


def token_options(model: files.Model[Any]) -> dict[str, Any]:
    """Return the options of `Seq2Seq` that choose the source and the tokens of a model."""
    target = model.target.describe()
    options = {"normalization": target["normalization"], "subwords": target.get("method")}
    return options | {"target": model.target.token_type} | model.source.model_options()


def _by_layer(numbers: Mapping[tuple[str, int, int], float], kind: str) -> NDArray[Any]:
    """Return the numbers of the heads of a kind (layers, heads)."""
    of_kind = {head[1:]: number for head, number in numbers.items() if head[0] == kind}
    array = np.zeros(np.max([*of_kind], axis=0) + 1 if of_kind else (0, 0))
    for head, number in of_kind.items():
        array[head] = number
    return array


def _without_markers(tokens: Sequence[str]) -> tuple[str, ...]:
    return tuple(token.replace(JOIN, "") for token in tokens)


def _check_own(translation: Translation, weights: NDArray[Any]) -> None:
    """Check that a translation has the attention weights of this model."""
    if translation.alignment is not None:
        known, _ = translation.full_alignment()
        if known.shape == weights.shape and np.allclose(known, weights, atol=0.01):
            return
    rule = "translation must come from this model; its alignment differs."
    _check.fail(rule, hint="model.align([source], [target])[0]")


def _head(config: TransformerConfig, layer: int | None, head: int | None) -> dict[str, int]:
    """Return the numbers, from 0, of a layer of the decoder and of a head, given from 1 or not at all."""
    layers, default = config.decoder_layers, config.aligned + 1
    return {
        "layer": _check.integer("layer", default if layer is None else layer, 1, layers) - 1,
        "head": _check.integer("head", 1 if head is None else head, 1, config.heads) - 1,
    }


def _network_options(family: str, attention: bool, network: Any) -> dict[str, Any]:
    """Check the options of the network, and add that it has no attention."""
    if not isinstance(network, Mapping | None):
        rule = f"network must be a mapping from names to values. Got {network!r:.60} instead."
        _check.fail(rule, kind=TypeError)
    options = {n: x.item() if isinstance(x, np.generic) else x for n, x in (network or {}).items()}
    if not _check.flag("attention", attention):
        if family != "recurrent":
            _check.fail("attention must be True for a transformer: it is made of attention.")
        if options.setdefault("score", "none") != "none":
            _check.fail(f"score must not be given without attention. Got {options['score']!r:.60} instead.")
    return options


def _vocabulary_options(
    vocabulary: int | None, min_count: int | None, token_types: tuple[str, str]
) -> tuple[int | None, int | None]:
    """Check the options of the vocabulary."""
    if vocabulary is not None:
        vocabulary = _check.integer(
            "vocabulary", vocabulary, max(SMALLEST[token_type] for token_type in token_types)
        )
    if min_count is not None:
        min_count = _check.integer("min_count", min_count, least=1)
        if set(token_types) == {"subwords"}:
            _check.fail(
                f"min_count must not be given with subwords, which are frequent by themselves. Got {min_count} instead."
            )
    return vocabulary, min_count


def _segmentation(subwords: str | None, token_types: tuple[str, str]) -> Method | None:
    """Check how subwords are learned."""
    if subwords is None:
        return None
    _check.choice("subwords", subwords, METHODS)
    if "subwords" not in token_types:
        _check.fail(f"subwords must not be given where neither side has any. Got {subwords!r:.60} instead.")
    return cast(Method, subwords)

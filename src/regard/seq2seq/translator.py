"""Translation of sentences, by a trained model (`regard.seq2seq.model`) or several (`regard.seq2seq.ensemble`)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._display import Displayed
from regard._threads import one_blas_thread, two_threads
from regard.attribution import Faithfulness, erasure, faithfulness
from regard.context import recording
from regard.seq2seq.alignment.links import copies
from regard.seq2seq.corpus.batching import EncodedPair, Ids, collate, source_batch
from regard.seq2seq.corpus.batching import Row as BatchRow
from regard.seq2seq.corpus.dataset import target_ids
from regard.seq2seq.corpus.packing import Row
from regard.seq2seq.corpus.pairs import as_examples, by_source, paired
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.decoding.beam import beam as beam_search
from regard.seq2seq.decoding.forced import alternatives, force
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.decoding.restrictions import Restricted, Restrictions
from regard.seq2seq.decoding.sampling import sample
from regard.seq2seq.networks.base import Predictor
from regard.seq2seq.sources.base import Source
from regard.seq2seq.sources.example import Example
from regard.seq2seq.sources.text.vocabulary import END, LONGEST_TOKEN, SPECIAL, START, UNKNOWN
from regard.seq2seq.storage.model_file import Model

__all__ = [
    "LONGEST_SENTENCE",
    "UNKNOWN_WORDS",
    "Alternative",
    "Checked",
    "Translation",
    "Translator",
    "UnknownWords",
    "check_length",
    "read_source",
]

Array = NDArray[Any]
UnknownWords = Literal["copy", "next"]
UNKNOWN_WORDS: tuple[UnknownWords, ...] = get_args(UnknownWords)
Item = TypeVar("Item")
Result = TypeVar("Result")
# Of sources, their lengths, and their positions.
_Search = Callable[[Ids, Ids, Sequence[int]], list[list[Hypothesis]]]
# Of the tokens of sources, without what an extra appends, and their hypotheses.
_Rank = Callable[[Sequence[Row], list[list[Hypothesis]]], list[list[Hypothesis]]]

LONGEST_SENTENCE = 1000  # tokens
_TOGETHER = 64  # sentences of a batch, at most
_PADDED = 1.25  # how much longer the longest of them may be than the shortest


class _NetworkInput(NamedTuple):
    """The input of the network for an example: its rows, and those that an extra appends with their tokens."""

    example: Example
    rows: BatchRow
    retrieved: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Translation(Displayed):
    """A translated sentence, with its score and attention weights.

    Parameters
    ----------
    text : str
        The translation.
    tokens : tuple of str
        Its n tokens; an unknown one is copied from the source, as `regard.seq2seq.alignment.links.copies` chooses.
    source : tuple of str
        The source's m - 1 tokens, and </s>; of an array, the m names of its vectors, or of the cells of a picture.
    score : float
        The score that ranks translations; by default the mean log-probability of the tokens. From a beam with a
        reranker, that of `regard.seq2seq.extras.base.Reranker.rerank`.
    alignment : array (n, m) or None
        Attention weights of the source. Rows sum to 1, or to less with retrieved tokens; None without attention.
    log_probability : float
        Log-probability of the complete sentence.
    retrieved : tuple of str
        The b tokens that an extra has appended to the source, <s> before each retrieved target.
    retrieved_weights : array (n, b) or None
        Attention weights of the retrieved tokens.
    ids : tuple of int
        The ids that the model predicted: that of <unk> where a token is copied.
    grid : (int, int) or None
        Of a picture: the rows and columns of its cells, ``alignment.reshape(n, *grid)``.
    starts : tuple of int
        The columns of `full_alignment` that are the <s> of a retrieved target.
    log_probabilities : array (n + 1,) or None
        Log-probability of each token, and of </s> after them; (n,) if the translation was cut off before it.

    Examples
    --------
    >>> from regard.seq2seq import Seq2Seq
    >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
    >>> (translation,) = model.translate(["two"])
    >>> translation.tokens, translation.source, translation.alignment.argmax(axis=1)
    (('deux',), ('two', '</s>'), array([0]))
    """

    text: str
    tokens: tuple[str, ...]
    source: tuple[str, ...]
    score: float
    alignment: Array | None
    log_probability: float = 0.0
    retrieved: tuple[str, ...] = ()
    retrieved_weights: Array | None = None
    ids: tuple[int, ...] = ()
    grid: tuple[int, int] | None = None
    starts: tuple[int, ...] = ()
    log_probabilities: Array | None = None

    view = "alignment"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Translation):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __hash__(self) -> int:
        return hash((self.text, self.tokens, self.source, self.score))

    def full_alignment(self) -> tuple[Array, tuple[str, ...]]:
        """Return the attention weights of all tokens that the model has read.

        Returns
        -------
        weights : array (n, m + b)
            `alignment`, and `retrieved_weights` to the right of it.
        read : tuple of str
            The m + b tokens.

        Raises
        ------
        ValueError
            If the model has no attention.

        Examples
        --------
        >>> translation = Translation("le", ("le",), ("the", "</s>"), 0.0, np.array([[1.0, 0.0]]))
        >>> translation.full_alignment()
        (array([[1., 0.]]), ('the', '</s>'))
        """
        if self.alignment is None:
            _check.fail("the model must have attention for an alignment; this one has none")
        if self.retrieved_weights is None:
            return self.alignment, self.source
        return np.concatenate([self.alignment, self.retrieved_weights], axis=1), (
            *self.source,
            *self.retrieved,
        )


class Alternative(NamedTuple):
    """A token that could have been written at a step, and its probability after the tokens before it."""

    token: str
    probability: float


class Checked(NamedTuple):
    """The answers to a source, compared with its references.

    `candidates`: the answers, the best first; `logs`: their `Translator.ranked_logs`; `right`: whether the best is one
    of the references.
    """

    candidates: list[Translation]
    logs: list[float]
    right: bool


class Translator(ABC):
    """Translate sentences, and align given translations: the methods that `Seq2Seq` and `Ensemble` share."""

    @property
    @abstractmethod
    def model(self) -> Model[Predictor]:
        """The network and the tokenizers of both sides."""

    @property
    def network(self) -> Predictor:
        """The network, whose parameters are ``network.parameters``; of an ensemble, all networks as one."""
        return self.model.network

    @property
    @abstractmethod
    def attention(self) -> bool:
        """Whether translations have attention weights."""

    def translate(
        self,
        sources: Sequence[Any],
        *,
        beam: int = BEAM,
        scoring: Scoring | None = None,
        repetitions: int | None = None,
        unknown_words: UnknownWords = "copy",
    ) -> list[Translation]:
        """Translate sentences.

        Parameters
        ----------
        sources : sequence of str, or of sequences of str
            N texts, or token lists; for `Images` and `Vectors`, what they read. An empty sentence has an empty
            translation.
        beam : int
            Beam size; 1 is greedy search.
        scoring : Scoring, optional
            The score that ranks hypotheses; by default the mean log-probability of their tokens. A reranker, if the
            model has one, ranks the results of the beam anew.
        repetitions : int, optional
            How often a group of tokens may follow itself, or as often as in the source; by default as often as in the
            training targets, at least 3 times.
        unknown_words : {"copy", "next"}
            Replaces an unknown target token: "copy" by an unknown source token, each of them once, and where none is
            left by the next most probable token; "next" always by that.

        Returns
        -------
        list of N Translation
            The best translation of each sentence.

        Raises
        ------
        ValueError, TypeError
            If an option is invalid, or a sentence has more than 1,000 tokens.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> [translation.text for translation in model.translate(["two", "one two"], beam=1)]
        ['deux', 'un deux']
        """
        candidates = self.candidates(
            sources,
            beam=beam,
            n_best=1,
            scoring=scoring,
            repetitions=repetitions,
            unknown_words=unknown_words,
        )
        return [translations[0] for translations in candidates]

    def candidates(
        self,
        sources: Sequence[Any],
        *,
        beam: int = BEAM,
        n_best: int | None = None,
        scoring: Scoring | None = None,
        repetitions: int | None = None,
        unknown_words: UnknownWords = "copy",
    ) -> list[list[Translation]]:
        """Return the n best translations of each sentence.

        Parameters
        ----------
        sources
            As for `translate`.
        beam : int
            Beam size.
        n_best : int, optional
            Number of translations, `beam` at most and by default. There may be fewer, since those of equal text count
            once.
        scoring, repetitions, unknown_words
            As for `translate`.

        Returns
        -------
        list of N lists of Translation
            The best first.

        Raises
        ------
        ValueError, TypeError
            As for `translate`, and if `n_best` is greater than `beam`.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> [translation.text for translation in model.candidates(["two"], n_best=2)[0]][0]
        'deux'
        """
        width = _check.integer("beam", beam, least=1)
        wanted = width if n_best is None else _check.integer("n_best", n_best, least=1)
        if wanted > width:
            _check.fail(f"n_best must be at most beam = {width}. Got {wanted} instead.")

        ranked = self._scoring(scoring)
        reranker = self.model.reranker if width > 1 else None
        count = width if wanted > 1 or reranker is not None else 1  # several may have the same text

        search = self._beam(width, count, ranked, self._restrictions(repetitions, unknown_words))

        def rank(rows: Sequence[Row], hypotheses: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
            assert reranker is not None
            return reranker.rerank(rows, hypotheses, ranked, count if wanted > 1 else 1)

        beams = self._search_all(sources, search, rank if reranker else None)
        return [_distinct(hypotheses)[:wanted] for hypotheses in beams]

    def probability(self, candidates: Sequence[Translation]) -> float:
        """Return the calibrated probability that the best candidate of a sentence is right.

        Parameters
        ----------
        candidates : sequence of Translation
            What `candidates` returns for the sentence, with the beam size of the calibration, 5, or a larger one.

        Returns
        -------
        float
            From 0 to 1.

        Raises
        ------
        ValueError
            If the model is not calibrated.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> words = [a + b for a in "abcde" for b in "fghij"]
        >>> model = Seq2Seq(source="characters", target="characters", epochs=1).fit(words, words)
        >>> calibrated = model.calibrate(words, words)  # in practice, pairs that were held out
        >>> 0 < calibrated.probability(calibrated.candidates(["af"])[0]) < 1
        True
        """
        if self.model.calibration is None:
            rule = "probabilities need a calibrated model. This one is not."
            _check.fail(
                rule, hint="calibrate(sources, targets) of held-out pairs, as regard train does at its end"
            )
        return self.model.calibration(self.ranked_logs(candidates))

    def ranked_logs(self, candidates: Sequence[Translation]) -> list[float]:
        """Return log-probabilities of the candidates of a source that fall in the order of their scores.

        The probability of all candidates is distributed by their scores: with a reranker by the weighted mean of both
        log-probabilities, otherwise by the mean log-probability of a token times the number of tokens of the best.

        Parameters
        ----------
        candidates : sequence of Translation
            What `candidates` returns for a sentence.

        Returns
        -------
        list of float
            One for each candidate; the sum of their exponentials is that of the candidates' probabilities.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> candidates = model.candidates(["two"])[0]
        >>> logs = model.ranked_logs(candidates)
        >>> len(logs) == len(candidates), logs == sorted(logs, reverse=True)
        (True, True)
        """
        if not candidates:
            return []
        scale = 1 / self._weights if self._weights > 1 else len(candidates[0].ids) + 1
        ranks = [scale * candidate.score for candidate in candidates]
        total = np.logaddexp.reduce([candidate.log_probability for candidate in candidates])
        return [float(rank - np.logaddexp.reduce(ranks) + total) for rank in ranks]

    def shares(self, candidates: Sequence[Translation]) -> list[float]:
        """Return the share of each candidate of a source in the probability of all.

        Parameters
        ----------
        candidates : sequence of Translation
            What `candidates` returns for a sentence.

        Returns
        -------
        list of float
            The exponentials of `ranked_logs`, divided by their sum.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> round(sum(model.shares(model.candidates(["two"])[0])), 6)
        1.0
        """
        logs = self.ranked_logs(candidates)
        return [math.exp(log - np.logaddexp.reduce(logs)) for log in logs]

    def ranking(self, translation: Translation) -> float:
        """Return the log-probability of a translation; with a reranker, the weighted mean of both.

        Parameters
        ----------
        translation : Translation
            A translation by this model.

        Returns
        -------
        float
            The log-probability.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> translation = model.translate(["two"])[0]
        >>> model.ranking(translation) == translation.log_probability
        True
        """
        return translation.score / self._weights if self._weights > 1 else translation.log_probability

    @property
    def _weights(self) -> float:
        """The sum of the weights of network and reranker, whose log-probabilities the scores of a reranker add."""
        return 1.0 if self.model.reranker is None else 1.0 + self.model.reranker.weight

    def warnings(self, source: Any, candidates: Sequence[Translation]) -> tuple[str, ...]:
        """Return the reasons for which the best candidate of a source may be a guess, with numbers.

        A reason is a property of the source far outside those of the training examples, or a log-probability that is
        lower than that of 99 of 100 held-out sources.

        Parameters
        ----------
        source
            An example, as for `translate`.
        candidates : sequence of Translation
            What `candidates` returns for it.

        Returns
        -------
        tuple of str
            The reasons; empty where the model has not recorded what is usual.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> model.warnings("two", model.candidates(["two"])[0])
        ()
        """
        reasons = self.model.source.out_of_range(self.model.source.load(source))
        calibration = self.model.calibration
        doubt = calibration and calibration.doubt(self.ranked_logs(candidates)[0])
        if not doubt:
            return reasons
        text = "probability {probability:.3g} ({least:.3g} or more for 99 of 100 held out)"
        return *reasons, text.format(**doubt)

    def compare_with_references(self, sources: Sequence[Any], targets: Sequence[Any]) -> list[Checked]:
        """Translate each different source, and compare the best answer with all targets of that source.

        Parameters
        ----------
        sources, targets
            N examples and as many targets, as for `Seq2Seq.fit`; a source may stand in several pairs.

        Returns
        -------
        list of Checked
            For each different source its `candidates`, their `ranked_logs`, and whether the best is `right`.

        Raises
        ------
        ValueError, TypeError
            If the numbers of sources and targets differ, or one is not what the model reads.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> [checked.right for checked in model.compare_with_references(["two", "two"], ["2", "deux"])]
        [True]
        """
        source, target = self.model.source, self.model.target
        pairs = by_source(
            (source.load(x), target.read(y).content) for x, y in paired(sources, targets, source, target)
        )
        return [
            Checked(answers, self.ranked_logs(answers), answers[0].text in {*map(target.detokenize, right)})
            for answers, right in zip(self.candidates([*pairs]), pairs.values(), strict=True)
        ]

    def _restrictions(
        self, repetitions: int | None = None, unknown_words: UnknownWords = "copy"
    ) -> Restrictions:
        """Return what restricts the outputs: the options, or what the model has."""
        _check.choice("unknown_words", unknown_words, UNKNOWN_WORDS)
        alike, most = self.model.alike, self.model.repetitions
        if repetitions is not None:
            most = _check.integer("repetitions", repetitions, least=1)
        return Restrictions(most, as_source=alike, copies=alike and unknown_words == "copy")

    def _beam(self, width: int, n_best: int, scoring: Scoring, restrictions: Restrictions) -> _Search:
        """Return a beam search."""
        network = Restricted(self.network, restrictions)

        def search(source: Ids, lengths: Ids, _: Sequence[int]) -> list[list[Hypothesis]]:
            return beam_search(network, source, lengths, width=width, n_best=n_best, scoring=scoring)

        return search

    def sample(
        self,
        sources: Sequence[Any],
        *,
        count: int = 1,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        rng: np.random.Generator | int | Sequence[int] | None = 1,
        scoring: Scoring | None = None,
        repetitions: int | None = None,
        unknown_words: UnknownWords = "copy",
    ) -> list[list[Translation]]:
        """Sample translations from the distribution of the model.

        Padding, <s>, and what `repetitions` and `unknown_words` exclude are never drawn; their probability goes to the
        other tokens. `log_probability` is that of the model before this.

        Parameters
        ----------
        sources
            As for `translate`.
        count : int
            Samples of each sentence.
        temperature : float
            Divides the logits: less than 1 favours probable tokens, more than 1 rare ones.
        top_k : int, optional
            Draws from the k most probable tokens only.
        top_p : float, optional
            Draws from the fewest tokens whose probabilities add up to this (nucleus sampling).
        rng : Generator, int, sequence of int or None
            Random generator, or its seed; None differs in every call. The samples of a sentence depend on its position
            among the sources, not on the other sources. A sequence has a seed for each sentence.
        scoring, repetitions, unknown_words
            As for `translate`.

        Returns
        -------
        list of N lists of Translation
            `count` samples of each sentence.

        Raises
        ------
        ValueError, TypeError
            If an option is invalid, or a sentence has more than 1,000 tokens.

        References
        ----------
        Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration" (top_p).

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> samples = model.sample(["two"], count=3, temperature=0.5)[0]
        >>> len(samples), samples == model.sample(["two"], count=3, temperature=0.5)[0]
        (3, True)
        """
        sources = as_examples("sources", sources, self.model.source.read)
        generators, ranked = _generators(rng, len(sources)), self._scoring(scoring)
        network = Restricted(self.network, self._restrictions(repetitions, unknown_words))

        def search(source: Ids, lengths: Ids, positions: Sequence[int]) -> list[list[Hypothesis]]:
            return sample(
                network,
                source,
                lengths,
                rng=[generators[i] for i in positions],
                count=count,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                scoring=ranked,
            )

        return self._search_all(sources, search)

    def align(
        self,
        sources: Sequence[Any],
        targets: Sequence[Any],
        *,
        posterior: bool = False,
        rerank: bool = False,
    ) -> list[Translation]:
        """Score given translations, and return their attention weights.

        Parameters
        ----------
        sources, targets
            N examples, as for `translate`, and their translations; either may be empty.
        posterior : bool
            Whether to return posterior attention: the weights given the target token, instead of those before it was
            predicted. Links between words from it have far fewer errors. For recurrent networks; it takes as many
            predictions as there are source tokens. See `regard.seq2seq.networks.recurrent.posterior`.
        rerank : bool
            Whether the scores are those of the reranker, if there is one, as those of `candidates` are.

        Returns
        -------
        list of N Translation
            The given translations, with their scores and weights.

        Raises
        ------
        ValueError, TypeError
            If the numbers of sources and targets differ, a sentence has more than 1,000 tokens, or `posterior` is True
            for a transformer.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> (aligned,) = model.align(["one two"], ["un deux"])
        >>> aligned.tokens, aligned.alignment.shape, aligned.log_probabilities.shape
        (('un', 'deux'), (2, 3), (3,))
        """
        target_side, both = self.model.target, self._read_pairs(sources, targets)
        keys = [i if len(source.example) or len(target) else -1 for i, (source, target) in enumerate(both)]
        once = {key: both[i] for i, key in enumerate(keys)}  # all empty pairs are decoded as one
        rows = [source.rows for source, _ in once.values()]
        ids = [target_ids(target_side, target.content) for _, target in once.values()]
        forced = self._forced(rows, ids, Scoring(), posterior=posterior)
        if rerank and (reranker := self.model.reranker):
            originals = [list(source.rows[: len(source.example)]) for source, _ in once.values()]
            forced = [
                best for (best,) in reranker.rerank(originals, [[best] for best in forced], Scoring(), 1)
            ]
        aligned = {
            key: self._translation(source, hypothesis, target.content)
            for (key, (source, target)), hypothesis in zip(once.items(), forced, strict=True)
        }
        return [aligned[key] for key in keys]

    def alternatives(
        self, translation: Translation, count: int = 5, source: Any = None
    ) -> list[tuple[Alternative, ...]]:
        """Return the most probable tokens at each step of a translation, after the tokens that it has before.

        Parameters
        ----------
        translation : Translation
            What `translate`, `candidates`, `sample` or `align` has returned.
        count : int
            Tokens of each step, at most; a network with fewer has fewer.
        source : optional
            The source of the translation where it is an array, which a translation doesn't hold.

        Returns
        -------
        list of n + 1 tuples of Alternative
            Of each token's step, and of that of </s> unless the translation was cut off before it: the most probable
            first. Probabilities are those of the network over its complete vocabulary, without the restrictions of a
            search.

        Raises
        ------
        ValueError, TypeError
            If `count` is less than 1, or the translation does not come from this model.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> (translation,) = model.translate(["one two"])
        >>> [step[0].token for step in model.alternatives(translation)]
        ['un', 'deux', '</s>']
        """
        read, tokens = self._read_again(translation, source), self.model.target.tokens
        most = _check.integer("count", count, least=1)
        if len(translation.ids) != len(translation.tokens) or max(translation.ids, default=0) >= len(tokens):
            rule = "translation must come from this model; it has other tokens."
            _check.fail(rule, hint="model.align([source], [target])[0]")
        logs = translation.log_probabilities
        ids = [START, *translation.ids, END][: None if logs is None else len(logs) + 1]
        search = partial(alternatives, self.network, count=min(most, len(tokens) - END))
        ((chosen, logs),) = _decoded([read.rows], [ids], search)
        shares = np.exp(logs)
        return [
            tuple(Alternative(tokens[i], float(share)) for i, share in zip(*step, strict=True))
            for step in zip(chosen.tolist(), shares, strict=True)
        ]

    def erasure(self, translation: Translation, source: Any = None, *, by: str | None = None) -> Array:
        """Return what the log-probability of each target token loses without each source token, vector or cell.

        It is the importance that `regard.attribution.agreement` compares with `Translation.alignment`.

        Parameters
        ----------
        translation : Translation
            What `translate` or `align` has returned.
        source : optional
            The source of the translation where it is an array, which a translation doesn't hold.
        by : {"unknown", "deletion", "mean"}, optional
            What becomes of an erased token: the unknown token (by default of text); nothing; the mean of all vectors,
            or of all cells of a picture (by default of these, which need at least two for "deletion"; pictures have
            "mean" alone).

        Returns
        -------
        array (n, m)
            Rows for the target's n tokens, columns for the source's; of text the last column, that of </s>, is 0.

        Raises
        ------
        ValueError
            If `by` does not go with the source.

        References
        ----------
        Li, Monroe and Jurafsky 2016, "Understanding Neural Networks through Representation Erasure".

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> (translation,) = model.translate(["one two"])
        >>> model.erasure(translation).argmax(axis=1)
        array([0, 1])
        """
        model, inputs, replacement = self._erasable(translation, source, by)
        losses = erasure(model, inputs, replacement=replacement)
        return np.pad(losses, ((0, 0), (0, len(translation.source) - len(inputs))))

    def faithfulness(
        self, translation: Translation, importance: Array, source: Any = None, *, by: str | None = None
    ) -> Faithfulness:
        """Return what target tokens lose without the source tokens that are the most important for each, and by these.

        Parameters
        ----------
        translation
            As for `erasure`.
        importance : array (n, m)
            The importance of each source token for each target token, such as ``translation.alignment``; that of </s>,
            which is not erased, may be left out.
        source, by
            As for `erasure`.

        Returns
        -------
        Faithfulness
            ``comprehensiveness`` and ``sufficiency`` (n,) of `regard.attribution.faithfulness`.

        Raises
        ------
        ValueError
            If `by` does not go with the source, or the shape of `importance` with the translation.

        References
        ----------
        DeYoung et al. 2020, "ERASER: A Benchmark to Evaluate Rationalized NLP Models", section 5.

        Examples
        --------
        >>> from regard.seq2seq import Seq2Seq
        >>> model = Seq2Seq(epochs=40).fit(["one", "two", "one two"], ["un", "deux", "un deux"])
        >>> (translation,) = model.translate(["one two"])
        >>> result = model.faithfulness(translation, model.erasure(translation))
        >>> bool((result.comprehensiveness > result.sufficiency).all())
        True
        """
        model, inputs, replacement = self._erasable(translation, source, by)
        important = _check.numeric("importance", importance)
        if important.ndim != 2 or not len(inputs) <= important.shape[1] <= len(translation.source):
            wanted = len(translation.tokens), len(translation.source)
            _check.fail(f"importance must be {wanted}. Got shape {important.shape} instead.")
        return faithfulness(model, inputs, important[:, : len(inputs)], replacement=replacement)

    def _erasable(
        self, translation: Translation, source: Any, by: str | None
    ) -> tuple[Callable[[list[Any]], Array], Sequence[Any], Any]:
        """Return the log-probabilities of a translation as a function of its inputs, these, and what replaces one."""
        read = self._read_again(translation, source)
        rows, replacements = self.model.source.erasable(read.rows)
        count = len(read.example)
        replacement = replacements[_check.choice("by", by or next(iter(replacements)), replacements)]
        ids = [START, *translation.ids, END]

        def log_probabilities(variants: list[Any]) -> Array:
            sources = [np.array([*each, *rows[count:]]) for each in variants]
            forced = self._forced(sources, [ids] * len(sources), Scoring())
            return np.array([each.log_probabilities[: len(translation.ids)] for each in forced])

        return log_probabilities, list(rows[:count]), replacement

    def _rows_and_ids(
        self, sources: Sequence[Any], targets: Sequence[Any]
    ) -> tuple[list[BatchRow], list[Row]]:
        """Return the inputs of the network for pairs, and the ids of their targets."""
        both = self._read_pairs(sources, targets)
        return [source.rows for source, _ in both], [
            target_ids(self.model.target, t.content) for _, t in both
        ]

    def _read_pairs(
        self, sources: Sequence[Any], targets: Sequence[Any]
    ) -> list[tuple[_NetworkInput, Example]]:
        """Read as many sources as targets."""
        pairs = paired(sources, targets, self.model.source, self.model.target)
        read = self._read_all([source for source, _ in pairs])
        return list(zip(read, self._read_targets([target for _, target in pairs]), strict=True))

    def _read_targets(self, targets: Sequence[Any]) -> list[Example]:
        """Read targets, and check how long they are."""
        read = [self.model.target.read(target, f"target {i}: ") for i, target in enumerate(targets, 1)]
        for number, target in enumerate(read, 1):
            check_length(len(target), f"target {number}: ")
        return read

    def _forced(
        self,
        sources: Sequence[BatchRow],
        targets: Sequence[Row],
        scoring: Scoring,
        *,
        posterior: bool = False,
        network: Predictor | None = None,
    ) -> list[Hypothesis]:
        """Decode given targets, by another network if there is one."""
        decode = partial(force, network or self.network, scoring=scoring, posterior=posterior)
        return _decoded(sources, targets, decode)

    def _scoring(self, scoring: Scoring | None) -> Scoring:
        """Return the scoring of hypotheses, checked."""
        scoring = scoring or Scoring()
        if self.model.extras and scoring.coverage_penalty:
            _check.fail(
                f"coverage_penalty must be 0 for a model with extras. Got {scoring.coverage_penalty} instead."
            )
        return scoring

    def _search_all(
        self, sources: Sequence[Any], search: _Search, rank: _Rank | None = None
    ) -> list[list[Translation]]:
        """Search for all sources, batched by length, on two threads if possible, and rank each batch."""
        read = self._read_all(as_examples("sources", sources, self.model.source.read))
        some, empty = [i for i, each in enumerate(read) if len(each.example)], self._empty_translation()
        translations = [[] if len(each.example) else [empty] for each in read]

        def ranked(source: Ids, lengths: Ids, group: Sequence[int]) -> list[list[Hypothesis]]:
            hypotheses = search(source, lengths, group)
            if rank is None:
                return hypotheses
            return rank([list(read[i].rows[: len(read[i].example)]) for i in group], hypotheses)

        hypotheses = _searched({i: read[i].rows for i in some}, ranked)
        for i, of_one in zip(some, hypotheses, strict=True):
            translations[i] = [self._translation(read[i], hypothesis) for hypothesis in of_one]
        return translations

    def _find(self, sources: Sequence[Row], width: int, scoring: Scoring) -> list[list[Hypothesis]]:
        """Search with a beam for sources given as the ids of their own tokens."""
        search = self._beam(width, width, scoring, self._restrictions())
        return _searched(dict(enumerate(self._inputs(sources))), search)

    def _inputs(self, sources: Sequence[Row]) -> list[list[int]]:
        """Return the inputs of the network for sources: their own tokens, END, and those that an extra appends."""
        augmenter = self.model.augmenter
        if augmenter is None:
            return [[*source, END] for source in sources]
        return augmenter.extend(sources, len(self.model.source.tokenizer))

    def _read_all(self, sources: Sequence[Any]) -> list[_NetworkInput]:
        """Read sources, and append the tokens of an extra."""
        source = self.model.source
        located = ((example, f"source {number}: ") for number, example in enumerate(sources, 1))
        return self._read([read_source(source, *example) for example in located])

    def _read_again(self, translation: Translation, source: Any) -> _NetworkInput:
        """Return the input of the network for a translation, which holds its source unless that is an array."""
        if not isinstance(translation, Translation):
            got = type(translation).__name__
            rule = f"translation must be a Translation, such as translate([text])[0]. Got {got} instead."
            _check.fail(rule, kind=TypeError)
        return self._read_all([self.model.source.reread(translation.source, source)])[0]

    def _read(self, examples: Sequence[Example]) -> list[_NetworkInput]:
        """Return the inputs of the network for examples."""
        source, augmenter = self.model.source, self.model.augmenter
        rows = []
        for number, example in enumerate(examples, 1):
            with _check.located(f"source {number}: "):  # a standardised number may be too large
                rows.append(source.rows(example))
        if augmenter is None:
            return [_NetworkInput(example, row, ()) for example, row in zip(examples, rows, strict=True)]
        tokens = *self.model.source.tokenizer.tokens, *self.model.target.tokens
        extended = self._inputs([row[:-1] for row in rows])
        return [
            _NetworkInput(example, more, tuple(tokens[number] for number in more[len(row) :]))
            for example, row, more in zip(examples, rows, extended, strict=True)
        ]

    def _translation(
        self, source: _NetworkInput, best: Hypothesis, tokens: tuple[str, ...] | None = None
    ) -> Translation:
        """Convert a hypothesis to a translation; without tokens, unknown tokens are copied from the source."""
        names = self.model.source.names(source.example)
        aligned, count = best.alignment.shape[-1] > 0, len(names)
        tokens = tuple(self._target_tokens(source, best)) if tokens is None else tokens
        return Translation(
            self.model.target.detokenize(tokens),
            tokens,
            names,
            best.score,
            best.alignment[:, :count] if aligned else None,
            best.log_probability,
            source.retrieved,
            best.alignment[:, count:] if aligned and self.model.augmenter else None,
            best.tokens,
            self.model.source.spec.grid,
            tuple(i for i, _ in enumerate(source.retrieved, count) if source.rows[i] == START),
            best.log_probabilities,
        )

    def _target_tokens(self, source: _NetworkInput, best: Hypothesis) -> list[str]:
        """Return the tokens of a hypothesis; an unknown one copies an unknown source token that is not very long."""
        target, content = self.model.target, source.example.content
        tokens = [target.tokens[token] for token in best.tokens]
        if unknown := [i for i, token in enumerate(best.tokens) if token == UNKNOWN]:
            weights = (
                best.alignment[unknown, : len(content)]
                if best.alignment.size
                else np.ones((len(unknown), len(content)))
            )
            chosen = copies(weights, np.array(source.rows[: len(content)]) == UNKNOWN)
            for i, position in zip(unknown, chosen, strict=True):
                if len(content[position]) <= LONGEST_TOKEN:
                    tokens[i] = target.copy_token(content[position], self.model.source.tokenizer)
        return tokens

    def _empty_translation(self) -> Translation:
        """Return the empty translation of an empty sentence."""
        alignment = np.zeros((0, 1), np.float32) if self.attention else None
        retrieved = np.zeros((0, 0), np.float32) if self.model.augmenter else None
        return Translation("", (), (SPECIAL[END],), 0.0, alignment, retrieved_weights=retrieved)


def _decoded(
    sources: Sequence[BatchRow], targets: Sequence[Row], decode: Callable[[Ids, Ids, Ids], list[Result]]
) -> list[Result]:
    """Decode given targets, those of sources of similar lengths together, on two threads if possible."""
    groups = list(_by_length(sources))

    def decoded(group: Sequence[int]) -> list[Result]:
        with np.errstate(all="ignore"):  # as in `_searched`
            batch = collate([EncodedPair(sources[i], targets[i]) for i in group])
            return decode(batch.source, batch.lengths, batch.target)

    results: dict[int, Result] = {}
    for group, of_group in zip(groups, _on_two_threads(decoded, groups), strict=True):
        results.update(zip(group, of_group, strict=True))
    return [results[i] for i in range(len(sources))]


def _searched(rows: Mapping[int, BatchRow], search: _Search) -> list[list[Hypothesis]]:
    """Search for sequences of ids by their positions, batched by length, on two threads if possible."""
    positions, results = list(rows), dict[int, list[Hypothesis]]()
    groups = [[positions[i] for i in group] for group in _by_length(list(rows.values()))]

    def searched(group: Sequence[int]) -> list[list[Hypothesis]]:
        # A thread does not inherit the caller's settings.
        with np.errstate(all="ignore"):
            return search(*source_batch([rows[i] for i in group]), group)

    for group, of_group in zip(groups, _on_two_threads(searched, groups), strict=True):
        results.update(zip(group, of_group, strict=True))
    return [results[i] for i in positions]


def _distinct(translations: Sequence[Translation]) -> list[Translation]:
    """Return the first translation of each text: different tokens may have the same text."""
    first: dict[str, Translation] = {}
    for translation in translations:
        first.setdefault(translation.text, translation)
    return list(first.values())


def _on_two_threads(work: Callable[[Item], Result], parts: Sequence[Item]) -> list[Result]:
    """Apply work to each part; in this thread if BLAS has threads of its own, or a `record` block is open."""
    if len(parts) < 2 or recording():
        return [work(part) for part in parts]
    with one_blas_thread() as alone, two_threads() as threads:
        if not alone:
            return [work(part) for part in parts]
        futures = [threads[i % 2].submit(work, part) for i, part in enumerate(parts)]
        try:
            return [future.result() for future in futures]
        finally:  # after an error or an interrupt, nothing new is begun
            for future in futures:
                future.cancel()


def _generators(rng: Any, count: int) -> list[np.random.Generator]:
    """Return a random generator for each of `count` sentences."""
    if not isinstance(rng, Sequence) or isinstance(rng, str):
        return _check.generator("rng", rng).spawn(count)
    if len(rng) != count:
        _check.fail(f"rng must have one seed for each of {count} sentences. Got {len(rng)} instead.")
    return [_check.generator("rng", seed) for seed in rng]


def read_source(source: Source, given: Any, where: str = "") -> Example:
    """Read a source of a network; raise if it has too many tokens, with `where` before the error."""
    example = source.load(given, where)
    if not source.is_short(example, LONGEST_SENTENCE):
        check_length(len(example), where)
    return example


def check_length(count: int, where: str = "") -> None:
    """Raise if a sentence is too long for a network.

    `count`: the number of tokens; `where`: the beginning of the error: which sentence it is.
    """
    if count > LONGEST_SENTENCE:
        _check.fail(f"{where}{count} tokens; at most {LONGEST_SENTENCE} are allowed")


def _by_length(rows: Sequence[BatchRow]) -> Iterator[list[int]]:
    """Yield the positions of sentences of similar lengths, each with END, so that there is little padding."""
    group: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i])):
        length = max(len(rows[i]) - 1, 1)
        together = max(1, min(_TOGETHER, 4096 // length))
        if group and (len(group) >= together or length > _PADDED * max(len(rows[group[0]]) - 1, 1)):
            yield group
            group = []
        group.append(i)
    if group:
        yield group

"""Knowledge distillation: a student learns from the answers of teachers, and from their distributions over tokens.

The teachers answer sources, and the student learns their answers as if they were targets (sequence-level distillation:
Kim and Rush 2016). At each position of a target, a given one or an answer, it also learns which tokens the teachers
find probable there (word-level distillation: Hinton, Vinyals and Dean 2015; of an ensemble for letters to sounds: Sun
et al. 2019). The loss of a position is ::

    (1 - soft_weight) H(target) + soft_weight T^2 H(softmax(teacher / T), softmax(student / T))

with the cross-entropy H and the temperature T. Of the teachers' distribution the `top_k` most probable tokens are
kept, with their probabilities divided by the sum of these (top-K distillation, Tan et al. 2019). Where the most
probable one is not the target, the target alone is learned (as in Wen et al. 2019, "Preparing Lessons: Improve
Knowledge Distillation with Better Supervision").
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from regard import _check
from regard._version import __version__
from regard.seq2seq.corpus.batching import Ids, SoftTargets
from regard.seq2seq.corpus.dataset import is_short
from regard.seq2seq.corpus.packing import Row
from regard.seq2seq.corpus.pairs import Pair, as_examples, as_pairs, paired, two_sides
from regard.seq2seq.corpus.splits import hold_out, split_validation
from regard.seq2seq.decoding.beam import BEAM
from regard.seq2seq.decoding.forced import RAREST
from regard.seq2seq.decoding.search import longest
from regard.seq2seq.ensemble import EnsembleNetwork
from regard.seq2seq.model import Seq2Seq, token_options
from regard.seq2seq.sources.example import Example
from regard.seq2seq.sources.text.tokenizers import Tokenizer, unseen
from regard.seq2seq.sources.text.vocabulary import END
from regard.seq2seq.storage.labels_file import Answers, read_answers, write_answers
from regard.seq2seq.training.loop import TrainingStep
from regard.seq2seq.training.preparation import TeacherTargets
from regard.seq2seq.translator import Translation, Translator

__all__ = [
    "Chosen",
    "Labels",
    "answerable",
    "check_student",
    "distill",
    "label",
    "labels_identity",
    "learnable",
]

Item = TypeVar("Item")

TOP_K = 8  # tokens of a distribution that are kept
_TOGETHER = 512  # sources between two reports of progress

Progress = Callable[[int], object]


class Labels(NamedTuple):
    """The pairs that a student learns: given ones and answers of teachers, with the distributions of their tokens."""

    pairs: list[Pair]
    taught: TeacherTargets

    def split(self) -> tuple[Labels, list[Pair]]:
        """Hold out some sources for validation; return the labels of the others, and the pairs held out."""
        pairs, valid, soft = split_validation(self.pairs, self.taught.soft)
        return Labels(pairs, self.taught._replace(soft=soft or ())), valid


def distill(
    teacher: Translator,
    student: Seq2Seq,
    sources: Sequence[Any] = (),
    *,
    pairs: tuple[Sequence[Any], Sequence[Any]] | None = None,
    valid: tuple[Sequence[Any], Sequence[Any]] | None = None,
    n_best: int = 1,
    top_k: int = TOP_K,
    labels: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    listener: Callable[[TrainingStep], object] | None = None,
) -> Seq2Seq:
    """Train a student on the answers of teachers, and on their distributions over tokens.

    An answer is that of the complete teacher: of an ensemble, and with extras such as a translation memory or a
    reranker. The distributions are those of the network with what a memory appends, or the mean of an ensemble's; a
    reranker has no part in them. Where their most probable token is not that of the target, which the pairs or the
    reranker know better, the student learns the target alone. ``TrainingConfig(soft_weight=..., temperature=...)`` of
    the student is their weight and temperature; with weight 0 it learns the answers alone.

    Parameters
    ----------
    teacher : Seq2Seq or Ensemble
        A trained model of text. Several with the same tokens are an `Ensemble`.
    student : Seq2Seq
        The model to train, with the token types of the teacher, whose vocabularies it gets.
    sources : sequence of str, or of sequences of str
        Sources without targets, which the teacher answers. Those with letters, subwords or tokens that it has never
        seen are left out, and those held out for validation.
    pairs : (sources, targets), optional
        Pairs whose targets the student learns, too: those of the teacher's training.
    valid : (sources, targets), optional
        Validation pairs, which choose the best parameters; by default some of `pairs` are held out, as `Seq2Seq.fit`
        does, or else some of the answered sources.
    n_best : int
        Answers to each source, at most. Each is learned as often as its share of this number
        (`regard.seq2seq.translator.Translator.shares`), and the best at least once.
    top_k : int
        How many tokens of a distribution are kept.
    labels : path, optional
        A file to which the teacher's answers and distributions are written. If it has those of the same teacher,
        sources, pairs and options already, they are read from it.
    checkpoint, listener
        As for `Seq2Seq.fit`.

    Returns
    -------
    Seq2Seq
        The student.

    Raises
    ------
    ValueError, TypeError
        If the teacher is no model of text, the student has other token types, or there is nothing to learn.

    References
    ----------
    Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network"; Kim and Rush 2016, "Sequence-Level
    Knowledge Distillation"; Sun et al. 2019, "Token-Level Ensemble Distillation for Grapheme-to-Phoneme Conversion";
    Tan et al. 2019, "Multilingual Neural Machine Translation with Knowledge Distillation".

    Examples
    --------
    >>> words = [x + y + z for x in "abd" for y in "ae" for z in "abd"]
    >>> options = {"source": "characters", "target": "tokens", "learning_rate": 0.01}
    >>> teacher = Seq2Seq(epochs=40, **options).fit(words, [" ".join(word.upper()) for word in words])
    >>> student = Seq2Seq(epochs=60, network={"decoder": 24}, **options)
    >>> distill(teacher, student, words).translate(["dab"])[0].text
    'D A B'
    """
    check_student(teacher, student)
    source, most = teacher.model.source, student.max_tokens
    given, validation = _pairs(teacher, pairs, "pairs"), None
    if valid is not None:
        validation = _pairs(teacher, valid, "valid")
    elif given:
        given, validation = hold_out(given, lambda pair: is_short(source, pair, most))
    read = [
        source.load(one, f"source {i}: ")
        for i, one in enumerate(as_examples("sources", sources, source.read), 1)
    ]
    held_out = {pair[0] for pair in validation or ()}
    chosen = answerable(teacher, (one for one in read if one not in held_out), most)
    made = label(
        teacher, learnable(teacher, given, most).kept, chosen.kept, n_best=n_best, top_k=top_k, path=labels
    )
    if validation is None:
        made, validation = made.split()
    for step in student.steps(made.pairs, validation, checkpoint=checkpoint, taught=made.taught):
        if listener is not None:
            listener(step)
    return student


def check_student(teacher: Translator, student: Seq2Seq) -> None:
    """Check that a teacher is a model of text, and that a student has its types of tokens."""
    for name, model, kind in (("teacher", teacher, Translator), ("student", student, Seq2Seq)):
        if not isinstance(model, kind):
            _check.fail(f"{name} must be a {kind.__name__}. Got {model!r:.60} instead.", kind=TypeError)
    if teacher.model.source.tokenizer is None:
        _check.fail(f"the teacher must be a model of text. Got one of {teacher.model.source.kind} instead.")
    options = token_options(teacher.model)
    for side in ("source", "target"):
        if getattr(student, side) != options[side]:
            _check.fail(
                f"the student must have the token types of the teacher. Its {side} is {getattr(student, side)!r:.60}, "
                f"that of the teacher {options[side]!r}.",
                hint=f"Seq2Seq(source={options['source']!r}, target={options['target']!r})",
            )


def _pairs(teacher: Translator, sides: Any, name: str) -> list[Pair]:
    """Read the pairs of an argument with the tokenizers of the teacher."""
    if sides is None:
        return []
    own = teacher.model.source, teacher.model.target
    return as_pairs(paired(*two_sides(sides, name), *own, f"the targets of {name}"), *own)


class Chosen(NamedTuple, Generic[Item]):
    """What a student can learn, and for each of the others the reason why not."""

    kept: list[Item]
    left_out: dict[Item, str]


def answerable(teacher: Translator, sources: Iterable[Example], longest: int) -> Chosen[Example]:
    """Return the sources that a teacher can answer, each once: with known tokens, as many as a student learns."""
    tokenizer, chosen = teacher.model.source_tokenizer, Chosen[Example]([], {})
    for one in dict.fromkeys(sources):
        if not 0 < len(one) <= longest:
            chosen.left_out[one] = f"{len(one)} tokens, and a student learns from 1 to {longest}"
        elif unknown := unseen(tokenizer, one.content):
            chosen.left_out[one] = f"the teacher does not know {unknown[0]!r:.40}"
        else:
            chosen.kept.append(one)
    return chosen


def learnable(teacher: Translator, pairs: Iterable[Pair], longest: int) -> Chosen[Pair]:
    """Return the pairs that a student learns from: with tokens that a teacher knows, not too many, on both sides."""
    sides, chosen = (teacher.model.source_tokenizer, teacher.model.target), Chosen[Pair]([], {})
    for pair in pairs:
        unknown = [
            token for side, one in zip(sides, pair, strict=True) for token in unseen(side, one.content)
        ]
        if not is_short(teacher.model.source, pair, longest):
            chosen.left_out[pair] = f"a student learns from 1 to {longest} tokens of each side"
        elif unknown:
            chosen.left_out[pair] = f"the teacher does not know {unknown[0]!r:.40}"
        else:
            chosen.kept.append(pair)
    return chosen


def label(
    teacher: Translator,
    pairs: Sequence[Pair],
    sources: Sequence[Example],
    *,
    n_best: int = 1,
    top_k: int = TOP_K,
    path: str | os.PathLike[str] | None = None,
    replace: bool = False,
    hint: str = "remove it, or give another path",
    progress: Progress | None = None,
) -> Labels:
    """Return pairs and the answers of a teacher to other sources, with the distributions of their tokens.

    Sources of the pairs are not answered. The labels are written to `path`, or read from it if it has the same; other
    labels there are an error, which ends with `hint`, unless they are to be replaced. `progress` is called with the
    number of pairs and sources done since its last call.
    """
    n_best, top_k = _check.integer("n_best", n_best, least=1), _check.integer("top_k", top_k, least=1)
    known, target = {pair[0] for pair in pairs}, teacher.model.target
    others = [one for one in sources if one not in known]
    if not (pairs or others):
        _check.fail("there must be sources that the teacher can answer, or pairs. Got none instead.")
    identity = labels_identity(teacher, pairs, others, (n_best, top_k))
    given, answers = sum(len(pair[1]) + 1 for pair in pairs), None
    if path is not None and Path(path).exists():
        answers = read_answers(path, (len(target), given, len(others)), identity)
        if answers is None and not replace:
            rule = f"{os.fspath(path)} has labels of other teachers, pairs, sources or options."
            _check.fail(rule, hint=hint)
    if answers is None:
        answers = _answered(teacher, pairs, others, n_best, top_k, progress)
        if path is not None:
            write_answers(path, answers, len(target), identity)
    own = [_answer(target, row) for row in answers.targets]
    both = [*pairs, *((others[i], one) for i, one in zip(answers.sources, own, strict=True))]
    ids = np.concatenate([[*target.encode(pair[1].content), END] for pair in both])
    soft = _rows(_agreeing(answers.soft, ids), [len(pair[1]) + 1 for pair in both])
    return Labels(both, TeacherTargets(teacher.model.source, target, soft))


def _answered(
    teacher: Translator,
    pairs: Sequence[Pair],
    sources: Sequence[Example],
    n_best: int,
    top_k: int,
    progress: Progress | None,
) -> Answers:
    """Let a teacher answer sources, and predict the tokens of pairs and of its answers."""
    targets: list[Row] = []
    numbers: list[int] = []
    soft: list[SoftTargets] = []
    for block in _blocks(pairs):
        soft += teacher.distributions(*zip(*block, strict=True), top_k=top_k)
        _report(progress, len(block))
    for number, asked in enumerate(_blocks(sources)):
        found = teacher.candidates(asked, beam=max(BEAM, n_best), n_best=n_best)
        kept = [
            (i, row)
            for i, answers in enumerate(found)
            for row in _learned(teacher, answers, n_best, len(asked[i]))
        ]
        own = [_answer(teacher.model.target, row) for _, row in kept]
        soft += teacher.distributions([asked[i] for i, _ in kept], own, top_k=top_k)
        targets += [row for _, row in kept]
        numbers += [number * _TOGETHER + i for i, _ in kept]
        _report(progress, len(asked))
    if not soft:
        _check.fail("the teacher must answer a source. All its answers are empty or were cut off.")
    return Answers(targets, numbers, SoftTargets(*map(np.concatenate, zip(*soft, strict=True))))


def _blocks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + _TOGETHER] for start in range(0, len(items), _TOGETHER))


def _report(progress: Progress | None, count: int) -> None:
    if progress is not None:
        progress(count)


def _learned(teacher: Translator, answers: Sequence[Translation], n_best: int, length: int) -> list[Row]:
    """Return the ids of the answers to a source of this length, each as often as it is learned.

    That is its share of `n_best`, as it is ranked by the teacher, and once at least for the best one.
    Empty answers, and those that the search cut off, are left out.
    """
    most = int(longest(np.array([length + 1]))[0])
    usable = [one for one in answers if 0 < len(one.ids) < most]
    counts = np.rint(n_best * np.array(teacher.shares(usable))).astype(int)
    counts[:1] = np.maximum(counts[:1], 1)
    return [one.ids for one, count in zip(usable, counts, strict=True) for _ in range(count)]


def _answer(target: Tokenizer, row: Row) -> Example:
    """Return an answer as an example."""
    tokens = tuple(target.tokens[i] for i in row)
    return Example(tokens, target.segmentation, target.detokenize(tokens))


def _agreeing(soft: SoftTargets, ids: Ids) -> SoftTargets:
    """Return distributions (N, K) whose most probable token is that of the target (N,): others are the target alone."""
    tokens, logs = (part.copy() for part in soft)
    wrong = tokens[:, 0] != ids
    tokens[wrong, 0], logs[wrong, 0], logs[wrong, 1:] = ids[wrong], 0, RAREST
    return SoftTargets(tokens, logs)


def _rows(soft: SoftTargets, lengths: Sequence[int]) -> list[SoftTargets]:
    """Return the distributions of each target."""
    ends = np.cumsum([0, *lengths]).tolist()
    return [SoftTargets(*(part[begin:end] for part in soft)) for begin, end in pairwise(ends)]


def labels_identity(
    teacher: Translator, pairs: Sequence[Pair], sources: Sequence[Example], options: tuple[int, ...]
) -> str:
    """Return a hash of what labels depend on."""
    model = teacher.model
    digest = hashlib.sha256(json.dumps([__version__, options, model.repetitions]).encode())
    networks: Any = model.network.networks if isinstance(model.network, EnsembleNetwork) else [model.network]
    for network in networks:
        digest.update(repr(network.config).encode())
        digest.update(network.parameters.flat.data)
    described = [model.source.settings(), (model.target.describe(), model.target.data())]
    described += [(extra.describe(), extra.data(model.sizes)) for extra in model.extras.values()]
    for settings, data in described:
        digest.update(json.dumps(settings, sort_keys=True).encode())
        for name in sorted(data):
            digest.update(name.encode())
            digest.update(data[name])
    for item in (*pairs, None, *sources):
        digest.update(repr(item).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()

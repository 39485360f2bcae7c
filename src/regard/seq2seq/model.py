"""A translator: what it learns from, translates with, and is kept in."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

import numpy as np

from regard import _check
from regard.seq2seq import defaults, files
from regard.seq2seq.batch import Corpus, Links, Numbered
from regard.seq2seq.joint import LONGEST, Joint
from regard.seq2seq.kinds import KINDS, SMALLEST, Text, count_tokens, learn
from regard.seq2seq.memory import Memory
from regard.seq2seq.network import FAMILIES, Network, build, describe
from regard.seq2seq.pairs import Pair, Side, as_pairs, paired
from regard.seq2seq.text import END, SPECIAL, START
from regard.seq2seq.tidy import as_normalization
from regard.seq2seq.training import State, Step, Training
from regard.seq2seq.translator import Translator, target_ids
from regard.seq2seq.ways import both_ways

__all__ = ["Seq2Seq", "go_on", "hold_out", "keep_aside"]

Given = TypeVar("Given")

CHECKPOINT_EVERY = 60.0  # seconds
_FEW = 20  # sources
_CHOICE = 1  # the seed of what is kept aside
_LOOKED_UP = 1024  # sources between two signs of progress


class Seq2Seq(Translator):
    """Learn to translate from sentence pairs, with an encoder-decoder and attention.

    Parameters
    ----------
    family : {"recurrent", "transformer"}
        Kind of network: Bahdanau's and Luong's, or Vaswani's.
    attention : bool
        False for a recurrent network without: its decoder sees only where the encoder ended.
    network : mapping, optional
        Options of the network, other than the defaults: fields of `regard.seq2seq.recurrent.Recurrent` or
        `regard.seq2seq.transformer.Transformer`, such as ``{"style": "luong", "score": "general"}``.
    source, target : {"words", "characters", "subwords", "tokens"}
        What a token is on either side; "tokens" are lists, or texts with spaces between tokens.
    vocabulary : int, optional
        The most tokens that either side knows.
    least : int, optional
        How often a token must come to be known; by default 3 for words from 5,000 pairs on, else 1. Subwords are
        frequent by themselves.
    lower : bool, optional
        Whether capitals are the same as small letters in the source; by default they are in words.
    normalization : {"NFC", "NFKC", "none"}
        Of Unicode text.
    memory : int
        How many of the pairs that it learned from, those most like a source, are looked up and read beside it; see
        `regard.seq2seq.memory`. 0 for none.
    both_ways : bool
        Whether it learns each target from its end, too, and takes those translations that are likely both ways; see
        `regard.seq2seq.ways`. An epoch reads twice as many pairs, and there are two searches.
    joint : int
        How many source tokens in a row are counted together with what they became, to rank what a beam finds by that,
        too: for targets that follow their source from left to right, as sounds follow letters; see
        `regard.seq2seq.joint`. 0 for none, 12 at most; 8 are plenty.
    max_tokens : int
        Longer pairs are left out of training.
    epochs : int, optional
        How often each pair is seen; by default 9, more if there are few pairs, 5 from 100,000 on.
    minutes : float, optional
        The longest time to train; `epochs` may end before, those of the default too.
    rate : float, optional
        Adam's largest rate.
    recipe : mapping, optional
        More about training, other than the defaults: fields of `regard.seq2seq.training.Recipe` that are not given
        already.
    seed : int, optional
        Of all chance, by default 1: the same seed, pairs and number of BLAS threads give the same model to the bit.

    Raises
    ------
    ValueError, TypeError
        If an option is not what it should be.

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
        source: str = "words",
        target: str = "words",
        vocabulary: int | None = None,
        least: int | None = None,
        lower: bool | None = None,
        normalization: str = "NFC",
        memory: int = 0,
        both_ways: bool = False,
        joint: int = 0,
        max_tokens: int = 50,
        epochs: int | None = None,
        minutes: float | None = None,
        rate: float | None = None,
        recipe: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        _check.choice("family", family, tuple(FAMILIES))
        for name, kind in (("source", source), ("target", target)):
            _check.choice(name, kind, KINDS)
        self.family, self.source, self.target = family, source, target
        self.network, self.recipe = _options("network", network), _options("recipe", recipe)
        self.network = {n: x.item() if isinstance(x, np.generic) else x for n, x in self.network.items()}
        if not _check.flag("attention", attention):
            if family != "recurrent":
                _check.fail("attention must be True for a transformer: it is made of attention.")
            if self.network.setdefault("score", "none") != "none":
                _check.fail(
                    f"score must not be given without attention. Got {self.network['score']!r} instead."
                )
        self.vocabulary, self.least = _known(vocabulary, least, (source, target))
        self.both_ways = _check.flag("both_ways", both_ways)
        self.lower = None if lower is None else _check.flag("lower", lower)
        self.normalization = as_normalization(normalization)
        self.memory = _check.whole("memory", memory)
        if self.memory and self.network.get("score") == "none":
            _check.fail(f"memory must be 0 without attention, which reads it. Got {memory} instead.")
        self.joint = _check.whole("joint", joint, most=LONGEST)
        self.max_tokens = _check.whole("max_tokens", max_tokens, least=1)
        self.epochs = None if epochs is None else _check.whole("epochs", epochs, least=1)
        self.minutes = None if minutes is None else _check.number("minutes", minutes, positive=True)
        self.rate = None if rate is None else _check.number("rate", rate, positive=True)
        for name, value in {"epochs": epochs, "minutes": minutes, "rate": rate, "seed": seed}.items():
            if value is not None and name in self.recipe:
                got = f"{value!r} and, in recipe, {self.recipe[name]!r}"
                _check.fail(f"{name} must be given once. Got {got} instead.")
        self.seed = _check.whole("seed", self.recipe.get("seed", 1) if seed is None else seed)
        defaults.check(self.family, self.network, self.recipe)
        self._model: files.Model[Network] | None = None

    @property
    def model(self) -> files.Model[Network]:
        """The network and the texts of its two sides."""
        if self._model is None:
            raise ValueError(
                "the model must be trained or loaded first: fit(sources, targets) or Seq2Seq.load(path)"
            )
        return self._model

    @property
    def attention(self) -> bool:
        """Whether there is an alignment to see."""
        return (
            self.network.get("score") != "none" if self._model is None else self.model.network.config.attends
        )

    def fit(
        self,
        sources: Sequence[Side],
        targets: Sequence[Side],
        *,
        valid: tuple[Sequence[Side], Sequence[Side]] | None = None,
        links: Sequence[Links] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        listener: Callable[[Step], object] | None = None,
    ) -> Self:
        """Learn from sentence pairs, from the beginning: what was learned or loaded before is forgotten.

        While it learns, BLAS keeps to one thread in this process if threadpoolctl is there to ask it (it comes with
        ``regard[cli]``), unless the environment says how many: each half of a batch has a thread of its own instead.

        Parameters
        ----------
        sources, targets : sequences of str, or of sequences of str
            As many on both sides: plain text, or tokens.
        valid : (sources, targets), optional
            What the best moment is chosen by; by default a part of the pairs is kept aside for it.
        links : sequence of frozensets of (int, int), optional
            For each pair which source token each target token should look at, as (source, target) from 0; an empty
            set where nobody knows. How much it counts is ``recipe={"guidance": ...}``, 1 by default.
        checkpoint : path, optional
            A file that keeps all there is to know, every minute. If it is there when training begins, training goes on
            from it, and ends, bit for bit, as if it had never stopped. At the end it is removed.
        listener : callable, optional
            Called with each `Step`.

        Returns
        -------
        Seq2Seq
            This model.

        Raises
        ------
        ValueError
            If the sides don't pair up, no pair is left to learn from or to validate with, or the checkpoint is of
            another training, or no file.
        OSError
            If there is no folder for the checkpoint, or it can't be written.
        regard.seq2seq.training.Diverged
            If the loss is no number any more; the model is the last good one then.
        """
        if listener is not None and not callable(listener):
            _check.fail(
                f"listener must be a function. Got {type(listener).__name__} instead.", kind=TypeError
            )
        pairs = paired(sources, targets, "targets")
        judged = None if valid is None else paired(*_two(valid), "the targets of valid")
        for step in self.steps(pairs, judged, links=links, checkpoint=checkpoint):
            if listener is not None:
                listener(step)
        return self

    def steps(
        self,
        pairs: Sequence[Pair],
        valid: Sequence[Pair] | None = None,
        *,
        links: Sequence[Links] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Generator[Step, None, None]:
        """Learn as `fit` does, and yield after every step.

        After a validation the model is the best so far, to be used or saved. Whoever stops asking for more has the best
        one too, and a checkpoint of where it was stopped if there is a place for one.

        Parameters
        ----------
        pairs, valid : sequence of (source, target)
            As for `fit`.
        links, checkpoint
            As for `fit`.

        Yields
        ------
        Step
            What the step came to.
        """
        place = None if checkpoint is None else _place(checkpoint)
        if place is not None and place.exists():  # what is none is told before the work
            read_checkpoint(place)
        before, training = self._model, self.begin(pairs, valid, links=links)
        if place is not None and place.exists():
            try:
                go_on(training, place)
            except ValueError:
                self._model = before  # of another training: nothing is lost
                raise
        yield from self._walk(training, place, keep=False)

    def run(
        self,
        training: Training,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        keep: bool = False,
    ) -> Generator[Step, None, None]:
        """Take the steps of a training that has begun.

        Parameters
        ----------
        training : Training
            What `begin` returned.
        checkpoint
            As for `fit`.
        keep : bool
            Whether the checkpoint stays at the end: going on from it ends at once, with the same model.

        Yields
        ------
        Step
            As `steps` does.
        """
        place = None if checkpoint is None else _place(checkpoint)
        if place is not None and place.exists():
            go_on(training, place)
        yield from self._walk(training, place, keep=keep)

    def _walk(self, training: Training, place: Path | None, *, keep: bool) -> Generator[Step, None, None]:
        """Take the steps that are left, with a checkpoint of them if there is a place for one."""
        written = time.monotonic()
        try:
            for step in training:
                if step.validation is None:
                    yield step
                else:
                    with training.at_best():
                        yield step
                if place is not None and time.monotonic() - written >= CHECKPOINT_EVERY:
                    files.write_checkpoint(place, training.state())
                    written = time.monotonic()
        except GeneratorExit:
            if place is not None:
                files.write_checkpoint(place, training.state())
            raise
        finally:
            training.rest()
        if place is not None and keep:
            files.write_checkpoint(place, training.state())
        elif place is not None:
            place.resolve().unlink(missing_ok=True)  # what was written, and not only a link to it
            place.unlink(missing_ok=True)

    def begin(
        self,
        pairs: Sequence[Pair],
        valid: Sequence[Pair] | None = None,
        *,
        links: Sequence[Links] | Callable[[Text, Text], Sequence[Links]] | None = None,
        looking_up: Callable[[int, int], object] | None = None,
    ) -> Training:
        """Learn the vocabularies and draw the network; what is left is to take the steps.

        Parameters
        ----------
        pairs, valid : sequence of (source, target)
            As for `fit`.
        links
            As for `fit`; or, where `valid` is given, a function that makes them of the two texts that were learned.
        looking_up : callable, optional
            With a memory, called with how many more sources were looked up, and how many there are.

        Returns
        -------
        Training
            Before its first step.
        """
        pairs = as_pairs(pairs)
        self._check_links(links, len(pairs))
        if valid is None:
            if callable(links):
                _check.fail("valid must be given where links is a function.")
            pairs, valid, links = keep_aside(pairs, links, self.fits)
        else:  # those with an empty side are not judged by
            valid = as_pairs(valid, skipped=lambda _: None)
        texts = self._learn(pairs)
        links = links(*texts) if callable(links) else links
        learned, judged = (
            self._corpus(texts, pairs, links, "training"),
            self._corpus(texts, valid, None, "validation"),
        )
        known = len(texts[0]) + (len(texts[1]) if self.memory else 0)
        sizes = len(learned), known, len(texts[1])
        asked = self._asked(learned)
        config = defaults.choose_config(self.family, *sizes, self.network, asked.get("minutes"))
        joint, memory = self._joint(learned, texts), None
        if self.memory:
            memory = Memory.learn(self.memory, map(_sides, learned))
            total = len(learned) + len(judged)

            def told(more: int) -> None:
                if looking_up is not None:
                    looking_up(more, total)

            learned, judged = (
                _with_memory(corpus, memory, len(texts[0]), told) for corpus in (learned, judged)
            )
        recipe = defaults.choose_recipe(config, learned, asked)
        network = build(config)
        self._model = files.Model(network, *texts, memory, self.both_ways, joint)
        counts = np.bincount(learned.target, minlength=len(texts[1]))
        counts[START] = 0
        network.draw(np.random.default_rng(self.seed), counts)
        if self.both_ways:
            learned, judged = Corpus(both_ways(learned)), Corpus(both_ways(judged))
        return Training(network, learned, judged, recipe, f"joint={self.joint}" if self.joint else "")

    def fits(self, pair: Pair) -> bool:
        """Whether both sides of a pair have between 1 and `max_tokens` tokens, as far as that is known before learning.

        Parameters
        ----------
        pair : (source, target)
            As for `fit`.

        Returns
        -------
        bool
            Of subwords, words are counted.

        Examples
        --------
        >>> Seq2Seq(max_tokens=2).fits(("two words", "and three words"))
        False
        """
        kinds = self.source, self.target
        counts = [
            count_tokens(kind, side, self.normalization) for kind, side in zip(kinds, pair, strict=True)
        ]
        return all(0 < number <= self.max_tokens for number in counts)

    def _joint(self, learned: Corpus, texts: tuple[Text, Text]) -> Joint | None:
        """Count how pairs are spelled, if that is asked for."""
        if not self.joint:
            return None
        return Joint.learn(self.joint, list(map(_sides, learned)), (len(texts[0]), len(texts[1])))

    def _check_links(self, links: Any, count: int) -> None:
        """Check that links, if they are given, go with this model and with so many pairs."""
        attends = self.network.get("score") != "none"  # not `attention`: that of what was learned before
        if links is None and self.recipe.get("guidance"):
            _check.fail("guidance must go with links, which it is about. Got no links instead.")
        if links is not None and not attends:
            _check.fail("links must not be given without attention, which learns them.")
        if links is not None and not callable(links):
            _check_links(links, count)

    def _asked(self, learned: Corpus) -> dict[str, Any]:
        """Return the fields of the recipe that somebody has chosen."""
        asked = {"epochs": self.epochs, "rate": self.rate, "minutes": self.minutes, "seed": self.seed}
        guided: dict[str, Any] = {"guidance": 1.0} if learned.links else {}
        return guided | {name: value for name, value in asked.items() if value is not None} | self.recipe

    def _learn(self, pairs: Sequence[Pair]) -> tuple[Text, Text]:
        """Learn how both sides are cut."""
        made = []
        for side, (name, kind) in enumerate((("source", self.source), ("target", self.target))):
            lower = (kind == "words" if self.lower is None else self.lower) if side == 0 else False
            least = defaults.choose_least(len(pairs), kind) if self.least is None else self.least
            size = self.vocabulary or (defaults.LARGEST_VOCABULARY if kind == "words" else None)
            made.append(
                learn(
                    kind,
                    (pair[side] for pair in pairs),
                    least=least,
                    size=size,
                    lower=lower,
                    normalization=self.normalization,
                )
            )
            if len(made[-1]) <= len(SPECIAL):
                _no_vocabulary(name, len(pairs), least)
        return made[0], made[1]

    def _corpus(
        self, texts: tuple[Text, Text], pairs: Sequence[Pair], links: Sequence[Links] | None, what: str
    ) -> Corpus:
        """Number the pairs that are neither empty nor too long."""

        def numbered() -> Iterator[Numbered]:
            for number, pair in enumerate(pairs):
                source, target = (text.cut(side) for text, side in zip(texts, pair, strict=True))
                if all(0 < len(side) <= self.max_tokens for side in (source, target)):
                    given = _fitting(links[number], source, target, number) if links else frozenset()
                    yield _number(texts, source, target, given)

        corpus = Corpus(numbered())
        if not len(corpus):
            given = f"{len(pairs)} pair{'s' * (len(pairs) != 1)}"
            raise ValueError(
                f"no {what} pair has between 1 and {self.max_tokens} tokens on both sides: {given} given"
            )
        return corpus

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model into one file; see `regard.seq2seq.files` for its format.

        Parameters
        ----------
        path : str or path
            Where to; an older file, that which a link points to, too, is replaced when the new one is whole.

        Raises
        ------
        OSError
            If it can't be written.
        ValueError
            If what is there is no file, but a folder, a pipe or a device.
        """
        files.write_model(path, self.model)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model from its file.

        Parameters
        ----------
        path : str or path
            A file that `save` wrote, or a stranger, or a folder that ``regard train`` has made.

        Returns
        -------
        Seq2Seq
            Ready to translate. `fit` would begin anew, with default options where the file doesn't say: how tokens are
            chosen, and how it was trained.

        Raises
        ------
        ValueError
            If it is no model file.
        OSError
            If it can't be read.
        """
        model = files.read_model(files.model_file(path))
        described, cut = describe(model.network.config), model.source.describe()
        named = {name: described.pop(name) for name in ("family", "source_words", "target_words")}
        loaded = cls(
            family=named["family"],
            network={
                name: value for name, value in described.items() if name not in model.network.config.idle
            },
            source=model.source.kind,
            target=model.target.kind,
            lower=cut["lower"],
            normalization=cut["normalization"],
            memory=model.memory.count if model.memory else 0,
            both_ways=model.both_ways,
            joint=model.joint.order if model.joint else 0,
        )
        loaded._model = model
        return loaded


def _options(name: str, given: Any) -> dict[str, Any]:
    """Return options by name, none where nobody has chosen any."""
    if not isinstance(given, Mapping | None):
        _check.fail(
            f"{name} must be a mapping from names to values. Got {given!r:.60} instead.", kind=TypeError
        )
    return dict(given or {})


def _place(checkpoint: str | os.PathLike[str]) -> Path:
    """Return where a checkpoint goes, if one can be written there."""
    folder = _check.replaceable(checkpoint).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder}", os.fspath(checkpoint))
    return Path(checkpoint)


def go_on(training: Training, place: Path, otherwise: str = "remove it to begin anew") -> None:
    """Go on from a checkpoint.

    Parameters
    ----------
    training : Training
        Before its first step.
    place : Path
        Of the checkpoint.
    otherwise : str
        What helps if it is none, or of another training.

    Raises
    ------
    ValueError
        Then.
    OSError
        If it can't be read.

    Examples
    --------
    >>> training = Seq2Seq(epochs=1).begin([("a", "b")], [("a", "b")])
    >>> go_on(training, Path("no-such-file"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    state = read_checkpoint(place, otherwise)
    try:
        training.go_on_from(state)
    except ValueError as error:
        raise ValueError(f"{place}: {error}; {otherwise}") from None


def read_checkpoint(place: Path, otherwise: str = "remove it to begin anew") -> State:
    """Read a checkpoint; a ValueError says what helps if it is none."""
    try:
        return files.read_checkpoint(place)
    except ValueError as error:
        raise ValueError(f"{error}; {otherwise}") from None


def _two(valid: Any) -> tuple[Sequence[Side], Sequence[Side]]:
    if not isinstance(valid, tuple | list) or len(valid) != 2:
        _check.fail(f"valid must be (sources, targets). Got {valid!r:.60} instead.", kind=TypeError)
    return valid[0], valid[1]


def _check_links(links: Any, count: int) -> None:
    """Check that there is a collection of pairs of numbers for each of so many pairs of sentences."""
    hint = "{(0, 0), (2, 1)}: whole numbers, both counted from 0"
    if isinstance(links, str) or not isinstance(links, Sequence):
        rule = f"links must be one set for each pair. Got {type(links).__name__} instead."
        _check.fail(rule, hint=hint, kind=TypeError)
    if len(links) != count:
        _check.fail(f"links must be one set for each of {count} pairs. Got {len(links)} instead.")
    for number, given in enumerate(links, 1):
        if not isinstance(given, Collection) or not all(map(_is_link, given)):
            rule = f"links must be sets of (source, target). Pair {number} has {given!r:.60} instead."
            _check.fail(rule, hint=hint, kind=TypeError)


def _is_link(link: Any) -> bool:
    return (
        isinstance(link, tuple)
        and len(link) == 2
        and all(isinstance(place, int | np.integer) for place in link)
    )


def _known(
    vocabulary: int | None, least: int | None, kinds: tuple[str, str]
) -> tuple[int | None, int | None]:
    """Check what decides which tokens are known."""
    if vocabulary is not None:
        vocabulary = _check.whole("vocabulary", vocabulary, max(SMALLEST[kind] for kind in kinds))
    if least is not None:
        least = _check.whole("least", least, least=1)
        if set(kinds) == {"subwords"}:
            _check.fail(
                f"least must not be given with subwords, which are frequent by themselves. Got {least} instead."
            )
    return vocabulary, least


def _no_vocabulary(name: str, count: int, least: int) -> NoReturn:
    """Say why there is no token to learn."""
    if least == 1:
        _check.fail(
            f"{name} must have tokens to learn: those of all {count} pairs are reserved names.",
            hint=f"{', '.join(SPECIAL)} stand for what every vocabulary has",
        )
    _check.fail(
        f"{name} must have tokens to learn: of {count} pairs none comes at least {least} times.",
        hint="least=1 learns them all",
    )


def _number(
    texts: tuple[Text, Text], source: Sequence[str], target: Sequence[str], links: Links = frozenset()
) -> Numbered:
    return Numbered([*texts[0].encode(source), END], target_ids(texts[1], target), links)


def _with_memory(corpus: Corpus, memory: Memory, known: int, told: Callable[[int], object]) -> Corpus:
    """Let other pairs' targets be read beside each source."""

    def extended() -> Iterator[Numbered]:
        for start in range(0, len(corpus), _LOOKED_UP):
            some = [corpus[number] for number in range(start, min(start + _LOOKED_UP, len(corpus)))]
            rows = memory.extended([_sides(pair)[0] for pair in some], known)
            yield from (pair._replace(source=row) for pair, row in zip(some, rows, strict=True))
            told(len(some))

    return Corpus(extended())


def _sides(pair: Numbered) -> tuple[list[int], list[int]]:
    """Return the numbers of a pair's own tokens."""
    return [int(token) for token in pair.source[:-1]], [int(token) for token in pair.target[1:-1]]


def _fitting(links: Links, source: Sequence[str], target: Sequence[str], number: int) -> Links:
    """Return a pair's links, if they are between tokens that it has."""
    for i, j in links:
        if not (0 <= i < len(source) and 0 <= j < len(target)):
            _check.fail(
                f"links must be between tokens of their pair. Pair {number + 1} has {len(source)} and {len(target)}; "
                f"got {(i, j)} instead."
            )
    return frozenset((int(i), int(j)) for i, j in links)  # NumPy's numbers are told otherwise


def keep_aside(
    pairs: Sequence[Pair],
    links: Sequence[Given] | None,
    fits: Callable[[Pair], bool] | None = None,
) -> tuple[list[Pair], list[Pair], Sequence[Given] | None]:
    """Keep some pairs aside as `hold_out` does, where there may be links to be kept beside the others.

    Parameters
    ----------
    pairs : sequence of (source, target)
        All there are.
    links : sequence, optional
        One for each, in whatever form.
    fits
        As for `hold_out`.

    Returns
    -------
    training, validation : list of (source, target)
        As from `hold_out`.
    links : sequence or None
        Those of the training pairs.

    Examples
    --------
    >>> pairs = [(str(i), "") for i in range(40)]
    >>> training, _, links = keep_aside(pairs, [frozenset({(i, i)}) for i in range(40)])
    >>> training[-1][0], links[-1]
    ('39', frozenset({(39, 39)}))
    """
    learned, judged = hold_out(pairs, fits)
    if links is None or len(learned) == len(pairs):
        return learned, judged, links
    aside = {_key(pair[0]) for pair in judged}
    kept = [given for pair, given in zip(pairs, links, strict=True) if _key(pair[0]) not in aside]
    return learned, judged, kept


def _key(source: Side) -> Any:
    return source if isinstance(source, str) else tuple(source)


def hold_out(
    pairs: Sequence[Pair], fits: Callable[[Pair], bool] | None = None
) -> tuple[list[Pair], list[Pair]]:
    """Keep some sources aside with all their pairs: a tenth, from 100 on ten, from 200 on a twentieth, 500 at most.

    Of fewer than 20 sources none can be missed. The choice is the same for every seed, so that models of several seeds
    learn the same words from the same pairs, and their losses can be compared.

    Parameters
    ----------
    pairs : sequence of (source, target)
        All there are.
    fits : callable, optional
        Says which pairs count: sources of others are neither counted nor kept aside.

    Returns
    -------
    training, validation : list of (source, target)
        No source is in both, unless there are too few to keep any aside: then both are all of them.

    Examples
    --------
    >>> training, validation = hold_out([(str(i), "") for i in range(40)])
    >>> len(training), len(validation)
    (36, 4)
    """
    sources = list(dict.fromkeys(_key(pair[0]) for pair in pairs if fits is None or fits(pair)))
    number = max(min(len(sources) // 10, 10), min(len(sources) // 20, 500))
    if len(sources) < _FEW:
        return list(pairs), list(pairs)
    aside = {sources[i] for i in np.random.default_rng(_CHOICE).permutation(len(sources))[:number]}
    return [p for p in pairs if _key(p[0]) not in aside], [p for p in pairs if _key(p[0]) in aside]

"""The pairs of a training: for training, validation and test, with their links; and the identity of the training."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from regard import _check
from regard.commands.columns import check_one_file
from regard.commands.examples import load_pairs
from regard.commands.link_files import LineLinks, LinkFile, PairLinks, SkippedPairs, read_links
from regard.commands.train.dictionary import (
    BY_PRESET,
    MOST_TESTED,
    dictionary_pairs,
    naming_dictionary,
)
from regard.commands.train.notices import notices
from regard.pronunciation import Lexicon
from regard.pronunciation.files import load
from regard.seq2seq.corpus.dataset import is_short
from regard.seq2seq.corpus.pairs import Pair, read_pairs, read_two
from regard.seq2seq.corpus.splits import Groups, hold_out, split_validation
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.families import FAMILIES
from regard.seq2seq.networks.options import first_names
from regard.seq2seq.sources import Example
from regard.show.terminal.text import note

__all__ = ["Data", "PairFiles", "identity", "read", "short_pairs", "with_noun"]


def with_noun(count: int, noun: str) -> str:
    """Return a number with its noun in singular or plural."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


class PairFiles(NamedTuple):
    """The files of the pairs, one or two for each use, and how they are read."""

    train: Sequence[str]
    valid: Sequence[str] | None
    test: Sequence[str] | None
    columns: Sequence[str] | None = None
    skip_empty: bool = False
    links: LinkFile | None = None
    dictionary: Callable[[tuple[str, ...]], Lexicon] | None = None  # reads files, if they are dictionaries
    groups: Groups | None = None  # of sources that are held out together

    @property
    def lexicon(self) -> Lexicon | None:
        """The words of the training with their pronunciations; None for pairs."""
        return None if self.dictionary is None else self.dictionary(tuple(self.train))

    @property
    def tested(self) -> str:
        """The first file of the test pairs."""
        return (self.test or self.valid or self.train)[0]


@dataclass(frozen=True)
class Data:
    """The pairs for training, validation and test, and the links of the training pairs."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    links: PairLinks | None = None
    own_valid: bool = False  # whether validation pairs were given
    own_test: bool = False  # whether the test pairs are not the validation pairs
    lexicon: Lexicon | None = None  # the dictionary of which the pairs are
    tested: str = ""  # the first file of the test pairs
    split: str = ""  # how the test words of a dictionary were chosen: by "family", "word" or "file"
    files: Sequence[
        dict[str, str]
    ] = ()  # names and hashes of the dictionaries, as they were before the training

    @property
    def too_few(self) -> bool:
        """Whether there are too few pairs to hold some out."""
        return not self.own_valid and self.valid == self.train

    @cached_property
    def _learned(self) -> set[Hashable]:
        """The sources that a model learns, and what they were read from."""
        return {one for source, _ in self.train for one in (source, source.identity)}

    def has_learned(self, source: Example) -> bool:
        """Return whether a source, which may be split into other tokens, is one of training."""
        return source in self._learned or source.identity in self._learned

    def learned(self, pairs: Sequence[Pair]) -> int:
        """Return how many pairs are training pairs."""
        known = {(str(source), str(target)) for source, target in self.train}
        return sum((str(source), str(target)) in known for source, target in pairs)


def read(files: PairFiles, model: Seq2Seq, longest: int) -> Data:
    """Read the pairs and links for a model; `longest` is the most tokens of a side in training.

    Of a dictionary, words are held out for a test if no other pairs are given, so that they have not chosen the model.
    """
    skipped = SkippedPairs()
    train = _pairs(files.train, "PAIRS", files, skipped, model)
    for line in notices(train, model) if files.dictionary is None else ():
        note(line)
    lines: Sequence[LineLinks] | None = None
    if files.links:
        lines = read_links(files.links, skipped.lines, len(train))
    test, given = None, bool(files.valid or files.test)
    if files.dictionary and not given:
        train, test = hold_out(train, model.fits, most=MOST_TESTED, groups=files.groups)
    if files.valid:
        valid = _pairs(files.valid, "--valid", files, skipped, model)
    else:
        train, valid, lines = split_validation(train, lines, model.fits, files.groups)
    if files.test:
        test = _pairs(files.test, "--test", files, skipped, model)
    test = valid if test is None else test
    if skipped.count:
        note(f"{with_noun(skipped.count, 'pair')} left out: {skipped.first}")
    links = None
    if files.links and lines is not None:
        links = PairLinks(files.links, lines, longest)
    return Data(
        train,
        valid,
        test,
        links,
        own_valid=files.valid is not None,
        own_test=test != valid,
        lexicon=files.lexicon,
        tested=files.tested,
        split="file" if given else "word" if files.groups is None else "family",
        files=[*map(_hashed, files.train)] if files.dictionary else (),
    )


def _hashed(path: str) -> dict[str, str]:
    """Return the name and the hash of a file."""
    return {"name": Path(path).name, "sha256": hashlib.sha256(load(path)).hexdigest()}


def _pairs(
    paths: Sequence[str], name: str, files: PairFiles, skipped: SkippedPairs, model: Seq2Seq
) -> list[Pair]:
    """Read pairs from one file of pairs, or from a source and a target file; and the files that sources name."""
    if files.dictionary:
        return dictionary_pairs(files.dictionary(tuple(paths)), model)
    if len(paths) > 2:
        rule = f"{name}: must be one file of pairs, or a source and a target file."
        _check.fail(f"{rule} Got {len(paths)} files instead.")
    check_one_file(files.columns, paths, name)
    on_skipped = skipped.add if files.skip_empty else None
    lines = array("Q")
    if len(paths) == 2:
        pairs = read_two(*paths, skipped=on_skipped, kept=lines.append)
    else:
        with naming_dictionary(Path(paths[0]), BY_PRESET):
            pairs = read_pairs(paths[0], skipped=on_skipped, kept=lines.append, columns=files.columns)
    return load_pairs(pairs, model, paths[0], lines)


def short_pairs(model: Seq2Seq, pairs: Sequence[Pair], longest: int) -> list[Pair]:
    """Return the pairs that have between 1 and `longest` tokens on each side that has tokens, as a model reads them."""
    source, target = model.model.source, model.model.target
    read = [(source.load(one), target.read(two)) for one, two in pairs]
    return [pair for pair in read if is_short(source, pair, longest)]


def identity(model: Seq2Seq, data: Data) -> str:
    """Return a hash of a model's configuration, by first names of options, and of the pairs with their links."""
    options = {n: x for n, x in vars(model).items() if not n.startswith("_") and x not in (None, {})}
    options["training"] = first_names(model.training, model.training.given())
    if network := options.pop("network_options", None):
        options["network"] = first_names(FAMILIES[model.family].config, network)
    links = (
        [] if data.links is None else [data.links.file.by, *(sorted(line.links) for line in data.links.lines)]
    )
    digest = hashlib.sha256(json.dumps(options, sort_keys=True, default=repr).encode())
    parts: list[list[Any]] = [
        [tuple(side.identity for side in pair) for pair in part] for part in (data.train, data.valid)
    ]
    for part in (*parts, links):
        for item in part:
            digest.update(repr(item).encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()

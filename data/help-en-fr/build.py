"""Build train.tsv.gz, valid.tsv.gz and test.tsv.gz from LibreOffice's help, English and French.

    python build.py                 download the two Debian packages through apt, write the three files here
    python build.py --debs FOLDER   the same from packages that are already in FOLDER
    python build.py --measure       how near the held-out sentences are to the training sentences

Needs Python 3.11 and, unless --debs is given, apt; unpacking needs dpkg-deb. No root. The result is the same
to the byte on every run.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
import subprocess
import sys
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from math import inf, log
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
VERSION = "4:7.4.7-1+deb12u14"
MAX_TOKENS = 15
HELD_OUT_PERCENT = {"test": 9, "valid": 5}  # of the help pages; the rest is train


class Package(NamedTuple):
    name: str
    sha256: str
    folder: str


PACKAGES = (
    Package(
        "libreoffice-help-en-us",
        "8faa840285734d6cfe1ed25537b48f07e74bd6412e3917bf8e5f8a653f7b3712",
        "en-US",
    ),
    Package(
        "libreoffice-help-fr",
        "c796530d3e95af1ea4d054076682efc8aad2b569ae9513f3d4a776b2df3fd206",
        "fr",
    ),
)


class Pair(NamedTuple):
    source: str
    target: str


# ---------------------------------------------------------------- the packages


def download(folder: Path) -> None:
    """Fetch the pinned packages into `folder` with apt, which needs no root for this."""
    for package in PACKAGES:
        command = ["apt-get", "download", f"{package.name}={VERSION}"]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)


def unpack(package: Package, folder: Path, into: Path) -> Path:
    """Check one package against its hash, unpack it and return the folder of its help pages."""
    matches = sorted(folder.glob(f"{package.name}_*.deb"))
    if len(matches) != 1:
        raise SystemExit(f"build.py: {len(matches)} packages named {package.name}_*.deb, need exactly one")
    digest = hashlib.sha256(matches[0].read_bytes()).hexdigest()
    if digest != package.sha256:
        raise SystemExit(f"build.py: {matches[0].name} has sha256 {digest}, need {package.sha256}")
    subprocess.run(["dpkg-deb", "-x", str(matches[0]), str(into)], check=True)
    return into / "usr/share/libreoffice/help" / package.folder / "text"


# ---------------------------------------------------------------- pages to paragraphs


@dataclass
class Paragraphs(HTMLParser):
    """Collects the text of every <p> and heading that has an id `par_...` or `hd_...`, in order."""

    texts: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: tuple[str, str] | None = None  # tag and id of the paragraph being read
        self._text: list[str] = []
        self._spans: list[bool] = []  # for every open span: is it text for another system?

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        identity = attributes.get("id") or ""
        if tag == "span":
            self._spans.append("hidden" in attributes and not identity.startswith("default"))
        elif tag == "br":
            self._text.append(" ")
        elif re.fullmatch(r"p|h[1-6]", tag) and identity.startswith(("par_", "hd_")):
            self._open, self._text, self._spans = (tag, identity), [], []

    def handle_endtag(self, tag: str) -> None:
        if tag == "span" and self._spans:
            self._spans.pop()
        elif self._open and tag == self._open[0]:
            self.texts.append((self._open[1], "".join(self._text)))
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open and not any(self._spans):
            self._text.append(data)


def paragraphs(page: Path) -> dict[tuple[str, int], str]:
    """The paragraphs of one page by (id, how many times that id came before)."""
    parser = Paragraphs()
    parser.feed(page.read_text(encoding="utf-8"))
    parser.close()
    occurrences: Counter[str] = Counter()
    result = {}
    for identity, text in parser.texts:
        result[identity, occurrences[identity]] = tidy(text)
        occurrences[identity] += 1
    return result


def tidy(text: str) -> str:
    """NFC and single ordinary spaces: no-break ones are rare in these pages, and no rule says where."""
    text = unicodedata.normalize("NFC", text).replace("\u2011", "-")
    text = re.sub(r"[\u00ad\u200b-\u200f\u2060\ufeff]", "", text)
    return " ".join(text.split())


# ---------------------------------------------------------------- paragraphs to sentences

SENTENCE_END = re.compile(
    r"(?<![ .(]\w[.])(?<!\betc\.)(?<!\b[Ee]x\.)(?<!\be\.g\.)(?<!\bi\.e\.)"  # initials and abbreviations
    r"(?:(?<=[.!?])|(?<=[.!?][\"”)»]))[ ](?=(?:[\"“(]|« ?)?[A-ZÀ-ÝŒ0-9])"
)


def sentences(text: str) -> list[str]:
    return [part for part in SENTENCE_END.split(text) if part]


STEPS = {(1, 1): 0.0, (1, 2): 1.6, (2, 1): 1.6, (1, 0): 3.5, (0, 1): 3.5}


def mismatch(source: list[str], target: list[str]) -> float:
    """How unlikely two groups are to be translations, from their lengths: French is a fifth longer."""
    if not source or not target:
        return 0.0
    n, m = (sum(map(len, group)) + 3 for group in (source, target))
    return 3.0 * abs(log(m / (1.2 * n)))


def align(source: list[str], target: list[str]) -> Iterator[Pair]:
    """Pair the sentences of two paragraphs, in order, at the lowest total cost; yield the one-to-one pairs."""
    best: dict[tuple[int, int], tuple[float, tuple[int, int]]] = {(0, 0): (0.0, (0, 0))}
    for i in range(len(source) + 1):
        for j in range(len(target) + 1):
            for (di, dj), price in STEPS.items():
                if (i - di, j - dj) in best:
                    cost = best[i - di, j - dj][0] + price + mismatch(source[i - di : i], target[j - dj : j])
                    if cost < best.get((i, j), (inf,))[0]:
                        best[i, j] = cost, (di, dj)
    i, j = len(source), len(target)
    backwards = []
    while i or j:
        di, dj = best[i, j][1]
        if (di, dj) == (1, 1):
            backwards.append(Pair(source[i - 1], target[j - 1]))
        i, j = i - di, j - dj
    yield from reversed(backwards)


# ---------------------------------------------------------------- which pairs to keep

TOKEN = re.compile(r"\w+(?:-\w+)*(?:['’](?=\w))?|[\u00a0\u202f]?[^\w\s][\u00a0\u202f]?|[\u00a0\u202f]")


def tokens(text: str) -> list[str]:
    """Words (hyphens inside, an elided `l'` on its own) and single signs, as regard's text module cuts them."""
    return TOKEN.findall(text)


def letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def is_good(pair: Pair, longest: int = MAX_TOKENS) -> bool:
    """Two short texts in two languages, neither much longer than the other, mostly letters."""
    sizes = [len(tokens(text)) for text in pair]
    return (
        all(1 <= size <= longest for size in sizes)
        and max(sizes) <= 2 * min(sizes) + 3
        and pair.source.casefold() != pair.target.casefold()
        and all("\t" not in text and letters(text) >= 3 and 2 * letters(text) >= len(text) for text in pair)
    )


def same_text(text: str) -> str:
    """What two sentences share when they differ only in case, digits, signs or spaces."""
    return " ".join(re.findall(r"[^\W_]+", re.sub(r"\d+", "0", text.casefold())))


def split_of(page: str) -> str:
    """Every help page belongs to one split, by a hash of its name."""
    percent = int.from_bytes(hashlib.sha256(page.encode()).digest()[:4], "big") % 100
    for name, share in HELD_OUT_PERCENT.items():
        if percent < share:
            return name
        percent -= share
    return "train"


def one_target_each(pairs: Iterable[Pair]) -> list[Pair]:
    """For every source the target it has most often (the first such on a tie), in order of first sight."""
    targets: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        targets[pair.source][pair.target] += 1
    return [Pair(source, counts.most_common(1)[0][0]) for source, counts in targets.items()]


def collect(source_root: Path, target_root: Path, longest: int = MAX_TOKENS) -> dict[str, list[Pair]]:
    """The pairs of every split, before the splits are compared; a pair has at most `longest` tokens on a side."""
    splits: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    for source_page in sorted(source_root.rglob("*.html")):
        name = source_page.relative_to(source_root).as_posix()
        if (target_page := target_root / name).exists():
            pairs = page_pairs(source_page, target_page)
            splits[split_of(name)] += (pair for pair in pairs if is_good(pair, longest))
    return {name: one_target_each(pairs) for name, pairs in splits.items()}


def page_pairs(source_page: Path, target_page: Path) -> Iterator[Pair]:
    translated = paragraphs(target_page)
    for key, text in paragraphs(source_page).items():
        yield from align(sentences(text), sentences(translated.get(key, "")))


def without(pairs: list[Pair], taken: Iterable[Pair]) -> list[Pair]:
    """`pairs` without those whose source is, up to `same_text`, among `taken` or came before."""
    keys = {same_text(pair.source) for pair in taken}
    remaining = []
    for pair in pairs:
        if (key := same_text(pair.source)) not in keys:
            keys.add(key)
            remaining.append(pair)
    return remaining


def separate(splits: dict[str, list[Pair]]) -> dict[str, list[Pair]]:
    """Take from the held-out splits every sentence that train has, and from valid those that test has."""
    test = without(splits["test"], splits["train"])
    valid = without(splits["valid"], splits["train"] + test)
    return {"train": splits["train"], "valid": valid, "test": test}


# ---------------------------------------------------------------- files


def write(path: Path, pairs: list[Pair]) -> None:
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    path.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0))


def read(path: Path) -> list[Pair]:
    lines = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")[:-1]
    return [Pair(*line.split("\t")) for line in lines]


def build(debs: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = (unpack(package, debs, Path(folder)) for package in PACKAGES)
        splits = separate(collect(source, target))
    for name, pairs in splits.items():
        write(HERE / f"{name}.tsv.gz", pairs)


def report() -> None:
    """Print how large the three files are."""
    for name in ("train", "valid", "test"):
        path = HERE / f"{name}.tsv.gz"
        pairs = read(path)
        short = sum(map(is_short, pairs))
        print(
            f"{name:5}  {len(pairs):6,} pairs, {short:6,} of at most 12 tokens, {path.stat().st_size:8,} bytes"
        )


# ---------------------------------------------------------------- how near is held-out text to training text


def within_two_edits(left: list[str], right: list[str]) -> bool:
    """Can at most two insertions, deletions or replacements of words turn `left` into `right`?"""
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    return edits(left, right, 2)


def edits(left: list[str], right: list[str], allowed: int) -> bool:
    if allowed < abs(len(left) - len(right)):
        return False
    if not left or not right:
        return True
    if left[0] == right[0]:
        return edits(left[1:], right[1:], allowed)
    if allowed == 0:
        return False
    choices = ((left[1:], right[1:]), (left[1:], right), (left, right[1:]))
    return any(edits(a, b, allowed - 1) for a, b in choices)


def is_short(pair: Pair) -> bool:
    return all(len(tokens(text)) <= 12 for text in pair)


def measure() -> None:
    """Print the share of held-out sources within two word edits of a training source."""
    known: defaultdict[int, list[tuple[set[str], list[str]]]] = defaultdict(list)
    for pair in read(HERE / "train.tsv.gz"):
        words = tokens(pair.source)
        known[len(words)].append((set(words), words))

    def is_near(words: list[str]) -> bool:
        others = (other for k in range(-2, 3) for other in known[len(words) + k])
        least = len(set(words)) - 2  # two edits change at most two different words
        return any(
            len(bag.intersection(words)) >= least and within_two_edits(words, other) for bag, other in others
        )

    for name in ("valid", "test"):
        sources = [tokens(pair.source) for pair in read(HERE / f"{name}.tsv.gz") if is_short(pair)]
        for least in (1, 4):
            selected = [words for words in sources if len(words) >= least]
            share = sum(map(is_near, selected)) / len(selected)
            print(f"{name:5}  {share:.0%} of {len(selected):,} pairs, {least} to 12 tokens")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--debs", type=Path, help="a folder that already has the two packages")
    parser.add_argument("--measure", action="store_true", help="only measure the files that are here")
    arguments = parser.parse_args()
    if arguments.measure:
        return measure()
    if arguments.debs:
        build(arguments.debs)
    else:
        with tempfile.TemporaryDirectory() as folder:
            download(Path(folder))
            build(Path(folder))
    report()


if __name__ == "__main__":
    main()

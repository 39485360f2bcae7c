"""The formats of dictionaries: a row each, and how one is recognised."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from regard import _check
from regard._lines import utf_8
from regard_lexicon import lines, misaki, sherpa
from regard_lexicon.files import Path, load, text_lines
from regard_lexicon.lexicon import InvalidEntry, Lexicon, Variant
from regard_lexicon.lines import Entries

__all__ = ["FORMATS", "Format", "recognise"]


class Format(NamedTuple):
    """A format of dictionaries: how its files are read and written, and what its readers cannot find.

    `description` is for the help. `records` yields what stands for an entry in a file, with its place, `parse` returns
    the entries of it, and `write` the bytes of a file. `spelling` returns how the file writes a word, and `refusal` why
    an entry cannot be written, or an empty text. Of each word `variants` are written: all, the best one, or one of each
    role. `needs_symbols` is whether the voice's symbols must be known.
    """

    description: str
    records: Callable[[Path], Iterator[tuple[str, Any]]]
    parse: Callable[[Any], Entries]
    write: Callable[[Lexicon], bytes]
    spelling: Callable[[str], str] = str
    refusal: Callable[[str, Variant], str] = lines.tsv_refusal
    variants: Literal["all", "one", "one of each role"] = "all"
    needs_symbols: bool = False


def _lines(path: Path) -> Iterator[tuple[str, str | InvalidEntry]]:
    """Yield the lines of a file that are not empty, or why one cannot be read."""
    errors: dict[int, str] = {}
    for number, line in text_lines(path, errors):
        yield f"line {number}", InvalidEntry(errors.pop(number)) if number in errors else line


def _line_parser(parse: Callable[[str], Entries]) -> Callable[[str | InvalidEntry], Entries]:
    """Return a parser of lines that refuses those that cannot be read."""

    def parse_line(line: str | InvalidEntry) -> Entries:
        if isinstance(line, InvalidEntry):
            raise line
        return parse(line)

    return parse_line


def _of_lines(
    description: str,
    parse: Callable[[str], Entries],
    write: Callable[[Lexicon], bytes],
    **options: Any,
) -> Format:
    """Return a format with one entry a line."""
    return Format(description, _lines, _line_parser(parse), write, **options)


def _voice(
    name: str,
    write: Callable[[Lexicon], bytes],
    spelling: Callable[[str], str],
    refusal: Callable[[str, Variant], str],
) -> Format:
    """Return the format of a kind of voice of sherpa-onnx."""
    return _of_lines(
        f"lexicon.txt for {name} in sherpa-onnx",
        lines.parse_kaldi,
        write,
        spelling=spelling,
        refusal=refusal,
        variants="one",
        needs_symbols=True,
    )


FORMATS: dict[str, Format] = {
    "cmudict": _of_lines(
        "CMUdict, of cmusphinx or 0.7b: word(2) P1 P2 # note",
        lines.parse_cmudict,
        lines.write_cmudict,
        refusal=lines.cmudict_refusal,
    ),
    "mfa": _of_lines(
        "Montreal Forced Aligner: word, probability, phones; reads Kaldi's lexiconp.txt, too",
        lines.parse_mfa,
        lines.write_mfa,
        spelling=lines.mfa_spelling,
        refusal=lines.mfa_refusal,
    ),
    "kaldi": _of_lines(
        "Kaldi's lexicon.txt: word phones",
        lines.parse_kaldi,
        lines.write_kaldi,
        refusal=lines.kaldi_refusal,
    ),
    "phonetisaurus": _of_lines(
        "Phonetisaurus: word, tab, phones",
        lines.parse_tsv,
        lines.write_tsv,
        refusal=lines.phonetisaurus_refusal,
    ),
    "tsv": _of_lines("word, tab, phones; a word may contain blanks", lines.parse_tsv, lines.write_tsv),
    "misaki": Format(
        "misaki's JSON: a character is a phone",
        lambda path: misaki.items(load(path)),
        misaki.parse_item,
        misaki.write,
        refusal=misaki.refusal,
        variants="one of each role",
    ),
    "sherpa-vits": _voice("VITS", sherpa.write_vits, sherpa.ascii_spelling, sherpa.latin_refusal),
    "sherpa-kokoro": _voice("Kokoro", sherpa.write_both, sherpa.unicode_spelling, sherpa.unicode_refusal),
    "sherpa-kitten": _voice("Kitten", sherpa.write_both, sherpa.unicode_spelling, sherpa.unicode_refusal),
    "sherpa-matcha": _voice("Matcha", sherpa.write, sherpa.latin_spelling, sherpa.latin_refusal),
}

_HINT = "name the format: regard lexicon FILE --from FORMAT --format tsv --out FILE.tsv converts it; in Python, format="
_JSON = re.compile(rb'\{([\s"}]|$)')  # a word of a list may begin with a brace, too: {LG}
_NUMBERED = re.compile(r"^([^\s]+)\(([0-9]+)\)[ \t]", re.MULTILINE)
_COMMENT = re.compile(r"^(?:;;;|[^\t\n]* #(?= |$))(.*)", re.MULTILINE)
_NO_PHONES = 2  # in a comment: the phones of an entry stand in others, too
# A word with a blank, a tab and phones: a tab before a note is none.
_PHRASE = re.compile(r"^(?!;;;)[^ \t\n]+ +[^ \t\n#][^\t\n#]*\t[ \t]*[^ \t\n#].*", re.MULTILINE)
_TWO_BLANKS = re.compile(r"[^\s]+  [^\s]")
_START = 1 << 16  # bytes that show whether a file is JSON
_LOOKED_AT = 10_000  # lines, at equal distances
_NEARLY_ALL = 0.9  # of the lines: the others are errors


def recognise(path: Path) -> str:
    """Return the name of the format of a file, by its content."""
    start = next(utf_8([load(path, _START)], "the text")).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        _check.fail("the file is empty")
    if _JSON.match(start):
        return "misaki"
    errors: dict[int, str] = {}
    lines = [line for _, line in text_lines(path, errors) if line]
    if len(errors) > len(lines):
        number, error = next(iter(errors.items()))
        _check.fail(f"most of its lines cannot be read. Line {number}: {error}")
    return _recognise_lines(lines)


def _recognise_lines(found: list[str]) -> str:
    """Return the format of lines, or raise an error that names those that it may be."""
    text = "\n".join(found)
    seen = found[:: len(found) // _LOOKED_AT + 1]
    if _NUMBERED.search(text) or _COMMENT.search(text):
        return _numbered(text, found, seen)
    if _share(len(line.split()) > 1 for line in seen) < 1 - _NEARLY_ALL:
        _check.fail("it is no dictionary: its lines are single words, without phones", hint=_HINT)
    tabs = _share("\t" in line for line in seen)
    if 1 - _NEARLY_ALL < tabs < _NEARLY_ALL:
        _check.fail(f"{tabs:.0%} of its lines have tabs: it may be 'tsv' or 'kaldi'", hint=_HINT)
    return _with_numbers([_second(line, tab=tabs > 0.5) for line in seen], "tsv" if tabs > 0.5 else "kaldi")


def _numbered(text: str, found: list[str], seen: list[str]) -> str:
    """Return the format of lines with comments or numbered words, unless something else is possible, too."""
    numbers = _share(lines.NUMBER.fullmatch(_second(line, tab="\t" in line)) is not None for line in seen)
    if phrase := _PHRASE.search(text):
        what, other = (
            f"{phrase[0]!r:.60} has a blank before its tab, and words have numbers or comments",
            "tsv",
        )
    elif numbers >= _NEARLY_ALL:
        what = "its words are followed by numbers, and have numbers or comments"
        other = "mfa"
    elif _has_variants(text, found) or _has_notes(text, found):
        return "cmudict"
    else:
        example = _NUMBERED.search(text) or _COMMENT.search(text)
        what = (
            f"{example and example[0].strip()!r:.60} may be a word, or a comment or the number of a variant"
        )
        other = "tsv" if "\t" in text else "kaldi"
    _check.fail(f"{what}: it may be 'cmudict' or {other!r}", hint=_HINT)


def _has_variants(text: str, found: list[str]) -> bool:
    """Return whether a word with a number is listed without it, too, or with another one."""
    numbered = [*dict.fromkeys(match.groups() for match in _NUMBERED.finditer(text))]
    words = Counter(word for word, _ in numbered)
    return any(count > 1 for count in words.values()) or any(line.split()[0] in words for line in found)


def _has_notes(text: str, found: list[str]) -> bool:
    """Return whether a comment cannot be the phones of a word, or two blanks follow each word as in CMUdict 0.7b."""
    entries = [line for line in found if not _COMMENT.match(line)]
    phones = {phone for line in entries for phone in line.split()[1:]}
    notes = [match[1].split() for match in _COMMENT.finditer(text)]
    if any(not note or len({*note} - phones) >= _NO_PHONES for note in notes):
        return True
    return bool(entries) and all(_TWO_BLANKS.match(line) for line in entries)


def _with_numbers(seconds: list[str], plain: str) -> str:
    """Return which of two formats it is: that with phones only, or that with a probability before them."""
    numbers = _share(lines.NUMBER.fullmatch(second) is not None for second in seconds)
    if not numbers:
        return plain
    if numbers >= _NEARLY_ALL and any(not second.isdecimal() for second in seconds):
        return "mfa"
    _check.fail(
        f"{numbers:.0%} of its words are followed by a number, which may be a probability or a phone:"
        f" it may be {plain!r} or 'mfa'",
        hint=_HINT,
    )


def _second(line: str, *, tab: bool) -> str:
    """Return what follows the word, up to the next blank, if something follows it."""
    rest = line.partition("\t")[2] if tab else line
    parts = rest.split(maxsplit=2)
    return parts[0 if tab else 1] if len(parts) > (1 if tab else 2) else ""


def _share(values: Iterable[bool]) -> float:
    """Return the share of values that are true; 0 of none."""
    given = [*values]
    return sum(given) / len(given) if given else 0.0

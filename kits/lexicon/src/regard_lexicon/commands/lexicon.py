"""The verb `lexicon`: describe pronunciation dictionaries, or write them in another format."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from regard import _check
from regard.commands import argument_types
from regard.commands.options import check_needs, check_outputs
from regard.show.terminal.text import clean, note
from regard_lexicon import FORMATS, Lexicon, Prepared, prepare, read, read_phone_map, read_symbols
from regard_lexicon.arpabet import MAPS
from regard_lexicon.ipa import PHONES, Phones
from regard_lexicon.lines import COMMENTS, NOTE
from regard_lexicon.preparing import saved_files
from regard_lexicon.stress import STRESS, Stress, stressed
from regard_lexicon.symbols import PhoneMap, Replacements

__all__ = [
    "add_input",
    "add_arguments",
    "add_output",
    "add_phones",
    "add_reading",
    "check_output",
    "joined",
    "note_left_out",
    "prepared",
    "run",
    "saved",
]

_WHOLE = re.compile(r"^[/\[]|[,/\]]$")  # of a pronunciation in IPA, one of several of its entry
_FEWEST = 3  # entries of which something can be said
_SHOWN = 5  # lines that are skipped, reasons why words are left out
_OF_LINES = ("cmudict", "mfa", "kaldi", "phonetisaurus", "tsv")
_HEADERS = {("word", name) for name in ("phones", "phonemes", "pronunciation")}

EXAMPLES = """\
formats, recognised from the content of a file:
{}

examples:
  regard lexicon words.dict                                             what it contains
  regard lexicon words.dict --format mfa --stress drop --out mfa.dict
  regard lexicon words.dict --format sherpa-kokoro --symbols tokens.txt --phone-map map.tsv --out lexicon.txt
  regard lexicon mine.tsv words.dict --format misaki --out words.json   the variants of the first file come first
""".format("\n".join(f"  {name:<16}{row.description}" for name, row in FORMATS.items()))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `regard lexicon`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Describe a pronunciation dictionary, or write it in another format."
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        type=argument_types.path,
        metavar="FILE",
        help="a pronunciation dictionary; several are joined",
    )
    add_input(parser)
    add_output(parser)
    add("--out", type=argument_types.path, metavar="FILE", help="the dictionary to write")


def add_input(parser: argparse.ArgumentParser) -> None:
    """Describe the options of how dictionaries are read."""
    readable = [name for name, row in FORMATS.items() if not row.needs_symbols]
    parser.add_argument(
        "--from", dest="source", choices=readable, metavar="FORMAT", help="the format of what is read"
    )
    add_reading(parser)
    argument_types.add_encoding(parser)


def add_reading(parser: Any) -> None:
    """Describe the options of how entries are read, of a dictionary in any format."""
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave out entries that cannot be read, and show the first"
    )
    parser.add_argument(
        "--phones",
        choices=PHONES,
        help="whether blanks stand between the phones (default), or pronunciations are in IPA, as in /fis/, /fil/:"
        " cut into letters with their marks and length, without slashes and brackets",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Describe the options of what is written: format, stress, phone map, symbols."""
    add = parser.add_argument
    add("--format", choices=FORMATS, metavar="FORMAT", help="the format to write")
    add_phones(parser)


def add_phones(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Describe the options of what becomes of phones: stress, phone map, symbols."""
    add = parser.add_argument
    add("--stress", choices=STRESS, help="what becomes of stress marks (default keep)")
    add(
        "--phone-map",
        type=argument_types.path,
        metavar="FILE.tsv",
        help="replace phones: each line is one or more of them, a TAB, and none or more symbols; or one of"
        f" {', '.join(MAPS)}, for phones as in CMUdict",
    )
    add(
        "--symbols",
        type=argument_types.path,
        metavar="TOKENS.txt",
        help="the symbols of the voice, each with its number: words with others are left out",
    )


def run(args: argparse.Namespace) -> int:
    """Describe the dictionaries, or write one."""
    check_output(args, args.files)
    lexicon = joined(args.files, format=args.source, skip_bad=args.skip_bad, phones=args.phones)
    if args.format is None:
        _describe(lexicon)
    else:
        saved(prepared(lexicon, args), args.out)
    return 0


def check_output(args: argparse.Namespace, inputs: Sequence[Path]) -> None:
    """Check the options of what is written: a file has a format, and no file replaces an input."""
    if (args.format is None) != (args.out is None):
        missing = "format" if args.format is None else "out"
        _check.fail(f"--{missing} is missing: a file is written in a format")
    check_needs(args, ((option, "--format", "") for option in ("--stress", "--phone-map", "--symbols")))
    read = [*inputs, *filter(None, (args.phone_map, args.symbols))]
    for path in saved_files(args.out) if args.out else ():
        check_outputs({"--out": path}, read)


def joined(
    paths: Sequence[Path],
    *,
    format: str | None = None,
    skip_bad: bool = False,
    phones: Phones | None = None,
) -> Lexicon:
    """Read dictionaries as the options of `add_reading` say, report what each contains, and return them as one."""
    lexicons = []
    for path in paths:
        lexicon = read(path, format=format, skip_bad=skip_bad, phones=phones or PHONES[0])
        _note_read(path, lexicon)
        lexicons.append(lexicon)
    return Lexicon.of_checked(chain.from_iterable(lexicon.entries() for lexicon in lexicons))


def _note_read(path: Path, lexicon: Lexicon) -> None:
    """Report what a dictionary contains, and which entries were skipped."""
    variants = sum(map(len, lexicon.values()))
    note(f"{path}: {lexicon.format}, {_count(len(lexicon), 'word')}, {_count(variants, 'pronunciation')}")
    if lexicon.format == "cmudict" and (notes := _notes(path)):
        note(f"{_count(len(notes), 'note')} not kept, such as {clean(repr(notes[0]))}")
    for entry in _no_entries(lexicon):
        note(f"{clean(repr(entry))} has been read as an entry: is it a comment or a header?")
    _note_whole(lexicon)
    for message in lexicon.skipped[:_SHOWN]:
        note(f"skipped: {clean(message)}")
    if len(lexicon.skipped) > _SHOWN:
        note(f"skipped: {len(lexicon.skipped):,} entries in all")


def _note_whole(lexicon: Lexicon) -> None:
    """Warn of words of which most have one phone, which few others have: so it is with a list in IPA."""
    counts = Counter(phone for _, variant in lexicon.entries() for phone in variant.phones)
    alone = [len(variant.phones) == 1 or _WHOLE.search(variant.phones[0]) for _, variant in lexicon.entries()]
    if len(alone) >= _FEWEST and 2 * sum(map(bool, alone)) > len(alone) and 3 * len(counts) > len(alone):
        once = [phone for phone, count in counts.items() if count == 1]
        examples = ", ".join(repr(phone) for phone in [*once, *counts][:2])
        note(
            f"{len(once):,} of {len(counts):,} phones occur once, such as {clean(examples)}: a whole pronunciation"
            " seems to be one phone; --phones ipa cuts it"
        )


def _notes(path: Path) -> list[str]:
    """Return what stands after the phones of entries in a file of CMUdict's form."""
    lines = (line for _, line in FORMATS["cmudict"].records(path) if line and not line.startswith(COMMENTS))
    return [found[0].strip() for line in lines if (found := NOTE.search(line))]


def _no_entries(lexicon: Lexicon) -> Iterator[str]:
    """Yield what may be no entry in a file of lines: the word # of comments, and the names of columns."""
    if lexicon.format in _OF_LINES and "#" in lexicon:
        yield "#"
    word, first = next(lexicon.entries())
    if (word.lower(), *map(str.lower, first.phones)) in _HEADERS:
        yield f"{word} {first.phones[0]}"


def _describe(lexicon: Lexicon) -> None:
    """Print what a dictionary contains."""
    variants = [len(found) for found in lexicon.values()]
    letters = sorted({letter for word in lexicon for letter in word})
    print(
        f"words           {len(lexicon):,}, {sum(count > 1 for count in variants):,} of them with several variants"
    )
    print(f"pronunciations  {sum(variants):,}")
    print(f"letters         {len(letters):,}: {clean(' '.join(letters))}")
    phones = lexicon.phones()
    print(f"phones          {len(phones):,}: {clean(' '.join(phones))}")


def prepared(lexicon: Lexicon, args: argparse.Namespace, format: str | None = None) -> Prepared:
    """Convert a dictionary as the options of `add_output` say, or those of `add_phones` and a format."""
    stress: Stress = args.stress or "keep"
    phone_map = read_phone_map(args.phone_map) if args.phone_map else None
    result = prepare(
        lexicon,
        format or args.format,
        stress=stress,
        phone_map=phone_map,
        symbols=read_symbols(args.symbols) if args.symbols else None,
    )
    if phone_map and not _replaces(phone_map, (stressed(v.phones, stress) for _, v in lexicon.entries())):
        note(f"{args.phone_map} replaces no phone: all stay as they are")
    return result


def _replaces(phone_map: PhoneMap, every: Iterable[Sequence[str]]) -> bool:
    """Return whether a phone map changes any pronunciation."""
    replace = Replacements(phone_map)
    return any(replace(phones) != tuple(phones) for phones in every)


def note_left_out(result: Prepared, where: object) -> None:
    """Report how many words and pronunciations are left out, with the most frequent reasons."""
    if result.left_out:
        lost, others = len(result.lost), len(result.left_out)
        note(
            f"{_count(others, 'pronunciation')} left out, all of {_count(lost, 'word')}, which {where} will not have:"
        )
        for reason, count in [*result.reasons().items()][:_SHOWN]:
            note(f"  {count:,}: {clean(reason)}")


def saved(result: Prepared, path: Path) -> None:
    """Report what is left out, and then write the files."""
    note_left_out(result, path)
    names = result.save(path)
    note(
        f"{_count(len(result.lexicon), 'word')} in {names[0]}"
        + "".join(f"; see {name}" for name in names[1:])
    )


def _count(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural."""
    return f"{number:,} {noun}{'s' * (number != 1)}"

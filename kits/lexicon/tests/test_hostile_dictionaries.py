"""Dictionaries of an attacker: what a file may take is bounded by its size, whatever it says of itself.

The databases are written page by page, as SQLite's description of its file format says.
"""

from __future__ import annotations

import gzip
import re
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from regard._lines import LONGEST_LINE
from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard_lexicon import Lexicon, files, prepare, read, read_phone_map, read_symbols

Make = Callable[[str | bytes], Path]
PAGE = 4096
SQL = "CREATE TABLE word_phonemes (id INTEGER PRIMARY KEY, word TEXT, pron_order INTEGER, phonemes TEXT, role TEXT)"
NAMESPACE = "http://www.w3.org/2005/01/pronunciation-lexicon"
PLS = f'<lexicon version="1.0" xmlns="{NAMESPACE}" alphabet="ipa">{{}}</lexicon>'
MARKS = "\u0301\u0323"  # above and below: a form of Unicode puts the second before the first


# -------------------------------------------------------------------------------------------- pages of SQLite


def varint(number: int) -> bytes:
    """A number in groups of seven bits."""
    groups = [number & 127]
    while number := number >> 7:
        groups.append(number & 127 | 128)
    return bytes(reversed(groups))


def record(*values: str | int | None) -> bytes:
    """The values of a row: a header with their types, and the values."""
    types, body = b"", b""
    for value in values:
        if value is None:
            types += varint(0)
        elif isinstance(value, int):
            types, body = types + varint(4), body + value.to_bytes(4, "big")
        else:
            types, body = types + varint(13 + 2 * len(value.encode())), body + value.encode()
    return varint(len(types) + 1) + types + body


def row(number: int, *values: str | int | None) -> bytes:
    """The cell of a row."""
    content = record(*values)
    return varint(len(content)) + varint(number) + content


def page(kind: int, cells: list[bytes], *, right: int = 0, header: bytes = b"") -> bytes:
    """A page with these cells at its end: 13 is a leaf of a table, 5 has children."""
    content = b"".join(cells)
    first = PAGE - len(content)
    places = [first + sum(map(len, cells[:i])) for i in range(len(cells))]
    head = bytes([kind, 0, 0, *len(places).to_bytes(2, "big"), *first.to_bytes(2, "big"), 0])
    head += right.to_bytes(4, "big") if kind == 5 else b""
    head = header + head + b"".join(place.to_bytes(2, "big") for place in places)
    assert len(head) <= first
    return head + bytes(first - len(head)) + content


def database(*pages: bytes, schema: tuple[str, ...] = (SQL,), first: bytes | None = None) -> bytes:
    """A database whose table word_phonemes begins with the second page; `first`: another first page."""
    header = b"SQLite format 3\0" + PAGE.to_bytes(2, "big") + bytes([1, 1, 0, 64, 32, 32]) + bytes(4)
    header += (1 + len(pages)).to_bytes(4, "big") + bytes(12) + (4).to_bytes(4, "big") + bytes(8)
    header += (1).to_bytes(4, "big")  # UTF-8
    header = header.ljust(100, b"\0")
    rows = [row(i, "table", "word_phonemes", "word_phonemes", 2, sql) for i, sql in enumerate(schema, 1)]
    return (first or page(13, rows, header=header)) + b"".join(pages)


def parent(child: int, count: int = 400) -> bytes:
    """A page whose children are all one page."""
    return page(5, [child.to_bytes(4, "big") + varint(100) for _ in range(count)], right=child)


ROWS = [row(i, None, f"w{i}", 0, "a b", "") for i in range(1, 101)]


def test_the_pages_are_those_of_a_database(make: Make) -> None:
    lexicon = read(make(database(page(13, ROWS))))
    assert (lexicon.format, len(lexicon)) == ("gruut", 100)
    assert [variant.phones for variant in lexicon["w7"]] == [("a", "b")]


@pytest.mark.parametrize("levels", [1, 2, 8], ids=["40,000 rows", "16 million", "without end"])
def test_a_page_that_is_the_child_of_a_table_many_times_is_refused(levels: int, make: Make) -> None:
    pages = [parent(3 + level) for level in range(levels)]
    with pytest.raises(ValueError, match=r"words is no lexicon of gruut: row 1 comes after row 100"):
        read(make(database(*pages, page(13, ROWS))))


HERE = (
    PAGE - 12
) * 32 // 255 - 23  # bytes of a row in its own page, where the rest fills others to the last byte


def test_rows_that_share_their_text_are_refused(make: Make) -> None:
    pages = 12
    text = "a" * (HERE + pages * (PAGE - 4) - len(record(None, "w", 0, "a" * 20_000, "")) + 20_000)
    content = record(None, "w", 0, text, "")
    heads = [varint(len(content)) + varint(number) for number in range(1, 9)]
    others = [
        (4 + i if i + 1 < pages else 0).to_bytes(4, "big") + content[HERE:][i * (PAGE - 4) :][: PAGE - 4]
        for i in range(pages)
    ]
    path = make(database(page(13, [head + content[:HERE] + bytes([0, 0, 0, 3]) for head in heads]), *others))
    assert path.stat().st_size < 2 * len(text)
    with pytest.raises(ValueError, match="more text than the file"):
        read(path, skip_bad=True)


def test_a_schema_without_end_is_refused(make: Make) -> None:
    """Each statement is one that SQLite accepts again and again."""
    again = SQL.replace("TABLE", "TABLE IF NOT EXISTS")
    rows = [row(i, "table", "word_phonemes", "word_phonemes", 2, again) for i in range(1, 21)]
    header = database(page(13, ROWS))[:100]
    cells = [(3).to_bytes(4, "big") + varint(100) for _ in range(400)]
    levels = [parent(4), parent(5), page(13, rows)]
    path = make(database(page(13, ROWS), *levels, first=page(5, cells, right=3, header=header)))
    with pytest.raises(ValueError, match="words is no lexicon of gruut"):
        read(path)


@pytest.mark.parametrize(
    "other",
    [
        "CREATE VIEW word_phonemes AS SELECT 1 AS rowid, 'a' AS word, 0 AS pron_order, 'b' AS phonemes, '' AS role",
        "CREATE VIRTUAL TABLE word_phonemes USING fts5(word, pron_order, phonemes, role)",
    ],
)
def test_a_view_under_the_name_of_a_table_is_refused(other: str, make: Make) -> None:
    path = make(database(page(13, ROWS), schema=(SQL.replace("word_phonemes", "others"), other)))
    with pytest.raises(ValueError, match="words is no lexicon of gruut"):
        read(path)


# -------------------------------------------------------------------------------------------------- all readers


def test_a_lexeme_with_the_product_of_its_parts_is_refused_before_it_is_made(make: Make) -> None:
    parts = "<grapheme>a</grapheme>" * 60 + "<phoneme>b</phoneme>" * 60
    path = make(PLS.format(f"<lexeme role='{' '.join(map(str, range(60)))}'>{parts}</lexeme>"))
    assert peak(path) < 500 * path.stat().st_size  # not that of 216,000 pronunciations
    with pytest.raises(ValueError, match="words, line 1: up to here the entries have 8 times as much text"):
        read(path, skip_bad=True)


def test_a_word_with_the_product_of_its_roles_is_refused(make: Make) -> None:
    roles = ", ".join(f'"{number}": "a"' for number in range(1_000))
    with pytest.raises(ValueError, match="words, entry 1: up to here the entries have 8 times as much text"):
        read(make(f'{{"{"w" * 900}": {{{roles}}}}}'))


def test_a_few_roles_and_spellings_are_read(make: Make) -> None:
    parts = "<grapheme>ab</grapheme>" * 3 + "<phoneme>b</phoneme>" * 4
    assert read(make(PLS.format(f"<lexeme role='n v a'>{parts}</lexeme>")))["ab"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            f'<!DOCTYPE lexicon [<!ATTLIST lexeme role CDATA "{"r " * 50_000}">]>' + PLS.format("<lexeme/>"),
            "attributes",
        ),
        (PLS.format(f'<a xmlns="{"u" * 50_000}"/>'), "a namespace has 50,000 characters"),
    ],
)
def test_what_each_element_would_have_again_is_refused(content: str, reason: str, make: Make) -> None:
    with pytest.raises(ValueError, match=reason):
        read(make(content))


def test_elements_inside_of_each_other_are_not_kept(make: Make) -> None:
    depth = 5_000
    inner = "<a>" * depth + "x" + "</a>" * depth
    lexeme = f"<lexeme><grapheme>{inner}</grapheme><phoneme>b</phoneme></lexeme>"
    path = make(PLS.format(inner + lexeme))
    assert [*read(path)] == ["x"]
    assert peak(path) < 20 * path.stat().st_size


PILED = "a" + MARKS * 50_000  # of which a form of Unicode takes a minute


@pytest.mark.parametrize(
    "content",
    [
        f"{PILED} b\nc d\n",
        f"c d\n{'a'} {PILED}\n",
        f"{PILED}\tb\nc\td\n",
        f'{{"{PILED}": "a", "c": "d"}}',
        f'{{"a": "{PILED}", "c": "d"}}',
        PLS.format(
            f"<lexeme><grapheme>a</grapheme><phoneme>{PILED}</phoneme></lexeme>"
            "<lexeme><grapheme>c</grapheme><phoneme>d</phoneme></lexeme>"
        ),
    ],
)
@pytest.mark.parametrize("phones", ["blanks", "ipa"])
def test_no_form_of_unicode_is_made_of_very_long_text(content: str, phones: str, make: Make) -> None:
    with pytest.raises(ValueError, match=r"words, (line|entry) [12]: .* 100,001 characters; at most 1"):
        read(make(content), phones=phones)  # type: ignore[arg-type]
    assert [*read(make(content), skip_bad=True, phones=phones)] == ["c"]  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["gruut", "kaldi"])
def test_files_larger_than_any_dictionary_are_refused_before_they_are_read(format: str, make: Make) -> None:
    path = make(database(page(13, ROWS)) if format == "gruut" else "a b\n")
    with path.open("r+b") as file:
        file.truncate(files.LARGEST + 1)  # without content, so that it takes no room
    for reader in (read, read_symbols, read_phone_map):
        with pytest.raises(ValueError, match=r"words has 268,435,457 bytes: a file larger than 268,435,456"):
            reader(path)  # type: ignore[operator]
    with pytest.raises(ValueError, match="268,435,457"):
        read(path, format=format)


def peak(path: Path) -> int:
    """The most bytes of memory that reading a file takes."""
    tracemalloc.start()
    with suppress(ValueError):
        read(path, skip_bad=True)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


# ------------------------------------------------------------------------------------- symbols and phone maps


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("AH\t\x1b[2J", r"U\+001B"),
        ("AH\ta\u0085b", r"U\+0085"),
        ("AH\ta\u00a0b", r"U\+00A0"),
        ("A\u00a0H\ta", r"U\+00A0"),
        ("AH\ta\ud800".encode("utf-8", "surrogatepass"), "UTF-8"),
        ("AH\t" + "a " * 50_000, "at most 100 .* 50,000"),
        ("a " * 50_000 + "\tAH", "at most 100 .* 50,000"),
        ("AH\t" + "a" * 50_000, "a phone has 50,000 characters"),
        (PILED + "\ta", "100,001 characters"),
    ],
)
def test_a_phone_or_symbol_that_no_dictionary_has_is_refused_with_its_line(
    line: str | bytes, reason: str, make: Make
) -> None:
    data = line if isinstance(line, bytes) else line.encode()
    with pytest.raises(ValueError, match=rf"(?s)words, line 2: .*{reason}"):
        read_phone_map(make(b"L\tl\n" + data + b"\n"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"a {'1' * 4301}", "at most nine digits"),
        ("a ١", "at most nine digits"),
        ("a ²", "at most nine digits"),
        ("a -1", "at most nine digits"),
        ("\x1b[2J 1", r"U\+001B"),
        ("a\u00a0b 1", r"U\+00A0"),
        ("\u00a0 1", r"U\+00A0"),  # not the blank
        ("a\u00a01", "at most nine digits"),
        ("a\x1c1", "at most nine digits"),
        ("a" * 101 + " 1", "101 characters"),
        (PILED + " 1", "100,001 characters"),
    ],
)
def test_a_symbol_or_number_that_no_voice_has_is_refused_with_its_line(
    line: str, reason: str, make: Make
) -> None:
    with pytest.raises(ValueError, match=f"words, line 2: .*{reason}"):
        read_symbols(make(f"b 0\n{line}\n"))


def test_a_map_makes_no_word_longer_than_any_is_read() -> None:
    lexicon = Lexicon([("a", ["x"] * 11), ("b", ["x"])])
    prepared = prepare(lexicon, "tsv", phone_map={("x",): ("y",) * 100})
    assert ([*prepared.lexicon], prepared.lost) == (["b"], ("a",))
    assert prepared.left_out[0].reason == "it would have 1,100 phones; a word has at most 1,000"


@pytest.mark.parametrize(("table", "line"), [(read, "a b"), (read_phone_map, "a\tb"), (read_symbols, "a 1")])
def test_lines_are_refused_as_those_of_pairs(table: Callable[[Path], object], line: str, make: Make) -> None:
    refused = {
        f"{line}\n{' ' * LONGEST_LINE}{line}\n".encode(): ", line 2: longer than 1048576 bytes",
        f"{line}\n".encode() + b"\xff": r", line 2: not UTF-8 \(byte 1 is 0xff\)[;\n] +hint: --encoding",
        f"{line}\n{line}\0".encode(): r", line 2: not text \(byte 4 is zero\)[;\n] +hint: if it is UTF-16",
        f"{line}\r{line}".encode(): ": lines must end with LF or CRLF",
        gzip.compress(line.encode()): " must be text. It is packed with gzip instead",
    }
    for data, reason in refused.items():
        with pytest.raises(ValueError, match=f"words{reason}"):
            table(make(data))


# -------------------------------------------------------------------------------------------- the command line


def test_every_verb_that_reads_dictionaries_names_file_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.db").write_bytes(database(parent(3), parent(4), page(13, ROWS)))
    Path("good.dict").write_text("ab A B\nba B A\n")
    Path("words.txt").write_text("ab\n")
    Seq2Seq(epochs=1, source="characters", target="tokens").fit(["ab", "ba"], ["A B", "B A"]).save(
        "model.safetensors"
    )
    for command in (
        "lexicon bad.db",
        "lexicon good.dict bad.db --format tsv --out out.tsv",
        "lexicon good.dict --format sherpa-kokoro --symbols bad.db --out out.txt",
        "lexicon good.dict --format tsv --phone-map bad.db --out out.tsv",
        "train bad.db --task pronunciation --out runs/a",
        "train good.dict --valid bad.db --task pronunciation --out runs/a",
        "pronounce model.safetensors words.txt --lexicon bad.db",
        "review bad.db --out doubts.tsv",
    ):
        assert main(command.split()) == 2, command
        assert re.search(
            r"error: (--\S+: )?bad\.db(,| is no lexicon of gruut: row 1 comes after)", capsys.readouterr().err
        ), command
    assert {path.name for path in tmp_path.iterdir()} <= {
        "bad.db",
        "good.dict",
        "words.txt",
        "model.safetensors",
        "runs",
    }

"""gruut's lexicon.db: an SQLite database with a table of pronunciations.

The file is untrusted. A view may compute rows without end, so that only plain tables are read. The pages of a table may
have the same page as a child again and again, so that a small file has rows without end: rows are read in the order of
their ids, which such a table repeats, and neither their text nor the steps of SQLite may be more than the file's size
justifies. They are sorted after that.

References
----------
gruut, https://github.com/rhasspy/gruut
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path as FilePath
from typing import Any

from regard import _check
from regard_lexicon.files import Path, size
from regard_lexicon.lexicon import InvalidEntry, Lexicon, Variant
from regard_lexicon.lines import NUMBERED, Entries, Files, fields

__all__ = ["MAGIC", "parse_row", "refusal", "rows", "write"]

MAGIC = b"SQLite format 3\x00"
_COLUMNS = {"word", "pron_order", "phonemes", "role"}
_LONGEST, _LONGEST_SQL = 1 << 19, 1 << 12  # bytes of a value, and of a statement in the file
_STEPS = 1_000  # of SQLite, between two looks at their number
_PLAIN = "CREATE TABLE ", "CREATE INDEX ", "CREATE UNIQUE INDEX "  # as SQLite itself writes what it stores
_QUERY = "SELECT rowid, pron_order, word, phonemes, role FROM word_phonemes NOT INDEXED"
_SCHEMA = (
    "CREATE TABLE word_phonemes (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " word TEXT, pron_order INTEGER, phonemes TEXT, role TEXT)"
)

Row = tuple[Any, Any, Any]


def rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield word, phones and role of each row, in the order of variants, with the row's number."""
    most = size(path)
    address = f"{FilePath(path).resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            _limit(database, most)
            _check_table(database)
            found = sorted(_scanned(database, most), key=_place)
    except sqlite3.Error as error:
        reason = "it takes more steps than a file of its size" if str(error) == "interrupted" else error
        _check.fail(f"{os.fspath(path)} is no lexicon of gruut: {reason}")
    for number, _, *row in found:
        yield f"row {number}", (row[0], row[1], row[2])


def _limit(database: sqlite3.Connection, size: int) -> None:
    """Limit what a database may make of a file of this size: a row has more bytes than the steps of reading it."""
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    database.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_SQL)
    steps = count(step=_STEPS)
    database.set_progress_handler(lambda: next(steps) > size + 10 * _STEPS, _STEPS)
    database.text_factory = lambda data: data.decode(
        errors="surrogateescape"
    )  # refused with the row's number


def _scanned(database: sqlite3.Connection, size: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows in the order of the table, as long as the file may have them."""
    last: int | None = None
    for row in database.execute(_QUERY):
        size -= sum(len(value) for value in row if isinstance(value, str | bytes))
        if size < 0:
            raise sqlite3.DatabaseError("its rows have more text than the file")
        if last is not None and row[0] <= last:
            raise sqlite3.DatabaseError(f"row {row[0]} comes after row {last}")
        last = row[0]
        yield row


def _place(row: tuple[Any, ...]) -> tuple[float, bool, int]:
    """Return what decides the order of variants; a word with a number is a variant of the word without it."""
    number, order, word, *_ = row
    is_numbered = isinstance(word, str) and NUMBERED.fullmatch(word) is not None
    return order if isinstance(order, int | float) else -math.inf, is_numbered, number


def _check_table(database: sqlite3.Connection) -> None:
    """Raise unless there is a table of pronunciations, and nothing that computes rows or values."""
    for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"):
        if not str(sql).startswith(_PLAIN):
            raise sqlite3.DatabaseError("it has views, virtual tables or triggers, which are not read")
    columns = {
        name.lower(): hidden for _, name, *_, hidden in database.execute("PRAGMA table_xinfo(word_phonemes)")
    }
    if not columns:
        raise sqlite3.DatabaseError("it has no table word_phonemes")
    if "rowid" in columns:  # the name of the number of a row
        raise sqlite3.DatabaseError("it has a column rowid")
    if missing := sorted(_COLUMNS - columns.keys()):
        raise sqlite3.DatabaseError(f"the table word_phonemes has no column {missing[0]}")
    if computed := [name for name, hidden in columns.items() if hidden]:
        raise sqlite3.DatabaseError(f"the column {computed[0]} is computed")


def parse_row(row: Row) -> Entries:
    """Read a row; ``(2)`` behind a word, which some of gruut's files have, is the number of a variant."""
    word, phones, role = row
    if not isinstance(word, str) or not isinstance(phones, str) or not isinstance(role, str | None):
        raise InvalidEntry("word, phonemes and role must be text")
    numbered = NUMBERED.fullmatch(word)
    return [(numbered[1] if numbered else word, Variant(tuple(fields(phones)), None, role or ""))]


def write(lexicon: Lexicon) -> Files:
    """Return a database with a row for each variant."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(_SCHEMA)
        database.executemany(
            "INSERT INTO word_phonemes (word, pron_order, phonemes, role) VALUES (?, ?, ?, ?)",
            (
                (word, order, " ".join(variant.phones), variant.role)
                for word, variants in lexicon.items()
                for order, variant in enumerate(variants)
            ),
        )
        database.execute("CREATE INDEX word_phonemes_word ON word_phonemes (word)")
        database.commit()
        return {"": database.serialize()}


def refusal(word: str, variant: Variant) -> str:
    """Return why gruut's form cannot express an entry, or an empty text."""
    return "the end of the word reads as the number of a variant" if NUMBERED.fullmatch(word) else ""

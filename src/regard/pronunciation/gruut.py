"""gruut's lexicon.db: an SQLite database with a table of pronunciations.

The file is untrusted: the table must be a plain one, since a view may compute rows without end.

References
----------
gruut, https://github.com/rhasspy/gruut
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from regard import _check, _files
from regard.pronunciation.lexicon import Lexicon, Variant, Wrong
from regard.pronunciation.lines import NUMBERED, Entries, Files

__all__ = ["MAGIC", "parse_row", "refusal", "rows", "write"]

MAGIC = b"SQLite format 3\x00"
_COLUMNS = {"word", "pron_order", "phonemes", "role"}
_LONGEST = 1 << 16  # bytes of a value
_SCHEMA = (
    "CREATE TABLE word_phonemes (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " word TEXT, pron_order INTEGER, phonemes TEXT, role TEXT)"
)

Row = tuple[Any, Any, Any]


def rows(path: str | os.PathLike[str]) -> Iterator[tuple[str, Row]]:
    """Yield word, phones and role of each row, in the order of variants, with the row's number."""
    with _files.reading(path):  # a regular file
        pass
    address = f"{Path(path).resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            _check_table(database)
            # A word with a number comes after the word itself, whose variant it is.
            query = "SELECT id, word, phonemes, role FROM word_phonemes ORDER BY pron_order, word GLOB '?*([0-9])', id"
            for number, *row in database.execute(query):
                yield f"row {number}", (row[0], row[1], row[2])
    except sqlite3.Error as error:
        _check.fail(f"{os.fspath(path)} is no lexicon of gruut: {error}")


def _check_table(database: sqlite3.Connection) -> None:
    """Raise unless there is a plain table of pronunciations."""
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    database.execute("PRAGMA trusted_schema = OFF")
    database.text_factory = lambda data: data.decode(
        errors="surrogateescape"
    )  # refused with the row's number
    found = database.execute("SELECT type, sql FROM sqlite_master WHERE name = 'word_phonemes'").fetchone()
    if found is None or found[0] != "table" or "VIRTUAL" in str(found[1]).upper().split():
        raise sqlite3.DatabaseError("it has no table word_phonemes")
    columns = {name: hidden for _, name, *_, hidden in database.execute("PRAGMA table_xinfo(word_phonemes)")}
    if missing := sorted(_COLUMNS - columns.keys()):
        raise sqlite3.DatabaseError(f"the table word_phonemes has no column {missing[0]}")
    if computed := [name for name, hidden in columns.items() if hidden]:
        raise sqlite3.DatabaseError(f"the column {computed[0]} is computed")


def parse_row(row: Row) -> Entries:
    """Read a row; ``(2)`` behind a word, which some of gruut's files have, is the number of a variant."""
    word, phones, role = row
    if not isinstance(word, str) or not isinstance(phones, str) or not isinstance(role, str | None):
        raise Wrong("word, phonemes and role must be text")
    numbered = NUMBERED.fullmatch(word)
    return [(numbered[1] if numbered else word, Variant(tuple(phones.split()), None, role or ""))]


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

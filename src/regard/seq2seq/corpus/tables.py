"""Sentence pairs in tables: CSV as spreadsheets write it, and the choice of source and target columns."""

from __future__ import annotations

import csv
import itertools
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import NamedTuple

from regard import _check
from regard.seq2seq.sources.text.normalization import normalize

__all__ = [
    *("COMPARED", "Columns", "Record", "check_columns", "is_csv", "is_quoted", "note_header", "note_quotes"),
    "records",
]

Columns = Sequence[str | int]

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "TAB", "|": "vertical bar"}
_SAMPLE = 100  # lines read to detect the delimiter
_FIRST = 1 << 16  # maximum characters of the sample
_PLAUSIBLE = (
    0.9  # the part of the rows with the same number of fields from which on a delimiter may be the true one
)
_LONGEST_FIELD = 1 << 20  # characters
COMPARED = 101  # rows from which a first row that is a header differs
_FEWEST = 5
_MOST = 0.9  # of these rows
_NAME = re.compile(r"[^\W\d][\w/()-]*( [\w/()-]+){0,2}")  # of a column: no sentence


class Record(NamedTuple):
    """A row of a table.

    `line`: the number of its first line, from 1; `cells`: its fields; `error`: why it can't be used, with the file
    and the line; empty if it can.
    """

    line: int
    cells: list[str]
    error: str = ""


def is_csv(name: str) -> bool:
    """Return whether a file name ends in .csv or .csv.gz, ignoring case."""
    return name.lower().removesuffix(".gz").endswith(".csv")


def records(
    lines: Iterable[str],
    name: str,
    columns: Columns | None = None,
    errors: MutableMapping[int, str] | None = None,
) -> Iterator[Record]:
    """Yield the source and target columns of a table, with line ends replaced by spaces.

    If the file's name ends in .csv or .csv.gz, fields are delimited by commas, semicolons, TABs or vertical bars, or by
    the character of a first line ``sep=;``, and may be quoted. Otherwise they are delimited by TABs, and quotes are
    part of the text. Columns are names if the first row is a header, or numbers from 1 if there is none; by default
    there are two and no header. A side may be several columns, 1+2, which are joined with blanks. An empty row has no
    fields. A row with another number of fields than the first, or with one of the `errors` of `read_lines`, has an
    error and no fields.
    """
    check_columns(columns)
    errors = {} if errors is None else errors
    rows = _csv_rows(lines, name, columns, errors) if is_csv(name) else _tab_rows(lines, errors)
    empty: list[Record] = []
    for first in rows:
        if first.cells:
            break
        empty.append(first)
    else:
        yield from empty
        return
    first = first._replace(cells=_trimmed(first.cells, 2))
    chosen, has_names = _choose(first, name, columns)
    rest = rows if has_names else itertools.chain(empty, [first], rows)
    for row in _with_note(rest, name) if columns is None else rest:
        cells, error = _trimmed(row.cells, len(first.cells)), row.error
        if cells and not error and len(cells) != len(first.cells):
            error = (
                f"{name}, line {row.line}: {_counted(len(cells))}, but the first row has {len(first.cells)}"
            )
        yield Record(
            row.line, [_joined(cells, side) for side in chosen] if cells and not error else [], error
        )


def _trimmed(cells: list[str], least: int) -> list[str]:
    """Remove trailing empty fields, as spreadsheets write them, but keep at least `least` fields."""
    while len(cells) > least and not cells[-1].strip():
        cells = cells[:-1]
    return cells


def check_columns(columns: Columns | None) -> None:
    """Validate the choice of columns of `records`."""
    if columns is not None and (
        isinstance(columns, str) or len(columns) != 2 or len(set(map(_plain, columns))) < 2
    ):
        _check.fail(f"columns must be two different names or numbers. Got {columns!r:.60} instead.")


def _plain(column: str | int) -> str | int:
    """Return a number as such, however it is written."""
    return int(column) if _is_number(column) else column


def _counted(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"


def _one_line(cell: str) -> str:
    return " ".join(re.split(r"[\r\n]+", cell)) if "\n" in cell or "\r" in cell else cell


def _joined(cells: Sequence[str], indices: Sequence[int]) -> str:
    """Return cells as one text."""
    if len(indices) == 1:
        return _one_line(cells[indices[0]])
    return " ".join(part for i in indices if (part := _one_line(cells[i]).strip()))


def _tab_rows(lines: Iterable[str], errors: MutableMapping[int, str]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        yield Record(number, line.split("\t") if line.strip() else [], errors.pop(number, ""))


def _choose(first: Record, name: str, columns: Columns | None) -> tuple[list[list[int]], bool]:
    """Return the indices of the columns of both sides, and whether the first row is a header."""
    count = len(first.cells)
    if columns is None:
        if count != 2:
            cells = ", ".join(_shown(cell) for cell in first.cells[:8])
            hint = _STATED if count < 2 and is_csv(name) else "choose two with --columns"
            _check.fail(f"{name}, line {first.line}: expected 2 columns, found {count} ({cells})", hint=hint)
        return [[0], [1]], False
    sides = [_parts(column, first) for column in columns]
    if all(_is_number(column) for side in sides for column in side):
        indices = [[int(column) - 1 for column in side] for side in sides]
        if wrong := [index + 1 for side in indices for index in side if not 0 <= index < count]:
            _check.fail(f"{name}, line {first.line}: there is no column {wrong[0]}; there are {count}")
        return indices, False
    indices = [[_column_index(str(column), first, name) for column in side] for side in sides]
    if indices[0] == indices[1]:
        _check.fail(
            f"{name}, line {first.line}: columns must be two different ones."
            f" Got {columns[0]!r:.60} and {columns[1]!r:.60} instead, which are both column {indices[0][0] + 1}."
        )
    return indices, True


def _parts(column: str | int, first: Record) -> list[str | int]:
    """Return the columns of a side: a+b is two, if no column has this name."""
    if isinstance(column, int) or column in first.cells or "" in column.split("+"):
        return [column]
    return [*column.split("+")]


def _is_number(column: str | int) -> bool:
    return isinstance(column, int) or (column.isascii() and column.isdigit() and len(column) < 10)


def _column_index(column: str, first: Record, name: str) -> int:
    """Return the index of a name in the header: an exact match, or one ignoring case, outer spaces and NFC."""
    for plain in (str, lambda cell: normalize(cell.strip().casefold())):
        names = [plain(cell) for cell in first.cells]
        if names.count(plain(column)) == 1:
            return names.index(plain(column))
        if names.count(plain(column)) > 1:
            _check.fail(
                f"{name}, line {first.line}: {column!r:.60} is the name of several columns",
                hint="give numbers",
            )
    if _is_number(column):
        _check.fail(f"columns must be two names or two numbers. Got {column!r:.60} and a name instead.")
    cells = ", ".join(_shown(cell) for cell in first.cells[:8])
    _check.fail(f"{name}, line {first.line}: no column is called {column!r:.60}; the first row has {cells}")


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 30 else f"{cell[:29]}…")


# -------------------------------------------------------------------------------------------------------- CSV


def _csv_rows(
    lines: Iterable[str], name: str, columns: Columns | None, errors: MutableMapping[int, str]
) -> Iterator[Record]:
    """Read CSV and detect its delimiter."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    lines = iter(lines)
    sample = _sampled(lines)
    skip = 0
    delimiter = _stated_delimiter(sample[0]) if sample else None
    if delimiter is not None:  # a line sep=, as in Excel
        sample, skip = sample[1:], 1
    delimiter = delimiter or _delimiter(sample, name, columns)
    ended = (f"{line}\n" for line in itertools.chain(sample, lines))
    reader = csv.reader(ended, delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + skip + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            _check.fail(f"{name}, line {start}: {_reason(str(error))}")
        of_lines = [errors.pop(i, "") for i in range(start, reader.line_num + skip + 1)]
        yield Record(start, cells if any(map(str.strip, cells)) else [], next(filter(None, of_lines), ""))


def _sampled(lines: Iterator[str]) -> list[str]:
    sample: list[str] = []
    size = 0
    for line in itertools.islice(lines, _SAMPLE):
        sample.append(line)
        size += len(line)
        if size > _FIRST:
            break
    return sample


def _stated_delimiter(line: str) -> str | None:
    match = re.fullmatch(r'"?sep=(.)"?', line, re.IGNORECASE)
    return match[1] if match and match[1] not in '"\r' else None


def _reason(error: str) -> str:
    if "unexpected end" in error:
        return "a quote is opened and not closed"
    if "larger than field limit" in error:
        return (
            f"a field has more than {csv.field_size_limit()} characters, or a quote is opened and not closed"
        )
    if "expected after" in error:
        return 'text follows a closing quote; a quote inside quotes is written twice ("")'
    if "new-line character" in error:
        return "a carriage return (CR) outside quotes; a row must end with LF or CRLF"
    return f"no CSV ({error})"


class _Fit(NamedTuple):
    """How well a delimiter fits the rows of a sample: better ones are greater."""

    chosen: bool  # whether the first row has the source and target columns
    same: float  # the part of the rows with as many fields as the first
    quotes: int  # minus the quotes that are left in the fields: where a delimiter is the true one, they enclose fields


_STATED = "a first line sep=; (or another character) states what is between fields"


def _delimiter(sample: Sequence[str], name: str, columns: Columns | None) -> str:
    """Return the only delimiter that fits a sample; if none does, the best one, with which a row is an error."""
    fits = {delimiter: _fit(sample, delimiter, name, columns) for delimiter in _DELIMITERS}
    plausible = {key: fit for key, fit in fits.items() if fit.chosen and fit.same >= _PLAUSIBLE}
    if not plausible:
        return max(fits, key=fits.__getitem__)
    most = max(fit.quotes for fit in plausible.values())
    best = [delimiter for delimiter, fit in plausible.items() if fit.quotes == most]
    if len(best) > 1:
        names = " or a ".join(_DELIMITERS[delimiter] for delimiter in best)
        _check.fail(f"{name}: a {names} may be between fields, both fit", hint=_STATED)
    return best[0]


def _fit(sample: Sequence[str], delimiter: str, name: str, columns: Columns | None) -> _Fit:
    reader = csv.reader((f"{line}\n" for line in sample), delimiter=delimiter)
    rows = [row for row in _until_error(reader) if any(map(str.strip, row))]
    if len(rows) > 1 and (len(sample) >= _SAMPLE or sum(map(len, sample)) > _FIRST):
        rows.pop()  # which may go on after the sample
    first = _trimmed(rows[0], 2) if rows else []
    try:
        _choose(Record(1, first), name, columns)
    except ValueError:
        chosen = False
    else:
        chosen = True
    same = sum(len(_trimmed(row, len(first))) == len(first) > 1 for row in rows) / max(len(rows), 1)
    return _Fit(chosen, same, -sum(cell.count('"') for row in rows for cell in row))


def _until_error(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error:  # reported when the rows are read
        return


# ------------------------------------------------------------------------------------------------------ notes


def note_header(rows: Sequence[Record], name: str) -> None:
    """Warn if the first of rows looks like a header: two names, of which one is unlike what follows below it."""
    if len(rows) <= _FEWEST or any(len(row.cells) != 2 for row in rows[:1]):
        return
    names = [cell.strip('" \ufeff') for cell in rows[0].cells]
    below = [[row.cells[side] for row in rows[1:] if len(row.cells) == 2] for side in (0, 1)]
    if _are_names(names, below) and any(map(_is_unlike, names, below)):
        warnings.warn(
            f"{name}, line {rows[0].line} looks like the names of columns and is taken for a pair;"
            f" --columns {' '.join(map(_argument, names))} makes it a header",
            stacklevel=2,
        )


def _are_names(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether two different cells may be names: short, without punctuation, of words that do not come below."""
    known = [{word for cell in column for word in cell.casefold().split()} for column in below]
    new = (known[side].isdisjoint(cell.casefold().split()) for side, cell in enumerate(cells))
    return cells[0].casefold() != cells[1].casefold() and all(map(_NAME.fullmatch, cells)) and all(new)


def _is_unlike(name: str, column: Sequence[str]) -> bool:
    """Return whether nearly all cells of a column are longer than a name, in another script or case."""
    scripts = _scripts(name)
    unlike = (
        sum(len(cell.split()) > len(name.split()) or len(cell) > 2 * len(name) for cell in column),
        sum(scripts.isdisjoint(_scripts(cell)) for cell in column),
        sum(cell.strip()[:1].isupper() is not name[:1].isupper() for cell in column),
    )
    return max(unlike) >= _MOST * len(column) > 0


def _scripts(text: str) -> set[str]:
    """Return the scripts of the letters of a text, as the names of its first letters begin."""
    return {unicodedata.name(letter, "").partition(" ")[0] for letter in text[:20] if letter.isalpha()}


def _with_note(rows: Iterable[Record], name: str) -> Iterator[Record]:
    """Yield rows, and warn as soon as enough are known if the first looks like a header."""
    first: list[Record] = []
    for row in rows:
        if len(first) < COMPARED:
            first.append(row)
            if len(first) == COMPARED:
                note_header(first, name)
        yield row
    if len(first) < COMPARED:
        note_header(first, name)


def _argument(name: str) -> str:
    return f'"{name}"' if " " in name else name


def note_quotes(quoted: int, fields: int, name: str) -> None:
    """Warn if most fields of a TAB-separated file are quoted."""
    if 2 * quoted > fields:
        warnings.warn(
            f"{name}: {quoted} of {fields} fields are in quotes, which are learned as text; in a file whose name"
            " ends in .csv they only enclose a field",
            stacklevel=2,
        )


def is_quoted(cell: str) -> bool:
    """Return whether a field begins and ends with a double quote."""
    return len(cell) > 1 and cell[0] == cell[-1] == '"'

"""Tables: CSV as spreadsheets write it, columns by name or number, and warnings of headers and quotes."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.cli import main
from regard.seq2seq.corpus.pairs import Skipped, read_pairs
from regard.seq2seq.corpus.tables import Record, records

TWO = [("the black, cat", 'le "chat" noir'), ("a dog", "un chien")]
ROWS = [["id", "fr", "en"], ["1", TWO[0][1], TWO[0][0]], ["2", TWO[1][1], TWO[1][0]]]


def written(rows: list[list[str]], **options: object) -> bytes:
    """What Python's csv module writes, an independent writer of the format."""
    text = io.StringIO()
    csv.writer(text, **options).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue().encode()


def saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("columns", [["en", "fr"], [3, 2], ["3", "2"], [" EN", "Fr"]])
def test_a_spreadsheets_columns(delimiter: str, columns: list[str | int], tmp_path: Path) -> None:
    rows = ROWS[isinstance(columns[0], int) or columns[0].isdigit() :]
    quotings = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]
    for quoting, end, mark in itertools.product(quotings, ["\r\n", "\n"], [b"", b"\xef\xbb\xbf"]):
        data = mark + written(rows, delimiter=delimiter, quoting=quoting, lineterminator=end)
        plain, packed = saved(tmp_path / "p.csv", data), saved(tmp_path / "P.CSV.GZ", gzip.compress(data))
        assert read_pairs(plain, columns=columns) == TWO, (quoting, end, mark)
        assert read_pairs(packed, columns=columns) == TWO, (quoting, end, mark)


@pytest.mark.slow
@given(
    rows=st.lists(
        st.tuples(*[st.text("ab ,;\t\"'\n.é", min_size=1).filter(lambda cell: bool(cell.strip()))] * 2),
        min_size=1,
    ),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_every_field_is_read_as_one_line(rows: list[tuple[str, str]], quoting: int) -> None:
    header = ["source side", "target side"]
    data = written([header, *map(list, rows)], quoting=quoting)
    stream = io.BytesIO(data)
    stream.name = "p.csv"
    result = read_pairs(stream, columns=header)
    assert result == [tuple(" ".join(filter_ends(cell)) for cell in row) for row in rows]


def filter_ends(cell: str) -> list[str]:
    """The parts of a cell between runs of line ends."""
    while "\n\n" in cell:
        cell = cell.replace("\n\n", "\n")
    return cell.split("\n")


def test_two_columns_without_a_header(tmp_path: Path) -> None:
    data = b"the cat,le chat\nthe dog,le chien\n"
    expected = [("the cat", "le chat"), ("the dog", "le chien")]
    assert read_pairs(saved(tmp_path / "p.csv", data)) == expected
    data = b"Hello, world;Bonjour, le monde\nYes;Oui\n"
    expected = [("Hello, world", "Bonjour, le monde"), ("Yes", "Oui")]
    assert read_pairs(saved(tmp_path / "p.csv", data)) == expected
    assert read_pairs(saved(tmp_path / "p.csv", b'sep=;\r\n"a";b\r\n')) == [("a", "b")]
    assert read_pairs(saved(tmp_path / "p.csv", b"a,b,,\nc,d,,\n")) == [("a", "b"), ("c", "d")]


def test_lines_with_tabs_have_columns_too(tmp_path: Path) -> None:
    path = saved(tmp_path / "p.tsv", b'id\ten\tfr\n1\t"a\tb\n\n2\tc\td\n')
    left_out: list[Skipped] = []
    assert read_pairs(path, columns=["fr", "en"], skipped=left_out.append) == [("b", '"a'), ("d", "c")]
    assert left_out == [Skipped(3, "empty; expected a source and a target", str(path))]


WRONG = {
    b"id,en,fr\n1,a,b\n": (
        None,
        ", line 1: expected 2 columns, found 3 ('id', 'en', 'fr')\n  hint: choose two with --columns",
    ),
    b"a:b\n": (
        None,
        ", line 1: expected 2 columns, found 1 ('a:b')\n"
        "  hint: a first line sep=; (or another character) states what is between fields",
    ),
    b"id,en,fr\n1,c,d\n": (
        ["en", "de"],
        ", line 1: no column is called 'de'; the first row has 'id', 'en', 'fr'",
    ),
    b"a,b\nc,d\n": ([1, 3], ", line 1: there is no column 3; there are 2"),
    b"a,b\nd,e\n": ([0, 1], ", line 1: there is no column 0; there are 2"),
    b"en,en\na,b\n": (["en", "fr"], ", line 1: 'en' is the name of several columns\n  hint: give numbers"),
    b'a,b\n"c\nd",e\nf,g,h\n': (None, ", line 4: 3 columns, but the first row has 2"),
    b"a,b\nc\nd,e\n": (None, ", line 2: 1 column, but the first row has 2"),
    b'a,b\n"c,d\ne,f\n': (None, ", line 2: a quote is opened and not closed"),
    b'a,b\n"c"d,e\n': (
        None,
        ', line 2: text follows a closing quote; a quote inside quotes is written twice ("")',
    ),
    b"a,b\n,\nc,d\n": (None, ", line 2: empty; expected a source and a target"),
    b"a,b\nc, \n": (None, ", line 2: the target is empty"),
    b'a,b\n"c\n\n",d\ne\xe9,f\n': (
        None,
        ", line 5: not UTF-8 (byte 2 is 0xe9)\n  hint: --encoding of the command names another, such as windows-1252",
    ),
    b"": (None, " holds no sentence pairs: it is empty"),
}


@pytest.mark.parametrize("data", WRONG, ids=repr)
def test_errors_have_the_number_of_the_line(data: bytes, tmp_path: Path) -> None:
    path = saved(tmp_path / "p.csv", data)
    columns, text = WRONG[data]
    with pytest.raises(ValueError) as caught:
        read_pairs(path, columns=columns)
    assert str(caught.value) == f"{path}{text}"


@pytest.mark.parametrize("columns", [["1+2", "3"], ["lemma+tags", "form"], ["Lemma+TAGS", "form"]])
def test_a_side_of_several_columns(columns: list[str], tmp_path: Path) -> None:
    header = [] if columns[0] == "1+2" else ["lemma\ttags\tform"]
    lines = [*header, "walk\tV;PST\twalked", "go \t V;PST\twent", "be\t \tbe"]
    path = saved(tmp_path / "p.tsv", "\n".join(lines).encode())
    expected = [("walk V;PST", "walked"), ("go V;PST", "went"), ("be", "be")]
    assert read_pairs(path, columns=columns) == expected
    csv_path = saved(tmp_path / "p.csv", written([line.split("\t") for line in lines]))
    assert read_pairs(csv_path, columns=columns) == expected


def test_a_column_may_have_a_plus_in_its_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "p.tsv", b"a+b\ta\tb\n1\t2\t3\n")
    assert read_pairs(path, columns=["a+b", "b"]) == [("1", "3")]
    for columns, error in ((["1+9", "2"], "there is no column 9"), (["a+c", "b"], "no column is called 'c'")):
        with pytest.raises(ValueError, match=error):
            read_pairs(path, columns=columns)


def test_columns_are_two() -> None:
    for wrong in (["en"], ["en", "en"], "en", [1, 1], [1, 2, 3], ["1", "01"], [1, "1"]):
        with pytest.raises(ValueError, match=r"^columns must be two different names or numbers\. Got "):
            list(records(["a\tb"], "p.tsv", wrong))
    with pytest.raises(ValueError, match=r"^columns must be two names or two numbers\. Got '1' and a name"):
        list(records(["a\tb"], "p.tsv", ["1", "b"]))


@pytest.mark.parametrize(
    ("columns", "known"),
    [
        (["en", "EN"], "en,fr"),
        ([" fr", "fr "], "en,fr"),
        (["\u00e9", "e\u0301"], "\u00e9,fr"),
    ],
)
def test_two_spellings_of_one_column_are_refused(columns: list[str], known: str) -> None:
    with pytest.raises(ValueError, match=r"columns must be two different ones\..* both column [12]\."):
        list(records([known, "a,b"], "p.csv", columns))
    assert list(records(["en,EN", "a,b"], "p.csv", ["EN", "en"])) == [Record(2, ["b", "a"])]


PAIR = "mot1;word 1, yes"
NAMES = {",": "comma", ";": "semicolon", "\t": "TAB", "|": "vertical bar"}


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(NAMES, 2)))
@pytest.mark.parametrize("rows", [1, 3, 150])
def test_two_delimiters_that_fit_are_an_error(one: str, two: str, rows: int) -> None:
    lines = [PAIR.replace(",", "\x01").replace(";", two).replace("\x01", one)] * rows
    with pytest.raises(ValueError, match=rf"p\.csv: a {NAMES[one]} or a {NAMES[two]} may be .*\n.* sep=; "):
        list(records(lines, "p.csv"))
    for delimiter in (one, two):
        stated = records([f"sep={delimiter}", *lines], "p.csv")
        assert [row.cells for row in stated] == [lines[0].split(delimiter)] * rows


@pytest.mark.parametrize(
    ("lines", "columns", "delimiter"),
    [
        ([PAIR, "mot2;word"], None, ";"),  # one line decides
        (["fr;en", PAIR], ["en", "fr"], ";"),  # a header
        (["fr;en", PAIR], ["EN", "Fr"], ";"),
        (['mot;"word, yes"'], None, ";"),  # quotes
        (['"mot, 1";"word, yes"'], None, ";"),
        (['"he said ""a, b""";"il dit ""c, d"""'], None, ";"),
        (['"a;b",c'], None, ","),
        (["1,5;2,5"], None, ";"),  # decimal commas
        (["a|b", "c|d"], None, "|"),
        (["a\tb", "c, d\te"], None, "\t"),
        (["a,b,,", "c; d,e,,"], None, ","),  # trailing empty fields
        (["x;y;z, w", "a;b;c"], [1, 3], ";"),
    ],
)
def test_one_line_header_or_quote_decides_the_delimiter(
    lines: list[str], columns: list[str | int] | None, delimiter: str
) -> None:
    expected = list(csv.reader(lines, delimiter=delimiter))
    chosen = [0, 1] if columns is None or isinstance(columns[0], str) else [int(one) - 1 for one in columns]
    if columns is not None and isinstance(columns[0], str):
        expected, chosen = expected[1:], [1, 0]
    assert [row.cells for row in records(lines, "p.csv", columns)] == [
        [row[i] for i in chosen] for row in expected
    ]


@pytest.mark.parametrize(
    ("lines", "columns"),
    [
        (["1,5;2,5"], [1, 2]),  # of two columns or three
        ([f"a{i};b, c" for i in range(50)] + ["x;y;z, w"], None),  # one row with a fault
        (['"yes", he said;oui', "a, b;c"], None),  # quotes that are text
        (['a, "b; c"'], None),
    ],
)
def test_a_doubtful_delimiter_is_an_error(lines: list[str], columns: list[str | int] | None) -> None:
    with pytest.raises(ValueError, match=r"a comma or a semicolon may be"):
        list(records(lines, "p.csv", columns))


@pytest.mark.slow
@given(
    rows=st.lists(
        st.tuples(*[st.text('ab ,;|\t"', min_size=1).filter(lambda cell: bool(cell.strip()))] * 2),
        min_size=1,
        max_size=6,
    ),
    delimiter=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
@example(
    rows=[("a", "b"), *[(";", ";")] * 5], delimiter=",", quoting=csv.QUOTE_MINIMAL
)  # also looks like a header
@pytest.mark.filterwarnings("ignore:.*looks like the names of columns and is taken for a pair")
def test_a_delimiter_is_never_mistaken_in_silence(
    rows: list[tuple[str, str]], delimiter: str, quoting: int
) -> None:
    lines = written(list(map(list, rows)), delimiter=delimiter, quoting=quoting).decode().split("\r\n")[:-1]
    try:
        result = [row.cells for row in records(lines, "p.csv")]
    except ValueError:  # it is not silent
        return
    assert result == list(map(list, rows))


def test_a_long_field_is_read(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    csv.field_size_limit(131072)
    try:
        path = saved(tmp_path / "p.csv", b"a,b\n" + b"c" * 200_000 + b",d\n")
        assert read_pairs(path)[1] == ("c" * 200_000, "d")
        saved(path, b'a,b\n"' + b"c\n" * 600_000 + b'",d\n')
        with pytest.raises(ValueError, match="line 2: a field has more than 1048576 characters, or a quote"):
            read_pairs(path)
    finally:
        csv.field_size_limit(before)


def test_a_carriage_return_within_a_row_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "p.csv", b"a,b\rc,d\n")
    with pytest.raises(ValueError, match=r"line 1: a carriage return \(CR\) outside quotes"):
        read_pairs(path)


SENTENCES = [
    *(
        "the cat sleeps\tle chat dort",
        "I see a dog\tje vois un chien",
        "it rains again today\til pleut encore",
    ),
    *(
        "we are at home\tnous voilà chez nous",
        "who is it?\tqui est-ce donc ?",
        "three old houses\ttrois vieilles maisons",
    ),
]
NOUNS = [
    "house\tHaus",
    "dog\tHund",
    "tree\tBaum",
    "light\tLicht",
    "water\tWasser",
    "hand\tHand",
    "year\tJahr",
]
SOUNDS = ["cat\tk æ t", "dog\td ɒ g", "tack\tt æ k", "god\tg ɒ d", "tad\tt æ d", "cot\tk ɒ t"]
CYRILLIC = ["cat\tкот", "dog\tпёс", "house\tдом", "forest\tлес", "nose\tнос", "mouth\tрот"]
JAPANESE = [
    "猫が外で寝ている\tneko ga soto de",
    "今日はまた雨です\tkyō wa mata ame",
    "犬が見えますか\tinu ga miemasu ka",
] * 2


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        *(
            (first, SENTENCES)
            for first in ("en\tfr", "English\tFrench", "source\ttarget", "src_text\ttgt_text")
        ),
        *(
            (first, SENTENCES)
            for first in ("Englisch\tDeutsch", "Текст\tПеревод", "lähde\tkohde", "French (FR)\tkey")
        ),
        *((first, NOUNS) for first in ("Englisch\tDeutsch", "en\tde", "singular\tplural")),
        *((first, SOUNDS) for first in ('"word"\t"pronunciation"', "sana\tääntämys", "Wort\tLaute")),
        ("english\trussian", CYRILLIC),
        ("日本語\tローマ字", JAPANESE),
    ],
)
@pytest.mark.parametrize("name", ["p.tsv", "p.csv"])
def test_a_first_line_like_a_header_is_noted(first: str, rows: list[str], name: str, tmp_path: Path) -> None:
    path = saved(tmp_path / name, "\n".join([first, *rows, ""]).encode())
    with pytest.warns(UserWarning, match=r"p\.[ct]sv, line 1 looks like the names of columns") as noted:
        assert len(read_pairs(path)) == len(rows) + 1
    assert len(noted) == 1


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        *(
            (first, SENTENCES)
            for first in ("Go.\tVa !", "the cat\tle chat", "I see\tje vois", "1\t2", "en\ten", "I\tje")
        ),
        *((first, NOUNS) for first in ("sun\tSonne", "hand\tHand")),
        *((first, SOUNDS) for first in ("a\tæ", "sag\ts æ g")),
        ("moth\tмоль", CYRILLIC),
        ("en\tfr", SENTENCES[:4]),  # too few to compare with
    ],
)
@pytest.mark.parametrize("name", ["p.tsv", "p.csv"])
def test_pairs_are_not_taken_for_a_header(first: str, rows: list[str], name: str, tmp_path: Path) -> None:
    path = saved(tmp_path / name, "\n".join([first, *rows, ""]).encode())
    assert len(read_pairs(path)) == len(rows) + 1  # a warning would be an error


def test_a_header_is_noted_as_soon_as_it_is_known(tmp_path: Path) -> None:
    """Before an error in a later row."""
    lines = ["en,fr", *["the cat sleeps,le chat dort"] * 120, '"']
    rows = records(lines, str(tmp_path / "p.csv"))
    with pytest.warns(UserWarning, match="names of columns"):
        assert [next(rows).line for _ in range(110)][-1] == 110


def test_empty_lines_before_the_first_row_are_lines(tmp_path: Path) -> None:
    path = saved(tmp_path / "p.csv", b"\n,\nen,fr\na,b\n")
    assert read_pairs(path, columns=["fr", "en"]) == [("b", "a")]
    with pytest.raises(ValueError, match=r"line 1: empty; expected a source and a target$"):
        read_pairs(saved(path, b"\n,\nthe cat,b\n"))
    with pytest.raises(ValueError, match=r"line 1: empty"):
        read_pairs(saved(path, b"\n,\n"))


def test_quotes_around_most_fields_are_noted(tmp_path: Path) -> None:
    path = saved(tmp_path / "p.tsv", b'"a"\t"b"\n"c"\td\n')
    with pytest.warns(UserWarning, match=r"p\.tsv: 3 of 4 fields are in quotes, which are learned as text"):
        assert read_pairs(path) == [('"a"', '"b"'), ('"c"', "d")]
    assert read_pairs(saved(path, b'"a"\tb\nc\t"d"\n')) == [('"a"', "b"), ("c", '"d"')]


# --------------------------------------------------------------------------------------------------- the verbs


@pytest.mark.slow
def test_train_evaluate_and_align_read_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["fr", "en"], *([f"mot{i % 5}, x", f'word{i % 5} "x"'] for i in range(40))]
    path = saved(tmp_path / "p.csv", written(rows, delimiter=";"))
    out = str(tmp_path / "m")
    columns = ["--columns", "en", "fr"]
    options = ["--valid", str(path), "--test", str(path), "--epochs", "1", "--out", out]
    assert main(["train", str(path), *columns, *options]) == 0
    assert "40 training pairs" in capsys.readouterr().err
    assert main(["evaluate", out, str(path), *columns]) == 0
    assert "40 items" in capsys.readouterr().out
    assert main(["align", out, str(path), *columns]) == 0
    assert capsys.readouterr().out.count("\n") == 40
    saved(path, written(rows[:3], delimiter=";") + b"a;b;c\n")
    assert main(["align", out, str(path), *columns]) == 2
    out_text, err = capsys.readouterr()
    assert out_text.count("\n") == 3
    assert err == f"regard align: error: {path}, line 4: 3 columns, but the first row has 2\n"


def test_columns_are_of_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "a", "b", "--columns", "1", "2"]) == 2
    message = "regard train: error: --columns needs one file of pairs. PAIRS has 2 instead.\n"
    assert capsys.readouterr().err == message
    arguments = ["train", "a.csv", "--links", "l", "--skip-empty"]
    assert main(arguments) == 2
    assert "--links with --skip-empty needs pairs with TABs and no header" in capsys.readouterr().err

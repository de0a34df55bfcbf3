"""CSV and JSON lines, without a database."""

import csv
import io
import itertools
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotis.data.tables.schema import ColumnType
from pilotis.data.transfer import formats, lines
from pilotis.data.transfer.formats import CsvReader, CsvWriter, JsonLinesReader, Record, json_of_fields
from tests.whole import times

TYPES = {"t": ColumnType.STRING, "n": ColumnType.NUMBER, "b": ColumnType.BOOLEAN, "o": ColumnType.OBJECT}


def read(text: bytes, cuts: list[int] | None = None, reader=None) -> list[Record]:
    """Read a text in the pieces that cuts make of it."""
    reader = reader or CsvReader()
    bounds = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts or [])})
    pieces = [text[begin:end] for begin, end in itertools.pairwise(bounds)]
    return [record for piece in pieces for record in reader.feed(piece)] + list(reader.finish())


def fields(text: bytes) -> list[list[str] | str]:
    """What is read: the fields, or the code of the error."""
    return [record.error.code if record.error else list(record.fields) for record in read(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a,b\r\nc,d\r\n", [["a", "b"], ["c", "d"]]),
        (b"a,b\nc,d", [["a", "b"], ["c", "d"]]),
        (b"\xef\xbb\xbfa,b\n", [["a", "b"]]),
        (b'"a,1","b""q"""\n', [["a,1", 'b"q"']]),
        (b'"line 1\r\nline 2",x\n"y\n\nz",\n', [["line 1\r\nline 2", "x"], ["y\n\nz", ""]]),
        (b"\n\na\n\r\n\nb\n", [["a"], ["b"]]),
        (b'""\n', [[""]]),
        (b'5" pipe,x\na,b\n', [['5" pipe', "x"], ["a", "b"]]),
        (b" a , b \n", [[" a ", " b "]]),
        ("가,é\n".encode(), [["가", "é"]]),
        (b"", []),
        (b'"a" b,c\nd,e\n', ["MALFORMED_RECORD", ["d", "e"]]),
        (b"a\rb,c\nd,e\n", ["MALFORMED_RECORD", ["d", "e"]]),
        (b'"never closed,c\nd,e\nf,g\n', ["MALFORMED_RECORD", ["d", "e"], ["f", "g"]]),
        (b'x,"never closed\nd,e\n"f",g\n', ["MALFORMED_RECORD", ["d", "e"], ["f", "g"]]),
        (b"a,\xff\nb,c\n", ["NOT_UTF8", ["b", "c"]]),
        (b'a,"\xff\n"\nb,c\n', ["NOT_UTF8", "MALFORMED_RECORD", ["b", "c"]]),
    ],
)
def test_csv(text: bytes, expected: list):
    assert fields(text) == expected


def test_records_know_where_they_are():
    text = b'a,b\n"x\ny",1\n\n"bad" q\nz,2'
    found = read(text)
    assert [(record.line, record.last, record.end) for record in found] == [
        (1, 1, 4),
        (2, 3, 12),
        (5, 5, 21),
        (6, 6, len(text)),
    ]
    assert found[1].text == b'"x\ny",1\n'


def test_utf16_is_told_apart():
    for encoding in ("utf-16-le", "utf-16-be"):
        text = ("\ufeffa,b\n").encode(encoding)
        with pytest.raises(lines.NotUtf8Error, match="UTF-16"):
            read(text)


def test_a_line_without_end_is_one_rejected_record_and_is_not_kept(monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    monkeypatch.setattr(formats, "LONGEST", 1000)
    for reader in (CsvReader(), JsonLinesReader()):
        found = read(b"x" * 100_000 + b"\n{}\n", list(range(0, 100_000, 37)), reader)
        assert [record.error and record.error.code for record in found] == ["RECORD_TOO_LARGE", None]
        assert (found[0].end, found[1].line) == (100_001, 2)
    found = read(b'"' + b"line\n" * 1000 + b'end"\nlast\n')
    assert found[0].error.code == "RECORD_TOO_LARGE"
    assert [record.fields for record in found[1:-2]] == [["line"]] * 999
    assert found[-1].fields == ["last"]


def test_quotes_made_to_be_read_again_and_again_cost_no_more_than_a_bound(monkeypatch):
    monkeypatch.setattr(formats, "_RESCANNED_ANYWAY", 1000)
    text = b'a","\n' * 2000
    found = read(text)
    assert found[-1].end == len(text)
    assert all(record.error for record in found)
    assert b"".join(record.text for record in found) == text
    assert len(found) < 10


cells = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["", '"', '""', "\n", "\r\n", ",", '",\n"', "\\N", "\\"]
)


@given(st.lists(st.lists(cells, min_size=2, max_size=3), max_size=6), st.lists(st.integers(0, 500), max_size=5))
@settings(max_examples=times(80, whole=300), deadline=None)
def test_what_the_csv_module_writes_is_read_in_any_pieces(rows: list[list[str]], cuts: list[int]):
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    data = text.getvalue().encode()
    found = read(data, cuts)
    assert [list(record.fields) for record in found] == rows
    assert b"".join(record.text for record in found) == data


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
@settings(max_examples=times(80, whole=300), deadline=None)
def test_nothing_is_lost_of_any_bytes(data: bytes, cuts: list[int]):
    data = data.replace(b"\xff\xfe", b"").replace(b"\xfe\xff", b"").removeprefix(b"\xef\xbb\xbf")
    for reader in (CsvReader, JsonLinesReader):
        try:
            found = read(data, cuts, reader())
        except lines.NotUtf8Error:
            assert data.startswith((b"\xff\xfe", b"\xfe\xff"))
            return
        assert b"".join(b"".join(record.text.split()) for record in found) == b"".join(data.split())
        assert repr(found) == repr(read(data, [], reader()))
        assert [record.end for record in found] == sorted({record.end for record in found})


@given(st.lists(st.lists(cells, min_size=2, max_size=2), min_size=2, max_size=6), st.integers(0, 5))
@settings(max_examples=times(40, whole=100), deadline=None)
def test_reading_can_begin_after_any_record(rows: list[list[str]], index: int):
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    data = text.getvalue().encode()
    whole = read(data)
    at = whole[min(index, len(whole) - 1)]
    assert read(data[at.end :], [], CsvReader(",", at.end, at.last)) == whole[whole.index(at) + 1 :]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=("Cs",)), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=6) | st.from_regex(r"\\{0,4}N?", fullmatch=True)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "t": st.none() | texts,
            "n": st.none() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False),
            "b": st.none() | st.booleans(),
            "o": st.none() | st.dictionaries(st.text(max_size=3), json_values, max_size=3),
        },
    )
)
@settings(max_examples=times(100, whole=400), deadline=None)
def test_a_row_written_as_csv_is_read_as_it_was(row: dict):
    encode = msgspec.json.Encoder(decimal_format="number").encode
    raw = {name: msgspec.Raw(encode(value)) for name, value in row.items()}
    writer = CsvWriter(list(TYPES))
    text = writer.head() + writer.rows([raw])
    header, *records = read(text)
    assert list(header.fields) == list(TYPES)
    again = [
        msgspec.json.decode(json_of_fields(header.fields, TYPES, r.fields), type=dict[str, msgspec.Raw])
        for r in records
    ]
    assert [{name: bytes(value) for name, value in one.items()} for one in again] == [
        {name: bytes(value) for name, value in raw.items()}
    ]


@pytest.mark.parametrize(
    ("field", "type_", "expected"),
    [
        ("1.10", ColumnType.NUMBER, "1.10"),
        (" 7 ", ColumnType.INT, "7"),
        ("12345678901234567890.5", ColumnType.NUMBER, "12345678901234567890.5"),
        ("007", ColumnType.NUMBER, '"007"'),
        ("1,5", ColumnType.NUMBER, '"1,5"'),
        ("NaN", ColumnType.NUMBER, '"NaN"'),
        ("١", ColumnType.INT, '"١"'),
        ("True", ColumnType.BOOLEAN, "true"),
        ("Yes", ColumnType.BOOLEAN, "true"),
        ("no", ColumnType.BOOLEAN, "false"),
        ("1", ColumnType.BOOLEAN, "true"),
        ("0", ColumnType.BOOLEAN, "false"),
        ("maybe", ColumnType.BOOLEAN, '"maybe"'),
        ("007", ColumnType.STRING, '"007"'),
        ("007", None, '"007"'),
        (r"\\server\share", ColumnType.STRING, r'"\\\\server\\share"'),
        (r"\N", ColumnType.STRING, "null"),
        (r"\\N", ColumnType.STRING, r'"\\N"'),
        ("\\", ColumnType.STRING, '""'),
        ('{"a": 1.0}', ColumnType.OBJECT, '{"a": 1.0}'),
    ],
)
def test_a_field_as_json(field: str, type_: ColumnType | None, expected: str):
    types = {"x": type_} if type_ else {}
    assert json_of_fields(["x"], types, [field]).decode() == '{"x":' + expected + "}"


@pytest.mark.parametrize("field", ['{"a":1},"b":{', "{", '{"a":1}}', "nope"])
def test_a_field_cannot_end_the_object_it_is_put_into(field: str):
    with pytest.raises(formats.PilotisError, match="JSON of an object"):
        json_of_fields(["x"], {"x": ColumnType.OBJECT}, [field])


def test_json_lines():
    found = read(b'\xef\xbb\xbf{"a":1}\r\n\n  {"b":2}  \nnonsense\n[]', reader=JsonLinesReader())
    assert [(record.line, json.loads(record.text) if b"n" not in record.text else None) for record in found] == [
        (1, {"a": 1}),
        (3, {"b": 2}),
        (4, None),
        (5, []),
    ]

r"""Readers of records and writers of rows in the two formats, CSV and JSON lines. Pure.

**CSV** follows RFC 4180 in UTF-8: a header, fields quoted where they need it, line ends CRLF or LF, a byte-order mark
allowed. An empty field is an absent value, `\N` is null and `\` the empty text; a text that consists of backslashes,
or of backslashes and an `N`, is written with one more in front. Objects and arrays are JSON.

**JSON lines** has one object per line; a missing key is an absent value.
"""

from __future__ import annotations

import csv
import enum
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from pilotis.data.tables.schema import ColumnType
from pilotis.data.transfer.lines import LONGEST, Line, LineSplitter, NotUtf8Error
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, PayloadTooLargeError, PilotisError, invalid

# A process-wide limit; records are bounded here as they are read.
csv.field_size_limit(LONGEST)

_RESCANNED_ANYWAY = 64 * 1024 * 1024
_ESCAPED = re.compile(r"\\+N?")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
NULL = r"\N"
_EMPTY = "\\"
_BOOLEANS = {"true": b"true", "yes": b"true", "1": b"true", "false": b"false", "no": b"false", "0": b"false"}
# Including the full-width signs that spreadsheets in East Asian locales treat alike.
_FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")


class Format(enum.StrEnum):
    """The name of a format in options."""

    CSV = "csv"
    JSONL = "jsonl"


class MalformedRecordError(BadRequestError):
    """400 `MALFORMED_RECORD`: a line is not a valid record of the format."""

    code = "MALFORMED_RECORD"


class RecordTooLargeError(PayloadTooLargeError):
    """413 `RECORD_TOO_LARGE`: a line is longer than any row can be."""

    code = "RECORD_TOO_LARGE"
    message = f"A line has at most {LONGEST} bytes."


class Record(NamedTuple):
    """One record of a file. `line` is the number of its first line, `last` that of its last, `end` the byte after it.

    `fields` are the fields of a CSV record; `error` is set if it is invalid.
    """

    line: int
    last: int
    end: int
    text: bytes
    fields: Sequence[str] = ()
    error: PilotisError | None = None


class Reader(Protocol):
    """Reads records from chunks of bytes. Blank lines are skipped."""

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records that end in the chunk."""

    def finish(self) -> Iterator[Record]:
        """Yield what remains at the end."""


class JsonLinesReader:
    """Reads JSON lines. It can start in the middle of a file, at `offset`, after `number` lines."""

    def __init__(self, offset: int = 0, number: int = 0) -> None:
        self._lines = LineSplitter(offset, number)

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records that end in the chunk."""
        return self._records(self._lines.feed(chunk))

    def finish(self) -> Iterator[Record]:
        """Yield the last record, if its line does not end."""
        return self._records(self._lines.finish())

    def _records(self, lines: Iterable[Line]) -> Iterator[Record]:
        for number, end, text, is_whole in lines:
            if stripped := text.strip():
                error = None if is_whole else RecordTooLargeError()
                yield Record(number, number, end, stripped, error=error)


class CsvReader:
    """Reads CSV records, including the header. It can start in the middle of a file, at `offset`, after `number` lines.

    A quote that is never closed would swallow the rest of the file. So if a record of several lines is invalid, only
    its first line is rejected, and reading continues with the second.
    """

    def __init__(self, delimiter: str = ",", offset: int = 0, number: int = 0) -> None:
        self._lines = LineSplitter(offset, number)
        self._delimiter = delimiter
        self._open: list[Line] = []
        self._size = 0
        self._may_rescan = _RESCANNED_ANYWAY

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records that end in the chunk."""
        self._may_rescan += len(chunk)
        return self._records(deque(self._lines.feed(chunk)))

    def finish(self) -> Iterator[Record]:
        """Yield what remains; an unclosed quote is reported here."""
        yield from self._records(deque(self._lines.finish()))
        while self._open:
            error = MalformedRecordError("A quote is opened here and never closed.")
            rest: deque[Line] = deque()
            yield self._rejected(error, rest)
            yield from self._records(rest)

    def _records(self, lines: deque[Line]) -> Iterator[Record]:
        while lines:
            line = lines.popleft()
            if not line.is_whole and not self._open:
                yield Record(line.number, line.number, line.end, line.text, error=RecordTooLargeError())
                continue
            is_open = self._ends_inside_quotes(line.text, bool(self._open))
            self._open.append(line)
            self._size += len(line.text)
            if not line.is_whole or self._size > LONGEST:
                yield self._rejected(RecordTooLargeError(), lines)
            elif not is_open:
                record = self._parsed()
                if record is None:
                    self._clear()
                elif record.error is not None:
                    yield self._rejected(record.error, lines)
                else:
                    self._clear()
                    yield record

    def _ends_inside_quotes(self, text: bytes, inside: bool) -> bool:
        if b'"' not in text:
            return inside
        try:
            # Text inside quotes is already read as if it began with one.
            deque(self._reader([('"' if inside else "") + text.decode("latin-1")]), maxlen=0)
        except csv.Error as error:
            return "unexpected end of data" in str(error)
        return False

    def _parsed(self) -> Record | None:
        first, last = self._open[0], self._open[-1]
        text = b"".join([line.text for line in self._open])
        bounds = (first.number, last.number, last.end, text)
        try:
            fields = next(self._reader(_split(text.decode())), [])
        except UnicodeDecodeError:
            return Record(*bounds, error=NotUtf8Error())
        except csv.Error as error:
            return Record(*bounds, error=MalformedRecordError(f"The line is not valid CSV: {error}."))
        return Record(*bounds, fields) if fields else None

    def _reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self._delimiter, strict=True)

    def _rejected(self, error: PilotisError, lines: deque[Line]) -> Record:
        """Return the first open line as a rejected record and reread the others; reject all if that costs too much."""
        first, *others = self._open
        if self._size > self._may_rescan:
            text = b"".join([line.text for line in self._open])
            record = Record(first.number, self._open[-1].number, self._open[-1].end, text, error=error)
        else:
            self._may_rescan -= self._size
            lines.extendleft(reversed(others))
            record = Record(first.number, first.number, first.end, first.text, error=error)
        self._clear()
        return record

    def _clear(self) -> None:
        self._open, self._size = [], 0


def _split(text: str) -> Iterator[str]:
    """Return the lines of a text, split at line feeds only."""
    return iter(io.StringIO(text, newline="\n"))


def check_header(fields: Sequence[str]) -> None:
    """Raise a 400 error unless every column of a CSV header has a unique name."""
    if not all(fields):
        raise invalid("header", "The header has a column without a name.")
    if twice := {name for name in fields if fields.count(name) > 1}:
        raise invalid("header", f"The header has the column {min(twice)} twice.")


def json_of_fields(names: Sequence[str], types: Mapping[str, ColumnType], fields: Sequence[str]) -> bytes:
    """Return a CSV record as a JSON object; a column without a type is a text.

    A field that is not a value of its type becomes a text, which row validation then rejects.
    """
    if len(fields) != len(names):
        raise MalformedRecordError(f"The line has {len(fields)} fields, the header {len(names)}.")
    members = [
        json.encode(name) + b":" + _json_of(name, field, types.get(name))
        for name, field in zip(names, fields, strict=True)
        if field
    ]
    return b"{" + b",".join(members) + b"}"


def _json_of(name: str, field: str, type_: ColumnType | None) -> bytes:
    if _ESCAPED.fullmatch(field):
        if field == NULL:
            return b"null"
        field = field[1:]
    elif type_ is ColumnType.INT or type_ is ColumnType.NUMBER:
        if is_number(field):
            return field.strip().encode()
    elif type_ is ColumnType.BOOLEAN:
        if (word := _BOOLEANS.get(field.strip().lower())) is not None:
            return word
    elif type_ is ColumnType.OBJECT or type_ is ColumnType.ARRAY:
        # Checked here, so that it cannot break out of the object around it.
        try:
            json.decode(field.encode())
        except PilotisError:
            raise invalid(name, f"{name}: JSON of an {type_.value} is expected.", "INVALID_TYPE") from None
        return field.encode()
    return json.encode(field)


def is_number(field: str) -> bool:
    """Return whether a field is a JSON number (RFC 8259, section 6), optionally surrounded by spaces."""
    return _NUMBER.fullmatch(field.strip()) is not None


class CsvWriter:
    """Writes rows as CSV, columns in order.

    With `neutralise_formulas`, texts that a spreadsheet would evaluate are prefixed with an apostrophe.
    """

    def __init__(self, columns: Sequence[str], *, neutralise_formulas: bool = False) -> None:
        self._columns = columns
        self._field = _escape_formula if neutralise_formulas else _field

    def head(self) -> bytes:
        """Return the header."""
        return _csv([self._columns])

    def rows(self, rows: Iterable[Mapping[str, msgspec.Raw]]) -> bytes:
        """Return rows' lines."""
        return _csv([[self._field(row.get(name)) for name in self._columns] for row in rows])


class JsonLinesWriter:
    """Writes rows as JSON lines."""

    def head(self) -> bytes:
        """Return nothing: there is no header."""
        return b""

    def rows(self, rows: Iterable[Mapping[str, msgspec.Raw]]) -> bytes:
        """Return rows' lines."""
        return b"".join([json.encode(row) + b"\n" for row in rows])


def _csv(lines: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(lines)
    return text.getvalue().encode()


def _escape_formula(value: msgspec.Raw | None) -> str:
    """Return a field that spreadsheets do not treat as a formula (OWASP, CSV Injection); numbers stay numbers."""
    field = _field(value)
    is_text = value is not None and bytes(value)[:1] == b'"'
    return f"'{field}" if is_text and field.startswith(_FORMULA_STARTS) else field


def _field(value: msgspec.Raw | None) -> str:
    if value is None:
        return ""
    text = bytes(value).decode()
    if text == "null":
        return NULL
    if text[0] != '"':
        return text
    plain: str = msgspec.json.decode(text)
    if not plain:
        return _EMPTY
    return "\\" + plain if _ESCAPED.fullmatch(plain) else plain

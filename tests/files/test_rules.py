"""The pure rules: names, links, media types, conditions and ranges, signatures."""

import re
import unicodedata
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.files import conditions, media, paths
from pilotis.files.errors import InvalidPathError, PreconditionNotMetError, RangeNotSatisfiableError
from pilotis.files.signatures import UrlSigner
from pilotis.kit.crypto import MasterKeyring, MasterKeys
from pilotis.kit.errors import ValidationError

NEVER = ["", ".", "..", "a/b", "a\\b", "\0", "a\nb", "\x7f", "\x85", "\u2028", "\u202egnp.exe", "a" * 256, "é" * 128]


@pytest.mark.advisory("GHSA-hm3f-q6rw-m6wh")
@pytest.mark.parametrize("name", NEVER)
def test_names_that_are_refused(name: str):
    with pytest.raises(InvalidPathError):
        paths.checked_name(name)


@pytest.mark.parametrize("name", ["a.png", "...", ".profile", "사진.png", "a b+c%d", "a" * 255, "é" * 127, "👩‍👩‍👧"])
def test_names_that_are_taken(name: str):
    assert paths.checked_name(name) == unicodedata.normalize("NFC", name)


def test_a_decomposed_name_is_composed():
    assert paths.checked_name("e\u0301.png") == "é.png"
    # 300 bytes as received, 200 as stored.
    assert paths.checked_name("e\u0301" * 100) == "é" * 100


@given(st.text())
def test_a_checked_path_stays_as_it_is_and_holds_no_steps(text: str):
    try:
        path = paths.checked_path(text)
    except InvalidPathError:
        return
    assert paths.checked_path(path) == path
    assert not {"", ".", ".."} & set(path.split("/"))
    assert len(path.encode()) <= 1024
    assert paths.fixed_link(UUID(int=1), path).isascii()


@pytest.mark.parametrize("path", ["/a", "a/", "a//b", "a/../b", "..", "/".join("a" * 33), "a" * 200 + "/" + "b/" * 500])
def test_paths_that_are_refused(path: str):
    with pytest.raises(InvalidPathError):
        paths.checked_path(path)


def test_the_folders_of_a_path():
    assert paths.folders_of("a/b/c.png") == ["a", "a/b"]
    assert paths.folders_of("c.png") == []
    assert paths.name_of("a/b/c.png") == "c.png"


@pytest.mark.parametrize(
    "text", ["", "image", "image/", "/png", "image/png\r\nX: y", "image/png;", "text/html; charset", "a" * 256, "é/a"]
)
def test_types_that_are_none(text: str):
    with pytest.raises(ValidationError):
        media.checked_type(text)


@pytest.mark.parametrize(
    ("mime_type", "patterns", "is_allowed"),
    [
        ("image/png", [], True),
        ("image/png", ["image/*"], True),
        ("IMAGE/PNG; q=1", ["image/png"], True),
        ("image/svg+xml", ["image/png"], False),
        ("imagex/png", ["image/*"], False),
        ("text/html", ["image/*"], False),
    ],
)
def test_patterns(mime_type: str, patterns: list[str], is_allowed: bool):
    assert media.is_allowed(mime_type, patterns) is is_allowed


@pytest.mark.parametrize(
    "mime_type",
    [
        "text/html",
        "TEXT/HTML",
        "text/html;x",
        "application/xhtml+xml",
        "text/xml",
        "application/xml",
        "text/plain",
        "application/javascript",
        "image/png; charset=utf-7",
        "application/pdf;x=y",
        "multipart/x-mixed-replace; boundary=a",
    ],
)
def test_what_might_run_is_saved(mime_type: str):
    assert media.disposition(mime_type, "x").startswith("attachment;")


@pytest.mark.advisory("parse-server#10237")
@pytest.mark.parametrize("name", ['a"b', "a\\b", "사진.png", "a;b.png", "100%.png", "é'*().png", "a\tb", "plain.png"])
def test_a_disposition_tells_the_name_back(name: str):
    header = media.disposition("image/png", name)
    assert header.isascii()
    assert header.isprintable()
    # RFC 6266, section 4.3: filename* counts where both are there.
    match = re.fullmatch(r"""inline; filename="([^"\\]*)"(; filename\*=UTF-8''([\w.~%-]*))?""", header)
    assert match
    assert (unquote(match[3]) if match[2] else match[1]) == name


MODIFIED = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
DATE = b"Fri, 02 Jan 2026 03:04:05 GMT"
EARLIER = b"Fri, 02 Jan 2026 03:04:04 GMT"


def evaluate(method: str = "GET", size: int = 1000, **headers: bytes) -> conditions.Answer:
    given = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return conditions.evaluate(method, given, etag='"abc"', modified_at=MODIFIED, size=size)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"if_none_match": b'"abc"'}, 304),
        ({"if_none_match": b'W/"abc"'}, 304),
        ({"if_none_match": b'"x", "abc"'}, 304),
        ({"if_none_match": b"*"}, 304),
        ({"if_none_match": b'"x"'}, 200),
        ({"if_none_match": b"abc"}, 200),
        ({"if_modified_since": DATE}, 304),
        ({"if_modified_since": EARLIER}, 200),
        ({"if_modified_since": b"nonsense"}, 200),
        # If-None-Match comes before If-Modified-Since, and alone decides.
        ({"if_none_match": b'"x"', "if_modified_since": DATE}, 200),
        ({"if_match": b'"abc"'}, 200),
        ({"if_match": b"*"}, 200),
        ({"if_match": b'"abc"', "if_unmodified_since": EARLIER}, 200),
        ({"if_unmodified_since": DATE}, 200),
        ({"if_match": b'"abc"', "if_none_match": b'"abc"'}, 304),
        ({"if_none_match": b'"abc"', "range": b"bytes=0-1"}, 304),
        ({"if_none_match": b'"x"', "range": b"bytes=0-1"}, 206),
        ({"range": b"bytes=0-1", "if_range": b'"abc"'}, 206),
        ({"range": b"bytes=0-1", "if_range": b'W/"abc"'}, 200),
        ({"range": b"bytes=0-1", "if_range": b'"x"'}, 200),
        ({"range": b"bytes=0-1", "if_range": DATE}, 206),
        ({"range": b"bytes=0-1", "if_range": EARLIER}, 200),
        ({"range": b"bytes=5000-", "if_range": b'"x"'}, 200),
    ],
)
def test_conditions_in_their_order(headers: dict[str, bytes], status: int):
    assert evaluate(**headers).status == status


@pytest.mark.parametrize(
    "headers", [{"if_match": b'"x"'}, {"if_match": b'W/"abc"x'}, {"if_unmodified_since": EARLIER}, {"if_match": b""}]
)
def test_preconditions_that_fail(headers: dict[str, bytes]):
    with pytest.raises(PreconditionNotMetError):
        evaluate(**headers)


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [
        (b"bytes=0-0", 0, 1),
        (b"bytes=0-", 0, 1000),
        (b"bytes=999-", 999, 1000),
        (b"bytes=10-5000", 10, 1000),
        (b"bytes=-1", 999, 1000),
        (b"bytes=-5000", 0, 1000),
        (b"BYTES = 1-2", 1, 3),
    ],
)
def test_ranges(wanted: bytes, start: int, end: int):
    assert evaluate(range=wanted) == (206, start, end)
    assert evaluate("HEAD", range=wanted) == (200, 0, 1000)


@pytest.mark.parametrize(
    "wanted", [b"bytes=1000-", b"bytes=-0", b"bytes=2-1", b"bytes=", b"bytes=-", b"bytes=a-b", b"bytes=" + b"9" * 30]
)
def test_ranges_that_are_not_there(wanted: bytes):
    with pytest.raises(RangeNotSatisfiableError) as caught:
        evaluate(range=wanted)
    assert caught.value.headers == {"Content-Range": "bytes */1000"}


@pytest.mark.advisory("CVE-2025-62727")
@pytest.mark.parametrize("wanted", [b"bytes=0-1,5-6", b"bytes=" + b"0-," * 5000 + b"0-", b"lines=1-2", b"nonsense"])
def test_what_gets_the_whole(wanted: bytes):
    assert evaluate(range=wanted) == (200, 0, 1000)


@given(st.binary(max_size=60), st.integers(0, 100))
def test_any_range_is_answered_with_bytes_that_are_there(wanted: bytes, size: int):
    try:
        answer = evaluate(size=size, range=b"bytes=" + wanted)
    except RangeNotSatisfiableError:
        return
    assert 0 <= answer.start <= answer.end <= size
    assert answer.status == 200 or answer.end > answer.start


def test_an_empty_file_has_no_range():
    assert evaluate(size=0) == (200, 0, 0)
    with pytest.raises(RangeNotSatisfiableError):
        evaluate(size=0, range=b"bytes=0-")


def test_dates_come_as_http_has_them():
    assert conditions.http_date(MODIFIED + timedelta(seconds=0)).encode() == DATE


def signer_of(master_key: bytes) -> UrlSigner:
    return UrlSigner(MasterKeyring(MasterKeys(master_key)))


def test_signatures_differ_by_everything_they_are_about():
    signer, other = signer_of(b"a" * 32), signer_of(b"b" * 32)
    one, two = UUID(int=1), UUID(int=2)
    made = [
        signer.upload(one, 1, 2, "image/png"),
        signer.upload(two, 1, 2, "image/png"),
        signer.upload(one, 2, 2, "image/png"),
        signer.upload(one, 1, 3, "image/png"),
        signer.upload(one, 1, 2, "image/gif"),
        other.upload(one, 1, 2, "image/png"),
        signer.read(one, two, 1),
        signer.read(two, one, 1),
        signer.read(one, two, 2),
    ]
    assert len(set(made)) == len(made)
    assert signer.accepts_upload(made[0], one, 1, 2, "image/png")
    assert signer.accepts_read(made[6], one, two, 1)
    assert not signer.accepts_upload("é", one, 1, 2, "image/png")
    assert not other.accepts_upload(made[0], one, 1, 2, "image/png")
    rotated = UrlSigner(MasterKeyring(MasterKeys(b"b" * 32, b"a" * 32)))
    assert rotated.accepts_upload(made[0], one, 1, 2, "image/png")
    assert rotated.upload(one, 1, 2, "image/png") == made[5]

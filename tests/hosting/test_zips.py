"""Archives, good and hostile."""

import io
import struct
import tracemalloc

import pytest

from pilotis.hosting.errors import InvalidZipError, NoFilesError
from pilotis.hosting.zips import Archive, ZipLimits
from pilotis.kit.errors import PayloadTooLargeError
from tests.hosting.hostile import ENTRIES, HOSTILE, many, with_entry
from tests.hosting.sites import zipped

LIMITS = ZipLimits(files=100, file_bytes=5_000_000, total_bytes=8_000_000)


def opened(data: bytes, limits: ZipLimits = LIMITS) -> Archive:
    return Archive(io.BytesIO(data), limits)


def read_all(data: bytes) -> None:
    archive = opened(data)
    for entry in archive.entries:
        archive.read(entry)


def code_of(data: bytes) -> str:
    with pytest.raises(InvalidZipError) as raised:
        read_all(data)
    return raised.value.details[0].code


def test_files_are_read_in_the_order_of_their_paths():
    archive = opened(zipped({"b.txt": b"b", "a/index.html": b"a", "index.html": b"i"}))
    assert [(entry.path, archive.read(entry)) for entry in archive.entries] == [
        ("a/index.html", b"a"),
        ("b.txt", b"b"),
        ("index.html", b"i"),
    ]
    assert archive.warnings == []


@pytest.mark.advisory("PocketBase v0.22")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused(name):
    make, code = HOSTILE[name]
    assert code_of(make()) == code


@pytest.mark.parametrize("name", ["../x", "a/../../x", "\\x", "a\nb", "a//b", "./x", "x" * 300])
def test_names_that_are_no_paths_are_refused(name):
    assert code_of(with_entry(name)) == "INVALID_PATH"


@pytest.mark.parametrize(
    "data",
    [b"", b"PK", b"no archive", zipped({"a": b"x"})[:-30], b"PK\x05\x06" + bytes(5)],
    # An archive has the time in it, and ids are the same in each process.
    ids=["empty", "mark", "text", "cut", "end"],
)
def test_what_is_no_archive_is_refused(data):
    with pytest.raises(InvalidZipError):
        opened(data)


def test_too_much_is_refused():
    with pytest.raises(PayloadTooLargeError):
        opened(zipped({f"{number}.txt": b"x" for number in range(101)}))
    with pytest.raises(PayloadTooLargeError):
        opened(zipped({"index.html": b"x" * 100}), LIMITS._replace(file_bytes=99))
    with pytest.raises(PayloadTooLargeError):
        opened(zipped({"a": b"x" * 60, "b": b"x" * 60}), LIMITS._replace(total_bytes=100))


def test_a_hundred_thousand_entries_are_refused_without_an_object_for_each():
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 46 * ENTRIES, 0, 0)
    for data in (b"PK\x01\x02".ljust(46, b"\0") * ENTRIES + end, many()):
        tracemalloc.start()
        with pytest.raises(PayloadTooLargeError):
            opened(data)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < len(data) + 10_000_000


def test_junk_is_dropped_and_hidden_files_are_warned_of():
    files = {"index.html": b"x", "__MACOSX/._index.html": b"x", ".DS_Store": b"x", ".env": b"x"}
    archive = opened(zipped({**files, ".well-known/security.txt": b"x"}))
    assert [entry.path for entry in archive.entries] == [".well-known/security.txt", "index.html"]
    assert [(warning.code, warning.path) for warning in archive.warnings] == [("HIDDEN_FILE", ".env")]


def test_the_folder_around_everything_is_stripped():
    archive = opened(zipped({"dist/index.html": b"x", "dist/a/b.js": b"x", "__MACOSX/dist/._x": b"x"}))
    assert [entry.path for entry in archive.entries] == ["a/b.js", "index.html"]
    assert archive.warnings[0].code == "STRIPPED_PREFIX"


def test_an_archive_without_files():
    with pytest.raises(NoFilesError):
        opened(zipped({".DS_Store": b"x"}))

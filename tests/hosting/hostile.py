"""Archives that do harm, or would to a server that believes them."""

import io
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

from tests.hosting.sites import zipped

ENTRIES = 100_000


def with_entry(name: str, data: bytes = b"x", **attributes: Any) -> bytes:
    """An archive with an entry that zipfile itself would not write so, and a page."""
    buffer = io.BytesIO()
    info = zipfile.ZipInfo("placeholder")
    info.filename = info.orig_filename = name
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(info, data)
        archive.writestr("index.html", b"page")
    return buffer.getvalue()


def twice(*names: str) -> bytes:
    """An archive with several entries whose names may be the same."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        for name in names:
            archive.writestr(name, name.encode())
    return buffer.getvalue()


def encrypted() -> bytes:
    data = bytearray(with_entry("secret"))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def lying(size: int) -> bytes:
    """An archive whose directory says another size than the page of 100 bytes has."""
    data = bytearray(zipped({"index.html": b"x" * 100}))
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 24, size)
    return bytes(data)


def overlapping() -> bytes:
    data = bytearray(zipped({"a.html": b"x" * 100, "b.html": b"x" * 100}))
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    struct.pack_into("<L", data, second + 42, 5)
    return bytes(data)


def many() -> bytes:
    """A whole archive of very many small files."""
    return zipped({f"{number}.txt": b"" for number in range(ENTRIES)})


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "slip": (lambda: with_entry("../../etc/passwd"), "INVALID_PATH"),
    "slip with backslashes": (lambda: with_entry("..\\..\\x"), "INVALID_PATH"),
    "absolute": (lambda: with_entry("/etc/passwd"), "INVALID_PATH"),
    "drive": (lambda: with_entry("C:/x"), "INVALID_PATH"),
    "NUL": (lambda: with_entry("nulXhtml.html").replace(b"nulXhtml", b"nul\0html"), "INVALID_PATH"),
    "symlink": (lambda: with_entry("link", b"/etc/passwd", external_attr=(stat.S_IFLNK | 0o777) << 16), "NOT_A_FILE"),
    "device": (lambda: with_entry("null", external_attr=(stat.S_IFCHR | 0o666) << 16), "NOT_A_FILE"),
    "encrypted": (encrypted, "ENCRYPTED"),
    "method": (lambda: with_entry("x", compress_type=zipfile.ZIP_LZMA), "COMPRESSION"),
    "duplicate": (lambda: twice("index.html", "index.html"), "DUPLICATE"),
    "equal after NFC": (lambda: twice("caf\u00e9.html", "cafe\u0301.html"), "DUPLICATE"),
    "file and folder": (lambda: twice("a", "a/b"), "DUPLICATE"),
    "bomb": (lambda: zipped({"zeros": bytes(3_000_000)}), "RATIO"),
    "larger than it says": (lambda: lying(50), "DAMAGED"),
    "smaller than it says": (lambda: lying(500), "SIZE_MISMATCH"),
    "overlap": (overlapping, "OVERLAP"),
    "two names": (lambda: zipped({"aaaa.html": b"x"}).replace(b"aaaa.html", b"bbbb.html", 1), "HEADER_MISMATCH"),
}
"""By name: what makes the archive, and the code of the detail with which it is refused."""

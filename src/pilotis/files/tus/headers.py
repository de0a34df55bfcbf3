"""The headers of tus 1.0.0 (https://tus.io/protocols/resumable-upload). Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, NamedTuple

import msgspec

from pilotis.files.errors import ChecksumMismatchError, TusVersionError, UploadHeaderInvalidError
from pilotis.files.types import NewFixedUpload, NewUpload
from pilotis.kit import json
from pilotis.kit.errors import UnsupportedMediaTypeError

Headers = Mapping[bytes, bytes]

VERSION = b"1.0.0"
EXTENSIONS = b"creation,creation-with-upload,expiration,checksum,termination"
ALGORITHMS = ("md5", "sha1", "sha256")
OFFSET_TYPE = "application/offset+octet-stream"
_NUMBER = re.compile(rb"\d{1,16}")
_KEY = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_OF_FOLDERS = {"filename": "file_name", "parent_id": "parent_id", "sha256": "sha256"}
_OF_PATHS = {"filename": "file_name", "overwrite": "overwrite", "sha256": "sha256"}
_LONGEST_METADATA = 8192
_ANY_TYPE = "application/octet-stream"


class FixedUpload(NamedTuple):
    """A file to upload to a path."""

    path: str
    file: NewFixedUpload


class Checksum:
    """The checksum that a request declares for its body."""

    def __init__(self, algorithm: str, expected: bytes) -> None:
        self._hash = hashlib.new(algorithm, usedforsecurity=False)
        self._expected = expected

    async def watch(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        """Yield the same chunks; raises `ChecksumMismatchError` at the end if they do not match the checksum."""
        async for chunk in chunks:
            self._hash.update(chunk)
            yield chunk
        if not hmac.compare_digest(self._hash.digest(), self._expected):
            raise ChecksumMismatchError


def check_version(headers: Headers) -> None:
    """Raise `TusVersionError` unless the request is one of tus 1.0.0."""
    if headers.get(b"tus-resumable") != VERSION:
        raise TusVersionError


def check_type(headers: Headers) -> None:
    """Raise `UnsupportedMediaTypeError` unless the body has the content type of tus."""
    if headers.get(b"content-type", b"").decode("latin-1").strip().lower() != OFFSET_TYPE:
        raise UnsupportedMediaTypeError(f"The header Content-Type must be {OFFSET_TYPE}.")


def number(headers: Headers, name: str) -> int:
    """Return a header's number of bytes; raises `UploadHeaderInvalidError`."""
    text = headers.get(name.lower().encode(), b"")
    if _NUMBER.fullmatch(text) is None:
        raise UploadHeaderInvalidError(f"The header {name} must be a number of bytes, in digits.")
    return int(text)


def checksum(headers: Headers) -> Checksum | None:
    """Return the checksum of the body, if one is declared; raises `UploadHeaderInvalidError`."""
    text = headers.get(b"upload-checksum")
    if text is None:
        return None
    algorithm, _, encoded = text.decode("latin-1").partition(" ")
    if algorithm not in ALGORITHMS:
        raise UploadHeaderInvalidError(f"Upload-Checksum: the algorithm must be one of {', '.join(ALGORITHMS)}.")
    expected = _base64(encoded)
    if expected is None or len(expected) != hashlib.new(algorithm, usedforsecurity=False).digest_size:
        raise UploadHeaderInvalidError(f"Upload-Checksum: a {algorithm} in Base64 is expected.")
    return Checksum(algorithm, expected)


def wanted(headers: Headers) -> NewUpload | FixedUpload:
    """Return the file that a creation request declares.

    Raises `UploadHeaderInvalidError`, and `ValidationError` for a value that presigned-url would reject.
    """
    for name in (b"upload-defer-length", b"upload-concat"):
        if name in headers:
            raise UploadHeaderInvalidError(f"The header {name.decode().title()} is of an extension not offered here.")
    size = number(headers, "Upload-Length")
    given = metadata(headers)
    path = given.get("path")
    if path is None and "overwrite" in given:
        raise UploadHeaderInvalidError("Upload-Metadata: overwrite needs a path.")
    if path is not None and "parent_id" in given:
        raise UploadHeaderInvalidError("Upload-Metadata: parent_id and path exclude each other.")
    names = _OF_FOLDERS if path is None else _OF_PATHS
    values: dict[str, Any] = {ours: given[theirs] for theirs, ours in names.items() if given.get(theirs)}
    values |= {"file_size": size, "mime_type": given.get("filetype") or _ANY_TYPE}
    if "overwrite" in values:
        values["overwrite"] = {"true": True, "false": False}.get(values["overwrite"], values["overwrite"])
    try:
        if path is None:
            return msgspec.convert(values, NewUpload)
        return FixedUpload(path, msgspec.convert(values, NewFixedUpload))
    except msgspec.ValidationError as error:
        raise json.field_error(error, NewUpload if path is None else NewFixedUpload) from None


def metadata_text(headers: Headers) -> str:
    """Return `Upload-Metadata` as sent; raises `UploadHeaderInvalidError` if it is too long."""
    text = headers.get(b"upload-metadata", b"")
    if len(text) > _LONGEST_METADATA:
        raise UploadHeaderInvalidError(f"Upload-Metadata has at most {_LONGEST_METADATA} bytes.")
    return text.decode("latin-1").strip()


def metadata(headers: Headers) -> dict[str, str]:
    """Return the pairs of `Upload-Metadata`; raises `UploadHeaderInvalidError`."""
    text = metadata_text(headers)
    found: dict[str, str] = {}
    for pair in text.split(",") if text else ():
        key, _, encoded = pair.strip().partition(" ")
        if _KEY.fullmatch(key) is None or key in found:
            raise UploadHeaderInvalidError("Upload-Metadata: keys must be ASCII without spaces, each given once.")
        found[key] = _text(key, encoded.strip())
    return found


def has_body(headers: Headers) -> bool:
    """Return whether the request has a body (RFC 9112, section 6.3)."""
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _text(key: str, encoded: str) -> str:
    value = _base64(encoded)
    try:
        if value is not None:
            return value.decode()
    except UnicodeDecodeError:
        pass
    raise UploadHeaderInvalidError(f"Upload-Metadata: the value of {key} must be UTF-8 in Base64.")


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None

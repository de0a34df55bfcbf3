"""The JavaScript client at `/sdk`: each version at an address of its own, and the newest at that of its major version.

The files of a version never change, so that a page can name their digest (`integrity`) and outlive an upgrade. They are
built from `clients/js`.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from pilotis.http.replies.reply import Reply
from pilotis.kit import json

_FOLDER = resources.files("pilotis.http.reference") / "client"
_TYPES = {"js": b"text/javascript; charset=utf-8", "ts": b"application/typescript; charset=utf-8"}
_NAMES = {"pilotis.js", "pilotis.d.ts", "account.js"}
_MAJOR = re.compile(r"v([0-9]{1,4})")
_IMMUTABLE = b"public, max-age=31536000, immutable"


class ClientFile(NamedTuple):
    """A file of the client: its content, the same compressed, its type and its entity tag (RFC 9110, section 8.8.3)."""

    content: bytes
    gzipped: bytes
    content_type: bytes
    etag: bytes


@functools.cache
def client_versions() -> list[str]:
    """Return the versions of the client, the newest first."""
    found = (folder.name for folder in _FOLDER.iterdir() if folder.is_dir())
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


@functools.cache
def _file(version: str, name: str) -> ClientFile:
    content = (_FOLDER / version / name).read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()}"'.encode()
    return ClientFile(content, gzip.compress(content, mtime=0), _TYPES[name.rpartition(".")[2]], etag)


@functools.cache
def _account_script() -> bytes:
    return (_FOLDER / client_versions()[0] / "account.js").read_bytes()


def account_script(url: str, key: str | None) -> bytes:
    """Return the newest `account.js` as a site has it, which knows the server's address and a public key of the app."""
    return b"var pilotisAccount=%b;\n%b" % (json.encode({"url": url, "key": key}), _account_script())


def client_file(version: str, name: str, headers: Mapping[bytes, bytes]) -> Reply | None:
    """Return the answer with a file of a version, such as `1.0.0`, or of the newest one of `v1`; None if there is none.

    `headers` are those of the request.
    """
    major = _MAJOR.fullmatch(version)
    versions = [one for one in client_versions() if one == version or (major and one.startswith(f"{major[1]}."))]
    if not versions or name not in _NAMES:
        return None
    file = _file(versions[0], name)
    caching = b"no-cache" if major else _IMMUTABLE
    answered = [
        (b"cache-control", caching),
        (b"etag", file.etag),
        (b"vary", b"accept-encoding"),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-resource-policy", b"cross-origin"),
    ]
    if name == "pilotis.js":
        # Where Deno finds the types.
        answered.append((b"x-typescript-types", b"./pilotis.d.ts"))
    if file.etag in headers.get(b"if-none-match", b""):
        return Reply(b"", 304, answered)
    if b"gzip" in headers.get(b"accept-encoding", b""):
        return Reply(file.gzipped, headers=[*answered, (b"content-encoding", b"gzip")], content_type=file.content_type)
    return Reply(file.content, headers=answered, content_type=file.content_type)

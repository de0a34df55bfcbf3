"""A registry of npm and PyPI packages on loopback. It has what the ordinary clients of this machine find, once."""

import functools
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

from tests import shared
from tests.serving import serving
from tests.shared import NPM, PIP

_ABSENT = "@example/"
_FIELDS = ["name", "version", "dist", "dependencies", "os", "cpu", "bin", "scripts", "optionalDependencies"]


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, folder: Path, lock: threading.Lock, *arguments: object) -> None:
        self.folder, self.lock = folder, lock
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0]).strip("/")
        with self.lock:
            body = self._simple(path) if path.startswith("simple/") else self._file(path) or self._manifest(path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html" if path.startswith("simple/") else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, path: str) -> bytes:
        name = path.rpartition("/")[2]
        file = self.folder / name
        if path.startswith("wheels/"):
            return (file if file.exists() else _wheels[name]).read_bytes()
        if not path.startswith("tarballs/"):
            return b""
        package, version = path.removeprefix("tarballs/").rsplit("/", 1)
        return _packed(f"{package}@{version.removesuffix('.tgz')}")

    def _manifest(self, name: str) -> bytes:
        if name.startswith(_ABSENT):
            return b""
        said = json.loads(_viewed(name))
        versions = {one["version"]: one for one in (said if isinstance(said, list) else [said])}
        for version, one in versions.items():
            dist = {key: one["dist"][key] for key in ("integrity", "shasum") if key in one["dist"]}
            host = self.headers["Host"]
            one["dist"] = {**dist, "tarball": f"http://{host}/tarballs/{name}/{version}.tgz"}
        return json.dumps({"name": name, "versions": versions, "dist-tags": {"latest": list(versions)[-1]}}).encode()

    def _simple(self, path: str) -> bytes:
        wanted = _normal(path.removeprefix("simple/"))
        found = [one.name for one in self.folder.glob("*.whl") if _package(one.name) == wanted]
        if not found and not [name for name in _wheels if _package(name) == wanted]:
            _wheels.update({one.name: one for one in _downloaded(wanted).glob("*.whl")})
        found = found or [name for name in _wheels if _package(name) == wanted]
        return "".join(f'<a href="/wheels/{name}">{name}</a>\n' for name in found).encode()

    def log_message(self, *arguments: object) -> None:
        pass


@functools.cache
def _packed(package: str) -> bytes:
    def make(folder: Path) -> None:
        shared.install(["npm", "pack", *NPM, package], folder)

    (packed,) = shared.kept("npm-pack", package, make).glob("*.tgz")
    return packed.read_bytes()


@functools.cache
def _viewed(name: str) -> str:
    def make(folder: Path) -> None:
        said = shared.output(["npm", "view", *NPM, f"{name}@>=0", *_FIELDS, "--json"], folder)
        (folder / "said.json").write_text(said or "[]")

    return (shared.kept("npm-view", name, make) / "said.json").read_text()


_wheels: dict[str, Path] = {}
"""Those that were downloaded."""


def _downloaded(package: str) -> Path:
    """A folder with the newest wheel of a package, and those that it needs."""

    def make(folder: Path) -> None:
        shared.install([sys.executable, "-m", "pip", "download", *PIP, "--only-binary", ":all:", package], folder)

    return shared.kept("wheels", package + sys.version, make)


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Serve a registry, which caches packages in a folder; yields its URL, below which PyPI is at `/simple`."""
    with serving(partial(_Handler, folder, threading.Lock())) as url:
        yield url


def _package(wheel: str) -> str:
    return _normal(wheel.split("-")[0])


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")

"""A registry of npm and PyPI packages on loopback. It has what the ordinary clients of this machine find."""

import functools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

from tests.serving import serving
from tests.shared import NPM, PIP, SECONDS_TO_INSTALL

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
            return file.read_bytes()
        if not path.startswith("tarballs/"):
            return b""
        package, version = path.removeprefix("tarballs/").rsplit("/", 1)
        return _packed(self.folder, f"{package}@{version.removesuffix('.tgz')}")

    def _manifest(self, name: str) -> bytes:
        said = json.loads(_viewed(self.folder, name))
        versions = {one["version"]: one for one in (said if isinstance(said, list) else [said])}
        for version, one in versions.items():
            dist = {key: one["dist"][key] for key in ("integrity", "shasum") if key in one["dist"]}
            host = self.headers["Host"]
            one["dist"] = {**dist, "tarball": f"http://{host}/tarballs/{name}/{version}.tgz"}
        return json.dumps({"name": name, "versions": versions, "dist-tags": {"latest": list(versions)[-1]}}).encode()

    def _simple(self, path: str) -> bytes:
        wanted = path.removeprefix("simple/")
        found = [one.name for one in self.folder.glob("*.whl") if _normal(one.name.split("-")[0]) == _normal(wanted)]
        if not found:
            _ran(sys.executable, "-m", "pip", "download", *PIP, "--only-binary", ":all:", wanted, cwd=self.folder)
            found = [
                one.name for one in self.folder.glob("*.whl") if _normal(one.name.split("-")[0]) == _normal(wanted)
            ]
        return "".join(f'<a href="/wheels/{name}">{name}</a>\n' for name in found).encode()

    def log_message(self, *arguments: object) -> None:
        pass


@functools.cache
def _packed(folder: Path, package: str) -> bytes:
    _ran("npm", "pack", *NPM, package, cwd=folder)
    return max(folder.glob("*.tgz"), key=lambda one: one.stat().st_mtime_ns).read_bytes()


@functools.cache
def _viewed(folder: Path, name: str) -> str:
    return _ran("npm", "view", *NPM, f"{name}@>=0", *_FIELDS, "--json", cwd=folder) or "[]"


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Serve a registry, which caches packages in a folder; yields its URL, below which PyPI is at `/simple`."""
    with serving(partial(_Handler, folder, threading.Lock())) as url:
        yield url


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _ran(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=SECONDS_TO_INSTALL)
    assert done.returncode == 0, done.stderr
    return done.stdout

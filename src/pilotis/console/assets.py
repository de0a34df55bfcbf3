"""The console's files: read once, addressed by the hash of all of them, each compressed once."""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cached_property
from html import escape
from importlib import resources
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath

import msgspec

# Run before the entry, as soon as it has arrived with the few modules that it imports.
BEGIN = "state/begin.js"
ENTRY = "app.js"
_TYPES = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
    "woff2": b"font/woff2",
}
_COMPRESSED = frozenset({"css", "js", "json", "svg", "txt"})
_STATIC_IMPORT = re.compile(r"^(?:import|export)\b[^;'\"(]*?[\"'](\.{1,2}/[^\"']+)[\"'];?", re.MULTILINE)
_SCREEN = re.compile(r'^\s*\["(/[^"]*)", \(\) => import\("(\./[^"]+)"\)\]', re.MULTILINE)


class Asset(msgspec.Struct, frozen=True):
    """A file as it is sent; `gzipped` is None if compression does not help."""

    content: bytes
    content_type: bytes
    gzipped: bytes | None


class Assets:
    """All files below a folder, by relative path."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._folder = folder or resources.files("pilotis.console") / "static"
        self._compressed: dict[str, Asset] = {}
        self._pages: dict[str, bytes] = {}

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        return dict(_walk(self._folder, ""))

    @cached_property
    def version(self) -> str:
        """The hash of all names and contents, which changes with any of them."""
        digest = hashlib.sha256()
        for path, content in sorted(self._contents.items()):
            digest.update(f"{path}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()[:16]

    def get(self, path: str) -> Asset | None:
        """Return a file, or None."""
        found = self._compressed.get(path)
        if found is None and (content := self._contents.get(path)) is not None:
            suffix = path.rpartition(".")[2]
            zipped = gzip.compress(content, 9, mtime=0) if suffix in _COMPRESSED else None
            found = Asset(content, _TYPES.get(suffix, b"application/octet-stream"), zipped)
            self._compressed[path] = found
        return found

    def page(self, path: str) -> bytes:
        """Return the page with the addresses of this version's files.

        It names the modules that the screen at a path below `/console` needs, so that the browser fetches them at once.
        """
        screen = next((module for pattern, module in self._screens if pattern.fullmatch(path)), "")
        if screen not in self._pages:
            base = f"/console/assets/{self.version}"
            modules = self.modules_of(*filter(None, (BEGIN, ENTRY, screen)))
            preloads = "\n".join(f'<link rel="modulepreload" href="{base}/{escape(module)}">' for module in modules)
            text = self._contents["index.html"].decode().replace("{base}", base).replace("{version}", self.version)
            self._pages[screen] = text.replace("{preloads}", preloads).encode()
        return self._pages[screen]

    @cached_property
    def _screens(self) -> list[tuple[re.Pattern[str], str]]:
        """Return the pattern of each screen's paths, and its module, as the entry lists them."""
        found = _SCREEN.findall(self._contents[ENTRY].decode())
        return [(re.compile(re.sub(r":\w+", "[^/]+", path.rstrip("/")) + "/?"), normpath(name)) for path, name in found]

    def modules_of(self, *entries: str) -> list[str]:
        """Return modules with those that they import directly or indirectly.

        Screens are imported when they are opened.
        """
        found: dict[str, None] = {}
        waiting = list(entries)
        while waiting:
            path = waiting.pop(0)
            if path not in found:
                found[path] = None
                imported = _STATIC_IMPORT.findall(self._contents[path].decode())
                waiting += [normpath(join(dirname(path), target)) for target in imported]
        return list(found)


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        path = prefix + entry.name
        if entry.is_dir():
            files += _walk(entry, f"{path}/")
        else:
            files.append((path, entry.read_bytes()))
    return files

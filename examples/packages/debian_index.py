"""Debian package indices as rows: stanzas of `Field: value` lines (Debian Policy, section 5.1)."""

import gzip
import lzma
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

LISTS = Path("/var/lib/apt/lists")
APT_HELPER = "/usr/lib/apt/apt-helper"

SCHEMA = {
    "name": {"type": "string", "required": True},
    "version": {"type": "string", "required": True},
    "architecture": {"type": "string", "required": True},
    "section": "string",
    "maintainer": "string",
    "description": "string",
    "homepage": "string",
    "size": {"type": "int", "description": "Bytes of the package file"},
    "installed_size": {"type": "int", "description": "KiB on disk, about"},
    "tags": "array",
}

_TEXTS = {
    "package": "name",
    "version": "version",
    "architecture": "architecture",
    "section": "section",
    "maintainer": "maintainer",
    "description": "description",
    "homepage": "homepage",
}
_NUMBERS = {"size": "size", "installed-size": "installed_size"}


def indices() -> list[Path]:
    """Return the package indices that `apt-get update` has left on this machine."""
    return sorted(path for path in LISTS.glob("*_Packages*") if path.suffix in {"", ".gz", ".xz", ".lz4"})


def packages(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the packages of an index, plain or compressed, as rows of `SCHEMA`. Absent fields stay absent."""
    if path.suffix == ".lz4":
        # Only apt itself is sure to be there to read this one.
        with subprocess.Popen([APT_HELPER, "cat-file", path], stdout=subprocess.PIPE, encoding="utf-8") as helper:
            assert helper.stdout is not None
            yield from _rows(helper.stdout)
        if helper.returncode:
            raise OSError(f"{APT_HELPER} could not read {path}.")
        return
    open_ = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with open_(path, "rt", encoding="utf-8") as text:
        yield from _rows(text)


def stanzas(text: TextIO) -> Iterator[dict[str, str]]:
    """Yield each stanza with its field names in lower case; a line that begins with a space continues the last one."""
    stanza: dict[str, str] = {}
    name = ""
    for line in text:
        line = line.rstrip("\n")
        if not line.strip():
            if stanza:
                yield stanza
            stanza = {}
        elif line[0] in " \t":
            stanza[name] += "\n" + line.strip()
        else:
            name, _, value = line.partition(":")
            name = name.lower()
            stanza[name] = value.strip()
    if stanza:
        yield stanza


def _rows(text: TextIO) -> Iterator[dict[str, Any]]:
    for stanza in stanzas(text):
        row: dict[str, Any] = {column: stanza[field] for field, column in _TEXTS.items() if field in stanza}
        row |= {column: int(stanza[field]) for field, column in _NUMBERS.items() if field in stanza}
        if "tag" in stanza:
            row["tags"] = [tag.strip() for tag in stanza["tag"].replace("\n", " ").split(",") if tag.strip()]
        yield row

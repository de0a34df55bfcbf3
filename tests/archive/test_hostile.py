"""Archives that are cut off, damaged or forged are refused with a sentence, and leave nothing."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotis.archive import lines
from pilotis.archive.changes import fresh_id
from pilotis.archive.errors import InvalidArchiveError
from pilotis.archive.format import BLOCK, ArchiveReader, ArchiveWriter, header
from tests import commands
from tests.archive.shop import Shop, imported
from tests.backstage import run_sql
from tests.conftest import new_app
from tests.support import Server
from tests.whole import sample, times

Parts = dict[str, bytes]


@pytest.fixture(scope="module")
async def parts(server: Server, console: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """The parts of an archive without secrets, so that no passphrase guards it."""
    shop = await Shop(new_app(server, console)).fill()
    path = tmp_path_factory.mktemp("hostile") / "shop.pilotis"
    done = commands.run(
        "app", "export", shop.app.app_id, "--to", str(path), "--without-secrets", *server.place, "--json"
    )
    assert done.returncode == 0, done.stderr
    with path.open("rb") as file:
        found = ArchiveReader(file)
        return {
            **{name: found.whole(name, 1 << 30) for name in found.parts if not name.startswith("manifest")},
            **{f"blobs/{name}": b"".join(found.chunks_of(part)) for name, part in found.each_blob()},
            "manifest.json": found.whole("manifest.json", 1 << 30),
        }


def written(path: Path, parts: Parts) -> Path:
    with ArchiveWriter(path) as archive:
        for name, data in parts.items():
            archive.whole(name, data)
            if name == "manifest.json":
                archive.whole("manifest.mac", hashlib.sha256(data).hexdigest().encode())
        archive.finish()
    return path


def changed(parts: Parts, name: str, change: Callable[[list[list[str]]], Any]) -> Parts:
    """The parts with other rows in one, and a manifest that vouches for them."""
    rows = [line.split("\t") for line in gzip.decompress(parts[name]).decode().split("\n")[:-1]]
    rows = change(rows) or rows
    data = gzip.compress("".join("\t".join(row) + "\n" for row in rows).encode())
    return vouched({**parts, name: data}, {name: {"rows": len(rows)}})


def vouched(parts: Parts, more: dict[str, dict[str, Any]] | None = None, **fields: Any) -> Parts:
    manifest = json.loads(parts["manifest.json"])
    for part in manifest["parts"]:
        if (data := parts.get(part["name"])) is not None:
            part |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} | (more or {}).get(
                part["name"], {}
            )
    blobs = {name: data for name, data in parts.items() if name.startswith("blobs/")}
    manifest |= {"blobs": len(blobs), "blob_bytes": sum(map(len, blobs.values()))} | fields
    return {
        **{name: data for name, data in parts.items() if name != "manifest.json"},
        "manifest.json": json.dumps(manifest).encode(),
    }


def column(parts: Parts, name: str, wanted: str) -> int:
    (part,) = (part for part in json.loads(parts["manifest.json"])["parts"] if part["name"] == name)
    return part["columns"].index(wanted)


def stored(server: Server) -> set[Path]:
    """The blobs of a server."""
    return {path for path in (server.data_dir / "blobs" / "objects").rglob("*") if path.is_file()}


async def refused(server: Server, path: Path) -> str:
    """Import an archive, which must fail with a sentence and leave no app and no bytes."""
    query = "select (select count(*) from pilotis.apps) + (select count(*) from pg_namespace)"
    before, blobs = await run_sql(server, query), stored(server)
    done = imported(server, path, passphrase="")
    assert done.returncode == 1, done
    assert done.stderr.startswith("pilotis: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert await run_sql(server, query) == before
    assert stored(server) == blobs
    return done.stderr


async def test_the_same_parts_are_an_app(server: Server, parts: Parts, tmp_path: Path):
    done = imported(server, written(tmp_path / "a", vouched(parts)), passphrase="")
    assert done.returncode == 0, done.stderr


def row_of(name: str, wanted: str, value: str) -> Callable[[Parts], Parts]:
    """Set a column of the first row of a part that has one."""

    def forge(parts: Parts) -> Parts:
        at = column(parts, name, wanted)

        def change(rows: list[list[str]]) -> None:
            row = next(row for row in rows if row[at] != "\\N")
            row[at] = value

        return changed(parts, name, change)

    return forge


def bomb(parts: Parts) -> Parts:
    name = next(name for name in parts if name.startswith("rows/"))
    return vouched({**parts, name: gzip.compress(bytes(300 << 20))}, {name: {"rows": 1}})


def zip_bomb() -> str:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("index.js", bytes(300 << 20))
    return "\\\\x" + target.getvalue().hex()


def without(prefix: str) -> Callable[[Parts], Parts]:
    def forge(parts: Parts) -> Parts:
        name = next(name for name in parts if name.startswith(prefix))
        return {one: data for one, data in parts.items() if one != name}

    return forge


def other_bytes(parts: Parts) -> Parts:
    name = next(name for name in parts if name.startswith("blobs/"))
    return {**parts, name: bytes(len(parts[name]))}


def unnamed_bytes(parts: Parts) -> Parts:
    blobs = {name: data for name, data in parts.items() if name.startswith("blobs/")}
    blobs[f"blobs/{hashlib.sha256(b'mine').hexdigest()}"] = b"mine"
    rows = {name: data for name, data in parts.items() if name.endswith(".gz")}
    return vouched({**rows, **dict(sorted(blobs.items())), "manifest.json": parts["manifest.json"]})


def more_columns(table: str, *names: str) -> Callable[[Parts], Parts]:
    def forge(parts: Parts) -> Parts:
        part = f"server/{table}.copy.gz"
        forged = changed(parts, part, lambda rows: [[*row, *("x" for _ in names)] for row in rows])
        manifest = json.loads(forged["manifest.json"])
        for one in manifest["parts"]:
            if one["name"] == part:
                one["columns"] += names
        return {**forged, "manifest.json": json.dumps(manifest).encode()}

    return forge


def deeper(parts: Parts) -> Parts:
    return vouched(parts, app={**json.loads(parts["manifest.json"])["app"], "limits": {"row_bytes": -1}})


def stranger(parts: Parts) -> Parts:
    return vouched({"server/app_users.copy.gz": gzip.compress(b"x\n"), **parts})


TABLES, COLUMNS = "server/tables.copy.gz", "server/columns.copy.gz"
HUGE = "$argon2id$v=19$m=4194304,t=3,p=1$" + "A" * 22 + "$" + "A" * 43
FORGED = {
    "a path that climbs": row_of("server/files.copy.gz", "path", "../../etc/passwd"),
    "a type with a line": row_of("server/files.copy.gz", "mime_type", "text/html\\r\\nset-cookie: a=b"),
    "a site's path": row_of("server/web_files.copy.gz", "path", "/etc/passwd"),
    "a site's type": row_of("server/web_files.copy.gz", "content_type", "text/html\\nx: y"),
    "a greedy password": row_of("server/members.copy.gz", "password_hash", HUGE),
    "a name of a column": row_of(COLUMNS, "name", 'x"; drop schema pilotis cascade; --'),
    "a reserved column": row_of(COLUMNS, "name", "__id"),
    "a type of a column": row_of(COLUMNS, "type", "money"),
    "a column without a number": row_of(COLUMNS, "number", "99"),
    "a key of no column": row_of(TABLES, "unique_keys", '[{"number":1,"name":"k","columns":[77]}]'),
    "a key with an operator": row_of(
        TABLES, "unique_keys", '[{"number":1,"name":"k","columns":[1],"where":{"1":{"$sql":"1"}}}]'
    ),
    "rules of no form": row_of(TABLES, "rules", '{"read": {"; select": 1}}'),
    "rules that are a text": row_of(TABLES, "rules", '"x"'),
    "a version": row_of(TABLES, "version", "0"),
    "a zip bomb": row_of("server/function_versions.copy.gz", "source", zip_bomb()),
    "a function's memory": row_of("server/functions.copy.gz", "memory_mb", "1000000"),
    "a reference to nobody": row_of(
        "server/columns.copy.gz", "references_table", "01900000-0000-7000-8000-000000000000"
    ),
    "a view of nothing": row_of("server/views.copy.gz", "pipeline", '[{"$evil": 1}]'),
    "an id that is none": row_of("server/files.copy.gz", "file_id", "nobody"),
    "a foreign app": more_columns("members", "app_id"),
    "a column that does not move": more_columns("file_storages", "used_bytes"),
    "owners": stranger,
    "a bomb": bomb,
    "no rows": without("rows/"),
    "no table": without("server/tables"),
    "no manifest": without("manifest"),
    "no bytes": without("blobs/"),
    "other bytes": other_bytes,
    "more bytes": unnamed_bytes,
    "limits": deeper,
    "an old format": lambda parts: vouched(parts, format=0),
    "a newer format": lambda parts: vouched(parts, format=2),
    "a newer schema": lambda parts: vouched(parts, schema=9999),
    "a manifest of text": lambda parts: {**parts, "manifest.json": b"{"},
    "more missing bytes": lambda parts: vouched(parts, missing_blobs=3),
}


@pytest.mark.share(0.34)
@pytest.mark.parametrize("forge", [pytest.param(forge, id=name) for name, forge in sample(list(FORGED.items()), 0.5)])
async def test_a_forged_archive_is_refused(
    forge: Callable[[Parts], Parts], server: Server, parts: Parts, tmp_path: Path
):
    await refused(server, written(tmp_path / "a", forge(parts)))


async def test_an_archive_that_was_cut_off_or_damaged_is_refused(server: Server, parts: Parts, tmp_path: Path):
    data = written(tmp_path / "whole", parts).read_bytes()
    chance = random.Random(1)
    path = tmp_path / "damaged"
    for _ in range(times(4, whole=60)):
        at = chance.randrange(len(data) - 2 * BLOCK)
        path.write_bytes(data[:at])
        await refused(server, path)
    for name in list(parts)[: times(3, whole=len(parts))]:
        at = data.index(name.encode()) + BLOCK + chance.randrange(len(parts[name]))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        await refused(server, path)


@pytest.mark.parametrize(
    "block",
    [
        header("../../etc/passwd", 0),
        header("/etc/passwd", 0),
        header("server/members.copy.gz/x", 0),
        header("rows/" + "0" * 31 + ".copy.gz", 0),
        header("server/tables.copy.gz", 1 << 60),
        header("server/tables.copy.gz", 5)[:156] + b"2" + header("server/tables.copy.gz", 5)[157:],
        b"PK\x03\x04".ljust(BLOCK, b"x"),
    ],
)
def test_a_part_that_leads_elsewhere_is_refused(block: bytes, tmp_path: Path):
    path = tmp_path / "a"
    path.write_bytes(block + bytes(4 * BLOCK))
    with path.open("rb") as file, pytest.raises(InvalidArchiveError):
        ArchiveReader(file)


def test_many_parts_take_no_memory(tmp_path: Path):
    path = tmp_path / "a"
    with path.open("wb") as file:
        for number in range(20_001):
            file.write(header(f"rows/{number:032x}.copy.gz", 0))
        file.write(bytes(2 * BLOCK))
    with path.open("rb") as file, pytest.raises(InvalidArchiveError, match="more than 20000 parts"):
        ArchiveReader(file)
    count = times(20_000, whole=1_000_000)
    with path.open("wb") as file:
        for number in range(count):
            file.write(header(f"blobs/{number:064x}", 0))
        file.write(bytes(2 * BLOCK))
    with path.open("rb") as file:
        found = ArchiveReader(file)
    assert (found.blob_count, found.parts) == (count, {})


@given(st.binary(max_size=4 * BLOCK))
def test_any_bytes_are_an_archive_or_refused(data: bytes):
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(InvalidArchiveError):
            ArchiveReader(file)


TEXTS = st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@given(st.lists(st.lists(TEXTS, min_size=3, max_size=3), min_size=1), st.integers(1, 7))
def test_texts_come_back_as_they_were(rows: list[list[str | None]], size: int):
    data = b"".join(b"\t".join(map(lines.value_of, row)) + b"\n" for row in rows)
    blocks = b"".join(lines.whole_lines(data[at : at + size] for at in range(0, len(data), size)))
    assert blocks == data
    seen: list[list[str | None]] = []

    def keep(values: list[bytes]) -> list[bytes]:
        seen.append([None if value == lines.NULL else lines.text_of(value) for value in values])
        return values

    assert lines.rewritten(data, 3, keep, b"") == data
    assert seen == rows


@settings(max_examples=times(200, whole=5000))
@given(st.binary())
def test_any_lines_are_those_of_copy_or_refused(data: bytes):
    try:
        for block in lines.whole_lines([data]):
            # Each line begins a row: no value reaches into the next line, nor past the end of the data.
            assert block.endswith(b"\n")
            assert b"\r" not in block
            for line in block.split(b"\n"):
                stripped = line.replace(b"\\\\", b"")
                assert not stripped.endswith(b"\\")
                assert stripped != b"\\."
    except InvalidArchiveError:
        pass


def test_a_row_without_end_is_refused():
    with pytest.raises(InvalidArchiveError, match="more than 10 bytes"):
        list(lines.whole_lines([b"x" * 6, b"x" * 6], 10))
    with pytest.raises(InvalidArchiveError, match="not complete"):
        list(lines.whole_lines([b"a\nb"]))


def test_fresh_ids_keep_their_order_and_are_the_same_each_time():
    salt, id_ = os.urandom(32), uuid4()
    new = fresh_id(id_, salt)
    assert new == fresh_id(id_, salt) != id_
    assert new.bytes[:6] == id_.bytes[:6]
    assert new.version == 7
    assert new != fresh_id(id_, os.urandom(32))

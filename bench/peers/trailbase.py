"""TrailBase with its data in a directory of its own, for the comparison by `bench.rivals` with `--trailbase PROGRAM`.

Its crate has no program, so one of a few lines makes it run; a `trail` of its own takes the same arguments. It is built
with `protoc` and libclang, of Debian's packages `protobuf-compiler` and `libclang-dev`:

    PATH=$PWD/bench/peers/trail:$PATH cargo install --path bench/peers/trail --root /tmp/peers
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench import data
from bench.load import Requests
from bench.peers.pocketbase import BULK, QUERY
from bench.peers.program import Program, free_address

_PATH = "/api/records/v1/measured"
_KINDS = {"int": "INTEGER", "number": "REAL", "boolean": "INTEGER"}
_CONFIGURATION = """
email {}
server { application_name: "bench" site_url: "http://localhost" logs_retention_sec: 604800 }
auth {}
jobs {}
record_apis: [{ name: "measured" table_name: "measured" acl_world: [CREATE, READ] }]
"""


class TrailBase(Program):
    """TrailBase with the rows of `bench.data` in a table that everybody may read and add to."""

    name = "TrailBase"

    def __init__(self, program: Path, directory: Path, rows: int) -> None:
        address = free_address()
        own = directory / "trailbase"
        (own / "migrations").mkdir(parents=True)
        (own / "config.textproto").write_text(_CONFIGURATION)
        columns = "".join(f", {name} {_KINDS.get(type_, 'TEXT')}" for name, type_ in data.SCHEMA.items())
        key = "id BLOB PRIMARY KEY NOT NULL CHECK (is_uuid_v7(id)) DEFAULT (uuid_v7())"
        table = f"CREATE TABLE measured ({key}{columns}) STRICT;"
        index = "CREATE INDEX found ON measured (city, active, age DESC);"
        (own / "migrations" / "U1700000000__measured.sql").write_text(f"{table}\n{index}\n")
        command: list[str | Path] = [program, "--data-dir", own, "run", "--address", address]
        super().__init__(command, address, "/api/healthcheck", directory / "trailbase.log")
        ids: list[str] = []
        for start in range(0, rows, BULK):
            batch = [_row(number) for number in range(start, min(start + BULK, rows))]
            made = self._client.post(self.url + _PATH, json=batch).raise_for_status()
            ids += made.json()["ids"]
        self.requests = {
            "row by id": _gets([f"{_PATH}/{row_id}" for row_id in ids]),
            "page 1 to 100": _gets([f"{_PATH}?limit=20&offset={offset}" for offset in range(0, min(rows, 2000), 20)]),
            QUERY: _gets([f"{_PATH}?{urlencode(_query(city))}" for city in data.CITIES]),
            "create": Requests("POST", [(_PATH, data.text(_row(number))) for number in range(5000)]),
            "bulk create": Requests("POST", [(_PATH, data.text([_row(number) for number in range(BULK)]))]),
        }


def _row(number: int) -> dict[str, Any]:
    """Return the row with what SQLite has no type for as a number or a text."""
    row = data.row(number)
    return {**row, "active": int(row["active"]), "tags": data.text(row["tags"])}


def _query(city: str) -> dict[str, Any]:
    return {"filter[city]": city, "filter[active]": 1, "order": "-age", "limit": 20, "count": "true"}


def _gets(paths: list[str]) -> Requests:
    return Requests("GET", [(path, "") for path in paths])

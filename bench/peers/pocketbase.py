"""PocketBase with its data in a directory of its own, for `bench.rivals`, `console`, `data2` and `realtime`.

Its program is PocketBase's example, installed outside the repository:

    GOBIN=/tmp/peers go install github.com/pocketbase/pocketbase/examples/base@v0.39.0
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench import data
from bench.load import Requests
from bench.peers.program import Program, free_address

SMALL, LARGE = 4_000, 5_000_000
FILES = 8
"""The number of files of each size; sizes in bytes."""
BULK = 1000
"""The rows that one request creates."""
QUERY = "two conditions, sorted, with total"
"""The case for which there is an index."""
_PASSWORD = "correct horse battery"
_KINDS = {"int": "number", "number": "number", "boolean": "bool", "date": "date", "array": "json", "string": "text"}
Json = dict[str, Any]


class Server(Program):
    """PocketBase without collections of ours, its data in a separate directory."""

    name = "PocketBase"

    def __init__(self, program: Path, directory: Path) -> None:
        address = free_address()
        own = [f"--dir={directory / 'pocketbase'}"]
        admin: Json = {"identity": "bench@example.com", "password": _PASSWORD}
        command: list[str | Path] = [program, "superuser", "upsert", admin["identity"], _PASSWORD, *own]
        subprocess.run(command, check=True, capture_output=True)
        command = [program, "serve", f"--http={address}", *own]
        super().__init__(command, address, "/api/health", directory / "pocketbase.log")
        token = self._post("/api/collections/_superusers/auth-with-password", admin)["token"]
        self.admin = {"Authorization": token}

    def _collection(self, name: str, fields: list[Json], indexes: Sequence[str] = ()) -> str:
        """Make a collection that everybody may read and add to, and return its id."""
        rules = dict.fromkeys(["listRule", "viewRule", "createRule"], "")
        made: Json = {"name": name, "type": "base", "fields": fields, "indexes": indexes, **rules}
        collection_id: str = self._post("/api/collections", made, self.admin)["id"]
        return collection_id

    def _allow_batches(self) -> None:
        most: Json = {"batch": {"enabled": True, "maxRequests": BULK, "timeout": 60, "maxBodySize": 0}}
        self._client.patch(f"{self.url}/api/settings", json=most, headers=self.admin).raise_for_status()

    def _post(self, path: str, body: Json, headers: Mapping[str, str] | None = None) -> Any:
        answer = self._client.post(self.url + path, json=body, headers=headers)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()


class PocketBase(Server):
    """The rows and files of `bench.rivals` in a collection."""

    def __init__(self, program: Path, directory: Path, rows: int) -> None:
        super().__init__(program, directory)
        fields: list[Json] = [{"name": name, "type": _KINDS[type_]} for name, type_ in data.SCHEMA.items()]
        fields.append({"name": "file", "type": "file", "maxSize": 2 * LARGE, "maxSelect": 1})
        self._collection("measured", fields, ["create index found on measured (city, active, age desc)"])
        path = _records("measured")
        with ThreadPoolExecutor(4) as pool:
            ids = list(pool.map(lambda number: self._post(path, data.row(number))["id"], range(rows)))
        self._allow_batches()
        bulk = [{"method": "POST", "url": path, "body": data.row(number)} for number in range(BULK)]
        pages = [f"{path}?page={page}&perPage=20&skipTotal=1" for page in range(1, min(rows, 2000) // 20 + 1)]
        self.requests = {
            "row by id": _gets(f"{path}/{row_id}" for row_id in ids),
            "page 1 to 100": _gets(pages),
            QUERY: _gets(f"{path}?{urlencode(_query(city))}" for city in data.CITIES),
            "create": Requests("POST", [(path, data.text(data.row(number))) for number in range(5000)]),
            "bulk create": Requests("POST", [("/api/batch", data.text({"requests": bulk}))]),
            "4 kB files": _gets(self._upload(path, os.urandom(SMALL)) for _ in range(FILES)),
            "5 MB files": _gets(self._upload(path, os.urandom(LARGE)) for _ in range(FILES)),
        }

    def _upload(self, path: str, content: bytes) -> str:
        answer = self._client.post(self.url + path, files={"file": ("large.bin", content)}).raise_for_status()
        made = answer.json()
        return f"/api/files/measured/{made['id']}/{made['file']}"


class RelatedPocketBase(Server):
    """The authors, items and comments of `bench.data2` in collections, with indexes on what is asked for."""

    def __init__(self, program: Path, directory: Path, authors: int, items: int, comments: int) -> None:
        super().__init__(program, directory)
        self._allow_batches()
        author = self._collection("authors", [{"name": "name", "type": "text"}, {"name": "n", "type": "number"}])
        fields: list[Json] = [
            {"name": "slug", "type": "text"},
            {"name": "author", "type": "relation", "collectionId": author, "maxSelect": 1},
            {"name": "n", "type": "number"},
        ]
        slug = "create unique index {0}_slug on {0} (slug)"
        item = self._collection("items", fields, [slug.format("items"), "create index items_n on items (n)"])
        self._collection("added", fields, [slug.format("added")])
        refers: Json = {"name": "item", "type": "relation", "collectionId": item, "maxSelect": 1}
        own = "create index comments_item on comments (item)"
        self._collection("comments", [refers, {"name": "n", "type": "number"}], [own])
        names = ({"name": f"author {number}", "n": number} for number in range(authors))
        self._authors = self._fill("authors", names)
        self._numbers = itertools.count()
        item_ids = self._fill("items", (self._item() for _ in range(items)))
        self._fill("comments", ({"item": row_id, "n": n} for row_id in item_ids for n in range(comments)))
        self._pages = range(1, items // 20 + 1)

    def requests(self, name: str, creates: int) -> Requests:
        """Return the requests of a case; of creates so many, each with a value of its own."""
        path = _records("items")
        found = [f"{path}?filter=(n={number})&perPage=20&skipTotal=1" for number in range(1000)]
        match name:
            case "create with a unique key":
                return Requests("POST", [(_records("added"), data.text(self._item())) for _ in range(creates)])
            case "query with authors":
                return _gets(f"{asked}&expand=author" for asked in found)
            case "query with 3 comments each":
                return _gets(f"{asked}&expand=comments_via_item" for asked in found)
            case _:
                return _gets(f"{path}?page={page}&perPage=20&skipTotal=1" for page in self._pages[-200:])

    def _item(self) -> Json:
        number = next(self._numbers)
        return {"slug": f"item-{number}", "author": self._authors[number % len(self._authors)], "n": number % 1000}

    def _fill(self, name: str, rows: Iterable[Json]) -> list[str]:
        """Create rows and return their ids."""
        ids: list[str] = []
        left = iter(rows)
        while batch := list(itertools.islice(left, BULK)):
            asked = [{"method": "POST", "url": _records(name), "body": row} for row in batch]
            ids += [made["body"]["id"] for made in self._post("/api/batch", {"requests": asked}, self.admin)]
        return ids


def _query(city: str) -> Json:
    return {"filter": f"(city='{city}' && active=true)", "sort": "-age", "perPage": 20}


def _records(name: str) -> str:
    return f"/api/collections/{name}/records"


def _gets(paths: Iterable[str]) -> Requests:
    return Requests("GET", [(path, "") for path in paths])

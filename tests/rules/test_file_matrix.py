"""Rules of file storages against the oracle: what files each caller lists, reads, uploads, replaces and deletes."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple
from uuid import uuid4

import asyncpg
import httpx
import pytest

from tests import databases
from tests.acceptance.test_files import PNG, storage
from tests.rules.oracle import NOT_FOUND, Denied, Oracle, Row, World
from tests.rules.test_file_rules import save
from tests.rules.test_matrix import ME, SIGNED_IN, outcome, same
from tests.support import App, Server

SEATED = {"$exists": {"table": "seats", "where": {"team": {"$row": "segment.0"}, "member": ME}}}
OF_DOCUMENT = {"$exists": {"table": "documents", "where": {"file": {"$row": "id"}, "state": "open"}}}
RULES: dict[str, dict[str, Any]] = {
    "null": same(None),
    "true": same(True),
    "drop box": {"create": True},
    "signed in": same(SIGNED_IN),
    "role": same({"$member": {"roles": {"$arrayContains": "helper"}}}),
    "claim": same({"segment.0": {"$member": "claims.team"}}),
    "absent claim": same({"$or": [{"folder": {"$ne": {"$member": "claims.none"}}}, {"mime_type": "image/gif"}]}),
    "own": same({"$creator": ME}),
    "of others": same({"$creator": {"$ne": ME}}),
    "own folder": same({"$or": [{"segment.0": ME}, {"path": ME}]}),
    "seated at all": same({"$exists": {"table": "seats", "where": {"member": ME}}}),
    "of the team": same({"$or": [{"mime_type": "image/gif"}, SEATED]}),
    "of a document": same(OF_DOCUMENT),
    "a text is the id": same({"$exists": {"table": "documents", "where": {"text": {"$row": "id"}}}}),
    "a name is an id": same({"$exists": {"table": "documents", "where": {"id": {"$row": "name"}}}}),
    "not banned": same(
        {**SIGNED_IN, "$not": {"$exists": {"table": "bans", "where": {"member": ME, "team": {"$row": "segment.0"}}}}}
    ),
    "two deep": same(
        {
            "$exists": {
                "table": "documents",
                "where": {
                    "file": {"$row": "id"},
                    "$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": ME}},
                },
            }
        }
    ),
    "closed list": {
        **same({"$exists": {"table": "seats", "where": {"$or": [{"team": {"$row": "segment.0"}}], "member": ME}}}),
        "list": None,
    },
    "narrow list": {**same(True), "list": {"size": {"$gt": 10}}},
    "old and new": {
        "read": {"mime_type": {"$ne": "image/gif"}},
        "create": {"size": {"$gt": 10}, "segment.1": {"$eq": None}},
        "update": {"$new": {"mime_type": {"$eq": {"$old": "mime_type"}}, "size": {"$gt": 10}}},
        "delete": {"$use": "mine"},
        "define": {"mine": {"$creator": ME}},
    },
}
CALLERS = ["public", "guest", "owner", "mate"]


class Place(NamedTuple):
    """An app with a storage, and its callers."""

    app: App
    base: str
    world: World
    tokens: dict[str, str | None]
    facts: dict[str, dict[str, Any] | None]

    @property
    def files(self) -> list[Row]:
        return self.world.tables["files"]

    @property
    def uploaded(self) -> list[Row]:
        """The files without the folders."""
        return [one for one in self.files if one["mime_type"] is not None]

    @property
    def folders(self) -> list[Row]:
        return [one for one in self.files if one["mime_type"] is None]


def file(path: str, size: int, mime_type: str | None, creator: str | None, file_id: str) -> Row:
    """What the oracle knows of a file."""
    folder, _, name = path.rpartition("/")
    segments = {f"segment.{at}": one for at, one in enumerate(folder.split("/") if folder else [])}
    own = {"id": file_id, "$creator": creator, "path": path, "name": name, "folder": folder}
    return own | {"size": size, "mime_type": mime_type, **segments}


@pytest.fixture
async def place(app: App, server: Server) -> Place:
    members = {name: await app.member(name) for name in ("owner", "mate")}
    members["guest"] = await app.guest()
    ids = {name: member["member_id"] for name, member in members.items()}
    facts: dict[str, dict[str, Any] | None] = {
        name: {"id": ids[name], "is_guest": name == "guest", "roles": [], "claims": {}} for name in members
    }
    facts["mate"] |= {"roles": ["helper"], "claims": {"team": "red"}}
    connection = await asyncpg.connect(**databases.address(server.data_dir))
    await connection.execute(
        "update pilotis.members set roles = $1, claims = $2 where app_id = $3 and member_id = $4",
        *(facts["mate"]["roles"], json.dumps(facts["mate"]["claims"]), app.app_id, ids["mate"]),
    )
    await connection.close()
    world = World({"files": [], "seats": [], "bans": [], "documents": []}, frozenset({"id", "file"}))
    tokens: dict[str, str | None] = {name: member["access_token"] for name, member in members.items()}
    tokens["public"] = facts["public"] = None
    seated = {"team": "string", "member": "string"}
    documents = {"file": "uuid", "text": "string", "state": "string", "team": "string"}
    tables = {"seats": seated, "bans": seated, "documents": documents}
    made = {title: await app.table(schema, title=title) for title, schema in tables.items()}

    async def row(title: str, data: dict[str, Any]) -> str:
        row_id = (await app.row(made[title], data))["id"]
        world.tables[title].append(data | {"id": row_id, "$creator": None})
        return row_id

    for team, name in (("red", "mate"), ("blue", "owner"), ("red", "owner")):
        await row("seats", {"team": team, "member": ids[name]})
    await row("bans", {"team": "red", "member": ids["owner"]})
    await row("bans", {"member": ids["mate"]})
    document = await row("documents", {"state": "open", "team": "blue"})
    base = await storage(app)
    files = [
        ("red/a.png", PNG, "image/png", "owner"),
        ("red/deep/b.gif", b"GIF", "image/gif", "mate"),
        (f"{ids['owner']}/c.png", PNG, "image/png", "owner"),
        (f"blue/{document}", b"text", "image/png", "guest"),
        ("top.png", PNG, "image/png", None),
    ]
    for path, data, mime_type, creator in files:
        async with app.client(tokens[creator or "public"]) as client:
            body = {"file_size": len(data), "mime_type": mime_type}
            permitted = (await client.post(f"{base}/presigned-url/path/{path}", json=body)).json()
            async with httpx.AsyncClient(verify=False) as plain:
                await plain.put(permitted["upload_url"], content=data, headers=permitted["headers"])
            done = await client.post(f"{base}/complete-upload", json={"file_id": permitted["file_id"]})
        assert done.status_code == 200, done.text
        own = None if creator is None else ids[creator]
        world.tables["files"].append(file(path, len(data), mime_type, own, done.json()["id"]))
    async with app.client() as client:
        folders = (await client.get(f"{base}/items")).json()["files"]
    creators = {path.split("/")[0]: creator for path, _, _, creator in reversed(files)}
    for item in folders:
        if item["type"] == "folder":
            own = ids[creators.get(item["path"]) or "mate"]
            world.tables["files"].append(file(item["path"], 0, None, own, item["id"]))
    for at, state in ((0, "open"), (1, "closed")):
        found = world.tables["files"][at]["id"]
        await row("documents", {"file": found, "text": found.upper() if at else found, "state": state, "team": "red"})
    return Place(app, base, world, tokens, facts)


async def test_every_file_route_agrees_with_the_oracle(place: Place):
    turn = 0
    for name, rules in RULES.items():
        answer = await save(place.app, place.base, rules)
        assert answer.status_code == 200, (name, answer.text)
        for caller in CALLERS:
            oracle = Oracle(place.world, rules, place.facts[caller])
            turn += 1
            async with place.app.client(place.tokens[caller]) as client:
                checks = [reads(place, oracle, client, turn), uploads(place, oracle, client, caller, turn)]
                try:
                    await asyncio.gather(*checks, deletions(place, oracle, client, turn))
                except AssertionError as error:
                    error.add_note(f"Under the rules {name!r} as {caller}: {rules}")
                    raise


async def reads(place: Place, oracle: Oracle, client: httpx.AsyncClient, turn: int) -> None:
    """Check a list, every link, and by turns what is at a path and signed links."""
    query: dict[str, str] = ({}, {}, {"search": "a.png"}, {"parent_id": "root"})[turn % 4]
    matching = [
        one
        for one in place.files
        if ("search" not in query or "a.png" in one["name"]) and ("parent_id" not in query or not one["folder"])
    ]
    expected = oracle.listed(sorted(matching, key=lambda one: one["path"]))
    answer = await client.get(f"{place.base}/items", params=query)
    if isinstance(expected, Denied):
        assert outcome(answer) == expected, query
    else:
        assert [item["id"] for item in answer.json()["files"]] == [one["id"] for one in expected], query
        assert answer.json()["total_count"] == len(expected)
    for at, one in enumerate(place.uploaded):
        error = of_files(oracle.read(one))
        way = (turn + at) % 4
        if way == 0:
            answer = await client.get(f"{place.base}/path/{one['path']}")
        elif way == 1:
            answer = await client.post(f"{place.base}/items/{one['id']}/signed-url", json={})
        else:
            answer = await client.get(f"/files/{place.base.rpartition('/')[2]}/p/{one['path']}")
        assert outcome(answer) == error, (one, way)
    assert outcome(await client.get(f"{place.base}/path/none.png")) == of_files(oracle.read(None))


def of_files(error: Denied | None) -> Denied | None:
    return Denied(404, "FILE_NOT_FOUND") if error == NOT_FOUND else error


async def uploads(place: Place, oracle: Oracle, client: httpx.AsyncClient, caller: str, turn: int) -> None:
    """Check what may be uploaded where, by asking for URLs; nothing is sent to them."""
    me = (place.facts[caller] or {}).get("id")
    for path, size, mime_type in (("red/new.png", 500, "image/png"), ("new/er.gif", 5, "image/gif")):
        expected = oracle.created(file(path, size, mime_type, me, str(uuid4())))
        body = {"file_size": size, "mime_type": mime_type, "overwrite": True}
        assert outcome(await client.post(f"{place.base}/presigned-url/path/{path}", json=body)) == expected, path
    for at in (turn, turn + 1):
        one = place.uploaded[at % len(place.uploaded)]
        changes = {"size": 500, "mime_type": "image/png"} if turn % 3 else {"size": 5, "mime_type": one["mime_type"]}
        body = {"file_size": changes["size"], "mime_type": changes["mime_type"], "overwrite": True}
        answer = await client.post(f"{place.base}/presigned-url/path/{one['path']}", json=body)
        assert outcome(answer) == replaced(oracle, one, changes, me), (one, changes)


def replaced(oracle: Oracle, one: Row, changes: Row, me: str | None) -> Denied | None:
    """What replacing a file is answered: of a hidden one only that its path is taken, to those who may create."""
    if oracle.read(one) is None:
        return oracle.updated(one, changes)
    new = file(one["path"], changes["size"], changes["mime_type"], me, one["id"])
    return oracle.created(new) or Denied(409, "PATH_TAKEN")


async def deletions(place: Place, oracle: Oracle, client: httpx.AsyncClient, turn: int) -> None:
    """Check the deletion of a folder with something in it, which ends with 409 before anything is deleted."""
    folder = place.folders[turn % len(place.folders)]
    inside = [one for one in place.files if one["path"].startswith(f"{folder['path']}/")]
    expected = of_files(oracle.deleted(folder))
    if expected is None and any(oracle.deleted(one) is not None for one in inside):
        expected = Denied(403, "RULE_DENIED")
    answer = await client.delete(f"{place.base}/items/{folder['id']}")
    assert outcome(answer) == (expected or Denied(409, "FOLDER_NOT_EMPTY")), folder
